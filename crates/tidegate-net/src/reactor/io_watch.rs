//! The counters of a loop with I/O, for other threads.

use std::sync::Arc;

use super::roaming::RoamingShared;
use crate::metrics::{Counters, IoMetrics};

/// A view of the counters of a [`PollDriver`](crate::PollDriver) or a
/// [`RoamingDriver`](crate::RoamingDriver).
///
/// ```
/// use tidegate_net::PollDriver;
/// use tidegate_net::sys::FakePoller;
///
/// let (poller, _script) = FakePoller::new();
/// let watch = PollDriver::new(poller).watch();
/// assert_eq!(watch.metrics().polls, 0);
/// ```
#[derive(Clone, Debug)]
pub struct IoWatch {
    counters: Arc<Counters>,
    /// Has the counters of the tasks, if the loop is a roaming one.
    roam: Option<Arc<RoamingShared>>,
}

impl IoWatch {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        Self {
            counters,
            roam: None,
        }
    }

    pub(super) fn of_roaming(counters: Arc<Counters>, roam: Arc<RoamingShared>) -> Self {
        Self {
            counters,
            roam: Some(roam),
        }
    }

    /// Returns the current values.
    pub fn metrics(&self) -> IoMetrics {
        let mut sum = self.counters.snapshot();
        if let Some(roam) = &self.roam {
            roam.each_counters(|more| sum.add(&more.snapshot()));
            sum.wakeups = roam.wakeups();
        }
        sum
    }
}
