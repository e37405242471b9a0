//! What the gateway shows to operators, and what they can change.

use tidegate::Dump;
use tidegate::isolate::{Isolation, Properties};

/// The part of a gateway that the listener for operators uses.
///
/// # Threads
///
/// [`Controls::is_ready`] is called on the loop of the listener and must not block. All other methods
/// are called on threads that may block.
pub trait Controls: Send + Sync + 'static {
    /// Returns `true` if the gateway takes requests, and `false` from the moment at which a drain
    /// is announced.
    fn is_ready(&self) -> bool;

    /// Returns the isolation whose commands are the routes. It reads [`Controls::properties`].
    fn isolation(&self) -> &Isolation;

    /// Returns the properties that can be changed while the gateway runs.
    fn properties(&self) -> &Properties;

    /// Returns the upstreams and their servers.
    fn upstreams(&self) -> Vec<UpstreamReport>;

    /// Drains a server, or ends its drain. Returns `false` if there is no such server.
    fn drain_server(&self, upstream: &str, server: &str, draining: bool) -> bool;

    /// Reads the configuration again. Returns notes about what takes effect only later.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without secrets. The old configuration stays in force.
    fn reload(&self) -> Result<Vec<String>, String>;

    /// Returns what each loop, pool and listener holds.
    fn dump(&self) -> Dump;
}

/// An upstream as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamReport {
    /// The name.
    pub name: String,
    /// The servers.
    pub servers: Vec<ServerReport>,
}

/// A server as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// The address, as in the configuration. A text with variables is shown as it is in the file.
    pub address: String,
    /// The weight.
    pub weight: u32,
    /// The requests in flight, over all loops.
    pub in_flight: usize,
    /// `true` unless the health checks say that it does not work.
    pub is_up: bool,
    /// `true` if an operator drains it.
    pub is_draining: bool,
}
