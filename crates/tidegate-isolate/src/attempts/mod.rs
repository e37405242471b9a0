//! Several attempts of one call: one after the other (`retry`), or a second one beside a slow first
//! (`hedge`).
//!
//! Each attempt is a call of its own, without a fallback; that is tried after the last. Knows
//! commands and the timer.

mod hedge;
mod retry;

pub use self::hedge::{Hedge, RunHedged};
pub use self::retry::{Retry, RetryBudget};
