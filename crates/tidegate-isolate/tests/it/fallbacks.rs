//! Fallbacks that are futures: which calls wait for them, and for how long.

use std::error::Error;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{Blocking, ManualClock, Parker};
use tidegate_isolate::{
    CallStage, Cause, CommandError, Event, FallbackError, Hedge, Isolation, Key, RateConfig,
    RateLimit, RequestContext, Retry,
};
use tidegate_testkit::{Gate, block_on};

use crate::support::{
    Numbers, SECOND, alone, builder, counted, failed, hold, isolated, poll_by, poll_once, pool_of,
    still, tunable,
};

type Failed = CommandError<&'static str>;
type Answering = Pin<Box<dyn Future<Output = Result<u32, Failed>> + Send>>;

/// Returns the number at the second poll.
async fn later(number: u32) -> Result<u32, &'static str> {
    let mut polls = 0;
    poll_fn(move |context| {
        polls += 1;
        context.waker().wake_by_ref();
        match polls {
            1 => Poll::Pending,
            _ => Poll::Ready(Ok(number)),
        }
    })
    .await
}

/// A future that is never ready, opens a gate at its first poll, and counts that it was dropped.
struct Never(Gate, Arc<AtomicUsize>);

impl Future for Never {
    type Output = Result<u32, &'static str>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.open();
        Poll::Pending
    }
}

impl Drop for Never {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Checks the error of a failed call whose fallback timed out, and that its permit is back.
fn check_timed_out(command: &Numbers, error: &Failed, after: Duration) {
    assert_eq!(error.cause(), &Cause::Failed("no"), "the cause is kept");
    assert_eq!(error.fallback(), Some(&FallbackError::TimedOut(after)));
    assert!(error.events().contains(Event::FallbackFailure));
    assert_eq!(command.snapshot().fallbacks, 0);
}

#[test]
fn an_async_fallback_returns_a_value() {
    let (_clock, _isolation, command) = alone(|c| {
        c.fallback_async(|why| {
            assert_eq!(why.cause(), &Cause::Failed("no"));
            later(3)
        })
    });
    assert_eq!(command.run(|_| Err("no")), Ok(3));
    assert_eq!(command.run_in_place(|_| Err("no")), Ok(3));
    assert_eq!(command.queue(|_| Err("no")).wait().unwrap(), 3);
    let answer: Answering = Box::pin(command.run_async(|_| ready(Err("no"))));
    assert_eq!(block_on("the fallback", answer), Ok(3));
    assert_eq!(
        counted(&command),
        [(Event::Failure, 4), (Event::FallbackSuccess, 4)]
    );
    let own = command.call().fallback_async(|_| later(4));
    assert_eq!(own.run(|_| Err("no")), Ok(4));
    let own = command.call().fallback_async(|_| later(4));
    let answer = own.run_async(|_| ready(Err("no")));
    assert_eq!(block_on("the fallback", answer), Ok(4));
    let own = command.call().fallback(|_| Ok(5));
    let mut answer = pin!(own.run_async(|_| ready(Err("no"))));
    assert_eq!(poll_once(answer.as_mut()), Poll::Ready(Ok(5)));
    assert_eq!(command.snapshot().fallbacks, 0);
}

#[test]
fn an_async_fallback_returns_a_value_on_threads() {
    let (clock, isolation) = still();
    let [command, full] = ["a", "full"].map(|key| {
        let command = builder(key).threads(pool_of(1, 0)).timeout(SECOND);
        let command = command.fallback_async(|_| later(3)).build(&isolation);
        command.unwrap()
    });
    assert_eq!(command.run(|_| Err("no")), Ok(3));
    assert_eq!(command.queue(|_| Err("no")).wait().unwrap(), 3);
    let leave = Gate::new();
    let held = hold(&full, &leave);
    assert_eq!(full.run(|_| Ok(1)), Ok(3), "no thread is free");
    assert_eq!(full.queue(|_| Ok(1)).wait().unwrap(), 3);
    clock.jump(SECOND);
    assert_eq!(held.wait().unwrap(), 3, "after its timeout");
    leave.open();
}

#[test]
fn a_refused_future_has_an_async_fallback() {
    let (_clock, _isolation, command) = alone(|c| {
        c.permits(1).fallback_async(|why| {
            assert!(why.is_rejected());
            later(3)
        })
    });
    let mut held = pin!(command.run_async(|_| pending()));
    assert!(poll_once(held.as_mut()).is_pending());
    let answer = command.run_async(|_| ready(Ok(1)));
    assert_eq!(block_on("the fallback", answer), Ok(3));
}

#[test]
fn an_async_fallback_that_fails_stands_beside_the_cause() {
    let (_clock, _isolation, command) = alone(|c| c.fallback_async(|_| ready(Err("neither"))));
    let answers = [
        command.run(|_| Err("no")),
        block_on("it", command.run_async(|_| ready(Err("no")))),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert_eq!(error.cause(), &Cause::Failed("no"));
        assert_eq!(error.fallback(), Some(&FallbackError::Failed("neither")));
        let thrown = [Event::FallbackFailure, Event::ExceptionThrown];
        assert!(thrown.iter().all(|event| error.events().contains(*event)));
    }
    let disabled = command.configure(|c| c.fallback_enabled = false);
    disabled.unwrap();
    let error = block_on("it", command.run_async(|_| ready(Err("no")))).unwrap_err();
    assert_eq!(error.fallback(), Some(&FallbackError::Disabled));
}

/// Builds a command whose fallback is never ready. Also returns the gate that opens when it runs
/// and the counter of its drops.
fn with_endless_fallback(isolation: &Isolation) -> (Numbers, Gate, Arc<AtomicUsize>) {
    let (inside, dropped) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (mine, count) = (inside.clone(), Arc::clone(&dropped));
    let command = builder("a")
        .fallback_timeout(SECOND)
        .fallback_async(move |_| Never(mine.clone(), Arc::clone(&count)))
        .build(isolation);
    (command.unwrap(), inside, dropped)
}

/// Polls a future until the clock, turned by `time`, has woken it.
fn poll_after(clock: &ManualClock, time: Duration, mut future: Answering) -> Result<u32, Failed> {
    let parker = Parker::new();
    assert!(poll_by(&parker, future.as_mut()).is_pending());
    clock.advance(time);
    assert!(parker.park(None), "the timer has woken it");
    match poll_by(&parker, future.as_mut()) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("its time is over"),
    }
}

#[test]
fn an_async_fallback_has_a_timeout() {
    let (clock, isolation) = still();
    let (command, inside, dropped) = with_endless_fallback(&isolation);
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| command.run(|_| Err("no")));
        inside.wait();
        assert_eq!(command.snapshot().fallbacks, 1);
        clock.advance(SECOND);
        let error = caller.join().unwrap().unwrap_err();
        check_timed_out(&command, &error, SECOND);
    });
    let answer = Box::pin(command.run_async(|_| ready(Err("no"))));
    let error = poll_after(&clock, SECOND, answer).unwrap_err();
    check_timed_out(&command, &error, SECOND);
    assert_eq!(
        error.to_string(),
        "command a failed: no; its fallback timed out after 1s"
    );
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    let own = command.call().fallback_timeout(SECOND * 2);
    let answer = Box::pin(own.run_async(|_| ready(Err("no"))));
    let error = poll_after(&clock, SECOND * 2, answer).unwrap_err();
    check_timed_out(&command, &error, SECOND * 2);
}

#[test]
fn an_async_fallback_has_a_timeout_on_threads() {
    let (inside, leave) = (Gate::new(), Gate::new());
    let mine = inside.clone();
    let dropped = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&dropped);
    let (clock, _isolation, command) = alone(|c| {
        c.threads(pool_of(1, 0))
            .timeout(SECOND)
            .fallback_async(move |_| Never(mine.clone(), Arc::clone(&count)))
    });
    let held = hold(&command, &leave);
    clock.jump(SECOND);
    inside.wait();
    clock.jump(SECOND);
    let error = held.wait().unwrap_err().failure().unwrap();
    assert!(error.is_timed_out());
    assert_eq!(error.fallback(), Some(&FallbackError::TimedOut(SECOND)));
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    leave.open();
}

#[test]
fn the_timeout_of_a_fallback_is_a_setting() {
    let (properties, isolation, command) = tunable(|c| c);
    assert_eq!(command.config().fallback_timeout, Some(SECOND));
    let name = "hystrix.command.a.fallback.timeoutInMilliseconds";
    properties.set(name, "250").unwrap();
    let set = Some(Duration::from_millis(250));
    assert_eq!(command.config().fallback_timeout, set, "it is live");
    let error = properties.set(name, "0").unwrap_err();
    assert_eq!(error.property(), "fallback.timeoutInMilliseconds");
    assert_eq!(command.config().fallback_timeout, set, "the old one stays");
    let none = builder("b").fallback_timeout(Duration::ZERO);
    let error = none.build(&isolation).unwrap_err();
    assert_eq!(error.property(), "fallback.timeoutInMilliseconds");
}

#[test]
fn an_async_fallback_may_have_no_timeout() {
    let (clock, isolation) = still();
    let (command, _inside, dropped) = with_endless_fallback(&isolation);
    command.configure(|c| c.fallback_timeout = None).unwrap();
    let mut answer = Box::pin(command.run_async(|_| ready(Err("no"))));
    assert!(poll_once(answer.as_mut()).is_pending());
    clock.advance(SECOND * 3_600);
    assert!(poll_once(answer.as_mut()).is_pending());
    drop(answer);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn shutting_down_ends_a_fallback_that_a_future_awaits() {
    let (_clock, isolation) = still();
    let (command, _inside, dropped) = with_endless_fallback(&isolation);
    let mut answer = Box::pin(command.run_async(|_| ready(Err("no"))));
    assert!(poll_once(answer.as_mut()).is_pending());
    isolation.shutdown_now();
    let error = failed(poll_once(answer.as_mut()), "it has ended");
    check_timed_out(&command, &error, SECOND);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    let own = command.call().fallback_async(|_| later(3));
    let answer = own.run_async(|_| ready(Err("no")));
    assert_eq!(block_on("a later call", answer), Ok(3));
}

#[test]
fn an_async_fallback_on_a_loop_thread_is_refused_unless_it_is_ready() {
    let (_clock, _isolation, command) = alone(|c| c);
    let at_once = command.call().fallback_async(|_| ready(Ok(3)));
    assert_eq!(Blocking::forbid(|| at_once.run(|_| Err("no"))), Ok(3));
    let slow = command.call().fallback_async(|_| later(3));
    let error = Blocking::forbid(|| slow.run(|_| Err("no"))).unwrap_err();
    assert_eq!(error.fallback(), Some(&FallbackError::Waiting));
    assert_eq!(error.cause(), &Cause::Failed("no"));
    assert!(error.to_string().contains("use `run_async`"), "{error}");
    assert_eq!(command.snapshot().totals[Event::FallbackRejection], 1);
    assert_eq!(command.snapshot().fallbacks, 0);
    let slow = command.call().fallback_async(|_| later(3));
    let mut answer = Box::pin(slow.run_async(|_| ready(Err("no"))));
    Blocking::forbid(|| {
        assert!(poll_once(answer.as_mut()).is_pending());
        assert_eq!(poll_once(answer.as_mut()), Poll::Ready(Ok(3)));
    });
}

#[test]
fn a_queued_call_that_a_loop_makes_and_is_refused_has_its_async_fallback() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)));
    let leave = Gate::new();
    let _held = hold(&command, &leave);
    let request = RequestContext::new();
    let slow = command.call().context(&request).fallback_async(|_| async {
        assert!(RequestContext::current().is_some());
        later(3).await
    });
    let answer = Blocking::forbid(|| slow.queue(|_| Ok(1)));
    assert_eq!(answer.wait().unwrap(), 3);
    leave.open();
}

#[test]
fn a_call_dropped_in_its_fallback_gives_the_permits_back() {
    let clock = ManualClock::new();
    let stages = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&stages);
    let isolation = isolated(|i| {
        i.clock(&clock).hook(move |stage: CallStage, _: &Key| {
            seen.lock().unwrap().push(stage);
            Ok(())
        })
    });
    let (command, _inside, dropped) = with_endless_fallback(&isolation);
    let request = RequestContext::new();
    let call = || command.call().context(&request).cache_key("k");
    let mut answer = Box::pin(call().run_async(|_| ready(Err("no"))));
    assert!(poll_once(answer.as_mut()).is_pending());
    let mut follower = Box::pin(call().run_async(|_| ready(Ok(1))));
    assert!(
        poll_once(follower.as_mut()).is_pending(),
        "it shares the run"
    );
    let snapshot = command.snapshot();
    assert_eq!((snapshot.active, snapshot.fallbacks), (0, 1));
    clock.advance(Duration::from_millis(5));
    drop(answer);
    assert_eq!(command.snapshot().fallbacks, 0);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    assert_eq!(
        counted(&command),
        [(Event::Failure, 1), (Event::ResponseFromCache, 1)]
    );
    assert_eq!(stages.lock().unwrap().last(), Some(&CallStage::Cancelled));
    let log = request.log();
    assert_eq!(log.len(), 1);
    assert!(log[0].events.contains(Event::Failure));
    assert_eq!(log[0].took, Duration::from_millis(5));
    let error = failed(poll_once(follower.as_mut()), "there is no run to share");
    assert!(error.is_cancelled());
    let mut again = pin!(call().run_async(|_| ready(Ok(2))));
    assert_eq!(poll_once(again.as_mut()), Poll::Ready(Ok(2)), "runs anew");
}

#[test]
fn calls_that_share_a_run_receive_the_result_of_its_fallback() {
    let (_clock, _isolation, command) = alone(|c| c.fallback_async(|_| later(3)));
    let request = RequestContext::new();
    let call = || command.call().context(&request).cache_key("k");
    let mut first = pin!(call().run_async(|_| ready(Err("no"))));
    assert!(poll_once(first.as_mut()).is_pending());
    let mut second = pin!(call().run_async(|_| ready(Ok(1))));
    assert!(poll_once(second.as_mut()).is_pending());
    assert_eq!(poll_once(first.as_mut()), Poll::Ready(Ok(3)));
    assert_eq!(poll_once(second.as_mut()), Poll::Ready(Ok(3)));
}

/// A future whose poll or whose `Drop` panics.
struct Bomb {
    in_poll: bool,
}

impl Future for Bomb {
    type Output = Result<u32, &'static str>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.in_poll, "in the poll");
        Poll::Ready(Ok(3))
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(self.in_poll, "in the drop");
    }
}

#[test]
fn a_panic_in_the_future_of_a_fallback_is_contained() {
    let (_clock, _isolation, command) = alone(|c| c);
    for in_poll in [true, false] {
        let call = || command.call().fallback_async(move |_| Bomb { in_poll });
        let answers = [
            call().run(|_| Err("no")),
            block_on("it", call().run_async(|_| ready(Err("no")))),
        ];
        for answer in answers {
            match answer {
                Ok(value) => assert_eq!((value, in_poll), (3, false)),
                Err(error) => assert_eq!(
                    (error.fallback(), in_poll),
                    (Some(&FallbackError::Panicked("in the poll".into())), true)
                ),
            }
            assert_eq!(command.snapshot().fallbacks, 0);
        }
    }
    let call = command
        .call()
        .fallback_async(|_| -> Bomb { panic!("before") });
    let error = block_on("it", call.run_async(|_| ready(Err("no")))).unwrap_err();
    let panicked = FallbackError::Panicked("before".into());
    assert_eq!(error.fallback(), Some(&panicked));
}

#[test]
fn wrappers_await_an_async_fallback() {
    let (_clock, _isolation, command) = alone(|c| c.fallback_async(|_| later(3)));
    let retry = Retry::attempts(2);
    assert_eq!(
        retry.run(command.call(), |call| call.run(|_| Err("no"))),
        Ok(3)
    );
    let limit = RateConfig {
        calls: 1,
        per: SECOND,
        burst: 1,
    };
    let limit = RateLimit::new(limit).unwrap();
    let taken = limit.run(command.call(), |call| call.run(|_| Ok(1)));
    assert_eq!(taken, Ok(1));
    let fails =
        |call: tidegate_isolate::Call<u32, &'static str>| call.run_async(|_| ready(Err("no")));
    let answers: [Answering; 3] = [
        Box::pin(retry.run_async(command.call(), fails)),
        Box::pin(Hedge::default().run_async(command.call(), fails)),
        Box::pin(limit.run_async(command.call(), fails)),
    ];
    for mut answer in answers {
        // Not blocked for: the task of the call awaits it.
        assert!(poll_once(answer.as_mut()).is_pending());
        assert_eq!(command.snapshot().fallbacks, 1);
        assert_eq!(poll_once(answer.as_mut()), Poll::Ready(Ok(3)));
    }
    let totals = command.snapshot().totals;
    assert_eq!(totals[Event::FallbackSuccess], 4, "once for each call");
}

#[test]
fn an_async_fallback_runs_in_the_request_of_its_call() {
    let (_clock, _isolation, command) = alone(|c| {
        c.fallback_async(|_| async {
            assert!(RequestContext::current().is_some());
            let answer = later(3).await;
            assert!(RequestContext::current().is_some());
            answer
        })
    });
    let request = RequestContext::new();
    let call = || command.call().context(&request);
    assert_eq!(call().run(|_| Err("no")), Ok(3));
    let answer = call().run_async(|_| ready(Err("no")));
    assert_eq!(block_on("the fallback", answer), Ok(3));
    assert_eq!(request.log().len(), 2);
}

#[test]
fn the_error_of_a_fallback_has_its_source() {
    let failed = FallbackError::Failed(std::io::Error::other("down"));
    assert_eq!(failed.to_string(), "its fallback failed: down");
    assert_eq!(failed.source().unwrap().to_string(), "down");
    let waiting = FallbackError::<std::io::Error>::Waiting;
    assert!(waiting.source().is_none());
}

/// A command that its own fallback calls.
type Own = Arc<OnceLock<Numbers>>;

#[test]
fn a_fallback_that_calls_its_own_command_runs_out_of_permits() {
    let (_clock, isolation) = still();
    let [own, other]: [Own; 2] = Default::default();
    let [mine, its] = [&own, &other].map(Arc::downgrade);
    let blocking = builder("a").fallback(move |_| {
        let answer = mine.upgrade().unwrap().get().unwrap().run(|_| Err("no"));
        answer.map_err(|_| "deeper")
    });
    let awaiting = builder("b").permits(1).fallback_async(move |_| {
        let its = its.upgrade().unwrap();
        let answer = its.get().unwrap().run_async(|_| ready(Err("no")));
        let answer: Answering = Box::pin(answer);
        async move { answer.await.map_err(|_| "deeper") }
    });
    for (own, command) in [(own, blocking), (other, awaiting)] {
        let command = command.build(&isolation).unwrap();
        own.set(command.clone()).unwrap();
        let error = block_on("it", command.run_async(|_| ready(Err("no")))).unwrap_err();
        let errors = [error, command.run(|_| Err("no")).unwrap_err()];
        for error in errors {
            assert_eq!(error.fallback(), Some(&FallbackError::Failed("deeper")));
        }
        let snapshot = command.snapshot();
        assert_eq!(snapshot.totals[Event::FallbackRejection], 2, "the deepest");
        assert_eq!((snapshot.active, snapshot.fallbacks), (0, 0));
    }
}
