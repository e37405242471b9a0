//! A poller, and the care for it: what is done when it fails or spins.

use std::sync::Arc;

use tidegate_core::Sleeper;
use tidegate_loop::Health;

use super::care::Care;
use crate::metrics::Counters;
use crate::sys::{Poller, Token};

/// A poller, what is known of its health, and what is counted of it.
pub(crate) struct Polling {
    pub(super) poller: Box<dyn Poller>,
    pub(super) waker: Arc<dyn Sleeper>,
    pub(super) care: Care,
    pub(super) counters: Arc<Counters>,
}

impl Polling {
    pub(super) fn new(poller: impl Poller, counters: Arc<Counters>) -> Self {
        Self {
            waker: poller.waker(),
            poller: Box::new(poller),
            care: Care::default(),
            counters,
        }
    }

    pub(super) fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::clone(&self.waker)
    }

    pub(super) fn health(&self) -> Health {
        self.care.health()
    }
}

/// What a poll came to.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    /// Events to tell until the next poll.
    pub(crate) ready: usize,
    /// Sources that a fresh poller, if one was needed, could not take over: they are to be closed.
    pub(crate) lost: Vec<Token>,
}
