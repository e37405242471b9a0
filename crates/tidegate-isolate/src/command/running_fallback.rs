//! A fallback that is a future: how it is waited for, and how its time ends.
//!
//! It holds its permit until it is ready or its timeout has passed; then the future is dropped, and
//! the permit comes back. A call that is a future itself polls it in its own task. Any other call
//! blocks for it, on the thread on which a blocking fallback would run. On a thread that must not
//! block it is polled once: if it is not ready then, the fallback is refused.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tidegate_core::Parker;
use tidegate_core::internal::{as_nanos, check_may_block, discard};
use tidegate_core::permits::PermitRef;

use super::fallback_fn::FallbackFuture;
use super::options::CallOptions;
use super::report::CallRecord;
use super::shared::Shared;
use crate::alarm::Pause;
use crate::error::{FallbackError, contain};
use crate::isolation::state::State;
use crate::plugin::CallStage;
use crate::request::RequestContext;

/// A fallback that is a future, with its permit. Dropping it drops the future first.
pub(super) struct RunningFallback<'a, T, E> {
    state: &'a State,
    /// None once it was dropped.
    future: Option<FallbackFuture<T, E>>,
    /// The longest time that it may take, from now on.
    timeout: Option<Duration>,
    _permit: PermitRef<'a>,
}

impl<'a, T, E> RunningFallback<'a, T, E> {
    pub(super) fn new(
        state: &'a State,
        permit: PermitRef<'a>,
        future: FallbackFuture<T, E>,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            state,
            future: Some(future),
            timeout,
            _permit: permit,
        }
    }

    /// Polls the future in the request of the call.
    fn poll(
        &mut self,
        request: Option<&RequestContext>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T, FallbackError<E>>> {
        let Some(future) = &mut self.future else {
            unreachable!("a fallback that has ended is not polled again");
        };
        let polled = contain(|| {
            let _entered = request.map(RequestContext::enter);
            future.as_mut().poll(context)
        });
        Poll::Ready(match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(value))) => Ok(value),
            Ok(Poll::Ready(Err(error))) => Err(FallbackError::Failed(error)),
            Err(message) => Err(FallbackError::Panicked(message)),
        })
    }

    /// Blocks until the future is ready or its timeout has passed.
    pub(super) fn wait(mut self, request: Option<&RequestContext>) -> Result<T, FallbackError<E>> {
        let clock = self.state.alarms.clock().clock();
        let start = clock.nanos();
        let end = self
            .timeout
            .map(|after| (start.saturating_add(as_nanos(after)), after));
        let parker = Parker::new();
        let waker = Waker::from(&parker);
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(answer) = self.poll(request, &mut context) {
                return answer;
            }
            if check_may_block(None).is_err() {
                return Err(FallbackError::Waiting);
            }
            if let Some((deadline, after)) = end
                && clock.nanos() >= deadline
            {
                return Err(FallbackError::TimedOut(after));
            }
            clock.park_until(&parker, end.map(|(deadline, _)| deadline));
        }
    }
}

impl<T, E> Drop for RunningFallback<'_, T, E> {
    fn drop(&mut self) {
        // Before the permit is given back: then the fallback has really ended.
        discard(self.future.take());
    }
}

/// A fallback that the future of its call awaits. Dropping it ends the call as cancelled: nothing
/// more is counted.
pub(super) struct FallbackInFuture<'a, T: Send + 'static, E: Send + 'static> {
    shared: &'a Shared<T, E>,
    options: &'a mut CallOptions<T, E>,
    record: &'a mut CallRecord,
    /// None once it has ended.
    running: Option<RunningFallback<'a, T, E>>,
    /// None if it has no timeout.
    end: Option<(Pause, Duration)>,
}

impl<'a, T: Send + 'static, E: Send + 'static> FallbackInFuture<'a, T, E> {
    pub(super) fn new(
        shared: &'a Shared<T, E>,
        options: &'a mut CallOptions<T, E>,
        record: &'a mut CallRecord,
        running: RunningFallback<'a, T, E>,
    ) -> Self {
        let state = &*shared.state;
        // Once the isolation is shut down, nothing times out any more.
        let timeout = running.timeout.filter(|_| !state.alarms.is_closed());
        let end = timeout.map(|after| {
            let deadline = state.now().saturating_add(as_nanos(after));
            let pause = Pause::until(&state.alarms, &state.aside, deadline);
            (pause, after)
        });
        Self {
            shared,
            options,
            record,
            running: Some(running),
            end,
        }
    }

    /// Is ready when the time is over. The pause also ends when the isolation is shut down, and the
    /// fallback with it.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<FallbackError<E>> {
        let Some((pause, after)) = &mut self.end else {
            return Poll::Pending;
        };
        ready!(Pin::new(pause).poll(context));
        Poll::Ready(FallbackError::TimedOut(*after))
    }
}

impl<T: Send + 'static, E: Send + 'static> Future for FallbackInFuture<'_, T, E> {
    type Output = Result<T, FallbackError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(running) = &mut this.running else {
            unreachable!("a fallback that has ended is not polled again");
        };
        let within = this.options.enter_run();
        let polled = running.poll(this.options.context.as_ref(), context);
        drop(within);
        let answer = match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending => Err(ready!(this.poll_end(context))),
        };
        this.running = None;
        this.end = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for FallbackInFuture<'_, T, E> {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        // The calls that share the run are completed first: the next call with the key runs anew.
        drop(self.options.take_owner());
        drop(running);
        let state = &*self.shared.state;
        let _ = state.hook(CallStage::Cancelled);
        self.record.now = state.now();
        self.shared.log(self.record, self.options);
    }
}
