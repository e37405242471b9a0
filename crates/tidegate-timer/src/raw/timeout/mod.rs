//! Timeouts shared between threads: any thread may set, reset or cancel one; the owner of the wheel
//! expires it.
//!
//! * `cell`: [`TimeoutCell`], a value with a deadline; one atomic word decides its outcome.
//! * `lane`: [`TimeoutNode`], a cell that can be queued, and [`TimeoutLane`], the queue that passes
//!   nodes to the thread that owns the wheel.
//!
//! `lane` uses `cell`; neither uses a wheel.

mod cell;
mod lane;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub use self::cell::{Reset, StillPending, TimeoutCell, TimeoutOutcome};
pub use self::lane::{TimeoutBatch, TimeoutLane, TimeoutNode};
