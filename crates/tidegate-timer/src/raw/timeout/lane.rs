//! The lane: a lock-free stack that passes timeouts to the thread that owns the wheel, which takes
//! the whole stack at once.
//!
//! It works like the [`SignalLane`](tidegate_core::internal::SignalLane), but holds cells of one
//! type, and the owner receives the cells themselves. A cell is in the lane at most once, however
//! often it is pushed, so the lane allocates nothing and its length is bounded by the number of
//! live cells.

use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tidegate_core::internal::CachePadded;
use tidegate_core::internal::prim::{AtomicBool, AtomicPtr, Ordering, claim_fence};

use super::cell::TimeoutCell;
use crate::key::KeySlot;

/// A cell that can be pushed into a lane, to reach the owner of a wheel.
///
/// ```
/// use tidegate_timer::internal::TimeoutNode;
///
/// let timeout = TimeoutNode::new(5, "closure");
/// assert_eq!(timeout.expire(5), Ok("closure"));
/// ```
pub struct TimeoutNode<T> {
    cell: TimeoutCell<T>,
    /// `true` while the cell is in a lane, or in a batch that was taken from a lane.
    queued: AtomicBool,
    /// The next cell in the lane; written by the thread that set `queued`.
    next: AtomicPtr<TimeoutNode<T>>,
    /// The key in the wheel; for the owner of the wheel.
    key: KeySlot,
}

impl<T> TimeoutNode<T> {
    /// Creates a pending timeout of `value`.
    pub fn new(deadline: u64, value: T) -> Arc<Self> {
        Arc::new(Self {
            cell: TimeoutCell::new(deadline, value),
            queued: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
            key: KeySlot::new(),
        })
    }

    /// Returns the slot that stores the key in the wheel. Only the owner of the wheel uses it.
    #[inline]
    pub fn key(&self) -> &KeySlot {
        &self.key
    }
}

impl<T> Deref for TimeoutNode<T> {
    type Target = TimeoutCell<T>;

    fn deref(&self) -> &TimeoutCell<T> {
        &self.cell
    }
}

impl<T> fmt::Debug for TimeoutNode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cell.fmt(f)
    }
}

/// A queue of cells that changed since the owner of a wheel last saw them: new, reset or cancelled.
///
/// ```
/// use tidegate_timer::internal::{TimeoutLane, TimeoutNode};
///
/// let (lane, timeout) = (TimeoutLane::new(), TimeoutNode::new(5, ()));
/// assert!(lane.push(&timeout));
/// assert!(lane.push(&timeout), "it hangs there already, which is as good");
/// assert_eq!(lane.take().count(), 1);
/// drop(lane.close());
/// assert!(!lane.push(&timeout));
/// ```
pub struct TimeoutLane<T> {
    newest: CachePadded<AtomicPtr<TimeoutNode<T>>>,
}

/// Returns the marker of a closed lane; never dereferenced.
fn closed<T>() -> *mut TimeoutNode<T> {
    ptr::without_provenance_mut(1)
}

impl<T> TimeoutLane<T> {
    /// Creates an open, empty lane.
    pub fn new() -> Self {
        Self {
            newest: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Pushes a cell, so that the owner sees every change made to it before this call. Returns
    /// `false` if the lane is closed. If the owner must wake up for it, the caller rings the
    /// [`Doorbell`](tidegate_core::internal::Doorbell) afterwards.
    #[inline]
    #[must_use = "false means that no thread will look at the cell"]
    pub fn push(&self, cell: &Arc<TimeoutNode<T>>) -> bool {
        let mut newest = self.newest.load(Ordering::Relaxed);
        if newest == closed() {
            return false;
        }
        // ORDERING: SeqCst. Release publishes what the caller did to the cell to the swap in
        // `TimeoutBatch::next`, also if the cell is already in the lane; Acquire makes that swap's
        // `false` visible, and with it that the link is free; the total order is for `Doorbell`.
        if cell.queued.swap(true, Ordering::SeqCst) {
            claim_fence();
            return true;
        }
        let block = Arc::into_raw(Arc::clone(cell)).cast_mut();
        loop {
            cell.next.store(newest, Ordering::Relaxed);
            // ORDERING: SeqCst. Release publishes `next` and the cell to `take` and `close`; the
            // total order with `Doorbell::arm` is argued at `Doorbell`.
            match self.newest.compare_exchange_weak(
                newest,
                block,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) if now == closed() => {
                    // ORDERING: Release for the next push; no other thread saw the link.
                    cell.queued.store(false, Ordering::Release);
                    // SAFETY: the reference was created above and was not published.
                    drop(unsafe { Arc::from_raw(block) });
                    return false;
                }
                Err(now) => newest = now,
            }
        }
        claim_fence();
        true
    }

    /// Removes all cells and returns them, oldest first.
    pub fn take(&self) -> TimeoutBatch<T> {
        let mut newest = self.newest.load(Ordering::Relaxed);
        // Not a swap: a swap could remove the marker of a lane that another thread closes
        // concurrently.
        loop {
            if newest.is_null() || newest == closed() {
                return TimeoutBatch { oldest: None };
            }
            // ORDERING: Acquire pairs with the compare-and-swap of every push in the chain.
            match self.newest.compare_exchange_weak(
                newest,
                ptr::null_mut(),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return TimeoutBatch::reversed(newest),
                Err(now) => newest = now,
            }
        }
    }

    /// Closes the lane: rejects every push from now on and returns the cells that were pushed
    /// before.
    pub fn close(&self) -> TimeoutBatch<T> {
        // ORDERING: AcqRel. Acquire pairs with the pushes; Release lets a rejected pusher see what
        // was done before the close.
        let newest = self.newest.swap(closed(), Ordering::AcqRel);
        if newest == closed() {
            return TimeoutBatch { oldest: None };
        }
        TimeoutBatch::reversed(newest)
    }

    /// Returns `true` if there is nothing to take. The owner calls this after it armed the
    /// doorbell.
    pub fn is_empty(&self) -> bool {
        // ORDERING: SeqCst, the owner's check; pairs with the claims in `push`.
        let newest = self.newest.load(Ordering::SeqCst);
        newest.is_null() || newest == closed()
    }

    /// Returns `true` if the lane is closed.
    pub fn is_closed(&self) -> bool {
        // ORDERING: Acquire pairs with the swap in `close`.
        self.newest.load(Ordering::Acquire) == closed()
    }
}

impl<T> Default for TimeoutLane<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for TimeoutLane<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl<T> fmt::Debug for TimeoutLane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutLane")
            .field("is_empty", &self.is_empty())
            .field("is_closed", &self.is_closed())
            .finish()
    }
}

/// Cells taken from a [`TimeoutLane`], oldest first. As soon as the iterator returns a cell, the
/// cell can be pushed again, and every change made before its last push is visible.
///
/// ```
/// use tidegate_timer::internal::{TimeoutLane, TimeoutNode};
///
/// let lane = TimeoutLane::new();
/// for number in 0..2 {
///     assert!(lane.push(&TimeoutNode::new(number, ())));
/// }
/// let deadlines: Vec<_> = lane.take().map(|cell| cell.deadline()).collect();
/// assert_eq!(deadlines, [Some(0), Some(1)]);
/// ```
pub struct TimeoutBatch<T> {
    oldest: Option<NonNull<TimeoutNode<T>>>,
}

// SAFETY: a batch is a list of `Arc`s of cells, which are `Send` and `Sync` with `T: Send`.
unsafe impl<T: Send> Send for TimeoutBatch<T> {}

impl<T> TimeoutBatch<T> {
    fn reversed(newest: *mut TimeoutNode<T>) -> Self {
        let mut left = NonNull::new(newest);
        let mut oldest = None;
        while let Some(cell) = left {
            // SAFETY: the chain was taken from the lane with a reference for each cell, so each
            // cell is alive, and its link belongs to the holder of the chain.
            let link = unsafe { &cell.as_ref().next };
            left = NonNull::new(link.load(Ordering::Relaxed));
            link.store(
                oldest.map_or(ptr::null_mut(), NonNull::as_ptr),
                Ordering::Relaxed,
            );
            oldest = Some(cell);
        }
        Self { oldest }
    }
}

impl<T> Iterator for TimeoutBatch<T> {
    type Item = Arc<TimeoutNode<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        let cell = self.oldest?.as_ptr();
        // SAFETY: this batch owns the reference that `push` created for the cell.
        let cell = unsafe { Arc::from_raw(cell.cast_const()) };
        self.oldest = NonNull::new(cell.next.load(Ordering::Relaxed));
        // ORDERING: SeqCst pairs with the swap in `push`: a push that found `true` came before
        // this, so what its thread did to the cell is visible; a later push links the cell again,
        // and the old link has been read by now.
        cell.queued.swap(false, Ordering::SeqCst);
        Some(cell)
    }
}

impl<T> Drop for TimeoutBatch<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<T> fmt::Debug for TimeoutBatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutBatch")
            .field("is_empty", &self.oldest.is_none())
            .finish()
    }
}
