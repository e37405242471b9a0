//! A running call, as the timer sees it: a deadline, a token, and the word that decides who was
//! first, the end of the work or the end of its time.
//!
//! | field | who writes it when |
//! |---|---|
//! | `deadline`, `whose` | the caller while the word is idle |
//! | `token` | nobody: it is tripped after the call was left, and a tripped one is not used again |
//! | `ear` | a future's poll or a caller, under its lock |
//!
//! Nothing of the user's runs under the lock: wakers are cloned before and dropped after.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::{CancelToken, Clock, Task};

use super::call_word::{CallWord, Leave, Left, UnderWay};

/// The lowest bit of `whose`: the token is tripped when the time is over.
const INTERRUPTS: u64 = 1;

/// One call at a time, again and again.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    word: CallWord,
    deadline: AtomicU64,
    /// Where user code of the call's command runs, twice its number, and whether the call is
    /// interrupted.
    whose: AtomicU64,
    token: CancelToken,
    ear: Mutex<Option<Ear>>,
}

/// What hears that the time of a call is over.
enum Ear {
    /// The waker of a future: user code.
    Task(Waker),
    /// A call on threads.
    Call(Arc<dyn Expires>),
}

/// A call that is told on the timer's thread that its time is over.
pub(crate) trait Expires: Send + Sync {
    /// Passes it on. Runs no user code, and drops none: not even the last handle of a command.
    fn expired(self: Arc<Self>, left: Left);
}

/// Where user code runs that the end of a call's time causes: on the threads of its command, which
/// a flight knows by number only.
pub(crate) trait Callbacks {
    /// Runs `task` for the command with this number.
    fn run(&self, whose: u64, task: Task);

    /// Runs the hooks of a token of the command with this number, or counts that there are too many.
    fn run_hooks(&self, whose: u64, token: &CancelToken);
}

impl Flight {
    /// Says what the next call is like, before it begins: `whose` is the number of its command.
    #[inline]
    pub(crate) fn prepare(&self, clock: &Clock, deadline: u64, whose: u64, interrupts: bool) {
        self.token.set_deadline_at(clock, deadline);
        self.deadline.store(deadline, Ordering::Relaxed);
        let whose = whose << 1 | u64::from(interrupts);
        self.whose.store(whose, Ordering::Relaxed);
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
    /// first.
    pub(crate) fn cancel(&self, seen: UnderWay) -> Option<Left> {
        self.word.leave(seen, Leave::Cancelled)
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

    /// Drops the hooks of a call that has ended and will not be interrupted any more, on the
    /// thread of that call.
    #[cold]
    pub(crate) fn retire(&self) {
        if !self.token.is_cancelled() {
            self.token.drop_hooks();
        }
    }

    pub(crate) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// The number of the command whose call this is or was.
    pub(crate) fn whose(&self) -> u64 {
        self.whose.load(Ordering::Relaxed) >> 1
    }

    /// Has a future woken when the time is over.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let same = |ear: &Ear| matches!(ear, Ear::Task(old) if old.will_wake(waker));
        let is_set = self.ear().as_ref().is_some_and(same);
        if !is_set {
            self.put_ear(Ear::Task(waker.clone()));
        }
    }

    /// Has a call on threads told when the time is over.
    pub(crate) fn tell(&self, call: Arc<dyn Expires>) {
        self.put_ear(Ear::Call(call));
    }

    fn put_ear(&self, ear: Ear) {
        let old = self.ear().replace(ear);
        drop(old);
    }

    /// Tells nobody any more.
    pub(crate) fn clear_ear(&self) {
        let old = self.ear().take();
        drop(old);
    }

    fn ear(&self) -> MutexGuard<'_, Option<Ear>> {
        self.ear.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expires the call if it runs and is due at `now`; returns when it will be due otherwise.
    pub(crate) fn expire_if_due(&self, now: u64, callbacks: &impl Callbacks) -> u64 {
        let Some(seen) = self.word.look() else {
            return u64::MAX;
        };
        // Of the call that was seen, or a later one: then the word refuses below.
        let deadline = self.deadline.load(Ordering::Relaxed);
        if deadline > now {
            return deadline;
        }
        self.expire(seen, callbacks);
        u64::MAX
    }

    /// Expires whatever runs.
    pub(crate) fn expire_now(&self, callbacks: &impl Callbacks) {
        if let Some(seen) = self.word.look() {
            self.whose.fetch_or(INTERRUPTS, Ordering::Relaxed);
            self.expire(seen, callbacks);
        }
    }

    /// How many calls it has served, for the timer to see that something happens.
    pub(crate) fn calls(&self) -> u64 {
        self.word.calls()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.word.look().is_some()
    }

    /// Decides that the time is over and passes it on. All user code that this causes runs on the
    /// threads of the command.
    fn expire(&self, seen: UnderWay, callbacks: &impl Callbacks) {
        let Some(left) = self.word.leave(seen, Leave::Expired) else {
            return;
        };
        let interrupts = self.whose.load(Ordering::Relaxed) & INTERRUPTS != 0;
        let has_hooks = interrupts && self.token.trip() && self.token.has_hooks();
        let ear = self.ear().take();
        match ear {
            Some(Ear::Call(call)) => call.expired(left),
            Some(Ear::Task(waker)) => {
                callbacks.run(self.whose(), Task::new(move || waker.wake()));
            }
            None => {}
        }
        if has_hooks {
            callbacks.run_hooks(self.whose(), &self.token);
        }
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task(_) => "Task",
            Self::Call(_) => "Call",
        })
    }
}
