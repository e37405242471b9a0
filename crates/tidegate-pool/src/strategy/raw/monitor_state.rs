//! The monitor state: one word that says whether a monitor is awake, asleep, or stopped.
//!
//! A producer lends (see [`ProducerCell`](crate::strategy::raw::ProducerCell)) and then reads the
//! word. The monitor changes the word and then reads the cells. The side that comes second sees the
//! other, so no loan is missed by a monitor that sleeps or stops. Either the monitor finds the
//! loan, or the producer finds the monitor asleep and wakes it, or the producer finds it stopped
//! and takes its loan back. [`MonitorState::end`] is final: neither a notification nor a concurrent
//! sleep undoes it.
//!
//! # Ordering
//!
//! This is the store-buffer pattern, as in [`Doorbell`](tidegate_core::internal::Doorbell):
//! `ProducerGuard::lend`, the load in [`MonitorState::notify`], the changes in
//! [`MonitorState::sleep`] and [`MonitorState::end`] and the load in `ProducerCell::snapshot` are
//! all `SeqCst`.

use std::fmt;

use tidegate_core::internal::CachePadded;
use tidegate_core::internal::prim::{AtomicU32, Ordering, claim_fence};

/// The monitor scans its cells.
const AWAKE: u32 = 0;
/// The monitor sleeps, or is about to.
const ASLEEP: u32 = 1;
/// The monitor has stopped.
const OVER: u32 = 2;

/// Whether a monitor is awake, asleep, or stopped.
///
/// ```
/// use tidegate_pool::internal::{NotifyResult, MonitorState};
///
/// let monitor_state = MonitorState::new();
/// assert_eq!(monitor_state.notify(), NotifyResult::Awake);
/// assert!(monitor_state.sleep());
/// assert_eq!(monitor_state.notify(), NotifyResult::Woken, "the caller wakes the monitor's thread");
/// assert!(monitor_state.end());
/// assert_eq!((monitor_state.notify(), monitor_state.sleep()), (NotifyResult::Over, false));
/// ```
pub struct MonitorState {
    word: CachePadded<AtomicU32>,
}

/// The result of [`MonitorState::notify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyResult {
    /// The monitor is awake and will see the loan.
    Awake,
    /// The monitor was asleep: the caller has to wake its thread.
    Woken,
    /// The monitor has stopped: the caller takes its loan back.
    Over,
}

impl MonitorState {
    /// Creates the state of a monitor that is awake.
    pub fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU32::new(AWAKE)),
        }
    }

    /// Notifies the monitor that a producer was lent. Must be called after the loan.
    #[inline]
    #[must_use = "a sleeping monitor has to be woken, and one that was shut down scans nothing"]
    pub fn notify(&self) -> NotifyResult {
        // ORDERING: SeqCst, the producer's check; pairs with the changes in `sleep` and `end`.
        match self.word.load(Ordering::SeqCst) {
            AWAKE => NotifyResult::Awake,
            _ => self.rouse(),
        }
    }

    #[cold]
    fn rouse(&self) -> NotifyResult {
        // ORDERING: AcqRel: one of many notifying producers wakes the monitor; Acquire pairs with
        // `sleep` and `end`, so that what happened before them is visible.
        match self
            .word
            .compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => NotifyResult::Woken,
            Err(OVER) => NotifyResult::Over,
            Err(_) => NotifyResult::Awake,
        }
    }

    /// Announces that the monitor will sleep. Returns `false` if it was stopped. The monitor must
    /// now scan its cells once more, and then either sleep or [wake](MonitorState::wake).
    pub fn sleep(&self) -> bool {
        // ORDERING: SeqCst, the monitor's announcement; pairs with the load in `notify`. Relaxed on
        // failure: nothing follows from it.
        let slept = self
            .word
            .compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::Relaxed);
        claim_fence();
        slept.is_ok()
    }

    /// Marks the monitor as awake again, unless it was stopped.
    pub fn wake(&self) {
        // ORDERING: AcqRel: Acquire pairs with the exchange in `rouse`. If it fails, the monitor is
        // awake or stopped.
        let _ = self
            .word
            .compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Stops the monitor. Returns `true` if this call did. The caller must now scan the cells once
    /// more: a producer that is lent then was lent by a thread that did not see the stop.
    pub fn end(&self) -> bool {
        // ORDERING: SeqCst, the last announcement; pairs with the load in `notify`.
        let before = self.word.swap(OVER, Ordering::SeqCst);
        claim_fence();
        before != OVER
    }

    /// Returns `true` if the monitor is asleep or about to be.
    pub fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASLEEP
    }

    /// Returns `true` if the monitor was stopped. A `snapshot` at a cell that follows then sees
    /// each loan whose producer did not find the monitor stopped.
    pub fn is_surely_over(&self) -> bool {
        // ORDERING: SeqCst: after `end` in the total order, and so is the snapshot that follows; a
        // producer whose `notify` came before `end` has lent before that snapshot.
        let over = self.word.load(Ordering::SeqCst) == OVER;
        claim_fence();
        over
    }

    /// Returns `true` if the monitor was stopped; a snapshot. Only a
    /// [notification](MonitorState::notify) after a loan decides.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.word.load(Ordering::Relaxed) == OVER
    }
}

impl Default for MonitorState {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MonitorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitorState")
            .field("asleep", &self.is_asleep())
            .field("over", &self.is_over())
            .finish()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_ring_wakes_and_the_end_is_final() {
        let monitor_state = MonitorState::new();
        assert!(monitor_state.sleep() && monitor_state.is_asleep());
        assert_eq!(
            (monitor_state.notify(), monitor_state.notify()),
            (NotifyResult::Woken, NotifyResult::Awake)
        );
        assert!(monitor_state.sleep());
        monitor_state.wake();
        assert_eq!(monitor_state.notify(), NotifyResult::Awake);
        assert!(monitor_state.sleep() && monitor_state.end() && !monitor_state.end());
        monitor_state.wake();
        assert!(!monitor_state.sleep() && monitor_state.is_over() && !monitor_state.is_asleep());
        for _ in 0..2 {
            assert_eq!(
                monitor_state.notify(),
                NotifyResult::Over,
                "no ring takes it down"
            );
        }
    }
}
