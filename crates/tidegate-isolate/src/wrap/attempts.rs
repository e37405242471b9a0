//! The attempts of one call whose work a handler does itself: each attempt is an entry.
//!
//! A [`Retry`] policy decides, as for other calls. Here the handler makes the pauses, and the
//! deadline of the call covers all attempts together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Executor;

use super::budget::Paid;
use super::hedge::Hedge;
use super::retry::Retry;
use crate::command::{Call, Entry, PendingEntry};
use crate::error::{Cause, CommandError, Rejection};
use crate::event::Event;

/// The attempts of one call, for handlers: whether there is another attempt, and when.
/// [`Retry::begin`] returns it.
///
/// * Each attempt is an [`Entry`] of its own, with its own permit and its own verdict. An earlier
///   one may still stream, or overstay.
/// * A retry or a hedge is taken from the budget when it is decided. Pauses count too. An attempt that
///   never begins goes back to the budget when this value is dropped.
/// * The timeout of the call covers all of its attempts and pauses. The timeout of the command
///   limits each attempt.
/// * Dropping this value ends the attempts: no attempt begins without it. None begins after the
///   caller has cancelled the call with its [handle](Call::handle), or after the isolation was shut
///   down.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{Command, Isolation, Retry};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<(), String> = Command::builder("prices").group("catalog").build(&isolation)?;
/// let retry = Retry::attempts(2).backoff(Duration::from_millis(10), 2.0).jitter(0.0);
///
/// let mut attempts = retry.begin(prices.call().timeout(Duration::from_secs(1)));
/// let first = attempts.admit().expect("there is room");
/// first.verdict(false); // the response is a 503
/// drop(first);
/// let pause = attempts.after_failure(None);
/// assert_eq!(pause, Some(Duration::from_millis(10))); // the handler waits with a timer of its loop
/// let second = attempts.admit().expect("there is room");
/// assert!(second.verdict(true));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[must_use = "no attempt begins without it"]
pub struct Attempts<T, E> {
    retry: Retry<E>,
    call: Call<T, E>,
    /// The timeout of the whole call in nanoseconds; `u64::MAX` for none.
    timeout: u64,
    /// When all attempts must have ended; `u64::MAX` for never.
    deadline: u64,
    /// Attempts that were decided, the first included.
    decided: u32,
    /// Attempts that have begun.
    begun: u32,
    /// Attempts that were decided after the first and have not begun.
    paid: Vec<Paid>,
}

impl<E: Send + 'static> Retry<E> {
    /// Begins a call whose attempts are entries. See [`Attempts`].
    pub fn begin<T: Send + 'static>(&self, call: Call<T, E>) -> Attempts<T, E> {
        self.earn();
        let timeout = call.timeout_nanos();
        Attempts {
            retry: self.clone(),
            timeout,
            deadline: call.now().saturating_add(timeout),
            call,
            decided: 1,
            begun: 0,
            paid: Vec::new(),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Attempts<T, E> {
    /// Admits the first attempt, or the one that was decided last. See
    /// [`Command::admit`](crate::Command::admit).
    ///
    /// # Errors
    ///
    /// Returns why the attempt was not admitted. The error can be passed to
    /// [`after_error`](Attempts::after_error). After the deadline of the call, the attempt has timed
    /// out. An attempt that was not decided counts as cancelled.
    pub fn admit(&mut self) -> Result<Entry, CommandError<E>> {
        self.next_call()?.admit()
    }

    /// Admits an attempt like [`admit`](Attempts::admit), and waits for a permit if none is free.
    /// See [`Command::admit_or_wait`](crate::Command::admit_or_wait).
    pub fn admit_or_wait<F>(&mut self, home: &Arc<dyn Executor>, then: F) -> PendingEntry
    where
        F: FnOnce(Result<Entry, CommandError<E>>) + Send + 'static,
    {
        match self.next_call() {
            Ok(call) => call.admit_or_wait(home, then),
            Err(error) => self.call.attempt().answer_on(home, then, Err(error)),
        }
    }

    /// Decides whether there is a retry after an attempt that failed with `error`, and takes it from
    /// the budget. Returns the pause before it, or `None`.
    pub fn after_error(&mut self, error: &CommandError<E>) -> Option<Duration> {
        let left = self.left()?;
        let command = self.call.command();
        let next = (self.retry).next_pause(command, self.decided, error, (true, left));
        let (pause, paid) = next?;
        self.decide(Event::Retried, paid);
        Some(pause)
    }

    /// Decides like [`after_error`](Attempts::after_error) after a response that counts as a
    /// failure. `hint` is the shortest pause that the response asks for.
    pub fn after_failure(&mut self, hint: Option<Duration>) -> Option<Duration> {
        let left = self.left()?;
        if !self.retry.may_retry(self.call.command(), self.decided) {
            return None;
        }
        let (pause, paid) = self.retry.take_pause(self.decided, hint, left)?;
        self.decide(Event::Retried, paid);
        Some(pause)
    }

    /// Returns the time after which a second attempt makes sense if the first has not responded.
    /// Takes nothing from the budget: [`hedge`](Attempts::hedge) does, when that time has come, from that
    /// of the retries.
    pub fn hedge_pause(&self, hedge: &Hedge) -> Option<Duration> {
        let pause = hedge.delay(self.call.command())?;
        (pause < self.left()?).then_some(pause)
    }

    /// Decides whether there is a second attempt next to one that takes long, and takes it from the
    /// budget. If this returns `true`, the next [`admit`](Attempts::admit) begins it.
    pub fn hedge(&mut self) -> bool {
        let may_begin =
            self.left().is_some() && self.retry.may_retry(self.call.command(), self.decided);
        let Some(paid) = may_begin.then(|| self.retry.pay()).flatten() else {
            return false;
        };
        self.decide(Event::Hedged, paid);
        true
    }

    /// Returns the deadline of the whole call, if it has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        let has_one = self.deadline != u64::MAX;
        has_one.then(|| self.call.instant_of(self.deadline))?
    }

    fn decide(&mut self, event: Event, paid: Paid) {
        self.decided += 1;
        self.paid.push(paid);
        self.call.count(event);
    }

    /// Returns the time that is left for another attempt, or `None` if the caller has left or the
    /// deadline has passed.
    fn left(&self) -> Option<Duration> {
        let left = self.deadline.saturating_sub(self.call.now());
        (left > 0 && !self.call.is_cancelled()).then(|| Duration::from_nanos(left))
    }

    /// Returns the call of the attempt that was decided last.
    fn next_call(&mut self) -> Result<Call<T, E>, CommandError<E>> {
        let left = self.deadline.saturating_sub(self.call.now());
        let cause = if self.begun == self.decided || self.call.is_cancelled() {
            Some(Cause::Cancelled)
        } else if left == 0 {
            Some(Cause::TimedOut(Duration::from_nanos(self.timeout)))
        } else if self.begun > 0 && self.call.command().is_shut_down() {
            Some(Cause::Rejected(Rejection::Closed))
        } else {
            None
        };
        if let Some(cause) = cause {
            return Err(self.call.attempt().refuse(cause));
        }
        if self.begun > 0 {
            self.paid.pop().into_iter().for_each(Paid::use_up);
        }
        self.begun += 1;
        Ok(self.call.attempt_within(left))
    }
}

debug_fields!([T, E] Attempts<T, E>, this => call: this.call, begun: this.begun);
