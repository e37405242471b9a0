//! Integration tests of `tidegate-pool`: what a user of pools, ordered views and strategies can
//! rely on.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod immediate;
mod ordered;
mod pool;
mod strategy;

use std::time::Duration;

use tidegate_testkit::Counter;

/// A second of a manual clock: never waited for.
const SECOND: Duration = Duration::from_secs(1);

/// A task that counts its run.
fn hits(counter: Counter) -> impl FnMut() + Send + 'static {
    move || {
        counter.hit();
    }
}
