//! A call with permits whose work is a future.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_sync::{CancelToken, Permit};

use super::call::{Asked, Options};
use super::outcome::Story;
use super::run::{End, Refusal};
use super::state::{INTERRUPTS, RATED, THREADS, WATCHED};
use super::{Command, CommandError};
use crate::alarm::Flight;
use crate::breaker::{Ticket, Verdict};
use crate::context::RequestContext;
use crate::{Cause, Refused, Stage};

/// The future of [`Command::run_async`]. Admitted when it is first polled; dropping it cancels.
///
/// ```
/// use tidegate_isolate::{Command, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let price = prices.run_async(|_cancel| async { Ok(42) });
/// drop(price); // never polled: nothing was begun
/// assert_eq!(prices.snapshot().active, 0);
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct RunAsync<T: Send + 'static, E: Send + 'static, F, W> {
    command: Command<T, E>,
    stage: Phase<T, E, F, W>,
}

enum Phase<T, E, F, W> {
    New(Options<T, E>, F),
    Running(Box<Flying<T, E>>, Pin<Box<W>>),
    Done,
}

/// What a call holds while its future runs.
struct Flying<T, E> {
    options: Options<T, E>,
    start: u64,
    deadline: u64,
    timeout: u64,
    ticket: Ticket,
    flight: Arc<Flight>,
    permit: Permit,
}

impl<T, E, F, W> RunAsync<T, E, F, W>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(CancelToken) -> W,
    W: Future<Output = Result<T, E>>,
{
    pub(super) fn new(command: Command<T, E>, options: Options<T, E>, work: F) -> Self {
        Self {
            command,
            stage: Phase::New(options, work),
        }
    }

    /// Takes permit and ticket, or ends the call at once.
    fn begin(&mut self, mut options: Options<T, E>, work: F) -> Option<Result<T, CommandError<E>>> {
        let shared = &self.command.shared;
        let state = &*shared.state;
        let start = state.now();
        let flags = state.flags();
        if flags & (WATCHED | RATED) != 0
            && let Err(cause) = shared.may_begin(start, flags & !THREADS)
        {
            return Some(shared.failed(Story::new(start), &mut options, cause));
        }
        let ticket = match state.breaker.try_ticket(start) {
            Ok(ticket) => ticket,
            Err(open) => {
                return Some(shared.short_circuited(start, flags, Asked(Some(&mut options)), open));
            }
        };
        let Some(permit) = state.gate.try_enter_owned(options.criticality) else {
            return Some(shared.refused(
                (start, start),
                flags,
                Asked(Some(&mut options)),
                ticket,
                Refused::Permits,
            ));
        };
        state.metrics.note_active(start, state.gate.held() as u64);
        let timeout = options.timeout.unwrap_or(state.timeout());
        let flying = Box::new(Flying {
            start,
            timeout,
            deadline: start.saturating_add(timeout),
            ticket,
            flight: state.alarms.take_flight(),
            permit,
            options,
        });
        state
            .alarms
            .arm(&flying.flight, flying.deadline, flags & INTERRUPTS != 0);
        let token = flying.flight.token().clone();
        let made = catch_unwind(AssertUnwindSafe(|| {
            let _entered = flying.options.context.as_ref().map(RequestContext::enter);
            state.hook(Stage::ExecutionStart).map_err(Refusal)?;
            Ok(work(token))
        }));
        match made {
            Ok(Ok(future)) => {
                self.stage = Phase::Running(flying, Box::pin(future));
                None
            }
            Ok(Err(refusal)) => Some(self.end(*flying, Ok(Err(refusal)))),
            Err(payload) => Some(self.end(*flying, Err(payload))),
        }
    }

    fn end(
        &self,
        flying: Flying<T, E>,
        result: super::run::Ran<T, E>,
    ) -> Result<T, CommandError<E>> {
        let shared = &self.command.shared;
        let state = &*shared.state;
        let Flying {
            mut options,
            start,
            deadline,
            timeout,
            ticket,
            flight,
            permit,
        } = flying;
        let now = state.now();
        let in_time = flight.finish() && now < deadline;
        flight.clear_waker();
        state.alarms.keep_flight(flight);
        let run = now.saturating_sub(start);
        state.gate.sample(now, run, !in_time);
        drop(permit);
        state.gate.after_leaving(now);
        let end = End {
            start,
            began: start,
            now,
            in_time,
            timeout,
            ticket,
        };
        shared.end_in_place(Asked(Some(&mut options)), &end, result)
    }

    fn poll_running(
        &mut self,
        flying: Box<Flying<T, E>>,
        mut future: Pin<Box<W>>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T, CommandError<E>>> {
        flying.flight.set_waker(context.waker());
        if flying.flight.is_expired() {
            // Dropped before the permit is given back: then the work has really ended.
            drop(future);
            return Poll::Ready(self.end(*flying, Ok(Err(Refusal(String::new())))));
        }
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let _entered = flying.options.context.as_ref().map(RequestContext::enter);
            future.as_mut().poll(context)
        }));
        match polled {
            Ok(Poll::Pending) => {
                self.stage = Phase::Running(flying, future);
                Poll::Pending
            }
            Ok(Poll::Ready(answer)) => {
                drop(future);
                Poll::Ready(self.end(*flying, Ok(Ok(answer))))
            }
            Err(payload) => {
                let _ = crate::plugin::contain(|| drop(future));
                Poll::Ready(self.end(*flying, Err(payload)))
            }
        }
    }
}

/// Nothing in it is pinned: the work's future has a box of its own.
impl<T: Send + 'static, E: Send + 'static, F, W> Unpin for RunAsync<T, E, F, W> {}

impl<T, E, F, W> Future for RunAsync<T, E, F, W>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(CancelToken) -> W,
    W: Future<Output = Result<T, E>>,
{
    type Output = Result<T, CommandError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Phase::New(..) = this.stage {
            let Phase::New(options, work) = std::mem::replace(&mut this.stage, Phase::Done) else {
                unreachable!("it was looked at just before");
            };
            if let Some(answer) = this.begin(options, work) {
                return Poll::Ready(answer);
            }
        }
        match std::mem::replace(&mut this.stage, Phase::Done) {
            Phase::Running(flying, future) => this.poll_running(flying, future, context),
            _ => panic!("a call that has ended must not be polled again"),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static, F, W> Drop for RunAsync<T, E, F, W> {
    fn drop(&mut self) {
        let Phase::Running(flying, future) = std::mem::replace(&mut self.stage, Phase::Done) else {
            return;
        };
        let shared = &self.command.shared;
        let state = &*shared.state;
        flying.flight.token().cancel();
        let _ = crate::plugin::contain(|| drop(future));
        let mut flying = *flying;
        let now = state.now();
        flying.flight.finish();
        flying.flight.clear_waker();
        drop(flying.permit);
        state.gate.after_leaving(now);
        let run = now.saturating_sub(flying.start);
        state.metrics.record_at_once(now, run);
        state
            .breaker
            .settle(flying.ticket, Verdict::Dropped, now, run);
        let _ = state.hook(Stage::Cancelled);
        let _ = shared.failed(
            Story::new(flying.start),
            &mut flying.options,
            Cause::Cancelled,
        );
    }
}

impl<T: Send + 'static, E: Send + 'static, F, W> fmt::Debug for RunAsync<T, E, F, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunAsync")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
