//! The metrics of a group of loops with I/O, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};
use tidegate_loop::Placement;

use super::net_group::NetGroup;
use crate::metrics::IoMetrics;

/// The metrics of the loops, and what their channels read and wrote. The label `loop` is the name
/// of a loop.
impl<P: Placement> Collect for NetGroup<P> {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        self.loops().collect(visitor);
        for (event_loop, metrics) in self.loops().iter().zip(self.io_metrics()) {
            describe(&metrics, &[("loop", event_loop.name())], visitor);
        }
    }
}

fn describe(metrics: &IoMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    for (name, help, value) in [
        ("tidegate_io_polls", "Calls of the poller.", metrics.polls),
        (
            "tidegate_io_poll_failures",
            "Polls that failed.",
            metrics.poll_failures,
        ),
        (
            "tidegate_io_events",
            "Events that the poller returned.",
            metrics.events,
        ),
        (
            "tidegate_io_events_stale",
            "Events for sources that were gone.",
            metrics.stale,
        ),
        (
            "tidegate_io_requeued",
            "Times that a source had used up its budget and was queued again.",
            metrics.requeued,
        ),
        (
            "tidegate_io_accepted",
            "Connections accepted.",
            metrics.accepted,
        ),
        (
            "tidegate_io_accept_pauses",
            "Times that accepting paused because no descriptors were left.",
            metrics.accept_pauses,
        ),
        ("tidegate_io_reads", "Receive calls.", metrics.reads),
        ("tidegate_io_writes", "Send calls.", metrics.writes),
        (
            "tidegate_io_messages_unread",
            "Messages that no handler took.",
            metrics.unread,
        ),
        (
            "tidegate_io_datagrams_lost",
            "Datagrams that could not be sent.",
            metrics.lost_datagrams,
        ),
        (
            "tidegate_io_wakeups",
            "Wake-ups of the poller of a roaming loop.",
            metrics.wakeups,
        ),
    ] {
        visitor.counter(Metric::new(name, help), labels, value as f64);
    }
    let read = Metric::new("tidegate_io_read", "Bytes received.").bytes();
    visitor.counter(read, labels, metrics.read_bytes as f64);
    let written = Metric::new("tidegate_io_written", "Bytes sent.").bytes();
    visitor.counter(written, labels, metrics.written_bytes as f64);
    let sockets = Metric::new(
        "tidegate_io_sockets",
        "Sockets and user-defined sources registered now.",
    );
    visitor.gauge(sockets, labels, metrics.registered as f64);
}
