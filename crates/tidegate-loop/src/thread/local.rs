//! The state that an event loop keeps on its thread: its own tasks, timers and futures.
//!
//! It is in a thread-local, so that code that runs on the event loop can add to it without a lock
//! or an atomic operation. It is borrowed only briefly, never while user code runs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{RejectReason, Rejected, Task};

use crate::schedule::coarse_timers::CoarseTimers;
use crate::schedule::timers::Timers;
use crate::spawn::slots::{Futures, LocalFutures};
use crate::state::shared::Shared;

/// The maximum number of slots in the task lane that an event loop reserves ahead for its own
/// tasks.
const RESERVE: u32 = 64;

tidegate_core::internal::prim::thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

/// The thread-local state of a thread that drives an event loop.
pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) loop_state: Box<LoopState>,
    /// Futures that are not `Send`.
    pub(crate) pinned: LocalFutures,
}

/// The state of an event loop that moves with it from thread to thread.
#[derive(Default)]
pub(crate) struct LoopState {
    /// Tasks that code on the event loop submitted.
    pub(crate) tasks: VecDeque<Task>,
    /// Slots that are reserved in the lane and not used by a task in `tasks`.
    pub(crate) spare: u32,
    /// `true` if the event loop is shut down and accepts no more tasks, not even from its own
    /// thread.
    pub(crate) closed: bool,
    pub(crate) timers: Timers,
    pub(crate) coarse: CoarseTimers,
    pub(crate) futures: Futures,
}

impl LoopState {
    /// Returns `true` if this state does not keep the event loop from giving its thread back.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.timers_len() == 0 && self.futures.is_empty()
    }

    /// Returns the number of pending timers of both kinds.
    pub(crate) fn timers_len(&self) -> usize {
        self.timers.len() + self.coarse.len()
    }

    /// Returns the time at which the next timer or timeout is due.
    pub(crate) fn next_deadline(&mut self) -> Option<u64> {
        let precise = self.timers.next_deadline();
        precise.into_iter().chain(self.coarse.next_deadline()).min()
    }
}

impl Local {
    /// Stores the number of spare slots, also where other threads can read it.
    fn set_spare(&mut self, spare: u32) {
        self.loop_state.spare = spare;
        self.shared.meter.counters.spare.set(u64::from(spare));
    }
}

/// Replaces this thread's state with `local` and returns the previous state.
pub(super) fn replace(local: Option<Local>) -> Option<Local> {
    LOCAL.replace(local)
}

/// Calls `use_it` with this thread's state. Returns `None` if the thread drives no event loop.
#[inline]
pub(crate) fn with<R>(use_it: impl FnOnce(&mut Local) -> R) -> Option<R> {
    // An unused closure is moved out of the borrow before it is dropped: its drop may run user
    // code, which may call this function again.
    let used = LOCAL.try_with(|local| match local.borrow_mut().as_mut() {
        Some(local) => Ok(use_it(local)),
        None => Err(use_it),
    });
    used.ok()?.ok()
}

/// Returns the event loop that this thread drives.
pub(crate) fn current() -> Option<Arc<Shared>> {
    with(|local| Arc::clone(&local.shared))
}

/// Queues a task that was submitted on the event loop's own thread.
#[inline]
pub(crate) fn push(task: Task) -> Result<(), Rejected<Task>> {
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local.as_mut().filter(|local| !local.loop_state.closed) else {
            return Err(Rejected::new(task, RejectReason::Closed));
        };
        let mut spare = local.loop_state.spare;
        if spare == 0 {
            let lane = &local.shared.mailbox.lane;
            let ahead = u32::try_from(lane.bound() / 16).unwrap_or(RESERVE);
            spare = lane.reserve(ahead.clamp(1, RESERVE));
            if spare == 0 {
                let why = if lane.is_closed() {
                    RejectReason::Closed
                } else {
                    RejectReason::Full
                };
                return Err(Rejected::new(task, why));
            }
        }
        local.set_spare(spare - 1);
        local.loop_state.tasks.push_back(task);
        Ok(())
    })
}

/// Removes the oldest task of the event loop's own queue; its slot becomes spare.
#[inline]
pub(crate) fn pop() -> Option<Task> {
    with(|local| {
        let task = local.loop_state.tasks.pop_front()?;
        local.set_spare(local.loop_state.spare + 1);
        Some(task)
    })?
}

/// Returns reserved slots that no task uses to the lane.
pub(crate) fn give_back_spare() {
    with(|local| {
        let spare = local.loop_state.spare;
        local.set_spare(0);
        local.shared.mailbox.lane.release(spare);
    });
}

/// Closes the event loop's own queue and returns the tasks in it.
pub(crate) fn close() -> VecDeque<Task> {
    let tasks = with(|local| {
        local.loop_state.closed = true;
        let tasks = std::mem::take(&mut local.loop_state.tasks);
        // Their slots become free, wherever the tasks are run.
        local.set_spare(local.loop_state.spare + u32::try_from(tasks.len()).unwrap_or(u32::MAX));
        tasks
    });
    give_back_spare();
    tasks.unwrap_or_default()
}
