//! Roaming sources: they move to the thread that runs their handlers.
//!
//! `updates` has the state that the loop and those threads share, `roaming_task` moves a source
//! there and back, `driver` makes a task of each event.

#[cfg(feature = "roaming")]
mod driver;
mod roaming_task;
#[cfg(test)]
#[cfg(feature = "roaming")]
mod tests;
mod updates;

#[cfg(feature = "roaming")]
pub(crate) use self::driver::RoamingDriver;
pub(crate) use self::updates::{OnRegistered, RoamingShared, Update};
