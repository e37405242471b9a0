//! A running call, as the timer sees it: a deadline, a token, and the word that decides who was
//! first, the end of the work or the end of its time.
//!
//! | field | who writes it when |
//! |---|---|
//! | `deadline`, `interrupts` | the caller while the word is idle |
//! | `token` | nobody: it is tripped after the call was left, and a tripped one is not used again |
//! | `was_queued` | whoever won the end from outside, before it wakes |
//! | `waker` | a future's poll or a caller, under its lock |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use tidegate_sync::{CallWord, CancelToken, Clock, Leave, Left, UnderWay};

/// One call at a time, again and again.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    word: CallWord,
    deadline: AtomicU64,
    interrupts: AtomicBool,
    was_queued: AtomicBool,
    token: CancelToken,
    waker: Mutex<Option<Waker>>,
}

impl Flight {
    /// Says what the next call is like, before it begins.
    #[inline]
    pub(crate) fn prepare(&self, clock: &Clock, deadline: u64, interrupts: bool) {
        self.token.set_deadline_at(clock, deadline);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.interrupts.store(interrupts, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn word(&self) -> &CallWord {
        &self.word
    }

    /// Ends the call; false when its time was over first.
    #[inline]
    pub(crate) fn finish(&self) -> bool {
        self.word.finish()
    }

    /// Ends the call that was seen, for its caller; none when it has ended or its time was over
    /// first. The token is tripped if `interrupt`.
    pub(crate) fn cancel(&self, seen: UnderWay, interrupt: bool) -> Option<Left> {
        let left = self.word.leave(seen, Leave::Cancelled);
        if left.is_some() && interrupt {
            self.token.cancel();
        }
        left
    }

    /// Where the work was when the call's time was over; none if it was not.
    pub(crate) fn expired(&self) -> Option<Left> {
        let was_queued = self.was_queued.load(Ordering::Relaxed);
        self.is_expired().then_some(match was_queued {
            true => Left::Queued,
            false => Left::Running,
        })
    }

    /// Whether the time was over before the call ended.
    pub(crate) fn is_expired(&self) -> bool {
        self.word.is_expired()
    }

    /// Whether the flight can serve another call: nobody else can tell it from a new one.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.word.is_idle() && self.token.is_untouched()
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

    /// As [`Flight::set_waker`], for a waker that nobody else needs.
    pub(crate) fn put_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
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
        let Some(seen) = self.word.look() else {
            return u64::MAX;
        };
        // Of the call that was seen, or a later one: then the word refuses below.
        let deadline = self.deadline.load(Ordering::Relaxed);
        if deadline > now {
            return deadline;
        }
        self.expire(seen);
        u64::MAX
    }

    /// Expires whatever runs.
    pub(super) fn expire_now(&self) {
        if let Some(seen) = self.word.look() {
            self.interrupts.store(true, Ordering::Relaxed);
            self.expire(seen);
        }
    }

    /// How many calls it has served, for the timer to see that something happens.
    pub(super) fn calls(&self) -> u64 {
        self.word.calls()
    }

    pub(super) fn is_running(&self) -> bool {
        self.word.look().is_some()
    }

    fn expire(&self, seen: UnderWay) {
        let Some(left) = self.word.leave(seen, Leave::Expired) else {
            return;
        };
        self.was_queued
            .store(left == Left::Queued, Ordering::Relaxed);
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
