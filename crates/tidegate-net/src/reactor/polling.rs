//! A poller with its health: what is done when it fails or spins.

use std::sync::Arc;

use tidegate_core::internal::Sleeper;
use tidegate_loop::internal::Health;

use super::poller_health::PollerHealth;
use crate::metrics::Counters;
use crate::sys::{Poller, Token};

/// A poller, its health, and its counters.
pub(crate) struct Polling {
    pub(super) poller: Box<dyn Poller>,
    pub(super) waker: Arc<dyn Sleeper>,
    pub(super) poller_health: PollerHealth,
    pub(super) counters: Arc<Counters>,
}

impl Polling {
    pub(super) fn new(poller: impl Poller, counters: Arc<Counters>) -> Self {
        Self {
            waker: poller.waker(),
            poller: Box::new(poller),
            poller_health: PollerHealth::default(),
            counters,
        }
    }

    pub(super) fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::clone(&self.waker)
    }

    pub(super) fn health(&self) -> Health {
        self.poller_health.health()
    }
}

/// Result of a poll.
#[derive(Debug, Default)]
pub(crate) struct PollOutcome {
    /// Events to deliver before the next poll.
    pub(crate) ready: usize,
    /// Events of user-defined sources, which the poller keeps.
    pub(crate) selected: usize,
    /// The poller was replaced: user-defined sources have to be watched again.
    pub(crate) renewed: bool,
    /// Sources that a fresh poller, if one was needed, could not take over. They have to be closed.
    pub(crate) lost: Vec<Token>,
}
