//! Tools for the integration tests of the workspace: seeded randomness, a model runner, and
//! what scripts threads without sleeping.
//!
//! | To | Use |
//! |---|---|
//! | try random operations that can be repeated | [`Rng`] |
//! | run them for many seeds and learn which one failed | [`model`] |
//! | run longer at night, and shorter where each step is slow | [`short_or_long`], [`rounds`] |
//! | hold a thread at a point until another has reached its own | [`Gate`] |
//! | count what happened, and wait for the n-th time | [`Counter`] |
//! | record what happened, and in which order | [`Log`] |
//! | wait for a condition that none of these reports | [`until`], [`until_some`] |
//! | wait for a future | [`block_on`] |
//! | let other threads run for a moment | [`yield_times`], [`spin_times`] |
//! | see that a value is dropped once and when | [`DropCount`] |
//! | see that a thread survives the drop of a value or of a panic's payload | [`Bomb`], [`explode`] |
//!
//! The environment variable [`SEED_VARIABLE`] repeats a failure. Whatever waits here gives up
//! after [`WATCHDOG`] with a sentence, so a test that hangs fails instead; no other wait depends
//! on real time.
//!
//! This crate depends on no other crate of the workspace, so that the unit tests of each of them
//! can use it too. `cargo xtask tidy` refuses tests that yield or spin in loops of their own.
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
mod length;
mod log;
mod model;
mod rng;
mod waiting;
mod watched;

pub use bomb::{Bomb, explode};
pub use counter::Counter;
pub use drop_count::DropCount;
pub use gate::Gate;
pub use length::{LONG_VARIABLE, SMALL_VARIABLE, rounds, short_or_long};
pub use log::Log;
pub use model::model;
pub use rng::{Rng, SEED_VARIABLE};
pub use waiting::{block_on, spin_times, until, until_some, yield_times};
pub use watched::WATCHDOG;

#[cfg(test)]
mod tests;
