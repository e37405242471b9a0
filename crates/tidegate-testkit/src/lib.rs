//! Tools for the tests of the workspace: seeded random numbers, a model runner, and primitives
//! that coordinate threads without sleeping.
//!
//! | To | Use |
//! |---|---|
//! | test random operations reproducibly | [`Rng`] |
//! | run them for many seeds and report the seed that failed | [`model`] |
//! | run longer at night, and shorter where each step is slow | [`short_or_long`], [`rounds`] |
//! | hold a thread at a point until another has reached its own | [`Gate`] |
//! | count events, and wait for the n-th | [`Counter`] |
//! | record events in order | [`Log`] |
//! | have a closure that opens a gate, waits at it, counts or records | [`Gate::opens`], [`Gate::waits`], [`Counter::hits`], [`Log::pushes`] |
//! | receive events and spans of `tracing` | [`Recorder`] |
//! | wait for a condition that none of these reports | [`until`], [`until_some`] |
//! | wait for a future | [`block_on`] |
//! | let other threads run for a moment | [`yield_times`], [`spin_times`] |
//! | check that a value is dropped once, and when | [`DropCount`] |
//! | check the parts of a text, which is shown if one is missing | [`has`], [`lacks`], [`begins`] |
//! | have files that are removed at the end | [`Folder`] |
//! | check that each closure ends once, and that each waiter hears of it | [`Tally`] |
//! | check that a thread survives a panic in a `Drop` | [`Bomb`], [`explode`] |
//!
//! The environment variable [`SEED_VARIABLE`] reproduces a failure. Every wait in this crate
//! panics with a message after [`WATCHDOG`], so that a test that hangs fails instead. No wait
//! depends on real time otherwise.
//!
//! This crate depends on no other crate of the workspace, so that the unit tests of each of them
//! can use it too. `cargo xtask tidy` rejects tests that yield or spin in their own loops.
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
mod folder;
mod gate;
mod length;
mod log;
mod model;
mod recorder;
mod rng;
mod tally;
mod texts;
mod waiting;
mod watched;

pub use bomb::{Bomb, explode};
pub use counter::Counter;
pub use drop_count::DropCount;
pub use folder::Folder;
pub use gate::{Gate, Stop};
pub use length::{LONG_VARIABLE, SMALL_VARIABLE, rounds, short_or_long};
pub use log::Log;
pub use model::model;
pub use recorder::{RecordedEvent, RecordedSpan, Recorder};
pub use rng::{Rng, SEED_VARIABLE};
pub use tally::Tally;
pub use texts::{begins, has, lacks};
pub use waiting::{block_on, spin_times, until, until_some, yield_times};
pub use watched::WATCHDOG;

#[cfg(test)]
mod tests;
