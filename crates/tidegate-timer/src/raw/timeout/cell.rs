//! The cell of a timeout: one atomic word decides whether it fires, and when.
//!
//! The word holds the deadline while the timeout is pending, and its outcome afterwards:
//!
//! | word | meaning | access to the value |
//! |---|---|---|
//! | up to `LATEST` | pending, due at that nanosecond | none |
//! | `CANCELLED`, `EXPIRED`, `STOPPED` | decided | the thread that stored the word, once |
//!
//! Every change is a compare-and-swap from a pending word. So exactly one change decides, a reset
//! that succeeds is never overtaken by the old deadline, and exactly one thread takes the value. A
//! cancelled value is dropped on the thread that cancels, while its entry in the timer's own
//! structure can be removed later.
//!
//! A second word holds the time at which the timer checks the cell next. A reset to a later time
//! changes only the deadline: when the timer checks, it finds the value not due yet and schedules
//! another check. Only a reset to a time before the next check has to notify the timer.

use std::fmt;
use std::mem::MaybeUninit;

use tidegate_core::internal::prim::{AtomicU64, Ordering, UnsafeCell, fence};

const CANCELLED: u64 = u64::MAX;
const EXPIRED: u64 = u64::MAX - 1;
const STOPPED: u64 = u64::MAX - 2;

/// The latest deadline that is distinct from an outcome; later deadlines are clamped to it.
pub(super) const LATEST: u64 = u64::MAX - 3;

/// The outcome of a timeout.
///
/// ```
/// use tidegate_timer::internal::{TimeoutCell, TimeoutOutcome};
///
/// let timeout = TimeoutCell::new(5, "closure");
/// assert_eq!(timeout.outcome(), None);
/// assert_eq!(timeout.decide(TimeoutOutcome::Cancelled), Some("closure"));
/// assert_eq!(timeout.outcome(), Some(TimeoutOutcome::Cancelled));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutOutcome {
    /// The timeout was cancelled.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// Its timer stopped before the deadline.
    Stopped,
}

/// The reason why a timeout does not expire now.
///
/// ```
/// use tidegate_timer::internal::{StillPending, TimeoutCell};
///
/// let timeout = TimeoutCell::new(5, ());
/// assert_eq!(timeout.expire(4), Err(StillPending::Until(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillPending {
    /// The timeout was reset; this is its deadline.
    Until(u64),
    /// The timeout was already decided.
    No(TimeoutOutcome),
}

/// The result of [`TimeoutCell::reset`].
///
/// ```
/// use tidegate_timer::internal::{Reset, TimeoutCell};
///
/// let timeout = TimeoutCell::new(5, ());
/// assert_eq!(timeout.reset(4), Reset::Sooner);
/// assert_eq!(timeout.reset(9), Reset::Later);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The caller must notify the timer: its next check would be too late.
    Sooner,
    /// The timer's next check is early enough to see the new deadline.
    Later,
    /// The timeout was already decided.
    No(TimeoutOutcome),
}

impl Reset {
    /// Returns `true` if the timeout has the new deadline.
    pub fn is_granted(self) -> bool {
        !matches!(self, Self::No(_))
    }
}

/// A value that is taken when its deadline passes, unless a cancellation takes it first.
///
/// ```
/// use tidegate_timer::internal::{Reset, StillPending, TimeoutCell, TimeoutOutcome};
///
/// let tea = TimeoutCell::new(100, "tea");
/// assert_eq!(tea.reset(250), Reset::Later, "the timer looks at 100 and finds it not due");
/// assert_eq!(tea.expire(100), Err(StillPending::Until(250)));
/// assert_eq!(tea.arm(250), None);
/// assert_eq!(tea.reset(120), Reset::Sooner, "the timer must be notified");
/// assert_eq!(tea.expire(120), Ok("tea"));
/// assert_eq!(tea.decide(TimeoutOutcome::Cancelled), None, "too late");
/// assert_eq!(tea.outcome(), Some(TimeoutOutcome::Expired));
/// ```
pub struct TimeoutCell<T> {
    word: AtomicU64,
    /// The time at which the timer checks this cell next.
    next_check: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: at most one thread moves the value out, which needs `T: Send`; no reference to the value
// is returned.
unsafe impl<T: Send> Send for TimeoutCell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for TimeoutCell<T> {}

impl<T> TimeoutCell<T> {
    /// Creates a pending cell for `value`. `deadline` is in nanoseconds of a clock that all users
    /// of the cell share; the timer's first check is at `deadline`.
    pub fn new(deadline: u64, value: T) -> Self {
        Self {
            word: AtomicU64::new(deadline.min(LATEST)),
            next_check: AtomicU64::new(deadline),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// Stores the outcome of a pending timeout, whatever its deadline. Only the caller that
    /// succeeds gets the value.
    pub fn decide(&self, outcome: TimeoutOutcome) -> Option<T> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word <= LATEST {
            match self.swap(word, word_of(outcome)) {
                // SAFETY: this thread's swap ended the pending state.
                Ok(()) => return Some(unsafe { self.take() }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Expires the timeout if its deadline is `now` or earlier, and returns the value.
    ///
    /// # Errors
    ///
    /// Returns why not if the timeout was decided already or has a later deadline.
    pub fn expire(&self, now: u64) -> Result<T, StillPending> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if let Some(outcome) = fate_of(word) {
                return Err(StillPending::No(outcome));
            }
            if word > now {
                return Err(StillPending::Until(word));
            }
            match self.swap(word, EXPIRED) {
                // SAFETY: this thread's swap ended the pending state.
                Ok(()) => return Ok(unsafe { self.take() }),
                Err(now) => word = now,
            }
        }
    }

    /// Sets another deadline for a pending timeout, from any thread, and returns whether the timer
    /// must be notified. If granted, the timeout does not expire before `deadline`.
    pub fn reset(&self, deadline: u64) -> Reset {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if let Some(outcome) = fate_of(word) {
                return Reset::No(outcome);
            }
            match self.swap(word, deadline.min(LATEST)) {
                Ok(()) => break,
                Err(now) => word = now,
            }
        }
        // ORDERING: SeqCst fence between the store of the new deadline and the load of
        // `next_check`; pairs with the fence in `arm`.
        fence(Ordering::SeqCst);
        if deadline < self.next_check.load(Ordering::Relaxed) {
            Reset::Sooner
        } else {
            Reset::Later
        }
    }

    /// Records that the timer checks the cell next at `time`. If the deadline has become earlier in
    /// the meantime, returns that deadline, and the timer must call `arm` again with it.
    pub fn arm(&self, time: u64) -> Option<u64> {
        self.next_check.store(time, Ordering::Relaxed);
        // ORDERING: SeqCst fence between the store of `next_check` and the load of the deadline;
        // pairs with the fence in `reset`: of a reset and an `arm` at least one sees the other's
        // store.
        fence(Ordering::SeqCst);
        self.deadline().filter(|&deadline| deadline < time)
    }

    /// Returns the deadline of a pending timeout, or `None` if it was decided.
    pub fn deadline(&self) -> Option<u64> {
        Some(self.word()).filter(|&word| word <= LATEST)
    }

    /// Returns the outcome, or `None` while the timeout is pending.
    pub fn outcome(&self) -> Option<TimeoutOutcome> {
        fate_of(self.word())
    }

    fn word(&self) -> u64 {
        // ORDERING: Acquire pairs with `swap`: a thread that sees an outcome also sees what the
        // deciding thread did before.
        self.word.load(Ordering::Acquire)
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        // ORDERING: AcqRel. Acquire pairs with the Release of the previous swap (a reset), and the
        // `Arc` that carried the cell here published the value; Release publishes what this thread
        // did to `word` and to the next swap.
        self.word
            .compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// Only the thread whose swap ended the pending state may call this, and only once.
    unsafe fn take(&self) -> T {
        self.value.with(|value| {
            // SAFETY: the value was written when the cell was created, and by the contract only the
            // caller reads it, once.
            unsafe { value.cast::<T>().read() }
        })
    }
}

impl<T> Drop for TimeoutCell<T> {
    fn drop(&mut self) {
        // An atomic load, because loom's atomics have no `get_mut`.
        if self.word.load(Ordering::Relaxed) <= LATEST {
            // SAFETY: the cell is still pending and this is the last reference, so no thread took
            // the value or will take it.
            drop(unsafe { self.take() });
        }
    }
}

impl<T> fmt::Debug for TimeoutCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutCell")
            .field("deadline", &self.deadline())
            .field("fate", &self.outcome())
            .finish_non_exhaustive()
    }
}

fn word_of(outcome: TimeoutOutcome) -> u64 {
    match outcome {
        TimeoutOutcome::Cancelled => CANCELLED,
        TimeoutOutcome::Expired => EXPIRED,
        TimeoutOutcome::Stopped => STOPPED,
    }
}

fn fate_of(word: u64) -> Option<TimeoutOutcome> {
    match word {
        CANCELLED => Some(TimeoutOutcome::Cancelled),
        EXPIRED => Some(TimeoutOutcome::Expired),
        STOPPED => Some(TimeoutOutcome::Stopped),
        _ => None,
    }
}
