//! The configuration of each loop.

use std::sync::Arc;

use super::copies::{Copies, Current};
use super::gate::Gate;
use super::live::Live;

/// What all connections of the gateway share, with the configuration that is in force: here and nowhere
/// else. Each loop has it as one shared value, which is replaced between two requests.
pub(crate) struct Lives {
    pub(super) gate: Arc<Gate>,
    lives: Copies<Live>,
}

impl Lives {
    pub(crate) fn new(gate: &Arc<Gate>, live: &Arc<Live>) -> Arc<Self> {
        Arc::new(Self {
            lives: Copies::new(gate.loops(), live),
            gate: Arc::clone(gate),
        })
    }

    /// Returns what requests share besides the configuration.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Returns the configuration that is in force.
    pub(crate) fn in_force(&self) -> Arc<Live> {
        self.lives.in_force()
    }

    /// Returns the configuration, on loop `home`.
    pub(super) fn live(&self, home: usize) -> Current<'_, Live> {
        self.lives.get(home)
    }

    /// Replaces the configuration, for all requests that begin from now on. Those that have begun
    /// keep the old one.
    pub(crate) fn replace(self: &Arc<Self>, live: &Arc<Live>) {
        drop(self.lives.replace(live));
        // A loop without requests has the old one, too.
        self.gate.on_each_loop(|home| {
            let lives = Arc::clone(self);
            move || lives.lives.refresh(home)
        });
    }
}
