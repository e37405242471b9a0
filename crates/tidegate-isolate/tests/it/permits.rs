//! Limits from the outside: permits, reserved permits, waiting and adaptive limits.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{ManualClock, Parker};
use tidegate_isolate::{
    AdaptiveLimit, Cause, Command, Criticality, Event, Hedge, LimitReason, Partitions,
    PermitConfig, Rejection, Verdict,
};
use tidegate_testkit::{Gate, Log, until};

use crate::support::{
    Numbers, SECOND, alone, builder, failed, isolated, made, poll_by, poll_once, pool_of, set,
    waiting, while_inside,
};

#[test]
fn what_matters_most_is_refused_last() {
    let partitions = Partitions {
        normal: 0.25,
        high: 0.25,
        critical: 0.25,
    };
    let config = PermitConfig {
        limit: 4,
        partitions,
        ..PermitConfig::default()
    };
    let (_clock, _isolation, command) = alone(|c| c.permits(config));
    let passes = |criticality| {
        command
            .call()
            .criticality(criticality)
            .run(|_| Ok(1))
            .is_ok()
    };
    while_inside(&command, 2, || {
        assert!(!passes(Criticality::Sheddable) && !passes(Criticality::Normal));
        assert!(passes(Criticality::High) && passes(Criticality::Critical));
        let future = |criticality| {
            let call = command.call().criticality(criticality);
            poll_once(pin!(call.run_async(|_| async { Ok(1) })))
        };
        assert!(matches!(future(Criticality::Normal), Poll::Ready(Err(_))));
        assert_eq!(future(Criticality::High), Poll::Ready(Ok(1)));
    });
    assert!(passes(Criticality::Sheddable));
}

#[test]
fn a_call_waits_for_a_permit_and_its_wait_is_a_figure_of_its_own() {
    let (clock, _isolation, command) = alone(|c| {
        c.permits(waiting(1, Duration::from_millis(500)))
            .no_timeout()
    });
    let (inside, go_on) = (Gate::new(), Gate::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            command.run_in_place(|_| {
                inside.open();
                go_on.wait();
                Ok(1)
            })
        });
        inside.wait();
        let sleepers = clock.sleepers();
        let waiter = scope.spawn(|| command.run(|_| Ok(2)));
        clock.await_sleepers(sleepers + 1);
        assert_eq!(command.snapshot().waiting, 1);
        clock.jump(Duration::from_millis(100));
        go_on.open();
        assert_eq!(waiter.join().unwrap(), Ok(2));
    });
    let latencies = command.snapshot().latencies;
    assert!(
        latencies.wait.max() >= Duration::from_millis(97),
        "{:?}",
        latencies.wait.max()
    );
    assert_eq!(latencies.wait.count(), 2);
}

#[test]
fn a_wait_that_is_over_is_a_refusal() {
    let (clock, _isolation, command) =
        alone(|c| c.permits(waiting(1, Duration::from_millis(5))).no_timeout());
    while_inside(&command, 1, || {
        std::thread::scope(|scope| {
            let sleepers = clock.sleepers();
            let waiter = scope.spawn(|| command.run(|_| Ok(2)));
            clock.await_sleepers(sleepers + 1);
            clock.jump(Duration::from_millis(5));
            let error = waiter.join().unwrap().unwrap_err();
            assert_eq!(error.cause(), &Cause::Rejected(Rejection::Permits));
        });
    });
    assert_eq!(command.snapshot().totals[Event::PermitsRejected], 1);
}

#[test]
fn a_critical_call_takes_the_place_of_a_less_critical_one() {
    let permits = PermitConfig {
        max_waiting: 1,
        ..waiting(1, SECOND)
    };
    let (_clock, _isolation, command) = alone(|c| c.permits(permits));
    let held = command.admit().unwrap();
    let call = |criticality| {
        let call = command.call().criticality(criticality);
        call.run_async(|_| async { Ok(1) })
    };
    let parker = Parker::new();
    let mut shed = pin!(call(Criticality::Sheddable));
    assert!(poll_by(&parker, shed.as_mut()).is_pending());
    let mut critical = pin!(call(Criticality::Critical));
    assert!(poll_once(critical.as_mut()).is_pending());
    assert!(parker.is_notified());
    assert_eq!(command.snapshot().waiting, 1, "its place is taken at once");
    let error = failed(poll_by(&parker, shed), "it was displaced");
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::Permits));
    drop(held);
    assert_eq!(poll_once(critical), Poll::Ready(Ok(1)));
    let snapshot = command.snapshot();
    assert_eq!((snapshot.waiting, snapshot.active), (0, 0));
}

#[test]
fn a_call_times_out_while_it_waits() {
    let (clock, _isolation, command) = alone(|c| c.permits(waiting(1, SECOND)).timeout(SECOND / 2));
    while_inside(&command, 1, || {
        let parker = Parker::new();
        let mut future = pin!(command.run_async(|_| async { Ok(1) }));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| command.run(|_| Ok(2)));
            // The thread of the timeouts is a sleeper of the clock, too.
            until("the call waits", || command.snapshot().waiting == 1);
            assert!(poll_by(&parker, future.as_mut()).is_pending());
            clock.jump(SECOND / 2);
            let error = waiter.join().unwrap().unwrap_err();
            assert_eq!(error.cause(), &Cause::TimedOut(SECOND / 2));
        });
        let error = failed(poll_by(&parker, future.as_mut()), "its time is over");
        assert_eq!(error.cause(), &Cause::TimedOut(SECOND / 2));
    });
    let totals = command.snapshot().totals;
    let expired = (totals[Event::Timeout], totals[Event::ExpiredInQueue]);
    // The call inside is late, too.
    assert_eq!(expired, (3, 2));
}

#[test]
fn a_lower_limit_acts_at_once() {
    let (_clock, _isolation, command) = alone(|c| c.permits(3));
    while_inside(&command, 2, || {
        command.configure(|c| c.permits.limit = 2).unwrap();
        assert!(command.run(|_| Ok(1)).unwrap_err().is_rejected());
        command.configure(|c| c.permits.limit = 3).unwrap();
        assert_eq!(command.run(|_| Ok(1)), Ok(1));
    });
}

#[test]
fn an_adaptive_limit_follows_the_calls() {
    let limit = AdaptiveLimit {
        window: None,
        ..AdaptiveLimit::aimd()
    };
    let (clock, _isolation, command) = alone(|c| c.adaptive(limit).no_timeout());
    assert_eq!(command.snapshot().limit, 20);
    while_inside(&command, 10, || {
        let turn = clock.clone();
        command
            .run(move |_| {
                turn.jump(Duration::from_millis(1));
                Ok(1)
            })
            .unwrap();
    });
    assert!(command.snapshot().limit >= 21);
}

#[test]
fn failed_calls_do_not_move_an_adaptive_limit() {
    let limit = AdaptiveLimit {
        window: None,
        initial: 2,
        min: 1,
        ..AdaptiveLimit::aimd()
    };
    let (_clock, _isolation, command) = alone(|c| c.adaptive(limit.clone()).no_timeout());
    let (_, _isolation, threads) = alone(|c| c.threads(pool_of(1, 1)).adaptive(limit).no_timeout());
    let fail = |command: &Numbers| command.run(|_| Err("no")).map(drop).map_err(drop);
    let ends: [&dyn Fn(); 6] = [
        &|| assert!(fail(&command).is_err()),
        &|| assert!(fail(&threads).is_err()),
        &|| assert!(command.run(|_| panic!("no")).is_err()),
        &|| assert!(command.admit().unwrap().verdict(false)),
        &|| assert!(command.admit().unwrap().verdict(Verdict::Ignored)),
        &|| drop(command.admit().unwrap().fail(Cause::Failed("no"))),
    ];
    let limits = || [&command, &threads].map(|one| one.snapshot().adaptive_limit.unwrap());
    for (way, end) in ends.iter().enumerate() {
        end();
        assert_eq!(limits(), [2, 2], "{way}");
    }
    for command in [&command, &threads] {
        assert_eq!(command.run(|_| Ok(1)), Ok(1));
    }
    assert_eq!(limits(), [3, 3], "successes do");
}

#[test]
fn each_move_of_an_adaptive_limit_is_an_event_with_time_and_reason() {
    let (clock, moves) = (ManualClock::new(), Log::new());
    let log = moves.clone();
    let isolation = isolated(|i| {
        i.clock(&clock).on_limit_move(move |change| {
            let reason = change.reason.map(LimitReason::word);
            let ms = change.at_nanos / 1_000_000;
            let (key, from, to) = (&change.key, change.from, change.to);
            log.push(format!("{key} {ms} ms: {from} to {to} {reason:?}"));
        })
    });
    let limit = AdaptiveLimit {
        window: None,
        min: 1,
        ..AdaptiveLimit::aimd()
    };
    let command = made(
        builder("a").adaptive(limit.clone()).no_timeout(),
        &isolation,
    );
    let held: Vec<_> = (0..10).map(|_| command.admit().unwrap()).collect();
    let call = || {
        let entry = command.admit().unwrap();
        clock.jump(Duration::from_millis(1));
        assert!(entry.verdict(true));
    };
    call();
    assert_eq!(moves.take(), ["a 1 ms: 20 to 21 Some(\"fast\")"]);
    // The limit of 21 is half in use with eleven calls.
    call();
    assert_eq!(moves.take(), ["a 2 ms: 21 to 22 Some(\"fast\")"]);
    drop(held);
    // A change of settings is told on another thread.
    command.configure(|c| c.permits.adaptive = None).unwrap();
    let fixed = command.snapshot().limit;
    moves.wait_for(1);
    let expected = format!("a 2 ms: 22 to {fixed} Some(\"settings\")");
    assert_eq!(moves.take(), [expected]);
    // A fixed limit does not move by itself, and a change of it is not a move.
    command.configure(|c| c.permits.limit = 7).unwrap();
    call();
    set(&command, |c| c.permits.adaptive = Some(limit.clone()));
    moves.wait_for(1);
    assert_eq!(moves.take(), ["a 3 ms: 7 to 20 Some(\"settings\")"]);
}

#[test]
fn a_limit_becomes_adaptive_and_fixed_again_while_it_is_used() {
    let (clock, _isolation, command) = alone(|c| c.permits(3).no_timeout());
    let each_call = AdaptiveLimit {
        window: None,
        ..AdaptiveLimit::aimd()
    };
    let set = |adaptive: Option<AdaptiveLimit>| {
        set(&command, |c| c.permits.adaptive = adaptive);
        command.snapshot().limit
    };
    let use_it = || {
        while_inside(&command, 15, || {
            let turn = clock.clone();
            let work = move |_: &_| {
                turn.jump(Duration::from_millis(1));
                Ok(1)
            };
            command.run(work).unwrap();
        });
        command.snapshot().limit
    };
    assert_eq!(
        set(Some(each_call.clone())),
        20,
        "it begins with the initial limit"
    );
    let grown = use_it();
    assert!(grown > 20, "{grown}");
    assert_eq!(
        set(Some(each_call.clone())),
        grown,
        "no new setting was made"
    );
    let bounded = AdaptiveLimit {
        max: 20,
        ..each_call.clone()
    };
    assert_eq!(set(Some(bounded)), 20, "within the new bounds");
    assert_eq!(use_it(), 20);
    assert_eq!(set(None), 3, "the limit that was given");
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(command.snapshot().limit, 3, "and no call moves it");
    assert_eq!(set(Some(each_call)), 20);
    let wrong = AdaptiveLimit {
        min: 0,
        ..AdaptiveLimit::vegas()
    };
    let error = command.configure(|c| c.permits.adaptive = Some(wrong));
    assert_eq!(error.unwrap_err().property(), "limit.min");
    assert_eq!(command.snapshot().limit, 20);
}

#[test]
fn a_hook_left_on_the_token_is_dropped_after_the_permit_is_back() {
    /// Looks at the permits of its command when it is dropped.
    struct Looks(Command<u32, &'static str>, Arc<Mutex<Option<usize>>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = Some(self.0.snapshot().active);
        }
    }
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    let seen = Arc::new(Mutex::new(None));
    let looks = Looks(command.clone(), Arc::clone(&seen));
    let left = Arc::new(Mutex::new(None));
    let mine = Arc::clone(&left);
    let answer = command.run(move |cancel| {
        *mine.lock().unwrap() = Some(cancel.on_cancel(move || drop(looks)));
        Ok(1)
    });
    assert_eq!(answer, Ok(1));
    assert_eq!(*seen.lock().unwrap(), Some(0));
    drop(left);
}

#[test]
fn a_command_with_threads_refuses_work_in_place() {
    let (_clock, _isolation, command) = alone(|c| c.threads(Default::default()));
    let error = command.run_in_place(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::InPlace));
    let ran = Arc::new(AtomicBool::new(false));
    let run = Arc::clone(&ran);
    let future = command.run_async(move |_| async move {
        run.store(true, Ordering::Relaxed);
        Ok(1)
    });
    let error = failed(
        poll_once(pin!(future)),
        "a future would run outside of the bound",
    );
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::InPlace));
    assert!(!ran.load(Ordering::Relaxed));
    let hedge = Hedge::default();
    let hedged = hedge.run_async(command.call(), |call| call.run_async(|_| async { Ok(1) }));
    let error = failed(poll_once(pin!(hedged)), "nor does one of two attempts");
    assert_eq!(error.cause(), &Cause::Rejected(Rejection::InPlace));
}
