//! What a program does with a running server besides ending it: pausing it, announcing its end,
//! taking its sockets back, and looking at it.

use std::time::Duration;

use tidegate_core::Dump;
use tidegate_promise::{Completion, promise};

use super::builder::Server;
use super::drain::{DrainReport, begin_after};
use super::listener::ListenerShared;
use super::listening::Listener;
use super::metrics::ServerMetrics;
use crate::channel::LimitReached;

impl Server {
    /// Pauses accepting until [`resume_accepting`](Server::resume_accepting). Open connections go
    /// on. New ones wait in the operating system, up to the size of the backlog. Each listener may
    /// still accept one connection with which it is busy now.
    ///
    /// A server that is stopped or drained during the pause accepts the connections that wait, as
    /// always.
    ///
    /// ```
    /// use tidegate_net::Server;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let server = Server::builder(&group).bind("127.0.0.1:0").wait()?;
    /// server.pause_accepting(); // while a dependency is down
    /// assert!(!server.metrics().accepting);
    /// server.resume_accepting();
    /// # server.stop_accepting().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pause_accepting(&self) {
        self.port.set_paused(true);
    }

    /// Ends a pause. Accepts the connections that came meanwhile, and those that come.
    pub fn resume_accepting(&self) {
        self.port.set_paused(false);
        self.listeners.iter().for_each(ListenerShared::look_again);
    }

    /// Stops accepting and returns the listening sockets, in the order in which they were passed in
    /// or bound. Connections that wait to be accepted stay with their socket, for the next server
    /// or process that accepts on it. Open connections stay open; [`drain`](Server::drain) ends
    /// them.
    ///
    /// The sockets are non-blocking. They are returned once: a second call returns none, and so
    /// does one after [`stop_accepting`](Server::stop_accepting) or `drain`, which close them. If
    /// the completion is dropped, they are closed.
    pub fn release_listeners(&self) -> Completion<Vec<Listener>> {
        let (promise, released) = promise();
        self.listeners.iter().for_each(ListenerShared::release);
        self.port.wait_for_listeners(promise);
        released
    }

    /// Announces a drain, and goes on accepting. Notifies the handlers of each connection, and of
    /// each one that comes, with a [`DrainAnnounced`](crate::DrainAnnounced) event. From now on
    /// [`HandlerContext::is_draining`](crate::HandlerContext::is_draining) returns `true`.
    ///
    /// A balancer takes seconds to notice that a server ends, and sends connections until then. So
    /// announce the drain, make the health check fail, respond with `Connection: close`, and
    /// [drain](Server::drain) later; [`drain_after`](Server::drain_after) does the waiting. An
    /// announcement cannot be taken back. Repeated calls have no effect.
    pub fn announce_drain(&self) {
        self.children.announce(self.port.origin());
    }

    /// [Announces](Server::announce_drain) a drain, goes on accepting for `notice`, and then
    /// [drains](Server::drain) with `deadline`, which counts from the end of the notice. Both times
    /// are those of the group's clock. The notice ends early if the server has neither connections
    /// nor listeners any more, for example because its group was shut down or because `drain` was
    /// called meanwhile.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_net::Server;
    ///
    /// let group = tidegate_net::pinned("io", 1)?;
    /// let server = Server::builder(&group).bind("127.0.0.1:0").wait()?;
    /// let (notice, deadline) = (Duration::from_millis(10), Duration::from_secs(30));
    /// let report = server.drain_after(notice, deadline).wait()?;
    /// assert_eq!(report.open, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_after(&self, notice: Duration, deadline: Duration) -> Completion<DrainReport> {
        self.announce_drain();
        let server = self.clone();
        let begin = move || server.drain(deadline);
        match notice.is_zero() {
            true => begin(),
            false => begin_after(notice, self.children.clock(), self.port.origin(), begin),
        }
    }

    /// Returns `true` if a drain was announced or has begun.
    pub fn is_draining(&self) -> bool {
        self.port.origin().is_announced()
    }

    /// Returns the metrics of the server.
    pub fn metrics(&self) -> ServerMetrics {
        let origin = self.port.origin();
        let memory = origin.memory();
        ServerMetrics {
            accepting: !self.port.is_paused() && !self.is_stopped(),
            draining: self.is_draining(),
            connections: origin.live(),
            accepted: origin.accepted(),
            refused_in_total: origin.refused(LimitReached::Connections),
            refused_per_peer: origin.refused(LimitReached::PerPeer),
            refused_by_loop: origin.refused(LimitReached::EventLoop),
            held_bytes: memory.map_or(0, |memory| memory.total()),
            closed_for_memory: memory.map_or(0, |memory| memory.closed()),
        }
    }

    /// Returns the state of the server as a tree: its address, whether it accepts, and the numbers
    /// of its connections. The loops list the connections themselves:
    /// [`dump_within`](tidegate_loop::EventLoopGroup::dump_within) of their group. Never waits.
    pub fn dump(&self) -> Dump {
        let state = if self.port.origin().is_draining() {
            "draining"
        } else if self.is_stopped() {
            "stopped"
        } else if self.port.is_paused() {
            "paused"
        } else if self.is_draining() {
            "accepting, drain announced"
        } else {
            "accepting"
        };
        let metrics = self.metrics();
        Dump::new("server", self.port.place())
            .fact("state", state)
            .fact("listeners", self.listeners.len())
            .fact("connections", metrics.connections)
            .fact("accepted", metrics.accepted)
            .fact("refused_in_total", metrics.refused_in_total)
            .fact("refused_per_peer", metrics.refused_per_peer)
            .fact("refused_by_loop", metrics.refused_by_loop)
            .fact("held_bytes", metrics.held_bytes)
            .fact("closed_for_memory", metrics.closed_for_memory)
    }

    fn is_stopped(&self) -> bool {
        self.closed().is_done()
    }
}
