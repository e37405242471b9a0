//! What it takes for a thread to be a loop's: the marks by which code that runs there finds the loop.

use std::sync::Arc;

use tidegate_core::{Executor, MarkGuard, RunningGuard, Stance, enter as mark};

use super::local::{self, Kept, Local};
use crate::spawn::slots::LocalFutures;
use crate::state::shared::Shared;

/// The thread's marks while it drives a loop.
pub(crate) struct Entered {
    _mark: MarkGuard,
    _running: RunningGuard,
    outer: Option<Local>,
}

impl Entered {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        kept: &mut Option<Box<Kept>>,
        pinned: LocalFutures,
    ) -> Self {
        let stance = if shared.settings.pinned || shared.settings.driven {
            Stance::Loop
        } else {
            Stance::Free
        };
        let home: Arc<dyn Executor> = Arc::<Shared>::clone(shared);
        let local = Local {
            shared: Arc::clone(shared),
            kept: kept.take().unwrap_or_default(),
            pinned,
        };
        Self {
            _mark: mark(home, stance),
            _running: shared.meter.running.enter(),
            outer: local::replace(Some(local)),
        }
    }

    /// Leaves the loop; what it owns comes back.
    pub(crate) fn leave(mut self) -> Local {
        let local = local::replace(self.outer.take());
        local.expect("only whoever entered leaves")
    }
}
