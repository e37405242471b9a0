//! The life of a timer: when its thread starts, how it ends, and who hears of that.
//!
//! # Invariants
//!
//! * User code (the spawner of threads, wakers, hooks, drops) runs without the lock.
//! * Once the lane is closed, whoever finds the worker gone collects what did not fire. A worker
//!   that nobody waits for collects it itself.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::ThreadId;

use tidegate_core::{Parker, Task, ThreadBuilder, ThreadWatch, check_stance, contain};

use crate::raw::Fate;

use super::errors::TimerError;
use super::shared::{Cell, Shared};
use super::task::TimerTask;
use super::worker;

pub(super) enum Life {
    New(ThreadBuilder),
    /// This thread is starting the worker; the lock is free meanwhile.
    Starting(ThreadId),
    Running(ThreadWatch),
    /// Stopped; the worker is on its way out. Without a waker nobody waits for what is left.
    Stopping(Option<Waker>),
    /// The worker ended although nobody had stopped the timer: a stop finds what is left.
    Broken,
    Ended,
}

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
    /// Starts the worker unless it runs.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), TimerError> {
        // Acquire pairs with the Release below; a stop is found by the lane.
        if self.running.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut life = match self.settled() {
            // What comes now fires with the start that is on its way, or with the next one.
            Err(TimerError::Refused(_)) => return Ok(()),
            life => life?,
        };
        match &*life {
            Life::New(_) => {}
            Life::Running(_) => return Ok(()),
            _ => return Err(TimerError::Stopped),
        }
        let starting = Life::Starting(std::thread::current().id());
        let Life::New(threads) = std::mem::replace(&mut *life, starting) else {
            unreachable!("it was new a moment ago");
        };
        drop(life);
        let (member, shared) = (self.clock.join(), Arc::clone(self));
        let started = contain(|| threads.spawn(move || worker::run(&shared, member)));
        let mut life = self.life();
        let outcome = match started {
            Ok(Ok(thread)) => {
                // Else it has ended already.
                if matches!(*life, Life::Starting(_)) {
                    *life = Life::Running(thread.watch());
                    self.running.store(true, Ordering::Release);
                }
                Ok(())
            }
            Ok(Err(_)) | Err(_) => {
                if matches!(*life, Life::Starting(_)) {
                    *life = Life::New(threads);
                }
                Err(TimerError::NoThread)
            }
        };
        let stopped = matches!(*life, Life::Stopping(_));
        drop(life);
        if stopped && outcome.is_err() {
            // It was stopped meanwhile, and has no worker that would say that it is over.
            self.end();
        }
        self.started.notify_all();
        outcome
    }

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

    /// The task itself. What was said beside it is dropped, value by value.
    pub(super) fn strip(&self, task: TimerTask) -> Task {
        let TimerTask { task, extras } = task;
        if let Some(extras) = extras {
            let extras = *extras;
            self.contain("drop", || drop(extras.on_cancel));
            self.contain("drop", || drop(extras.executor));
        }
        task
    }

    /// The life, not while another thread starts the worker: refused where this thread must not
    /// wait for that.
    fn settled(&self) -> Result<MutexGuard<'_, Life>, TimerError> {
        let mut life = self.life();
        while let Life::Starting(starter) = *life {
            if starter == std::thread::current().id() {
                return Err(TimerError::Starting);
            }
            // The spawner is the user's and may take its time.
            check_stance(None).map_err(TimerError::Refused)?;
            let settled = self.started.wait(life);
            life = settled.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(life)
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
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
