//! The reserve: idle workers that can be had by one swap.
//!
//! A place holds one reference to a seat, or null. Putting one in is a compare-and-swap from
//! null, claiming one a swap to null, taking one's own back a compare-and-swap to null. Whoever
//! gets the reference out is alone with the seat until its worker sits down again, so there is
//! no version to compare and nothing to wait for.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use tidegate_core::prim::{AtomicPtr, AtomicU32, Ordering};

use super::seat::Seat;

/// The most workers that can be in reserve.
pub const MAX_RESERVED: usize = if cfg!(tidegate_loom) { 2 } else { 64 };

/// Idle workers that anybody can claim without waiting.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::internal::{Reserve, Seat};
///
/// let reserve = Reserve::new(1);
/// let seat = Arc::new(Seat::<u32>::new());
/// assert!(reserve.put(&seat));
/// assert!(!reserve.put(&seat), "one place only");
/// assert!(reserve.claim().is_some());
/// assert!(reserve.claim().is_none());
/// ```
pub struct Reserve<J> {
    places: Box<[AtomicPtr<Seat<J>>]>,
    /// Places that may be filled.
    capacity: AtomicU32,
    /// Places that were ever filled lie before this one.
    used: AtomicU32,
}

// SAFETY: the places hold `Arc<Seat<J>>`, which is `Send` and `Sync` if `J` is `Send`.
unsafe impl<J: Send> Send for Reserve<J> {}
// SAFETY: as above.
unsafe impl<J: Send> Sync for Reserve<J> {}

impl<J> Reserve<J> {
    /// A reserve of at most `capacity` workers, and at most [`MAX_RESERVED`].
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

    /// Changes how many workers may be in reserve. Those that sit there stay until claimed.
    pub fn set_capacity(&self, capacity: usize) {
        let capacity = capacity.min(MAX_RESERVED) as u32;
        self.capacity.store(capacity, Ordering::Relaxed);
        self.used.fetch_max(capacity, Ordering::Relaxed);
    }

    /// How many workers may be in reserve.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed) as usize
    }

    /// Puts a worker into the lowest free place; false if there is none.
    pub fn put(&self, seat: &Arc<Seat<J>>) -> bool {
        let mut free = self.places[..self.capacity()]
            .iter()
            .filter(|place| place.load(Ordering::Relaxed).is_null());
        free.any(|place| {
            let seat = Arc::into_raw(Arc::clone(seat)).cast_mut();
            // ORDERING: Release publishes what the worker did before it sat down to whoever
            // claims it, in `take`.
            let put =
                place.compare_exchange(ptr::null_mut(), seat, Ordering::Release, Ordering::Relaxed);
            if put.is_err() {
                // SAFETY: the pointer was made from an `Arc` above and was not stored.
                drop(unsafe { Arc::from_raw(seat) });
            }
            put.is_ok()
        })
    }

    /// Takes a worker out, from the lowest place that has one. Never waits.
    pub fn claim(&self) -> Option<Arc<Seat<J>>> {
        self.places().find_map(|place| {
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            // ORDERING: Acquire pairs with the Release in `put`.
            let seat = place.swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: a pointer in a place is a reference made by `put`, and the swap gave it
            // to this thread alone.
            (!seat.is_null()).then(|| unsafe { Arc::from_raw(seat) })
        })
    }

    /// Takes this very worker out; false if it does not sit here (any more).
    pub fn withdraw(&self, seat: &Arc<Seat<J>>) -> bool {
        let mine = Arc::as_ptr(seat).cast_mut();
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

    /// Workers in reserve. A look.
    pub fn available(&self) -> usize {
        self.places()
            .filter(|place| !place.load(Ordering::Relaxed).is_null())
            .count()
    }

    /// Whether there is a worker in reserve. A look, and a short one: the lowest places fill first.
    pub fn has_any(&self) -> bool {
        self.places()
            .any(|place| !place.load(Ordering::Relaxed).is_null())
    }

    fn places(&self) -> impl Iterator<Item = &AtomicPtr<Seat<J>>> {
        self.places[..self.used.load(Ordering::Relaxed) as usize].iter()
    }
}

impl<J> Drop for Reserve<J> {
    fn drop(&mut self) {
        while self.claim().is_some() {}
    }
}

impl<J> fmt::Debug for Reserve<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve")
            .field("available", &self.available())
            .field("capacity", &self.capacity())
            .finish()
    }
}
