//! The metrics of a server, as a snapshot and described for an exporter.

use std::fmt;

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::builder::Server;

/// Metrics of a [`Server`].
///
/// ```
/// use tidegate_net::Server;
///
/// let group = tidegate_net::pinned("io", 1)?;
/// let server = Server::builder(&group).bind("127.0.0.1:0").wait()?;
/// assert_eq!(server.metrics().to_string(), "accepting, connections 0, accepted 0");
/// # server.stop_accepting().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMetrics {
    /// Whether the server accepts connections: it is neither paused nor stopped.
    pub accepting: bool,
    /// Whether a drain was announced or has begun.
    pub draining: bool,
    /// Open connections.
    pub connections: usize,
    /// Connections accepted since the server was bound, without refused ones.
    pub accepted: u64,
    /// Connections refused because of
    /// [`max_connections`](crate::ServerBuilder::max_connections).
    pub refused_in_total: u64,
    /// Connections refused because of
    /// [`max_connections_per_peer`](crate::ServerBuilder::max_connections_per_peer).
    pub refused_per_peer: u64,
    /// Connections refused because their event loop took no more work: its queue was full, or it had
    /// ended.
    pub refused_by_loop: u64,
    /// Bytes that the connections hold: see [`max_memory`](crate::ServerBuilder::max_memory). 0
    /// without that limit, since they are not counted then.
    pub held_bytes: usize,
    /// Connections closed because of [`max_memory`](crate::ServerBuilder::max_memory). Counted at the
    /// close: a connection that closes for another reason before its event loop can close it does not
    /// count.
    pub closed_for_memory: u64,
}

impl fmt::Display for ServerMetrics {
    /// Writes whether the server accepts, its connections, and the other figures that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.accepting {
            true => "accepting",
            false => "not accepting",
        };
        let draining = if self.draining { ", draining" } else { "" };
        let (connections, accepted) = (self.connections, self.accepted);
        write!(
            f,
            "{state}{draining}, connections {connections}, accepted {accepted}"
        )?;
        for (name, figure) in [
            ("refused in total", self.refused_in_total),
            ("refused per peer", self.refused_per_peer),
            ("refused by its loop", self.refused_by_loop),
            ("held bytes", self.held_bytes as u64),
            ("closed for memory", self.closed_for_memory),
        ] {
            if figure > 0 {
                write!(f, ", {name} {figure}")?;
            }
        }
        Ok(())
    }
}

/// The metrics of the server. The label `server` is its listening address, or its path if it listens
/// on a Unix socket.
impl Collect for Server {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let address = self.port.place();
        let labels = [("server", address)];
        let metrics = self.metrics();
        for (name, help, value) in [
            (
                "tidegate_server_accepting",
                "1 while the server accepts connections; 0 if it is paused or stopped.",
                f64::from(u8::from(metrics.accepting)),
            ),
            (
                "tidegate_server_draining",
                "1 if a drain of the server was announced or has begun, else 0.",
                f64::from(u8::from(metrics.draining)),
            ),
            (
                "tidegate_server_connections",
                "Open connections.",
                metrics.connections as f64,
            ),
        ] {
            visitor.gauge(Metric::new(name, help), &labels, value);
        }
        let help = "Bytes that the connections hold, if the server has a limit for them.";
        let held = Metric::new("tidegate_server_held", help).bytes();
        visitor.gauge(held, &labels, metrics.held_bytes as f64);
        let help = "Connections accepted since the server was bound.";
        let accepted = Metric::new("tidegate_server_accepted", help);
        visitor.counter(accepted, &labels, metrics.accepted as f64);
        for (reason, refused) in [
            ("max_connections", metrics.refused_in_total),
            ("max_connections_per_peer", metrics.refused_per_peer),
            ("event_loop", metrics.refused_by_loop),
            ("max_memory", metrics.closed_for_memory),
        ] {
            let help = "Connections that a limit of the server or a full event loop has closed.";
            let metric = Metric::new("tidegate_server_refused", help);
            let labels = [("server", address), ("reason", reason)];
            visitor.counter(metric, &labels, refused as f64);
        }
    }
}
