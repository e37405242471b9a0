//! The timer of an executor that runs on several threads: a heap of pending tasks, and the thread
//! that submits those that are due.
//!
//! The thread starts with the first task and ends when the timer is closed. It sleeps until the
//! earliest deadline, or without limit if nothing is pending. It is woken only for an earlier
//! deadline than the one until which it sleeps.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{ClockMember, contain, discard_all, trace};
use tidegate_core::{Clock, Parker, RejectReason, ThreadBuilder};
use tidegate_timer::TimerKey;
use tidegate_timer::heap::Heap;

use super::scheduled_task::ScheduledTask;

/// The maximum number of due tasks that leave the heap before the lock is released.
const BATCH: usize = 256;

/// The timer of a pool, or of an ordered view. Views over one pool share the pool's timer.
pub(crate) struct TaskTimer {
    name: String,
    clock: Clock,
    /// Where the thread sleeps.
    parker: Parker,
    state: Mutex<TimerState>,
}

#[derive(Default)]
struct TimerState {
    pending: Heap<Arc<ScheduledTask>>,
    /// `true` once the thread has started.
    running: bool,
    closed: bool,
    /// The time until which the thread sleeps; 0 while it is awake.
    sleeps_until: u64,
    /// The tasks that were pending when the timer was closed, for the thread to cancel.
    left: Heap<Arc<ScheduledTask>>,
    /// What the thread calls when these tasks are cancelled, before it ends.
    then: Option<Box<dyn FnOnce() + Send>>,
}

impl TaskTimer {
    /// Creates a timer without a thread for the executor called `name`.
    pub(crate) fn new(name: &str, clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            name: format!("{name}-timer"),
            clock: clock.clone(),
            parker: Parker::new(),
            state: Mutex::default(),
        })
    }

    /// Starts the thread, if it has not started. Returns an error if the timer is closed, or if no
    /// thread can be started.
    pub(super) fn start(self: &Arc<Self>) -> Result<(), RejectReason> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(RejectReason::Closed);
        }
        if !state.running {
            // The lock is held, so that of several first callers none relies on a thread that
            // cannot be started. This runs no user code.
            let (timer, member) = (Arc::clone(self), self.clock.join());
            let started = ThreadBuilder::new(&*self.name).spawn(move || timer.run(member));
            started.map_err(|_| RejectReason::NoThread)?;
            state.running = true;
        }
        Ok(())
    }

    /// Inserts a task that is due at `deadline`, unless it was cancelled. `sequence` is its place
    /// among equal deadlines if it ran before. Returns `false` if the timer is closed.
    pub(super) fn place(
        &self,
        task: &Arc<ScheduledTask>,
        deadline: u64,
        sequence: Option<u64>,
    ) -> bool {
        let mut state = lock(&self.state);
        if state.closed {
            return false;
        }
        let pending = &mut state.pending;
        task.insert_with(|| match sequence {
            Some(sequence) => pending.reinsert(deadline, sequence, Arc::clone(task)),
            None => pending.insert(deadline, Arc::clone(task)),
        });
        let wake = deadline < state.sleeps_until;
        if wake {
            state.sleeps_until = 0;
        }
        drop(state);
        if wake {
            self.parker.unpark();
        }
        true
    }

    /// Removes a task that was cancelled. Does not wake the thread.
    pub(super) fn remove(&self, key: TimerKey) {
        let removed = lock(&self.state).pending.remove(key);
        // Dropped without the lock: it may be the last reference to an ordered view, whose drop
        // closes the timer.
        drop(removed);
    }

    /// Closes the timer: it takes no more tasks. Its thread cancels those that are pending, calls
    /// `then`, and ends. Returns the number of pending tasks, or `None` if there is no thread that
    /// will call `then`. Never blocks.
    pub(crate) fn close(&self, then: impl FnOnce() + Send + 'static) -> Option<usize> {
        let mut state = lock(&self.state);
        let closed = std::mem::replace(&mut state.closed, true);
        if closed || !state.running {
            return None;
        }
        state.left = std::mem::take(&mut state.pending);
        state.then = Some(Box::new(then));
        let count = state.left.len();
        drop(state);
        self.parker.unpark();
        Some(count)
    }

    /// Returns the number of pending tasks.
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).pending.len()
    }

    pub(super) fn deadline(&self, after: Duration) -> u64 {
        self.clock.deadline(after)
    }

    pub(super) fn nanos(&self) -> u64 {
        self.clock.nanos()
    }

    /// What the thread does.
    fn run(&self, mut member: ClockMember) {
        member.enter();
        // A subscriber that blocks must not delay the tasks of others.
        let muted = trace::mute();
        let mut due = Vec::new();
        loop {
            let mut state = lock(&self.state);
            state.sleeps_until = 0;
            if state.closed {
                break;
            }
            let now = self.clock.nanos();
            while due.len() < BATCH
                && let Some(one) = state.pending.pop_due(now)
            {
                due.push(one);
            }
            if due.is_empty() {
                let until = state.pending.next_deadline();
                state.sleeps_until = until.unwrap_or(u64::MAX);
                drop(state);
                self.clock.park_until(&self.parker, until);
                continue;
            }
            drop(state);
            due.drain(..).for_each(ScheduledTask::fire);
        }
        drop(muted);
        self.cancel_left();
    }

    /// Cancels the tasks that were pending when the timer was closed: first all completions, then
    /// the closures, whose `Drop` is user code and may block.
    fn cancel_left(&self) {
        let mut state = lock(&self.state);
        let (mut left, then) = (std::mem::take(&mut state.left), state.then.take());
        drop(state);
        let (mut tasks, mut remains) = (Vec::new(), Vec::new());
        for due in left.drain() {
            if let Ok(Some(remaining)) = contain(|| due.value.take_cancelled()) {
                remains.push(remaining);
            }
            tasks.push(due.value);
        }
        if let Some(then) = then {
            let _ = contain(then);
        }
        discard_all(remains);
        discard_all(tasks);
    }
}
