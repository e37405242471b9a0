//! One scheduled task, from the call of `schedule` to its last run.
//!
//! A task is in one of these places:
//!
//! ```text
//!   in the heap ──── due ───▶ submitted ──── a worker takes it ───▶ running ───▶ ended
//!    ▲   ▲                     │     │                                │
//!    │   '── periodic, refused ┘     │ dropped by the executor:       │ periodic
//!    │                               │ periodic tasks go back,        │
//!    │                               │ others end                     │
//!    '───────────────────────────────┴────────────────────────────────'
//! ```
//!
//! The closure stays in `state` until it runs, so a cancellation finds it in each of these places.
//!
//! # Invariants
//!
//! * A task is in the heap at most once, and not while it is submitted or running: a periodic task
//!   does not overlap itself.
//! * The lock of a task is taken after that of its timer, never before. No user code runs or is
//!   dropped under either lock.

use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::executor::Work;
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::trace::Span;
use tidegate_core::internal::{PlainTask, contain};
use tidegate_core::{RejectReason, Rejected, Task, Unhandled};
use tidegate_promise::{Completion, Failure};
use tidegate_timer::TimerKey;
use tidegate_timer::heap::Due;

use super::period::{Period, PeriodError};
use super::repeat::Repeat;
use super::target::ScheduleTarget;
use super::task_timer::TaskTimer;
use crate::executor::TaskPromise;

/// Schedules `run` once, `after` from now.
pub(crate) fn once<X, T, F>(
    target: &Arc<X>,
    after: Duration,
    run: F,
) -> Result<Completion<T>, Rejected<F>>
where
    X: ScheduleTarget,
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if let Err(why) = target.timer().start() {
        return Err(Rejected::new(run, why));
    }
    let (answer, completion) = TaskPromise::of(target, Work::Submitted);
    let task = ScheduledTask::new(target, type_name::<F>());
    task.cancel_with(&answer);
    let span = Span::current();
    task.begin(after, Body::Once(Box::new(Once { answer, run, span })));
    Ok(completion)
}

/// Schedules `run` periodically. The returned completion never succeeds.
pub(crate) fn repeat<X, F>(
    target: &Arc<X>,
    first: Duration,
    every: Period,
    run: F,
) -> Result<Completion<()>, PeriodError>
where
    X: ScheduleTarget,
    F: FnMut() + Send + 'static,
{
    if let Err(why) = target.timer().start() {
        return Err(Rejected::new(run, why).into());
    }
    let (answer, completion) = TaskPromise::of(target, Work::Submitted);
    let task = ScheduledTask::new(target, type_name::<F>());
    task.cancel_with(&answer);
    task.begin(first, Body::Repeat(Repeat::new(answer, every, run)));
    Ok(completion)
}

/// A scheduled task.
pub(super) struct ScheduledTask {
    target: Arc<dyn ScheduleTarget>,
    name: &'static str,
    state: Mutex<TaskState>,
}

#[derive(Default)]
struct TaskState {
    /// What to run; `None` while it runs, and once it has ended.
    body: Option<Body>,
    /// The key in the timer's heap, while the task is there.
    key: Option<TimerKey>,
    /// `true` from the submission of a due task until it runs or was dropped.
    submitted: bool,
}

enum Body {
    Once(Box<dyn OnceBody>),
    Repeat(Repeat),
}

/// A closure and its promise, independent of their types.
trait OnceBody: Send {
    /// Runs the closure and completes the promise.
    fn run(self: Box<Self>);
    /// Fails the promise. Returns the closure and its span, whose `Drop` calls user code.
    fn fail(self: Box<Self>, cause: Failure) -> Box<dyn Send>;
    /// Cancels the promise. Returns the closure and its span, whose `Drop` calls user code.
    fn cancel(self: Box<Self>) -> Box<dyn Send>;
}

/// A closure that runs once. Dropping it decides the promise first, then drops the closure.
struct Once<T: Send + 'static, F> {
    answer: TaskPromise<T>,
    run: F,
    /// The span in which the task was scheduled.
    span: Span,
}

impl<T, F> OnceBody for Once<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    fn run(self: Box<Self>) {
        let Self { answer, run, span } = *self;
        let _entered = span.enter();
        answer.run(run);
    }

    fn fail(self: Box<Self>, cause: Failure) -> Box<dyn Send> {
        let Self { answer, run, span } = *self;
        answer.fail(cause);
        Box::new((run, span))
    }

    fn cancel(self: Box<Self>) -> Box<dyn Send> {
        let Self { answer, run, span } = *self;
        drop(answer);
        Box::new((run, span))
    }
}

impl ScheduledTask {
    fn new<X: ScheduleTarget>(target: &Arc<X>, name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            target: Arc::<X>::clone(target),
            name,
            state: Mutex::default(),
        })
    }

    /// Makes a cancellation of the promise cancel the task.
    fn cancel_with<T: Send + 'static>(self: &Arc<Self>, answer: &TaskPromise<T>) {
        let task = Arc::downgrade(self);
        answer.on_cancelled(move || {
            if let Some(task) = task.upgrade() {
                task.cancel();
            }
        });
    }

    /// Inserts the task into the timer for the first time. If the timer was closed meanwhile, the
    /// task is cancelled.
    fn begin(self: &Arc<Self>, after: Duration, body: Body) {
        lock(&self.state).body = Some(body);
        let deadline = self.timer().deadline(after);
        if !self.timer().place(self, deadline, None) {
            self.cancel();
        }
    }

    fn timer(&self) -> &Arc<TaskTimer> {
        self.target.timer()
    }

    /// Stores the key that `insert` returns, unless the task was cancelled. Called with the timer's
    /// lock held.
    pub(super) fn insert_with(&self, insert: impl FnOnce() -> TimerKey) {
        let mut state = lock(&self.state);
        if state.body.is_some() && state.key.is_none() {
            state.key = Some(insert());
        }
    }

    /// Cancels the task: drops its closure on this thread and removes it from the heap.
    fn cancel(&self) {
        if let Some(remains) = self.take_cancelled() {
            self.contain("a drop", || drop(remains));
        }
    }

    /// Cancels the task and its completion. Returns the closure, unless the task is running or has
    /// ended.
    pub(super) fn take_cancelled(&self) -> Option<Box<dyn Send>> {
        let mut state = lock(&self.state);
        let body = state.body.take();
        let key = state.key.take();
        drop(state);
        if let Some(key) = key {
            self.timer().remove(key);
        }
        Some(match body? {
            Body::Once(once) => once.cancel(),
            Body::Repeat(repeat) => repeat.cancel(),
        })
    }

    /// Submits the task, which is due and has left the heap. Called on the timer's thread.
    pub(super) fn fire(due: Due<Arc<Self>>) {
        let Due {
            deadline,
            sequence,
            value: task,
        } = due;
        let mut state = lock(&task.state);
        state.key = None;
        if state.body.is_none() {
            return;
        }
        state.submitted = true;
        drop(state);
        let run = DueRun {
            task: Some(Arc::clone(&task)),
            deadline,
            sequence,
        };
        let run = PlainTask::named(task.name, move || run.run());
        let mut refused = None;
        task.contain(task.name, || refused = task.target.submit_due(run).err());
        if let Some(refused) = refused {
            task.refused(refused, deadline, sequence);
        }
    }

    /// Ends a run that the executor refused. A task that runs once ends with it. A periodic task
    /// has missed a run. Nothing is reported if the executor has ended: then its pending tasks are
    /// cancelled, and this is one of them.
    fn refused(self: &Arc<Self>, refused: Rejected<Task>, deadline: u64, sequence: u64) {
        let why = refused.why();
        let mut state = lock(&self.state);
        state.submitted = false;
        let periodic = matches!(state.body, Some(Body::Repeat(_)));
        let body = match periodic {
            true => None,
            false => state.body.take(),
        };
        drop(state);
        // Drops a reference to this task, and nothing of the user's.
        drop(refused);
        if why == RejectReason::Closed {
            let remains = self.take_cancelled();
            let once = body.and_then(Body::into_once).map(OnceBody::cancel);
            if let Some(remains) = remains.or(once) {
                self.target.discard(remains);
            }
            return;
        }
        let message = why.to_string();
        self.report(&Unhandled::TaskRefused {
            task: self.name,
            message: &message,
        });
        if let Some(once) = body.and_then(Body::into_once) {
            let cause = Failure::new(Rejected::new((), why));
            self.target.discard(once.fail(cause));
        } else if periodic {
            self.go_back(deadline, sequence);
        }
    }

    /// Runs the task, on a thread of the executor.
    fn run(self: &Arc<Self>, deadline: u64, sequence: u64) {
        let mut state = lock(&self.state);
        state.submitted = false;
        let body = state.body.take();
        drop(state);
        match body {
            None => {}
            Some(Body::Once(once)) => once.run(),
            Some(Body::Repeat(repeat)) => {
                let Some(repeat) = repeat.run() else { return };
                let mut state = lock(&self.state);
                // Checked under the lock: a cancellation after this check finds the body.
                if !repeat.is_cancelled() {
                    state.body = Some(Body::Repeat(repeat));
                    drop(state);
                    self.go_back(deadline, sequence);
                }
            }
        }
    }

    /// Ends a submission that the executor dropped without running it: it has ended, or the task
    /// was displaced from its queue.
    fn dropped(self: &Arc<Self>, deadline: u64, sequence: u64) {
        let mut state = lock(&self.state);
        if !std::mem::take(&mut state.submitted) {
            return;
        }
        if matches!(state.body, Some(Body::Repeat(_))) {
            drop(state);
            return self.go_back(deadline, sequence);
        }
        let body = state.body.take();
        drop(state);
        // The drop of the promise tells why the task did not run.
        self.contain("a drop", || drop(body));
    }

    /// Inserts a periodic task again, for the run after the one that was due at `deadline`. If the
    /// timer is closed, the task ends, and its completion is cancelled.
    fn go_back(self: &Arc<Self>, deadline: u64, sequence: u64) {
        let state = lock(&self.state);
        let Some(Body::Repeat(repeat)) = &state.body else {
            return;
        };
        let next = repeat.next(deadline, self.timer().nanos());
        drop(state);
        if !self.timer().place(self, next, Some(sequence)) {
            let body = lock(&self.state).body.take();
            self.contain("a drop", || drop(body));
        }
    }

    /// Reports to the executor, which may be the user's.
    fn report(&self, what: &Unhandled<'_>) {
        let _ = contain(|| self.target.unhandled(what));
    }

    /// Runs code of the user and reports its panic.
    fn contain(&self, name: &str, run: impl FnOnce()) {
        if let Err(panic) = contain(run) {
            let message = panic.message();
            let what = Unhandled::TaskPanic {
                task: name,
                message,
            };
            self.report(&what);
        }
    }
}

impl Body {
    fn into_once(self) -> Option<Box<dyn OnceBody>> {
        match self {
            Self::Once(once) => Some(once),
            Self::Repeat(_) => None,
        }
    }
}

/// One run of a task, from its submission until it begins. The task of the executor owns it.
struct DueRun {
    task: Option<Arc<ScheduledTask>>,
    deadline: u64,
    sequence: u64,
}

impl DueRun {
    fn run(mut self) {
        if let Some(task) = self.task.take() {
            task.run(self.deadline, self.sequence);
        }
    }
}

impl Drop for DueRun {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.dropped(self.deadline, self.sequence);
        }
    }
}
