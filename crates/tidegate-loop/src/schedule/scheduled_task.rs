//! Scheduled tasks: once, at a fixed rate, with a fixed delay.
//!
//! A scheduled task is one block. It travels to its loop in the signal lane as itself, waits
//! there in the loop's heap, and travels once more if it is cancelled from elsewhere, so that
//! its place in the heap is freed. Cancelling drops the closure at once, on the caller.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{Deliver, Delivery, SignalBlock, Task, as_nanos, contain, is_current};
use tidegate_pool::internal::Answer;
use tidegate_promise::Completion;
use tidegate_timer::{Due, Heap, Key};

use crate::state::lifecycle::Lifecycle;
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local;

/// What a fixed-rate task does about the runs that it missed while its loop was busy.
///
/// ```
/// use tidegate_loop::Missed;
///
/// assert_eq!(Missed::default(), Missed::Burst);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// Makes up for them, back to back. Other timers that are due run in between.
    #[default]
    Burst,
    /// Leaves them out and keeps to the original times.
    Skip,
    /// Starts counting anew from the late run.
    Delay,
}

/// Waiting scheduled tasks of one loop, earliest first.
///
/// They run in passes. A pass runs what was due when it began, each timer once, and may take
/// several turns. A fixed-rate task that cannot keep up is due again as soon as it has run, and
/// earlier than everything else: without passes it would run alone.
#[derive(Default)]
pub(crate) struct Timers {
    heap: Heap<Arc<SignalBlock<Timer>>>,
    /// When the present pass began: it runs the timers that were due by then.
    pass: Option<u64>,
    /// Timers that came back during the pass and are due within it: they run in the next one.
    aside: Vec<(Arc<SignalBlock<Timer>>, Option<u64>)>,
}

/// One scheduled task.
pub(crate) struct Timer {
    home: Weak<Shared>,
    state: Mutex<TimerState>,
}

struct TimerState {
    /// What to run; gone once it ran for the last time or was cancelled.
    body: Option<Body>,
    deadline: u64,
    /// Its place in the heap, while it waits there.
    key: Option<Key>,
}

pub(crate) enum Body {
    Once(Task),
    Repeat(Repeat),
}

pub(crate) struct Repeat {
    run: Box<dyn FnMut() + Send>,
    answer: Answer<()>,
    every: Every,
    name: &'static str,
}

/// When a periodic task runs again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Every {
    Rate { period: u64, missed: Missed },
    Delay { pause: u64 },
}

impl Timers {
    pub(crate) fn len(&self) -> usize {
        self.heap.len() + self.aside.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        // What lies aside was due when the pass began.
        let aside = self.pass.filter(|_| !self.aside.is_empty());
        self.heap.next_deadline().into_iter().chain(aside).min()
    }

    /// Removes and returns the next timer of the pass. Once the pass is over, and if it began
    /// before `now`, the next one begins.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Due<Arc<SignalBlock<Timer>>>> {
        loop {
            let pass = *self.pass.get_or_insert(now);
            let due = self.heap.pop_due(pass);
            if due.is_some() {
                return due;
            }
            self.end_pass();
            if pass >= now {
                return None;
            }
        }
    }

    fn end_pass(&mut self) {
        self.pass = None;
        if !self.aside.is_empty() {
            for (timer, sequence) in std::mem::take(&mut self.aside) {
                self.place(&timer, &mut lock(&timer.state), sequence);
            }
        }
    }

    /// Takes everything out, earliest first.
    pub(crate) fn drain(&mut self) -> Vec<Arc<SignalBlock<Timer>>> {
        self.end_pass();
        self.heap.drain().map(|due| due.value).collect()
    }

    fn insert(&mut self, timer: &Arc<SignalBlock<Timer>>) {
        self.place(timer, &mut lock(&timer.state), None);
    }

    /// Puts a timer into the heap, or aside if the present pass would find it there. `sequence` is
    /// its place among equals if it ran before.
    fn place(
        &mut self,
        timer: &Arc<SignalBlock<Timer>>,
        state: &mut TimerState,
        sequence: Option<u64>,
    ) {
        // One that was cancelled on its way has no body any more and needs no place.
        if state.key.is_some() || state.body.is_none() {
            return;
        }
        let timer = Arc::clone(timer);
        if self.pass.is_some_and(|pass| state.deadline <= pass) {
            self.aside.push((timer, sequence));
            return;
        }
        state.key = Some(match sequence {
            Some(sequence) => self.heap.reinsert(state.deadline, sequence, timer),
            None => self.heap.insert(state.deadline, timer),
        });
    }
}

/// Schedules `run` once, `after` from now.
pub(crate) fn once<T, F>(shared: &Arc<Shared>, after: Duration, run: F) -> Completion<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (answer, completion) = Answer::of(shared);
    let timer = make(shared, after);
    cancel_with(&answer, &timer);
    let task = Task::labelled::<F, _>(move || answer.run(run));
    lock(&timer.state).body = Some(Body::Once(task));
    submit(shared, &timer);
    completion
}

/// Schedules `run` again and again; answers the completion that never succeeds.
pub(crate) fn repeat<F>(
    shared: &Arc<Shared>,
    first: Duration,
    every: Every,
    run: F,
) -> Completion<()>
where
    F: FnMut() + Send + 'static,
{
    let (answer, completion) = Answer::of(shared);
    let timer = make(shared, first);
    cancel_with(&answer, &timer);
    lock(&timer.state).body = Some(Body::Repeat(Repeat {
        run: Box::new(run),
        answer,
        every,
        name: std::any::type_name::<F>(),
    }));
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

/// Brings the timer to its loop: at once on the loop's own thread, by signal from elsewhere.
fn submit(shared: &Arc<Shared>, timer: &Arc<SignalBlock<Timer>>) {
    if is_current(shared.id) {
        local::with(|local| local.kept.timers.insert(timer));
        return;
    }
    let deadline = lock(&timer.state).deadline;
    let Some(signal) = timer.raise() else { return };
    // Refused means that the loop has terminated: dropping the signal cancels the timer.
    if shared.signals.push(signal).is_ok() {
        shared.ensure_thread();
        if shared.bell.ring_before(deadline) {
            shared.wake();
        } else {
            shared.note_silent();
        }
    }
}

/// Makes a cancellation of the answer take the timer down.
fn cancel_with<T: Send + 'static>(answer: &Answer<T>, timer: &Arc<SignalBlock<Timer>>) {
    let timer = Arc::downgrade(timer);
    answer.on_cancelled(move || {
        if let Some(timer) = timer.upgrade() {
            cancel(&timer);
        }
    });
}

/// Drops the closure now, on this thread, and sees to it that the heap's entry goes.
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
        // Without waking the loop: the entry is small and goes at its next turn.
        if shared.signals.push(signal).is_ok() {
            shared.note_silent();
        }
    }
}

fn unlink(timer: &Arc<SignalBlock<Timer>>) {
    if let Some(key) = lock(&timer.state).key.take() {
        local::with(|local| local.kept.timers.heap.remove(key));
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
            local::with(|local| local.kept.timers.insert(&timer));
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

/// Runs a timer whose time has come, through `run_task`, and puts a periodic one back.
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
            let name = repeat.name;
            drop(state);
            let block = Arc::clone(&timer);
            run_task(Task::named(name, move || run_repeat(&block)));
            again(shared, &timer, due.deadline, due.sequence);
        }
    }
}

/// One run of a periodic task. Its body is out of the block meanwhile, so that a cancellation
/// from elsewhere does not wait for it.
fn run_repeat(timer: &SignalBlock<Timer>) {
    let body = lock(&timer.state).body.take();
    let Some(Body::Repeat(mut repeat)) = body else {
        return;
    };
    match contain(&mut repeat.run) {
        Ok(()) => {
            let mut state = lock(&timer.state);
            // Asked under the lock: whoever cancels after this finds the body and takes it.
            if !repeat.answer.is_cancelled() {
                state.body = Some(Body::Repeat(repeat));
            }
        }
        Err(panic) => repeat.answer.fail_panic(repeat.name, panic),
    }
}

/// Puts a periodic task back for its next run, unless it ended or the loop is closing.
fn again(shared: &Shared, timer: &Arc<SignalBlock<Timer>>, deadline: u64, sequence: u64) {
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
    let next = repeat.every.next(deadline, shared.clock.nanos());
    state.deadline = next;
    local::with(|local| local.kept.timers.place(timer, &mut state, Some(sequence)));
}

impl Every {
    /// The next time, after a run that was due at `deadline` and ended at `now`.
    fn next(self, deadline: u64, now: u64) -> u64 {
        match self {
            Self::Delay { pause } => now.saturating_add(pause),
            Self::Rate { period, missed } => {
                let next = deadline.saturating_add(period);
                match missed {
                    Missed::Burst => next,
                    _ if next > now => next,
                    Missed::Skip => {
                        let missed = (now - deadline) / period;
                        deadline.saturating_add(period.saturating_mul(missed + 1))
                    }
                    Missed::Delay => now.saturating_add(period),
                }
            }
        }
    }

    pub(crate) fn rate(period: Duration, missed: Missed) -> Self {
        Self::Rate {
            period: as_nanos(period),
            missed,
        }
    }

    pub(crate) fn delay(pause: Duration) -> Self {
        Self::Delay {
            pause: as_nanos(pause),
        }
    }
}
