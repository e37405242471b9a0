//! The way of timeouts to the thread that owns the wheel: a stack that is taken whole.
//!
//! Built like the [`SignalLane`](tidegate_core::SignalLane), but for cells of one type, which the owner
//! gets in its hands. A cell hangs in it at most once however often it is pushed, so the lane
//! allocates nothing and its length is bounded by the cells that are alive.

use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tidegate_core::CachePadded;
use tidegate_core::prim::{AtomicBool, AtomicPtr, Ordering, claim_fence};

use super::cell::TimeoutCell;
use crate::key::KeySlot;

/// A cell that can be sent to the owner of a wheel.
///
/// ```
/// use tidegate_timer::raw::TimeoutNode;
///
/// let timeout = TimeoutNode::new(5, "closure");
/// assert_eq!(timeout.expire(5), Ok("closure"));
/// ```
pub struct TimeoutNode<T> {
    cell: TimeoutCell<T>,
    /// Whether it hangs in a lane, or is on its way out of one.
    queued: AtomicBool,
    /// The next one in the lane; written by whoever set `queued`.
    next: AtomicPtr<TimeoutNode<T>>,
    /// Its key in the wheel; for the owner of the wheel.
    key: KeySlot,
}

impl<T> TimeoutNode<T> {
    /// A pending timeout of `value`.
    pub fn new(deadline: u64, value: T) -> Arc<Self> {
        Arc::new(Self {
            cell: TimeoutCell::new(deadline, value),
            queued: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
            key: KeySlot::new(),
        })
    }

    /// Returns where its key in the wheel is kept. Only the owner of the wheel uses it.
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

/// Cells that have news for the owner of a wheel: new, reset or cancelled.
///
/// ```
/// use tidegate_timer::raw::{TimeoutLane, TimeoutNode};
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

/// Says that a lane is closed; never followed.
fn closed<T>() -> *mut TimeoutNode<T> {
    ptr::without_provenance_mut(1)
}

impl<T> TimeoutLane<T> {
    /// An open, empty lane.
    pub fn new() -> Self {
        Self {
            newest: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Sends word of a cell; the owner will see what was done to it before this. Answers false
    /// when the lane is closed. The caller looks at the [`Doorbell`](tidegate_core::Doorbell) afterwards.
    #[inline]
    #[must_use = "false means that nobody will look at the cell"]
    pub fn push(&self, cell: &Arc<TimeoutNode<T>>) -> bool {
        let mut newest = self.newest.load(Ordering::Relaxed);
        if newest == closed() {
            return false;
        }
        // ORDERING: SeqCst. Release publishes what the caller did to the cell to the swap in
        // `TimeoutBatch::next`, also when the cell hangs here already; Acquire makes that swap's
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
                    // ORDERING: Release for the next push; nobody else saw the link.
                    cell.queued.store(false, Ordering::Release);
                    // SAFETY: the reference was made above and was not published.
                    drop(unsafe { Arc::from_raw(block) });
                    return false;
                }
                Err(now) => newest = now,
            }
        }
        claim_fence();
        true
    }

    /// Takes every cell out, oldest first.
    pub fn take(&self) -> TimeoutBatch<T> {
        let mut newest = self.newest.load(Ordering::Relaxed);
        // Not a swap: that could take the mark of a lane that somebody closes meanwhile.
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

    /// Refuses every push from now on and takes out what was pushed before.
    pub fn close(&self) -> TimeoutBatch<T> {
        // ORDERING: AcqRel. Acquire pairs with the pushes; Release lets a refused pusher see
        // what was done before the close.
        let newest = self.newest.swap(closed(), Ordering::AcqRel);
        if newest == closed() {
            return TimeoutBatch { oldest: None };
        }
        TimeoutBatch::reversed(newest)
    }

    /// Whether there is nothing to take; asked after arming the doorbell.
    pub fn is_empty(&self) -> bool {
        // ORDERING: SeqCst, the owner's look; pairs with the claims in `push`.
        let newest = self.newest.load(Ordering::SeqCst);
        newest.is_null() || newest == closed()
    }

    /// Whether it refuses.
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

/// Cells taken out of a [`TimeoutLane`], oldest first. From the moment that a cell is given out
/// it can be pushed again, and what was done to it before is visible.
///
/// ```
/// use tidegate_timer::raw::{TimeoutLane, TimeoutNode};
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
            // SAFETY: the chain was taken out of the lane with a reference for each cell, so
            // each is alive, and its link belongs to whoever holds the chain.
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
        // SAFETY: this batch owns the reference that `push` made for the cell.
        let cell = unsafe { Arc::from_raw(cell.cast_const()) };
        self.oldest = NonNull::new(cell.next.load(Ordering::Relaxed));
        // ORDERING: SeqCst pairs with the swap in `push`: a push that found `true` came before
        // this, so what its thread did to the cell is visible; one that comes later hangs the
        // cell up again, and the link has been read.
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
