//! The task of a source, on its way to the thread that runs it.

use std::sync::Arc;

use tidegate_core::internal::PlainTask;
use tidegate_core::{Blocking, Task};
use tidegate_pool::internal::run_task_of;

use super::inbox::{Inbox, SharedInbox};
use super::state::SourceState;

/// The task that a source returned. If it is dropped without having run, because no thread took it,
/// the loop gets it back.
struct SourceTask {
    /// `None` once it runs.
    task: Option<Task>,
    source: Arc<SourceState>,
    inbox: SharedInbox,
}

/// Returns a task that runs `task` and tells the loop of its end.
pub(super) fn of_source(task: Task, source: &Arc<SourceState>, inbox: &SharedInbox) -> Task {
    source.begin_task();
    inbox.begin_task(source);
    let (kind, name, long) = (task.blocking(), task.name(), task.is_long());
    let guard = SourceTask {
        task: Some(task),
        source: Arc::clone(source),
        inbox: Arc::clone(inbox),
    };
    let run = move || guard.run();
    match kind {
        Blocking::May if long => PlainTask::long(run),
        Blocking::May => PlainTask::named(name, run),
        Blocking::Adapts | Blocking::Never => PlainTask::of(kind, run),
    }
}

impl SourceTask {
    fn run(mut self) {
        // The guard is dropped after the task, also if the task panics.
        if let Some(task) = self.task.take() {
            match self.inbox.home_id() {
                Some(home) => run_task_of(home, || task.run()),
                None => task.run(),
            }
        }
    }
}

impl Drop for SourceTask {
    fn drop(&mut self) {
        Inbox::end_task(&self.inbox, &self.source, self.task.take());
    }
}
