//! A pool as an executor.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::executor::{ExecutorId, Need, Signal, Work, is_current};
use tidegate_core::internal::{PlainTask, WatchList};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, Unhandled};

use crate::executor::is_in_view_over;
use crate::ordered::SharedWithViews;
use crate::pool::headroom::Headroom;
use crate::pool::policy::PoolPolicy;
use crate::pool::queue::Job;
use crate::schedule::{ScheduleTarget, TaskTimer};

use super::lanes::Lane;
use super::shared::Shared;

/// The pool as promises and other crates see it. Holding a reference does not keep the pool
/// running.
impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        match self.submit(Job::new(task)) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.map(Job::into_task)),
        }
    }

    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit_internal(task)
    }

    fn offer_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        let offered = self.offer_plainly(Job::new(task));
        offered.map_err(|refused| {
            self.tallies.refused.fetch_add(1, Ordering::Relaxed);
            refused.map(Job::into_task)
        })
    }

    fn shared_with_views(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(SharedWithViews {
            executor: self.arc(),
            timer: Arc::clone(&self.timer),
            views: Arc::clone(&self.views),
            overlaps: self.limits().max > 1,
            handed_back: self.handed_back().downgrade(),
        }))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        // A task could not give the signal back if it were refused. So check first, and hold the
        // lock so that the result stays valid.
        let turn = self.dispatcher.turn();
        if turn.is_closed() && turn.threads() == 0 {
            return Err(Rejected::new(signal, RejectReason::Closed));
        }
        let mut job = Job::internal(PlainTask::non_blocking(move || signal.deliver()));
        self.stamp(&mut job);
        // If no thread can be started, the job is dropped, which delivers the signal as orphaned. So
        // a signal is never lost.
        drop(self.offer_in(turn, job, Lane::Internal, true));
        Ok(())
    }

    fn is_current(&self) -> bool {
        is_current(self.id) || is_in_view_over(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }

    fn most_threads(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn needs(&self, work: Work) -> Vec<Need> {
        match (&self.policy, work) {
            // The policy may run it anywhere.
            (PoolPolicy::With(_), _) => Vec::new(),
            // It will be refused.
            (_, Work::Given) if self.free_threads().places == 0 => Vec::new(),
            // It has a thread, or it will be refused when it is due.
            (_, Work::Submitted) if !self.has_queue() && self.waiting() == 0 => Vec::new(),
            // It was handed back: it runs elsewhere, if at all.
            (_, Work::Submitted | Work::Given) if self.left.has_left() => Vec::new(),
            _ => vec![Need::thread_of(self.id)],
        }
    }

    fn has_abandoned_tasks(&self) -> bool {
        self.left.is_left()
    }

    fn watch_list(&self) -> Option<&Arc<WatchList>> {
        Some(self.left.watch_list())
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.report_unhandled(what);
    }
}

impl ScheduleTarget for Shared {
    fn timer(&self) -> &Arc<TaskTimer> {
        &self.timer
    }

    fn submit_due(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.offer_task(task)
    }

    fn submit_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.execute_internal(task)
    }
}
