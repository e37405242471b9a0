//! The reserve: idle workers that can be claimed by one swap.
//!
//! A place holds one reference to a worker slot, or null. Adding a worker is a compare-and-swap
//! from null. Claiming one is a swap to null. A worker withdraws itself with a compare-and-swap to
//! null. The thread that removes the reference has exclusive use of the slot until its worker
//! becomes idle again, so no version counter is needed and no thread ever waits.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use tidegate_core::internal::prim::{AtomicPtr, AtomicU32, Ordering};

use super::worker_slot::WorkerSlot;

/// The maximum number of reserved workers.
pub(crate) const MAX_RESERVED: usize = if cfg!(tidegate_loom) { 2 } else { 64 };

/// Idle workers that any thread can claim without waiting.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::internal::{ReservedWorkers, WorkerSlot};
///
/// let reserve = ReservedWorkers::new(1);
/// let worker_slot = Arc::new(WorkerSlot::<u32>::new());
/// assert!(reserve.put(&worker_slot));
/// assert!(!reserve.put(&worker_slot), "one place only");
/// assert!(reserve.claim().is_some());
/// assert!(reserve.claim().is_none());
/// ```
pub struct ReservedWorkers<J> {
    places: Box<[AtomicPtr<WorkerSlot<J>>]>,
    /// The number of places that may be filled.
    capacity: AtomicU32,
    /// All places that were ever filled have a lower index than this.
    used: AtomicU32,
}

// SAFETY: the places hold `Arc<WorkerSlot<J>>`, which is `Send` and `Sync` if `J` is `Send`.
unsafe impl<J: Send> Send for ReservedWorkers<J> {}
// SAFETY: as above.
unsafe impl<J: Send> Sync for ReservedWorkers<J> {}

impl<J> ReservedWorkers<J> {
    /// Creates a reserve of at most `capacity` workers, and at most `MAX_RESERVED`.
    pub fn new(capacity: usize) -> Self {
        let places = (0..MAX_RESERVED).map(|_| AtomicPtr::new(ptr::null_mut()));
        let reserve = Self {
            places: places.collect(),
            capacity: AtomicU32::new(0),
            used: AtomicU32::new(0),
        };
        reserve.set_capacity(capacity);
        reserve
    }

    /// Changes how many workers may be reserved. Workers above the new capacity stay until claimed.
    pub fn set_capacity(&self, capacity: usize) {
        let capacity = capacity.min(MAX_RESERVED) as u32;
        self.capacity.store(capacity, Ordering::Relaxed);
        self.used.fetch_max(capacity, Ordering::Relaxed);
    }

    /// Returns how many workers may be reserved.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed) as usize
    }

    /// Adds a worker in the lowest free place. Returns `false` if no place is free.
    pub fn put(&self, worker_slot: &Arc<WorkerSlot<J>>) -> bool {
        let mut free = self.places[..self.capacity()]
            .iter()
            .filter(|place| place.load(Ordering::Relaxed).is_null());
        free.any(|place| {
            let worker_slot = Arc::into_raw(Arc::clone(worker_slot)).cast_mut();
            // ORDERING: Release publishes what the worker did before it became idle to the thread
            // that claims it, in `claim` or `withdraw`.
            let put = place.compare_exchange(
                ptr::null_mut(),
                worker_slot,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if put.is_err() {
                // SAFETY: the pointer was made from an `Arc` above and was not stored.
                drop(unsafe { Arc::from_raw(worker_slot) });
            }
            put.is_ok()
        })
    }

    /// Removes and returns a worker, from the lowest place that has one. Never waits.
    pub fn claim(&self) -> Option<Arc<WorkerSlot<J>>> {
        self.places().find_map(|place| {
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            // ORDERING: Acquire pairs with the Release in `put`.
            let worker_slot = place.swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: a pointer in a place is a reference made by `put`, and the swap gave it
            // to this thread alone.
            (!worker_slot.is_null()).then(|| unsafe { Arc::from_raw(worker_slot) })
        })
    }

    /// Removes this worker. Returns `false` if it is not, or no longer, reserved.
    pub fn withdraw(&self, worker_slot: &Arc<WorkerSlot<J>>) -> bool {
        let mine = Arc::as_ptr(worker_slot).cast_mut();
        self.places().any(|place| {
            // ORDERING: Acquire, as in `claim`.
            let taken =
                place.compare_exchange(mine, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // SAFETY: the place held a reference made by `put`, and the exchange gave it to
                // this thread alone.
                drop(unsafe { Arc::from_raw(mine) });
            }
            taken.is_ok()
        })
    }

    /// Returns the number of reserved workers; a snapshot.
    pub fn available(&self) -> usize {
        self.places()
            .filter(|place| !place.load(Ordering::Relaxed).is_null())
            .count()
    }

    /// Returns `true` if a worker is reserved; a snapshot. It is cheap, because the lowest places
    /// fill first.
    pub fn has_any(&self) -> bool {
        self.places()
            .any(|place| !place.load(Ordering::Relaxed).is_null())
    }

    fn places(&self) -> impl Iterator<Item = &AtomicPtr<WorkerSlot<J>>> {
        self.places[..self.used.load(Ordering::Relaxed) as usize].iter()
    }
}

impl<J> Drop for ReservedWorkers<J> {
    fn drop(&mut self) {
        while self.claim().is_some() {}
    }
}

impl<J> fmt::Debug for ReservedWorkers<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReservedWorkers")
            .field("available", &self.available())
            .field("capacity", &self.capacity())
            .finish()
    }
}
