//! Connections to one host with room for another request, on all loops of a group.
//!
//! The pool knows nothing of a protocol: a connection is any handle. It is *free* while it has a free
//! stream. A connection of HTTP/1 has one stream, so it is free between two requests. The limit covers
//! all loops: each connection, also one that is being made, holds one permit of one set.
//!
//! # Where a free connection lies
//!
//! Each loop has a list of its own, which only its thread touches: what it uses comes from there and
//! goes back there without a lock. The *common part* is behind the lock. It has the connections that
//! other threads use, and all of them while the pool is *scarce*, because a call had to wait.
//!
//! ```text
//!   lists of loops ── no connection, no permit: the call waits, loops are asked ──▶ common part
//!         ▲                                                                             │
//!         └──────────── CALM connections were returned and no call had to wait ─────────┘
//! ```
//!
//! # Invariants
//!
//! * A connection is in one place: in a list, in the common part, or with one call. So it has one taker.
//! * A callback of a waiting call runs once, outside of the lock; not if the call has left before.
//! * No call waits beside a free permit: a permit that becomes free is offered after it was returned,
//!   and a call looks for one under the lock under which it begins to wait.
//! * No call waits beside a free connection for longer than its loop needs for the next task. In the
//!   common part, connections and waiting calls meet under the lock. For a list: `scarce` is set under
//!   the lock before a call waits, and each loop that has used the pool then gets the task
//!   [`offer_own`](Pool::offer_own). A connection that lies in the list before that task is found by it.
//!   One that is returned after it does not go into the list, because the loop sees `scarce`: the task
//!   came after it. `scarce` is unset under the lock while no call waits; the next one sets it again,
//!   and asks again. A loop that is not asked makes its first connection later, under the lock, and
//!   sees `scarce` for that reason.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::{CachePadded, Counter, HomeCell, lock};
use tidegate_core::permits::{Permit, Permits};

/// How many connections are returned without a call that waits before loops use their lists again.
/// Few in tests, so that it happens often.
const CALM: u32 = if cfg!(test) { 4 } else { 256 };

/// Connections to one host.
pub(super) struct Pool<C: Send + 'static> {
    permits: Permits,
    max_waiting: usize,
    /// How many connections may be free.
    keep: usize,
    /// Closes a connection above it.
    close: fn(C),
    next_id: AtomicU64,
    own: Box<[CachePadded<Own<C>>]>,
    /// Connections go to the common part. Changes under the lock.
    scarce: AtomicBool,
    /// How many connections are in the common part. Changes under the lock.
    in_common: AtomicUsize,
    common: Mutex<Common<C>>,
}

/// What belongs to a loop.
struct Own<C> {
    /// The connection that was used last is at the back.
    free: HomeCell<RefCell<VecDeque<Free<C>>>>,
    /// How many there are, for other threads.
    count: Counter,
    /// There may be a connection of this loop. Set under the lock.
    used: AtomicBool,
}

struct Common<C: Send + 'static> {
    /// One stack for each loop.
    free: Vec<Vec<Free<C>>>,
    waiting: VecDeque<Waiter<C>>,
    /// How many connections were returned since a call had to wait.
    calm: u32,
}

impl<C: Send + 'static> Common<C> {
    /// Returns the connection of this loop that was used last; without a loop, one of the loop with the
    /// most.
    fn pop(&mut self, at: Option<usize>) -> Option<Free<C>> {
        match at {
            Some(at) => self.free[at].pop(),
            None => self.free.iter_mut().max_by_key(|stack| stack.len())?.pop(),
        }
    }
}

struct Waiter<C: Send + 'static> {
    ticket: Ticket,
    then: Box<dyn FnOnce(Grant<C>) + Send>,
}

/// A connection with a free stream.
pub(super) struct Free<C> {
    pub(super) connection: C,
    pub(super) place: FreePlace,
}

/// A free connection without the connection: what its pool knows about it.
#[derive(Clone, Copy)]
pub(super) struct FreePlace {
    id: u64,
    at: usize,
}

impl FreePlace {
    /// Returns the number of the connection's loop.
    pub(super) fn at(self) -> usize {
        self.at
    }
}

impl<C> Free<C> {
    /// Returns this connection, of loop `at`. After a move its handle is another one.
    pub(super) fn new(id: u64, connection: C, at: usize) -> Self {
        let place = FreePlace { id, at };
        Self { connection, place }
    }
}

/// What a call may use.
pub(super) enum Grant<C: Send + 'static> {
    /// A connection that was free.
    Free(Free<C>),
    /// A connection that another call has just returned, while this one waited.
    Returned(Free<C>),
    /// A new connection, which holds this lease as long as it is open.
    New(Lease<C>),
}

/// Result of [`Pool::acquire`].
pub(super) enum Acquired<C: Send + 'static> {
    Now(Grant<C>),
    /// The callback follows, unless the call leaves with this ticket.
    Later {
        ticket: Ticket,
        /// The caller makes each loop that [is used](Pool::is_used) call [`Pool::offer_own`].
        asks: bool,
    },
    /// Too many calls wait.
    Full,
}

/// The place of a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) connections: usize,
    pub(super) waiting: usize,
    /// How many connections may be free.
    pub(super) keep: usize,
}

impl<C: Send + 'static> Pool<C> {
    /// Creates a pool for `loops` loops. `close` closes a free connection that is too many.
    pub(super) fn new(loops: usize, bounds: Bounds, close: fn(C)) -> Arc<Self> {
        let own = || Own {
            free: HomeCell::default(),
            count: Counter::default(),
            used: AtomicBool::new(false),
        };
        let loops = loops.max(1);
        Arc::new(Self {
            permits: Permits::new(bounds.connections.max(1)),
            max_waiting: bounds.waiting,
            keep: bounds.keep,
            close,
            next_id: AtomicU64::new(1),
            own: (0..loops).map(|_| CachePadded::new(own())).collect(),
            scarce: AtomicBool::new(false),
            in_common: AtomicUsize::new(0),
            common: Mutex::new(Common {
                free: (0..loops).map(|_| Vec::new()).collect(),
                waiting: VecDeque::new(),
                calm: 0,
            }),
        })
    }

    /// Returns the free connection of loop `at` that was used last; without a loop, any that other
    /// threads can reach.
    #[inline]
    pub(super) fn try_free(&self, at: Option<usize>) -> Option<Free<C>> {
        let own = at.and_then(|at| self.pop_own(at));
        // Relaxed: a hint. What this thread has to see, it sees.
        own.or_else(|| match self.in_common.load(Ordering::Relaxed) {
            0 => None,
            _ => self.change(|common| common.pop(at)),
        })
    }

    /// Returns a connection for a call on loop `at`, or on another thread: a free one of that loop, then a
    /// new one, then any free one. With `fresh`, a free one is the last choice. Otherwise the call
    /// waits, and `then` is called once.
    pub(super) fn acquire(
        self: &Arc<Self>,
        at: Option<usize>,
        fresh: bool,
        then: impl FnOnce(Grant<C>) + Send + 'static,
    ) -> Acquired<C> {
        if !fresh && let Some(free) = self.try_free(at) {
            return Acquired::Now(Grant::Free(free));
        }
        self.change(|common| {
            let again = if fresh { None } else { common.pop(at) };
            if let Some(free) = again {
                return Acquired::Now(Grant::Free(free));
            }
            if let Some(lease) = self.try_lease(at) {
                return Acquired::Now(Grant::New(lease));
            }
            let own = || at.and_then(|at| self.pop_own(at));
            if let Some(free) = common.pop(None).or_else(own) {
                return Acquired::Now(Grant::Free(free));
            }
            // Loops are about to return as many as they have.
            let most = self.max_waiting.saturating_add(self.in_lists());
            if common.waiting.len() >= most {
                return Acquired::Full;
            }
            let ticket = Ticket(self.new_id());
            let then = Box::new(then);
            common.waiting.push_back(Waiter { ticket, then });
            common.calm = 0;
            Acquired::Later {
                ticket,
                // Relaxed: the lock orders it, and the tasks that ask.
                asks: !self.scarce.swap(true, Ordering::Relaxed),
            }
        })
    }

    /// Removes a waiting call. Returns `false` if its callback was called or is about to be.
    pub(super) fn leave(&self, ticket: Ticket) -> bool {
        let mut common = self.lock();
        let at = common.waiting.iter().position(|one| one.ticket == ticket);
        let left = at.and_then(|at| common.waiting.remove(at));
        drop(common);
        left.is_some()
    }

    /// Returns `true` if loop `at` may have a connection. Called after [`acquire`](Self::acquire).
    pub(super) fn is_used(&self, at: usize) -> bool {
        self.own[at].used.load(Ordering::Relaxed)
    }

    /// Offers the free connections of loop `at` to calls that wait. Called on that loop.
    pub(super) fn offer_own(&self, at: usize) {
        // Relaxed: the task that calls this comes after the change.
        if !self.scarce.load(Ordering::Relaxed) {
            return;
        }
        let mut all = self.take_own(at);
        while let Some(free) = all.pop_back() {
            let met = self.change(|common| {
                let waiter = common.waiting.pop_front();
                if waiter.is_some() {
                    return waiter.zip(Some(free));
                }
                common.free[at].extend(all.drain(..));
                common.free[at].push(free);
                None
            });
            if let Some((waiter, free)) = met {
                (waiter.then)(Grant::Free(free));
            }
        }
    }

    /// Returns a free connection that a call did not use.
    pub(super) fn give_back(&self, free: Free<C>) {
        let own = &self.own[free.place.at];
        match own.free.at_home() {
            Some(list) if !self.is_scarce() => self.push_own(own, list, free),
            _ => self.push_common(free),
        }
    }

    /// Removes all free connections that this thread can reach, and returns them.
    pub(super) fn take_free(&self) -> Vec<C> {
        let lists = (0..self.own.len()).flat_map(|at| self.take_own(at));
        let mut all: Vec<_> = lists.collect();
        self.change(|common| all.extend(common.free.iter_mut().flat_map(std::mem::take)));
        all.into_iter().map(|free| free.connection).collect()
    }

    /// Returns how many connections are open or being made, and how many calls wait.
    pub(super) fn load(&self) -> (usize, usize) {
        let waiting = self.lock().waiting.len();
        (self.permits.held(), waiting)
    }

    #[inline]
    fn is_scarce(&self) -> bool {
        // Relaxed: see the invariants.
        self.scarce.load(Ordering::Relaxed)
    }

    /// Returns the connection of the list of loop `at` that was used last, on that loop.
    #[inline]
    fn pop_own(&self, at: usize) -> Option<Free<C>> {
        let own = &self.own[at];
        let mut list = own.free.at_home()?.borrow_mut();
        let free = list.pop_back()?;
        own.count.set(list.len() as u64);
        Some(free)
    }

    /// Empties the list of loop `at`, on that loop.
    fn take_own(&self, at: usize) -> VecDeque<Free<C>> {
        let own = &self.own[at];
        let list = own.free.at_home().map(|list| {
            own.count.set(0);
            list.take()
        });
        list.unwrap_or_default()
    }

    /// Puts a connection into the list of its loop, on that loop. If too many are free, the one of this
    /// list that was not used for the longest time is closed.
    #[inline]
    fn push_own(&self, own: &Own<C>, list: &RefCell<VecDeque<Free<C>>>, free: Free<C>) {
        let mut list = list.borrow_mut();
        list.push_back(free);
        own.count.set(list.len() as u64);
        if self.permits.held() > self.keep && self.count() > self.keep {
            let oldest = list.pop_front();
            own.count.set(list.len() as u64);
            drop(list);
            self.close(oldest);
        }
    }

    /// Gives a connection to the call that has waited the longest, or puts it into the common part.
    fn push_common(&self, free: Free<C>) {
        let at = free.place.at;
        let met = self.change(|common| {
            let waiter = common.waiting.pop_front();
            if waiter.is_some() {
                return waiter.zip(Some(free));
            }
            common.calm += 1;
            if common.calm >= CALM {
                common.calm = 0;
                self.scarce.store(false, Ordering::Relaxed);
            }
            common.free[at].push(free);
            None
        });
        match met {
            Some((waiter, free)) => (waiter.then)(Grant::Returned(free)),
            None if self.count() > self.keep => {
                let oldest = |stack: &mut Vec<_>| (!stack.is_empty()).then(|| stack.remove(0));
                self.close(self.change(|common| oldest(&mut common.free[at])));
            }
            None => {}
        }
    }

    fn close(&self, surplus: Option<Free<C>>) {
        if let Some(free) = surplus {
            (self.close)(free.connection);
        }
    }

    /// Returns how many connections are free. Other threads may be changing it.
    pub(super) fn count(&self) -> usize {
        self.in_lists() + self.in_common.load(Ordering::Relaxed)
    }

    fn in_lists(&self) -> usize {
        self.own.iter().map(|own| own.count.get() as usize).sum()
    }

    /// Takes a permit, under the lock.
    fn try_lease(self: &Arc<Self>, at: Option<usize>) -> Option<Lease<C>> {
        let permit = self.permits.try_acquire()?;
        Some(Lease {
            right: Box::new(Right {
                pool: Arc::clone(self),
                id: self.new_id(),
                // The connection belongs to the loop of the call that makes it, which sets it.
                at: at.unwrap_or(0),
                permit: Some(permit),
            }),
        })
    }

    /// Offers permits that became free to waiting calls.
    fn offer_permits(self: &Arc<Self>) {
        loop {
            let mut common = self.lock();
            if common.waiting.is_empty() {
                return;
            }
            let Some(lease) = self.try_lease(None) else {
                return;
            };
            let waiter = common.waiting.pop_front();
            drop(common);
            match waiter {
                Some(waiter) => (waiter.then)(Grant::New(lease)),
                None => unreachable!("the queue was not empty, and is locked"),
            }
        }
    }

    /// Removes connection `id` of loop `at`, if it is free.
    fn forget(&self, at: usize, id: u64) {
        let is_it = |free: &Free<C>| free.place.id == id;
        let own = self.own[at].free.at_home().and_then(|list| {
            let mut list = list.borrow_mut();
            let found = list.iter().position(is_it)?;
            self.own[at].count.set(list.len() as u64 - 1);
            list.remove(found)
        });
        let gone = own.or_else(|| match self.in_common.load(Ordering::Relaxed) {
            0 => None,
            _ => self.change(|common| {
                let found = common.free[at].iter().position(is_it)?;
                Some(common.free[at].remove(found))
            }),
        });
        // The handle of a connection may have a drop of its own.
        drop(gone);
    }

    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes the common part.
    fn change<T>(&self, change: impl FnOnce(&mut Common<C>) -> T) -> T {
        let mut common = self.lock();
        let result = change(&mut common);
        let count = common.free.iter().map(Vec::len).sum();
        self.in_common.store(count, Ordering::Relaxed);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Common<C>> {
        // No user code runs under this lock.
        lock(&self.common)
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

    /// Returns the number of the connection's loop.
    pub(super) fn at(&self) -> usize {
        self.right.at
    }

    /// Sets the loop of the connection, before it is made there.
    pub(super) fn set_loop(&mut self, at: usize) {
        let pool = &self.right.pool;
        let common = pool.lock();
        // Under the lock: a call that waits has set `scarce` before, or asks this loop later.
        pool.own[at].used.store(true, Ordering::Relaxed);
        drop(common);
        self.right.at = at;
    }

    /// Puts the connection into the pool for the next call, on its loop. `shared`: other threads use it.
    #[inline]
    pub(super) fn make_free(&self, connection: C, shared: bool) {
        let Right { pool, id, at, .. } = &*self.right;
        let (own, free) = (&pool.own[*at], Free::new(*id, connection, *at));
        // Its loop is at home here, from the first one on.
        match own.free.get() {
            Some(list) if !shared && !pool.is_scarce() => pool.push_own(own, list, free),
            _ => pool.push_common(free),
        }
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
