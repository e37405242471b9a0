//! What the gateway shows to operators, and what they can change.

use tidegate::Dump;
use tidegate::isolate::{Isolation, Properties};

pub use crate::page::{Knob, LoopReport, RouteReport, ServerReport, UpstreamReport};

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

    /// Returns what the gateway knows about routes, and their commands do not.
    fn routes(&self) -> Vec<RouteReport> {
        Vec::new()
    }

    /// Returns the event loops.
    fn loops(&self) -> Vec<LoopReport> {
        Vec::new()
    }

    /// Returns what can be switched besides settings: the faults of the demo.
    fn knobs(&self) -> Vec<Knob> {
        Vec::new()
    }

    /// Switches a knob. Returns what was done.
    ///
    /// # Errors
    ///
    /// There is no such knob or choice.
    fn turn(&self, knob: &str, choice: &str) -> Result<String, String> {
        Err(format!("there is no knob `{knob}` with `{choice}`"))
    }

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
