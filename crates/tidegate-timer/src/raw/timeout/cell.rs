//! The cell of a timeout: one word decides whether it fires, and when.
//!
//! The word is the deadline while the value waits, and its fate from then on:
//!
//! | word | meaning | who may touch the value |
//! |---|---|---|
//! | up to `LATEST` | waits, due at that nanosecond | nobody |
//! | `CANCELLED`, `EXPIRED`, `STOPPED` | decided | who stored it, once |
//!
//! Every change is a compare-and-swap from a waiting word, so exactly one of them decides, a
//! reset that succeeds is never overtaken by the old deadline, and the value has one taker: what
//! a cancelled value holds is dropped where it was cancelled, while its place in the timer's own
//! structure can go later.
//!
//! A second word says when the timer will look at the cell next. A reset to a later time changes
//! only the deadline: the timer finds the value not due yet when it looks, and looks again then.
//! Only a reset to an earlier time than that has to reach the timer.

use std::fmt;
use std::mem::MaybeUninit;

use tidegate_core::prim::{AtomicU64, Ordering, UnsafeCell, fence};

const CANCELLED: u64 = u64::MAX;
const EXPIRED: u64 = u64::MAX - 1;
const STOPPED: u64 = u64::MAX - 2;

/// The latest deadline that can be told from a fate; later ones are taken for it.
pub(super) const LATEST: u64 = u64::MAX - 3;

/// How a timeout ended.
///
/// ```
/// use tidegate_timer::raw::{Fate, TimeoutCell};
///
/// let timeout = TimeoutCell::new(5, "closure");
/// assert_eq!(timeout.fate(), None);
/// assert_eq!(timeout.decide(Fate::Cancelled), Some("closure"));
/// assert_eq!(timeout.fate(), Some(Fate::Cancelled));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Somebody cancelled it.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// Its timer stopped before the deadline.
    Stopped,
}

/// Why a timeout does not expire now.
///
/// ```
/// use tidegate_timer::raw::{StillPending, TimeoutCell};
///
/// let timeout = TimeoutCell::new(5, ());
/// assert_eq!(timeout.expire(4), Err(StillPending::Until(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillPending {
    /// Its deadline lies ahead: it was reset.
    Until(u64),
    /// It was decided before.
    No(Fate),
}

/// What [`TimeoutCell::reset`] came to.
///
/// ```
/// use tidegate_timer::raw::{Reset, TimeoutCell};
///
/// let timeout = TimeoutCell::new(5, ());
/// assert_eq!(timeout.reset(4), Reset::Sooner);
/// assert_eq!(timeout.reset(9), Reset::Later);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The timer must be told: it would look too late.
    Sooner,
    /// The timer looks early enough and sees by itself.
    Later,
    /// It was decided before.
    No(Fate),
}

impl Reset {
    /// Whether the timeout has the new deadline.
    pub fn is_granted(self) -> bool {
        !matches!(self, Self::No(_))
    }
}

/// A value that somebody takes when a deadline passes, unless somebody else takes it before.
///
/// ```
/// use tidegate_timer::raw::{Fate, Reset, StillPending, TimeoutCell};
///
/// let tea = TimeoutCell::new(100, "tea");
/// assert_eq!(tea.reset(250), Reset::Later, "the timer looks at 100 and finds it not due");
/// assert_eq!(tea.expire(100), Err(StillPending::Until(250)));
/// assert_eq!(tea.arm(250), None);
/// assert_eq!(tea.reset(120), Reset::Sooner, "the timer must be told");
/// assert_eq!(tea.expire(120), Ok("tea"));
/// assert_eq!(tea.decide(Fate::Cancelled), None, "too late");
/// assert_eq!(tea.fate(), Some(Fate::Expired));
/// ```
pub struct TimeoutCell<T> {
    word: AtomicU64,
    /// When the timer looks at this cell next.
    looks_at: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is moved out by one thread at most, which needs `T: Send`; no reference to
// it is handed out.
unsafe impl<T: Send> Send for TimeoutCell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for TimeoutCell<T> {}

impl<T> TimeoutCell<T> {
    /// A cell whose value waits until `deadline`, in nanoseconds of whichever clock its users
    /// agree on, at which the timer will look.
    pub fn new(deadline: u64, value: T) -> Self {
        Self {
            word: AtomicU64::new(deadline.min(LATEST)),
            looks_at: AtomicU64::new(deadline),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// Decides a pending timeout, whatever its deadline; the one caller that does gets the value.
    pub fn decide(&self, fate: Fate) -> Option<T> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word <= LATEST {
            match self.swap(word, word_of(fate)) {
                // SAFETY: this thread's swap ended the pending state.
                Ok(()) => return Some(unsafe { self.take() }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Decides that a timeout expired, if its deadline is `now` or before.
    ///
    /// # Errors
    ///
    /// Why not, when it was decided already or has a later deadline.
    pub fn expire(&self, now: u64) -> Result<T, StillPending> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if let Some(fate) = fate_of(word) {
                return Err(StillPending::No(fate));
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

    /// Gives a pending timeout another deadline, from any thread, and says whether the timer must
    /// be told. Once granted, the timeout does not expire before `deadline`.
    pub fn reset(&self, deadline: u64) -> Reset {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if let Some(fate) = fate_of(word) {
                return Reset::No(fate);
            }
            match self.swap(word, deadline.min(LATEST)) {
                Ok(()) => break,
                Err(now) => word = now,
            }
        }
        // ORDERING: SeqCst fence between the new deadline and the look at when the timer looks;
        // pairs with the fence in `arm`.
        fence(Ordering::SeqCst);
        if deadline < self.looks_at.load(Ordering::Relaxed) {
            Reset::Sooner
        } else {
            Reset::Later
        }
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

    /// The deadline of a pending timeout.
    pub fn deadline(&self) -> Option<u64> {
        Some(self.word()).filter(|&word| word <= LATEST)
    }

    /// How it ended, or `None` while it is pending.
    pub fn fate(&self) -> Option<Fate> {
        fate_of(self.word())
    }

    fn word(&self) -> u64 {
        // ORDERING: Acquire pairs with `swap`: who sees a fate also sees what its decider did
        // before.
        self.word.load(Ordering::Acquire)
    }

    fn swap(&self, from: u64, to: u64) -> Result<(), u64> {
        // ORDERING: AcqRel. Acquire pairs with the Release of the swap before it (a reset), and
        // the `Arc` that carried the cell here published the value; Release publishes what this
        // thread did to `word` and to the next swap.
        self.word
            .compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
    }

    /// Moves the value out.
    ///
    /// # Safety
    ///
    /// Only for the thread whose swap ended the pending state, and only once.
    unsafe fn take(&self) -> T {
        self.value.with(|value| {
            // SAFETY: the value was written when the cell was made, and only the caller, by the
            // contract, reads it, once.
            unsafe { value.cast::<T>().read() }
        })
    }
}

impl<T> Drop for TimeoutCell<T> {
    fn drop(&mut self) {
        // Through an atomic load, since loom's atomics have no `get_mut`.
        if self.word.load(Ordering::Relaxed) <= LATEST {
            // SAFETY: still pending and nobody else is left, so nobody took it or will.
            drop(unsafe { self.take() });
        }
    }
}

impl<T> fmt::Debug for TimeoutCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutCell")
            .field("deadline", &self.deadline())
            .field("fate", &self.fate())
            .finish_non_exhaustive()
    }
}

fn word_of(fate: Fate) -> u64 {
    match fate {
        Fate::Cancelled => CANCELLED,
        Fate::Expired => EXPIRED,
        Fate::Stopped => STOPPED,
    }
}

fn fate_of(word: u64) -> Option<Fate> {
    match word {
        CANCELLED => Some(Fate::Cancelled),
        EXPIRED => Some(Fate::Expired),
        STOPPED => Some(Fate::Stopped),
        _ => None,
    }
}
