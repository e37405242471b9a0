//! The signal lane: an intrusive stack that producers push and the loop takes whole.
//!
//! One compare-and-swap pushes, one takes everything, so there is no window in which a
//! stalled producer hides the others, and no block is ever read after it was handed on: the
//! loop owns what it took. Order is restored by reversing, which keeps each producer's order.
//! Its length is bounded by the number of live blocks, since a block hangs in it at most once.

use std::fmt;
use std::ptr::{self, NonNull};

use crossbeam_utils::CachePadded;

use crate::executor::{Refusal, Rejected};
use crate::prim::{AtomicPtr, Ordering, claim_fence};
use crate::signal::{Signal, SignalHeader};

/// Many producers, one consumer, unbounded, allocation-free.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tidegate_sync::{Deliver, Delivery, SignalBlock, SignalLane};
///
/// struct Hello;
/// impl Deliver for Hello {
///     fn deliver(_: Arc<SignalBlock<Self>>, how: Delivery) {
///         assert_eq!(how, Delivery::Home);
///     }
/// }
///
/// let lane = SignalLane::new();
/// lane.push(SignalBlock::new(Hello).raise().unwrap()).unwrap();
/// assert!(!lane.is_empty());
/// for signal in lane.take() {
///     signal.deliver();
/// }
/// ```
pub struct SignalLane {
    /// The newest block, null when empty, [`closed`] once closed.
    newest: CachePadded<AtomicPtr<SignalHeader>>,
}

/// What `newest` points to when the lane is closed: no block has this address.
fn closed() -> *mut SignalHeader {
    ptr::without_provenance_mut(1)
}

impl SignalLane {
    /// An empty lane.
    pub fn new() -> Self {
        Self {
            newest: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Hangs `signal` in the lane. The caller then rings the doorbell.
    ///
    /// # Errors
    ///
    /// The signal, when the lane is closed.
    #[inline]
    pub fn push(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        let mut newest = self.newest.load(Ordering::Relaxed);
        let block = signal.into_block();
        loop {
            if newest == closed() {
                // SAFETY: this reference was just taken out of `signal`; it was not published.
                let signal = unsafe { Signal::from_block(block) };
                return Err(Rejected::new(signal, Refusal::Closed));
            }
            // SAFETY: this thread owns the signal's reference, so the block is alive.
            let header = unsafe { block.as_ref() };
            header.next.store(newest, Ordering::Relaxed);
            // ORDERING: SeqCst. Release publishes `next` and the block to `take` and `close`; the total order with `Doorbell::arm` is argued at `Doorbell`.
            match self.newest.compare_exchange_weak(
                newest,
                block.as_ptr(),
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => newest = now,
            }
        }
        claim_fence();
        Ok(())
    }

    /// Takes everything that hangs in the lane, in the order in which it was pushed.
    /// Called by the loop only.
    pub fn take(&self) -> SignalBatch {
        let mut newest = self.newest.load(Ordering::Relaxed);
        // Not a swap: that could take the mark of a lane that somebody closes meanwhile.
        loop {
            if newest.is_null() || newest == closed() {
                return SignalBatch { oldest: None };
            }
            // ORDERING: Acquire pairs with the compare-and-swap of every push in the chain.
            match self.newest.compare_exchange_weak(
                newest,
                ptr::null_mut(),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return SignalBatch::reversed(newest),
                Err(now) => newest = now,
            }
        }
    }

    /// Closes the lane for good and takes what still hangs in it. Called by the loop only.
    pub fn close(&self) -> SignalBatch {
        // ORDERING: AcqRel. Acquire pairs with the pushes; Release lets a refused producer see
        // what the loop did before it closed.
        let newest = self.newest.swap(closed(), Ordering::AcqRel);
        if newest == closed() {
            return SignalBatch { oldest: None };
        }
        SignalBatch::reversed(newest)
    }

    /// Whether nothing hangs in the lane.
    pub fn is_empty(&self) -> bool {
        // ORDERING: SeqCst, see `Doorbell`: the loop asks this after arming the doorbell.
        let newest = self.newest.load(Ordering::SeqCst);
        newest.is_null() || newest == closed()
    }
}

impl Default for SignalLane {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SignalLane {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl fmt::Debug for SignalLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalLane")
            .field("is_empty", &self.is_empty())
            .finish_non_exhaustive()
    }
}

/// Signals taken out of a lane, oldest first. Those not taken when it is dropped are delivered
/// as orphaned.
#[derive(Debug)]
#[must_use = "signals that are not delivered become orphans"]
pub struct SignalBatch {
    oldest: Option<NonNull<SignalHeader>>,
}

// SAFETY: a batch is a list of signals, and a signal is `Send`.
unsafe impl Send for SignalBatch {}

impl SignalBatch {
    /// Turns the chain from newest to oldest into one from oldest to newest.
    fn reversed(newest: *mut SignalHeader) -> Self {
        let mut left = NonNull::new(newest);
        let mut oldest = None;
        while let Some(block) = left {
            // SAFETY: the chain was taken out of the lane with the references of its signals,
            // so every block in it is alive and its link belongs to this thread.
            let header = unsafe { block.as_ref() };
            left = NonNull::new(header.next.load(Ordering::Relaxed));
            let next = oldest.map_or(ptr::null_mut(), NonNull::as_ptr);
            header.next.store(next, Ordering::Relaxed);
            oldest = Some(block);
        }
        Self { oldest }
    }
}

impl Iterator for SignalBatch {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        let block = self.oldest?;
        // SAFETY: as in `reversed`: this batch owns the references of its blocks.
        let header = unsafe { block.as_ref() };
        self.oldest = NonNull::new(header.next.load(Ordering::Relaxed));
        // SAFETY: the reference was given up in `push` and belongs to this batch; the link has
        // been read, so the block can hang elsewhere as soon as it is delivered.
        Some(unsafe { Signal::from_block(block) })
    }
}

impl Drop for SignalBatch {
    fn drop(&mut self) {
        /// Goes on with the rest when a receiver panics.
        struct Rest<'a>(&'a mut SignalBatch);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                while self.0.next().is_some() {}
            }
        }
        while let Some(signal) = self.next() {
            let rest = Rest(self);
            drop(signal);
            std::mem::forget(rest);
        }
    }
}
