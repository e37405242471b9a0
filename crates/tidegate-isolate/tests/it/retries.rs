//! Repeated attempts: retries within a budget, and second attempts next to slow first ones.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{Blocking, CancelToken, Parker};
use tidegate_isolate::internal::Retries;
use tidegate_isolate::{
    CancelOutcome, Cause, CommandError, Event, Hedge, Interrupt, PoolConfig, RateConfig, Rejection,
    Retry, RetryBudget,
};
use tidegate_testkit::{Bomb, Gate, block_on, until};

use crate::support::{SECOND, alone, builder, failed, made, poll_by, poll_once, with_handle};

type Call = tidegate_isolate::Call<u32, &'static str>;

#[test]
fn tries_again_until_it_succeeds() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(99)));
    let tries = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tries);
    let work = move |_: &_| match count.fetch_add(1, Ordering::Relaxed) {
        2 => Ok(7),
        _ => Err("not yet"),
    };
    let answer = Retry::attempts(5).run(command.call(), |call| call.run(work.clone()));
    assert_eq!(answer, Ok(7), "no fallback in between");
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Failure], totals[Event::Retried]), (2, 2));
    assert_eq!(
        (totals[Event::Success], totals[Event::FallbackSuccess]),
        (1, 0)
    );
}

#[test]
fn the_fallback_comes_after_the_last_attempt() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(99)));
    let answer = Retry::attempts(3).run(command.call(), |call| call.run(|_| Err("no")));
    assert_eq!(answer, Ok(99));
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::Failure], totals[Event::FallbackSuccess]),
        (3, 1)
    );
}

#[test]
fn an_empty_budget_ends_it() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(99)));
    let budget = RetryBudget::new(0, 1);
    for failures in [2, 3] {
        let retry = Retry::attempts(10).budget(&budget);
        let answer = retry.run(command.call(), |call| call.run(|_| Err("no")));
        assert_eq!(answer, Ok(99));
        assert_eq!(command.snapshot().totals[Event::Failure], failures);
    }
}

#[test]
fn a_bad_request_is_not_tried_again() {
    let (_clock, _isolation, command) = alone(|c| c.bad_request_when(|_| true));
    let error = Retry::attempts(3).run(command.call(), |call| call.run(|_| Err("you")));
    assert!(error.unwrap_err().is_bad_request());
    assert_eq!(command.snapshot().totals[Event::BadRequest], 1);
}

#[test]
fn pauses_grow_between_retries() {
    let (clock, _isolation, command) = alone(|c| c);
    let retry = Retry::attempts(3).backoff(Duration::from_millis(10), 3.0);
    let retry = retry.jitter(0.0);
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| retry.run(command.call(), |call| call.run(|_| Err("no"))));
        until("the last attempt has failed", || {
            clock.jump(Duration::from_millis(1));
            runner.is_finished()
        });
        assert!(runner.join().unwrap().is_err());
    });
    assert!(clock.nanos() >= 40_000_000, "ten and thirty milliseconds");
}

#[test]
fn a_slow_first_attempt_gets_a_second_beside_it() {
    let (clock, _isolation, command) = alone(|c| c);
    for _ in 0..20 {
        let turn = clock.clone();
        command
            .run(move |_| {
                turn.jump(Duration::from_millis(10));
                Ok(0)
            })
            .unwrap();
    }
    let started = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&started);
    let work = move |_| {
        let n = count.fetch_add(1, Ordering::Relaxed);
        async move { if n == 0 { pending().await } else { Ok(n) } }
    };
    let mut hedged =
        pin!(Hedge::default().run_async(command.call(), |call| call.run_async(work.clone())));
    assert!(poll_once(hedged.as_mut()).is_pending());
    clock.jump(Duration::from_millis(9));
    assert!(poll_once(hedged.as_mut()).is_pending());
    assert_eq!(started.load(Ordering::Relaxed), 1, "not yet");
    clock.jump(Duration::from_millis(2));
    assert_eq!(poll_once(hedged.as_mut()), Poll::Ready(Ok(1)));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.totals[Event::Hedged], snapshot.active), (1, 0));
    assert_eq!(
        snapshot.totals[Event::Cancelled],
        1,
        "the loser was dropped"
    );
}

#[test]
fn a_first_attempt_that_has_ended_gets_no_second_however_late_it_is_polled() {
    let (clock, _isolation, command) = alone(|c| c.no_timeout());
    (0..20).for_each(|_| drop(command.run(|_| Ok(0))));
    for end in [Ok(7), Err("down")] {
        let (at, turn) = (clock.nanos() + 1, clock.clone());
        let work = move |_| {
            let clock = turn.clone();
            std::future::poll_fn(move |_| match clock.nanos() {
                now if now < at => Poll::Pending,
                _ => Poll::Ready(end),
            })
        };
        let hedge = Hedge::default();
        let left = hedge.budget.left();
        let mut hedged = pin!(hedge.run_async(command.call(), |call| call.run_async(work.clone())));
        assert!(poll_once(hedged.as_mut()).is_pending());
        clock.jump(SECOND);
        assert_eq!(
            poll_once(hedged.as_mut()).map(Result::ok),
            Poll::Ready(end.ok())
        );
        assert_eq!(command.snapshot().totals[Event::Hedged], 0);
        assert_eq!(hedge.budget.left(), left);
    }
}

#[test]
fn a_call_that_was_cancelled_gets_no_second_attempt() {
    let (clock, _isolation, command) = alone(|c| c.no_timeout());
    (0..20).for_each(|_| drop(command.run(|_| Ok(0))));
    let (hedge, (call, handle)) = (Hedge::default(), with_handle(command.call()));
    let left = hedge.budget.left();
    let mut hedged = pin!(hedge.run_async(call, |call| call.run_async(|_| pending())));
    assert!(poll_once(hedged.as_mut()).is_pending());
    assert_eq!(handle.cancel(Interrupt::No), CancelOutcome::NotBegun);
    clock.jump(SECOND);
    assert!(poll_once(hedged.as_mut()).is_pending());
    assert_eq!(command.snapshot().totals[Event::Hedged], 0);
    assert_eq!(hedge.budget.left(), left);
}

#[test]
fn of_two_attempts_that_fail_the_first_cause_is_kept() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).no_timeout());
    for _ in 0..20 {
        command.run(|_| Ok(0)).unwrap();
    }
    let late = Duration::from_millis(5);
    let at = clock.nanos() + 2_000_000;
    let turn = clock.clone();
    let work = move |_| {
        let clock = turn.clone();
        std::future::poll_fn(move |_| match clock.nanos() {
            now if now < at => Poll::Pending,
            _ => Poll::Ready(Err::<u32, _>("down")),
        })
    };
    let mut hedged =
        pin!(Hedge::default().run_async(command.call(), |call| call.run_async(work.clone())));
    assert!(poll_once(hedged.as_mut()).is_pending());
    clock.jump(Duration::from_millis(1));
    assert!(
        poll_once(hedged.as_mut()).is_pending(),
        "the second has no permit"
    );
    clock.jump(late);
    let error = failed(poll_once(hedged.as_mut()), "both have failed");
    assert!(error.is_rejected(), "what failed first: {error}");
}

#[test]
fn without_figures_there_is_no_second_attempt() {
    let (clock, _isolation, command) = alone(|c| c.no_timeout().fallback(|_| Ok(5)));
    let hedge = Hedge::default();
    let attempt = |call: Call| call.run_async(|_| async { Err("no") });
    let mut hedged = pin!(hedge.run_async(command.call(), attempt));
    assert_eq!(
        poll_once(hedged.as_mut()),
        Poll::Ready(Ok(5)),
        "the fallback at the end"
    );
    let attempt = |call: Call| call.run_async(|_| pending());
    let mut waiting = Box::pin(hedge.run_async(command.call(), attempt));
    assert!(poll_once(waiting.as_mut()).is_pending());
    clock.jump(Duration::from_secs(100));
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(command.snapshot().totals[Event::Hedged], 0);
}

#[test]
fn a_future_is_tried_again_after_a_pause() {
    let (clock, _isolation, command) = alone(|c| c);
    let tries = AtomicU32::new(0);
    let retry = Retry::attempts(3).backoff(Duration::from_millis(10), 1.0);
    let mut answer = pin!(retry.jitter(0.0).run_async(command.call(), |call| {
        let tried = tries.fetch_add(1, Ordering::Relaxed);
        call.run_async(move |_| async move { if tried == 1 { Ok(7) } else { Err("not yet") } })
    }));
    let parker = Parker::new();
    assert!(poll_by(&parker, answer.as_mut()).is_pending());
    clock.advance(Duration::from_millis(9));
    assert!(poll_by(&parker, answer.as_mut()).is_pending());
    assert_eq!(tries.load(Ordering::Relaxed), 1, "it pauses");
    clock.advance(Duration::from_millis(1));
    parker.park(None);
    assert_eq!(poll_by(&parker, answer.as_mut()), Poll::Ready(Ok(7)));
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Failure], totals[Event::Retried]), (1, 1));
}

#[test]
fn a_second_attempt_on_threads_wins_and_the_first_is_cancelled() {
    let pool = PoolConfig {
        core: 2,
        queue: 4,
        ..PoolConfig::default()
    };
    let (clock, _isolation, command) = alone(|c| c.threads(pool));
    command
        .configure(|config| config.interrupt_on_cancel = true)
        .unwrap();
    for _ in 0..20 {
        command.run(|_| Ok(0)).unwrap();
    }
    let tries = Arc::new(AtomicU32::new(0));
    let (sender, receiver) = std::sync::mpsc::channel();
    let count = Arc::clone(&tries);
    let work = move |cancel: &CancelToken| {
        if count.fetch_add(1, Ordering::Relaxed) == 1 {
            return Ok(2);
        }
        let stop = Parker::new();
        let wake = stop.clone();
        let _hook = cancel.on_cancel(move || wake.unpark());
        stop.park(None);
        sender.send("notified").unwrap();
        Err("too late")
    };
    let mut answer = pin!(Hedge::default().run_async(command.call(), |call| {
        call.queue(work.clone()).cancel_on_drop()
    }));
    let parker = Parker::new();
    assert!(poll_by(&parker, answer.as_mut()).is_pending());
    until("the first attempt runs", || {
        tries.load(Ordering::Relaxed) >= 1
    });
    // Not `advance`: the worker sleeps without the clock's knowledge.
    clock.jump(Duration::from_millis(1));
    let value = block_on("the second attempt has returned", answer);
    assert_eq!(value, Ok(2));
    assert_eq!(receiver.recv(), Ok("notified"));
    assert_eq!(command.snapshot().totals[Event::Hedged], 1);
}

#[test]
fn a_pause_ends_with_the_isolation() {
    let (clock, isolation, command) = alone(|c| c);
    let retry = Retry::attempts(2).backoff(Duration::from_secs(9), 1.0);
    let attempt = |call: Call| call.run_async(|_| async { Err("no") });
    let mut call = pin!(retry.run_async(command.call(), attempt));
    let woken = Parker::new();
    let waker = Waker::from(&woken);
    let mut poll = || call.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(poll().is_pending());
    isolation.shutdown_now();
    clock.settle();
    assert!(woken.is_notified(), "it does not hang");
    assert!(poll().is_ready());
}

#[test]
fn pauses_of_retries_do_not_overflow() {
    let patient = Retry::<()>::attempts(u32::MAX).longest(Duration::MAX);
    let pauses = |retry: &Retry<()>| [1, 3, 2_000, u32::MAX].map(|n| retry.pause(n));
    let longest = patient.clone().backoff(Duration::MAX, 2.0);
    assert_eq!(pauses(&longest)[1..], [Duration::MAX; 3]);
    assert!(longest.pause(1) >= Duration::from_secs(u64::MAX / 2));
    let none = patient.backoff(Duration::ZERO, f64::MAX);
    assert_eq!(pauses(&none), [Duration::ZERO; 4]);
}

#[test]
fn a_predicate_decides_what_is_tried_again() {
    let (_clock, isolation, command) = alone(|c| c);
    let retry = Retry::attempts(5).when(|error| error.failure() == Some(&"busy"));
    let mut errors = ["busy", "busy", "gone", "busy"].into_iter();
    let error = retry.run(command.call(), |call| {
        let error = errors.next().unwrap();
        call.run(move |_| Err(error))
    });
    assert_eq!(error.unwrap_err().failure(), Some(&"gone"));
    assert_eq!(command.snapshot().totals[Event::Retried], 2);
    let bold = Retry::attempts(2).when(CommandError::is_bad_request);
    let strict = made(builder("b").bad_request_when(|_| true), &isolation);
    let error = bold.run(strict.call(), |call| call.run(|_| Err("you")));
    assert!(error.unwrap_err().is_bad_request());
    assert_eq!(
        strict.snapshot().totals[Event::Retried],
        1,
        "if its predicate allows it"
    );
}

#[test]
fn a_predicate_that_panics_is_a_no() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(9)));
    let budget = RetryBudget::new(0, 1);
    let retries = [
        Retry::attempts(3).when(|_| panic!("on purpose")),
        Retry::attempts(3).retry_after(|_| panic!("on purpose")),
    ];
    for retry in retries.map(|retry| retry.budget(&budget)) {
        let answer = retry.run(command.call(), |call| call.run(|_| Err("no")));
        assert_eq!(answer, Ok(9));
    }
    assert_eq!(command.snapshot().totals[Event::Retried], 0);
    assert!(budget.try_spend(), "nothing was paid for");
}

/// Polls a retry until it is ready, and returns how long it paused, in milliseconds.
fn paused(retry: &Retry<&'static str>, errors: &[&'static str]) -> u64 {
    let (clock, _isolation, command) = alone(|c| c);
    let mut errors = errors.iter();
    let mut call = pin!(retry.run_async(command.call(), |call: Call| {
        let answer = errors.next().map_or(Ok(1), |error| Err(*error));
        call.run_async(move |_| async move { answer })
    }));
    let mut waited = 0;
    while poll_once(call.as_mut()).is_pending() {
        clock.jump(Duration::from_millis(1));
        waited += 1;
        assert!(waited < 20_000, "it does not end");
    }
    waited
}

#[test]
fn a_retry_waits_for_the_given_retry_after() {
    let hint = |error: &CommandError<&'static str>| match error.failure() {
        Some(&"later") => Some(Duration::from_millis(70)),
        _ => None,
    };
    let retry = Retry::attempts(3).backoff(Duration::from_millis(10), 1.0);
    let retry = retry.jitter(0.0).retry_after(hint);
    assert_eq!(paused(&retry, &["now", "later"]), 80);
    let patient = Retry::attempts(2).backoff(Duration::from_millis(90), 1.0);
    let patient = patient.jitter(0.0).retry_after(hint);
    assert_eq!(paused(&patient, &["later"]), 90, "the longer of the two");
}

#[test]
fn a_retry_waits_for_the_rate_limit_of_its_command() {
    let rate = RateConfig {
        calls: 1,
        per: SECOND,
        burst: 1,
    };
    let (clock, _isolation, command) = alone(|c| c.rate(rate));
    command.run(|_| Ok(1)).unwrap();
    let retry = Retry::attempts(2);
    let mut call = pin!(retry.run_async(command.call(), |call: Call| {
        call.run_async(|_| async { Ok(1) })
    }));
    assert!(poll_once(call.as_mut()).is_pending());
    clock.jump(SECOND - Duration::from_nanos(1));
    assert!(poll_once(call.as_mut()).is_pending());
    clock.jump(Duration::from_nanos(1));
    assert_eq!(poll_once(call.as_mut()), Poll::Ready(Ok(1)));
}

#[test]
fn a_hint_that_is_too_long_ends_the_retries() {
    let (_clock, isolation, command) = alone(|c| c);
    let budget = RetryBudget::new(0, 1);
    let retry = Retry::attempts(3).longest(SECOND).budget(&budget);
    let retry = retry.retry_after(|_| Some(SECOND + Duration::from_nanos(1)));
    let error = retry.run(command.call(), |call| call.run(|_| Err("no")));
    assert!(error.unwrap_err().is_failed());
    assert_eq!(command.snapshot().totals[Event::Retried], 0);
    assert!(budget.try_spend(), "nothing was paid for");
    let rate = RateConfig {
        calls: 1,
        per: SECOND * 60,
        burst: 1,
    };
    let rated = builder("b").rate(rate).build(&isolation).unwrap();
    rated.run(|_| Ok(1)).unwrap();
    let error = Retry::attempts(3).run(rated.call(), |call| call.run(|_| Ok(1)));
    let error = error.unwrap_err();
    let refused = Cause::Rejected(Rejection::Rate(SECOND * 60));
    assert_eq!(
        error.cause(),
        &refused,
        "the caller knows when to come back"
    );
}

#[test]
fn jitter_stays_in_its_bounds_and_differs() {
    let retry = Retry::attempts(2).backoff(Duration::from_millis(100), 1.0);
    let retry = retry.jitter(0.4).budget(&RetryBudget::new(100, 1));
    let pauses: Vec<u64> = (0..50).map(|_| paused(&retry, &["no"])).collect();
    assert!(
        pauses.iter().all(|pause| (60..=100).contains(pause)),
        "{pauses:?}"
    );
    let mut distinct = pauses;
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 10, "{distinct:?}");
}

#[test]
fn a_retry_is_paid_for_when_it_is_decided() {
    let (_clock, _isolation, command) = alone(|c| c);
    let budget = RetryBudget::new(0, 1);
    let retry = Retry::attempts(2).backoff(SECOND, 1.0).budget(&budget);
    let attempt = |call: Call| call.run_async(|_| async { Err("no") });
    let mut pausing = pin!(retry.run_async(command.call(), attempt));
    assert!(poll_once(pausing.as_mut()).is_pending(), "it pauses");
    assert!(!budget.try_spend(), "it is paid for already");
    let mut second = pin!(retry.run_async(command.call(), attempt));
    assert!(
        poll_once(second.as_mut()).is_ready(),
        "there is no budget left"
    );
}

#[test]
fn a_retry_that_never_begins_goes_back_to_the_budget() {
    for ends in ["dropped", "cancelled", "stopped", "begun"] {
        let (clock, isolation, command) = alone(|c| c);
        let budget = RetryBudget::new(0, 3);
        let retry = Retry::attempts(2).backoff(SECOND, 1.0).budget(&budget);
        let (call, handle) = with_handle(command.call());
        let attempt = |call: Call| call.run_async(|_| async { Err("no") });
        let mut pausing = Box::pin(retry.run_async(call, attempt));
        assert!(poll_once(pausing.as_mut()).is_pending(), "it pauses");
        let error = CommandError::new("a", Cause::Failed("no"));
        let mut adapter = Retries::new(&retry, &command);
        let mut pause = Box::pin(adapter.after_error(&error).unwrap());
        assert!(poll_once(pause.as_mut()).is_pending());
        assert_eq!(budget.left(), 1, "both are paid for");
        match ends {
            "cancelled" => _ = handle.cancel(Interrupt::No),
            "stopped" => isolation.shutdown_now(),
            "begun" => clock.jump(SECOND),
            _ => {}
        }
        if ends != "dropped" {
            assert!(poll_once(pausing.as_mut()).is_ready());
            let _ = poll_once(pause.as_mut());
        }
        drop((pausing, pause));
        let left = if ends == "begun" { 1 } else { 3 };
        assert_eq!(budget.left(), left, "{ends}");
    }
}

#[test]
fn second_attempts_are_a_share_of_the_calls() {
    let (clock, _isolation, command) = alone(|c| c.permits(500).no_timeout());
    (0..20).for_each(|_| drop(command.run(|_| Ok(0))));
    let hedge = Hedge {
        budget: RetryBudget::new(10, 2),
        ..Hedge::default()
    };
    let mut slow: Vec<_> = (0..100)
        .map(|_| Box::pin(hedge.run_async(command.call(), |call| call.run_async(|_| pending()))))
        .collect();
    for _ in 0..2 {
        slow.iter_mut()
            .for_each(|call| assert!(poll_once(call.as_mut()).is_pending()));
        clock.jump(SECOND);
    }
    let snapshot = command.snapshot();
    assert_eq!((snapshot.totals[Event::Hedged], snapshot.active), (12, 112));
    assert_eq!(hedge.budget.left(), 0);
}

#[test]
fn a_thread_that_must_not_block_makes_no_retry_that_comes_too_early() {
    let (_clock, _isolation, command) = alone(|c| c);
    let budget = RetryBudget::new(0, 9);
    let retry = Retry::attempts(3).budget(&budget).backoff(SECOND, 1.0);
    let run = |retry: &Retry<_>| {
        Blocking::forbid(|| retry.run(command.call(), |call| call.run(|_| Err("busy"))))
    };
    assert!(run(&retry).unwrap_err().is_failed());
    assert_eq!(
        command.snapshot().totals[Event::Retried],
        2,
        "without a pause"
    );
    assert!(run(&retry.retry_after(|_| Some(SECOND))).is_err());
    assert_eq!(command.snapshot().totals[Event::Retried], 2, "too early");
}

#[test]
fn a_pause_of_a_caller_that_blocks_ends_with_the_isolation() {
    let (_clock, isolation, command) = alone(|c| c);
    let asked = Gate::new();
    let ask = asked.clone();
    let retry = Retry::attempts(2).longest(Duration::MAX);
    let retry = retry.retry_after(move |_| {
        ask.open();
        Some(Duration::MAX)
    });
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| retry.run(command.call(), |call| call.run(|_| Err("no"))));
        asked.wait();
        isolation.shutdown_now();
        assert!(caller.join().unwrap().unwrap_err().is_failed());
    });
    assert_eq!(command.snapshot().totals[Event::Failure], 1);
}

/// A future whose `Drop` panics.
struct Boom {
    answer: Option<Result<u32, CommandError<&'static str>>>,
    _bomb: Bomb,
}

impl Future for Boom {
    type Output = Result<u32, CommandError<&'static str>>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.take().map_or(Poll::Pending, Poll::Ready)
    }
}

#[test]
fn a_panic_in_the_drop_of_an_attempt_does_not_cost_the_value() {
    let (clock, _isolation, command) = alone(|c| c);
    for _ in 0..20 {
        command.run(|_| Ok(0)).unwrap();
    }
    let mut n = 0;
    let mut hedged = pin!(Hedge::default().run_async(command.call(), |_: Call| {
        n += 1;
        Boom {
            answer: (n == 2).then_some(Ok(5)),
            _bomb: Bomb::new(),
        }
    }));
    assert!(poll_once(hedged.as_mut()).is_pending());
    clock.jump(SECOND);
    assert_eq!(poll_once(hedged.as_mut()), Poll::Ready(Ok(5)));
}
