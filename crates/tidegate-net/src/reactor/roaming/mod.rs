//! Roaming sources: they move to the thread that runs their handlers.
//!
//! `updates` has the state that the loop and those threads share, `roaming_task` moves a source
//! there and back, `driver` makes a task of each event.

mod driver;
mod roaming_task;
#[cfg(test)]
mod tests;
mod updates;

pub(crate) use self::driver::RoamingDriver;
pub(crate) use self::updates::{OnRegistered, RoamingShared, Update};
