//! What the gateway shows to operators, and what they can change.

use tidegate::Dump;
use tidegate::isolate::{Isolation, Properties};

use crate::json::{Object, quoted};
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

    /// Returns the properties that the isolation reads. An order for a breaker is a property.
    fn properties(&self) -> &Properties;

    /// Returns the settings of routes that can be set, of all routes or of one.
    fn settings(&self, route: Option<&str>) -> Vec<SettingReport>;

    /// Sets a setting to a value in the notation of the file. `None` gives it the value of the file again.
    ///
    /// # Errors
    ///
    /// Why it is not set. Nothing has changed then.
    fn set(&self, path: &str, value: Option<&str>) -> Result<(), SetError>;

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

/// A setting of a route that can be set while the gateway runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingReport {
    /// The setting, such as `route.cart.limit.max`.
    pub path: String,
    /// The value in force, in the notation of the file.
    pub value: String,
    /// Where it comes from: a place in a file, `default`, or [`OPERATOR`](Self::OPERATOR).
    pub origin: String,
    /// Why it has no effect although an operator has set it.
    pub without_effect: Option<&'static str>,
}

impl SettingReport {
    /// The origin of a setting that an operator has set.
    pub const OPERATOR: &'static str = "operator";

    pub(super) fn to_json(&self) -> String {
        Object::new()
            .text("path", &self.path)
            .text("value", &self.value)
            .text("origin", &self.origin)
            .optional("without_effect", self.without_effect.map(quoted))
            .end()
    }
}

/// Why a setting is not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The value is wrong, or there is no such setting.
    #[error("{0}")]
    Refused(String),
    /// No operator has set it.
    #[error("it is not set")]
    NotSet,
    /// A reload is in progress.
    #[error("a reload is in progress: try again when it has ended")]
    Busy,
}

impl SetError {
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Refused(_) => 422,
            Self::NotSet => 404,
            Self::Busy => 409,
        }
    }
}
