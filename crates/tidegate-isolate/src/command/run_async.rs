//! A call with permits whose work is a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_core::{CancelToken, Permit, Task, contain, discard};

use super::handle::Command;
use super::options::{Asked, Options};
use super::outcome::{End, Ran, Refusal};
use super::report::Story;
use crate::alarm::TimerTaskId;
use crate::breaker::{Ticket, Verdict};
use crate::bulkhead::Place;
use crate::error::{Cause, CommandError, Refused};
use crate::in_flight::Flight;
use crate::isolation::state::{RATED, THREADS, WATCHED};
use crate::plugin::Stage;
use crate::request::wait_graph::{self, Within};
use crate::request::{Answer, Looked, RequestContext, SharedFuture, Tells};

/// The future of [`Command::run_async`]. Admitted when it is first polled, or when a permit is free
/// if callers may wait for one; dropping it cancels.
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
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct RunAsync<T: Send + 'static, E: Send + 'static, F, W> {
    command: Command<T, E>,
    stage: Phase<T, E, F, W>,
    /// The calls that share this run.
    others: Option<Box<dyn Tells<T, E>>>,
}

enum Phase<T, E, F, W> {
    New(Options<T, E>, F),
    /// In the run of another call.
    Sharing(SharedFuture<T, E>),
    /// For a permit.
    Waiting(Box<Waiting<T, E>>, F),
    Running(Box<Flying<T, E>>, Pin<Box<W>>),
    Done,
}

/// What a call holds while it waits for a permit.
struct Waiting<T, E> {
    options: Options<T, E>,
    start: u64,
    ticket: Ticket,
    place: Place,
    /// Wakes the task when the wait is over.
    alarm: TimerTaskId,
}

/// What a call holds while its future runs.
struct Flying<T, E> {
    options: Options<T, E>,
    start: u64,
    began: u64,
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
            others: None,
        }
    }

    /// Joins the run of another call, if there is one to share; else begins.
    fn join_or_begin(
        &mut self,
        mut options: Options<T, E>,
        work: F,
        waker: &Waker,
    ) -> Option<Answer<T, E>> {
        if options.rare.is_some() {
            match self.command.shared.look_up(&mut options, true) {
                Ok(None) => {}
                Ok(Some(Looked::Miss(first))) => self.others = Some(first),
                Ok(Some(Looked::Circle)) => {
                    return Some(self.command.shared.closes_circle(&mut options));
                }
                Ok(Some(Looked::Hit(copies))) => {
                    self.stage = Phase::Sharing(self.command.shared.follow(options, copies));
                    return None;
                }
                Err(error) => return Some(Err(error)),
            }
        }
        self.begin(options, work, waker)
    }

    /// Takes ticket and permit, or a place among those who wait for one, or ends the call at once.
    fn begin(
        &mut self,
        mut options: Options<T, E>,
        work: F,
        waker: &Waker,
    ) -> Option<Answer<T, E>> {
        let shared = &self.command.shared;
        let state = &*shared.state;
        let start = state.now();
        let flags = state.flags();
        if flags & (WATCHED | RATED | THREADS) != 0
            && let Err(cause) = shared.may_begin(start, flags)
        {
            return Some(shared.failed(Story::new(start), &mut options, cause));
        }
        let ticket = match state.breaker.try_ticket(start) {
            Ok(ticket) => ticket,
            Err(open) => {
                let asked = Asked(Some(&mut options));
                return Some(shared.short_circuited(start, flags, asked, open));
            }
        };
        if let Some(permit) = state.gate.try_enter_owned(options.criticality) {
            return self.launch(options, work, (start, start), ticket, permit);
        }
        let deadline = start.saturating_add(options.timeout.unwrap_or(state.timeout()));
        let place = match state.gate.may_wait() {
            true => state
                .gate
                .queue_up(start, options.criticality, deadline, waker),
            false => Err(Refused::Permits),
        };
        let place = match place {
            Ok(place) => place,
            Err(refused) => {
                let (when, asked) = ((start, start), Asked(Some(&mut options)));
                return Some(shared.refused(when, flags, asked, ticket, refused));
            }
        };
        let poke = Task::new(place.poke());
        let alarm = state.alarms.run_at(place.until, &state.aside, poke);
        let waiting = Waiting {
            options,
            start,
            ticket,
            place,
            alarm,
        };
        self.stage = Phase::Waiting(Box::new(waiting), work);
        None
    }

    /// Looks whether there is a permit.
    fn poll_waiting(
        &mut self,
        waiting: Box<Waiting<T, E>>,
        work: F,
        waker: &Waker,
    ) -> Option<Answer<T, E>> {
        let shared = &self.command.shared;
        let state = &*shared.state;
        let now = state.now();
        let answer = state.gate.ask(&waiting.place, now, waker);
        let answer = answer.or_else(|| {
            // Nothing would wake the future at the end of its time.
            state.alarms.is_closed().then(|| {
                state.gate.give_up(&waiting.place);
                state.gate.after_leaving(now);
                Err(Refused::Closed)
            })
        });
        let Some(answer) = answer else {
            self.stage = Phase::Waiting(waiting, work);
            return None;
        };
        let Waiting {
            mut options,
            start,
            ticket,
            alarm,
            ..
        } = *waiting;
        state.alarms.cancel(alarm);
        match answer {
            Ok(permit) => self.launch(options, work, (start, now), ticket, permit),
            Err(refused) => {
                let (when, asked) = ((start, now), Asked(Some(&mut options)));
                Some(shared.refused(when, state.flags(), asked, ticket, refused))
            }
        }
    }

    /// Makes the future of a call that has its permit.
    fn launch(
        &mut self,
        options: Options<T, E>,
        work: F,
        (start, began): (u64, u64),
        ticket: Ticket,
        permit: Permit,
    ) -> Option<Answer<T, E>> {
        let state = &*self.command.shared.state;
        state.metrics.note_active(began, state.gate.held() as u64);
        let timeout = options.timeout.unwrap_or(state.timeout());
        let flying = Box::new(Flying {
            start,
            began,
            timeout,
            deadline: start.saturating_add(timeout),
            ticket,
            flight: state.alarms.take_flight(),
            permit,
            options,
        });
        state.arm(&flying.flight, flying.deadline, state.flags());
        let token = flying.flight.token().clone();
        let _around = (self.within(), state.gate.hold());
        let made = contain(|| {
            let _entered = flying.options.context.as_ref().map(RequestContext::enter);
            state.hook(Stage::ExecutionStart).map_err(Refusal)?;
            Ok(work(token))
        });
        match made {
            Ok(Ok(future)) => {
                self.stage = Phase::Running(flying, Box::pin(future));
                None
            }
            Ok(Err(refusal)) => Some(self.end(*flying, Ok(Err(refusal)))),
            Err(panic) => Some(self.end(*flying, Err(panic))),
        }
    }

    /// Works for the shared run that this call makes, if it makes one.
    fn within(&self) -> Option<Within> {
        let others = self.others.as_ref();
        others.map(|others| wait_graph::enter(others.id()))
    }

    fn end(&self, flying: Flying<T, E>, result: Ran<T, E>) -> Result<T, CommandError<E>> {
        let shared = &self.command.shared;
        let state = &*shared.state;
        let Flying {
            mut options,
            start,
            began,
            deadline,
            timeout,
            ticket,
            flight,
            permit,
        } = flying;
        let now = state.now();
        let in_time = flight.finish() && now < deadline;
        flight.clear_ear();
        state.alarms.keep_flight(flight);
        let run = now.saturating_sub(began);
        state.gate.sample(now, run, !in_time);
        drop(permit);
        state.gate.after_leaving(now);
        let end = End {
            start,
            began,
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
            discard(future);
            return Poll::Ready(self.end(*flying, Ok(Err(Refusal(String::new())))));
        }
        let gate = &self.command.shared.state.gate;
        let _around = (self.within(), gate.hold());
        let polled = contain(|| {
            let _entered = flying.options.context.as_ref().map(RequestContext::enter);
            future.as_mut().poll(context)
        });
        match polled {
            Ok(Poll::Pending) => {
                self.stage = Phase::Running(flying, future);
                Poll::Pending
            }
            Ok(Poll::Ready(answer)) => {
                discard(future);
                Poll::Ready(self.end(*flying, Ok(Ok(answer))))
            }
            Err(panic) => {
                discard(future);
                Poll::Ready(self.end(*flying, Err(panic)))
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
        let answer = self.advance(context);
        if let Poll::Ready(answer) = &answer
            && let Some(others) = self.others.take()
        {
            others.tell(answer);
        }
        answer
    }
}

impl<T, E, F, W> RunAsync<T, E, F, W>
where
    T: Send + 'static,
    E: Send + 'static,
    F: FnOnce(CancelToken) -> W,
    W: Future<Output = Result<T, E>>,
{
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Answer<T, E>> {
        let this = self;
        let answer = match std::mem::replace(&mut this.stage, Phase::Done) {
            Phase::New(options, work) => this.join_or_begin(options, work, context.waker()),
            Phase::Waiting(waiting, work) => this.poll_waiting(waiting, work, context.waker()),
            running => {
                this.stage = running;
                None
            }
        };
        if let Some(answer) = answer {
            return Poll::Ready(answer);
        }
        match std::mem::replace(&mut this.stage, Phase::Done) {
            Phase::Running(flying, future) => this.poll_running(flying, future, context),
            Phase::Sharing(mut shared) => {
                let polled = shared.as_mut().poll(context);
                if polled.is_pending() {
                    this.stage = Phase::Sharing(shared);
                }
                polled
            }
            Phase::Done => panic!("a call that has ended must not be polled again"),
            waiting => {
                this.stage = waiting;
                Poll::Pending
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static, F, W> Drop for RunAsync<T, E, F, W> {
    fn drop(&mut self) {
        if let Some(others) = self.others.take() {
            others.forget();
        }
        let stage = std::mem::replace(&mut self.stage, Phase::Done);
        let shared = &self.command.shared;
        let state = &*shared.state;
        let (flying, future) = match stage {
            Phase::Running(flying, future) => (flying, future),
            Phase::Waiting(mut waiting, _) => {
                state.alarms.cancel(waiting.alarm);
                state.gate.give_up(&waiting.place);
                let now = state.now();
                state.gate.after_leaving(now);
                state
                    .breaker
                    .settle(waiting.ticket, Verdict::Dropped, now, 0);
                let _ = state.hook(Stage::Cancelled);
                let story = Story::until(waiting.start, now);
                let _ = shared.failed(story, &mut waiting.options, Cause::Cancelled);
                return;
            }
            _ => return,
        };
        flying.flight.token().trip();
        let token = flying.flight.token();
        token.run_hooks_to(&state.key, &state.plugins.unhandled);
        discard(future);
        let mut flying = *flying;
        let now = state.now();
        flying.flight.finish();
        flying.flight.clear_ear();
        drop(flying.permit);
        state.gate.after_leaving(now);
        let run = now.saturating_sub(flying.began);
        let wait = flying.began.saturating_sub(flying.start);
        if wait == 0 {
            state.metrics.record_at_once(now, run);
        } else {
            state.metrics.record(now, wait, run, wait + run);
        }
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

#[cfg(test)]
mod tests {
    //! The two times of a call may come from two threads, whose clocks differ a little.

    use super::*;
    use crate::Isolation;

    type Numbers = Command<u32, &'static str>;

    /// A call that was polled by one thread until it waited, and by another that is behind.
    fn begun_before_its_start<W>(
        work: W,
    ) -> (
        Numbers,
        RunAsync<u32, &'static str, impl FnOnce(CancelToken) -> W, W>,
    )
    where
        W: Future<Output = Result<u32, &'static str>>,
    {
        let isolation = Isolation::builder().build().unwrap();
        let command = Numbers::builder("a").group("tests").build(&isolation);
        let command = command.unwrap();
        let mut call = command.run_async(|_| work);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut call).poll(&mut context).is_pending());
        let Phase::Running(flying, _) = &mut call.stage else {
            panic!("it has its permit");
        };
        flying.start = flying.began + 1_000;
        (command, call)
    }

    #[test]
    fn a_call_that_seems_to_begin_before_its_start_has_not_waited() {
        let mut polls = 0;
        let work = std::future::poll_fn(move |_| {
            polls += 1;
            if polls == 1 {
                Poll::Pending
            } else {
                Poll::Ready(Ok(7))
            }
        });
        let (command, mut call) = begun_before_its_start(work);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut call).poll(&mut context), Poll::Ready(Ok(7)));
        let latencies = command.snapshot().latencies;
        assert_eq!((latencies.wait.count(), latencies.run.count()), (1, 1));
        assert!(latencies.wait.percentile(100.0) < std::time::Duration::from_millis(1));
    }

    #[test]
    fn a_call_that_seems_to_begin_before_its_start_can_be_dropped() {
        let (command, call) = begun_before_its_start(std::future::pending());
        drop(call);
        assert_eq!(command.snapshot().totals[crate::Event::Cancelled], 1);
        assert_eq!(command.snapshot().active, 0);
    }
}
