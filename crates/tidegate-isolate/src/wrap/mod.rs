//! Wrappers around a call: retries (`retry`, with a `budget`), a second attempt next to a slow first
//! one (`hedge`), a run that equal calls of a request share (`cache`) and a rate limit (`rate`).
//!
//! A wrapper takes a [`Call`](crate::Call) and a closure. The closure gets a call too, and makes it in
//! whatever way it likes, or hands it to the next wrapper: so wrappers nest in any order.
//!
//! # Invariants
//!
//! * What was said on the outermost call holds for the whole: its fallback is tried once, after the
//!   last attempt. Timeout, criticality, request and observer also hold for each attempt.
//! * Each attempt is a call of its own: it needs a permit and a ticket, and is counted.
//! * No attempt begins after the isolation was stopped or shut down.
//!
//! Knows commands and the timer.

mod budget;
mod cache;
mod hedge;
mod rate;
mod retry;

pub use self::budget::RetryBudget;
pub use self::cache::RequestCache;
pub use self::hedge::Hedge;
pub use self::rate::RateLimit;
pub use self::retry::Retry;
