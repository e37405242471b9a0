//! A timeout between threads: one word decides whether it fires, and when.
//!
//! The word of a [`TimeoutCell`] is its deadline while it is pending, and its fate from then on:
//!
//! | word | meaning | who may touch the value |
//! |---|---|---|
//! | up to `LATEST` | pending, due at that nanosecond | nobody |
//! | `CANCELLED`, `EXPIRED`, `STOPPED` | decided | who stored it, once |
//!
//! Every change is a compare-and-swap from a pending word, so exactly one of them decides, a
//! reset that succeeds is never overtaken by the old deadline, and the value has one taker.
//!
//! A [`TimeoutLane`] carries cells from any thread to the one that owns the wheel.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::prim::{AtomicBool, AtomicPtr, AtomicU64, Ordering, UnsafeCell};

mod lane;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub use self::lane::{TimeoutBatch, TimeoutLane};

const CANCELLED: u64 = u64::MAX;
const EXPIRED: u64 = u64::MAX - 1;
const STOPPED: u64 = u64::MAX - 2;

/// The latest deadline that can be told from a fate; later ones are taken for it.
const LATEST: u64 = u64::MAX - 3;

/// How a timeout ended.
///
/// ```
/// use tidegate_sync::{Fate, TimeoutCell};
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
/// use tidegate_sync::{StillPending, TimeoutCell};
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

/// A value that somebody takes when a deadline passes, unless somebody else takes it before.
///
/// ```
/// use tidegate_sync::{Fate, TimeoutCell};
///
/// let timeout = TimeoutCell::new(5, "closure");
/// assert!(timeout.reset(10));
/// assert!(timeout.expire(7).is_err());
/// assert_eq!(timeout.expire(10), Ok("closure"));
/// assert_eq!(timeout.decide(Fate::Cancelled), None);
/// assert!(!timeout.reset(20));
/// ```
pub struct TimeoutCell<T> {
    word: AtomicU64,
    /// Whether it hangs in a lane, or is on its way out of one.
    queued: AtomicBool,
    /// The next cell of the lane; written by whoever set `queued`.
    next: AtomicPtr<TimeoutCell<T>>,
    /// What the owner of the wheel keeps with the cell.
    note: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is moved out by one thread at most, which needs `T: Send`; no reference to
// it is handed out.
unsafe impl<T: Send> Send for TimeoutCell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for TimeoutCell<T> {}

impl<T> TimeoutCell<T> {
    /// A pending timeout of `value`.
    pub fn new(deadline: u64, value: T) -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(deadline.min(LATEST)),
            queued: AtomicBool::new(false),
            next: AtomicPtr::new(std::ptr::null_mut()),
            note: AtomicU64::new(0),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        })
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

    /// Gives a pending timeout another deadline. Answers false when it was decided already;
    /// after true it does not expire before `deadline`.
    pub fn reset(&self, deadline: u64) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word <= LATEST {
            match self.swap(word, deadline.min(LATEST)) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// The deadline of a pending timeout.
    pub fn deadline(&self) -> Option<u64> {
        Some(self.word()).filter(|&word| word <= LATEST)
    }

    /// How it ended, or `None` while it is pending.
    pub fn fate(&self) -> Option<Fate> {
        fate_of(self.word())
    }

    /// What the owner of the wheel noted last; 0 at first. Only that thread uses it.
    pub fn note(&self) -> u64 {
        self.note.load(Ordering::Relaxed)
    }

    /// Notes something, for the owner of the wheel.
    pub fn set_note(&self, note: u64) {
        self.note.store(note, Ordering::Relaxed);
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
