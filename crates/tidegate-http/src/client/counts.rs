//! How many requests were sent on connections that were used before.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Metric, MetricVisitor};

/// The counters of a client.
#[derive(Debug, Default)]
pub(super) struct Counts {
    reused: AtomicU64,
    fresh: AtomicU64,
}

impl Counts {
    /// Counts a request on a connection that was used before.
    pub(super) fn reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request on a new connection.
    pub(super) fn fresh(&self) {
        self.fresh.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let help = "Requests by connection: new, or used before.";
        let metric = Metric::new("tidegate_http_client_requests", help);
        let all = [("reused", &self.reused), ("new", &self.fresh)];
        for (connection, count) in all {
            let count = count.load(Ordering::Relaxed) as f64;
            visitor.counter(metric, &[("connection", connection)], count);
        }
    }
}
