//! The limits of a server, as its builder sets them.

use super::builder::ServerBuilder;
use crate::group::ChannelPlacement;

impl<P: ChannelPlacement> ServerBuilder<P> {
    /// Sets the maximum number of open connections, over all listeners and event loops. A connection
    /// above the limit is accepted, closed at once and counted
    /// ([`ServerMetrics::refused_in_total`](crate::ServerMetrics::refused_in_total)), so that its
    /// client does not wait. By default there is no limit.
    ///
    /// ```
    /// use tidegate_net::Server;
    ///
    /// let group = tidegate_net::pinned("io", 2)?;
    /// let server = Server::builder(&group)
    ///     .max_connections(10_000)
    ///     .max_connections_per_peer(100)
    ///     .bind("127.0.0.1:0")
    ///     .wait()?;
    /// assert_eq!(server.metrics().refused_in_total, 0);
    /// # server.stop_accepting().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.limits.connections = Some(connections);
        self
    }

    /// Sets the maximum number of open connections of one peer address, without its port. A
    /// connection above the limit is closed at once and counted
    /// ([`ServerMetrics::refused_per_peer`](crate::ServerMetrics::refused_per_peer)). By default
    /// there is no limit.
    ///
    /// The limit does not apply to Unix sockets, which have no address. Behind a proxy, all clients
    /// have the address of the proxy.
    pub fn max_connections_per_peer(mut self, connections: usize) -> Self {
        self.limits.per_peer = Some(connections);
        self
    }
}
