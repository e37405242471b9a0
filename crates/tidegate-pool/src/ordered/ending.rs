//! How a view ends with its executor, and how it goes on when only its turn is lost.
//!
//! A pool ends its views: it closes their lanes, marks them as ended, and takes their handles of the
//! pool. Of any other executor, a view learns the end when its turn is dropped.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_core::internal::prim::{Ordering, fence, lock};
use tidegate_core::internal::{TaskLaneReceiver, discard_all};

use super::turn::{RUNNING, SUBMITTED, Shared};
use crate::executor::displacing;

impl Shared {
    /// Closes the view for new tasks.
    pub(super) fn close_lane(&self) {
        self.lane.close();
    }

    /// Marks the view as ended with its executor. A running turn begins no further task. A second
    /// call does nothing: a turn that runs then may have been handed back, and runs everything.
    pub(super) fn end(&self) {
        self.close_lane();
        // ORDERING: SeqCst for both, as for the two steps of `run_turn` in the other order: a turn
        // that this load does not see as running reads `ended` as set when it begins.
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        if self.state.load(Ordering::SeqCst) == RUNNING {
            self.ended_in_turn.store(true, Ordering::Relaxed);
        }
    }

    /// Wakes the waiters of the tasks that the ended executor left behind, which it says of itself
    /// by now. Returns the handle of the executor. The caller drops it.
    pub(super) fn leave_unstarted(&self) -> Option<Arc<dyn Executor>> {
        // ORDERING: SeqCst for both, opposite to the two steps of `report_unstarted`: at least one
        // of the two threads sees the other's store.
        self.may_leave.store(true, Ordering::SeqCst);
        let has_handed_back = self.has_handed_back.load(Ordering::SeqCst);
        if has_handed_back || self.ended_in_turn.load(Ordering::Relaxed) {
            self.left.leave(self.id);
        } else if !self.lane.is_empty() {
            self.left.wake_waiters(self.id);
        }
        lock(&self.handle).take()
    }

    /// Closes the view and hands back the tasks that have not run. Called by the owner of
    /// `SUBMITTED`.
    pub(super) fn close(&self) {
        if self.advance(SUBMITTED, RUNNING) {
            self.hand_back(self.take_end());
        }
    }

    /// Returns `true` if the view runs on a pool that takes jobs. A turn that is dropped then was
    /// displaced, or its start was lost: the pool has not ended.
    pub(super) fn has_open_pool(&self) -> bool {
        !self.owns_timer && !self.lane.is_closed()
    }

    /// Drops the tasks that wait, because the pool has dropped the turn and has not ended. Called by
    /// the owner of `SUBMITTED`.
    pub(super) fn displace(&self) {
        if !self.advance(SUBMITTED, RUNNING) {
            return;
        }
        let mut end = self.take_end();
        let tasks: Vec<_> = std::iter::from_fn(|| end.pop()).collect();
        self.publish(&mut end);
        self.put_end(end);
        if self.rest() {
            // Signals, and tasks that came meanwhile.
            self.signal_turn();
        }
        for task in tasks {
            self.run(task.name(), || displacing(|| drop(task)));
        }
    }

    /// Does the same for a turn that was a signal. Another signal could be dropped like this one, so
    /// the signals in the view are orphaned.
    pub(super) fn displace_signals(&self) {
        discard_all(self.signals.take());
        self.displace();
    }

    /// Closes the view and hands back the tasks in its lane. Called by the owner of `RUNNING`, which
    /// stays the state.
    pub(super) fn hand_back(&self, mut end: Box<TaskLaneReceiver>) {
        self.lane.close();
        let tasks = end.drain();
        self.put_end(end);
        let handed_back = self.handed_back();
        if !tasks.is_empty() {
            handed_back.add(tasks);
            if let Some(of_pool) = &self.back_of_pool {
                of_pool.keep(&handed_back);
                let kept = lock(&self.keeps_back).take();
                drop(kept);
            }
            self.report_unstarted();
        }
        let orphans = self.signals.close();
        discard_all(orphans);
        self.forget_if_unreachable();
    }

    /// Wakes the waiters of the tasks that were just handed back. A pool that ends first cancels the
    /// scheduled tasks that are not due, whose waiters must hear of that. It then calls
    /// `leave_unstarted`, which wakes all waiters.
    fn report_unstarted(&self) {
        // ORDERING: SeqCst for both, see `leave_unstarted`.
        self.has_handed_back.store(true, Ordering::SeqCst);
        if self.owns_timer || self.may_leave.load(Ordering::SeqCst) {
            self.left.leave(self.id);
        }
    }

    /// Drops the tasks that were handed back and can no longer be taken from a handle. Those of a
    /// pool's view belong to the pool.
    pub(super) fn forget_if_unreachable(&self) {
        if self.back_of_pool.is_some() {
            return;
        }
        // ORDERING: SeqCst fence: the close of the view and the drop of the last handle each write
        // one of the two words and then read both here; at least one of them sees the other's
        // write.
        fence(Ordering::SeqCst);
        if self.lane.is_closed() && self.handles.load(Ordering::Relaxed) == 0 {
            let handed_back = lock(&self.keeps_back).take();
            drop(handed_back);
        }
    }
}
