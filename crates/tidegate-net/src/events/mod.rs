//! Events on their way from the poller to their sources: the queue in which they wait, and the
//! table of the sources that they are for.
//!
//! Knows only [`sys`](crate::sys), where the poller is.

mod queue;
mod slab;

pub(crate) use self::queue::EventQueue;
pub(crate) use self::slab::{Slab, Taken};
