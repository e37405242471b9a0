//! A call slot: a running call as the timer sees it. It consists of a deadline, a cancel token, and
//! the word that decides which was first, the end of the work or the timeout.
//!
//! | field | written by, when |
//! |---|---|
//! | `deadline`, `command_id` | the caller while the word is idle |
//! | `token` | never: it is cancelled after a `leave`, and a cancelled token is not reused |
//! | `entry` | the caller while the word is idle, for an entry; cleared when the entry has finished |
//! | `listener`, `watch` | a future's poll or a caller, under their lock |
//!
//! No user code runs under the lock: wakers are cloned before and dropped after.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use tidegate_core::internal::PlainTask;
use tidegate_core::{CancelToken, Clock, Task};

use super::call_word::{CallWord, EndCause, SeenCall, WorkState};
use super::entry_watch::EntryWatch;
use crate::breaker::Ticket;
use tidegate_core::internal::unpoisoned;

/// The lowest bit of `command_id`: the token is cancelled on timeout.
const INTERRUPTS: u64 = 1;

/// The slot of one call at a time. It is reused for the next call.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    word: CallWord,
    deadline: AtomicU64,
    /// The number of the command, shifted left by one bit, and [`INTERRUPTS`] in the lowest bit.
    /// The callback threads of that command run the user code that a timeout causes.
    command_id: AtomicU64,
    token: CancelToken,
    entry: EntryFields,
    listeners: Mutex<Listeners>,
}

/// What the timer needs to report the timeout of an entry.
#[derive(Debug, Default)]
struct EntryFields {
    /// One more than the time at which the call was made; 0 if the call is no entry.
    start: AtomicU64,
    /// When the call received its permit, shifted left by one bit. The lowest bit is set for a probe.
    began: AtomicU64,
    /// The phase of the breaker in which the call passed it.
    generation: AtomicU64,
}

/// An entry that has timed out, or was stopped with its isolation.
#[derive(Debug)]
pub(crate) struct ExpiredEntry {
    /// The address of the call slot, which identifies the call as long as its entry exists.
    pub(crate) slot: usize,
    pub(crate) start: u64,
    pub(crate) began: u64,
    /// `u64::MAX` if it had no timeout.
    pub(crate) deadline: u64,
    pub(crate) ticket: Ticket,
    pub(crate) watch: Option<Arc<EntryWatch>>,
}

/// The command of an entry, as the timer knows it.
pub(crate) trait EntryTimeouts: Send + Sync {
    /// Reports the timeout to everything that is not user code. Returns a task for the rest, which
    /// runs on a callback thread of the command. Runs and drops no user code itself, not even the
    /// last handle of a command.
    fn entry_expired(self: Arc<Self>, entry: ExpiredEntry) -> Task;
}

/// Receives what becomes of a call.
#[derive(Debug, Default)]
struct Listeners {
    timeout: Option<TimeoutListener>,
    watch: Option<Arc<EntryWatch>>,
}

/// The receiver of a call's timeout.
enum TimeoutListener {
    /// The waker of a future, which is user code.
    Task(Waker),
    /// A call on threads.
    Call(Arc<dyn OnTimeout>),
}

/// A call that is notified of its timeout on the timer's thread.
pub(crate) trait OnTimeout: Send + Sync {
    /// Passes the timeout on. Runs and drops no user code, not even the last handle of a command.
    fn expired(self: Arc<Self>, left: WorkState);
}

/// Runs the user code that a timeout causes, on the callback threads of the command. A call slot
/// knows its command only by number.
pub(crate) trait CallbackRunner {
    /// Runs `task` for the command with this number.
    fn run(&self, command_id: u64, task: Task);

    /// Runs the hooks of a token for the command with this number, or counts that too many are
    /// waiting.
    fn run_hooks(&self, command_id: u64, token: &CancelToken);

    /// Returns the command with this number, for the timeouts of its entries.
    fn entries_of(&self, command_id: u64) -> Option<Arc<dyn EntryTimeouts>>;
}

impl Flight {
    /// Sets the data of the next call before it begins. `command_id` is the number of its command.
    #[inline]
    pub(crate) fn prepare(&self, clock: &Clock, deadline: u64, command_id: u64, interrupts: bool) {
        self.token.set_deadline_at(clock, deadline);
        self.deadline.store(deadline, Ordering::Relaxed);
        let command_id = command_id << 1 | u64::from(interrupts);
        self.command_id.store(command_id, Ordering::Relaxed);
    }

    /// Marks the next call as an entry, before it begins.
    #[inline]
    pub(crate) fn prepare_entry(&self, (start, began): (u64, u64), ticket: Ticket) {
        let (generation, is_probe) = ticket.parts();
        let began = began << 1 | u64::from(is_probe);
        self.entry.start.store(start + 1, Ordering::Relaxed);
        self.entry.began.store(began, Ordering::Relaxed);
        self.entry.generation.store(generation, Ordering::Relaxed);
    }

    /// Ends the use of the slot by an entry that has finished. The timer does not read the slot of
    /// a call that has finished.
    #[inline]
    pub(crate) fn clear_entry(&self) {
        self.entry.start.store(0, Ordering::Relaxed);
    }

    /// Returns a number that identifies the slot as long as it exists.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline]
    pub(crate) fn word(&self) -> &CallWord {
        &self.word
    }

    /// Ends the call. Returns `false` if it timed out first.
    #[inline]
    pub(crate) fn finish(&self) -> bool {
        self.word.finish()
    }

    /// Ends the call `seen` because its caller cancelled it. Returns whether its work was queued or
    /// running, or `None` if the call has already ended or timed out.
    pub(crate) fn cancel(&self, seen: SeenCall) -> Option<WorkState> {
        self.word.leave(seen, EndCause::Cancelled)
    }

    /// Returns `true` if the call timed out before it ended.
    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        self.word.is_expired()
    }

    /// Returns `true` if the slot can be used for another call: the last call has finished, and its
    /// token has no clone and no hook and was not cancelled.
    #[inline]
    pub(crate) fn is_reusable(&self) -> bool {
        self.word.is_idle() && self.token.is_untouched()
    }

    /// Drops the hooks of a call that has ended, on the thread of that call, for a slot that is not
    /// reused. Keeps the hooks of a cancelled token, because they run or have run.
    #[cold]
    pub(crate) fn retire(&self) {
        if !self.token.is_cancelled() {
            self.token.drop_hooks();
        }
    }

    pub(crate) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Returns the number of the command that made the current or last call.
    pub(crate) fn command_id(&self) -> u64 {
        self.command_id.load(Ordering::Relaxed) >> 1
    }

    /// Makes the timeout wake a future.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let same = |listener: &TimeoutListener| matches!(listener, TimeoutListener::Task(old) if old.will_wake(waker));
        let is_set = self.listeners().timeout.as_ref().is_some_and(same);
        if !is_set {
            self.set_listener(TimeoutListener::Task(waker.clone()));
        }
    }

    /// Makes the timeout notify a call on threads.
    pub(crate) fn set_timeout_target(&self, call: Arc<dyn OnTimeout>) {
        self.set_listener(TimeoutListener::Call(call));
    }

    fn set_listener(&self, listener: TimeoutListener) {
        let old = self.listeners().timeout.replace(listener);
        drop(old);
    }

    /// Sets the observer and the log that receive the timeout of an entry. Returns `false` if the entry
    /// has expired before: its timeout was reported without them.
    pub(crate) fn set_watch(&self, watch: &Arc<EntryWatch>) -> bool {
        self.listeners().watch = Some(Arc::clone(watch));
        // The timer expires the call before it takes the watch.
        !(self.is_expired() && self.listeners().watch.take().is_some())
    }

    /// Removes the receivers of the timeout.
    pub(crate) fn clear_listener(&self) {
        let old = std::mem::take(&mut *self.listeners());
        drop(old);
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        let listeners = self.listeners.lock();
        unpoisoned(listeners)
    }

    /// Returns the time at which the call in flight is due, or `u64::MAX` if there is none.
    pub(crate) fn next_deadline(&self) -> u64 {
        match self.word.look() {
            Some(_) => self.deadline.load(Ordering::Relaxed),
            None => u64::MAX,
        }
    }

    /// Expires the call if it is in flight and due at `now`. Returns the time at which it is due,
    /// or `u64::MAX` if no call is in flight any more.
    pub(crate) fn expire_if_due(&self, now: u64, callbacks: &impl CallbackRunner) -> u64 {
        let Some(seen) = self.word.look() else {
            return u64::MAX;
        };
        // The deadline belongs to the call that was seen or to a later one. In the second case
        // `leave` fails in `expire`.
        let deadline = self.deadline.load(Ordering::Relaxed);
        if deadline > now {
            return deadline;
        }
        self.expire(seen, false, callbacks);
        u64::MAX
    }

    /// Expires the call in flight, if there is one, and cancels its token regardless of the settings.
    pub(crate) fn expire_now(&self, callbacks: &impl CallbackRunner) {
        if let Some(seen) = self.word.look() {
            self.expire(seen, true, callbacks);
        }
    }

    /// Returns the number of calls served, from which the timer sees whether calls are being made.
    pub(crate) fn calls(&self) -> u64 {
        self.word.calls()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.word.look().is_some()
    }

    /// Ends the call as timed out and notifies the receiver. All user code that this causes runs on
    /// the callback threads of the command.
    fn expire(&self, seen: SeenCall, interrupt: bool, callbacks: &impl CallbackRunner) {
        let command_id = self.command_id();
        // Before the call is ended: after that, its entry may drop the last handle of the command.
        // If these fields belong to a later call, `leave` fails.
        let command = match self.entry.start.load(Ordering::Relaxed) {
            0 => None,
            _ => callbacks.entries_of(command_id),
        };
        let Some(left) = self.word.leave(seen, EndCause::Expired) else {
            if let Some(command) = command {
                // This may be the last handle of the command.
                callbacks.run(command_id, PlainTask::new(move || drop(command)));
            }
            return;
        };
        let Listeners {
            timeout: listener,
            watch,
        } = std::mem::take(&mut *self.listeners());
        // First of all: code that learns of the timeout finds it counted.
        let report = command.map(|command| command.entry_expired(self.expired_entry(watch)));
        let interrupts = interrupt || self.command_id.load(Ordering::Relaxed) & INTERRUPTS != 0;
        let has_hooks = interrupts && self.token.cancel_without_hooks() && self.token.has_hooks();
        match listener {
            Some(TimeoutListener::Call(call)) => call.expired(left),
            Some(TimeoutListener::Task(waker)) => {
                callbacks.run(command_id, PlainTask::new(move || waker.wake()));
            }
            None => {}
        }
        if has_hooks {
            callbacks.run_hooks(command_id, &self.token);
        }
        if let Some(report) = report {
            callbacks.run(command_id, report);
        }
    }

    /// Returns the data of an entry that was ended from outside. The slot is not used again.
    fn expired_entry(&self, watch: Option<Arc<EntryWatch>>) -> ExpiredEntry {
        let load = |field: &AtomicU64| field.load(Ordering::Relaxed);
        let began = load(&self.entry.began);
        ExpiredEntry {
            slot: self.address(),
            start: load(&self.entry.start) - 1,
            began: began >> 1,
            deadline: load(&self.deadline),
            ticket: Ticket::from_parts((load(&self.entry.generation), began & 1 != 0)),
            watch,
        }
    }
}

impl fmt::Debug for TimeoutListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Task(_) => "Task",
            Self::Call(_) => "Call",
        })
    }
}
