//! Reactors: what a loop with I/O waits on, and who is told when something is ready.

mod batch;
mod care;
mod pinned;
mod poll_driver;
mod roaming;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use self::care::Care;
#[cfg(test)]
pub(crate) use self::care::{FAILURES, RENEW_AFTER, SPINS};
pub(crate) use self::pinned::{
    Reactor, begin, close, close_one, dispatch, dispatch_few, enter, handles, leave, names,
    register, with,
};
pub use self::poll_driver::{IoWatch, PollDriver};
pub use self::roaming::RoamDriver;
pub(crate) use self::roaming::{OnRegistered, Roam, Update};
pub(crate) use self::source::{Desk, EventSource, Next, SourceHandle};
