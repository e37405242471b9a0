//! The metrics of a gateway: listeners, problems of routes, servers. The commands of routes are
//! described by the isolation.

use tidegate::metrics::{Collect, Metric, MetricVisitor};

use super::gateway::Gateway;
use super::retired::collect_retired;
use crate::admin::ServerReport;

/// The metrics of listeners, routes and servers. The labels are `server`, the address of the
/// listener; `route` and `reason`; or `upstream` and `server`.
impl Collect for Gateway {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        for open in self.listening() {
            let server = &open.address();
            let mut named = Named { server, visitor };
            open.server.collect(&mut named);
            open.server.server().collect(&mut named);
        }
        collect_retired(&self.retired(), visitor);
        let live = self.live();
        for (route, counts) in live.problems() {
            for (reason, count) in counts.get() {
                let help =
                    "Requests that were refused or failed, by the reason that the client got.";
                let metric = Metric::new("tidegate_route_problems", help);
                let labels = [("route", route), ("reason", reason.word())];
                visitor.counter(metric, &labels, count as f64);
            }
        }
        for upstream in live.report() {
            for server in &upstream.servers {
                collect_server(&upstream.name, server, visitor);
            }
        }
    }
}

fn collect_server(upstream: &str, server: &ServerReport, visitor: &mut dyn MetricVisitor) {
    let labels = [("upstream", upstream), ("server", &*server.address)];
    let flag = |on: bool| f64::from(u8::from(on));
    for (name, help, value) in [
        (
            "tidegate_upstream_in_flight",
            "Requests in flight to the server.",
            server.in_flight as f64,
        ),
        (
            "tidegate_upstream_up",
            "1 unless the health checks say that the server does not work, or its name is not found.",
            flag(server.is_up),
        ),
        (
            "tidegate_upstream_draining",
            "1 if an operator drains the server.",
            flag(server.is_draining),
        ),
    ] {
        visitor.gauge(Metric::new(name, help), &labels, value);
    }
}

/// Writes the address of a listener as the label `server`: all Unix sockets have the same one
/// otherwise.
struct Named<'a> {
    server: &'a str,
    visitor: &'a mut dyn MetricVisitor,
}

impl<'a> Named<'a> {
    fn labels<'l>(&self, labels: &[(&'l str, &'l str)]) -> Vec<(&'l str, &'l str)>
    where
        'a: 'l,
    {
        let named = |(name, value): &(&'l str, &'l str)| match *name {
            "server" => (*name, self.server),
            _ => (*name, *value),
        };
        labels.iter().map(named).collect()
    }
}

impl MetricVisitor for Named<'_> {
    fn counter(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        let labels = self.labels(labels);
        self.visitor.counter(metric, &labels, value);
    }

    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        let labels = self.labels(labels);
        self.visitor.gauge(metric, &labels, value);
    }

    fn histogram(
        &mut self,
        metric: Metric,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        sum: f64,
    ) {
        let labels = self.labels(labels);
        self.visitor.histogram(metric, &labels, buckets, sum);
    }
}
