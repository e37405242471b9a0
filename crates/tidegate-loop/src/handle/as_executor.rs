//! A handle of a loop as an executor: what it does, the loop does.

use tidegate_core::{Clock, Executor, ExecutorId, Rejected, Signal, Task, Unhandled, is_current};

use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Placement;

impl<P: Placement> Executor for EventLoop<P> {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.submit(task)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.shared.signal(signal)
    }

    fn is_current(&self) -> bool {
        is_current(self.shared.id)
    }

    fn id(&self) -> ExecutorId {
        self.shared.id
    }

    fn name(&self) -> &str {
        &self.shared.name
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    fn has_left_tasks(&self) -> bool {
        self.shared.has_left_tasks()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.shared.unhandled(what);
    }
}
