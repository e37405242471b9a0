//! Who ends a call: its worker, its timer, or its caller. Exactly one of them does.
//!
//! ```text
//!           begin              start                finish
//!   IDLE n ───────▶ QUEUED n ─────────▶ RUNNING n ─────────▶ IDLE n+1
//!     │                │                   │  ▲
//!     └────────────────┼───────────────────┼──┘ begin, where the caller is the worker
//!                      └─────────┬─────────┘
//!                                │ leave (the time is over, or the caller has gone)
//!                                ▼
//!                     EXPIRED n or CANCELLED n      the word is not used again
//! ```
//!
//! | what | who writes it when |
//! |---|---|
//! | what the call needs | whoever begins it, while IDLE |
//! | what came of it | the worker, after `start` and before `finish` |
//! | what is told instead | whoever won `leave` |
//!
//! The number of the call is part of the word: whoever looked at one call cannot end the next.

use tidegate_core::prim::{AtomicU64, Ordering, fence};

const STATE: u64 = 7;
const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const QUEUED: u64 = 2;
const EXPIRED: u64 = 3;
const CANCELLED: u64 = 4;
const NEXT: u64 = 8;

/// Why a call is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Its time is over.
    Expired,
    /// Nobody wants its answer.
    Cancelled,
}

/// Where the work was when its call was ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It had not begun, and will not.
    Queued,
    /// It runs, and what comes of it is dropped.
    Running,
}

/// One call that was under way when somebody looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnderWay(u64);

/// The word of one call at a time, again and again.
///
/// ```
/// use tidegate_isolate::internal::{CallWord, Leave, Left};
///
/// let word = CallWord::default();
/// let seen = word.begin_queued();
/// assert_eq!(word.leave(seen, Leave::Expired), Some(Left::Queued));
/// assert!(!word.start(), "its caller has gone");
/// ```
#[derive(Debug, Default)]
pub struct CallWord(AtomicU64);

impl CallWord {
    /// Begins a call whose work begins at once. What the caller reads next is read after everybody
    /// can see the call.
    #[inline]
    pub fn begin(&self) -> UnderWay {
        self.set(RUNNING)
    }

    /// Begins a call whose work waits for a thread; otherwise as [`CallWord::begin`].
    #[inline]
    pub fn begin_queued(&self) -> UnderWay {
        self.set(QUEUED)
    }

    /// What [`CallWord::begin_queued`] will answer, for whoever has to know it before.
    #[inline]
    pub fn next_queued(&self) -> UnderWay {
        UnderWay(self.0.load(Ordering::Relaxed) | QUEUED)
    }

    #[inline]
    fn set(&self, state: u64) -> UnderWay {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, IDLE, "one call at a time");
        // ORDERING: Release pairs with the Acquire in `look` and in `start`: whoever sees the call
        // sees what it needs, such as its own deadline and not the one of the call before.
        self.0.store(word | state, Ordering::Release);
        // ORDERING: SeqCst fence pairs with the one in `look`: the caller finds when the timer
        // wakes, or the timer's last look before it sleeps finds the call.
        fence(Ordering::SeqCst);
        UnderWay(word | state)
    }

    /// The work has a thread; false when the call is over already.
    #[inline]
    pub fn start(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let running = word & !STATE | RUNNING;
        // ORDERING: AcqRel. Acquire pairs with `set`; Release lets a `leave` that finds the work
        // running see when it began.
        word & STATE == QUEUED
            && self
                .0
                .compare_exchange(word, running, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// The work has ended; false when the call was ended from outside first.
    #[inline]
    pub fn finish(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let next = (word & !STATE) + NEXT;
        // Relaxed: it only decides who was first. What came of the work is told by other means, a
        // `leave` leaves nothing for the worker, and what the next call writes comes after a
        // success that no `leave` of this call can precede.
        word & STATE == RUNNING
            && self
                .0
                .compare_exchange(word, next | IDLE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The call that is under way, if one is. What was written before can be seen by every call
    /// that this does not find.
    #[inline]
    pub fn look(&self) -> Option<UnderWay> {
        // ORDERING: SeqCst fence pairs with the one in `set`: the timer says when it wakes before
        // its last look.
        fence(Ordering::SeqCst);
        // ORDERING: Acquire pairs with the Release in `set`: what is read next belongs to this
        // call or a later one.
        let word = self.0.load(Ordering::Acquire);
        matches!(word & STATE, RUNNING | QUEUED).then_some(UnderWay(word))
    }

    /// Ends the call that was seen, from outside; none when it has ended already, whoever did it.
    pub fn leave(&self, seen: UnderWay, why: Leave) -> Option<Left> {
        let end = match why {
            Leave::Expired => EXPIRED,
            Leave::Cancelled => CANCELLED,
        };
        let mut word = seen.0;
        loop {
            let left = match word & STATE {
                QUEUED => Left::Queued,
                RUNNING => Left::Running,
                _ => return None,
            };
            // Relaxed: it only decides who was first; the fence below does the rest.
            let won = self.0.compare_exchange(
                word,
                word & !STATE | end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match won {
                Ok(_) => {
                    // ORDERING: SeqCst fence pairs with the one in `is_left`: the look for the
                    // job's place that follows comes after this. As an Acquire it pairs with the
                    // Release in `start`: when the work began is known.
                    fence(Ordering::SeqCst);
                    return Some(left);
                }
                // The same call, which has begun meanwhile, or its end.
                Err(now) if now & !STATE == seen.0 & !STATE => word = now,
                Err(_) => return None,
            }
        }
    }

    /// Whether the call was ended from outside. If not, whoever ends it later finds what was
    /// written before this look.
    pub fn is_left(&self) -> bool {
        // ORDERING: SeqCst fence pairs with the one in `leave`.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) & STATE >= EXPIRED
    }

    /// Whether the call ended with its time.
    pub fn is_expired(&self) -> bool {
        // Relaxed: whoever ended the call has left nothing to read but what the word says.
        self.0.load(Ordering::Relaxed) & STATE == EXPIRED
    }

    /// Whether no call is under way and the word can serve another.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE == IDLE
    }

    /// How many calls have ended by themselves.
    pub fn calls(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / NEXT
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Each edge is taken once; loom does the races (`tests/loom.rs`).

    use super::*;

    #[test]
    fn a_call_that_has_ended_cannot_be_left_and_the_next_is_another() {
        let word = CallWord::default();
        let first = word.begin();
        assert_eq!(word.look(), Some(first));
        assert!(word.finish() && !word.finish());
        assert_eq!(word.leave(first, Leave::Expired), None);
        let second = word.next_queued();
        assert_eq!(word.begin_queued(), second);
        assert_eq!(word.leave(first, Leave::Expired), None, "another call");
        assert!(word.start() && !word.start());
        assert!(word.finish() && word.is_idle());
        assert_eq!(word.calls(), 2);
    }

    #[test]
    fn whoever_leaves_knows_whether_the_work_had_begun() {
        let word = CallWord::default();
        let seen = word.begin_queued();
        assert!(word.start());
        assert_eq!(word.leave(seen, Leave::Cancelled), Some(Left::Running));
        assert!(word.is_left() && !word.is_expired() && !word.finish());
        assert!(word.look().is_none() && !word.is_idle());
    }
}
