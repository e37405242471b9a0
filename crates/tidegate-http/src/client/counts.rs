//! How many requests were sent on connections that were used before.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::internal::{CachePadded, Counter};
use tidegate_core::{Metric, MetricVisitor};

/// The counters of a client.
#[derive(Debug)]
pub(super) struct Counts {
    /// One for each loop, which alone writes it.
    own: Box<[CachePadded<Own>]>,
    /// Of other threads.
    reused: AtomicU64,
    fresh: AtomicU64,
}

#[derive(Debug, Default)]
struct Own {
    reused: Counter,
    fresh: Counter,
}

impl Counts {
    pub(super) fn new(loops: usize) -> Self {
        Self {
            own: (0..loops).map(|_| CachePadded::default()).collect(),
            reused: AtomicU64::new(0),
            fresh: AtomicU64::new(0),
        }
    }

    /// Counts a request on a connection that was used before or not. `home` is the number of the loop on
    /// which this is called, if it is one of the client's.
    pub(super) fn add(&self, home: Option<usize>, is_reused: bool) {
        match home.and_then(|at| self.own.get(at)) {
            Some(own) if is_reused => own.reused.add(1),
            Some(own) => own.fresh.add(1),
            None => {
                let count = if is_reused { &self.reused } else { &self.fresh };
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let help = "Requests by connection: new, or used before.";
        let metric = Metric::new("tidegate_http_client_requests", help);
        let sum = |of: fn(&Own) -> &Counter| self.own.iter().map(|own| of(own).get()).sum::<u64>();
        let reused = self.reused.load(Ordering::Relaxed) + sum(|own| &own.reused);
        let fresh = self.fresh.load(Ordering::Relaxed) + sum(|own| &own.fresh);
        for (connection, count) in [("reused", reused), ("new", fresh)] {
            visitor.counter(metric, &[("connection", connection)], count as f64);
        }
    }
}
