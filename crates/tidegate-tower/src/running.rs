//! A call from its admission to the head of its response.
//!
//! The task that polls the call always ends it: with the result of the inner service, when it finds
//! that the call has expired, or by dropping the future. The timer only expires the call and wakes
//! the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tidegate_core::Blocking;
use tidegate_core::internal::contain;
use tidegate_isolate::internal::{CallTerms, UntypedCommand};
use tidegate_isolate::{Cause, CommandError, Entry, RequestContext, Verdict};
use tower_service::Service;

use crate::classify::Classify;
use crate::held::HeldCall;

pin_project! {
    /// A call that was admitted, or the error with which it ended at once.
    ///
    /// Dropping it drops the work first and then the entry: the permit is held until the work has
    /// ended. The call then counts as cancelled.
    pub(crate) struct Running<F, C, E> {
        // `None` once the work has ended.
        #[pin]
        future: Option<F>,
        // `None` once the call has ended. After `future`, so that it is dropped later.
        entry: Option<Entry>,
        // The error of a call that has ended before the first poll.
        error: Option<CommandError<E>>,
        command: UntypedCommand,
        classify: Arc<C>,
        // The request that the call belongs to, if the terms name one. It is current while the service
        // is called and polled.
        context: Option<RequestContext>,
    }
}

impl<F, C, E: Send + 'static> Running<F, C, E> {
    /// Admits a call, and calls the service if it was admitted.
    pub(crate) fn start<S, Req>(
        command: &UntypedCommand,
        classify: &Arc<C>,
        terms: CallTerms,
        service: &mut S,
        request: Req,
    ) -> Self
    where
        S: Service<Req, Future = F>,
    {
        let context = terms.context.clone();
        let started = command.admit(terms).and_then(|entry| {
            let called = contain(|| {
                let _entered = entry.enter_span();
                within(context.as_ref(), || service.call(request))
            });
            match called {
                Ok(future) => Ok((future, entry)),
                Err(panic) => Err(entry.fail(Cause::Panicked(panic.message().to_owned()))),
            }
        });
        let (running, error) = match started {
            Ok(running) => (Some(running), None),
            Err(error) => (None, Some(error)),
        };
        let (future, entry) = running.unzip();
        Self {
            future,
            entry,
            error,
            command: command.clone(),
            classify: Arc::clone(classify),
            context,
        }
    }

    /// Is ready with the response and its call, or with the error of the call.
    ///
    /// # Panics
    ///
    /// If it is polled after it was ready, as futures do.
    pub(crate) fn poll_head<R>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(R, HeldCall), CommandError<E>>>
    where
        F: Future<Output = Result<R, E>>,
        C: Classify<R, E>,
    {
        let mut this = self.project();
        if let Some(error) = this.error.take() {
            return Poll::Ready(Err(error));
        }
        let work = (this.future.as_mut(), this.entry.as_mut());
        let polled = ready!(poll_work(work, this.context.as_ref(), context));
        // Dropped before the permit is given back. Its `Drop` is user code.
        let _ = contain(|| this.future.set(None));
        let entry = this.entry.take().expect("it has not ended before");
        let outcome = match polled {
            Ended::Ready(outcome) => outcome,
            Ended::Panicked(message) => {
                return Poll::Ready(Err(entry.fail(Cause::Panicked(message))));
            }
            Ended::Expired => return Poll::Ready(Err(entry.fail(Cause::Cancelled))),
        };
        let verdict = judge(this.command, &**this.classify, outcome.as_ref());
        Poll::Ready(match outcome {
            Ok(response) if entry.is_expired() => {
                // Its body is user code, too, and part of the work.
                let _ = contain(|| drop(response));
                Err(entry.fail(Cause::Cancelled))
            }
            Ok(response) => Ok((response, HeldCall::new(entry, verdict))),
            Err(error) => Err(failed(this.command, entry, verdict, error)),
        })
    }
}

/// How the work of a call ended.
enum Ended<T> {
    Ready(T),
    Panicked(String),
    Expired,
}

/// Polls the work. Is ready, too, if the call has expired.
fn poll_work<F: Future>(
    work: (Pin<&mut Option<F>>, Option<&mut Entry>),
    request: Option<&RequestContext>,
    context: &mut Context<'_>,
) -> Poll<Ended<F::Output>> {
    let (Some(future), Some(entry)) = (work.0.as_pin_mut(), work.1) else {
        panic!("the future of a call is not polled after it is ready");
    };
    let polled = contain(|| {
        let _entered = entry.enter_span();
        within(request, || future.poll(context))
    });
    match polled {
        Ok(Poll::Ready(outcome)) => Poll::Ready(Ended::Ready(outcome)),
        Ok(Poll::Pending) => entry.poll_expired(context).map(|()| Ended::Expired),
        Err(panic) => Poll::Ready(Ended::Panicked(panic.message().to_owned())),
    }
}

/// Calls the service or its future: in its request, and with blocking waits forbidden.
fn within<R>(request: Option<&RequestContext>, run: impl FnOnce() -> R) -> R {
    let _entered = request.map(RequestContext::enter);
    Blocking::forbid(run)
}

/// Returns the verdict on an outcome. The classifier is user code: if it panics, the panic is
/// reported, and the call counts as a failure.
fn judge<R, E>(
    command: &UntypedCommand,
    classify: &impl Classify<R, E>,
    outcome: Result<&R, &E>,
) -> Verdict {
    contain(|| classify.classify(outcome)).unwrap_or_else(|panic| {
        command.panicked(panic.message());
        Verdict::Failure
    })
}

/// Ends a call whose service returned an error.
fn failed<E>(
    command: &UntypedCommand,
    entry: Entry,
    verdict: Verdict,
    error: E,
) -> CommandError<E> {
    match verdict {
        Verdict::Failure => entry.fail(Cause::Failed(error)),
        Verdict::Ignored => entry.fail(Cause::BadRequest(error)),
        Verdict::Success => match entry.end(Verdict::Success) {
            Ok(()) => CommandError::new(command.key(), Cause::Failed(error)),
            Err(late) => late,
        },
    }
}
