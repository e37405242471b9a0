//! The unsafe code of the timers.
//!
//! * `timeout`: timeouts that several threads share ([`TimeoutCell`]).
//! * `memory`: memory for large wheels, on huge pages of the operating system ([`HugePageArena`]).
//!
//! Neither module uses the other.
#![expect(
    unsafe_code,
    reason = "cells handed between threads by one word, and memory that is laid out by hand"
)]

mod memory;
mod timeout;

pub use self::memory::{ArenaArray, HugePageArena};
pub use self::timeout::{Reset, StillPending, TimeoutCell, TimeoutOutcome};
