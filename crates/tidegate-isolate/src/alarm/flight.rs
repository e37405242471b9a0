//! A running call, as the timer sees it: a deadline, a token, and one word that decides who was
//! first, the end of the work or the end of its time.
//!
//! ```text
//!            begin                    finish
//!   IDLE n ─────────▶ RUNNING n ─────────────────▶ IDLE n+1
//!                        │
//!                        │ expire (the timer, or a shutdown)
//!                        ▼
//!                     EXPIRED n      the token is tripped; the flight is not used again
//! ```
//!
//! A caller that leaves does the same as the timer, with CANCELLED in place of EXPIRED.
//!
//! | field | who writes it when |
//! |---|---|
//! | `deadline`, `interrupts` | the caller while IDLE |
//! | `token` | nobody: it is tripped after EXPIRED was won, and a tripped one is not used again |
//! | `waker` | a future's poll, under its lock |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use tidegate_sync::{CancelToken, Clock};

const STATE: u64 = 3;
const IDLE: u64 = 0;
const RUNNING: u64 = 1;
const EXPIRED: u64 = 2;
const CANCELLED: u64 = 3;
const NEXT: u64 = 4;

/// One call at a time, again and again.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    word: AtomicU64,
    deadline: AtomicU64,
    interrupts: AtomicBool,
    token: CancelToken,
    waker: Mutex<Option<Waker>>,
}

impl Flight {
    /// Begins a call that must end by `deadline`.
    #[inline]
    pub(crate) fn begin(&self, clock: &Clock, deadline: u64, interrupts: bool) {
        self.token.set_deadline_at(clock, deadline);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.interrupts.store(interrupts, Ordering::Relaxed);
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, IDLE, "one call at a time");
        // SeqCst: publishes the deadline, and is ordered before the look at the timer's next
        // wakeup that follows (see `Alarms::arm`).
        self.word.store(word | RUNNING, Ordering::SeqCst);
    }

    /// Ends the call; false when its time was over first.
    #[inline]
    pub(crate) fn finish(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let next = (word & !STATE) + NEXT;
        // Acquire pairs with the Release of an expiry that was first.
        word & STATE == RUNNING
            && self
                .word
                .compare_exchange(word, next | IDLE, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// Cancels the call; false when it has ended or its time was over first. The token is
    /// tripped if `interrupt`.
    pub(crate) fn cancel(&self, interrupt: bool) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let cancelled = (word & !STATE) | CANCELLED;
        let (won, lost) = (Ordering::AcqRel, Ordering::Relaxed);
        let first = word & STATE == RUNNING
            && self
                .word
                .compare_exchange(word, cancelled, won, lost)
                .is_ok();
        if first && interrupt {
            self.token.cancel();
        }
        first
    }

    /// Whether the time was over before the call ended.
    pub(crate) fn is_expired(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == EXPIRED
    }

    /// Whether the call was ended from outside: expired or cancelled.
    pub(crate) fn is_over(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE >= EXPIRED
    }

    /// Whether the flight can serve another call: nobody else can tell it from a new one.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE == IDLE && self.token.is_untouched()
    }

    pub(crate) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Who is woken when the time is over.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut mine = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if mine.as_ref().is_none_or(|old| !old.will_wake(waker)) {
            *mine = Some(waker.clone());
        }
    }

    /// Wakes nobody any more.
    pub(crate) fn clear_waker(&self) {
        let waker = self
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(waker);
    }

    /// Expires the call if it runs and is due at `now`; answers when it will be due otherwise.
    pub(super) fn expire_if_due(&self, now: u64) -> u64 {
        // Acquire pairs with the store in `begin`: the deadline read below is this call's.
        let word = self.word.load(Ordering::SeqCst);
        if word & STATE != RUNNING {
            return u64::MAX;
        }
        let deadline = self.deadline.load(Ordering::Relaxed);
        if deadline > now {
            return deadline;
        }
        self.expire(word);
        u64::MAX
    }

    /// Expires whatever runs.
    pub(super) fn expire_now(&self) {
        let word = self.word.load(Ordering::SeqCst);
        if word & STATE == RUNNING {
            self.interrupts.store(true, Ordering::Relaxed);
            self.expire(word);
        }
    }

    /// How many calls it has served, for the timer to see that something happens.
    pub(super) fn calls(&self) -> u64 {
        self.word.load(Ordering::Relaxed) / NEXT
    }

    pub(super) fn is_running(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE == RUNNING
    }

    fn expire(&self, word: u64) {
        // The word carries the number of the call, so the deadline that was read is the one of
        // the call that is expired here, or the exchange fails.
        let expired = (word & !STATE) | EXPIRED;
        let (won, lost) = (Ordering::AcqRel, Ordering::Relaxed);
        let first = self.word.compare_exchange(word, expired, won, lost).is_ok();
        if first {
            if self.interrupts.load(Ordering::Relaxed) {
                self.token.cancel();
            }
            let waker = self
                .waker
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}
