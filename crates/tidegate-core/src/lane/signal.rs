//! The signal lane: an intrusive stack. Producers push; the loop takes all blocks at once.
//!
//! One compare-and-swap pushes, and one takes everything, so there is no window in which a stalled
//! producer hides the others. No block is read after it was handed on: the loop owns the blocks
//! that it took. Reversing the stack restores the order of each producer. Its length is bounded by
//! the number of live blocks, since a block is in it at most once.

use std::fmt;
use std::ptr::{self, NonNull};

use crate::cache_padded::CachePadded;
use crate::executor::{RejectReason, Rejected};
use crate::raw::signal::{Signal, SignalHeader};
use crate::sys::prim::{AtomicPtr, Ordering, claim_fence};

/// A queue for signals with many producers and one consumer: unbounded and allocation-free.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tidegate_core::internal::{Deliver, Delivery, SignalBlock, SignalLane};
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
    /// The newest block; null when empty, [`closed`] once closed.
    newest: CachePadded<AtomicPtr<SignalHeader>>,
}

/// The value of `newest` when the lane is closed: no block has this address.
fn closed() -> *mut SignalHeader {
    ptr::without_provenance_mut(1)
}

impl SignalLane {
    /// Creates an empty lane.
    pub fn new() -> Self {
        Self {
            newest: CachePadded::new(AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Pushes `signal`. The caller then rings the doorbell.
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
                return Err(Rejected::new(signal, RejectReason::Closed));
            }
            // SAFETY: this thread owns the signal's reference, so the block is alive.
            let header = unsafe { block.as_ref() };
            header.next.store(newest, Ordering::Relaxed);
            // ORDERING: SeqCst. Release publishes `next` and the block to `take` and `close`; the
            // total order with `Doorbell::arm` is argued at `Doorbell`.
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

    /// Takes all signals out of the lane, in the order in which they were pushed. Called only by
    /// the loop.
    pub fn take(&self) -> impl Iterator<Item = Signal> + Send + fmt::Debug + use<> {
        let mut newest = self.newest.load(Ordering::Relaxed);
        // Not a swap: a swap could remove the closed mark if another thread closes the lane
        // meanwhile.
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

    /// Closes the lane permanently and takes the signals that are still in it. Called only by the
    /// loop.
    pub fn close(&self) -> impl Iterator<Item = Signal> + Send + fmt::Debug + use<> {
        // ORDERING: AcqRel. Acquire pairs with the pushes; Release lets a refused producer see
        // what the loop did before it closed.
        let newest = self.newest.swap(closed(), Ordering::AcqRel);
        if newest == closed() {
            return SignalBatch { oldest: None };
        }
        SignalBatch::reversed(newest)
    }

    /// Returns `true` if the lane holds no signal.
    pub fn is_empty(&self) -> bool {
        // ORDERING: SeqCst, see `Doorbell`: the loop calls this after arming the doorbell.
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

/// Signals taken out of a lane, oldest first. Signals that are left when the batch is dropped are
/// delivered as orphaned.
#[derive(Debug)]
#[must_use = "signals that are not delivered become orphans"]
struct SignalBatch {
    oldest: Option<NonNull<SignalHeader>>,
}

// SAFETY: a batch is a list of signals, and a signal is `Send`.
unsafe impl Send for SignalBatch {}

impl SignalBatch {
    /// Reverses a chain that runs from newest to oldest.
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
        // SAFETY: the reference was given up in `push` and belongs to this batch; the link has been
        // read, so the block can be in another lane as soon as it is delivered.
        Some(unsafe { Signal::from_block(block) })
    }
}

impl Drop for SignalBatch {
    fn drop(&mut self) {
        /// Delivers the remaining signals when a receiver panics.
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

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Signals are delivered once each, in their producers' order, and none is lost.

    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::{Arc, Mutex};
    use std::thread;

    use tidegate_testkit::{rounds, until, yield_times};

    use super::*;
    use crate::raw::signal::{Deliver, Delivery, SignalBlock};

    type Seen = Arc<Mutex<Vec<(u32, Delivery)>>>;

    struct Numbered(u32, Seen);

    impl Deliver for Numbered {
        fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
            let mut seen = block
                .1
                .lock()
                .expect("no thread panics while it holds the lock");
            seen.push((block.0, how));
            drop(seen);
            assert_ne!(block.0, 99, "on purpose");
        }
    }

    fn numbered(number: u32, seen: &Seen) -> Signal {
        let block = SignalBlock::new(Numbered(number, Arc::clone(seen)));
        block.raise().expect("not raised yet")
    }

    #[test]
    fn takes_everything_in_order() {
        let (lane, seen) = (SignalLane::new(), Seen::default());
        assert!(lane.is_empty() && lane.take().next().is_none());
        for number in 0..5 {
            lane.push(numbered(number, &seen)).expect("open");
        }
        assert!(!lane.is_empty());
        lane.take().for_each(Signal::deliver);
        assert!(lane.is_empty());
        let expected: Vec<_> = (0..5).map(|number| (number, Delivery::Home)).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
    }

    #[test]
    fn a_closed_lane_gives_the_signal_back() {
        let (lane, seen) = (SignalLane::new(), Seen::default());
        lane.push(numbered(1, &seen)).expect("open");
        assert_eq!(lane.close().count(), 1);
        assert_eq!((lane.close().count(), lane.take().count()), (0, 0));
        assert!(lane.is_empty());
        let refused = lane.push(numbered(2, &seen)).unwrap_err();
        assert_eq!(refused.why(), RejectReason::Closed);
        refused.into_inner().deliver();
        assert_eq!(seen.lock().unwrap()[1], (2, Delivery::Home));
    }

    #[test]
    fn remaining_signals_are_delivered_as_orphaned() {
        let (lane, seen) = (SignalLane::new(), Seen::default());
        for number in 0..4 {
            lane.push(numbered(number, &seen)).expect("open");
        }
        let mut batch = lane.take();
        batch.next().expect("four hang there").deliver();
        drop(batch);
        lane.push(numbered(4, &seen)).expect("open");
        drop(lane);
        let orphans = (1..5).map(|number| (number, Delivery::Orphaned));
        assert!(seen.lock().unwrap().iter().copied().skip(1).eq(orphans));
    }

    #[test]
    fn a_receiver_that_panics_does_not_keep_the_others() {
        let (lane, seen) = (SignalLane::new(), Seen::default());
        for number in [1, 99, 2, 3] {
            lane.push(numbered(number, &seen)).expect("open");
        }
        let batch = lane.take();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(batch)));
        assert!(caught.is_err());
        let told = seen.lock().unwrap().len();
        assert_eq!(told, 4);
        assert_eq!(Arc::strong_count(&seen), 1, "every block is gone");
    }

    #[test]
    fn each_producers_order_is_kept_and_nothing_is_lost() {
        let (lane, seen) = (SignalLane::new(), Seen::default());
        let each = rounds(5_000) as u32;
        thread::scope(|scope| {
            for producer in 0..3 {
                let (lane, seen) = (&lane, &seen);
                scope.spawn(move || {
                    for number in 0..each {
                        let signal = numbered(1_000_000 * (producer + 1) + number, seen);
                        lane.push(signal).expect("open");
                    }
                });
            }
            let mut told = 0;
            until("every signal was delivered", || {
                for signal in lane.take() {
                    signal.deliver();
                    told += 1;
                }
                told == 3 * each
            });
        });
        let seen = seen.lock().unwrap();
        for producer in 1..4 {
            let of_one = seen
                .iter()
                .filter(|(number, _)| number / 1_000_000 == producer);
            assert!(of_one.map(|(number, _)| number % 1_000_000).eq(0..each));
        }
    }

    #[test]
    fn a_close_against_pushes_loses_nothing() {
        for _ in 0..rounds(300) {
            let (lane, seen) = (SignalLane::new(), Seen::default());
            let (accepted, go) = (AtomicUsize::new(0), AtomicBool::new(false));
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        until("the lane is read", || go.load(Relaxed));
                        for number in 0..20 {
                            // A signal that comes back is dropped here, which delivers it as
                            // orphaned.
                            let pushed = lane.push(numbered(number, &seen)).is_ok();
                            accepted.fetch_add(usize::from(pushed), Relaxed);
                        }
                    });
                }
                go.store(true, Relaxed);
                lane.take().for_each(Signal::deliver);
                yield_times(1);
                lane.close().for_each(Signal::deliver);
            });
            let seen = seen.lock().unwrap();
            let home = seen.iter().filter(|(_, how)| *how == Delivery::Home);
            assert_eq!((home.count(), seen.len()), (accepted.into_inner(), 40));
        }
    }
}
