//! Limits of time and use of a connection.

use std::time::Duration;

/// Limits of time and use of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    pub(super) head_timeout: Duration,
    pub(super) body_timeout: Duration,
    pub(super) idle: Duration,
    pub(super) max_age: Duration,
    pub(super) max_requests: u64,
}

impl ConnectionLimits {
    /// Returns the limits of connection `id`: age and number of requests are up to a tenth lower
    /// than set, so that connections that were made together do not end together.
    pub(super) fn with_jitter(mut self, id: u64) -> Self {
        // A fixed mix of the bits: spread, and the same in every run.
        let part = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u32;
        self.max_age -= self.max_age / 10 * part / 256;
        self.max_requests -= self.max_requests / 10 * u64::from(part) / 256;
        self.max_requests = self.max_requests.max(1);
        self
    }
}
