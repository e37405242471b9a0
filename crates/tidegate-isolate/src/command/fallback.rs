//! The fallback of a call that failed: when it is tried, what it receives, and how it is counted.
//!
//! A fallback receives the error with its cause, and runs in the request of the call. It runs only
//! if fallbacks are enabled and a fallback permit is free. A panic in it counts as a failure of the
//! fallback.
//!
//! A fallback may be a future; see `running_fallback`. A call that is a future itself must not
//! block for it. Such a call sets `CallOptions::defers`: then `failed` returns the error without a
//! fallback and leaves the record of the call in its options, and the call's own future goes on
//! with [`Shared::fall_back_async`].

use super::fallback_fn::FallbackOutput;
use super::options::CallOptions;
use super::report::CallRecord;
use super::running_fallback::{FallbackInFuture, RunningFallback};
use super::shared::Shared;
use crate::error::{CommandError, FallbackError, contain};
use crate::event::Event;
use crate::isolation::state::FALLS_BACK;
use crate::plugin::CallStage;
use crate::request::{Answer, RequestContext};

/// A fallback that was started.
enum StartedFallback<'a, T, E> {
    Ended(Result<T, FallbackError<E>>),
    Running(RunningFallback<'a, T, E>),
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Tries the fallback on this thread. Blocks for one that is a future.
    pub(super) fn fall_back(
        &self,
        record: &mut CallRecord,
        options: &mut CallOptions<T, E>,
        error: CommandError<E>,
    ) -> Answer<T, E> {
        let answer = match self.start_fallback(options, &error) {
            Ok(StartedFallback::Ended(answer)) => answer,
            Ok(StartedFallback::Running(running)) => running.wait(options.context.as_ref()),
            Err(refused) => Err(refused),
        };
        self.end_fallback(record, options, error, answer)
    }

    /// Returns `true` if the call defers a fallback that is a future.
    pub(super) fn defers_fallback(&self, options: &CallOptions<T, E>) -> bool {
        options.defers && self.has_async_fallback(options)
    }

    /// Returns `true` if the fallback of the call is a future.
    pub(super) fn has_async_fallback(&self, options: &CallOptions<T, E>) -> bool {
        match options
            .rare
            .as_ref()
            .and_then(|rare| rare.fallback.as_ref())
        {
            Some(own) => own.is_async(),
            None => self.fallback.as_ref().is_some_and(|it| it.is_async()),
        }
    }

    /// Awaits the fallback that a call has deferred, ends the call, and completes the calls that
    /// share its run. Returns `error` if the call has deferred none.
    #[cold]
    pub(super) async fn fall_back_async(
        &self,
        options: &mut CallOptions<T, E>,
        error: CommandError<E>,
    ) -> Answer<T, E> {
        let Some(mut record) = options.rare.as_mut().and_then(|rare| rare.deferred.take()) else {
            return Err(error);
        };
        let within = options.enter_run();
        let started = self.start_fallback(options, &error);
        drop(within);
        let answer = match started {
            Ok(StartedFallback::Ended(answer)) => answer,
            Ok(StartedFallback::Running(running)) => {
                FallbackInFuture::new(self, options, &mut record, running).await
            }
            Err(refused) => Err(refused),
        };
        let within = options.enter_run();
        let answer = self.end_fallback(&mut record, options, error, answer);
        let answer = self.finish(record, options, answer);
        drop(within);
        if let Some(owner) = options.take_owner() {
            owner.complete_copies(&answer);
        }
        answer
    }

    /// Counts what became of the fallback, and returns what the caller gets.
    fn end_fallback(
        &self,
        record: &mut CallRecord,
        options: &CallOptions<T, E>,
        error: CommandError<E>,
        answer: Result<T, FallbackError<E>>,
    ) -> Answer<T, E> {
        let event = match &answer {
            Ok(_) => Event::FallbackSuccess,
            Err(FallbackError::Disabled) => Event::FallbackDisabled,
            Err(FallbackError::Missing) => Event::FallbackMissing,
            Err(FallbackError::Rejected | FallbackError::Waiting) => Event::FallbackRejection,
            Err(_) => Event::FallbackFailure,
        };
        let stages: &[CallStage] = match &answer {
            Ok(_) => &[
                CallStage::FallbackEmit,
                CallStage::Emit,
                CallStage::FallbackSuccess,
            ],
            Err(FallbackError::Disabled | FallbackError::Missing | FallbackError::Rejected) => &[],
            Err(_) => &[CallStage::FallbackError],
        };
        if !stages.is_empty() {
            // The fallback may have run for long, so the clock is read again.
            record.now = self.state.now();
        }
        self.emit(record, options, event);
        for stage in stages {
            let _ = self.state.hook(*stage);
        }
        answer.map_err(|fallback| error.with_fallback(fallback))
    }

    /// Calls the function of the fallback, if the call may have one.
    fn start_fallback(
        &self,
        options: &mut CallOptions<T, E>,
        error: &CommandError<E>,
    ) -> Result<StartedFallback<'_, T, E>, FallbackError<E>> {
        let state = &*self.state;
        if state.flags() & FALLS_BACK == 0 {
            return Err(FallbackError::Disabled);
        }
        let own = options.rare.as_mut().and_then(|rare| rare.fallback.take());
        if own.is_none() && self.fallback.is_none() {
            return Err(FallbackError::Missing);
        }
        let Some(permit) = state.fallback_permits.try_borrow() else {
            return Err(FallbackError::Rejected);
        };
        state
            .hook(CallStage::FallbackStart)
            .map_err(FallbackError::Panicked)?;
        let entered = options.context.as_ref().map(RequestContext::enter);
        let called = contain(|| match (own, &self.fallback) {
            (Some(own), _) => Some(own.call(error)),
            (None, Some(fallback)) => Some(fallback.call(error)),
            (None, None) => None,
        });
        drop(entered);
        Ok(StartedFallback::Ended(match called {
            Ok(Some(FallbackOutput::Ready(Ok(value)))) => Ok(value),
            Ok(Some(FallbackOutput::Ready(Err(error)))) => Err(FallbackError::Failed(error)),
            Ok(Some(FallbackOutput::Future(future))) => {
                let timeout = options.rare.as_ref().and_then(|rare| rare.fallback_timeout);
                let timeout = timeout.or_else(|| state.config().fallback_timeout);
                let running = RunningFallback::new(state, permit, future, timeout);
                return Ok(StartedFallback::Running(running));
            }
            Ok(None) => Err(FallbackError::Missing),
            Err(message) => Err(FallbackError::Panicked(message)),
        }))
    }
}
