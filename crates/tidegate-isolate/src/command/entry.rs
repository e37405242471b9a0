//! A call whose holder does the work itself: the admission as a value.
//!
//! The holder of an [`Entry`] does the work on any thread and in any way, reports the outcome, and
//! drops the entry when the work no longer needs its permit. A call that succeeds allocates nothing
//! and takes no lock.
//!
//! | end | event | breaker | latency | adaptive limit | hooks |
//! |---|---|---|---|---|---|
//! | success | SUCCESS | success | yes | yes | ExecutionEmit, Emit, ExecutionSuccess, Success |
//! | failure | FAILURE | failure | yes | yes | ExecutionError, Error |
//! | ignored | BAD_REQUEST | none; a probe frees its slot | yes | yes | ExecutionError, Error |
//! | timed out | TIMEOUT | failure | yes | as dropped | Error |
//! | dropped without a verdict | CANCELLED | none; a probe reopens it | yes | none | Cancelled |
//!
//! All of this happens on the thread that gives the verdict or drops the entry. At the deadline, the
//! timer only expires the call, cancels its token and wakes the future that holds the entry
//! ([`Entry::poll_expired`]). It never gives a permit back.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tidegate_core::CancelToken;
use tidegate_core::internal::trace::{self, Entered, Span};

use super::admission::{Admission, Denied};
use super::ending::Ended;
use super::options::{CallOptions, MaybeOptions, Observer};
use super::report::CallRecord;
use super::shared::Shared;
use crate::error::{Cause, CommandError};
use crate::event::{Event, EventSet};
use crate::in_flight::EntryWord;
use crate::isolation::state::{State, WATCHED};
use crate::plugin::CallStage;
use crate::request::RequestContext;

/// The outcome of a call, as the holder of its [`Entry`] reports it.
///
/// ```
/// use tidegate_isolate::Verdict;
///
/// assert_eq!(Verdict::from(true), Verdict::Success);
/// assert_eq!(Verdict::from(false), Verdict::Failure);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The dependency did what the caller requested.
    Success,
    /// The dependency failed.
    Failure,
    /// The request was invalid, or the result says nothing about the health of the dependency. The
    /// breaker does not count the call.
    Ignored,
}

impl From<bool> for Verdict {
    fn from(is_success: bool) -> Self {
        if is_success {
            Self::Success
        } else {
            Self::Failure
        }
    }
}

impl From<Verdict> for Ended {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Success => Self::Success,
            Verdict::Failure => Self::Failure,
            Verdict::Ignored => Self::Ignored,
        }
    }
}

/// An admitted call whose holder does the work itself. It holds a permit, a ticket of the breaker
/// and a deadline. [`Command::admit`](crate::Command::admit) returns an entry.
///
/// [`verdict`](Entry::verdict) reports the outcome, once. Dropping the entry gives the permit back.
/// An entry that is dropped without a verdict counts as cancelled; if its call was a probe, the
/// breaker opens again.
///
/// ```
/// use tidegate_isolate::{Command, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<(), String> = Command::builder("prices").group("catalog").build(&isolation)?;
///
/// let entry = prices.admit().expect("there is room");
/// let response: Result<&str, &str> = Ok("42");
/// assert!(entry.verdict(response.is_ok()));
/// assert_eq!(prices.snapshot().active, 1, "until the last byte of the response was used");
/// drop(entry);
/// assert_eq!(prices.snapshot().active, 0);
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[must_use = "dropping an entry without a verdict counts as cancelled"]
pub struct Entry {
    state: Arc<State>,
    /// `None` only while the entry is being dropped.
    call: Option<Admission>,
    word: EntryWord,
    /// The request whose log the call is written into, if any.
    context: Option<RequestContext>,
    observer: Option<Observer>,
    /// `true` once a waker was stored for the timer.
    is_listening: bool,
    span: Span,
}

impl Entry {
    /// Reports how the call ended. Stops its timeout, records its latency, and updates the breaker
    /// and the adaptive limit. The permit is held until the entry is dropped.
    ///
    /// Returns `true` if the verdict counts. It does not count after an earlier verdict. It does
    /// not count after the deadline either: the call then counts as timed out.
    pub fn verdict(&self, verdict: impl Into<Verdict>) -> bool {
        let verdict = verdict.into();
        self.report(verdict.into()) == Some(Ended::from(verdict))
    }

    /// Ends the call with a verdict and gives the permit back.
    ///
    /// # Errors
    ///
    /// Returns the error of a call that timed out, or that was stopped with its isolation, before
    /// the verdict. An entry that already has a verdict is only dropped.
    pub fn end<E>(self, verdict: impl Into<Verdict>) -> Result<(), CommandError<E>> {
        let (state, call) = (&*self.state, self.call());
        let now = state.now();
        match self.word.report(|| state.stop_time(call, now)) {
            None => Ok(()),
            Some(true) => {
                self.report_outcome(call, verdict.into().into(), now);
                Ok(())
            }
            Some(false) => Err(self.ended_by(call.ended_late(), call.late(), now)),
        }
    }

    /// Ends the call with this cause, gives the permit back, and returns the error for the caller.
    /// [`Cause::event`] returns the event that is counted. If the call has already timed out, it
    /// counts as timed out, and so does the error.
    pub fn fail<E>(self, cause: Cause<E>) -> CommandError<E> {
        let (state, call) = (&*self.state, self.call());
        let now = state.now();
        match self.word.report(|| state.stop_time(call, now)) {
            None => CommandError::new(&state.key, cause),
            Some(true) => self.ended_by(Ended::by(&cause), cause, now),
            Some(false) => self.ended_by(call.ended_late(), call.late(), now),
        }
    }

    /// Returns `true` if the timer has ended the call, because its deadline has passed or because
    /// its isolation was stopped.
    #[inline]
    pub fn is_expired(&self) -> bool {
        self.call().flight.is_expired()
    }

    /// Returns `Ready` if the call [has expired](Entry::is_expired). Otherwise registers the waker of
    /// `context`, which the timer wakes when the call expires. Use it in a future that holds an
    /// entry while it waits for something else.
    ///
    /// # Threads
    ///
    /// The waker runs on a callback thread of the command.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let flight = &self.call().flight;
        // The waker is stored before the check, and the timer expires the call before it takes the
        // waker. See `run_async`.
        flight.set_waker(context.waker());
        let is_expired = flight.is_expired();
        self.is_listening = true;
        match is_expired {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Returns the deadline of the call, if it has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.token().deadline()
    }

    /// Returns the token of the call. It is cancelled at the deadline (unless `interrupt_on_timeout`
    /// is off), when the isolation is stopped, and when the entry is dropped without a verdict.
    ///
    /// Clones may outlive the entry. The next call then has to allocate a new token.
    pub fn token(&self) -> &CancelToken {
        self.call().flight.token()
    }

    /// Enters the span of the call, if a subscriber of `tracing` wants one, until the result is
    /// dropped.
    #[doc(hidden)]
    #[inline]
    pub fn enter_span(&self) -> Entered<'_> {
        self.span.enter()
    }

    /// Not in the constructor, which would keep the parts of the entry in memory for it.
    #[cold]
    #[inline(never)]
    fn begin_span(&mut self) {
        self.span = self.state.span();
    }

    fn call(&self) -> &Admission {
        let call = self.call.as_ref();
        call.expect("only `drop` takes the admission")
    }

    /// Ends the call with this outcome, or as timed out. Returns the outcome that counts, or `None`
    /// if there was a report before.
    fn report(&self, ended: Ended) -> Option<Ended> {
        let (state, call) = (&*self.state, self.call());
        let now = state.now();
        let in_time = self.word.report(|| state.stop_time(call, now))?;
        let ended = if in_time { ended } else { call.ended_late() };
        self.report_outcome(call, ended, now);
        Some(ended)
    }

    /// Reports the outcome to the breaker, the metrics and the listeners.
    #[inline(always)]
    fn report_outcome(&self, call: &Admission, ended: Ended, now: u64) {
        self.state.report(call.ticket, call.times(now), ended);
        let is_observed = self.observer.is_some() || self.context.is_some() || !self.span.is_none();
        if ended != Ended::Success || is_observed || self.state.flags() & WATCHED != 0 {
            self.notify_listeners(CallRecord::until(call.start, now), ended, false);
        }
    }

    /// Counts the events that were not counted yet, and calls hooks and listeners. `is_thrown` is
    /// `true` if the caller receives an error. Returns all events of the call.
    #[cold]
    fn notify_listeners(&self, mut record: CallRecord, ended: Ended, is_thrown: bool) -> EventSet {
        self.span.record("outcome", ended.event().name());
        let state = &*self.state;
        let (before, after): (&[CallStage], &[CallStage]) = match ended {
            Ended::Success => (
                &[
                    CallStage::ExecutionEmit,
                    CallStage::Emit,
                    CallStage::ExecutionSuccess,
                ],
                &[CallStage::Success],
            ),
            Ended::Failure | Ended::Ignored => (&[CallStage::ExecutionError], &[CallStage::Error]),
            Ended::TimedOut => (&[], &[CallStage::Error]),
            Ended::Cancelled => (&[CallStage::Cancelled], &[]),
        };
        before.iter().for_each(|stage| drop(state.hook(*stage)));
        let observer = self.observer.as_ref();
        if ended == Ended::Success {
            // `State::report` has already counted the success.
            record.events.add(Event::Success);
            state.notify(observer, Event::Success);
        } else {
            state.emit(&mut record, observer, ended.event());
        }
        // For `Ignored`, this adds the event to the record and counts nothing: a bad request is
        // already counted as one.
        if is_thrown || ended == Ended::Ignored {
            state.thrown(&mut record, observer);
        }
        after.iter().for_each(|stage| drop(state.hook(*stage)));
        if let Some(context) = &self.context {
            state.log_into(context, &record);
        }
        record.events
    }

    /// Reports the outcome of a call that ended with an error, and returns the error.
    #[cold]
    fn ended_by<E>(&self, ended: Ended, cause: Cause<E>, now: u64) -> CommandError<E> {
        let (state, call) = (&*self.state, self.call());
        state.report(call.ticket, call.times(now), ended);
        let record = CallRecord::until(call.start, now);
        let events = self.notify_listeners(record, ended, true);
        CommandError::new(&state.key, cause).with_events(events)
    }

    /// Ends a call whose entry was dropped without a verdict. `is_first` is `true` if the timer had
    /// not expired the call. The clock decides whether the call is late, as for a verdict: the timer
    /// may expire a late call a moment after its deadline.
    #[cold]
    fn cancel(&self, call: &Admission, is_first: bool) {
        let state = &*self.state;
        let now = state.now();
        let token = call.flight.token();
        if is_first {
            token.cancel_without_hooks();
        }
        let ended = if is_first && now < call.deadline() {
            Ended::Cancelled
        } else {
            let took = now.saturating_sub(call.began);
            state.gate.sample(now, took, true);
            call.ended_late()
        };
        state.release(now);
        if is_first {
            token.run_hooks_to(&state.key, &state.plugins.unhandled);
        }
        self.report_outcome(call, ended, now);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else {
            return;
        };
        if self.is_listening {
            call.flight.clear_listener();
        }
        if self.word.is_reported() {
            self.state.gate.give_back(|| self.state.now());
        } else {
            self.cancel(&call, call.flight.finish());
        }
        self.state.alarms.keep_flight(call.flight);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("command", &self.state.key)
            .field("is_reported", &self.word.is_reported())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Admits a call as an entry. Does not wait for a permit, and tries no fallback.
    #[inline]
    pub(super) fn enter(
        &self,
        maybe_options: MaybeOptions<'_, T, E>,
    ) -> Result<Entry, CommandError<E>> {
        let state = &self.state;
        let (flags, start) = (state.flags(), state.now());
        let call = match state.admit(flags, start, maybe_options.terms(state)) {
            Ok(call) => call,
            Err(denied) => {
                return Err(maybe_options
                    .with(|options| self.not_admitted(denied, (start, start), options)));
            }
        };
        self.entry_of(call, flags, &maybe_options)
    }

    /// Makes the entry of a call that was admitted.
    #[inline(always)]
    pub(super) fn entry_of(
        &self,
        call: Admission,
        flags: u32,
        maybe_options: &MaybeOptions<'_, T, E>,
    ) -> Result<Entry, CommandError<E>> {
        let state = &self.state;
        let mut entry = Entry {
            state: Arc::clone(state),
            call: Some(call),
            word: EntryWord::default(),
            context: maybe_options.context_to_log(flags),
            observer: maybe_options.observer().cloned(),
            is_listening: false,
            span: Span::none(),
        };
        if trace::wants_spans() {
            entry.begin_span();
        }
        if flags & WATCHED != 0
            && let Err(message) = state.hook(CallStage::ExecutionStart)
        {
            return Err(entry.fail(Cause::Panicked(message)));
        }
        Ok(entry)
    }

    /// Ends a call that was made at `start` and not admitted at `now`. Tries no fallback.
    #[cold]
    pub(super) fn not_admitted(
        &self,
        denied: Denied,
        (start, now): (u64, u64),
        options: &CallOptions<T, E>,
    ) -> CommandError<E> {
        self.state.book_denial(&denied, (start, now));
        let record = CallRecord::until(start, now);
        self.failed_at_once(record, options, denied.into_cause())
    }
}
