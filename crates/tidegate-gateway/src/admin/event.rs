//! What operators have changed, with time and origin.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use tidegate_core::internal::lock;
use tidegate_isolate::IsolationBuilder;

use crate::json::{Object, array};
use crate::page::Watch;

/// The number of changes that are kept.
const KEPT: usize = 256;

/// Returns the wall-clock time.
pub type WallTime = Arc<dyn Fn() -> SystemTime + Send + Sync>;

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
    changes: Mutex<Latest>,
    /// What commands report, for the page.
    watch: Arc<Watch>,
}

#[derive(Debug, Default)]
struct Latest {
    list: VecDeque<Change>,
    /// How many there were.
    count: u64,
}

/// The changes since another one, the oldest first.
pub(super) struct Since {
    pub(super) list: Vec<Change>,
    /// How many of them are forgotten.
    pub(super) missed: u64,
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
        let mut changes = self.lock();
        if changes.list.len() == KEPT {
            changes.list.pop_front();
        }
        changes.list.push_back(change);
        changes.count += 1;
    }

    /// Adds listeners to an isolation, so that the page shows transitions of breakers and moves of
    /// adaptive limits with their times. `wall` is called on the threads of calls.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::SystemTime;
    /// use tidegate::isolate::Isolation;
    /// use tidegate_gateway::admin::{Events, WallTime};
    ///
    /// let (events, wall): (_, WallTime) = (Events::default(), Arc::new(SystemTime::now));
    /// let isolation = events.observe(Isolation::builder(), &wall).build()?;
    /// # Ok::<(), tidegate::isolate::ConfigError>(())
    /// ```
    pub fn observe(&self, isolation: IsolationBuilder, wall: &WallTime) -> IsolationBuilder {
        self.watch.observe(isolation, wall)
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns the changes after the first `count` ones.
    pub(super) fn since(&self, count: u64) -> Since {
        let changes = self.lock();
        let new = changes.count.saturating_sub(count);
        let kept = usize::try_from(new).unwrap_or(usize::MAX);
        let kept = kept.min(changes.list.len());
        let skipped = changes.list.len() - kept;
        Since {
            list: changes.list.iter().skip(skipped).cloned().collect(),
            missed: new - kept as u64,
        }
    }

    /// Returns the latest changes, the last one first.
    pub fn latest(&self) -> Vec<Change> {
        self.lock().list.iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        lock(&self.changes)
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
