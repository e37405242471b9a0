//! A poller with its health: what is done when it fails.

use std::io;
use std::sync::Arc;

use tidegate_core::Clock;
use tidegate_core::internal::Sleeper;
use tidegate_loop::internal::Health;

use crate::metrics::Counters;
use crate::sys::Poller;

/// Failed polls in a row at which the loop gives up and loses its place in the group.
pub(crate) const FAILURES: u32 = 16;

/// A poller, its health, and its counters.
pub(crate) struct Polling {
    pub(super) poller: Box<dyn Poller>,
    pub(super) waker: Arc<dyn Sleeper>,
    pub(super) counters: Arc<Counters>,
    health: Health,
    /// Failed polls in a row.
    failures: u32,
    /// The poller is reported as unhealthy.
    unhealthy: bool,
}

impl Polling {
    pub(super) fn new(poller: impl Poller, counters: Arc<Counters>) -> Self {
        Self {
            waker: poller.waker(),
            poller: Box::new(poller),
            counters,
            health: Health::default(),
            failures: 0,
            unhealthy: false,
        }
    }

    pub(super) fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::clone(&self.waker)
    }

    pub(super) fn health(&self) -> Health {
        self.health.clone()
    }

    /// Records the result of a poll. `selected` are the events of user-defined sources.
    ///
    /// # Panics
    ///
    /// After [`FAILURES`] in a row: the loop gives up, with the last error in the message.
    #[inline]
    pub(super) fn polled(&mut self, polled: io::Result<usize>, selected: usize) -> PollOutcome {
        let ready = match polled {
            Ok(ready) => {
                self.failures = 0;
                ready
            }
            Err(why) => self.failed(&why),
        };
        PollOutcome { ready, selected }
    }

    /// Records that a wait has ended.
    #[inline]
    pub(super) fn waited(&mut self, clock: &Clock) {
        if self.unhealthy && self.failures == 0 {
            self.unhealthy = false;
            self.health.recover(clock);
        }
    }

    #[cold]
    fn failed(&mut self, why: &io::Error) -> usize {
        self.failures += 1;
        self.counters.poll_failures.add(1);
        self.unhealthy = true;
        self.health.mark_failing();
        assert!(
            self.failures < FAILURES,
            "the poller failed {FAILURES} times in a row, the last time with: {why}"
        );
        0
    }
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollOutcome {
    /// Events to deliver before the next poll.
    pub(crate) ready: usize,
    /// Events of user-defined sources, which the poller keeps.
    pub(crate) selected: usize,
}
