//! Records which shared runs wait for which other runs, to detect deadlocks.
//!
//! A call with a cache key that finds a run in flight waits for it. Inside that very run, or inside
//! a run that it waits for in turn, such a wait would never end, so it is refused.
//!
//! A thread knows the runs that it works for, innermost last. These are carried to a thread of a
//! bulkhead if the caller waits for that thread; work that is only queued runs without them.

use std::cell::RefCell;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::{Capacity, WaitEdge, record_wait};

/// Identifies a shared run.
pub(crate) type RunId = ExecutorId;

thread_local! {
    /// The shared runs that this thread works for.
    static WITHIN: RefCell<Vec<RunId>> = const { RefCell::new(Vec::new()) };
}

/// Returns the shared runs that the calling thread works for.
pub(crate) fn current() -> Vec<RunId> {
    let current = WITHIN.try_with(|within| within.borrow().clone());
    current.unwrap_or_default()
}

/// Makes the calling thread work for these runs, and for no others, until the returned guard is
/// dropped.
#[must_use = "dropping it ends the stay"]
pub(crate) fn set(runs: Vec<RunId>) -> Within {
    let earlier = WITHIN.try_with(|within| within.replace(runs));
    Within(earlier.unwrap_or_default())
}

/// Makes the calling thread work for one more run until the returned guard is dropped.
#[must_use = "dropping it ends the stay"]
pub(crate) fn enter(run: RunId) -> Within {
    let mut runs = current();
    runs.push(run);
    set(runs)
}

/// A guard for the runs that a thread works for; dropping it restores the earlier ones.
pub(crate) struct Within(Vec<RunId>);

impl Drop for Within {
    fn drop(&mut self) {
        let earlier = std::mem::take(&mut self.0);
        let _ = WITHIN.try_with(|within| within.replace(earlier));
    }
}

/// Records that the calling thread waits for `run`. Returns `None` if the wait would deadlock, and
/// no edges if the thread works for no shared run.
pub(crate) fn wait_for(run: RunId) -> Option<Vec<WaitEdge>> {
    let within = current().into_iter().map(|run| (run, Capacity::Whole));
    record_wait(within, run).ok()
}

#[cfg(test)]
mod tests {
    //! Cycles of any length are detected, and no other wait is refused.

    use super::*;

    #[test]
    fn a_circle_is_refused_and_a_wait_that_has_ended_is_forgotten() {
        let [a, b, c] = [(); 3].map(|()| RunId::next());
        assert!(wait_for(a).is_some(), "a thread that works for no run");
        let of_a = {
            let _in_a = enter(a);
            assert!(wait_for(a).is_none(), "its own run");
            wait_for(b).expect("no run waits for `a`")
        };
        let of_b = {
            let _in_b = enter(b);
            wait_for(c).expect("`c` waits for no run")
        };
        let _in_c = enter(c);
        assert!(wait_for(a).is_none(), "over two others");
        {
            let _elsewhere = set(Vec::new());
            assert!(wait_for(a).is_some(), "work without waiters");
        }
        drop(of_b);
        assert!(wait_for(a).is_some());
        drop(of_a);
        assert_eq!(current(), [c]);
    }
}
