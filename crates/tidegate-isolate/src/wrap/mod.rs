//! Wrappers around a call: retries (`retry`, with a `budget`), a second attempt next to a slow
//! first one (`hedge`) and a rate limit (`rate`). Where handlers make the attempts themselves, `attempts` has the decisions of a retry
//! policy; `retries` has them for adapters.
//!
//! A wrapper takes a [`Call`](crate::Call) and a closure. The closure also receives a call. It runs
//! that call in any way, or passes it to the next wrapper. So wrappers nest in any order.
//!
//! # Invariants
//!
//! * The options of the outermost call apply to the whole: its fallback is tried once, after the
//!   last attempt. Timeout, criticality, request and observer also apply to each attempt.
//! * Each attempt is a call of its own: it needs a permit and a ticket, and is counted.
//! * No attempt begins after the isolation was stopped or shut down.
//!
//! This module depends on the commands and on the timer.

mod attempts;
mod budget;
mod hedge;
mod rate;
mod retries;
mod retry;

pub use self::attempts::Attempts;
pub use self::budget::RetryBudget;
pub use self::hedge::Hedge;
pub use self::rate::RateLimit;
pub use self::retries::{Retries, RetryPause};
pub use self::retry::Retry;
