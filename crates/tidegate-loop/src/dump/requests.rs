//! The requests for a dump that wait for the event loop.
//!
//! # Invariants
//!
//! * At most one signal for these requests is in the event loop's lane, however many threads ask
//!   and however long the event loop is stuck.
//! * A request of a caller that has stopped waiting is dropped with the next request.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::Dump;
use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_promise::Promise;

/// The requests for a dump of one event loop.
#[derive(Default)]
pub(crate) struct DumpRequests {
    waiting: Mutex<Waiting>,
    /// `true` if the signal was delivered and the event loop has not answered. Only the event
    /// loop's thread uses it.
    arrived: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    promises: Vec<Promise<Dump>>,
    /// `true` while a signal is in the event loop's lane.
    signalled: bool,
}

impl DumpRequests {
    /// Adds a request. Returns `true` if the caller has to signal the event loop.
    pub(crate) fn add(&self, promise: Promise<Dump>) -> bool {
        let mut waiting = lock(&self.waiting);
        let (kept, abandoned) = std::mem::take(&mut waiting.promises)
            .into_iter()
            .partition(Promise::is_observed);
        waiting.promises = kept;
        waiting.promises.push(promise);
        let signalled = std::mem::replace(&mut waiting.signalled, true);
        drop(waiting);
        // The drop of a promise may run a listener.
        drop::<Vec<_>>(abandoned);
        !signalled
    }

    /// Records that the signal was delivered on the event loop's thread.
    pub(crate) fn arrive(&self) {
        self.arrived.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the event loop has to answer.
    pub(crate) fn have_arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Removes and returns all requests. The next one needs another signal.
    pub(crate) fn take(&self) -> Vec<Promise<Dump>> {
        self.arrived.store(false, Ordering::Relaxed);
        let mut waiting = lock(&self.waiting);
        waiting.signalled = false;
        std::mem::take(&mut waiting.promises)
    }
}
