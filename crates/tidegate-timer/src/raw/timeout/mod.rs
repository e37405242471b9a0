//! Timeouts between threads: set, reset and cancelled by any thread, expired by the wheel's owner.
//!
//! * `cell`: [`TimeoutCell`], a value with a deadline whose fate is decided by one word.
//! * `lane`: [`TimeoutNode`], a cell that can travel, and [`TimeoutLane`], which carries nodes to
//!   the thread that owns the wheel.
//!
//! `lane` knows `cell`; neither knows a wheel.

mod cell;
mod lane;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub use self::cell::{Fate, Reset, StillPending, TimeoutCell};
pub use self::lane::{TimeoutBatch, TimeoutLane, TimeoutNode};
