//! Connections to one host that are kept for the next call, on all loops of a group.
//!
//! The pool knows nothing of a protocol: a connection is any handle that can be cloned. Each loop
//! has a stack of its own, so that a call on a loop finds a connection of that loop, the one that
//! was used last. If the loop has none, the call takes one of another loop. The limit covers all
//! loops: each connection, also one that is being made, holds one permit of one set.
//!
//! # Invariants
//!
//! * A connection is in one place: in a stack, or with one call. It is taken out of a stack under the
//!   lock, so it has one taker, on whichever loop.
//! * Calls wait only while no permit is free and no connection is idle. Both facts, and the queue of
//!   waiting calls, change under one lock. A permit that becomes free is offered after it was
//!   returned, so no call waits beside a free permit.
//! * A callback of a waiting call runs once, outside of the lock; not if the call has left before.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::lock;
use tidegate_core::permits::{Permit, Permits};

/// Connections to one host.
pub(super) struct Pool<C: Send + 'static> {
    permits: Permits,
    max_waiting: usize,
    /// An idle connection of another loop is better than a new one, because it can move.
    moves: bool,
    next_id: AtomicU64,
    state: Mutex<State<C>>,
}

struct State<C: Send + 'static> {
    /// Idle connections, one stack for each loop.
    idle: Vec<Vec<Idle<C>>>,
    waiting: VecDeque<Waiter<C>>,
}

impl<C: Send + 'static> State<C> {
    /// Returns the connection that was used last of the loop with the most idle ones.
    fn pop_any(&mut self) -> Option<Idle<C>> {
        self.idle.iter_mut().max_by_key(|stack| stack.len())?.pop()
    }
}

struct Waiter<C: Send + 'static> {
    ticket: Ticket,
    then: Box<dyn FnOnce(Grant<C>) + Send>,
}

/// A connection that was idle.
pub(super) struct Idle<C> {
    pub(super) connection: C,
    pub(super) place: IdlePlace,
}

/// An idle connection without the connection: what its pool knows about it.
#[derive(Clone, Copy)]
pub(super) struct IdlePlace {
    id: u64,
    at: usize,
}

impl<C> Idle<C> {
    /// Returns the number of the connection's loop.
    pub(super) fn at(&self) -> usize {
        self.place.at
    }

    /// Returns this connection after it has moved to loop `at`, where its handle is another one.
    pub(super) fn moved(id: u64, connection: C, at: usize) -> Self {
        let place = IdlePlace { id, at };
        Self { connection, place }
    }
}

/// What a call may use.
pub(super) enum Grant<C: Send + 'static> {
    /// A connection that was used before.
    Reused(Idle<C>),
    /// A new connection, which holds this lease as long as it is open.
    New(Lease<C>),
}

/// Result of [`Pool::acquire`].
pub(super) enum Acquired<C: Send + 'static> {
    Now(Grant<C>),
    /// The callback follows, unless the call leaves with this ticket.
    Later(Ticket),
    /// Too many calls wait.
    Full,
}

/// The place of a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl<C: Send + 'static> Pool<C> {
    /// Creates a pool for `loops` loops. `moves`: its connections can move between them.
    pub(super) fn new(
        loops: usize,
        max_connections: usize,
        max_waiting: usize,
        moves: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            permits: Permits::new(max_connections.max(1)),
            max_waiting,
            moves,
            next_id: AtomicU64::new(1),
            state: Mutex::new(State {
                idle: (0..loops.max(1)).map(|_| Vec::new()).collect(),
                waiting: VecDeque::new(),
            }),
        })
    }

    /// Returns a connection, preferably an idle one of loop `at`, then an idle one of another loop if
    /// connections move, then a new one, then any idle one. With `fresh`, an idle one is the last
    /// choice. Otherwise the call waits, and `then` is called once.
    pub(super) fn acquire(
        self: &Arc<Self>,
        at: usize,
        fresh: bool,
        then: impl FnOnce(Grant<C>) + Send + 'static,
    ) -> Acquired<C> {
        let mut state = self.lock();
        let own = if fresh { None } else { state.idle[at].pop() };
        if let Some(idle) = own {
            return Acquired::Now(Grant::Reused(idle));
        }
        if self.moves
            && !fresh
            && let Some(idle) = state.pop_any()
        {
            return Acquired::Now(Grant::Reused(idle));
        }
        if let Some(lease) = self.try_lease(at) {
            return Acquired::Now(Grant::New(lease));
        }
        if let Some(idle) = state.pop_any() {
            return Acquired::Now(Grant::Reused(idle));
        }
        if state.waiting.len() >= self.max_waiting {
            return Acquired::Full;
        }
        let ticket = Ticket(self.new_id());
        let then = Box::new(then);
        state.waiting.push_back(Waiter { ticket, then });
        Acquired::Later(ticket)
    }

    /// Returns `true` if connections move between loops.
    pub(super) fn moves(&self) -> bool {
        self.moves
    }

    /// Returns the idle connection of loop `at` that was used last.
    pub(super) fn try_idle(&self, at: usize) -> Option<Idle<C>> {
        self.lock().idle[at].pop()
    }

    /// Removes a waiting call. Returns `false` if its callback was called or is about to be.
    pub(super) fn leave(&self, ticket: Ticket) -> bool {
        let mut state = self.lock();
        let at = state.waiting.iter().position(|one| one.ticket == ticket);
        let left = at.and_then(|at| state.waiting.remove(at));
        drop(state);
        left.is_some()
    }

    /// Returns an idle connection that a call did not use.
    pub(super) fn give_back(&self, idle: Idle<C>) {
        let mut state = self.lock();
        match state.waiting.pop_front() {
            Some(waiter) => {
                drop(state);
                (waiter.then)(Grant::Reused(idle));
            }
            None => state.idle[idle.at()].push(idle),
        }
    }

    /// Removes all idle connections and returns them.
    pub(super) fn take_idle(&self) -> Vec<C> {
        let mut state = self.lock();
        let all = state.idle.iter_mut().flat_map(std::mem::take);
        all.map(|idle| idle.connection).collect()
    }

    /// Returns how many connections are open or being made, and how many calls wait.
    pub(super) fn load(&self) -> (usize, usize) {
        let waiting = self.lock().waiting.len();
        (self.permits.held(), waiting)
    }

    fn try_lease(self: &Arc<Self>, at: usize) -> Option<Lease<C>> {
        let permit = self.permits.try_acquire()?;
        Some(Lease {
            right: Box::new(Right {
                pool: Arc::clone(self),
                id: self.new_id(),
                at,
                permit: Some(permit),
            }),
        })
    }

    /// Offers permits that became free to waiting calls.
    fn offer_permits(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            if state.waiting.is_empty() {
                return;
            }
            // The connection belongs to the loop of the call that makes it, which sets it.
            let Some(lease) = self.try_lease(0) else {
                return;
            };
            let waiter = state.waiting.pop_front();
            drop(state);
            match waiter {
                Some(waiter) => (waiter.then)(Grant::New(lease)),
                None => unreachable!("the queue was not empty, and is locked"),
            }
        }
    }

    /// Removes connection `id` from the stack of loop `at`, if it is there.
    fn forget(&self, at: usize, id: u64) {
        let mut state = self.lock();
        let stack = &mut state.idle[at];
        let found = stack.iter().position(|idle| idle.place.id == id);
        let gone = found.map(|place| stack.remove(place));
        drop(state);
        // The handle of a connection may have a drop of its own.
        drop(gone);
    }

    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        // No user code runs under this lock.
        lock(&self.state)
    }
}

/// The right of one connection to be open. Dropping it, when the connection has ended, gives the
/// right to the next call.
///
/// A box: each exchange has room for a lease, and only the first one of a connection has a lease.
pub(super) struct Lease<C: Send + 'static> {
    right: Box<Right<C>>,
}

struct Right<C: Send + 'static> {
    pool: Arc<Pool<C>>,
    id: u64,
    at: usize,
    permit: Option<Permit>,
}

impl<C: Send + 'static> Lease<C> {
    /// Returns a number that no other connection of the pool has.
    pub(super) fn id(&self) -> u64 {
        self.right.id
    }

    /// Sets the loop of the connection, before it is used.
    pub(super) fn set_loop(&mut self, at: usize) {
        self.right.at = at;
    }

    /// Puts the connection into the pool for the next call.
    pub(super) fn make_idle(&self, connection: C) {
        let Right { pool, id, at, .. } = &*self.right;
        pool.give_back(Idle::moved(*id, connection, *at));
    }
}

impl<C: Send + 'static> Drop for Right<C> {
    fn drop(&mut self) {
        self.pool.forget(self.at, self.id);
        drop(self.permit.take());
        self.pool.offer_permits();
    }
}

/// The lease of a connection that is being made. Every attempt to make it holds the reservation until
/// its socket is closed, so a connect that is cancelled keeps its permit as long.
///
/// The attempts to the addresses of one name share one reservation: they count as one connection.
pub(super) struct Reservation<C: Send + 'static> {
    lease: Mutex<Option<Lease<C>>>,
}

impl<C: Send + 'static> Reservation<C> {
    pub(super) fn new(lease: Lease<C>) -> Arc<Self> {
        Arc::new(Self {
            lease: Mutex::new(Some(lease)),
        })
    }

    /// Returns the lease, once.
    pub(super) fn take(&self) -> Option<Lease<C>> {
        let mut lease = lock(&self.lease);
        lease.take()
    }
}
