//! Timeouts between threads.
//!
//! A [`TimeoutCell`] holds a value until its deadline, or until somebody takes it before. A
//! [`TimeoutNode`] is one that travels: a [`TimeoutLane`] carries nodes from any thread to the
//! one that owns the wheel.
#![expect(unsafe_code, reason = "cells are handed between threads by one word")]

mod cell;
mod lane;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub use self::cell::{Fate, Reset, StillPending, TimeoutCell};
pub use self::lane::{TimeoutBatch, TimeoutLane, TimeoutNode};
