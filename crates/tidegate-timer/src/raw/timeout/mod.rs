//! Timeouts shared between threads: any thread may set, reset or cancel one; the owner of the wheel
//! expires it.
//!
//! `cell` has [`TimeoutCell`], a value with a deadline; one atomic word decides its outcome.

mod cell;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub use self::cell::{Reset, StillPending, TimeoutCell, TimeoutOutcome};
