//! Integration tests of `tidegate-pool`: guarantees to users of pools, ordered views and
//! strategies.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod combined_ends;
mod immediate;
mod ordered;
mod pool;
mod schedule;
mod strategy;
mod waits;

use std::time::Duration;

/// One second of a manual clock; no test waits for it.
const SECOND: Duration = Duration::from_secs(1);
