//! Counts how often loops do not respond, and reports that as changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::loops::Watchdog;
use tidegate::net::NetGroup;
use tidegate_core::internal::lock;

use crate::reports::Reports;

/// A loop that is in one task for this long does not respond.
const THRESHOLD: Duration = Duration::from_secs(1);

/// How often each loop did not respond. Dropping it ends the watch.
pub(super) struct Stalls {
    counts: Arc<Mutex<HashMap<String, u64>>>,
    /// `None` if there is no thread for it: nothing is counted then.
    _watchdog: Option<Watchdog>,
}

impl Stalls {
    /// Watches the loops of a group.
    pub(super) fn watch(group: &NetGroup, reports: &Reports) -> Self {
        let counts = Arc::<Mutex<HashMap<String, u64>>>::default();
        let (own, reports) = (Arc::clone(&counts), reports.clone());
        let mut watchdog = Watchdog::builder()
            .threshold(THRESHOLD)
            .on_stall(move |stall| {
                let mut counts = lock(&own);
                *counts.entry(stall.name.clone()).or_default() += 1;
                drop(counts);
                reports.change("watchdog", stall.to_string());
            });
        for one in group.loops().iter() {
            watchdog = watchdog.watch(one);
        }
        Self {
            counts,
            _watchdog: watchdog.build().ok(),
        }
    }

    /// Returns how often the loop `name` did not respond.
    pub(super) fn of(&self, name: &str) -> u64 {
        let counts = lock(&self.counts);
        counts.get(name).copied().unwrap_or(0)
    }
}
