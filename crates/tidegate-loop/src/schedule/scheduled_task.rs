//! Scheduled tasks: once, at a fixed rate, with a fixed delay.
//!
//! A scheduled task is one block. The block itself goes to its event loop as a signal and waits
//! there in the heap. If the task is cancelled from another thread, the block is sent once more, so
//! that its entry in the heap is removed. Cancelling drops the closure at once, on the caller's
//! thread.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::executor::{Work, is_current};
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::{Deliver, Delivery, PlainTask, SignalBlock};
use tidegate_core::{RejectReason, Rejected, Task};
use tidegate_pool::internal::{Period, Repeat, TaskPromise};
use tidegate_promise::Completion;
use tidegate_timer::heap::Due;

use super::timers::{Body, Timer, TimerState};
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local;

/// Returns `run` if the event loop accepts timers, and ensures that the event loop has a thread.
pub(crate) fn check<F>(shared: &Shared, run: F) -> Result<F, Rejected<F>> {
    if shared.state.get() >= Lifecycle::ShuttingDown {
        return Err(Rejected::new(run, RejectReason::Closed));
    }
    if shared.state.needs_thread()
        && let Err(why) = shared.start()
    {
        return Err(Rejected::new(run, why));
    }
    Ok(run)
}

/// A link to a scheduled task, which cancels the task and does not keep it.
#[derive(Debug)]
pub struct TimerLink(Weak<SignalBlock<Timer>>);

impl TimerLink {
    /// Cancels the task, unless it has begun. Its completion is cancelled.
    pub fn cancel(&self) {
        if let Some(timer) = self.0.upgrade() {
            cancel(&timer);
        }
    }

    /// Returns `false` if the task has run or was cancelled.
    pub fn is_pending(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Schedules `run` once, `after` from now.
pub(crate) fn once<T, F>(shared: &Arc<Shared>, after: Duration, run: F) -> Completion<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    make_once(shared, after, run).0
}

/// Schedules `run` like `once`, and returns a link to it.
pub(crate) fn once_linked<T, F>(
    shared: &Arc<Shared>,
    after: Duration,
    run: F,
) -> (Completion<T>, TimerLink)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (completion, timer) = make_once(shared, after, run);
    (completion, TimerLink(Arc::downgrade(&timer)))
}

fn make_once<T, F>(
    shared: &Arc<Shared>,
    after: Duration,
    run: F,
) -> (Completion<T>, Arc<SignalBlock<Timer>>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (answer, completion) = TaskPromise::of(shared, Work::Own);
    let timer = make(shared, after);
    cancel_with(&answer, &timer);
    let task = Task::labelled::<F, _>(move || answer.run(run));
    lock(&timer.state).body = Some(Body::Once(task));
    submit(shared, &timer);
    (completion, timer)
}

/// Schedules `run` periodically. The returned completion never succeeds.
pub(crate) fn repeat<F>(
    shared: &Arc<Shared>,
    first: Duration,
    every: Period,
    run: F,
) -> Completion<()>
where
    F: FnMut() + Send + 'static,
{
    let (answer, completion) = TaskPromise::of(shared, Work::Own);
    let timer = make(shared, first);
    cancel_with(&answer, &timer);
    lock(&timer.state).body = Some(Body::Repeat(Repeat::new(answer, every, run)));
    submit(shared, &timer);
    completion
}

fn make(shared: &Arc<Shared>, after: Duration) -> Arc<SignalBlock<Timer>> {
    SignalBlock::new(Timer {
        home: Arc::downgrade(shared),
        state: Mutex::new(TimerState {
            body: None,
            deadline: shared.clock.deadline(after),
            key: None,
        }),
    })
}

/// Adds the timer to its event loop: directly on the event loop's own thread, by a signal from
/// others.
fn submit(shared: &Arc<Shared>, timer: &Arc<SignalBlock<Timer>>) {
    if is_current(shared.id) {
        local::with(|local| local.loop_state.timers.insert(timer));
        return;
    }
    let deadline = lock(&timer.state).deadline;
    let Some(signal) = timer.raise() else { return };
    // A refusal means that the event loop has terminated: dropping the signal cancels the timer.
    if shared.mailbox.signals.push(signal).is_ok() {
        shared.ring_before(deadline);
    }
}

/// Makes a cancellation of the promise cancel the timer.
fn cancel_with<T: Send + 'static>(answer: &TaskPromise<T>, timer: &Arc<SignalBlock<Timer>>) {
    let timer = Arc::downgrade(timer);
    answer.on_cancelled(move || {
        if let Some(timer) = timer.upgrade() {
            cancel(&timer);
        }
    });
}

/// Drops the closure now, on this thread, and ensures that the entry in the heap is removed.
fn cancel(timer: &Arc<SignalBlock<Timer>>) {
    let mut state = lock(&timer.state);
    let body = state.body.take();
    let waits = state.key.is_some();
    drop(state);
    let Some(shared) = timer.home.upgrade() else {
        return;
    };
    drop_contained(&shared, body);
    if !waits {
        return;
    }
    if is_current(shared.id) {
        unlink(timer);
    } else if let Some(signal) = timer.raise() {
        // Does not wake the event loop: the entry is small and is removed in the next turn.
        if shared.mailbox.signals.push(signal).is_ok() {
            shared.note_silent();
        }
    }
}

fn unlink(timer: &Arc<SignalBlock<Timer>>) {
    if let Some(key) = lock(&timer.state).key.take() {
        local::with(|local| local.loop_state.timers.remove(key));
    }
}

impl Deliver for Timer {
    fn deliver(timer: Arc<SignalBlock<Self>>, how: Delivery) {
        if how == Delivery::Orphaned {
            if let Some(shared) = timer.home.upgrade() {
                expire(&shared, &timer);
            }
            return;
        }
        let cancelled = lock(&timer.state).body.is_none();
        if cancelled {
            unlink(&timer);
        } else {
            local::with(|local| local.loop_state.timers.insert(&timer));
        }
    }
}

/// Ends a timer that will never run: its completion is cancelled.
pub(crate) fn expire(shared: &Shared, timer: &SignalBlock<Timer>) {
    let mut state = lock(&timer.state);
    state.key = None;
    let body = state.body.take();
    drop(state);
    drop_contained(shared, body);
}

/// Runs a timer that is due, through `run_task`, and re-inserts a periodic one.
pub(crate) fn fire(
    shared: &Shared,
    due: Due<Arc<SignalBlock<Timer>>>,
    run_task: &mut dyn FnMut(Task),
) {
    let timer = due.value;
    let mut state = lock(&timer.state);
    state.key = None;
    match &state.body {
        None => {}
        Some(Body::Once(_)) => {
            let body = state.body.take();
            drop(state);
            if let Some(Body::Once(task)) = body {
                run_task(task);
            }
        }
        Some(Body::Repeat(repeat)) => {
            let name = repeat.name();
            drop(state);
            let block = Arc::clone(&timer);
            run_task(PlainTask::named(name, move || run_repeat(&block)));
            reinsert(shared, &timer, due.deadline, due.sequence);
        }
    }
}

/// Runs a periodic task once. Its body is out of the block meanwhile, so that a cancellation from
/// another thread does not wait for it.
fn run_repeat(timer: &SignalBlock<Timer>) {
    let body = lock(&timer.state).body.take();
    let Some(Body::Repeat(repeat)) = body else {
        return;
    };
    let Some(repeat) = repeat.run() else { return };
    let mut state = lock(&timer.state);
    // Checked under the lock: a cancellation after this check finds the body and takes it.
    if !repeat.is_cancelled() {
        state.body = Some(Body::Repeat(repeat));
    }
}

/// Re-inserts a periodic task for its next run, unless it has ended or the event loop is shutting
/// down.
fn reinsert(shared: &Shared, timer: &Arc<SignalBlock<Timer>>, deadline: u64, sequence: u64) {
    let mut state = lock(&timer.state);
    let Some(Body::Repeat(repeat)) = &state.body else {
        return;
    };
    if shared.state.get() >= Lifecycle::ShuttingDown {
        let body = state.body.take();
        drop(state);
        drop_contained(shared, body);
        return;
    }
    let next = repeat.next(deadline, shared.clock.nanos());
    state.deadline = next;
    local::with(|local| {
        local
            .loop_state
            .timers
            .place(timer, &mut state, Some(sequence))
    });
}
