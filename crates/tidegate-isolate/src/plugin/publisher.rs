//! Publishers of metrics: told of keys that come and go.

use crate::key::Key;

/// Hears of keys that come and go, once each, to publish their metrics.
pub trait MetricsPublisher: Send + Sync + 'static {
    /// The first command of this key was built.
    fn added(&self, command: &Key);

    /// The key was removed.
    fn removed(&self, command: &Key) {
        let _ = command;
    }
}
