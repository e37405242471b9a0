//! The shutdown of a timer: starting it, waiting for the worker, collecting the unfired timeouts.
//!
//! # Invariants
//!
//! * User code (wakers, hooks, drops) runs without the lock.
//! * Once the lane is closed, the thread that finds the worker gone collects the unfired timeouts.
//!   If no thread waits for the worker, the worker collects them itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use tidegate_core::Parker;
use tidegate_core::internal::{WaitGuard, check_may_block, contain, discard, unpoisoned};

use super::errors::TimerError;
use super::lifecycle::{Lifecycle, Stopping, Worker};
use super::shared::{Cell, Shared};
use super::task::TimerTask;
use crate::raw::TimeoutOutcome;

/// What [`Shared::poll_end`] found.
type Unfired = Vec<(u64, TimerTask)>;

impl Shared {
    /// Waits for the worker of a shutdown that has begun, and returns the unfired timeouts. If this
    /// thread must not wait, the shutdown goes on and can still be polled.
    pub(super) fn wait_for_end(&self) -> Result<Unfired, TimerError> {
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let mut recorded = None;
        loop {
            if let Some(unfired) = self.poll_end(&waker) {
                return Ok(unfired);
            }
            if recorded.is_none() {
                recorded = self.check_wait_for_end()?;
            } else {
                self.clock.park_until(&parker, None);
            }
        }
    }

    /// Checks that this thread may wait for the worker. Returns `None` if the worker has ended.
    fn check_wait_for_end(&self) -> Result<Option<WaitGuard>, TimerError> {
        let mut lifecycle = self.lifecycle();
        let worker = loop {
            let Lifecycle::Stopping(Stopping { worker, .. }) = &*lifecycle else {
                return Ok(None);
            };
            match worker {
                Worker::Started(thread) => break thread.clone(),
                Worker::Starting(starter) if *starter == std::thread::current().id() => {
                    return Err(TimerError::Starting);
                }
                Worker::Starting(_) => {}
            }
            // The spawner is user code and may take a long time.
            check_may_block(None).map_err(TimerError::Refused)?;
            lifecycle = unpoisoned(self.started.wait(lifecycle));
        };
        drop(lifecycle);
        if worker.is_current() {
            return Err(TimerError::OwnThread);
        }
        worker.check_wait().map(Some).map_err(TimerError::Refused)
    }

    /// Stops the timer, unless it was stopped before, without waiting for its worker, and drops the
    /// unfired timeouts.
    pub(super) fn abandon(&self) {
        if let Ok(true) = self.begin_shutdown() {
            self.give_up();
        }
    }

    /// Abandons a shutdown that has started: the unfired timeouts are dropped, here or by the
    /// worker.
    pub(super) fn give_up(&self) {
        let waker = match &mut *self.lifecycle() {
            Lifecycle::Stopping(stopping) => stopping.waker.take(),
            _ => None,
        };
        drop(waker);
        self.drop_unfired();
    }

    /// Starts the shutdown. Returns `false` if the timer was stopped before.
    pub(super) fn begin_shutdown(&self) -> Result<bool, TimerError> {
        let mut lifecycle = self.lifecycle();
        let worker = match &*lifecycle {
            Lifecycle::Starting(starter) if *starter == std::thread::current().id() => {
                return Err(TimerError::Starting);
            }
            Lifecycle::Starting(starter) => Some(Worker::Starting(*starter)),
            Lifecycle::Running(thread) => Some(Worker::Started(thread.clone())),
            Lifecycle::New(_) | Lifecycle::Broken => None,
            Lifecycle::Stopping(_) | Lifecycle::Ended => return Ok(false),
        };
        let after = worker.map_or(Lifecycle::Ended, |worker| {
            let waker = Some(Waker::noop().clone());
            Lifecycle::Stopping(Stopping { worker, waker })
        });
        let before = std::mem::replace(&mut *lifecycle, after);
        // ORDERING: Release pairs with the Acquire in `start`, which then checks `lifecycle`.
        self.running.store(false, Ordering::Release);
        let late = self.lane.close();
        drop(lifecycle);
        // The thread builder of a timer that never started contains the user's hooks.
        discard(before);
        self.started.notify_all();
        self.core().unfired.extend(late);
        self.parker.unpark();
        Ok(true)
    }

    /// Returns the unfired timeouts if the worker has ended. Otherwise `waker` is woken when it
    /// ends.
    pub(super) fn poll_end(&self, waker: &Waker) -> Option<Unfired> {
        let mut next = Some(waker.clone());
        let before = match &mut *self.lifecycle() {
            Lifecycle::Stopping(stopping) => std::mem::replace(&mut stopping.waker, next.take()),
            _ => None,
        };
        drop(before);
        next.map(|_| self.collect())
    }

    /// Records that the worker is done with the wheel. The worker calls this last, or the starting
    /// thread if a stopped timer got no worker.
    pub(super) fn end(&self) {
        let mut lifecycle = self.lifecycle();
        let is_stopped = matches!(*lifecycle, Lifecycle::Stopping(_));
        let after = if is_stopped {
            Lifecycle::Ended
        } else {
            Lifecycle::Broken
        };
        let before = std::mem::replace(&mut *lifecycle, after);
        // ORDERING: Release pairs with the Acquire in `start`, which then checks `lifecycle`.
        self.running.store(false, Ordering::Release);
        let late = self.lane.close();
        drop(lifecycle);
        self.core().unfired.extend(late);
        if let Lifecycle::Stopping(stopping) = before {
            match stopping.waker {
                Some(waker) => drop(contain(|| waker.wake())),
                None => self.drop_unfired(),
            }
        }
    }

    /// Marks the remaining timeouts as stopped and returns those that were pending, by deadline.
    fn collect(&self) -> Unfired {
        let mut core = self.core();
        let mut cells: Vec<_> = core.wheel.drain().map(|entry| entry.value).collect();
        cells.append(&mut core.unfired);
        drop(core);
        let decide =
            |cell: Arc<Cell>| Some((cell.deadline()?, cell.decide(TimeoutOutcome::Stopped)?));
        let mut unfired: Vec<_> = cells.into_iter().filter_map(decide).collect();
        unfired.sort_by_key(|&(deadline, _)| deadline);
        for (_, task) in &mut unfired {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            self.run_hook(task);
        }
        unfired
    }

    fn drop_unfired(&self) {
        for (_, task) in self.collect() {
            let task = self.strip_extras(task);
            self.contain("drop", || drop(task));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_core::{ManualClock, RejectReason};

    use crate::WheelTimer;

    #[test]
    fn a_timer_whose_worker_broke_accepts_nothing_and_hands_back_what_is_pending() {
        let clock = ManualClock::new();
        let timer = WheelTimer::builder("test").clock(&clock).build().unwrap();
        let add = || timer.schedule(Duration::from_secs(1), || ());
        let handle = add().unwrap();
        clock.settle();
        let unseen = add().unwrap();
        timer.owner.shared.end();
        assert_eq!(add().unwrap_err().why(), RejectReason::Closed);
        assert_eq!(timer.pending(), 2);
        assert_eq!(timer.shutdown().wait().unwrap().unfired.len(), 2);
        assert!(handle.is_cancelled() && unseen.is_cancelled());
        assert_eq!(timer.pending(), 0);
    }
}
