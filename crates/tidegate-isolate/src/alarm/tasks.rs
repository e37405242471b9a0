//! Tasks that run at a set time.

use std::sync::Arc;

use tidegate_core::Task;
use tidegate_timer::heap::Heap;

use super::aside::CallbackThreads;

/// Tasks ordered by time, then by the order in which they were set.
pub(super) type Tasks = Heap<Due>;

/// A timed task, and the thread that runs it.
pub(super) enum Due {
    /// A short task of this crate, which runs on the timer's thread.
    Here(Task),
    /// User code of a command, which runs on its callback threads.
    CallbackThreads(Arc<CallbackThreads>, Task),
}

/// The id of a timed task; empty if the timer was already closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerTaskId(pub(super) Option<tidegate_timer::TimerKey>);
