//! Roaming sources: they move to the thread that runs their handlers.
//!
//! `updates` has the state that the loop and those threads share, `trip` moves a source there and
//! back, `driver` makes a task of each event.

mod driver;
#[cfg(test)]
mod tests;
mod trip;
mod updates;

pub use self::driver::RoamDriver;
pub(crate) use self::updates::{OnRegistered, Roam, Update};
