//! The configuration of each loop.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::net::NetGroup;

use super::gate::Gate;
use super::live::Live;
use crate::reports::Reports;

/// What all connections of the gateway share. Each loop has the configuration as one shared value,
/// which is replaced between two requests.
pub(crate) struct Lives {
    pub(super) gate: Arc<Gate>,
    /// One for each loop. Only that loop and a reload use the lock.
    lives: Vec<Mutex<Arc<Live>>>,
}

impl Lives {
    pub(crate) fn new(group: &NetGroup, live: &Arc<Live>, reports: &Reports) -> Arc<Self> {
        let gate = Gate::new(group, reports);
        let lives = (0..gate.loops()).map(|_| Mutex::new(Arc::clone(live)));
        Arc::new(Self {
            lives: lives.collect(),
            gate,
        })
    }

    /// Returns the configuration of a loop.
    pub(super) fn live(&self, home: usize) -> Arc<Live> {
        Arc::clone(&self.slot(home))
    }

    /// Replaces the configuration, loop by loop. Requests that have begun keep the old one.
    pub(crate) fn replace(&self, live: &Arc<Live>) {
        for home in 0..self.lives.len() {
            let old = std::mem::replace(&mut *self.slot(home), Arc::clone(live));
            // The last one closes connections. Not under the lock.
            drop(old);
        }
    }

    fn slot(&self, home: usize) -> MutexGuard<'_, Arc<Live>> {
        let live = &self.lives[home];
        live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lives")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}
