//! Sources that travel to the thread that runs their handlers.

mod driver;
#[cfg(test)]
mod tests;
mod trip;
mod updates;

pub use self::driver::RoamDriver;
pub(crate) use self::updates::{OnRegistered, Roam, Update};
