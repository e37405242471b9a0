//! Listeners that a reload has replaced or removed. They accept no more; their connections end under
//! the old configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate::http::HttpServer;
use tidegate::metrics::{Metric, MetricVisitor};

use super::listener::Listening;

/// The connections of a listener that accepts no more.
#[derive(Clone)]
pub(super) struct Retired {
    /// The address on which clients reached the listener.
    pub(super) address: String,
    pub(super) server: HttpServer,
}

impl Retired {
    pub(super) fn new(open: &Arc<Listening>) -> Self {
        Self {
            address: open.address(),
            server: open.server.clone(),
        }
    }

    /// Returns `true` if no connection is left, and none can come.
    pub(super) fn is_over(&self) -> bool {
        self.server.closed().is_done() && self.server.server().connections() == 0
    }
}

/// Describes how many connections are left. Several listeners of one address may have been replaced:
/// their connections are added.
pub(super) fn collect_retired(retired: &[Retired], visitor: &mut dyn MetricVisitor) {
    let mut sums = BTreeMap::<&str, usize>::new();
    for old in retired {
        *sums.entry(&old.address).or_default() += old.server.server().connections();
    }
    let help = "Open connections of listeners that a reload has replaced or removed.";
    for (server, open) in sums {
        let metric = Metric::new("tidegate_server_old_connections", help);
        visitor.gauge(metric, &[("server", server)], open as f64);
    }
}
