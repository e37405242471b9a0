//! Which side ends a call on threads, and what happens to the work after its caller has given up.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_isolate::{BreakerConfig, Bulkhead, Cause, Event, Rejection};
use tidegate_promise::WaitError;
use tidegate_testkit::{Gate, until};

use super::kit::{alone, still};
use crate::support::{
    SECOND, builder, cause, failed, hold, hold_call, made, poll_once, pool, pool_of, set, touchy,
    waiting,
};

#[test]
fn a_call_that_times_out_in_the_queue_never_runs_and_frees_its_place() {
    let (clock, isolation, command) = alone(|c| c.threads(pool_of(1, 1)).timeout(SECOND));
    let go_on = Gate::new();
    let held = hold_call(command.call().timeout(SECOND * 60), &go_on);
    let queued = command.queue(|_| panic!("must not run"));
    assert_eq!(pool(&isolation).queued, 1);
    clock.jump(SECOND);
    assert_eq!(cause(queued), Cause::TimedOut(SECOND));
    let snapshot = pool(&isolation);
    assert_eq!(
        (snapshot.queued, snapshot.expired, snapshot.overstaying),
        (0, 1, 0)
    );
    assert_eq!(command.snapshot().totals[Event::ExpiredInQueue], 1);
    let second = command.queue(|_| Ok(5));
    go_on.open();
    assert_eq!((held.wait().unwrap(), second.wait().unwrap()), (0, 5));
}

#[test]
fn a_call_that_expires_in_a_queue_opens_a_breaker_unless_it_leaves_rejections_out() {
    for count_rejections in [true, false] {
        let breaker = BreakerConfig {
            count_rejections,
            ..touchy()
        };
        let (clock, isolation) = still();
        let with = |key| builder(key).breaker(breaker.clone()).timeout(SECOND);
        let threads = made(with("threads").threads(pool_of(1, 1)), &isolation);
        let permits = made(with("permits").permits(waiting(1, SECOND * 9)), &isolation);
        let go_on = Gate::new();
        let held = hold_call(threads.call().timeout(SECOND * 60), &go_on);
        let entry = permits.call().timeout(SECOND * 60).admit().unwrap();
        let queued = threads.queue(|_| panic!("must not run"));
        let mut waits = pin!(permits.run_async(|_| async { panic!("must not run") }));
        assert!(poll_once(waits.as_mut()).is_pending());
        clock.jump(SECOND);
        assert_eq!(cause(queued), Cause::TimedOut(SECOND));
        assert!(failed(poll_once(waits), "its time is over").is_timed_out());
        for command in [&threads, &permits] {
            assert_eq!(command.snapshot().is_open, count_rejections);
        }
        go_on.open();
        held.wait().unwrap();
        drop(entry);
    }
}

#[test]
fn a_running_call_that_times_out_is_cancelled_and_counted_until_it_ends() {
    let (clock, isolation, command) = alone(|c| {
        c.threads(pool_of(1, 0)).timeout(SECOND).fallback(|why| {
            assert!(why.is_timed_out());
            Ok(9)
        })
    });
    let (go_on, notified) = (Gate::new(), Gate::new());
    let (inside, gate, notify) = (Gate::new(), go_on.clone(), notified.clone());
    let open = inside.clone();
    let answer = command.queue(move |cancel| {
        let own = notify.clone();
        let _hook = cancel.on_cancel(move || own.open());
        open.open();
        gate.wait();
        Ok(1)
    });
    inside.wait();
    clock.jump(SECOND);
    assert_eq!(answer.wait().unwrap(), 9, "the caller does not wait for it");
    notified.wait();
    let snapshot = pool(&isolation);
    assert_eq!((snapshot.overstaying, snapshot.active), (1, 1));
    assert!(command.run(|_| Ok(1)).is_ok_and(|n| n == 9) || command.snapshot().active == 1);
    go_on.open();
    until("no call overstays", || pool(&isolation).overstaying == 0);
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::Timeout], totals[Event::Success]),
        (1, 0),
        "its end is not counted"
    );
}

#[test]
fn a_wait_for_a_call_is_limited_by_the_clock_of_the_isolation() {
    const NANOSECOND: Duration = Duration::from_nanos(1);
    let (clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)).no_timeout());
    let go_on = Gate::new();
    let mut answer = hold_call(command.call(), &go_on);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| answer.wait_timeout(NANOSECOND));
        until("it waits", || {
            clock.next_deadline() == Some(clock.now() + NANOSECOND)
        });
        clock.jump(NANOSECOND);
        assert!(waiting.join().unwrap().unwrap_err().is_timeout());
    });
    go_on.open();
    assert_eq!(answer.wait().unwrap(), 0);
}

#[test]
fn a_blocking_caller_is_released_at_the_deadline() {
    let (clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)).timeout(SECOND));
    let go_on = Gate::new();
    std::thread::scope(|scope| {
        let inside = Gate::new();
        let (open, until) = (inside.clone(), go_on.clone());
        let command = &command;
        let caller = scope.spawn(move || {
            command.run(move |_| {
                open.open();
                until.wait();
                Ok(1)
            })
        });
        inside.wait();
        clock.jump(SECOND);
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::TimedOut(SECOND));
        go_on.open();
    });
}

#[test]
fn interrupts_are_two_settings() {
    for (on_timeout, on_cancel) in [(true, false), (false, true)] {
        let (clock, isolation, command) = alone(|c| {
            c.threads(pool_of(2, 0)).timeout(SECOND).configure(|c| {
                (c.interrupt_on_timeout, c.interrupt_on_cancel) = (on_timeout, on_cancel);
            })
        });
        let (go_on, tokens) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
        let start = || {
            let inside = Gate::new();
            let (open, until, note) = (inside.clone(), go_on.clone(), Arc::clone(&tokens));
            let answer = command.queue(move |cancel| {
                note.lock().unwrap().push(cancel.clone());
                open.open();
                until.wait();
                Ok(1)
            });
            inside.wait();
            answer
        };
        let (cancelled, late) = (start(), start());
        assert!(cancelled.cancel());
        assert!(!cancelled.cancel(), "only once");
        clock.jump(SECOND);
        assert!(matches!(cause(late), Cause::TimedOut(_)));
        let tripped: Vec<_> = tokens
            .lock()
            .unwrap()
            .iter()
            .map(|t| t.is_cancelled())
            .collect();
        assert_eq!(tripped, [on_cancel, on_timeout]);
        assert_eq!(pool(&isolation).overstaying, 2);
        go_on.open();
        let totals = command.snapshot().totals;
        assert_eq!((totals[Event::Cancelled], totals[Event::Timeout]), (1, 1));
        assert_eq!(
            totals.health_total(),
            1,
            "giving up does not count for the health"
        );
    }
}

#[test]
fn cancelling_a_queued_call_takes_it_out() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 5)));
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let queued = command.queue(|_| panic!("must not run"));
    assert_eq!(command.snapshot().active, 1, "what is queued does not run");
    assert!(queued.cancel());
    assert_eq!(pool(&isolation).queued, 0);
    go_on.open();
    held.wait().unwrap();
    assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
    assert!(matches!(queued.wait(), Err(WaitError::Cancelled)));
}

#[test]
fn shutting_down_has_a_deadline_and_a_report() {
    let (clock, isolation, command) = alone(|c| c.threads(pool_of(1, 2)).no_timeout());
    let (go_on, notified, inside) = (Gate::new(), Gate::new(), Gate::new());
    let (until, notify, open) = (go_on.clone(), notified.clone(), inside.clone());
    let held = command.queue(move |cancel| {
        let _hook = cancel.on_cancel(move || notify.open());
        open.open();
        until.wait();
        Ok(0)
    });
    inside.wait();
    let queued = command.queue(|_| Ok(1));
    let end = isolation.shutdown(SECOND);
    let refused = command.run(|_| Ok(1)).unwrap_err();
    assert_eq!(refused.cause(), &Cause::Rejected(Rejection::Closed));
    let answer = command.call().fallback(|_| Ok(5)).run(|_| Ok(1));
    assert_eq!(answer, Ok(5), "a fallback may still give a value");
    clock.jump(SECOND);
    let ended = end.wait().unwrap();
    assert!(!ended.is_clean());
    let (key, report) = &ended.pools[0];
    let report = report.as_ref().unwrap();
    assert_eq!(
        (key.as_str(), report.stuck.len(), report.handed_back.len()),
        ("a", 1, 1)
    );
    notified.wait();
    assert_eq!(cause(held), Cause::Cancelled, "cancelled at the deadline");
    go_on.open();
    assert_eq!(cause(queued), Cause::Cancelled);
}

#[test]
fn timeouts_ends_and_cancellations_race_and_each_call_ends_once() {
    let (clock, isolation) = crate::support::still();
    let command = made(
        builder("a")
            .threads(pool_of(2, 4))
            .timeout(Duration::from_nanos(50))
            .configure(|c| c.breaker.mode = tidegate_isolate::BreakerMode::Disabled)
            .fallback(|_| Ok(0)),
        &isolation,
    );
    let calls = 600_u64;
    let mut answers = Vec::new();
    for n in 0..calls {
        let answer = command.queue(move |_| Ok(n as u32));
        match n % 3 {
            0 => clock.jump(Duration::from_nanos(n % 60)),
            1 => drop(answer.cancel()),
            _ => {}
        }
        answers.push(answer);
        if n % 8 == 0 {
            answers.drain(..).for_each(|answer| drop(answer.wait()));
        }
    }
    clock.jump(SECOND);
    answers.into_iter().for_each(|answer| drop(answer.wait()));
    until("no call is active or overstays", || {
        command.snapshot().active == 0 && pool(&isolation).overstaying == 0
    });
    let totals = command.snapshot().totals;
    let ended = totals[Event::Success] + totals[Event::Timeout] + totals[Event::PoolRejected];
    assert_eq!(ended + totals[Event::Cancelled], calls);
    assert_eq!(pool(&isolation).queued, 0);
}

#[test]
fn a_pool_that_is_made_after_the_end_takes_no_calls() {
    let (_clock, isolation) = still();
    let permits = builder("permits").build(&isolation).unwrap();
    let report = isolation.shutdown(Duration::ZERO).wait().unwrap();
    assert!(report.is_clean() && report.pools.is_empty());
    let late = builder("late").threads(pool_of(1, 1)).build(&isolation);
    set(&permits, |c| c.bulkhead = Bulkhead::Threads);
    for command in [late.unwrap(), permits] {
        let error = command.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Rejection::Closed));
        let error = cause(command.queue(|_| panic!("must not run")));
        assert_eq!(error, Cause::Rejected(Rejection::Closed));
    }
}

#[test]
fn a_shutdown_accounts_for_every_call() {
    let (clock, isolation, command) = alone(|c| c.threads(pool_of(2, 1000)).no_timeout());
    let ran = Arc::new(AtomicUsize::new(0));
    let leave = Gate::new();
    let held: Vec<_> = (0..2).map(|_| hold(&command, &leave)).collect();
    let queue = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        command.queue(move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok(1)
        })
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let queue_200 = || (0..200).map(|_| queue(&ran)).collect::<Vec<_>>();
        let callers = [(); 3].map(|()| scope.spawn(queue_200));
        let answers = callers.map(|caller| caller.join().unwrap());
        answers.into_iter().flatten().collect()
    });
    let first = isolation.shutdown(SECOND);
    let second = isolation.shutdown(SECOND * 100);
    leave.open();
    for one in held {
        one.wait().unwrap();
    }
    until("some calls have run", || ran.load(Ordering::Relaxed) > 0);
    clock.jump(SECOND);
    let report = first.wait().unwrap();
    let pool = report.pools[0].1.as_ref().unwrap().clone();
    let ended: usize = answers
        .into_iter()
        .map(|answer| usize::from(answer.wait().is_ok()))
        .sum();
    // A job that runs at the deadline is stuck: its caller gets an error or still the result.
    let stuck = pool.stuck.len();
    let failed = 600 - ended;
    let handed_back = pool.handed_back.len();
    assert!(
        (handed_back..=handed_back + stuck).contains(&failed),
        "{failed} failed: {pool:?}"
    );
    let ran = ran.load(Ordering::Relaxed);
    assert!(
        (ended..=ended + stuck).contains(&ran),
        "{ran} ran: {pool:?}"
    );
    assert_eq!(second.wait().unwrap(), report);
}
