//! The metrics of a server, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::builder::Server;

/// The connections of the server. The label `server` is its listening address.
impl Collect for Server {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let address = self.local_addr().to_string();
        let labels = [("server", address.as_str())];
        let open = Metric::new("tidegate_server_connections", "Open connections.");
        visitor.gauge(open, &labels, self.connections() as f64);
        let help = "Connections accepted since the server was bound.";
        let accepted = Metric::new("tidegate_server_accepted", help);
        visitor.counter(accepted, &labels, self.accepted() as f64);
    }
}
