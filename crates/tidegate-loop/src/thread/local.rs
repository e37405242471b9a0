//! What a loop keeps on its thread: its own tasks, timers and futures.
//!
//! Reached through a thread-local, so that code that runs on the loop adds to them without a
//! lock or an atomic operation. Borrowed only for a moment, never while code of the user's runs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Refusal, Rejected, Task};

use crate::schedule::timeouts::Timeouts;
use crate::schedule::timers::Timers;
use crate::spawn::slots::{Futures, LocalFutures};
use crate::state::shared::Shared;

/// The most places in the task lane that a loop reserves ahead for its own submissions.
const RESERVE: u32 = 64;

tidegate_core::prim::thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

/// The thread's side of the loop that it drives.
pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kept: Box<Kept>,
    /// Futures that cannot leave this thread.
    pub(crate) pinned: LocalFutures,
}

/// What a loop owns and takes along when it changes its thread.
#[derive(Default)]
pub(crate) struct Kept {
    /// Tasks that the loop gave itself.
    pub(crate) tasks: VecDeque<Task>,
    /// Places reserved in the lane and not used by a task in `tasks`.
    pub(crate) spare: u32,
    /// The loop is shut down and takes nothing more, not even of itself.
    pub(crate) closed: bool,
    pub(crate) timers: Timers,
    pub(crate) timeouts: Timeouts,
    pub(crate) futures: Futures,
}

impl Kept {
    /// Whether a loop with this could give its thread back.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.timers_len() == 0 && self.futures.is_empty()
    }

    /// Waiting timers of both classes.
    pub(crate) fn timers_len(&self) -> usize {
        self.timers.len() + self.timeouts.len()
    }

    /// When the loop must look at its timers next.
    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        let precise = self.timers.next_deadline();
        precise
            .into_iter()
            .chain(self.timeouts.next_deadline())
            .min()
    }
}

impl Local {
    /// Notes how many reserved places are spare, where other threads can read it too.
    fn set_spare(&mut self, spare: u32) {
        self.kept.spare = spare;
        self.shared.meter.counters.spare.set(u64::from(spare));
    }
}

/// Makes `local` what this thread drives; returns what it drove before.
pub(super) fn replace(local: Option<Local>) -> Option<Local> {
    LOCAL.replace(local)
}

/// Uses what this thread drives. `None` if it drives no loop.
#[inline]
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Local) -> R) -> Option<R> {
    // What is not used comes out of the borrow before it is dropped: it may hold something of
    // the user's, whose drop may come back here.
    let used = LOCAL.try_with(|local| match local.borrow_mut().as_mut() {
        Some(local) => Ok(use_it(local)),
        None => Err(use_it),
    });
    used.ok()?.ok()
}

/// The loop that this thread drives.
pub(crate) fn current() -> Option<Arc<Shared>> {
    with(|local| Arc::clone(&local.shared))
}

/// Queues a task that the loop gives itself.
#[inline]
pub(crate) fn push(task: Task) -> Result<(), Rejected<Task>> {
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local.as_mut().filter(|local| !local.kept.closed) else {
            return Err(Rejected::new(task, Refusal::Closed));
        };
        let mut spare = local.kept.spare;
        if spare == 0 {
            let lane = &local.shared.mailbox.lane;
            let ahead = u32::try_from(lane.bound() / 16).unwrap_or(RESERVE);
            spare = lane.reserve(ahead.clamp(1, RESERVE));
            if spare == 0 {
                let why = if lane.is_closed() {
                    Refusal::Closed
                } else {
                    Refusal::Full
                };
                return Err(Rejected::new(task, why));
            }
        }
        local.set_spare(spare - 1);
        local.kept.tasks.push_back(task);
        Ok(())
    })
}

/// Takes the oldest task that the loop gave itself; its place is spare from now on.
#[inline]
pub(crate) fn pop() -> Option<Task> {
    with(|local| {
        let task = local.kept.tasks.pop_front()?;
        local.set_spare(local.kept.spare + 1);
        Some(task)
    })?
}

/// Gives reserved places that no task uses back to the lane.
pub(crate) fn give_back_spare() {
    with(|local| {
        let spare = local.kept.spare;
        local.set_spare(0);
        local.shared.mailbox.lane.release(spare);
    });
}

/// Takes what the loop still has for itself; from now on it takes nothing of itself.
pub(crate) fn close() -> VecDeque<Task> {
    let tasks = with(|local| {
        local.kept.closed = true;
        let tasks = std::mem::take(&mut local.kept.tasks);
        // Their places are free again, wherever they are run.
        local.set_spare(local.kept.spare + u32::try_from(tasks.len()).unwrap_or(u32::MAX));
        tasks
    });
    give_back_spare();
    tasks.unwrap_or_default()
}
