//! A server of an upstream, shared by all loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tidegate_core::permits::{Permit, Permits};

/// The health checks say that the server does not work.
const DOWN: u8 = 1;
/// An operator drains the server.
const DRAINING: u8 = 2;

/// A server of an upstream. Clones are handles to the same server.
#[derive(Clone, Debug)]
pub struct ServerState {
    weight: u32,
    permits: Permits,
    /// Why the server takes no requests; 0 if it takes them.
    state: Arc<AtomicU8>,
    /// The requests that it got.
    calls: Arc<AtomicU64>,
    /// Whose checks count; 0 means that there are none.
    checker: Arc<AtomicU64>,
}

impl ServerState {
    /// Creates a server that is up. `None` means that the requests in flight have no limit.
    pub fn new(weight: u32, max_in_flight: Option<u32>) -> Self {
        let permits = match max_in_flight {
            Some(limit) => Permits::new(limit as usize),
            None => Permits::unlimited(),
        };
        Self {
            weight,
            permits,
            state: Arc::default(),
            calls: Arc::default(),
            checker: Arc::default(),
        }
    }

    /// Sets the result of the health checks. A server that an operator drains stays drained.
    pub fn set_up(&self, up: bool) {
        self.set(DOWN, !up);
    }

    /// From now on, only the checks with this number count; 0 means that there are none.
    pub(crate) fn set_checker(&self, checker: u64) {
        self.checker.store(checker, Ordering::Relaxed);
    }

    /// Returns `true` if the checks with this number count.
    pub(crate) fn is_checked_by(&self, checker: u64) -> bool {
        self.checker.load(Ordering::Relaxed) == checker
    }

    /// Drains the server, or ends the drain: it gets no further requests, and those in flight
    /// finish.
    pub fn set_draining(&self, draining: bool) {
        self.set(DRAINING, draining);
    }

    /// Returns `true` unless the health checks say that the server does not work.
    pub fn is_up(&self) -> bool {
        self.state.load(Ordering::Relaxed) & DOWN == 0
    }

    /// Returns `true` if an operator drains the server.
    pub fn is_draining(&self) -> bool {
        self.state.load(Ordering::Relaxed) & DRAINING != 0
    }

    /// Returns the weight; 0 if the server takes no requests now.
    pub fn weight(&self) -> u32 {
        match self.state.load(Ordering::Relaxed) {
            0 => self.weight,
            _ => 0,
        }
    }

    fn set(&self, reason: u8, applies: bool) {
        match applies {
            true => self.state.fetch_or(reason, Ordering::Relaxed),
            false => self.state.fetch_and(!reason, Ordering::Relaxed),
        };
    }

    /// Returns the number of requests in flight, over all loops.
    pub fn in_flight(&self) -> usize {
        self.permits.held()
    }

    /// Returns the number of requests that the server got, over all loops.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Reserves a place for a request, unless all are taken. Counts the request.
    pub(super) fn reserve(&self) -> Option<Permit> {
        let permit = self.permits.try_acquire()?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        Some(permit)
    }
}

/// A place at a server. It is held until the last byte of the response, and returned on drop.
#[must_use = "dropping a lease gives the place back"]
pub struct Lease {
    /// The position of the server in its list.
    pub server: usize,
    _permit: Permit,
}

impl Lease {
    pub(super) fn new(server: usize, permit: Permit) -> Self {
        Self {
            server,
            _permit: permit,
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lease").field(&self.server).finish()
    }
}
