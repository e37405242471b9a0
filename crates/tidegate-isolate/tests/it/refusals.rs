//! A rejection names the limit that caused it, and results count even if user code panics on the
//! way.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    BreakerConfig, BreakerState, BreakerWindow, Cause, Command, Criticality, Event, Isolation,
    Partitions, PoolConfig, Rejection, Retry, RetryBudget,
};
use tidegate_testkit::{Counter, Gate, until};

use crate::support::{
    alone, builder, cause, failed, hold, isolated, made, poll_once, pool, pool_of, set,
    set_property, still, touchy, tunable,
};

#[test]
fn a_full_queue_and_a_reached_threshold_are_distinguished() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 2)));
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let waiting: Vec<_> = (0..2).map(|_| command.queue(|_| Ok(1))).collect();
    let full = command.queue(|_| Ok(1)).wait().unwrap_err().failure();
    let full = full.expect("it was refused");
    assert_eq!(full.cause(), &Cause::Rejected(Rejection::Pool));
    assert!(full.to_string().contains("the queue is full"), "{full}");
    assert!(!full.events().contains(Event::ThresholdReached));
    set(&command, |c| c.pool.rejection_threshold = Some(1));
    let over = command.queue(|_| Ok(1)).wait().unwrap_err().failure();
    let over = over.expect("it was refused");
    assert_eq!(over.cause(), &Cause::Rejected(Rejection::Threshold));
    assert!(
        over.to_string().contains("queueSizeRejectionThreshold"),
        "{over}"
    );
    assert!(over.events().contains(Event::ThresholdReached));
    assert!(over.events().contains(Event::PoolRejected), "as in Hystrix");
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::PoolRejected], totals[Event::ThresholdReached]),
        (2, 1)
    );
    assert_eq!(totals.health_errors(), 2, "each counts once");
    set(&command, |c| c.pool.rejection_threshold = Some(2));
    let full = command.queue(|_| Ok(1));
    assert_eq!(
        cause(full),
        Cause::Rejected(Rejection::Pool),
        "the queue's own bound again"
    );
    go_on.open();
    for answer in waiting.into_iter().chain([held]) {
        answer.wait().unwrap();
    }
}

#[test]
fn permits_reserved_for_other_calls_are_a_cause_of_their_own() {
    let (_clock, _isolation, command) = alone(|c| {
        c.threads(PoolConfig {
            partitions: Partitions {
                high: 0.5,
                ..Partitions::default()
            },
            ..pool_of(2, 0)
        })
    });
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let refused = command.queue(|_| Ok(1));
    assert_eq!(cause(refused), Cause::Rejected(Rejection::Reserved));
    let text = Rejection::Reserved.to_string();
    assert!(text.contains("calls that matter more"), "{text}");
    let high = command.call().criticality(Criticality::High);
    assert_eq!(high.run(|_| Ok(2)), Ok(2));
    go_on.open();
    held.wait().unwrap();
}

#[test]
fn a_closed_pool_says_nothing_of_the_dependency() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 1)).breaker(touchy()));
    drop(isolation.shutdown(Duration::ZERO));
    for _ in 0..3 {
        let error = command.run(|_| Ok(1)).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Rejection::Closed));
        let queued = command.queue(|_| Ok(1));
        assert_eq!(cause(queued), Cause::Rejected(Rejection::Closed));
    }
    assert!(!command.snapshot().is_open, "no breaker counted it");
}

#[test]
fn completed_calls_are_those_that_ran() {
    let (clock, isolation, command) =
        alone(|c| c.threads(pool_of(1, 2)).timeout(Duration::from_millis(10)));
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let queued = command.queue(|_| panic!("must not run"));
    clock.jump(Duration::from_millis(10));
    assert!(matches!(cause(queued), Cause::TimedOut(_)));
    assert!(matches!(cause(held), Cause::TimedOut(_)));
    // Other work on the same threads is not a call.
    let other = Gate::new();
    let notified = other.clone();
    let workers = isolation.pool("a").expect("it was made");
    workers.execute(move || notified.open()).unwrap();
    go_on.open();
    other.wait();
    command.run(|_| Ok(1)).unwrap();
    let pool = pool(&isolation);
    assert_eq!((pool.completed, pool.executed_total), (2, 2));
}

#[test]
fn a_cache_key_without_a_request_is_counted() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(9)));
    let error = command.call().cache_key("x").run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::NoRequest, "no fallback hides it");
    assert!(
        error.events().contains(Event::Failure),
        "{}",
        error.events()
    );
    let queued = command.call().cache_key("x").queue(|_| Ok(1));
    assert_eq!(cause(queued), Cause::NoRequest);
    let future = command.call().cache_key("x").run_async(|_| async { Ok(1) });
    assert!(matches!(poll_once(pin!(future)), Poll::Ready(Err(_))));
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::Failure], totals[Event::ExceptionThrown]),
        (3, 3)
    );
    assert_eq!(command.snapshot().breaker_entered[1], 0);
}

#[test]
fn a_timeout_of_zero_says_what_to_do_instead() {
    let (properties, _isolation, command) = tunable(|c| c);
    let name = "hystrix.command.a.execution.isolation.thread.timeoutInMilliseconds";
    let error = properties.set(name, "0").unwrap_err();
    let advice = "`execution.timeout.enabled` to false";
    assert!(error.reason().contains(advice), "{error}");
    set_property(
        &properties,
        "hystrix.command.a.execution.timeout.enabled",
        "false",
    );
    assert_eq!(command.config().timeout, None, "the advice works");
}

#[test]
fn fixed_settings_are_described_in_the_error() {
    let (_clock, _isolation, command) = alone(|c| c);
    let error = command.configure(|c| c.breaker.window = BreakerWindow::Count(5));
    let notified = "a: breaker.window is the last 5 calls: it is fixed for the life of the key";
    assert_eq!(error.unwrap_err().to_string(), notified);
    let error = command.configure(|c| c.metrics.counts.buckets = 5);
    let notified = "a: metrics is 10s in 5 buckets, latencies 60s in 6 buckets: it is fixed";
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with(notified), "{error}");
}

/// A result whose drop panics.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose: no caller waits for the result");
    }
}

const TIMEOUT: Duration = Duration::from_millis(10);
const SLEEP: Duration = Duration::from_secs(5);

/// A command whose breaker is open and whose sleep is over: the next call is the probe.
fn probing(threads: bool) -> (ManualClock, Isolation, Command<Bomb, &'static str>) {
    let (clock, isolation) = still();
    let command = Command::builder("a").group("tests").timeout(TIMEOUT);
    let command = command.breaker(BreakerConfig {
        window: BreakerWindow::Count(2),
        min_calls: 2,
        sleep: SLEEP,
        ..BreakerConfig::default()
    });
    let command = match threads {
        true => command.threads(pool_of(1, 1)),
        false => command,
    };
    let command = command.build(&isolation).unwrap();
    for _ in 0..2 {
        assert!(command.run(|_| Err("down")).is_err());
    }
    assert_eq!(command.snapshot().breaker, BreakerState::Open);
    clock.advance(SLEEP + TIMEOUT);
    (clock, isolation, command)
}

#[test]
fn a_late_answer_whose_drop_panics_keeps_the_verdict_of_the_probe() {
    let (clock, _isolation, command) = probing(false);
    let late = clock.clone();
    let answer = command.run(move |_| {
        late.advance(TIMEOUT);
        Ok(Bomb)
    });
    assert!(answer.unwrap_err().is_timed_out());
    let snapshot = command.snapshot();
    assert_eq!((snapshot.breaker, snapshot.active), (BreakerState::Open, 0));
    assert_eq!(snapshot.totals[Event::Timeout], 1);
}

#[test]
fn a_late_answer_on_a_thread_whose_drop_panics_keeps_the_verdict_of_the_probe() {
    let (clock, isolation, command) = probing(true);
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (notified, gate) = (inside.clone(), go_on.clone());
    let answer = command.queue(move |_| {
        notified.open();
        gate.wait();
        Ok(Bomb)
    });
    inside.wait();
    clock.jump(TIMEOUT);
    let error = answer.wait().unwrap_err().failure();
    assert!(error.is_some_and(|error| error.is_timed_out()));
    go_on.open();
    until("no call overstays", || pool(&isolation).overstaying == 0);
    assert_eq!(command.snapshot().breaker, BreakerState::Open);
    clock.jump(SLEEP + TIMEOUT);
    let probe = command.run(|_| Err("still down")).unwrap_err();
    assert!(probe.is_failed(), "the next probe is let through: {probe}");
}

#[test]
fn a_late_future_whose_drop_panics_keeps_the_verdict_of_the_probe() {
    let (clock, _isolation, command) = probing(false);
    // Ready too late, and both the result and the future panic when they are dropped.
    let late = clock.clone();
    let call = command.run_async(move |_| {
        let bomb = Bomb;
        async move {
            let _bomb = &bomb;
            late.advance(TIMEOUT);
            Ok(Bomb)
        }
    });
    let error = failed(poll_once(pin!(call)), "it is too late");
    assert!(error.is_timed_out(), "{error}");
    assert_eq!(command.snapshot().breaker, BreakerState::Open);
    // Never ready: it times out while it waits.
    clock.advance(SLEEP + TIMEOUT);
    let mut call = pin!(command.run_async(|_| {
        let bomb = Bomb;
        async move {
            let _bomb = &bomb;
            std::future::pending().await
        }
    }));
    assert!(poll_once(call.as_mut()).is_pending());
    clock.advance(TIMEOUT);
    clock.settle();
    let error = failed(poll_once(call.as_mut()), "its time is over");
    assert!(error.is_timed_out(), "{error}");
    let snapshot = command.snapshot();
    assert_eq!((snapshot.breaker, snapshot.active), (BreakerState::Open, 0));
    assert_eq!(snapshot.breaker_entered[BreakerState::Open as usize], 3);
}

#[test]
fn nothing_is_tried_again_after_the_end() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 0)));
    assert!(
        isolation
            .shutdown(Duration::ZERO)
            .wait()
            .unwrap()
            .is_clean()
    );
    let budget = RetryBudget::new(100, 100);
    let retry = Retry::attempts(5).budget(&budget);
    let error = retry.run(command.call(), |call| call.run(|_| Ok(1)));
    assert_eq!(
        error.unwrap_err().cause(),
        &Cause::Rejected(Rejection::Closed)
    );
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::PoolRejected], totals[Event::Retried]),
        (1, 0)
    );
}

#[test]
fn a_call_after_the_end_is_refused_before_anything_is_prepared_for_it() {
    let captured = Counter::new();
    let count = captured.clone();
    let isolation = isolated(|i| {
        i.clock(ManualClock::new()).propagator(move || {
            count.hit();
            || || ()
        })
    });
    let command = made(builder("a").threads(pool_of(1, 0)), &isolation);
    drop(isolation.shutdown(Duration::from_secs(1)));
    let error = command.run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Closed));
    assert_eq!(captured.count(), 0, "it was not timed either");
}

#[test]
fn an_attempt_that_meets_the_end_is_the_last() {
    for how in [
        (|isolation| Isolation::shutdown_now(isolation)) as fn(&Isolation),
        |isolation| drop(isolation.shutdown(Duration::ZERO)),
    ] {
        let (_clock, isolation, command) = alone(|c| c);
        let tries = Arc::new(AtomicU32::new(0));
        let (count, ending) = (Arc::clone(&tries), isolation.clone());
        let work = move |_: &_| {
            count.fetch_add(1, Ordering::Relaxed);
            how(&ending);
            Err("down")
        };
        let budget = RetryBudget::new(100, 100);
        let retry = Retry::attempts(5).budget(&budget);
        let error = retry.run(command.call(), |call| call.run(work.clone()));
        assert!(error.is_err());
        assert_eq!(tries.load(Ordering::Relaxed), 1);
        let (count, ending) = (Arc::clone(&tries), isolation.clone());
        let work = move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            how(&ending);
            async { Err("down") }
        };
        let future = retry.run_async(command.call(), |call| call.run_async(&work));
        assert!(matches!(poll_once(pin!(future)), Poll::Ready(Err(_))));
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        assert_eq!(command.snapshot().totals[Event::Retried], 0);
    }
}

#[test]
fn what_a_thread_must_not_do_is_not_tried_again() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)));
    let budget = RetryBudget::new(100, 100);
    let error = tidegate_core::Blocking::forbid(|| {
        let retry = Retry::attempts(5).budget(&budget);
        retry.run(command.call(), |call| call.run(|_| Ok(1)))
    });
    assert_eq!(
        error.unwrap_err().cause(),
        &Cause::Rejected(Rejection::Waiting)
    );
    assert_eq!(command.snapshot().totals[Event::Retried], 0);
}
