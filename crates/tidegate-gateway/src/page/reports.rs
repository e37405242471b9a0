//! What the gateway tells about its routes, servers, loops and knobs: plain data.

use std::time::Duration;

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
    /// The address, as in the configuration.
    pub address: String,
    /// The weight.
    pub weight: u32,
    /// The requests in flight, over all loops.
    pub in_flight: usize,
    /// The requests that it got since the start, over all loops.
    pub calls: u64,
    /// `true` unless the health checks say that it does not work, or no address of its name is known.
    pub is_up: bool,
    /// `true` unless no address of its name is known.
    pub is_found: bool,
    /// `true` if an operator drains it.
    pub is_draining: bool,
}

impl ServerReport {
    /// Returns `true` if the server gets requests.
    pub(crate) fn takes_requests(&self) -> bool {
        self.is_up && !self.is_draining
    }
}

/// What the gateway knows about a route, and its command does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteReport {
    /// The key of its command.
    pub name: String,
    /// The upstream to which it passes requests on.
    pub upstream: Option<String>,
    /// The retries that are left in its budget; `None` without retries.
    pub budget_left: Option<u64>,
    /// How many requests were refused or failed since the start, by the word of the reason.
    pub reasons: Vec<(&'static str, u64)>,
}

/// An event loop as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopReport {
    /// The name.
    pub name: String,
    /// How long it was awake since the start.
    pub busy: Duration,
    /// How late its timers ran, on average.
    pub late_mean: Duration,
    /// How late its timers ran, at most.
    pub late_max: Duration,
    /// How long its longest task took.
    pub longest: Duration,
    /// The name of that task.
    pub longest_task: Option<String>,
    /// How often it did not respond in time.
    pub stalls: u64,
}

/// Something that an operator can switch, and that is no setting: the faults of the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The name, which the endpoint has.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// What can be chosen.
    pub choices: Vec<String>,
    /// What is chosen now.
    pub value: String,
}
