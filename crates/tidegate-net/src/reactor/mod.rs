//! Reactors: what a loop with I/O waits on, and the sources that it tells when something is ready.
//!
//! From bottom to top, each file knows only those before it:
//!
//! * `batch`, with `desk`: sources that are ready together receive and send together.
//! * `source`: what is told; channels, listeners and sources of the user's, in the layers above.
//! * `care`, `polling`: the poller, and what is done when it fails.
//! * `core`: one reactor for all loops, parametrised by where its sources live.
//! * `pinned` and `poll_driver`: its sources stay on the thread of their loop.
//! * [`roaming`]: its sources travel to the thread that runs their handlers.
//!
//! Knows [`events`](crate::events) and [`sys`](crate::sys), and nothing of channels.

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
