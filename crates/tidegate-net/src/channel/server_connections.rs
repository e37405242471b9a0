//! State that the connections of one server share: their number, and whether the server is
//! draining.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_promise::{Completion, Promise, promise};

/// State that the connections of one server share.
#[derive(Debug, Default)]
pub(crate) struct ServerConnections {
    live: AtomicUsize,
    accepted: AtomicU64,
    /// Listeners that may still accept.
    listeners: AtomicUsize,
    draining: AtomicBool,
    /// The deadline of a drain has passed.
    over: AtomicBool,
    /// Promises of the drains. Completed when the last connection is gone and no listener accepts
    /// another.
    empty: Mutex<Vec<Promise<()>>>,
}

impl ServerConnections {
    /// Creates the state for a server with this many listeners.
    pub(crate) fn new(listeners: usize) -> Arc<Self> {
        Arc::new(Self {
            listeners: AtomicUsize::new(listeners),
            ..Self::default()
        })
    }

    /// Returns `true` if the deadline of a drain has passed and connections are cut.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Records that a listener accepts no more.
    pub(crate) fn listener_left(&self) {
        // ORDERING: AcqRel, as in `left`.
        if self.listeners.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify_if_empty();
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn connection_opened(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        // ORDERING: AcqRel, so that of the last connection to leave and the thread that waits for
        // it, at least one sees the other: both go through the lock below as well.
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.notify_if_empty();
        }
    }

    fn notify_if_empty(&self) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Acquire pairs with the AcqRel in `left` and `listener_left`. Each of them comes
        // here after its count has reached 0, and the lock orders the two: the second one sees both
        // counts at 0.
        let listeners = self.listeners.load(Ordering::Acquire);
        let waiting = match self.live.load(Ordering::Acquire) + listeners {
            0 => std::mem::take(&mut *empty),
            _ => Vec::new(),
        };
        drop(empty);
        for promise in waiting {
            let _ = promise.succeed(());
        }
    }

    /// Returns a completion that succeeds when no connection is left and none can come.
    pub(crate) fn on_empty(&self) -> Completion<()> {
        let (promise, done) = promise();
        let empty = self.empty.lock();
        empty.unwrap_or_else(PoisonError::into_inner).push(promise);
        self.notify_if_empty();
        done
    }

    /// Returns `true` if a drain has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Records that the deadline of a drain has passed.
    pub(crate) fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
