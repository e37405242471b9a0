//! The settings of a command's metrics: the windows, and whether latencies are recorded.

use std::time::Duration;

use super::window::WindowConfig;

/// The windows of a command's metrics.
///
/// ```
/// use tidegate_isolate::MetricsConfig;
///
/// assert_eq!(MetricsConfig::default().counts.buckets, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The window of the counters.
    pub counts: WindowConfig,
    /// The window of the latencies.
    pub latencies: WindowConfig,
    /// Whether latencies are recorded.
    pub record_latencies: bool,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            counts: WindowConfig::new(Duration::from_secs(10), 10),
            latencies: WindowConfig::new(Duration::from_secs(60), 6),
            record_latencies: true,
        }
    }
}
