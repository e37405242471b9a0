//! Reactors: the part of a loop with I/O that waits on a poller and delivers events to sources.
//!
//! From bottom to top; each file depends only on those before it:
//!
//! * `batch`, with `io_context`: sources that are ready together receive and send together.
//! * `source`: the interface of event sources; channels, listeners and user-defined sources
//!   implement it in the layers above.
//! * `polling`: the poller, and what happens when it fails.
//! * `core`: one reactor for all loops, generic over where its sources live.
//! * `pinned` and `poll_driver`: sources stay on the thread of their loop.
//! * [`roaming`]: sources move to the thread that runs their handlers.
//!
//! Depends on [`events`](crate::events) and [`sys`](crate::sys), and not on channels.

mod batch;
mod core;
mod io_context;
mod io_watch;
mod pinned;
mod poll_driver;
mod polling;
mod roaming;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use self::batch::{Batched, TakenWrite};
pub(crate) use self::io_context::IoContext;
pub(crate) use self::io_watch::IoWatch;
#[cfg(test)]
pub(crate) use self::pinned::with;
pub(crate) use self::pinned::{
    begin, dispatch, give_turn, handles, names, pass_to_neighbour, register, write_to_neighbour,
};
pub(crate) use self::poll_driver::PollDriver;
#[cfg(test)]
pub(crate) use self::polling::FAILURES;
#[cfg(feature = "roaming")]
pub(crate) use self::roaming::RoamingDriver;
pub(crate) use self::roaming::{OnRegistered, RoamingShared, Update, running_place};
pub(crate) use self::source::{IoHandle, IoSource, Next};
