//! Sources that travel to the thread that runs their handlers.
//!
//! `updates` is what the loop and those threads share, `trip` takes a source there and back, `driver`
//! makes a task of each event.

mod driver;
#[cfg(test)]
mod tests;
mod trip;
mod updates;

pub use self::driver::RoamDriver;
pub(crate) use self::updates::{OnRegistered, Roam, Update};
