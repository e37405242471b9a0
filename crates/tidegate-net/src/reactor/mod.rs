//! Reactors: the part of a loop with I/O that waits on a poller and delivers events to sources.
//!
//! From bottom to top; each file depends only on those before it:
//!
//! * `batch`, with `desk`: sources that are ready together receive and send together.
//! * `source`: the interface of event sources; channels, listeners and user-defined sources
//!   implement it in the layers above.
//! * `care`, `polling`: the poller, and what happens when it fails.
//! * `core`: one reactor for all loops, generic over where its sources live.
//! * `pinned` and `poll_driver`: sources stay on the thread of their loop.
//! * [`roaming`]: sources move to the thread that runs their handlers.
//!
//! Depends on [`events`](crate::events) and [`sys`](crate::sys), and not on channels.

mod batch;
mod care;
mod core;
mod desk;
mod io_watch;
mod pinned;
mod poll_driver;
mod polling;
mod roaming;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use self::batch::Batched;
#[cfg(test)]
pub(crate) use self::care::{FAILURES, RENEW_AFTER, SPINS};
pub(crate) use self::desk::Desk;
pub use self::io_watch::IoWatch;
#[cfg(test)]
pub(crate) use self::pinned::with;
pub(crate) use self::pinned::{begin, dispatch, handles, names, register};
pub use self::poll_driver::PollDriver;
pub use self::roaming::RoamDriver;
pub(crate) use self::roaming::{OnRegistered, Roam, Update};
pub(crate) use self::source::{EventSource, Next, SourceHandle};
