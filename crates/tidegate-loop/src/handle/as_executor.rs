//! The [`Executor`] implementation of an event loop handle: it forwards to the shared state.

use std::any::Any;

use tidegate_core::{Executor, Unhandled, WaitRefusedError};

use super::event_loop::EventLoop;
use super::forward::forward_executor;
use super::placement::Placement;

impl<P: Placement> Executor for EventLoop<P> {
    forward_executor!(shared);

    fn has_abandoned_tasks(&self) -> bool {
        self.shared.has_abandoned_tasks()
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        self.shared.begin_wait()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.shared.unhandled(what);
    }
}
