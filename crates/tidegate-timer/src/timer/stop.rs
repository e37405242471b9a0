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
use tidegate_core::internal::contain;

use super::errors::TimerError;
use super::life::Life;
use super::shared::{Cell, Shared};
use super::task::TimerTask;
use crate::raw::TimeoutOutcome;

/// The result of starting a shutdown.
enum ShutdownStart {
    /// This call started the shutdown, and the caller has to wait for the worker.
    Now,
    /// The timer was stopped before.
    Before,
    /// The worker was started in the meantime; the caller must first check whether it may wait for
    /// it.
    Unchecked,
}

impl Shared {
    /// Stops the timer, waits for its worker and returns the unfired timeouts. Does nothing if this
    /// thread must not wait for the worker.
    pub(super) fn stop(self: &Arc<Self>) -> Result<Vec<(u64, TimerTask)>, TimerError> {
        loop {
            let thread = match &*self.settled()? {
                Life::Running(thread) => Some(thread.clone()),
                _ => None,
            };
            let recorded = match &thread {
                Some(thread) if thread.is_current() => return Err(TimerError::OwnThread),
                Some(thread) => Some(thread.check_wait().map_err(TimerError::Refused)?),
                None => None,
            };
            match self.begin(recorded.is_some())? {
                ShutdownStart::Now => return Ok(self.await_end()),
                ShutdownStart::Before => return Ok(Vec::new()),
                ShutdownStart::Unchecked => {}
            }
        }
    }

    /// Starts a shutdown for a caller that polls for the end. Returns `false` if the timer was
    /// stopped before.
    pub(super) fn begin_stop(&self) -> Result<bool, TimerError> {
        Ok(matches!(self.begin(true)?, ShutdownStart::Now))
    }

    /// Stops the timer, unless it was stopped before, without waiting for its worker, and drops the
    /// unfired timeouts.
    pub(super) fn abandon(&self) {
        if let Ok(ShutdownStart::Now) = self.begin(true) {
            self.give_up();
        }
    }

    /// Abandons a shutdown that has started: the unfired timeouts are dropped, here or by the
    /// worker.
    pub(super) fn give_up(&self) {
        let waker = match &mut *self.life() {
            Life::Stopping(waker) => waker.take(),
            _ => None,
        };
        drop(waker);
        self.drop_left();
    }

    /// Starts the shutdown. `checked` means that this thread may wait for the worker, or will not
    /// wait.
    fn begin(&self, checked: bool) -> Result<ShutdownStart, TimerError> {
        let mut life = self.life();
        match *life {
            Life::Starting(starter) if starter == std::thread::current().id() => {
                return Err(TimerError::Starting);
            }
            Life::Running(_) | Life::Starting(_) if !checked => {
                return Ok(ShutdownStart::Unchecked);
            }
            Life::Running(_) | Life::Starting(_) => {
                *life = Life::Stopping(Some(Waker::noop().clone()));
            }
            Life::New(_) | Life::Broken => *life = Life::Ended,
            Life::Stopping(_) | Life::Ended => return Ok(ShutdownStart::Before),
        }
        // ORDERING: Release pairs with the Acquire in `start`, which then checks `life`.
        self.running.store(false, Ordering::Release);
        let late = self.lane.close();
        drop(life);
        self.started.notify_all();
        self.core().left.extend(late);
        self.parker.unpark();
        Ok(ShutdownStart::Now)
    }

    fn await_end(&self) -> Vec<(u64, TimerTask)> {
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        loop {
            if let Some(unfired) = self.poll_end(&waker) {
                return unfired;
            }
            self.clock.park_until(&parker, None);
        }
    }

    /// Returns the unfired timeouts if the worker has ended. Otherwise `waker` is woken when it
    /// ends.
    pub(super) fn poll_end(&self, waker: &Waker) -> Option<Vec<(u64, TimerTask)>> {
        let mut next = Some(waker.clone());
        let before = match &mut *self.life() {
            Life::Stopping(waiting) => std::mem::replace(waiting, next.take()),
            _ => None,
        };
        drop(before);
        next.map(|_| self.collect())
    }

    /// Records that the worker is done with the wheel. The worker calls this last, or the starting
    /// thread if a stopped timer got no worker.
    pub(super) fn end(&self) {
        let mut life = self.life();
        let is_stopped = matches!(*life, Life::Stopping(_));
        let after = if is_stopped {
            Life::Ended
        } else {
            Life::Broken
        };
        let before = std::mem::replace(&mut *life, after);
        // ORDERING: Release pairs with the Acquire in `start`, which then checks `life`.
        self.running.store(false, Ordering::Release);
        let late = self.lane.close();
        drop(life);
        self.core().left.extend(late);
        match before {
            Life::Stopping(Some(waker)) => {
                let _ = contain(|| waker.wake());
            }
            Life::Stopping(None) => self.drop_left(),
            _ => {}
        }
    }

    /// Marks the remaining timeouts as stopped and returns those that were pending, by deadline.
    fn collect(&self) -> Vec<(u64, TimerTask)> {
        let mut core = self.core();
        let mut cells: Vec<_> = core.wheel.drain().map(|entry| entry.value).collect();
        cells.append(&mut core.left);
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

    fn drop_left(&self) {
        for (_, task) in self.collect() {
            let task = self.strip(task);
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
        assert_eq!(timer.stop().unwrap().len(), 2);
        assert!(handle.is_cancelled() && unseen.is_cancelled());
        assert_eq!(timer.pending(), 0);
    }
}
