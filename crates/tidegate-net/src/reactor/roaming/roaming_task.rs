//! A few ready sources that move to the thread that runs them, and back.
//!
//! The loop hands sources that are ready together out as one task, because most of the cost of a
//! task does not depend on what it does. The thread that runs the task takes one source after the
//! other. If one of them blocks, the others must not wait for it: whenever the loop goes on while a
//! task that it has handed out is not over, it recalls the sources that have not begun, and those
//! that have handled their events. Only the one that handles its event stays with the task.
//!
//! # Invariants
//!
//! * A source of a task is in `waiting`, in `done`, or with the thread that runs the task.
//! * The loop looks after the last task that it has handed out before it does anything else. A task
//!   that it looked after before it was over announces its end with an update, so no source is
//!   forgotten.
//! * No user code runs under the lock.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::{PlainTask, contain, lock};
use tidegate_core::{Blocking, CaughtPanic, Task};
use tidegate_pool::internal::run_task_of;

use super::super::io_context::IoContext;
use super::super::source::{Next, close_and_drop};
use super::updates::{RoamingShared, RoamingSource, Update};
use crate::sys::{PIECES, Ready};

thread_local! {
    /// The place in the wait record of the source that this thread runs.
    static RUNNING: Cell<Option<ExecutorId>> = const { Cell::new(None) };
}

/// Returns the place in the wait record of the source that this thread runs, if it has one.
pub(crate) fn running_place() -> Option<ExecutorId> {
    RUNNING.try_with(Cell::get).ok().flatten()
}

/// The sources of one task. Reused for the next events.
pub(crate) struct RoamingTask {
    roam: Arc<RoamingShared>,
    load: Mutex<Load>,
}

/// A source that is away, with its event.
pub(super) struct Traveller {
    pub(super) ready: Ready,
    /// `None` if it has left for good.
    pub(super) source: Option<RoamingSource>,
}

/// What a task has at the moment.
#[derive(Default)]
pub(super) struct Load {
    /// Sources that have not begun to handle their events, in order.
    pub(super) waiting: VecDeque<Traveller>,
    /// Sources that have handled their events, and what they want next.
    pub(super) done: Vec<(Traveller, Next)>,
    /// `None` while a thread runs the task.
    pub(super) io_context: Option<Box<IoContext>>,
    stage: Stage,
    /// The loop goes on without this task, which announces its end therefore.
    left_alone: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// No thread has begun it.
    Queued,
    Running,
    /// It has run, or was dropped; then its source is still in `waiting`.
    #[default]
    Over,
}

impl RoamingTask {
    /// Creates an empty one.
    pub(super) fn new(roam: &Arc<RoamingShared>) -> Arc<Self> {
        Arc::new(Self {
            roam: Arc::clone(roam),
            load: Mutex::new(Load {
                waiting: VecDeque::with_capacity(PIECES),
                done: Vec::with_capacity(PIECES),
                ..Load::default()
            }),
        })
    }

    /// Returns the task that runs the sources in `waiting`, which is empty then. They are all of
    /// this `kind`. The task must be over.
    pub(super) fn task(
        self: &Arc<Self>,
        kind: Blocking,
        waiting: &mut VecDeque<Traveller>,
        io_context: Box<IoContext>,
    ) -> Task {
        let mut load = lock(&self.load);
        debug_assert!(load.stage == Stage::Over && load.waiting.is_empty());
        std::mem::swap(&mut load.waiting, waiting);
        load.io_context = Some(io_context);
        load.stage = Stage::Queued;
        load.left_alone = false;
        drop(load);
        let journey = RoamingTaskGuard(Some(Arc::clone(self)));
        PlainTask::of(kind, move || journey.run())
    }

    /// Moves what the loop may have into `home`, which is empty: the sources that have handled their
    /// events, and those that have not begun. If the task is over, that is everything. If no thread has
    /// begun it, its first source stays. Returns `true` if the task is over; otherwise its end is
    /// an update.
    pub(super) fn recall(&self, home: &mut Load) -> bool {
        let mut load = lock(&self.load);
        std::mem::swap(&mut load.done, &mut home.done);
        home.io_context = match load.stage {
            Stage::Over => load.io_context.take(),
            Stage::Queued | Stage::Running => None,
        };
        let stays = match load.stage {
            Stage::Queued => load.waiting.len().min(1),
            Stage::Running | Stage::Over => 0,
        };
        home.waiting.extend(load.waiting.drain(stays..));
        load.left_alone = load.stage != Stage::Over;
        !load.left_alone
    }

    /// Takes the first source, on the thread that runs the task.
    fn begin(&self) -> Option<(Traveller, Box<IoContext>)> {
        let mut load = lock(&self.load);
        load.stage = Stage::Running;
        Some((load.waiting.pop_front()?, load.io_context.take()?))
    }

    /// Puts a source down that has handled its event, and takes the next one.
    #[inline]
    fn step(&self, done: Traveller, next: Next) -> Option<Traveller> {
        let mut load = lock(&self.load);
        load.done.push((done, next));
        load.waiting.pop_front()
    }

    /// Ends the task, on the thread that has run or dropped it.
    fn end(self: Arc<Self>, io_context: Option<Box<IoContext>>) {
        let mut load = lock(&self.load);
        load.stage = Stage::Over;
        if io_context.is_some() {
            load.io_context = io_context;
        }
        let announce = load.left_alone;
        drop(load);
        if announce
            && let roam = Arc::clone(&self.roam)
            && let Err(Update::Home(task)) = roam.push(Update::Home(self))
        {
            task.close();
        }
    }

    /// Closes the sources on this thread, because their loop has ended.
    #[cold]
    fn close(&self) {
        let mut load = Load::default();
        self.recall(&mut load);
        let Some(mut io_context) = load.io_context else {
            return;
        };
        let done = load.done.into_iter().map(|(traveller, _)| traveller);
        for traveller in done.chain(load.waiting) {
            if let Some(source) = traveller.source {
                close_and_drop(source, &mut io_context);
            }
        }
    }
}

/// A `RoamingTask` inside a task. If the task is dropped without having run, its source goes back to
/// its loop with its event undelivered.
struct RoamingTaskGuard(Option<Arc<RoamingTask>>);

impl RoamingTaskGuard {
    fn run(mut self) {
        let Some(task) = self.0.take() else {
            return;
        };
        let Some((first, mut io_context)) = task.begin() else {
            return task.end(None);
        };
        let run = || run_all(&task, first, &mut io_context);
        let panicked = match task.roam.timers() {
            Some(home) => run_task_of(home.id(), run),
            None => run(),
        };
        task.end(Some(io_context));
        if let Some(panic) = panicked {
            panic.resume();
        }
    }
}

impl Drop for RoamingTaskGuard {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.end(None);
        }
    }
}

/// Runs one source after the other. Returns the first panic.
fn run_all(
    task: &RoamingTask,
    first: Traveller,
    io_context: &mut IoContext,
) -> Option<CaughtPanic> {
    let mut panicked = None;
    let mut now = Some(first);
    while let Some(mut traveller) = now {
        let Traveller { ready, source } = &mut traveller;
        let place = source.as_ref().and_then(|source| source.place());
        let before = RUNNING.replace(place);
        let handled = contain(|| match source {
            Some(source) => source.ready(ready.readiness, io_context),
            None => Next::Leave,
        });
        RUNNING.set(before);
        let next = *handled.as_ref().unwrap_or(&Next::Leave);
        let gone = match next {
            // Its drop may be user code: here it does not hold up the loop.
            Next::Leave => contain(|| drop(source.take())).err(),
            _ => None,
        };
        panicked = panicked.or(handled.err()).or(gone);
        now = task.step(traveller, next);
    }
    panicked
}
