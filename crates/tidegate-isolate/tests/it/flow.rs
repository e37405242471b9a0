//! The course of a call, outcome by outcome.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{BreakerMode, BreakerState, Cause, Event, FallbackError, Rejection};

use crate::support::{Numbers, alone, builder, counted, events, made, still, touchy, while_inside};

#[test]
fn success() {
    let (_clock, _isolation, command) = alone(|c| c);
    assert_eq!(command.run(|_| Ok(7)), Ok(7));
    assert_eq!(counted(&command), [(Event::Success, 1)]);
    let snapshot = command.snapshot();
    assert_eq!(
        (
            snapshot.window.health_total(),
            snapshot.window.health_errors()
        ),
        (1, 0)
    );
    assert_eq!(snapshot.latencies.total.count(), 1);
    assert_eq!((snapshot.active, snapshot.peak), (0, 1));
}

#[test]
fn failure_and_fallback() {
    let (_clock, _isolation, command) = alone(|c| {
        c.fallback(|why| {
            assert_eq!(why.cause(), &Cause::Failed("no"));
            assert!(why.events().contains(Event::Failure), "the reason is known");
            Ok(3)
        })
    });
    assert_eq!(command.run(|_| Err("no")), Ok(3));
    assert_eq!(
        counted(&command),
        [(Event::Failure, 1), (Event::FallbackSuccess, 1)]
    );
    let window = command.snapshot().window;
    assert_eq!((window.health_total(), window.health_errors()), (1, 1));
}

#[test]
fn failure_without_a_fallback_keeps_the_cause() {
    let (_clock, _isolation, command) = alone(|c| c);
    let error = command.run(|_| Err("no")).unwrap_err();
    assert_eq!(error.cause(), &Cause::Failed("no"));
    assert_eq!(error.fallback(), Some(&FallbackError::Missing));
    assert_eq!(error.failure(), Some(&"no"));
    assert_eq!(
        error.to_string(),
        "command a failed: no; it has no fallback"
    );
    let happened = [
        Event::Failure,
        Event::FallbackMissing,
        Event::ExceptionThrown,
    ];
    assert_eq!(error.events(), events(&happened));
    assert_eq!(counted(&command), happened.map(|event| (event, 1)));
}

#[test]
fn a_panic_is_a_failure_with_its_message() {
    let (_clock, _isolation, command) = alone(|c| c);
    let error = command.run(|_| panic!("out of ink")).unwrap_err();
    assert_eq!(error.cause(), &Cause::Panicked("out of ink".into()));
    assert!(error.is_failed());
    assert_eq!(command.snapshot().active, 0, "the permit is back");
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}

#[test]
fn a_bad_request_has_no_fallback_and_is_no_failure() {
    let (_clock, _isolation, command) = alone(|c| {
        c.bad_request_when(|error| *error == "your fault")
            .fallback(|_| panic!("must not be called"))
    });
    let error = command.run(|_| Err("your fault")).unwrap_err();
    assert!(error.is_bad_request() && error.fallback().is_none());
    assert_eq!(
        counted(&command),
        [(Event::BadRequest, 1), (Event::ExceptionThrown, 1)]
    );
    let snapshot = command.snapshot();
    assert_eq!(snapshot.window.health_total(), 0);
    assert_eq!(snapshot.latencies.run.count(), 1);
}

#[test]
fn a_fallback_that_fails_or_panics_stands_beside_the_cause() {
    let (_clock, isolation) = still();
    let failing = made(builder("a").fallback(|_| Err("neither")), &isolation);
    let error = failing.run(|_| Err("no")).unwrap_err();
    assert_eq!(error.cause(), &Cause::Failed("no"));
    assert_eq!(error.fallback(), Some(&FallbackError::Failed("neither")));
    let panicking = made(builder("b").fallback(|_| panic!("twice")), &isolation);
    let error = panicking.run(|_| Err("no")).unwrap_err();
    assert_eq!(
        error.fallback(),
        Some(&FallbackError::Panicked("twice".into()))
    );
    assert!(error.events().contains(Event::FallbackFailure));
    assert_eq!(panicking.snapshot().fallbacks, 0);
}

#[test]
fn a_switched_off_fallback_is_counted_and_reported() {
    let (_clock, _isolation, command) = alone(|c| {
        c.fallback(|_| Ok(1))
            .configure(|c| c.fallback_enabled = false)
    });
    let error = command.run(|_| Err("no")).unwrap_err();
    assert_eq!(error.fallback(), Some(&FallbackError::Disabled));
    assert!(error.events().contains(Event::FallbackDisabled));
    assert_eq!(command.snapshot().totals[Event::FallbackDisabled], 1);
}

#[test]
fn too_many_fallbacks_are_refused_and_the_cause_is_kept() {
    let (_clock, isolation) = still();
    let inner: Arc<Mutex<Option<Numbers>>> = Arc::default();
    let again = Arc::clone(&inner);
    let command = builder("a")
        .configure(|c| c.fallback_permits = 1)
        .fallback(move |why| {
            // The second call is made while the only fallback permit is held.
            let command = again.lock().unwrap().take();
            if let Some(command) = command {
                let error = command.run(|_| Err("second")).unwrap_err();
                assert_eq!(error.fallback(), Some(&FallbackError::Rejected));
                assert_eq!(error.cause(), &Cause::Failed("second"));
            }
            assert_eq!(why.cause(), &Cause::Failed("first"));
            Ok(1)
        })
        .build(&isolation)
        .unwrap();
    *inner.lock().unwrap() = Some(command.clone());
    assert_eq!(command.run(|_| Err("first")), Ok(1));
    assert_eq!(command.snapshot().totals[Event::FallbackRejection], 1);
}

#[test]
fn a_short_circuit_runs_nothing_and_is_not_counted_as_health() {
    let (_clock, _isolation, command) = alone(|c| {
        c.configure(|c| c.breaker.mode = BreakerMode::ForcedOpen)
            .fallback(|why| {
                assert!(why.is_short_circuited());
                Ok(9)
            })
    });
    assert_eq!(command.run(|_| panic!("must not run")), Ok(9));
    assert_eq!(
        counted(&command),
        [(Event::ShortCircuited, 1), (Event::FallbackSuccess, 1)]
    );
    let snapshot = command.snapshot();
    assert_eq!(
        (
            snapshot.window.health_total(),
            snapshot.latencies.total.count()
        ),
        (0, 0)
    );
    assert!(snapshot.is_open);
}

#[test]
fn full_permits_refuse_without_running() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    while_inside(&command, 1, || {
        let error = command.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Rejection::Permits));
        assert_eq!(command.snapshot().active, 1);
    });
    let snapshot = command.snapshot();
    assert_eq!(snapshot.totals[Event::PermitsRejected], 1);
    assert_eq!(
        (
            snapshot.window.health_total(),
            snapshot.window.health_errors()
        ),
        (2, 1)
    );
    assert_eq!(
        snapshot.latencies.total.count(),
        1,
        "a refusal has no latency"
    );
    assert_eq!(snapshot.active, 0);
}

#[test]
fn rejections_and_failures_trip_the_breaker_and_a_probe_closes_it() {
    let (clock, _isolation, command) = alone(|c| c);
    for _ in 0..20 {
        let _ = command.run(|_| Err("down"));
    }
    clock.advance(Duration::from_millis(500));
    let error = command.run(|_| panic!("must not run")).unwrap_err();
    assert!(error.is_short_circuited());
    assert!(error.to_string().contains("try again in 5s"), "{error}");
    clock.advance(error.retry_after().unwrap());
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    assert!(!command.snapshot().is_open);
}

/// By default they do, as in Hystrix.
#[test]
fn rejections_of_a_full_bulkhead_open_a_breaker_unless_it_leaves_them_out() {
    for count_rejections in [true, false] {
        let (clock, _isolation, command) = alone(|c| {
            c.permits(1)
                .configure(|c| c.breaker.count_rejections = count_rejections)
        });
        let held = command.admit().unwrap();
        for _ in 0..100 {
            let refused = command.run(|_| Ok(1)).unwrap_err();
            assert!(refused.is_rejected());
        }
        clock.advance(Duration::from_millis(500));
        let refused = command.run(|_| Ok(1)).unwrap_err();
        assert_eq!(refused.is_short_circuited(), count_rejections);
        assert_eq!(command.snapshot().is_open, count_rejections);
        held.verdict(true);
        drop(held);
        assert_eq!(command.run(|_| Ok(1)).is_ok(), !count_rejections);
    }
}

#[test]
fn a_probe_that_panics_opens_the_breaker_again() {
    let (clock, _isolation, command) = alone(|c| c);
    for _ in 0..20 {
        let _ = command.run(|_| Err("down"));
    }
    clock.advance(Duration::from_millis(5_501));
    assert!(command.run(|_| panic!("still down")).is_err());
    assert!(command.run(|_| Ok(1)).unwrap_err().is_short_circuited());
}

#[test]
fn a_call_has_its_own_fallback_that_owns_its_input() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(0)));
    let last_seen = [4, 5];
    let answer = command
        .call()
        .fallback(move |_| Ok(last_seen.iter().sum()))
        .run(|_| Err("no"));
    assert_eq!(answer, Ok(9));
    assert_eq!(command.run(|_| Err("no")), Ok(0));
}

#[test]
fn a_call_can_be_observed() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(0)));
    let seen = Arc::new(Mutex::new(Vec::new()));
    for answer in [Ok(1), Err("no")] {
        let tell = Arc::clone(&seen);
        let call = command
            .call()
            .observe(move |event| tell.lock().unwrap().push(event));
        call.run(move |_| answer).unwrap();
    }
    let expected = [Event::Success, Event::Failure, Event::FallbackSuccess];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn queue_returns_a_completion() {
    let (_clock, _isolation, command) = alone(|c| c);
    assert_eq!(command.queue(|_| Ok(5)).wait().unwrap(), 5);
    let error = command.queue(|_| Err("no")).wait().unwrap_err();
    assert!(error.failure().is_some_and(|error| error.is_failed()));
}

#[test]
fn totals_equal_what_was_run() {
    let (_clock, _isolation, command) = alone(|c| {
        c.permits(2)
            .configure(|c| c.breaker.mode = BreakerMode::MetricsOnly)
            .fallback(|_| Ok(0))
    });
    let (ran, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (command, ran, refused) = (&command, &ran, &refused);
            scope.spawn(move || {
                for n in 0..1_000 {
                    let mut inside = false;
                    let answer = command.run_in_place(|_| {
                        inside = true;
                        if (n + thread) % 5 == 0 {
                            Err("no")
                        } else {
                            Ok(1)
                        }
                    });
                    assert!(answer.is_ok());
                    if inside { ran } else { refused }.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let totals = command.snapshot().totals;
    let (ran, refused) = (ran.into_inner() as u64, refused.into_inner() as u64);
    assert_eq!(totals[Event::Success] + totals[Event::Failure], ran);
    assert_eq!(totals[Event::PermitsRejected], refused);
    assert_eq!(
        totals[Event::FallbackSuccess],
        totals[Event::Failure] + refused
    );
    assert_eq!(totals.health_total(), 4_000);
    let snapshot = command.snapshot();
    assert_eq!((snapshot.active, snapshot.fallbacks), (0, 0));
    assert_eq!(snapshot.latencies.total.count(), ran);
    assert!(snapshot.peak <= 2);
}

#[test]
fn a_call_that_is_cut_short_uses_no_token_and_a_probe_without_one_frees_its_slot() {
    let rate = tidegate_isolate::RateConfig {
        calls: 1,
        per: Duration::from_secs(8),
        burst: 1,
    };
    let (clock, _isolation, command) = alone(|c| c.rate(rate).breaker(touchy()));
    command.run(|_| Err("down")).unwrap_err();
    clock.jump(Duration::from_secs(6));
    let error = command.run(|_| Ok(1)).unwrap_err();
    let after = Duration::from_secs(2);
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Rate(after)));
    assert_eq!(command.snapshot().breaker, BreakerState::HalfOpen);
    clock.jump(after);
    // There is one token, and the probe that failed has left none.
    command.run(|_| Err("down")).unwrap_err();
    clock.jump(Duration::from_secs(4));
    for _ in 0..3 {
        assert!(command.run(|_| Ok(1)).unwrap_err().is_short_circuited());
    }
    command.reset_breaker();
    clock.jump(Duration::from_secs(4));
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "the token is there");
}

#[test]
fn a_rate_limit_says_when_to_come_back() {
    let (clock, _isolation, command) = alone(|c| {
        c.rate(tidegate_isolate::RateConfig {
            calls: 10,
            per: Duration::from_secs(1),
            burst: 1,
        })
    });
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    let error = command.run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_millis(100)));
    assert_eq!(
        command.snapshot().window.health_errors(),
        0,
        "no fault of the dependency"
    );
    clock.advance(Duration::from_millis(100));
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}
