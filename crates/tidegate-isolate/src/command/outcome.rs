//! The result that the caller receives, however the work ran: a value, or an error with its cause
//! after the fallback was tried.

use std::time::Duration;

use tidegate_core::internal::discard;

use super::options::{CallOptions, MaybeOptions};
use super::report::CallRecord;
use super::shared::Shared;
use super::traced::outcome;
use crate::error::{Cause, CommandError, Rejection, contain};
use crate::event::Event;
use crate::isolation::state::{FALLS_BACK, LOGS, WATCHED};
use crate::metrics::PlainRejection;
use crate::plugin::CallStage;
use crate::request::RequestContext;

/// Returns the cause of a call that was ended before its work: the call timed out, or, if it has no
/// timeout, all calls were stopped.
pub(super) fn late<E>(timeout: u64) -> Cause<E> {
    match timeout {
        u64::MAX => Cause::Cancelled,
        _ => Cause::TimedOut(Duration::from_nanos(timeout)),
    }
}

/// How the work of a call ended.
pub(super) enum WorkEnd<T, E> {
    Value(T),
    Error(E),
    /// The work panicked, or a hook rejected the call just before it. Both count as a failure of the
    /// work.
    Panic(String),
}

impl<T, E> WorkEnd<T, E> {
    /// Runs the work, which may begin with a hook that rejects the call. Contains a panic.
    #[inline(always)]
    pub(super) fn of(work: impl FnOnce() -> Result<Result<T, E>, String>) -> Self {
        match contain(work) {
            Ok(Ok(answer)) => answer.into(),
            Ok(Err(message)) | Err(message) => Self::Panic(message),
        }
    }
}

impl<T, E> From<Result<T, E>> for WorkEnd<T, E> {
    #[inline(always)]
    fn from(answer: Result<T, E>) -> Self {
        match answer {
            Ok(value) => Self::Value(value),
            Err(error) => Self::Error(error),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Returns `true` if a hook, a listener, an observer or a log receives a call that succeeded.
    #[inline]
    pub(super) fn is_watched(&self, flags: u32, maybe_options: &MaybeOptions<'_, T, E>) -> bool {
        flags & WATCHED != 0
            || maybe_options.observer().is_some()
            || (flags & LOGS != 0
                && (maybe_options.context().is_some() || RequestContext::is_entered()))
    }

    /// Returns `true` if a rejection only returns its error: there is no fallback, and no hook,
    /// listener, observer or log receives it.
    #[inline(always)]
    pub(super) fn is_plain(&self, flags: u32, maybe_options: &MaybeOptions<'_, T, E>) -> bool {
        flags & (FALLS_BACK | WATCHED) == FALLS_BACK
            && self.fallback.is_none()
            && maybe_options.is_plain()
            && (flags & LOGS == 0 || !RequestContext::is_entered())
    }

    /// Counts a rejection for which [`Shared::is_plain`] returns `true`, and returns its error. Has
    /// the same effect as [`Shared::failed`], with a single count.
    #[inline(always)]
    pub(super) fn refused_plainly(
        &self,
        now: u64,
        plain: PlainRejection,
        cause: Cause<E>,
    ) -> Result<T, CommandError<E>> {
        self.state.metrics.count_plain_rejection(now, plain);
        self.state.trace_rejection(now, &cause);
        let error = CommandError::plain(&self.state.key, cause, plain.events());
        Err(error)
    }

    /// Calls the hooks of work that returned a value, on the thread where the work ran.
    pub(super) fn emitted(&self) {
        for stage in [
            CallStage::ExecutionEmit,
            CallStage::Emit,
            CallStage::ExecutionSuccess,
        ] {
            let _ = self.state.hook(stage);
        }
    }

    /// Notifies listeners, observer and hooks of a call that succeeded, and logs it. The success
    /// was already counted, and [`Shared::emitted`] was already called.
    #[cold]
    pub(super) fn succeeded(&self, mut record: CallRecord, options: &mut CallOptions<T, E>) {
        record.events.add(Event::Success);
        self.notify(options, Event::Success);
        let _ = self.state.hook(CallStage::Success);
        self.log(&record, options);
    }

    /// Ends a call that failed. The fallback may give a value instead.
    #[cold]
    pub(super) fn failed(
        &self,
        mut record: CallRecord,
        options: &mut CallOptions<T, E>,
        cause: Cause<E>,
    ) -> Result<T, CommandError<E>> {
        self.state.trace_rejection(record.now, &cause);
        self.emit(&mut record, options, cause.event());
        if let Cause::Rejected(Rejection::Threshold) = cause {
            self.emit(&mut record, options, Event::ThresholdReached);
        }
        let error = CommandError::new(&self.state.key, cause).with_events(record.events);
        if options.is_attempt {
            self.log(&record, options);
            return Err(error);
        }
        self.failed_with(record, options, error)
    }

    /// Ends a call that was made incorrectly, before its admission. The call is counted, and no
    /// fallback is tried.
    #[cold]
    pub(super) fn misused(&self, options: &CallOptions<T, E>, cause: Cause<E>) -> CommandError<E> {
        self.failed_at_once(CallRecord::new(self.state.now()), options, cause)
    }

    /// Ends a call that was not admitted, and for which no fallback is tried. An error of an attempt
    /// reaches the wrapper first, which tells what reaches the caller.
    #[cold]
    pub(super) fn failed_at_once(
        &self,
        mut record: CallRecord,
        options: &CallOptions<T, E>,
        cause: Cause<E>,
    ) -> CommandError<E> {
        self.state.trace_rejection(record.now, &cause);
        self.emit(&mut record, options, cause.event());
        if !options.is_attempt {
            self.thrown(&mut record, options);
            let _ = self.state.hook(CallStage::Error);
        }
        self.log(&record, options);
        CommandError::new(&self.state.key, cause).with_events(record.events)
    }

    /// Ends a call with the error of its last attempt. The fallback may give a value instead.
    pub(super) fn fall_back_from(
        &self,
        options: &mut CallOptions<T, E>,
        error: CommandError<E>,
    ) -> Result<T, CommandError<E>> {
        let record = CallRecord::after_attempt(self.state.now(), error.events());
        self.failed_with(record, options, error)
    }

    /// Ends a call with this error, unless its fallback returns a value or its future has to await
    /// one.
    fn failed_with(
        &self,
        mut record: CallRecord,
        options: &mut CallOptions<T, E>,
        error: CommandError<E>,
    ) -> Result<T, CommandError<E>> {
        if !error.cause().allows_fallback() {
            return self.finish(record, options, Err(error));
        }
        if self.defers_fallback(options) {
            options.rare().deferred = Some(record);
            return Err(error);
        }
        let answer = self.fall_back(&mut record, options, error);
        self.finish(record, options, answer)
    }

    /// Reports the end of a call whose work returned no result.
    pub(super) fn finish(
        &self,
        mut record: CallRecord,
        options: &mut CallOptions<T, E>,
        answer: Result<T, CommandError<E>>,
    ) -> Result<T, CommandError<E>> {
        if answer.is_err() {
            let cancelled = record.events.contains(Event::Cancelled);
            if !cancelled {
                self.thrown(&mut record, options);
                let _ = self.state.hook(CallStage::Error);
            }
        } else {
            let _ = self.state.hook(CallStage::Success);
        }
        self.log(&record, options);
        answer.map_err(|error| error.with_events(record.events))
    }

    /// Returns the cause for work that failed or was late. `timeout` is the timeout in nanoseconds
    /// if the call timed out.
    pub(super) fn cause_of(&self, result: WorkEnd<T, E>, timeout: Option<u64>) -> Cause<E> {
        if let Some(timeout) = timeout {
            // No caller receives the result. Its `Drop` is user code: a panic there must not stop
            // the end.
            discard(result);
            return late(timeout);
        }
        match result {
            WorkEnd::Error(error) => {
                let is_bad = |error: &E| {
                    let predicate = self.is_bad_request.as_ref();
                    let is_bad = predicate.map(|is_bad| contain(|| is_bad(error)));
                    if let Some(Err(message)) = &is_bad {
                        let state = &*self.state;
                        state.plugins.panicked(&state.key, message);
                    }
                    is_bad.is_some_and(|is_bad| is_bad.unwrap_or(false))
                };
                if is_bad(&error) {
                    Cause::BadRequest(error)
                } else {
                    Cause::Failed(error)
                }
            }
            WorkEnd::Panic(message) => Cause::Panicked(message),
            // Not reached: a value that came in time is a success, and the callers handle it.
            WorkEnd::Value(_) => Cause::Cancelled,
        }
    }

    /// Converts the result of the work into the result that the caller receives.
    pub(super) fn end_with(
        &self,
        options: &mut CallOptions<T, E>,
        start: u64,
        raw: Result<T, Cause<E>>,
    ) -> Result<T, CommandError<E>> {
        if !options.has_span() {
            return self.end_untraced(options, start, raw);
        }
        let span = options.take_span();
        let entered = span.enter();
        let answer = self.end_untraced(options, start, raw);
        drop(entered);
        span.record("outcome", outcome(&answer));
        answer
    }

    fn end_untraced(
        &self,
        options: &mut CallOptions<T, E>,
        start: u64,
        raw: Result<T, Cause<E>>,
    ) -> Result<T, CommandError<E>> {
        match raw {
            Ok(value) => {
                if self.is_watched(self.state.flags(), &MaybeOptions(Some(options))) {
                    self.succeeded(CallRecord::until(start, self.state.now()), options);
                }
                Ok(value)
            }
            Err(cause) => self.failed(CallRecord::until(start, self.state.now()), options, cause),
        }
    }
}
