//! Calls on threads of their own: bounds, order, who ends a call, and what is left behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_exec::{Adaptive, Strategy};
use tidegate_isolate::{
    Cause, Criticality, Discipline, Event, Growth, Install, Isolation, Key, PoolConfig,
    PoolSnapshot, Propagator, Properties, Refused, RequestContext, Restore, Stage,
};
use tidegate_promise::Completion;
use tidegate_sync::{ManualClock, Task};
use tidegate_testkit::{Gate, Log};

use crate::support::{Numbers, builder, counted, still};

const SECOND: Duration = Duration::from_secs(1);

fn pool_of(core: usize, queue: usize) -> PoolConfig {
    PoolConfig {
        core,
        max: core,
        queue,
        ..PoolConfig::default()
    }
}

fn pool(isolation: &Isolation) -> PoolSnapshot {
    isolation.pool_snapshots().remove(0)
}

type Answer = Completion<u32, tidegate_isolate::CommandError<&'static str>>;

/// A call that is inside and stays there until the gate opens.
fn hold(command: &Numbers, until: &Gate) -> Answer {
    let inside = Gate::new();
    let (mine, until) = (inside.clone(), until.clone());
    let answer = command.queue(move |_| {
        mine.open();
        until.wait();
        Ok(0)
    });
    inside.wait();
    answer
}

fn cause(answer: Answer) -> Cause<&'static str> {
    answer
        .wait()
        .unwrap_err()
        .failure()
        .expect("it failed")
        .into_cause()
}

#[test]
fn runs_on_a_thread_of_the_pool() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .build(&isolation)
        .unwrap();
    let name = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&name);
    let answer = command.run(move |_| {
        *note.lock().unwrap() = std::thread::current().name().unwrap_or_default().to_owned();
        Ok(7)
    });
    assert_eq!(answer, Ok(7));
    assert!(
        name.lock().unwrap().starts_with("tidegate-tests"),
        "{name:?}"
    );
    assert_eq!(counted(&command), [(Event::Success, 1)]);
    let pool = pool(&isolation);
    assert_eq!((pool.executed, pool.rejected, pool.largest), (1, 0, 1));
    assert_eq!(command.queue(|_| Ok(8)).wait().unwrap(), 8);
}

#[test]
fn no_queue_means_a_thread_or_a_refusal() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let error = command.run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Refused::Pool));
    assert_eq!(command.snapshot().active, 2);
    go_on.open();
    for answer in held {
        assert_eq!(answer.wait().unwrap(), 0);
    }
    let pool = pool(&isolation);
    assert_eq!((pool.executed, pool.rejected), (2, 1));
    let snapshot = command.snapshot();
    assert_eq!(snapshot.totals[Event::PoolRejected], 1);
    assert_eq!(
        (
            snapshot.window.health_total(),
            snapshot.window.health_errors()
        ),
        (3, 1)
    );
    assert_eq!(
        snapshot.latencies.total.count(),
        2,
        "a refusal has no latency"
    );
}

#[test]
fn a_caller_that_comes_back_at_once_finds_its_thread_without_a_queue() {
    let isolation = Isolation::builder().build().unwrap();
    let command = builder("a")
        .threads(pool_of(1, 0))
        .no_timeout()
        .build(&isolation)
        .unwrap();
    for n in 0..5_000 {
        assert_eq!(command.run(move |_| Ok(n)), Ok(n));
    }
    assert_eq!(counted(&command), [(Event::Success, 5_000)]);
    assert_eq!(pool(&isolation).largest, 1);
}

#[test]
fn the_live_bound_of_the_queue_is_exact() {
    let (_clock, isolation) = still();
    let config = PoolConfig {
        rejection_threshold: Some(2),
        ..pool_of(1, 10)
    };
    let command = builder("a").threads(config).build(&isolation).unwrap();
    let go_on = Gate::new();
    let _held = hold(&command, &go_on);
    let refused = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let answer = command.queue(|_| Ok(1));
                    if answer.is_done() {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    answers.lock().unwrap().push(answer);
                }
            });
        }
    });
    assert_eq!((refused.into_inner(), pool(&isolation).queued), (18, 2));
    command
        .configure(|c| c.pool.rejection_threshold = Some(3))
        .unwrap();
    let third = command.queue(|_| Ok(1));
    assert!(!third.is_done(), "the bound is live");
    command
        .configure(|c| c.pool.rejection_threshold = None)
        .unwrap();
    assert!(!command.queue(|_| Ok(1)).is_done(), "up to the queue's own");
    go_on.open();
    assert_eq!(third.wait().unwrap(), 1);
}

#[test]
fn grows_before_it_queues_or_after() {
    for (growth, threads) in [(Growth::ThreadsFirst, 2), (Growth::QueueFirst, 1)] {
        let (_clock, isolation) = still();
        let config = PoolConfig {
            max: 2,
            may_diverge: true,
            growth,
            ..pool_of(1, 5)
        };
        let command = builder("a").threads(config).build(&isolation).unwrap();
        let go_on = Gate::new();
        let _held = hold(&command, &go_on);
        let until = go_on.clone();
        let second = command.queue(move |_| {
            until.wait();
            Ok(1)
        });
        assert_eq!(pool(&isolation).threads, threads, "{growth:?}");
        go_on.open();
        assert_eq!(second.wait().unwrap(), 1);
    }
}

#[test]
fn the_effective_maximum_follows_the_divergence() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(4, 0))
        .build(&isolation)
        .unwrap();
    for (core, max, may_diverge, effective) in [
        (4, 8, false, 4),
        (4, 8, true, 8),
        (4, 2, true, 4),
        (12, 8, true, 12),
        (2, 3, true, 3),
        (2, 3, false, 2),
    ] {
        command
            .configure(|c| (c.pool.core, c.pool.max, c.pool.may_diverge) = (core, max, may_diverge))
            .unwrap();
        let pool = pool(&isolation);
        assert_eq!(
            (pool.core, pool.max),
            (core, effective),
            "at once, without a call"
        );
    }
}

#[test]
fn pool_properties_are_pushed() {
    let properties = Properties::new();
    let isolation = Isolation::builder()
        .properties(properties.clone())
        .build()
        .unwrap();
    let command = builder("a").configure(|c| c.bulkhead = tidegate_isolate::Bulkhead::Threads);
    let _command = command.build(&isolation).unwrap();
    properties
        .set("hystrix.threadpool.tests.coreSize", "20")
        .unwrap();
    assert_eq!((pool(&isolation).core, pool(&isolation).max), (20, 20));
    let error = properties
        .set("hystrix.threadpool.tests.coreSize", "0")
        .unwrap_err();
    assert_eq!(error.property(), "coreSize");
    assert_eq!(pool(&isolation).core, 20);
    properties
        .set("hystrix.threadpool.tests.coreSize", "3")
        .unwrap();
    assert_eq!((pool(&isolation).core, pool(&isolation).max), (3, 3));
}

#[test]
fn commands_of_one_pool_key_share_its_threads() {
    let (_clock, isolation) = still();
    let a = builder("a")
        .threads(pool_of(1, 0))
        .build(&isolation)
        .unwrap();
    let b = builder("b")
        .threads(pool_of(1, 0))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = hold(&a, &go_on);
    assert!(b.run(|_| Ok(1)).unwrap_err().is_rejected());
    assert_eq!((a.snapshot().active, b.snapshot().active), (1, 0));
    go_on.open();
    held.wait().unwrap();
    let error = builder("c")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap_err();
    assert!(error.reason().contains("other settings"), "{error}");
    assert_eq!(isolation.pool_snapshots().len(), 1);
}

#[test]
fn a_call_that_times_out_in_the_queue_never_runs_and_frees_its_place() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .timeout(SECOND)
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = command.call().timeout(SECOND * 60);
    let (inside, mine, until) = (Gate::new(), Gate::new(), go_on.clone());
    let open = inside.clone();
    let held = held.queue(move |_| {
        open.open();
        until.wait();
        mine.open();
        Ok(0)
    });
    inside.wait();
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
fn a_running_call_that_times_out_is_told_and_counted_until_it_ends() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 0))
        .timeout(SECOND)
        .fallback(|why| {
            assert!(why.is_timed_out());
            Ok(9)
        })
        .build(&isolation)
        .unwrap();
    let (go_on, told) = (Gate::new(), Gate::new());
    let (inside, until, tell) = (Gate::new(), go_on.clone(), told.clone());
    let open = inside.clone();
    let answer = command.queue(move |cancel| {
        let hear = tell.clone();
        let _hook = cancel.on_cancel(move || hear.open());
        open.open();
        until.wait();
        Ok(1)
    });
    inside.wait();
    clock.jump(SECOND);
    assert_eq!(answer.wait().unwrap(), 9, "the caller does not wait for it");
    told.wait();
    let snapshot = pool(&isolation);
    assert_eq!((snapshot.overstaying, snapshot.active), (1, 1));
    assert!(command.run(|_| Ok(1)).is_ok_and(|n| n == 9) || command.snapshot().active == 1);
    go_on.open();
    while pool(&isolation).overstaying > 0 {
        std::thread::yield_now();
    }
    let totals = command.snapshot().totals;
    assert_eq!(
        (totals[Event::Timeout], totals[Event::Success]),
        (1, 0),
        "its end says nothing"
    );
}

#[test]
fn a_blocking_caller_is_released_at_the_deadline() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 0))
        .timeout(SECOND)
        .build(&isolation)
        .unwrap();
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
        let (clock, isolation) = still();
        let command = builder("a")
            .threads(pool_of(2, 0))
            .timeout(SECOND)
            .configure(|c| {
                (c.interrupt_on_timeout, c.interrupt_on_cancel) = (on_timeout, on_cancel);
            })
            .build(&isolation)
            .unwrap();
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
            "leaving says nothing about health"
        );
    }
}

#[test]
fn cancelling_a_queued_call_takes_it_out() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 5))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let queued = command.queue(|_| panic!("must not run"));
    assert!(queued.cancel());
    assert_eq!(pool(&isolation).queued, 0);
    go_on.open();
    held.wait().unwrap();
    assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
}

#[test]
fn what_matters_more_displaces_what_matters_less() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 2))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let _held = hold(&command, &go_on);
    let call = |criticality| command.call().criticality(criticality).queue(|_| Ok(1));
    let normal = call(Criticality::Normal);
    let sheddable = call(Criticality::Sheddable);
    assert!(
        call(Criticality::Sheddable).is_done(),
        "nobody matters less"
    );
    let high = call(Criticality::High);
    assert_eq!(cause(sheddable), Cause::Rejected(Refused::Pool));
    go_on.open();
    assert_eq!((normal.wait().unwrap(), high.wait().unwrap()), (1, 1));
    assert_eq!(command.snapshot().totals[Event::PoolRejected], 2);
}

#[test]
fn the_queue_follows_its_discipline() {
    let (clock, isolation) = still();
    let discipline = Discipline::LifoUnderOverload {
        after: Duration::from_millis(5),
    };
    let config = PoolConfig {
        discipline,
        ..pool_of(1, 5)
    };
    let command = builder("a")
        .threads(config)
        .no_timeout()
        .build(&isolation)
        .unwrap();
    let (go_on, log) = (Gate::new(), Log::new());
    let _held = hold(&command, &go_on);
    let queued: Vec<_> = ["old", "mid", "new"]
        .into_iter()
        .map(|name| {
            let log = log.clone();
            command.queue(move |_| {
                log.push(name);
                Ok(1)
            })
        })
        .collect();
    clock.jump(Duration::from_millis(6));
    go_on.open();
    for answer in queued {
        answer.wait().unwrap();
    }
    log.assert_order(&["new", "mid", "old"]);
}

#[test]
fn hooks_know_the_thread() {
    let stages = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&stages);
    let isolation = Isolation::builder()
        .hook(move |stage: Stage, _: &Key| {
            note.lock().unwrap().push(stage);
            Ok(())
        })
        .build()
        .unwrap();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .fallback(|_| Ok(0))
        .build(&isolation)
        .unwrap();
    command.run(|_| Ok(1)).unwrap();
    let expected = [
        Stage::Start,
        Stage::ThreadStart,
        Stage::ExecutionStart,
        Stage::ThreadComplete,
        Stage::ExecutionEmit,
        Stage::Emit,
        Stage::ExecutionSuccess,
        Stage::Success,
    ];
    assert_eq!(std::mem::take(&mut *stages.lock().unwrap()), expected);
    command.run(|_| Err("no")).unwrap();
    let expected = [
        Stage::ExecutionError,
        Stage::ThreadComplete,
        Stage::FallbackStart,
    ];
    assert_eq!(stages.lock().unwrap()[3..6], expected);
}

#[test]
fn the_context_goes_along_and_the_thread_gets_its_own_back() {
    struct Name(Arc<Mutex<Vec<&'static str>>>);
    impl Propagator for Name {
        fn capture(&self) -> Install {
            let log = Arc::clone(&self.0);
            Box::new(move || {
                log.lock().unwrap().push("installed");
                Box::new(move || log.lock().unwrap().push("restored")) as Restore
            })
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let isolation = Isolation::builder()
        .propagator(Name(Arc::clone(&log)))
        .build()
        .unwrap();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .build(&isolation)
        .unwrap();
    let request = RequestContext::new();
    {
        let _entered = request.enter();
        let note = Arc::clone(&log);
        let error = command.run(move |_| {
            assert!(RequestContext::current().is_some());
            note.lock().unwrap().push("worked");
            panic!("on purpose")
        });
        assert!(error.is_err());
    }
    command
        .run(|_| {
            assert!(
                RequestContext::current().is_none(),
                "the first call's is gone"
            );
            Ok(1)
        })
        .unwrap();
    assert_eq!(
        log.lock().unwrap()[..3],
        ["installed", "worked", "restored"]
    );
    assert_eq!(request.log().len(), 1);
}

#[test]
fn waiting_running_and_total_are_three_figures() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .no_timeout()
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let turn = clock.clone();
    let queued = command.queue(move |_| {
        turn.jump(Duration::from_millis(10));
        Ok(1)
    });
    clock.jump(Duration::from_millis(30));
    go_on.open();
    held.wait().unwrap();
    queued.wait().unwrap();
    let latencies = command.snapshot().latencies;
    let near = |told: Duration, ms: f64| (told.as_secs_f64() * 1e3 - ms).abs() <= ms * 0.03;
    assert!(
        near(latencies.wait.max(), 30.0),
        "{:?}",
        latencies.wait.max()
    );
    assert!(
        near(latencies.total.max(), 40.0),
        "{:?}",
        latencies.total.max()
    );
    assert!(
        near(latencies.run.percentile(50.0), 10.0),
        "{:?}",
        latencies.run.percentile(50.0)
    );
}

#[test]
fn shutting_down_has_a_deadline_and_a_report() {
    let (clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 2))
        .no_timeout()
        .build(&isolation)
        .unwrap();
    let (go_on, told, inside) = (Gate::new(), Gate::new(), Gate::new());
    let (until, tell, open) = (go_on.clone(), told.clone(), inside.clone());
    let held = command.queue(move |cancel| {
        let _hook = cancel.on_cancel(move || tell.open());
        open.open();
        until.wait();
        Ok(0)
    });
    inside.wait();
    let queued = command.queue(|_| Ok(1));
    let mut ends = isolation.shutdown(SECOND);
    let (key, end) = ends.remove(0);
    assert!(command.run(|_| Ok(1)).unwrap_err().is_rejected());
    clock.jump(SECOND);
    let report = end.wait().unwrap();
    assert_eq!(
        (key.as_str(), report.stuck.len(), report.handed_back.len()),
        ("tests", 1, 1)
    );
    told.wait();
    assert_eq!(
        cause(held),
        Cause::Cancelled,
        "told to stop at the deadline"
    );
    go_on.open();
    drop(queued);
}

#[test]
fn a_loop_must_not_wait_for_a_thread() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(1, 1))
        .build(&isolation)
        .unwrap();
    let error = tidegate_sync::non_blocking(|| command.run(|_| Ok(1))).unwrap_err();
    assert_eq!(error.cause(), &Cause::Rejected(Refused::Waiting));
    let answer = tidegate_sync::non_blocking(|| command.queue(|_| Ok(1)));
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn timeouts_ends_and_cancellations_race_and_each_call_ends_once() {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let command = builder("a")
        .threads(pool_of(2, 4))
        .timeout(Duration::from_nanos(50))
        .configure(|c| c.breaker.mode = tidegate_isolate::BreakerMode::Disabled)
        .fallback(|_| Ok(0))
        .build(&isolation)
        .unwrap();
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
    while command.snapshot().active > 0 || pool(&isolation).overstaying > 0 {
        std::thread::yield_now();
    }
    let totals = command.snapshot().totals;
    let ended = totals[Event::Success] + totals[Event::Timeout] + totals[Event::PoolRejected];
    assert_eq!(ended + totals[Event::Cancelled], calls);
    assert_eq!(pool(&isolation).queued, 0);
}

#[test]
fn a_loop_over_a_full_bulkhead_keeps_producing() {
    let (_clock, isolation) = still();
    let command = builder("a")
        .threads(pool_of(2, 0))
        .build(&isolation)
        .unwrap();
    let go_on = Gate::new();
    let held = [hold(&command, &go_on), hold(&command, &go_on)];
    let bulkhead = isolation.pool("tests").unwrap();
    assert!(
        !bulkhead.room().has_thread(),
        "the strategy sees that it is full"
    );
    let (refused, mut left) = (Arc::new(AtomicUsize::new(0)), 5);
    let (count, called) = (Arc::clone(&refused), command.clone());
    let producer = move || {
        left -= 1;
        let (count, called) = (Arc::clone(&count), called.clone());
        (left >= 0).then(|| {
            Task::non_blocking(move || {
                let answer = called.queue(|_| Ok(1));
                assert!(answer.is_done(), "refused at once");
                count.fetch_add(1, Ordering::Relaxed);
            })
        })
    };
    let strategy = Adaptive::new(producer, Arc::new(bulkhead.clone()));
    strategy.produce();
    assert_eq!(
        refused.load(Ordering::Relaxed),
        5,
        "nobody waited for a thread"
    );
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    while !bulkhead.room().has_thread() {
        std::thread::yield_now();
    }
}
