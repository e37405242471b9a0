//! The end of a timer: how a stop begins, who waits for the worker, what did not fire.
//!
//! # Invariants
//!
//! * User code (wakers, hooks, drops) runs without the lock.
//! * Once the lane is closed, whoever finds the worker gone collects what did not fire. A worker
//!   that nobody waits for collects it itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use tidegate_core::{Parker, contain};

use super::errors::TimerError;
use super::life::Life;
use super::shared::{Cell, Shared};
use super::task::TimerTask;
use crate::raw::Fate;

/// What the beginning of a stop found.
enum Begun {
    /// It has begun, and somebody has to wait for the worker.
    Now,
    /// Somebody else stopped the timer before.
    Before,
    /// The worker was started meanwhile: may it be waited for?
    Unchecked,
}

impl Shared {
    /// Stops the timer and waits for its worker; answers what did not fire. Nothing happens where
    /// this thread must not wait for the worker.
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
                Begun::Now => return Ok(self.await_end()),
                Begun::Before => return Ok(Vec::new()),
                Begun::Unchecked => {}
            }
        }
    }

    /// Begins to stop the timer, for somebody who polls for the end. Returns `false` if somebody
    /// else did that before.
    pub(super) fn begin_stop(&self) -> Result<bool, TimerError> {
        Ok(matches!(self.begin(true)?, Begun::Now))
    }

    /// Stops the timer, unless somebody did, without waiting for its worker, and drops what does
    /// not fire.
    pub(super) fn abandon(&self) {
        if let Ok(Begun::Now) = self.begin(true) {
            self.give_up();
        }
    }

    /// Gives up a stop that has begun: what did not fire is dropped, here or by the worker.
    pub(super) fn give_up(&self) {
        let waker = match &mut *self.life() {
            Life::Stopping(waker) => waker.take(),
            _ => None,
        };
        drop(waker);
        self.drop_left();
    }

    /// `checked` says that this thread may wait for the worker, or does not mean to.
    fn begin(&self, checked: bool) -> Result<Begun, TimerError> {
        let mut life = self.life();
        match *life {
            Life::Starting(starter) if starter == std::thread::current().id() => {
                return Err(TimerError::Starting);
            }
            Life::Running(_) | Life::Starting(_) if !checked => return Ok(Begun::Unchecked),
            Life::Running(_) | Life::Starting(_) => {
                *life = Life::Stopping(Some(Waker::noop().clone()));
            }
            Life::New(_) | Life::Broken => *life = Life::Ended,
            Life::Stopping(_) | Life::Ended => return Ok(Begun::Before),
        }
        // ORDERING: Release pairs with the Acquire in `start`, which then looks at `life`.
        self.running.store(false, Ordering::Release);
        let late = self.lane.close();
        drop(life);
        self.started.notify_all();
        self.core().left.extend(late);
        self.parker.unpark();
        Ok(Begun::Now)
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

    /// What did not fire, if the worker has ended; otherwise `waker` is woken when it does.
    pub(super) fn poll_end(&self, waker: &Waker) -> Option<Vec<(u64, TimerTask)>> {
        let mut next = Some(waker.clone());
        let before = match &mut *self.life() {
            Life::Stopping(waiting) => std::mem::replace(waiting, next.take()),
            _ => None,
        };
        drop(before);
        next.map(|_| self.collect())
    }

    /// Called by the worker when it is done with the wheel.
    pub(super) fn end(&self) {
        let mut life = self.life();
        let is_stopped = matches!(*life, Life::Stopping(_));
        let after = if is_stopped {
            Life::Ended
        } else {
            Life::Broken
        };
        let before = std::mem::replace(&mut *life, after);
        // ORDERING: Release pairs with the Acquire in `start`, which then looks at `life`.
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

    /// Decides that what is left will not fire; answers what was pending, by deadline.
    fn collect(&self) -> Vec<(u64, TimerTask)> {
        let mut core = self.core();
        let mut cells: Vec<_> = core.wheel.drain().map(|entry| entry.value).collect();
        cells.append(&mut core.left);
        drop(core);
        let decide = |cell: Arc<Cell>| Some((cell.deadline()?, cell.decide(Fate::Stopped)?));
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

    use tidegate_core::{ManualClock, Refusal};

    use crate::WheelTimer;

    #[test]
    fn a_timer_whose_worker_broke_accepts_nothing_and_hands_back_what_is_pending() {
        let clock = ManualClock::new();
        let timer = WheelTimer::builder("test").clock(&clock).build().unwrap();
        let add = || timer.new_timeout(Duration::from_secs(1), || ());
        let handle = add().unwrap();
        clock.settle();
        let unseen = add().unwrap();
        timer.owner.shared.end();
        assert_eq!(add().unwrap_err().why(), Refusal::Closed);
        assert_eq!(timer.pending(), 2);
        assert_eq!(timer.stop().unwrap().len(), 2);
        assert!(handle.is_cancelled() && unseen.is_cancelled());
        assert_eq!(timer.pending(), 0);
    }
}
