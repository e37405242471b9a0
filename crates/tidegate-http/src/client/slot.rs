//! The place where a request and its connection meet.
//!
//! A request is plain bytes in the write queue of its channel: no handler takes part, so a handler
//! of the same loop writes them directly. What receives the response is put into the slot of the
//! connection before the first byte is written. The handler of the connection takes it out when the
//! next event arrives.
//!
//! # Invariants
//!
//! * A slot has at most one exchange, from `begin` to `end`. A closed slot never has one again.
//! * The request of an exchange is complete, or nothing is put into the pool: `end` says which.
//! * No user code runs under the lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_net::Channel;

use super::pool::Lease;

/// A connection: its channel, and the slot of its handler.
pub(super) struct Link<R: Send + 'static> {
    pub(super) channel: Channel,
    pub(super) slot: Arc<Slot<R>>,
}

impl<R: Send + 'static> Link<R> {
    /// Returns the link of a channel whose handler has stored its slot there.
    pub(super) fn of(channel: &Channel) -> Option<Self> {
        Some(Self {
            channel: channel.clone(),
            slot: channel.attribute::<Arc<Slot<R>>>()?,
        })
    }

    /// Closes a new connection that is not used. Its lease ends after it, so that the limit of
    /// connections is exact.
    pub(super) fn close_with(&self, lease: Lease<Self>) {
        self.channel.close().on_complete(move |_| drop(lease));
    }
}

impl<R: Send + 'static> Clone for Link<R> {
    fn clone(&self) -> Self {
        Self {
            channel: self.channel.clone(),
            slot: Arc::clone(&self.slot),
        }
    }
}

impl<R: Send + 'static> fmt::Debug for Link<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.channel).finish()
    }
}

/// An event for the handler of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    /// The receiver of this exchange takes more of the body.
    Resume(u64),
    /// The caller of this exchange has left.
    Cancel(u64),
}

/// A request that begins, and what receives its response.
pub(super) struct Begun<R: Send + 'static> {
    /// Not zero.
    pub(super) id: u64,
    /// The response has no body, whatever its head declares.
    pub(super) is_head: bool,
    pub(super) receiver: R,
    /// The lease of a connection that was just made.
    pub(super) lease: Option<Lease<Link<R>>>,
}

/// The slot of one connection.
pub(super) struct Slot<R: Send + 'static> {
    state: Mutex<State<R>>,
}

struct State<R: Send + 'static> {
    /// The exchange that the connection has not taken yet.
    begun: Option<Begun<R>>,
    /// The number of the exchange in progress, or zero.
    id: u64,
    /// When the request began or, once it is complete, when that was.
    since: u64,
    /// Everything of the request was written.
    complete: bool,
    /// The final response has come: the rest of the request is not wanted.
    stopped: bool,
    closed: bool,
}

/// How far the request of an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) complete: bool,
    /// When it began or was complete, in nanoseconds.
    pub(super) since: u64,
}

impl<R: Send + 'static> Slot<R> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                begun: None,
                id: 0,
                since: 0,
                complete: false,
                stopped: false,
                closed: false,
            }),
        })
    }

    /// Begins an exchange. Its request is written after this. `complete`: in one piece.
    ///
    /// # Errors
    ///
    /// The exchange, if the connection is closed or busy.
    pub(super) fn begin(&self, begun: Begun<R>, complete: bool, now: u64) -> Result<(), Begun<R>> {
        let mut state = self.lock();
        if state.closed || state.id != 0 {
            return Err(begun);
        }
        state.id = begun.id;
        state.since = now;
        state.complete = complete;
        state.stopped = false;
        state.begun = Some(begun);
        Ok(())
    }

    /// Returns the exchange that has begun, once.
    pub(super) fn take(&self) -> Option<Begun<R>> {
        self.lock().begun.take()
    }

    /// Notes that the request of exchange `id` is complete.
    pub(super) fn complete(&self, id: u64, now: u64) {
        let mut state = self.lock();
        if state.id == id {
            state.complete = true;
            state.since = now;
        }
    }

    /// Returns `true` if the connection takes no more of the request of exchange `id`.
    pub(super) fn is_stopped(&self, id: u64) -> bool {
        let state = self.lock();
        state.closed || state.stopped || state.id != id
    }

    /// Returns `true` if the connection takes no more exchanges.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(super) fn progress(&self) -> Progress {
        let state = self.lock();
        Progress {
            complete: state.complete,
            since: state.since,
        }
    }

    /// Stops the request, because its final response has come. Returns `true` if it is complete.
    pub(super) fn stop(&self) -> bool {
        let mut state = self.lock();
        state.stopped = true;
        state.complete
    }

    /// Ends the exchange, so that the next one can begin.
    pub(super) fn end(&self) {
        self.lock().id = 0;
    }

    /// Closes the slot. Returns the exchange that the connection has not taken.
    pub(super) fn close(&self) -> Option<Begun<R>> {
        let mut state = self.lock();
        state.closed = true;
        state.begun.take()
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Send + 'static> fmt::Debug for Slot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}
