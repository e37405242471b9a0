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

    /// Sets the maximum number of bytes that all connections of the server hold together. Above it,
    /// the connections that hold most are closed with a
    /// [`NetError::ServerMemoryFull`](crate::NetError::ServerMemoryFull), until the others are
    /// within the limit. They are counted
    /// ([`ServerMetrics::closed_for_memory`](crate::ServerMetrics::closed_for_memory)) and reported
    /// to the hook for unhandled errors. By default there is no limit.
    ///
    /// What counts is what the [`WaterMarks`](crate::WaterMarks) of a connection count, that is bytes
    /// that wait to be sent and bytes that handlers [hold](crate::HandlerContext::hold), and
    /// [received bytes](crate::HandlerContext::hold_input) that decoders keep. Buffers of the
    /// operating system and of TLS do not count.
    ///
    /// The count is exact at the end of each turn of a connection. Between two turns, less than 4
    /// KiB per connection may be missing, and what its handlers write in the current turn. The
    /// memory of a closed connection is free when its event loop has closed it.
    ///
    /// ```
    /// use tidegate_net::Server;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let server = Server::builder(&group).max_memory(1 << 30).bind("127.0.0.1:0").wait()?;
    /// assert_eq!(server.metrics().held_bytes, 0);
    /// # server.stop_accepting().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_memory(mut self, bytes: usize) -> Self {
        self.limits.memory = Some(bytes);
        self
    }
}
