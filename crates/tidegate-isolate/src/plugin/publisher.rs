//! Publishers of metrics: notified when keys are added and removed.

use crate::key::Key;

/// Is notified once when a key is added and once when it is removed, to publish its metrics.
pub trait MetricsPublisher: Send + Sync + 'static {
    /// Called after the first command of this key was built.
    fn added(&self, command: &Key);

    /// Called after the key was removed.
    fn removed(&self, command: &Key) {
        let _ = command;
    }
}
