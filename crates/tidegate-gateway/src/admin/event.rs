//! What operators have changed, with time and origin.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::json::{Object, array};

/// The number of changes that are kept.
const KEPT: usize = 256;

/// A change of the state of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When it was made.
    pub at: SystemTime,
    /// What made it, such as `admin 127.0.0.1:4711` or `health`.
    pub origin: String,
    /// What was changed. It contains no secret.
    pub what: String,
}

/// The latest changes. Each is also an event for `tracing`.
///
/// ```
/// use std::time::SystemTime;
/// use tidegate_gateway::admin::Events;
///
/// let events = Events::default();
/// events.add(SystemTime::now(), "health", "upstream.shop 10.0.0.1:80 is down");
/// assert_eq!(events.latest()[0].origin, "health");
/// ```
#[derive(Debug, Default)]
pub struct Events {
    changes: Mutex<VecDeque<Change>>,
}

impl Events {
    /// Adds a change. The oldest one is forgotten if there are many.
    pub fn add(&self, at: SystemTime, origin: impl Into<String>, what: impl Into<String>) {
        let change = Change {
            at,
            origin: origin.into(),
            what: what.into(),
        };
        tracing::info!(target: "tidegate", origin = change.origin, "{}", change.what);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() == KEPT {
            changes.pop_front();
        }
        changes.push_back(change);
    }

    /// Returns the latest changes, the last one first.
    pub fn latest(&self) -> Vec<Change> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.iter().rev().cloned().collect()
    }

    /// Returns the latest changes as JSON.
    pub(super) fn to_json(&self) -> String {
        let changes = self.latest();
        array(changes.iter().map(|change| {
            let since = change.at.duration_since(SystemTime::UNIX_EPOCH);
            Object::new()
                .raw("time_ms", since.unwrap_or_default().as_millis())
                .text("origin", &change.origin)
                .text("what", &change.what)
                .end()
        }))
    }
}

#[cfg(test)]
mod tests {
    //! The list of changes.

    use std::time::{Duration, SystemTime};

    use super::{Events, KEPT};

    #[test]
    fn the_latest_changes_are_kept_with_time_and_origin() {
        let events = Events::default();
        for number in 0..KEPT + 2 {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(number as u64);
            events.add(at, "test", number.to_string());
        }
        let latest = events.latest();
        assert_eq!((latest.len(), latest[0].what.as_str()), (KEPT, "257"));
        assert_eq!(latest[KEPT - 1].what, "2");
        let first = "[{\"time_ms\":257,\"origin\":\"test\",\"what\":\"257\"},";
        assert!(events.to_json().starts_with(first));
    }
}
