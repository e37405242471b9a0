//! Where the parts of a gateway report: changes, problems, lines of the access log.

use std::sync::Arc;
use std::time::SystemTime;

use tidegate::Clock;

use crate::access::AccessLog;
use crate::admin::{Events, WallTime};
use crate::problem::Problems;

/// Where the parts of a gateway report. Clones report to the same places.
///
/// ```
/// use tidegate::Clock;
/// use tidegate_gateway::Reports;
///
/// let reports = Reports::new(Clock::system());
/// reports.change("health", "upstream.shop 10.0.0.1:80 is down");
/// assert_eq!(reports.events.latest()[0].origin, "health");
/// ```
#[derive(Clone)]
pub struct Reports {
    /// The changes of the gateway's state.
    pub events: Arc<Events>,
    /// The problems.
    pub problems: Arc<Problems>,
    /// The access log, if there is one.
    pub log: Option<AccessLog>,
    /// The time of changes and lines.
    pub wall: WallTime,
}

impl Reports {
    /// Creates reports without an access log. The clock limits how often a problem is reported.
    pub fn new(clock: Clock) -> Self {
        Self {
            events: Arc::default(),
            problems: Arc::new(Problems::new(clock)),
            log: None,
            wall: Arc::new(SystemTime::now),
        }
    }

    /// Reports a change. The text must not contain a secret.
    pub fn change(&self, origin: impl Into<String>, what: impl Into<String>) {
        self.events.add((self.wall)(), origin, what);
    }
}

tidegate_core::debug_fields!(Reports, this => log: this.log);
