//! The announcement of a key or a pool to its listeners: that it was added, then that it was
//! removed.
//!
//! ```text
//!   New ──announce──▶ Announcing ──the listeners have returned──▶ Announced ──remove──▶ Removed
//!    │                    └──────────remove──────────▶ RemovedMeanwhile ──────────────────▲
//!    └──remove: nothing is announced──────────────────────────────────────────────────────┘
//! ```
//!
//! Listeners are user code and run with no lock held. A removal that comes while the listeners of
//! the addition run is announced by the thread that runs them, so it never comes first.

use crate::lock::lock;
use std::sync::Mutex;

/// What the listeners were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Announcing,
    Announced,
    RemovedMeanwhile,
    Removed,
}

/// The announcement of one key or pool.
#[derive(Debug, Default)]
pub(crate) struct Announcement {
    phase: Mutex<Phase>,
}

impl Announcement {
    /// Calls `added`, once. If the removal came meanwhile, calls `removed` after it.
    pub(crate) fn announce(&self, added: impl FnOnce(), removed: impl FnOnce()) {
        if !self.step(Phase::New, Phase::Announcing) {
            return;
        }
        added();
        if !self.step(Phase::Announcing, Phase::Announced) {
            *lock(&self.phase) = Phase::Removed;
            removed();
        }
    }

    /// Calls `removed`, once, if the addition was announced. If its listeners still run, their
    /// thread calls it.
    pub(crate) fn remove(&self, removed: impl FnOnce()) {
        let mut phase = lock(&self.phase);
        let before = *phase;
        *phase = match before {
            Phase::Announcing => Phase::RemovedMeanwhile,
            Phase::New | Phase::Announced => Phase::Removed,
            Phase::RemovedMeanwhile | Phase::Removed => before,
        };
        drop(phase);
        if before == Phase::Announced {
            removed();
        }
    }

    /// Goes from one phase to the next. Returns `false` if the phase is another one.
    fn step(&self, from: Phase, to: Phase) -> bool {
        let mut phase = lock(&self.phase);
        let is_from = *phase == from;
        if is_from {
            *phase = to;
        }
        is_from
    }
}
