//! The thread-local marks of a thread that drives an event loop. Code that runs on the thread finds
//! the event loop through them.

use std::sync::Arc;

use tidegate_core::Executor;
use tidegate_core::executor::{CurrentGuard, WaitPolicy, enter as mark};
use tidegate_core::internal::RunningGuard;

use super::local::{self, Local, LoopState};
use crate::spawn::slots::LocalFutures;
use crate::state::shared::Shared;

/// The marks of a thread while it drives an event loop.
pub(crate) struct EnteredLoop {
    _mark: CurrentGuard,
    _running: RunningGuard,
    outer: Option<Local>,
}

impl EnteredLoop {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        loop_state: &mut Option<Box<LoopState>>,
        pinned: LocalFutures,
    ) -> Self {
        let stance = if shared.settings.pinned || shared.settings.driven {
            WaitPolicy::Loop
        } else {
            WaitPolicy::Free
        };
        let home: Arc<dyn Executor> = Arc::<Shared>::clone(shared);
        let local = Local {
            shared: Arc::clone(shared),
            loop_state: loop_state.take().unwrap_or_default(),
            pinned,
        };
        Self {
            _mark: mark(home, stance),
            _running: shared.meter.running.enter(),
            outer: local::replace(Some(local)),
        }
    }

    /// Removes the marks and returns the event loop's state.
    pub(crate) fn leave(mut self) -> Local {
        let local = local::replace(self.outer.take());
        local.expect("every leave follows an enter")
    }
}
