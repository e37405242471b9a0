//! Decides which side ends a call: its worker, its timer or its caller. Exactly one of them does.
//!
//! ```text
//!           begin              start                finish
//!   IDLE n ───────▶ QUEUED n ─────────▶ RUNNING n ─────────▶ IDLE n+1
//!     │                │                   │  ▲
//!     └────────────────┼───────────────────┼──┘ begin, where the caller is the worker
//!                      │                   │       take_back: from QUEUED n to IDLE n+1
//!                      └─────────┬─────────┘
//!                                │ leave (timed out, or cancelled)
//!                                ▼
//!                     EXPIRED n or CANCELLED n      the word is not used again
//! ```
//!
//! | data | written by, when |
//! |---|---|
//! | the input of the call | the thread that begins it, while IDLE |
//! | the result of the work | the worker, after `start` and before `finish` |
//! | the result of a call that was ended from outside | the thread that won `leave` |
//!
//! The number of the call is part of the word, so a thread that saw one call cannot end the next.

use tidegate_core::internal::prim::{AtomicU64, Ordering, fence};

const STATE: u64 = 7;
const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const QUEUED: u64 = 2;
const EXPIRED: u64 = 3;
const CANCELLED: u64 = 4;
const NEXT: u64 = 8;

/// Why a call is ended from outside, that is, not by its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// The call timed out.
    Expired,
    /// The caller no longer wants the result.
    Cancelled,
}

/// The state of the work when its call was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkState {
    /// The work had not begun, and will not.
    Queued,
    /// The work is running, and its result will be dropped.
    Running,
}

/// A call that was in flight when the word was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenCall(u64);

/// The state word of one call at a time. It is reused for the next call.
///
/// ```
/// use tidegate_isolate::internal::{CallWord, EndCause, WorkState};
///
/// let word = CallWord::default();
/// let seen = word.begin_queued();
/// assert_eq!(word.leave(seen, EndCause::Expired), Some(WorkState::Queued));
/// assert!(!word.start(), "its caller has gone");
/// ```
#[derive(Debug, Default)]
pub struct CallWord(AtomicU64);

impl CallWord {
    /// Begins a call whose work begins at once. Reads of the caller that follow happen after the
    /// call has become visible to all threads.
    #[inline]
    pub fn begin(&self) -> SeenCall {
        self.set(RUNNING)
    }

    /// Begins a call whose work waits for a thread; otherwise like [`CallWord::begin`].
    #[inline]
    pub fn begin_queued(&self) -> SeenCall {
        self.set(QUEUED)
    }

    /// Returns the value that [`CallWord::begin_queued`] will return, for a caller that needs it
    /// earlier.
    #[inline]
    pub fn next_queued(&self) -> SeenCall {
        SeenCall(self.0.load(Ordering::Relaxed) | QUEUED)
    }

    #[inline]
    fn set(&self, state: u64) -> SeenCall {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, IDLE, "one call at a time");
        // ORDERING: Release pairs with the Acquire in `look` and in `start`: a thread that sees the
        // call sees its input, such as its own deadline and not that of the previous call.
        self.0.store(word | state, Ordering::Release);
        // ORDERING: SeqCst fence pairs with the one in `look`: the caller reads the timer's wake-up
        // time, or the timer's last look before it sleeps finds the call.
        fence(Ordering::SeqCst);
        SeenCall(word | state)
    }

    /// Records that the work has a thread. Returns `false` if the call has already ended.
    #[inline]
    pub fn start(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let running = word & !STATE | RUNNING;
        // ORDERING: AcqRel. Acquire pairs with `set`; Release lets a `leave` that finds the work
        // running see its start time.
        word & STATE == QUEUED
            && self
                .0
                .compare_exchange(word, running, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Records that the work has ended. Returns `false` if the call was ended from outside before.
    #[inline]
    pub fn finish(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let next = (word & !STATE) + NEXT;
        // Relaxed: the exchange only decides which side was first. The result of the work is
        // published by other means, a `leave` writes nothing that the worker reads, and the next
        // call writes only after a successful `finish`, which no `leave` of this call can precede.
        word & STATE == RUNNING
            && self
                .0
                .compare_exchange(word, next | IDLE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Takes back a call whose work found no thread and no place. Returns `false` if the call was ended
    /// from outside before. In one step: in between, a `leave` would find work that seems to run.
    pub fn take_back(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let next = (word & !STATE) + NEXT;
        // Relaxed, as in `finish`: the exchange only decides which side was first.
        word & STATE == QUEUED
            && self
                .0
                .compare_exchange(word, next | IDLE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Returns the call in flight, if there is one. A call that this does not find sees everything
    /// that was written before.
    #[inline]
    pub fn look(&self) -> Option<SeenCall> {
        // ORDERING: SeqCst fence pairs with the one in `set`: the timer stores its wake-up time
        // before its last look.
        fence(Ordering::SeqCst);
        // ORDERING: Acquire pairs with the Release in `set`: the data that is read next belongs to
        // this call or a later one.
        let word = self.0.load(Ordering::Acquire);
        matches!(word & STATE, RUNNING | QUEUED).then_some(SeenCall(word))
    }

    /// Ends the call `seen` from outside. Returns `None` if it has already ended, for any reason.
    pub fn leave(&self, seen: SeenCall, why: EndCause) -> Option<WorkState> {
        let end = match why {
            EndCause::Expired => EXPIRED,
            EndCause::Cancelled => CANCELLED,
        };
        let mut word = seen.0;
        loop {
            let left = match word & STATE {
                QUEUED => WorkState::Queued,
                RUNNING => WorkState::Running,
                _ => return None,
            };
            // Relaxed: the exchange only decides which side was first; the fence below orders the
            // rest.
            let won = self.0.compare_exchange(
                word,
                word & !STATE | end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match won {
                Ok(_) => {
                    // ORDERING: SeqCst fence pairs with the one in `is_left`: the search for the
                    // job's place in the queue that follows comes after this. As an Acquire it
                    // pairs with the Release in `start`: the start time of the work is visible.
                    fence(Ordering::SeqCst);
                    return Some(left);
                }
                // The same call, which has started or ended in the meantime.
                Err(now) if now & !STATE == seen.0 & !STATE => word = now,
                Err(_) => return None,
            }
        }
    }

    /// Returns `true` if the call was ended from outside. If not, a thread that ends it later sees
    /// everything that was written before this check.
    pub fn is_left(&self) -> bool {
        // ORDERING: SeqCst fence pairs with the one in `leave`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & STATE >= EXPIRED
    }

    /// Returns `true` if the call `seen` has not ended.
    pub fn is_in_flight(&self, seen: SeenCall) -> bool {
        // Relaxed: as in `is_cancelled`.
        let word = self.0.load(Ordering::Relaxed);
        word & !STATE == seen.0 & !STATE && matches!(word & STATE, RUNNING | QUEUED)
    }

    /// Returns `true` if the call `seen` was cancelled. The word is not used again then.
    pub fn is_cancelled(&self, seen: SeenCall) -> bool {
        // Relaxed: the thread that ended the call left no data to read other than the word itself.
        let word = self.0.load(Ordering::Relaxed);
        word == seen.0 & !STATE | CANCELLED
    }

    /// Returns `true` if the call ended because it timed out.
    #[inline]
    pub fn is_expired(&self) -> bool {
        // Relaxed: the thread that ended the call left no data to read other than the word itself.
        self.0.load(Ordering::Relaxed) & STATE == EXPIRED
    }

    /// Returns `true` if no call is in flight, so that the word can be used for another call.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE == IDLE
    }

    /// Returns the number of calls that were not ended from outside.
    pub fn calls(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / NEXT
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Each transition is made once; loom tests the races (`tests/loom.rs`).

    use super::*;

    #[test]
    fn a_call_that_has_ended_cannot_be_left_and_the_next_is_another() {
        let word = CallWord::default();
        let first = word.begin();
        assert_eq!(word.look(), Some(first));
        assert!(word.finish() && !word.finish());
        assert_eq!(word.leave(first, EndCause::Expired), None);
        let second = word.next_queued();
        assert_eq!(word.begin_queued(), second);
        assert_eq!(word.leave(first, EndCause::Expired), None, "another call");
        assert!(word.start() && !word.start());
        assert!(word.finish() && word.is_idle());
        assert!(!word.is_cancelled(first) && !word.is_cancelled(second));
        assert_eq!(word.calls(), 2);
    }

    #[test]
    fn a_call_is_taken_back_unless_it_has_ended_and_its_work_has_not_begun() {
        let word = CallWord::default();
        let seen = word.begin_queued();
        assert!(word.take_back() && word.is_idle() && !word.take_back());
        assert_eq!(word.leave(seen, EndCause::Expired), None);
        let seen = word.begin_queued();
        let left = word.leave(seen, EndCause::Expired);
        assert_eq!((left, word.take_back()), (Some(WorkState::Queued), false));
        assert_eq!(word.calls(), 1);
    }

    #[test]
    fn leave_returns_whether_the_work_had_begun() {
        let word = CallWord::default();
        let seen = word.begin_queued();
        assert!(word.start());
        assert_eq!(
            word.leave(seen, EndCause::Cancelled),
            Some(WorkState::Running)
        );
        assert!(word.is_left() && !word.is_expired() && !word.finish());
        assert!(word.is_cancelled(seen));
        assert!(word.look().is_none() && !word.is_idle());
    }
}
