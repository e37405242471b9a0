//! Events on their way from the poller to their sources: the queue of events, and the table of
//! sources.
//!
//! Depends only on [`sys`](crate::sys), which has the poller.

mod queue;
mod slab;

pub(crate) use self::queue::EventQueue;
pub(crate) use self::slab::{Slab, Taken};
