//! A call whose holder does the work itself: the admission as a value.
//!
//! The holder of an [`Entry`] does the work on any thread and in any way, reports the outcome, and
//! drops the entry when the work no longer needs its permit. A call that succeeds allocates nothing
//! and waits for no lock.
//!
//! | end | event | breaker | latency | adaptive limit | hooks |
//! |---|---|---|---|---|---|
//! | success | SUCCESS | success | yes | yes | ExecutionEmit, Emit, ExecutionSuccess, Success |
//! | failure | FAILURE | failure | yes | none | ExecutionError, Error |
//! | nothing to call | FAILURE | none; a probe frees its slot | yes | none | ExecutionError, Error |
//! | ignored | BAD_REQUEST | none; a probe frees its slot | yes | none | ExecutionError, Error |
//! | timed out | TIMEOUT | failure | yes | as dropped | Error |
//! | cancelled, or dropped without a verdict | CANCELLED | none; a probe reopens it | yes | none | Cancelled |
//! | abandoned | CANCELLED | none; a probe frees its slot | yes | none | Cancelled |
//!
//! The first that ends the call reports it: the holder, on the thread that gives the verdict,
//! cancels or drops the entry, or the timer at the deadline (`late_entry`). The timer also cancels
//! the token of the call and wakes the future that holds the entry ([`Entry::poll_expired`]). The
//! permit is given back when the entry is dropped, and only then. A call that was cancelled or timed
//! out and still holds its permit counts as overstaying.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tidegate_core::CancelToken;
use tidegate_core::internal::as_nanos;
use tidegate_core::internal::trace::{self, Entered};

use super::admission::{Admission, Denied};
use super::ending::Ended;
use super::options::{CallOptions, MaybeOptions, Observer};
use super::outcome::late;
use super::report::CallRecord;
use super::shared::Shared;
use super::verdict::{Sample, Verdict};
use crate::alarm::Pause;
use crate::error::{Cause, CommandError};
use crate::in_flight::{EntryWatch, EntryWord};
use crate::isolation::state::{State, WATCHED};
use crate::plugin::CallStage;
use crate::request::RequestContext;

/// An admitted call whose holder does the work itself. It holds a permit, a ticket of the breaker
/// and a deadline. [`Command::admit`](crate::Command::admit) returns an entry.
///
/// [`verdict`](Entry::verdict) reports the outcome, once, usually when the head of a response
/// arrives. The latency is measured until then. Dropping the entry gives the permit back, usually
/// after the last byte. So a client that reads slowly holds a permit and does not change the
/// latency.
///
/// An entry that is dropped without a verdict counts as cancelled; if its call was a probe, the
/// breaker opens again. At its deadline the call is reported as timed out, whether or not the holder
/// does anything. From then on until it is dropped, it counts as
/// [overstaying](crate::CommandSnapshot::overstaying), and so does an entry after
/// [`cancel`](Entry::cancel).
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
    /// The observer, the request whose log the call is written into, and the span, if there are any.
    watch: Option<Arc<EntryWatch>>,
    /// `true` once a waker was stored for the timer.
    is_listening: bool,
}

const HAS_ADMISSION: &str = "only `drop` takes the admission";

/// Which side ended a call whose holder reports it.
enum Stopped {
    /// The holder, before the deadline.
    InTime,
    /// The holder, after the deadline: the timer had not noticed yet.
    Late,
    /// The timer, which reports the call.
    Expired,
}

impl Entry {
    /// Reports how the call ended. Stops its timeout, records its latency, and updates the breaker
    /// and the adaptive limit. The permit is held until the entry is dropped.
    ///
    /// Returns `true` if the verdict counts. It does not count after an earlier verdict or
    /// [`cancel`](Entry::cancel). It does not count after the deadline either: the call then counts
    /// as timed out.
    pub fn verdict(&self, verdict: impl Into<Verdict>) -> bool {
        let verdict = verdict.into();
        let (stopped, now) = self.stop(verdict.into());
        self.counts(stopped, verdict.into(), now)
    }

    /// Does what [`verdict`](Entry::verdict) does, for a holder that shares the entry with nobody:
    /// without the exchange that decides between two verdicts.
    #[doc(hidden)]
    pub fn verdict_alone(&mut self, verdict: impl Into<Verdict>) -> bool {
        let verdict = verdict.into();
        let (stopped, now) = self.stop_alone(verdict);
        self.counts(stopped, verdict.into(), now)
    }

    /// Does what [`verdict`](Entry::verdict) does, without a sample for the adaptive limit: for a
    /// call that does not say how long the dependency takes. `None` means that there was nothing to
    /// call: the call counts as failed, but not for the breaker.
    #[doc(hidden)]
    pub fn verdict_unsampled(&self, verdict: Option<Verdict>) -> bool {
        let (stopped, now) = self.stop(Sample::None);
        let ended = verdict.map_or(Ended::Unserved, Ended::from);
        self.counts(stopped, ended, now)
    }

    /// Leaves this much out of the time of the call, because its caller has used it: out of the
    /// latency, the slow calls of the breaker and the sample of the adaptive limit. The deadline
    /// stays. Has no effect on a call that its timer ends. For holders that give a verdict: an error of
    /// the call would name the shorter time.
    #[doc(hidden)]
    pub fn leave_out(&mut self, used: Duration) {
        if let Some(call) = &mut self.call {
            call.leave_out(as_nanos(used));
        }
    }

    /// Stops the timeout of the call, if this is the first report, and reads the clock.
    #[inline(always)]
    fn stop(&self, sample: Sample) -> (Option<Stopped>, u64) {
        let (state, now) = (&*self.state, self.state.now());
        let finish = || state.stop_entry(self.call(), now, sample);
        (self.word.report(finish), now)
    }

    /// The same for a holder that shares the entry with no other.
    #[inline(always)]
    fn stop_alone(&mut self, verdict: Verdict) -> (Option<Stopped>, u64) {
        let (state, now) = (&*self.state, self.state.now());
        let call = self.call.as_ref().expect(HAS_ADMISSION);
        let finish = || state.stop_entry(call, now, verdict.into());
        (self.word.report_alone(finish), now)
    }

    /// Reports the outcome of a call that its holder has stopped. Returns `true` if the verdict
    /// counts.
    #[inline(always)]
    fn counts(&self, stopped: Option<Stopped>, ended: Ended, now: u64) -> bool {
        let call = self.call();
        match stopped {
            Some(Stopped::InTime) => {
                self.report_outcome(call, ended, now);
                true
            }
            Some(Stopped::Late) => {
                self.report_outcome(call, call.ended_late(), now);
                false
            }
            Some(Stopped::Expired) | None => false,
        }
    }

    /// Reports that the caller has left, and cancels the token of the call. The call counts as
    /// cancelled at once. The permit is held until the entry is dropped, that is, until the work has
    /// really ended; until then the call counts as overstaying.
    ///
    /// Returns `true` if the call counts as cancelled. Has no effect after a verdict. After the
    /// deadline the call counts as timed out.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Event, Isolation};
    ///
    /// let isolation = Isolation::builder().build()?;
    /// let prices: Command = Command::builder("prices").group("catalog").build(&isolation)?;
    /// let entry = prices.admit().expect("there is room");
    /// assert!(entry.cancel()); // the client has disconnected
    /// assert!(entry.token().is_cancelled());
    /// let snapshot = prices.snapshot();
    /// assert_eq!((snapshot.totals[Event::Cancelled], snapshot.overstaying), (1, 1));
    /// drop(entry); // the connection to the dependency is closed
    /// assert_eq!((prices.snapshot().active, prices.snapshot().overstaying), (0, 0));
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn cancel(&self) -> bool {
        let (state, call) = (&*self.state, self.call());
        let flight = &call.flight;
        let seen = || flight.word().look().and_then(|seen| flight.cancel(seen));
        if self.word.report(seen).flatten().is_none() {
            return false;
        }
        let now = state.now();
        state.gate.overstaying.begin(flight.address(), now);
        let token = flight.token();
        token.cancel_without_hooks();
        let ended = self.end_of_unfinished(call, now);
        self.report_outcome(call, ended, now);
        token.run_hooks_to(&state.key, &state.plugins.unhandled);
        ended == Ended::Cancelled
    }

    /// Ends the call because its caller has left, which says nothing about the health of the
    /// dependency, and gives the permit back. The call counts as cancelled, as one whose entry is
    /// dropped. But a probe does not open the breaker again: it frees its slot, and the next call may
    /// be the probe. So callers that leave cannot keep a breaker open.
    ///
    /// An entry that has a verdict, or has timed out, is only dropped.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Event, Isolation};
    ///
    /// let isolation = Isolation::builder().build()?;
    /// let prices: Command = Command::builder("prices").group("catalog").build(&isolation)?;
    /// prices.admit().expect("there is room").abandon(); // the client has disconnected
    /// assert_eq!(prices.snapshot().totals[Event::Cancelled], 1);
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    pub fn abandon(mut self) {
        self.let_go(Ended::Abandoned);
    }

    /// Ends the call with a verdict and gives the permit back.
    ///
    /// # Errors
    ///
    /// Returns the error of a call that timed out, or that was stopped with its isolation, before
    /// the verdict. An entry that already has a verdict is only dropped.
    pub fn end<E>(mut self, verdict: impl Into<Verdict>) -> Result<(), CommandError<E>> {
        let verdict = verdict.into();
        let (stopped, now) = self.stop_alone(verdict);
        self.settled(stopped, verdict, now)
    }

    /// Does what [`end`](Entry::end) does, and keeps the permit until the entry is dropped. For
    /// adapters that own the work of the call, and drop it if it was too late.
    ///
    /// # Errors
    ///
    /// The same as those of `end`.
    #[doc(hidden)]
    pub fn settle<E>(&self, verdict: Verdict) -> Result<(), CommandError<E>> {
        let (stopped, now) = self.stop(verdict.into());
        self.settled(stopped, verdict, now)
    }

    /// Reports the outcome of a call that was stopped in time, or returns the error of one that was
    /// not.
    fn settled<E>(
        &self,
        stopped: Option<Stopped>,
        verdict: Verdict,
        now: u64,
    ) -> Result<(), CommandError<E>> {
        match stopped {
            None => Ok(()),
            Some(Stopped::InTime) => {
                self.report_outcome(self.call(), verdict.into(), now);
                Ok(())
            }
            Some(stopped) => Err(self.ended_late(&stopped, now)),
        }
    }

    /// Returns a future that is ready when the timeout of the call has passed once more, counted from
    /// now, or when the isolation is stopped. Its output is the cause with which to end a wait. For
    /// adapters that wait for the dependency after the verdict.
    #[doc(hidden)]
    pub fn stall_limit<E>(&self) -> impl Future<Output = Cause<E>> + Send + Sync + use<E> {
        let (state, timeout) = (&*self.state, self.call().timeout);
        let alarms = state.alarms.clone();
        let at = state.now().saturating_add(timeout);
        let pause = Pause::until(&alarms, &state.aside, at);
        async move {
            pause.await;
            match alarms.is_closed() {
                true => Cause::Cancelled,
                false => late(timeout),
            }
        }
    }

    /// Ends the call with this cause, gives the permit back, and returns the error for the caller.
    /// [`Cause::event`] returns the event that is counted. If the call has already timed out, it
    /// counts as timed out, and so does the error.
    pub fn fail<E>(self, cause: Cause<E>) -> CommandError<E> {
        let sample = match cause {
            Cause::TimedOut(_) => Sample::Dropped,
            _ => Sample::IfLate,
        };
        let (stopped, now) = self.stop(sample);
        match stopped {
            None => CommandError::new(&self.state.key, cause),
            Some(Stopped::InTime) => self.ended_by(Ended::by(&cause), cause, now),
            Some(stopped) => self.ended_late(&stopped, now),
        }
    }

    /// Returns the error of a call that was stopped too late.
    fn ended_late<E>(&self, stopped: &Stopped, now: u64) -> CommandError<E> {
        let call = self.call();
        match stopped {
            Stopped::Expired => self.ended_by_timer(now),
            _ => self.ended_by(call.ended_late(), call.late(), now),
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

    /// Returns `true` if the call is a probe of a breaker that is half open.
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.call().ticket.parts().1
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
    pub fn enter_span(&self) -> Option<Entered<'_>> {
        self.watch().map(|watch| watch.span.enter())
    }

    fn call(&self) -> &Admission {
        self.call.as_ref().expect(HAS_ADMISSION)
    }

    /// Sets what receives the events of the call. Not in the constructor, which would keep the parts
    /// of the entry in memory for it.
    #[cold]
    #[inline(never)]
    fn set_watch(&mut self, observer: Option<Observer>, context: Option<RequestContext>) {
        let watch = Arc::new(EntryWatch {
            observer,
            context,
            span: self.state.span(),
        });
        let call = self.call();
        if !call.flight.set_watch(&watch) {
            let state = &*self.state;
            let record = CallRecord::until(call.start, state.now());
            state.tell_watch_late(&watch, record, call.ended_late());
        }
        self.watch = Some(watch);
    }

    fn watch(&self) -> Option<&EntryWatch> {
        self.watch.as_deref()
    }

    /// Reports the outcome to the breaker, the metrics and the listeners.
    #[inline(always)]
    fn report_outcome(&self, call: &Admission, ended: Ended, now: u64) {
        let state = &*self.state;
        state.report(call.ticket, call.times(now), ended);
        if ended != Ended::Success || self.watch.is_some() || state.flags() & WATCHED != 0 {
            let record = CallRecord::until(call.start, now);
            state.end_entry(self.watch(), record, ended, false);
        }
    }

    /// Reports the outcome of a call that ended with an error, and returns the error.
    #[cold]
    fn ended_by<E>(&self, ended: Ended, cause: Cause<E>, now: u64) -> CommandError<E> {
        let (state, call) = (&*self.state, self.call());
        state.report(call.ticket, call.times(now), ended);
        let record = CallRecord::until(call.start, now);
        let events = state.end_entry(self.watch(), record, ended, true);
        CommandError::new(&state.key, cause).with_events(events)
    }

    /// Returns the error of a call that the timer has reported.
    #[cold]
    fn ended_by_timer<E>(&self, now: u64) -> CommandError<E> {
        let (state, call) = (&*self.state, self.call());
        let mut record = CallRecord::until(call.start, now);
        record.events.add(call.ended_late().event());
        let observer = self.watch().and_then(|watch| watch.observer.as_ref());
        state.thrown(&mut record, observer);
        CommandError::new(&state.key, call.late()).with_events(record.events)
    }

    /// Returns the outcome of a call that its holder ended without a verdict. The clock decides
    /// whether the call is late, as for a verdict: the timer may expire a late call a moment after
    /// its deadline. Passes the latency of a late call to the adaptive limit.
    #[cold]
    fn end_of_unfinished(&self, call: &Admission, now: u64) -> Ended {
        if now < call.deadline() {
            return Ended::Cancelled;
        }
        let took = now.saturating_sub(call.began);
        self.state.gate.sample(now, took, true);
        call.ended_late()
    }

    /// Gives the permit back. A call without a report ended like `unreported`.
    #[inline]
    fn let_go(&mut self, unreported: Ended) {
        let Some(call) = self.call.take() else {
            return;
        };
        if self.is_listening || self.watch.is_some() {
            call.flight.clear_listener();
        }
        let state = &*self.state;
        if self.word.is_reported() {
            state.gate.give_back(|| state.now());
        } else {
            self.end_unreported(&call, unreported);
        }
        if call.flight.word().is_idle() {
            call.flight.clear_entry();
        } else {
            // The call was ended by the timer or by `cancel`.
            state.gate.overstaying.end(call.flight.address());
        }
        state.alarms.keep_flight(call.flight);
    }

    /// Gives back the permit of a call that ends without a report, and reports the call, unless the
    /// timer has.
    #[cold]
    fn end_unreported(&self, call: &Admission, unreported: Ended) {
        let state = &*self.state;
        let now = state.now();
        if !call.flight.finish() {
            state.release(now);
            return;
        }
        let token = call.flight.token();
        token.cancel_without_hooks();
        let ended = match self.end_of_unfinished(call, now) {
            Ended::Cancelled => unreported,
            late => late,
        };
        state.release(now);
        token.run_hooks_to(&state.key, &state.plugins.unhandled);
        self.report_outcome(call, ended, now);
    }
}

impl State {
    /// Stops the timeout of an entry, and passes its latency to the adaptive limit.
    #[inline(always)]
    fn stop_entry(&self, call: &Admission, now: u64, sample: Sample) -> Stopped {
        if !call.flight.finish() {
            return Stopped::Expired;
        }
        let in_time = now < call.deadline();
        let is_sample = match sample {
            Sample::None => false,
            Sample::IfLate => !in_time,
            Sample::Latency | Sample::Dropped => true,
        };
        if is_sample {
            let took = now.saturating_sub(call.began);
            let is_dropped = !in_time || matches!(sample, Sample::Dropped);
            self.gate.sample(now, took, is_dropped);
        }
        match in_time {
            true => Stopped::InTime,
            false => Stopped::Late,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.let_go(Ended::Cancelled);
    }
}

debug_fields!(Entry, this => command: this.state.key, is_reported: this.word.is_reported());

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Admits a call as an entry. Does not wait for a permit, and tries no fallback.
    #[inline]
    pub(super) fn enter(
        &self,
        maybe_options: MaybeOptions<'_, T, E>,
    ) -> Result<Entry, CommandError<E>> {
        let state = &self.state;
        let (flags, start) = (state.flags(), state.now());
        let call = match state.admit_as::<true>(flags, start, maybe_options.terms(state)) {
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
        let context = maybe_options.context_to_log(flags);
        let observer = maybe_options.observer();
        let mut entry = Entry {
            state: Arc::clone(state),
            call: Some(call),
            word: EntryWord::default(),
            watch: None,
            is_listening: false,
        };
        if context.is_some() || observer.is_some() || trace::wants_spans() {
            entry.set_watch(observer.cloned(), context);
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
        self.state.book_denial(&denied, now);
        let record = CallRecord::until(start, now);
        self.failed_at_once(record, options, denied.into_cause())
    }
}
