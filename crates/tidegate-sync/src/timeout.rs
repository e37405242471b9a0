//! The timeout cell: a value that waits for its deadline, and is taken out once.
//!
//! One word holds the deadline and whether the value still waits. Whoever moves the word out of
//! "waits" owns the value: the timer that expires it, or whoever cancels it, on any thread. So
//! a cancellation is decided by one compare-and-swap and what the value holds is dropped where
//! it was cancelled, while the place in the timer's own structure can go later.
//!
//! A second word says when the timer will look at the cell next. A reset to a later time changes
//! only the deadline: the timer finds the value not due yet when it looks, and looks again then.
//! Only a reset to an earlier time than that has to reach the timer.

use std::fmt;
use std::mem::MaybeUninit;

use crate::prim::{AtomicU64, Ordering, UnsafeCell, fence};

/// The value waits.
const WAITS: u64 = 0;
/// It was cancelled.
const CANCELLED: u64 = 1;
/// It was handed out because its time had come.
const EXPIRED: u64 = 2;
/// The bits of the word that say which.
const STATE: u64 = 3;
/// The deadline lies above them.
const SHIFT: u32 = 2;
/// The latest deadline, 146 years of nanoseconds: stands for never.
const NEVER: u64 = u64::MAX >> SHIFT;

/// A value with a deadline, of which one taker gets the value: who cancels, or who expires it.
///
/// ```
/// use tidegate_sync::{Expiry, Reset, TimeoutCell};
///
/// let cell = TimeoutCell::new(100, "tea");
/// assert_eq!(cell.reset(250), Reset::Later, "the timer looks at 100 and finds it not due");
/// assert_eq!(cell.expire(100), Expiry::NotYet(250));
/// assert_eq!(cell.arm(250), None);
/// assert_eq!(cell.reset(120), Reset::Sooner, "the timer must be told");
/// assert_eq!(cell.reset(250), Reset::Later);
/// assert_eq!(cell.expire(250), Expiry::Due("tea"));
/// assert_eq!(cell.cancel(), None, "too late");
/// assert!(cell.is_expired());
/// ```
pub struct TimeoutCell<T> {
    word: AtomicU64,
    /// When the timer looks at this cell next.
    looks_at: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// What [`TimeoutCell::reset`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The timer must be told: it would look too late.
    Sooner,
    /// The timer looks early enough and sees by itself.
    Later,
    /// The value was taken before: cancelled, or expired.
    Gone,
}

/// What [`TimeoutCell::expire`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry<T> {
    /// The time had come: here is the value.
    Due(T),
    /// It waits until then; it may have been reset since it was put where it was found.
    NotYet(u64),
    /// The value was taken before: cancelled, or expired.
    Gone,
}

// SAFETY: the cell gives the value, whole, to one thread, which needs `T: Send`.
unsafe impl<T: Send> Send for TimeoutCell<T> {}
// SAFETY: as above; no `&T` is ever handed out.
unsafe impl<T: Send> Sync for TimeoutCell<T> {}

impl<T> TimeoutCell<T> {
    /// A cell whose value waits until `deadline`, in nanoseconds of whichever clock its users
    /// agree on. A deadline too far to be written down never comes.
    pub fn new(deadline: u64, value: T) -> Self {
        Self {
            word: AtomicU64::new(waits_until(deadline)),
            looks_at: AtomicU64::new(deadline),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// Takes the value out before its time. `None` if it was taken before.
    pub fn cancel(&self) -> Option<T> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & STATE == WAITS {
            match self.leave(word, CANCELLED) {
                // SAFETY: `leave` moved the word out of `WAITS`, which happens once.
                Ok(()) => return Some(unsafe { self.take() }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Takes the value out if its deadline is `now` or earlier.
    pub fn expire(&self, now: u64) -> Expiry<T> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & STATE != WAITS {
                return Expiry::Gone;
            }
            let deadline = deadline_of(word);
            if deadline > now {
                return Expiry::NotYet(deadline);
            }
            match self.leave(word, EXPIRED) {
                // SAFETY: `leave` moved the word out of `WAITS`, which happens once.
                Ok(()) => return Expiry::Due(unsafe { self.take() }),
                Err(now) => word = now,
            }
        }
    }

    /// Gives the value another deadline, from any thread, and says whether the timer must be
    /// told.
    pub fn reset(&self, deadline: u64) -> Reset {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & STATE == WAITS {
            // ORDERING: Release pairs with the Acquire in `leave` of whoever takes the value:
            // what was done before the reset comes before what the value does.
            match self.word.compare_exchange_weak(
                word,
                waits_until(deadline),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    // ORDERING: SeqCst fence between the new deadline and the look at when the
                    // timer looks; pairs with the fence in `arm`.
                    fence(Ordering::SeqCst);
                    let sooner = deadline < self.looks_at.load(Ordering::Relaxed);
                    return if sooner { Reset::Sooner } else { Reset::Later };
                }
                Err(now) => word = now,
            }
        }
        Reset::Gone
    }

    /// Says that the timer will look at the cell at `time`. If the deadline has become earlier
    /// meanwhile it is the answer, and the timer must look then instead: it arms again.
    pub fn arm(&self, time: u64) -> Option<u64> {
        self.looks_at.store(time, Ordering::Relaxed);
        // ORDERING: SeqCst fence between the time at which the timer looks and its look at the
        // deadline; pairs with the fence in `reset`: of a reset and an arming at least one sees
        // the other.
        fence(Ordering::SeqCst);
        self.deadline().filter(|&deadline| deadline < time)
    }

    /// Until when the value waits; `None` if it was taken.
    pub fn deadline(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE == WAITS).then(|| deadline_of(word))
    }

    /// Whether the value was handed out because its time had come.
    pub fn is_expired(&self) -> bool {
        self.state() == EXPIRED
    }

    /// Whether the value was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state() == CANCELLED
    }

    fn state(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `leave`: who hears of the end sees what
        // came before it.
        self.word.load(Ordering::Acquire) & STATE
    }

    /// Moves the word from `word`, which waits, to the end `state`; whoever does owns the value.
    fn leave(&self, word: u64, state: u64) -> Result<(), u64> {
        // ORDERING: AcqRel. Acquire pairs with the Release in `reset`; Release pairs with the
        // Acquire in `state`.
        let left = self.word.compare_exchange_weak(
            word,
            word & !STATE | state,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        left.map(drop)
    }

    /// # Safety
    ///
    /// The caller has moved the word out of `WAITS`, and takes the value for the first time.
    unsafe fn take(&self) -> T {
        // SAFETY: the value was written when the cell was made, and the caller alone owns it.
        let value = self.value.with_mut(|place| unsafe { place.read() });
        // SAFETY: as above.
        unsafe { value.assume_init() }
    }
}

fn waits_until(deadline: u64) -> u64 {
    deadline.min(NEVER) << SHIFT | WAITS
}

fn deadline_of(word: u64) -> u64 {
    match word >> SHIFT {
        NEVER => u64::MAX,
        deadline => deadline,
    }
}

impl<T> Drop for TimeoutCell<T> {
    fn drop(&mut self) {
        drop(self.cancel());
    }
}

impl<T> fmt::Debug for TimeoutCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutCell")
            .field("deadline", &self.deadline())
            .field("expired", &self.is_expired())
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_value_is_taken_once() {
        let cell = TimeoutCell::new(10, 7);
        assert_eq!(cell.cancel(), Some(7));
        assert_eq!(cell.cancel(), None);
        assert_eq!(cell.expire(u64::MAX), Expiry::Gone);
        assert!(cell.is_cancelled() && !cell.is_expired());
        assert_eq!(cell.reset(20), Reset::Gone);
        assert_eq!(cell.deadline(), None);
    }

    #[test]
    fn an_earlier_deadline_is_seen_by_the_reset_or_by_the_arming() {
        let cell = TimeoutCell::new(10, ());
        assert_eq!(cell.reset(30), Reset::Later);
        assert_eq!(cell.reset(20), Reset::Later, "the timer looks at 10");
        assert_eq!(cell.expire(10), Expiry::NotYet(20));
        assert_eq!(cell.arm(30), Some(20));
        assert_eq!(cell.arm(20), None);
        assert_eq!(cell.reset(19), Reset::Sooner);
        assert_eq!(cell.reset(20), Reset::Later);
    }

    #[test]
    fn a_deadline_beyond_the_word_never_comes() {
        let cell = TimeoutCell::new(u64::MAX - 1, ());
        assert_eq!(cell.deadline(), Some(u64::MAX));
        assert_eq!(cell.expire(NEVER), Expiry::NotYet(u64::MAX));
        assert_eq!(cell.expire(u64::MAX - 1), Expiry::NotYet(u64::MAX));
    }

    #[test]
    fn a_waiting_value_is_dropped_with_its_cell_and_a_taken_one_is_not() {
        let value = Arc::new(());
        let cell = TimeoutCell::new(1, Arc::clone(&value));
        drop(cell);
        assert_eq!(Arc::strong_count(&value), 1);
        let cell = TimeoutCell::new(1, Arc::clone(&value));
        let Expiry::Due(taken) = cell.expire(1) else {
            panic!("it was due")
        };
        drop(cell);
        assert_eq!(Arc::strong_count(&value), 2);
        drop(taken);
    }
}
