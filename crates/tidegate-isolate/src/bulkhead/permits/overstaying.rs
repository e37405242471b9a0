//! The calls of a command that hold their permit although their outcome was reported: they timed out,
//! or their caller left.
//!
//! A call is counted by the thread that reports it, and leaves the count with its permit. The timer
//! may report a call whose entry is being dropped by another thread, so the two come in any order,
//! and the second one finds what the first one has left. Only calls that are late touch this lock.

use crate::lock::lock;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// The overstaying calls of one command.
#[derive(Debug, Default)]
pub(crate) struct Overstaying {
    /// By the address of the call slot, which is not reused before both have come: since when the
    /// call overstays, or `None` if its permit was given back first.
    calls: Mutex<HashMap<usize, Option<u64>>>,
}

impl Overstaying {
    /// Counts the call in this slot, unless its permit was given back first.
    pub(crate) fn begin(&self, slot: usize, since: u64) {
        let mut calls = self.lock();
        if calls.remove(&slot).is_none() {
            calls.insert(slot, Some(since));
        }
    }

    /// Ends the overstay of the call in this slot, also if it is not counted yet.
    pub(crate) fn end(&self, slot: usize) {
        let mut calls = self.lock();
        if calls.remove(&slot).is_none() {
            calls.insert(slot, None);
        }
    }

    /// Returns how many calls overstay, and since when the oldest of them does.
    pub(crate) fn read(&self) -> (usize, Option<u64>) {
        let calls = self.lock();
        let (mut count, mut oldest) = (0, None);
        for since in calls.values().flatten() {
            count += 1;
            oldest = Some(oldest.map_or(*since, |oldest: u64| oldest.min(*since)));
        }
        (count, oldest)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Option<u64>>> {
        lock(&self.calls)
    }
}

#[cfg(test)]
mod tests {
    //! The report and the end of a call may come in any order.

    use super::*;

    #[test]
    fn the_report_and_the_end_cancel_each_other_in_any_order() {
        let calls = Overstaying::default();
        calls.begin(1, 50);
        calls.begin(2, 30);
        assert_eq!(calls.read(), (2, Some(30)));
        calls.end(3);
        assert_eq!(calls.read(), (2, Some(30)), "it has no report yet");
        calls.begin(3, 10);
        calls.end(2);
        assert_eq!(calls.read(), (1, Some(50)));
        calls.end(1);
        assert_eq!(calls.read(), (0, None));
        assert!(calls.lock().is_empty());
    }
}
