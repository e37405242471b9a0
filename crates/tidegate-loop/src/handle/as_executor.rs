//! The [`Executor`] implementation of an event loop handle: it forwards to the shared state.

use tidegate_core::{Executor, Unhandled};

use super::event_loop::EventLoop;
use super::forward::forward_executor;
use super::placement::Placement;

impl<P: Placement> Executor for EventLoop<P> {
    forward_executor!(shared);

    fn has_abandoned_tasks(&self) -> bool {
        self.shared.has_abandoned_tasks()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.shared.unhandled(what);
    }
}
