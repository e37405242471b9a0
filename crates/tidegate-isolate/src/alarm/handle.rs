//! The handles of a timer, held by the isolation and its commands, and of a command's callback
//! threads.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use tidegate_core::internal::FastClock;
use tidegate_core::{Clock, OnUnhandled, Task, ThreadBuilder};

use super::aside::CallbackThreads;
use super::tasks::{Due, TimerTaskId};
use super::timer_thread::Shared;
use crate::key::Key;

/// The timer of an isolation and its commands. Its thread ends when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct CallTimer {
    pub(super) shared: Arc<Shared>,
    /// Shared by the handles, but not by the thread.
    life: Arc<Life>,
}

/// Closes the timer when it is dropped.
struct Life(Arc<Shared>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A handle that does not keep the timer alive, for the timer's own tasks.
#[derive(Clone)]
pub(crate) struct WeakCallTimer(Weak<Life>);

impl WeakCallTimer {
    pub(crate) fn upgrade(&self) -> Option<CallTimer> {
        let life = self.0.upgrade()?;
        Some(CallTimer {
            shared: Arc::clone(&life.0),
            life,
        })
    }
}

impl CallTimer {
    pub(crate) fn new(clock: &Clock, unhandled: &OnUnhandled) -> Self {
        Self::with_threads(clock, unhandled, ThreadBuilder::new("tidegate-timer"))
    }

    pub(super) fn with_threads(
        clock: &Clock,
        unhandled: &OnUnhandled,
        threads: ThreadBuilder,
    ) -> Self {
        let shared = Arc::new(Shared::new(clock, unhandled, threads));
        Self {
            life: Arc::new(Life(Arc::clone(&shared))),
            shared,
        }
    }

    pub(crate) fn downgrade(&self) -> WeakCallTimer {
        WeakCallTimer(Arc::downgrade(&self.life))
    }

    #[inline]
    pub(crate) fn clock(&self) -> &FastClock {
        &self.shared.clock
    }

    /// Announces calls with this timeout, so that an idle timer may sleep for that long.
    pub(crate) fn expect_timeout(&self, nanos: u64) {
        self.shared.shortest.fetch_min(nanos, Ordering::Relaxed);
    }

    /// Runs `task`, which must be short and not user code, at `at` on the timer's thread.
    pub(crate) fn call_at(&self, at: u64, task: Task) -> TimerTaskId {
        self.set(at, Due::Here(task))
    }

    /// Runs `task` at `at` on the callback threads of a command. If the timer ends before, the task
    /// is dropped there.
    pub(crate) fn run_at(&self, at: u64, aside: &Arc<CallbackThreads>, task: Task) -> TimerTaskId {
        self.set(at, Due::CallbackThreads(Arc::clone(aside), task))
    }

    fn set(&self, at: u64, due: Due) -> TimerTaskId {
        let mut tasks = self.shared.tasks();
        if self.is_closed() {
            // The task would never run.
            drop(tasks);
            drop(due);
            return TimerTaskId(None);
        }
        let key = tasks.insert(at, due);
        drop(tasks);
        // ORDERING: SeqCst fence pairs with the one in `run_until_closed`: this thread reads the
        // timer's wake-up time, or the timer's last look before it sleeps finds the task.
        fence(Ordering::SeqCst);
        if at < self.shared.next_wake.load(Ordering::SeqCst) {
            self.shared.wake(at);
        }
        TimerTaskId(Some(key))
    }

    /// Cancels a task. Returns `false` if it has run or is running.
    pub(crate) fn cancel(&self, id: TimerTaskId) -> bool {
        let task = id.0.and_then(|key| self.shared.tasks().remove(key));
        task.is_some()
    }

    /// Returns the number of calls in flight that have a timeout.
    pub(crate) fn in_flight(&self) -> usize {
        let flights = self.shared.flights();
        flights.iter().filter(|flight| flight.is_running()).count()
    }

    /// Expires every running call and cancels its token.
    pub(crate) fn expire_all(&self) {
        let flights = self.shared.flights().clone();
        for flight in &flights {
            flight.expire_now(&*self.shared);
        }
        self.shared.retry_starved();
    }

    /// Creates the callback threads of a command, for user code that the timer finds due.
    pub(crate) fn aside(&self, key: &Key) -> CallbackThreadsHandle {
        let id = self.shared.next_aside.fetch_add(1, Ordering::Relaxed);
        let threads = ThreadBuilder::new(format!("tidegate-aside-{key}"));
        self.add_aside(self.shared.new_aside(id, key, threads))
    }

    pub(super) fn add_aside(&self, aside: CallbackThreads) -> CallbackThreadsHandle {
        let aside = Arc::new(aside);
        let known = Arc::clone(&aside);
        self.shared.asides().insert(aside.id, known);
        CallbackThreadsHandle {
            alarms: self.clone(),
            aside,
        }
    }

    /// Runs a task on the callback threads of a command, for a caller that must not run it itself.
    pub(crate) fn run_aside(&self, aside: &Arc<CallbackThreads>, task: Task) {
        aside.run(task);
        self.shared.retry_starved();
    }

    fn forget_aside(&self, id: u64) {
        let aside = self.shared.asides().remove(&id);
        drop(aside);
    }

    /// Returns `true` if the timer is closed, so that no task runs at its time any more.
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: pairs with the store in `Shared::close`. In `set` the lock of the tasks, which
        // both take, decides: `set` drops the task, or `close` removes it.
        self.shared.closed.load(Ordering::SeqCst)
    }

    /// Ends the thread. With `expire`, also stops every running call.
    pub(crate) fn close(&self, expire: bool) {
        self.shared.close();
        if expire {
            self.expire_all();
        }
    }
}

debug_fields!(CallTimer, this => in_flight: this.in_flight());

/// A command's handle to its [`CallbackThreads`]; the timer knows the threads until this is
/// dropped.
#[derive(Debug)]
pub(crate) struct CallbackThreadsHandle {
    alarms: CallTimer,
    aside: Arc<CallbackThreads>,
}

impl CallbackThreadsHandle {
    /// Returns the number that a call slot of the command stores.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.aside.id
    }

    /// Sets the number of fallbacks or batches that may run at the same time.
    pub(crate) fn set_width(&self, width: usize) {
        self.aside.set_width(width);
        self.alarms.shared.retry_starved();
    }
}

impl std::ops::Deref for CallbackThreadsHandle {
    type Target = Arc<CallbackThreads>;

    fn deref(&self) -> &Arc<CallbackThreads> {
        &self.aside
    }
}

impl Drop for CallbackThreadsHandle {
    fn drop(&mut self) {
        self.alarms.forget_aside(self.aside.id);
    }
}
