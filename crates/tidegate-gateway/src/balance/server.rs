//! A server of an upstream, shared by all loops.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tidegate_core::internal::lock;
use tidegate_core::permits::{Permit, Permits};

/// The health checks say that the server does not work.
const DOWN: u8 = 1;
/// An operator drains the server.
const DRAINING: u8 = 2;
/// No address of its name is known yet.
const NO_ADDRESS: u8 = 4;
/// The name was not found, or not in time.
const NOT_FOUND: u8 = 8;

/// A server of an upstream. Clones are handles to the same server.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// Each configuration has its own.
    weight: u32,
    shared: Arc<Shared>,
}

/// What stays as long as the server is used, whatever its settings become.
#[derive(Debug)]
struct Shared {
    permits: Permits,
    /// Why the server takes no requests; 0 if it takes them.
    state: AtomicU8,
    /// The requests that it got.
    calls: AtomicU64,
    /// Whose checks count; 0 means that there are none. Locked while they change the state.
    checker: Mutex<u64>,
}

/// Finds a server again as long as it is used.
#[derive(Debug)]
pub(crate) struct WeakServer(Weak<Shared>);

impl WeakServer {
    /// Returns the server with this weight, if it is still used.
    pub(crate) fn get(&self, weight: u32) -> Option<ServerState> {
        let shared = self.0.upgrade()?;
        Some(ServerState { weight, shared })
    }

    /// From now on, there are no checks. A server that is down stays down: requests that have begun before
    /// a reload can still choose it.
    pub(crate) fn forget_checker(&self) {
        if let Some(server) = self.get(0) {
            server.set_checker(0);
        }
    }

    /// Returns `true` if the server is not used any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl ServerState {
    /// Creates a server that is up. `None` means that the requests in flight have no limit.
    pub fn new(weight: u32, max_in_flight: Option<u32>) -> Self {
        let shared = Shared {
            permits: Permits::new(limit(max_in_flight)),
            state: AtomicU8::new(0),
            calls: AtomicU64::new(0),
            checker: Mutex::default(),
        };
        Self {
            weight,
            shared: Arc::new(shared),
        }
    }

    /// Returns a way to find the server again.
    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.shared))
    }

    /// Changes the limit of the requests in flight. Those that are in flight still count.
    pub(crate) fn set_max_in_flight(&self, max_in_flight: Option<u32>) {
        self.shared.permits.set_limit(limit(max_in_flight));
    }

    /// Sets the result of the health checks. A server that an operator drains stays drained.
    pub fn set_up(&self, up: bool) {
        self.set(DOWN, !up);
    }

    /// From now on, only the checks with this number count.
    pub(crate) fn set_checker(&self, checker: u64) {
        *self.checker() = checker;
    }

    /// From now on, there are no checks: the server is up.
    pub(crate) fn end_checks(&self) {
        let mut checker = self.checker();
        *checker = 0;
        self.set_up(true);
    }

    /// Returns `true` if the checks with this number count.
    pub(crate) fn is_checked_by(&self, checker: u64) -> bool {
        *self.checker() == checker
    }

    /// Sets the result of the checks with this number. Returns `false` if others count by now, or none.
    pub(crate) fn set_up_by(&self, checker: u64, up: bool) -> bool {
        let counts = self.checker();
        let is_own = *counts == checker;
        if is_own {
            self.set_up(up);
        }
        is_own
    }

    fn checker(&self) -> MutexGuard<'_, u64> {
        lock(&self.shared.checker)
    }

    /// Drains the server, or ends the drain: it gets no further requests, and those in flight
    /// finish.
    pub fn set_draining(&self, draining: bool) {
        self.set(DRAINING, draining);
    }

    /// Returns `true` unless the health checks say that the server does not work.
    pub fn is_up(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) & DOWN == 0
    }

    /// Returns `true` if an operator drains the server.
    pub fn is_draining(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) & DRAINING != 0
    }

    /// No address of the name is known: until it has been looked up, the server gets only requests that no
    /// other server takes.
    pub(crate) fn set_no_address(&self) {
        self.set(NO_ADDRESS, true);
    }

    /// The name was not found: the server gets no requests. With its addresses, the name gets other
    /// servers. Returns `true` if that is new.
    pub(crate) fn set_not_found(&self) -> bool {
        let before = self.shared.state.fetch_or(NOT_FOUND, Ordering::Relaxed);
        before & NOT_FOUND == 0
    }

    /// Returns `true` unless no address of the name is known.
    pub fn has_address(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) & NO_ADDRESS == 0
    }

    /// Returns `true` if the server takes requests that no other server takes: its name is being looked
    /// up for the first time. One of weight 0 takes none.
    pub(super) fn is_last_resort(&self) -> bool {
        self.weight > 0 && self.shared.state.load(Ordering::Relaxed) == NO_ADDRESS
    }

    /// Returns the weight; 0 if the server takes no requests now.
    pub fn weight(&self) -> u32 {
        match self.shared.state.load(Ordering::Relaxed) {
            0 => self.weight,
            _ => 0,
        }
    }

    fn set(&self, reason: u8, applies: bool) {
        match applies {
            true => self.shared.state.fetch_or(reason, Ordering::Relaxed),
            false => self.shared.state.fetch_and(!reason, Ordering::Relaxed),
        };
    }

    /// Returns the number of requests in flight, over all loops.
    pub fn in_flight(&self) -> usize {
        self.shared.permits.held()
    }

    /// Returns the number of requests that the server got, over all loops.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Reserves a place for a request, unless all are taken. Counts the request.
    pub(super) fn reserve(&self) -> Option<Permit> {
        let permit = self.shared.permits.try_acquire()?;
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
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

fn limit(max_in_flight: Option<u32>) -> usize {
    max_in_flight.map_or(usize::MAX, |most| most as usize)
}
