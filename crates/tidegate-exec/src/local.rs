//! What a loop keeps on its thread: its own tasks, timers and futures.
//!
//! Reached through a thread-local, so that code that runs on the loop adds to them without a
//! lock or an atomic operation. Borrowed only for a moment, never while code of the user's runs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_sync::{Refusal, Rejected, Task};

use crate::schedule::Timers;
use crate::shared::Shared;
use crate::spawn::{Futures, LocalFutures};

/// The most places in the task lane that a loop reserves ahead for its own submissions.
const RESERVE: u32 = 64;

thread_local! {
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
    pub(crate) timers: Timers,
    pub(crate) futures: Futures,
}

impl Kept {
    /// Whether a loop with this could give its thread back.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.timers.is_empty() && self.futures.is_empty()
    }
}

/// Makes `local` what this thread drives; answers what it drove before.
pub(crate) fn enter(local: Option<Local>) -> Option<Local> {
    LOCAL.replace(local)
}

/// Uses what this thread drives. `None` if it drives no loop.
#[inline]
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCAL.with_borrow_mut(|local| local.as_mut().map(use_it))
}

/// The loop that this thread drives.
pub(crate) fn current() -> Option<Arc<Shared>> {
    with(|local| Arc::clone(&local.shared))
}

/// Queues a task that the loop gives itself.
#[inline]
pub(crate) fn push(task: Task) -> Result<(), Rejected<Task>> {
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local else {
            return Err(Rejected::new(task, Refusal::Closed));
        };
        if local.kept.spare == 0 {
            let lane = &local.shared.lane;
            let ahead = u32::try_from(lane.bound() / 16).unwrap_or(RESERVE);
            local.kept.spare = lane.reserve(ahead.clamp(1, RESERVE));
            if local.kept.spare == 0 {
                let why = if lane.is_closed() {
                    Refusal::Closed
                } else {
                    Refusal::Full
                };
                return Err(Rejected::new(task, why));
            }
        }
        local.kept.spare -= 1;
        local.kept.tasks.push_back(task);
        Ok(())
    })
}

/// Takes the oldest task that the loop gave itself; its place is spare from now on.
#[inline]
pub(crate) fn pop() -> Option<Task> {
    with(|local| {
        let task = local.kept.tasks.pop_front()?;
        local.kept.spare += 1;
        Some(task)
    })?
}

/// Gives reserved places that no task uses back to the lane.
pub(crate) fn give_back_spare() {
    with(|local| {
        let spare = std::mem::take(&mut local.kept.spare);
        local.shared.lane.release(spare);
    });
}
