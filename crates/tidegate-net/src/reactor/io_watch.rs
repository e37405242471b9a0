//! The counters of a loop with I/O, for other threads.

use std::sync::Arc;

use super::roaming::RoamingShared;
use crate::metrics::{Counters, IoMetrics};

/// A view of the counters of a [`PollDriver`](super::PollDriver) or a
/// [`RoamingDriver`](super::RoamingDriver).
#[derive(Clone, Debug)]
pub(crate) struct IoWatch {
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
    pub(crate) fn metrics(&self) -> IoMetrics {
        let mut sum = self.counters.snapshot();
        if let Some(roam) = &self.roam {
            roam.each_counters(|more| sum.add(&more.snapshot()));
            sum.wakeups = roam.wakeups();
        }
        sum
    }
}
