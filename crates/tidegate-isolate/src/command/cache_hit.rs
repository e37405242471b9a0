//! Calls that share the run of another call. Each has a timeout of its own.
//!
//! The run may be older, and may have a longer timeout or none. A call that shares it waits no
//! longer than its own timeout, and then ends like any call that timed out. The run continues for
//! the other callers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tidegate_core::internal::discard;
use tidegate_core::{CancelToken, Task};
use tidegate_promise::Completion;

use super::installed_context::InstalledContext;
use super::options::CallOptions;
use super::outcome::late;
use super::report::CallRecord;
use super::shared::Shared;
use crate::alarm::Pause;
use crate::error::{Cause, CommandError, Rejection};
use crate::request::{Answer, RequestContext, SharedAnswer, SharedFuture, take};

/// No timeout.
const NEVER: u64 = u64::MAX;

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Blocks until the shared run has a result or this call times out.
    pub(super) fn wait_for(
        &self,
        options: &mut CallOptions<T, E>,
        mut copies: Box<dyn SharedAnswer<T, E>>,
    ) -> Answer<T, E> {
        let state = &*self.state;
        let (start, timeout) = (state.now(), self.timeout_of(options));
        let flight = state.alarms.take_flight();
        let deadline = start.saturating_add(timeout);
        state.alarms.arm(&flight, deadline, state.aside.id(), true);
        let handle = options.handle().cloned();
        if let Some(handle) = &handle {
            copies.enter(handle, flight.token(), options.is_attempt);
        }
        let answer = copies.wait(flight.token());
        flight.finish();
        state.alarms.keep_flight(flight);
        answer.unwrap_or_else(|| {
            if handle.is_some_and(|handle| handle.is_cancelled()) {
                let record = CallRecord::until(start, state.now());
                return self.failed(record, options, Cause::Cancelled);
            }
            self.ran_out(options, start, timeout)
        })
    }

    /// Blocks until the run that this caller has started has a result, or until the caller leaves it.
    /// The run itself times out, and is counted.
    pub(super) fn wait_out(
        &self,
        copies: Box<dyn SharedAnswer<T, E>>,
        token: &CancelToken,
    ) -> Answer<T, E> {
        let answer = copies.wait(token);
        answer.unwrap_or_else(|| Err(CommandError::new(&self.state.key, Cause::Cancelled)))
    }

    /// Returns a completion of the shared run's result, which also ends if this call times out.
    pub(super) fn listen_to(
        self: &Arc<Self>,
        mut options: CallOptions<T, E>,
        copies: Box<dyn SharedAnswer<T, E>>,
    ) -> Completion<T, CommandError<E>> {
        let state = &*self.state;
        let (start, timeout) = (state.now(), self.timeout_of(&options));
        let handle = options.take_handle();
        if timeout == NEVER || copies.is_done() {
            return copies.completion(handle.as_ref()).0;
        }
        let capacity = state.threads.get().map_or(0, |pool| pool.capacity());
        let Some(place) = state.aside.reserve(capacity) else {
            let cause = Cause::Rejected(Rejection::Backlog);
            return match self.failed(CallRecord::new(start), &mut options, cause) {
                Ok(value) => Completion::succeeded(value),
                Err(error) => Completion::failed(error),
            };
        };
        // Captured now: the fallback may run, and the call may be logged, outside of this request.
        options.context = options.context.or_else(RequestContext::current);
        let captured = state.plugins.capture();
        let (answer, slot) = copies.completion(handle.as_ref());
        let shared = Arc::clone(self);
        let over = Task::named("end of a shared call", move || {
            let _place = place;
            if let Some(promise) = take(&slot) {
                let plugins = &shared.state.plugins;
                let _around = InstalledContext::install(plugins, options.context.clone(), captured);
                let answer = shared.ran_out(&mut options, start, timeout);
                discard(promise.complete(answer));
            }
        });
        let deadline = start.saturating_add(timeout);
        let alarms = state.alarms.clone();
        let alarm = alarms.run_at(deadline, &state.aside, over);
        answer.on_complete(move |_| {
            alarms.cancel(alarm);
        });
        answer
    }

    /// Returns a future of the shared run's result, which is also ready if this call times out.
    pub(super) fn follow(
        self: &Arc<Self>,
        mut options: CallOptions<T, E>,
        copies: Box<dyn SharedAnswer<T, E>>,
    ) -> SharedFuture<T, E> {
        let state = &*self.state;
        let (start, timeout) = (state.now(), self.timeout_of(&options));
        let answer = copies.future(options.handle(), options.is_attempt);
        if timeout == NEVER {
            return answer;
        }
        let (shared, deadline) = (Arc::clone(self), start.saturating_add(timeout));
        let mut pause = Some(Pause::until(&state.alarms, &state.aside, deadline));
        Box::pin(async move {
            let mut answer = pin!(answer);
            let ended = poll_fn(|context| {
                if let Poll::Ready(answer) = answer.as_mut().poll(context) {
                    return Poll::Ready(Some(answer));
                }
                let is_over = pause
                    .as_mut()
                    .is_some_and(|pause| pin!(pause).poll(context).is_ready());
                if is_over {
                    pause = None;
                }
                // The pause also ends if the timer is closed: then the call does not time out.
                match is_over && shared.state.now() >= deadline {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                }
            });
            match ended.await {
                Some(answer) => answer,
                None => {
                    options.defers = true;
                    let answer = shared.ran_out(&mut options, start, timeout);
                    shared.fall_back_if_deferred(&mut options, answer).await
                }
            }
        })
    }

    fn timeout_of(&self, options: &CallOptions<T, E>) -> u64 {
        options.timeout.unwrap_or(self.state.timeout())
    }

    /// Ends a call that timed out before the run that it shares has ended.
    #[cold]
    fn ran_out(&self, options: &mut CallOptions<T, E>, start: u64, timeout: u64) -> Answer<T, E> {
        let record = CallRecord::until(start, self.state.now());
        self.failed(record, options, late(timeout))
    }
}
