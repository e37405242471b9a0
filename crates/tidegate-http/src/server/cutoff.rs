//! Tells deferred responses that their connection takes them no more, before it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the first response that a connection takes no more. Responses have an order, so
/// that one number stands for all that were given up.
#[derive(Clone, Debug)]
pub(crate) struct Cutoff(Arc<AtomicU64>);

impl Default for Cutoff {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Cutoff {
    /// Gives up the response `seq` and all behind it.
    pub(crate) fn give_up_from(&self, seq: u64) {
        self.0.fetch_min(seq, Ordering::Relaxed);
    }

    /// Returns `true` if the response `seq` is given up.
    pub(crate) fn has_passed(&self, seq: u64) -> bool {
        seq >= self.0.load(Ordering::Relaxed)
    }
}
