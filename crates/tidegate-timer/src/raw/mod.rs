//! The unsafe code of the timers: timeouts between threads, and memory for large wheels.
//!
//! * [`TimeoutCell`] holds a value until its deadline, or until a thread takes it before. Its fate
//!   is decided by one word.
//! * [`TimeoutNode`] is a cell that can travel; [`TimeoutLane`] carries nodes from any thread to
//!   the thread that owns the wheel.
//! * [`Yard`] is memory for arrays that are large and used at random, on large pages of the system.
#![expect(
    unsafe_code,
    reason = "cells handed between threads by one word, and memory that is laid out by hand"
)]

mod cell;
mod lane;
mod pages;
#[cfg(all(test, not(tidegate_loom)))]
mod timeout_tests;
mod yard;

pub use self::cell::{Fate, Reset, StillPending, TimeoutCell};
pub use self::lane::{TimeoutBatch, TimeoutLane, TimeoutNode};
pub use self::yard::{Plot, Yard};
