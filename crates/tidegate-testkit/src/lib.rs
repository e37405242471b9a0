//! Tools for the integration tests of the workspace: seeded randomness, a model runner, and
//! what scripts threads without sleeping.
//!
//! | To | Use |
//! |---|---|
//! | try random operations that can be repeated | [`Rng`] |
//! | run them for many seeds and learn which one failed | [`model`] |
//! | hold a thread at a point until another has reached its own | [`Gate`] |
//! | count what happened, and wait for the n-th time | [`Counter`] |
//! | record what happened, and in which order | [`Log`] |
//! | see that a value is dropped once and when | [`DropCount`] |
//! | see that a thread survives the drop of a value or of a panic's payload | [`Bomb`], [`explode`] |
//!
//! The environment variable [`SEED_VARIABLE`] repeats a failure. Whatever waits here gives up
//! after [`WATCHDOG`] with a sentence, so a test that hangs fails instead; no other wait depends
//! on real time.
//!
//! Used from `tests/` only: a unit test that reached upward would meet two copies of each type.
//!
//! # Examples
//!
//! ```
//! use tidegate_testkit::{Gate, Log};
//!
//! let (gate, log) = (Gate::new(), Log::new());
//! std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         gate.wait();
//!         log.push("second");
//!     });
//!     log.push("first");
//!     gate.open();
//! });
//! log.assert_order(&["first", "second"]);
//! ```

#![forbid(unsafe_code)]

mod bomb;
mod counter;
mod drop_count;
mod gate;
mod log;
mod model;
mod rng;
mod watched;

pub use bomb::{Bomb, explode};
pub use counter::Counter;
pub use drop_count::DropCount;
pub use gate::Gate;
pub use log::Log;
pub use model::model;
pub use rng::{Rng, SEED_VARIABLE};
pub use watched::WATCHDOG;

#[cfg(test)]
mod tests;
