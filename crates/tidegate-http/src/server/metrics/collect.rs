//! Describes the counters of a server for an exporter.

use std::sync::atomic::AtomicU64;

use tidegate_core::{Metric, MetricVisitor};

use super::cell::LoopCell;
use super::{CLASS_NAMES, Counters, get};
use crate::server::trouble::Trouble;

/// What identifies a series: the server, the loop, and one more label.
type Series<'a> = [(&'a str, &'a str); 2];

impl Counters {
    /// Describes the counters of each event loop. `server` is the address of the server.
    pub(crate) fn collect(&self, server: &str, visitor: &mut dyn MetricVisitor) {
        for cell in &self.cells {
            let series = [("server", server), ("loop", cell.name())];
            counters(cell, &series, visitor);
            classes(cell, &series, visitor);
            errors(cell, &series, visitor);
            let closed = get(&cell.closed);
            let open = get(&cell.opened).saturating_sub(closed);
            let metric = Metric::new("tidegate_http_connections", "Connections that are open.");
            visitor.gauge(metric, &series, open as f64);
            let help = "Time from the first byte of a head to its last one.";
            let metric = Metric::new("tidegate_http_head_time", help).seconds();
            let sum = cell.heads.nanos() as f64 / 1e9;
            visitor.histogram(metric, &series, &cell.head_buckets(), sum);
            let help = "Time from the first byte of a request to the end of its response.";
            let metric = Metric::new("tidegate_http_total_time", help).seconds();
            let sum = cell.totals.nanos() as f64 / 1e9;
            visitor.histogram(metric, &series, &cell.totals.buckets(), sum);
        }
    }
}

fn counters(cell: &LoopCell, series: &Series<'_>, visitor: &mut dyn MetricVisitor) {
    let mut counter = |metric: Metric, value: &AtomicU64| {
        visitor.counter(metric, series, get(value) as f64);
    };
    let help = "Requests whose head was complete.";
    counter(Metric::new("tidegate_http_requests", help), &cell.requests);
    let help = "Connections that were opened.";
    counter(
        Metric::new("tidegate_http_connections_opened", help),
        &cell.opened,
    );
    let help = "Bytes that were received.";
    counter(
        Metric::new("tidegate_http_received", help).bytes(),
        &cell.received,
    );
    let help = "Bytes of responses that were written to connections.";
    counter(Metric::new("tidegate_http_sent", help).bytes(), &cell.sent);
}

fn classes(cell: &LoopCell, series: &Series<'_>, visitor: &mut dyn MetricVisitor) {
    let metric = Metric::new("tidegate_http_responses", "Responses by status class.");
    for (class, counter) in CLASS_NAMES.iter().zip(&cell.classes) {
        let labels = [series[0], series[1], ("class", *class)];
        visitor.counter(metric, &labels, get(counter) as f64);
    }
}

/// Describes what went wrong: refusals by reason, and all errors by cause and reason.
fn errors(cell: &LoopCell, series: &Series<'_>, visitor: &mut dyn MetricVisitor) {
    let refused = Metric::new("tidegate_http_refusals", "Refused requests by reason.");
    let help = "Errors by cause (client, service or server) and reason, without refusals.";
    let failed = Metric::new("tidegate_http_errors", help);
    for what in Trouble::all() {
        let number = cell.troubles(what);
        if let Trouble::Refused(_) = what {
            // There are many reasons; those that never occurred are left out.
            if number != 0 {
                let labels = [series[0], series[1], ("reason", what.word())];
                visitor.counter(refused, &labels, number as f64);
            }
        } else {
            let cause = ("cause", what.cause().word());
            let labels = [series[0], series[1], cause, ("reason", what.word())];
            visitor.counter(failed, &labels, number as f64);
        }
    }
}
