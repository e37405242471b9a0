//! Moments as numbers: nanoseconds since the process first asked for the time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A duration in nanoseconds, saturating.
pub fn as_nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(duration.subsec_nanos()))
}

/// Where the system clock's nanoseconds start: near 0 when the process first asks.
pub(crate) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(system_now)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the system clock is read"
)]
pub(super) fn system_now() -> Instant {
    Instant::now()
}
