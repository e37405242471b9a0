//! Points in time as numbers: nanoseconds since the process first read the time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Converts a duration to nanoseconds, saturating.
pub fn as_nanos(duration: Duration) -> u64 {
    let whole = duration.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(duration.subsec_nanos()))
}

/// Returns the origin of the system clock's nanoseconds: the time of the first call in the process.
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
