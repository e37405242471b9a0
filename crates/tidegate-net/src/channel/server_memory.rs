//! The memory of all connections of one server, against its cap.
//!
//! What counts is what the water marks count (bytes that wait to be sent, messages that handlers
//! hold back) and received bytes that decoders keep. Each connection has a [`Charge`]. Its loop
//! brings it up to date once per turn, if anything changed. Other threads, and decoders within a
//! turn, do so in steps of [`STEP`] bytes. So handling a message needs no atomic operation on
//! memory that connections share. The total differs from the truth by less than [`STEP`] per
//! connection, and by what is written in the turns that run at the moment.
//!
//! # Invariants
//!
//! * `total` is the sum of `counted` over the charges of connections that are neither closed nor
//!   chosen to be closed.
//! * A charge changes under the lock of its channel. Connections are chosen under `choosing`, one
//!   thread at a time, so no thread decides by a total that another one is about to lower.

use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::errors::NetError;
use tidegate_core::internal::lock;

/// Changes of a charge below this size are not counted before the end of a turn.
pub(crate) const STEP: usize = 4096;

/// A connection that uses memory of its server.
pub(crate) trait MemoryUser: Send + Sync {
    /// Returns how much it uses.
    fn used(&self) -> usize;

    /// Ends its charge. Returns the size of it; `None` if it counts for nothing.
    fn end_charge(&self) -> Option<usize>;

    /// Asks the loop of the connection to close it for this reason, unless it is closed first.
    fn close_for(self: Arc<Self>, why: NetError);
}

/// The memory of all connections of one server.
pub(crate) struct ServerMemory {
    cap: usize,
    total: AtomicUsize,
    /// Connections that were closed because the cap was exceeded.
    closed: AtomicU64,
    users: Mutex<HashMap<usize, Weak<dyn MemoryUser>>>,
    /// Held while connections are chosen.
    choosing: Mutex<()>,
}

impl ServerMemory {
    pub(crate) fn new(cap: usize) -> Arc<Self> {
        Arc::new(Self {
            cap,
            total: AtomicUsize::new(0),
            closed: AtomicU64::new(0),
            users: Mutex::default(),
            choosing: Mutex::default(),
        })
    }

    /// Adds a connection under a key of its own.
    pub(crate) fn enter(&self, key: usize, user: Weak<dyn MemoryUser>) {
        self.users().insert(key, user);
    }

    pub(crate) fn leave(&self, key: usize) {
        let left = self.users().remove(&key);
        drop(left);
    }

    /// Closes the connections that use most, until the others are within the cap.
    #[cold]
    pub(crate) fn close_largest(&self) {
        for (user, size) in self.choose() {
            let cap = self.cap;
            user.close_for(NetError::ServerMemoryFull { size, cap });
        }
    }

    /// Chooses the connections to close, and ends their charges.
    fn choose(&self) -> Vec<(Arc<dyn MemoryUser>, usize)> {
        let choosing = lock(&self.choosing);
        if self.total() <= self.cap {
            return Vec::new();
        }
        let mut users = Vec::new();
        for user in self.users().values() {
            users.extend(user.upgrade());
        }
        let mut largest = BinaryHeap::with_capacity(users.len());
        for (at, one) in users.iter().enumerate() {
            largest.push((one.used(), at));
        }
        let mut chosen = Vec::new();
        while self.total() > self.cap
            && let Some((_, at)) = largest.pop()
        {
            let ended = users[at].end_charge();
            chosen.extend(ended.map(|size| (Arc::clone(&users[at]), size)));
        }
        // The drop of a channel may run user code, so it comes after the lock.
        drop(choosing);
        drop(users);
        chosen
    }

    /// Returns the counted size of all connections.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a connection that is closed because the cap was exceeded.
    pub(crate) fn count_closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Counts a change of one connection. Returns `true` if the cap is exceeded.
    fn change(&self, from: usize, to: usize) -> bool {
        let Some(more) = to.checked_sub(from) else {
            self.total.fetch_sub(from - to, Ordering::Relaxed);
            return false;
        };
        self.total.fetch_add(more, Ordering::Relaxed) + more > self.cap
    }

    fn users(&self) -> MutexGuard<'_, HashMap<usize, Weak<dyn MemoryUser>>> {
        lock(&self.users)
    }
}

/// What one connection counts for.
pub(crate) struct Charge {
    memory: Arc<ServerMemory>,
    /// Counted size of the writes that other threads have queued.
    queued: usize,
    /// Counted size of the writes that the loop has taken since it last reported.
    taken: usize,
    /// Pending size on the loop, as it last reported.
    pending: usize,
    /// Received bytes that decoders keep.
    input: usize,
    /// The part of all this that the total contains.
    counted: usize,
}

/// The memory of a server that exceeds its cap: [`ServerMemory::close_largest`] has to be called,
/// with no lock held.
pub(crate) type Exceeded = Option<Arc<ServerMemory>>;

impl Charge {
    pub(crate) fn new(memory: Arc<ServerMemory>) -> Self {
        Self {
            memory,
            queued: 0,
            taken: 0,
            pending: 0,
            input: 0,
            counted: 0,
        }
    }

    /// Counts a write that another thread has queued.
    pub(crate) fn queue(&mut self, counts: usize) -> Exceeded {
        self.queued += counts;
        self.count_steps()
    }

    /// Records that the loop has taken the queued writes.
    pub(crate) fn take_queued(&mut self) {
        self.taken += std::mem::take(&mut self.queued);
    }

    /// Records the pending size on the loop, which contains the writes taken so far.
    pub(crate) fn set_pending(&mut self, pending: usize) -> Exceeded {
        self.taken = 0;
        self.pending = pending;
        self.count()
    }

    /// Counts received bytes that a decoder keeps.
    pub(crate) fn hold_input(&mut self, bytes: usize) -> Exceeded {
        self.input += bytes;
        self.count_steps()
    }

    pub(crate) fn release_input(&mut self, bytes: usize) {
        self.input = self.input.saturating_sub(bytes);
        // Less memory exceeds no cap.
        drop(self.count_steps());
    }

    /// Ends the charge. Returns what it counted for.
    pub(crate) fn end(self) -> usize {
        self.memory.change(self.counted, 0);
        self.counted
    }

    /// Returns the part that the total contains.
    pub(crate) fn counted(&self) -> usize {
        self.counted
    }

    /// Returns how much more the connections of the server may hold.
    pub(crate) fn spare(&self) -> usize {
        self.memory.cap.saturating_sub(self.memory.total())
    }

    /// Returns what the connection holds.
    pub(crate) fn size(&self) -> usize {
        self.queued + self.taken + self.pending + self.input
    }

    fn count_steps(&mut self) -> Exceeded {
        if self.size().abs_diff(self.counted) < STEP {
            return None;
        }
        self.count()
    }

    fn count(&mut self) -> Exceeded {
        let size = self.size();
        let from = std::mem::replace(&mut self.counted, size);
        let exceeded = from != self.counted && self.memory.change(from, self.counted);
        exceeded.then(|| Arc::clone(&self.memory))
    }
}

#[cfg(test)]
mod tests {
    //! A charge against a naive count.

    use tidegate_testkit::model;

    use super::*;

    #[test]
    fn the_total_is_exact_after_each_turn_and_within_a_step_between() {
        model(0..200, |rng| {
            let memory = ServerMemory::new(usize::MAX);
            let mut charges: Vec<_> = (0..3).map(|_| Charge::new(Arc::clone(&memory))).collect();
            let mut input = [0_usize; 3];
            for _ in 0..100 {
                let at = rng.index(3);
                let charge = &mut charges[at];
                let size = rng.index(3 * STEP);
                match rng.below(5) {
                    0 => drop(charge.queue(size)),
                    1 => charge.take_queued(),
                    2 => {
                        input[at] += size;
                        drop(charge.hold_input(size));
                    }
                    3 => {
                        let less = size.min(input[at]);
                        input[at] -= less;
                        charge.release_input(less);
                    }
                    _ => {
                        drop(charge.set_pending(size));
                        assert_eq!(charge.counted, size + charge.queued + input[at]);
                    }
                }
                let truth: usize = charges.iter().map(Charge::size).sum();
                assert!(memory.total().abs_diff(truth) < 3 * STEP);
                let counted: usize = charges.iter().map(|one| one.counted).sum();
                assert_eq!(memory.total(), counted);
            }
            drop(charges.into_iter().map(Charge::end).collect::<Vec<_>>());
            assert_eq!(memory.total(), 0);
        });
    }
}
