//! What a timer needs of the executor for which it schedules tasks.

use std::sync::Arc;

use tidegate_core::internal::{PlainTask, contain};
use tidegate_core::{Executor, Rejected, Task};

use super::task_timer::TaskTimer;

/// An executor for which tasks can be scheduled.
pub(crate) trait ScheduleTarget: Executor {
    /// Returns the timer of this executor.
    fn timer(&self) -> &Arc<TaskTimer>;

    /// Submits a task that is due, or refuses and counts it. Called on the timer's thread: does not
    /// wait, and does not run the task or another one.
    fn submit_due(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Submits a task of the runtime itself.
    fn submit_internal(&self, task: Task) -> Result<(), Rejected<Task>>;

    /// Drops the closure of a task that was refused. Its `Drop` is user code, so it runs on the
    /// executor. If the executor has ended, it runs here.
    fn discard(&self, remains: Box<dyn Send>) {
        let task = PlainTask::named("the drop of a refused task", move || drop(remains));
        // A panic is reported by the hook of the process only: the executor is the user's, and may
        // have caused it.
        let _ = contain(|| drop(self.submit_internal(task)));
    }
}
