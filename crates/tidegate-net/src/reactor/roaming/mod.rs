//! Roaming sources: they move to the thread that runs their handlers.
//!
//! `updates` has the state that the loop and those threads share, `roaming_task` moves a few sources
//! there and back, `group_size` says how many, `driver` makes tasks of events.

#[cfg(feature = "roaming")]
mod driver;
#[cfg(feature = "roaming")]
mod group_size;
#[cfg(test)]
#[cfg(feature = "roaming")]
mod group_tests;
mod roaming_task;
#[cfg(test)]
#[cfg(feature = "roaming")]
mod tests;
mod updates;

#[cfg(feature = "roaming")]
pub(crate) use self::driver::RoamingDriver;
pub(crate) use self::roaming_task::running_place;
pub(crate) use self::updates::{OnRegistered, RoamingShared, Update};
