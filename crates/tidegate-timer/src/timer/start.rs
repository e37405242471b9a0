//! Starts the worker thread of a timer with the first timeout.
//!
//! The thread spawner is user code. It runs without the lock of the lifecycle state (`life`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::internal::contain;
use tidegate_core::{RejectReason, Rejected};

use super::errors::TimerError;
use super::lifecycle::{Lifecycle, Worker};
use super::shared::{Cell, Shared, WAKE_AFTER};
use super::task::TimerTask;
use super::worker;
use crate::raw::{TimeoutNode, TimeoutOutcome};

impl Shared {
    /// Starts the worker unless it is running. If another thread is starting it, waits for that
    /// start, unless this thread must not block.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), TimerError> {
        // ORDERING: Acquire pairs with the Release below: the worker has been started. If this
        // misses a stop, that stop has closed the lane or will close it, and the closed lane
        // rejects the timeout.
        if self.running.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut lifecycle = match self.lock_started() {
            // Another thread is starting the worker, and this thread must not block. The timeout
            // that is about to be added fires after that start, or after the next one if that start
            // fails.
            Err(TimerError::Refused(_)) => return Ok(()),
            lifecycle => lifecycle?,
        };
        match &*lifecycle {
            Lifecycle::New(_) => {}
            Lifecycle::Running(_) => return Ok(()),
            _ => return Err(TimerError::Stopped),
        }
        let starting = Lifecycle::Starting(std::thread::current().id());
        let Lifecycle::New(threads) = std::mem::replace(&mut *lifecycle, starting) else {
            unreachable!("it was new a moment ago");
        };
        drop(lifecycle);
        let (member, shared) = (self.clock.join(), Arc::clone(self));
        let started = contain(|| threads.spawn(move || worker::run(&shared, member)));
        let mut lifecycle = self.lifecycle();
        let outcome = match started {
            Ok(Ok(thread)) => {
                // In any other state the worker has already ended.
                match &mut *lifecycle {
                    Lifecycle::Starting(_) => {
                        *lifecycle = Lifecycle::Running(thread.watch());
                        // ORDERING: Release pairs with the Acquire above.
                        self.running.store(true, Ordering::Release);
                    }
                    Lifecycle::Stopping(stopping) => {
                        stopping.worker = Worker::Started(thread.watch())
                    }
                    _ => {}
                }
                Ok(())
            }
            Ok(Err(_)) | Err(_) => {
                if matches!(*lifecycle, Lifecycle::Starting(_)) {
                    *lifecycle = Lifecycle::New(threads);
                }
                Err(TimerError::NoThread)
            }
        };
        let stopped = matches!(*lifecycle, Lifecycle::Stopping(_));
        drop(lifecycle);
        if stopped && outcome.is_err() {
            // The timer was stopped in the meantime, and there is no worker that would report the
            // end.
            self.end();
        }
        self.started.notify_all();
        outcome
    }

    /// Adds a timeout, and starts the worker if it is not running.
    pub(super) fn add(
        self: &Arc<Self>,
        after: Duration,
        task: TimerTask,
    ) -> Result<Arc<Cell>, Rejected<TimerTask>> {
        if let Err(cause) = self.start() {
            let why = match cause {
                TimerError::NoThread | TimerError::Starting => RejectReason::NoThread,
                _ => RejectReason::Closed,
            };
            return Err(Rejected::new(task, why));
        }
        let before = self.pending.fetch_add(1, Ordering::Relaxed);
        if before >= self.limit {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Rejected::new(task, RejectReason::Full));
        }
        let deadline = self.clock.deadline(after);
        let cell = TimeoutNode::new(deadline, task);
        if !self.lane.push(&cell) {
            let task = cell.decide(TimeoutOutcome::Stopped);
            let task = task.expect("no other thread has the cell");
            self.pending.fetch_sub(1, Ordering::Relaxed);
            return Err(Rejected::new(task, RejectReason::Closed));
        }
        self.wake_before(deadline);
        if before % WAKE_AFTER == WAKE_AFTER - 1 && self.bell.ring() {
            self.parker.unpark();
        }
        Ok(cell)
    }
}
