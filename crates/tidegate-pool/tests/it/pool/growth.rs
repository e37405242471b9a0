//! Threads start when they are needed and end when they are not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, RejectReason, ThreadBuilder, Unhandled};
use tidegate_pool::{Growth, PoolLimits, WorkerPool};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Log, Stop, until};

use super::{builder, fixed, hold, hold_many, release};
use crate::SECOND;

#[test]
fn the_usual_limits_are_those_of_the_rule() {
    let pool = WorkerPool::builder("workers").build().unwrap();
    let limits = pool.limits();
    assert_eq!((limits.core, limits.max, limits.low), (8, 200, 1));
    assert_eq!(limits.keep_alive, Duration::from_secs(60));
    let small = WorkerPool::builder("small").max(3).build().unwrap();
    assert_eq!(small.limits().core, 3, "not above the maximum");
}

#[test]
fn a_job_goes_to_an_idle_thread_then_to_a_new_one_then_into_the_queue() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(2).queue(1).reserved(0);
    let pool = pool.build().unwrap();
    let first = hold(&pool);
    release(&clock, vec![first]);
    let (again, second) = (hold(&pool), hold(&pool));
    let metrics = pool.metrics();
    assert_eq!((metrics.started_threads, metrics.threads), (2, 2));
    pool.execute(|| ()).unwrap();
    assert_eq!(pool.metrics().queued, 1);
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    release(&clock, vec![again, second]);
    let metrics = pool.metrics();
    assert_eq!((metrics.done, metrics.queued, metrics.ready), (4, 0, 2));
}

#[test]
fn a_full_queue_refuses_nothing_while_a_thread_may_start_or_is_idle() {
    let clock = ManualClock::new();
    for growth in [Growth::ThreadsFirst, Growth::QueueFirst] {
        let pool = builder(&clock).core(1).max(3).queue(0).reserved(0);
        let pool = pool.growth(growth).build().unwrap();
        for round in 0..3 {
            let gates = hold_many(&pool, 3);
            assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
            assert_eq!(pool.metrics().started_threads, 3, "round {round}");
            release(&clock, gates);
        }
    }
}

#[test]
fn without_a_queue_one_job_waits_for_a_thread_that_is_about_to_come() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 0).build().unwrap();
    let stop = Stop::new();
    let (mine, inside) = (pool.clone(), stop.closure());
    pool.execute(move || {
        mine.about_to_end();
        mine.about_to_end();
        inside();
    })
    .unwrap();
    stop.reached();
    pool.about_to_end();
    let ran = Counter::new();
    pool.execute(ran.hits()).unwrap();
    let refused = pool.execute(|| ()).unwrap_err();
    assert_eq!(
        refused.why(),
        RejectReason::Full,
        "one thread comes for one job"
    );
    assert_eq!(ran.count(), 0);
    release(&clock, vec![stop.gate()]);
    assert_eq!((ran.count(), pool.metrics().ready), (1, 1));
    // The thread took that job, so the next job has to find it idle again.
    let gate = hold(&pool);
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    release(&clock, vec![gate]);
}

#[test]
fn a_job_that_is_about_to_end_makes_no_queue_longer() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 1).build().unwrap();
    let stop = Stop::new();
    let (mine, inside) = (pool.clone(), stop.closure());
    pool.execute(move || {
        mine.about_to_end();
        inside();
    })
    .unwrap();
    stop.reached();
    pool.execute(|| ()).unwrap();
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    release(&clock, vec![stop.gate()]);
}

#[test]
fn queue_first_fills_the_queue_before_it_grows_beyond_the_core() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(1).max(2).queue(2).reserved(0);
    let pool = pool.growth(Growth::QueueFirst).build().unwrap();
    let gate = hold(&pool);
    let ran = Counter::new();
    for _ in 0..2 {
        pool.execute(ran.hits()).unwrap();
    }
    assert_eq!((pool.metrics().threads, ran.count()), (1, 0));
    pool.execute(ran.hits()).unwrap();
    ran.wait_for(3);
    assert_eq!(pool.metrics().threads, 2);
    release(&clock, vec![gate]);
}

#[test]
fn the_thread_that_slept_last_is_woken_first() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 3, 0).build().unwrap();
    let gates = hold_many(&pool, 3);
    for (at, gate) in gates.iter().enumerate() {
        gate.open();
        until("one more thread is ready", || pool.metrics().ready > at);
    }
    clock.settle();
    let thread_id = || thread::current().id();
    let newest = pool.submit(thread_id).unwrap().wait().unwrap();
    for _ in 0..5 {
        clock.settle();
        assert_eq!(pool.submit(thread_id).unwrap().wait().unwrap(), newest);
    }
}

#[test]
fn idle_threads_above_the_core_leave_after_the_keep_alive() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(1).max(4).reserved(0);
    let pool = pool.keep_alive(10 * SECOND).build().unwrap();
    release(&clock, hold_many(&pool, 4));
    clock.advance(9 * SECOND);
    assert_eq!(pool.metrics().threads, 4);
    clock.advance(SECOND);
    let metrics = pool.metrics();
    assert_eq!((metrics.threads, metrics.ended_threads), (1, 3));
    clock.advance(100 * SECOND);
    assert_eq!(pool.metrics().threads, 1, "the core stays");
}

#[test]
fn idle_threads_of_the_core_sleep_without_a_deadline() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(2).max(4).reserved(0);
    let pool = pool.keep_alive(10 * SECOND).build().unwrap();
    for _ in 0..2 {
        release(&clock, hold_many(&pool, 4));
        clock.advance(20 * SECOND);
        assert_eq!(pool.metrics().threads, 2);
        assert_eq!(clock.next_deadline(), None);
    }
}

#[test]
fn a_steady_trickle_does_not_keep_idle_threads() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(16).reserved(0);
    let pool = pool.keep_alive(10 * SECOND).build().unwrap();
    release(&clock, hold_many(&pool, 16));
    for _ in 0..4 {
        clock.advance(3 * SECOND);
        pool.submit(|| ()).unwrap().wait().unwrap();
        clock.settle();
    }
    assert_eq!(pool.metrics().threads, 1);
    clock.advance(10 * SECOND);
    assert_eq!(pool.metrics().threads, 0);
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn without_a_keep_alive_no_thread_ends() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(3).keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    release(&clock, hold_many(&pool, 3));
    clock.advance(1_000_000 * SECOND);
    assert_eq!(pool.metrics().threads, 3);
}

#[test]
fn a_job_that_comes_as_threads_leave_is_run() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(2).reserved(0).queue(64);
    let pool = pool.keep_alive(SECOND).build().unwrap();
    let ran = Counter::new();
    for round in 1..=200 {
        thread::scope(|scope| {
            scope.spawn(|| clock.jump(SECOND));
            pool.execute(ran.hits()).unwrap();
        });
        ran.wait_for(round);
    }
}

#[test]
fn a_panic_is_reported_and_its_thread_goes_on() {
    let clock = ManualClock::new();
    let (log, received) = Log::pair();
    let hook = move |pool: &str, what: &Unhandled<'_>| received.push(format!("{pool}: {what}"));
    let pool = fixed(&clock, 1, 8).on_unhandled(hook).build().unwrap();
    let task = tidegate_core::Task::named("compact", || panic!("out of ink"));
    pool.execute_task(task).unwrap();
    clock.settle();
    log.wait_for(1);
    let expected = "workers: task `compact` panicked: out of ink".to_owned();
    log.assert_order(&[expected]);
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    let failed = pool.submit(|| -> u32 { panic!("no answer") }).unwrap();
    match failed.wait() {
        Err(WaitError::Failed(cause)) => assert!(cause.is_panic()),
        other => panic!("unexpected: {other:?}"),
    }
    let metrics = pool.metrics();
    assert_eq!((metrics.panics, metrics.started_threads), (1, 1));
}

#[test]
fn no_thread_to_be_had_gives_the_job_back() {
    let clock = ManualClock::new();
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        if is_broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("no more threads"));
        }
        let name = job.name().to_owned();
        let thread = thread::Builder::new().name(name);
        thread.spawn(move || job.run()).map(drop)
    });
    let pool = builder(&clock).core(0).max(2).queue(4).reserved(0);
    let pool = pool.threads(threads).build().unwrap();
    let ran = Counter::new();
    let refused = pool.execute(ran.hits()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::NoThread);
    refused.into_inner().run();
    assert_eq!(pool.metrics().threads, 0);
    broken.store(false, Ordering::Relaxed);
    let gate = hold(&pool);
    broken.store(true, Ordering::Relaxed);
    // A thread exists: the job waits for it.
    pool.execute(ran.hits()).unwrap();
    assert_eq!(pool.metrics().failed_starts, 2);
    gate.open();
    ran.wait_for(2);
}

#[test]
fn prestart_brings_the_core() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(3).max(5).build().unwrap();
    assert_eq!(pool.prestart(), 3);
    clock.settle();
    assert_eq!((pool.metrics().ready, pool.free_threads().idle), (3, 3));
    assert_eq!(pool.prestart(), 3);
}

#[test]
fn a_burst_wakes_one_thread_and_that_one_the_next() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 64).build().unwrap();
    release(&clock, hold_many(&pool, 4));
    let (all, go_on) = (Counter::new(), Gate::new());
    for _ in 0..4 {
        let (here, gate) = (all.clone(), go_on.clone());
        pool.execute(move || {
            here.hit();
            gate.wait();
        })
        .unwrap();
    }
    // However few threads the submitter woke, each of the four jobs gets one.
    all.wait_for(4);
    go_on.open();
    clock.settle();
    assert_eq!(pool.metrics().ready, 4);
}

#[test]
fn a_pool_of_one_that_waits_for_itself_is_refused() {
    let clock = ManualClock::new();
    for (threads, refused) in [(1, true), (2, false)] {
        let pool = fixed(&clock, threads, 8).build().unwrap();
        let handle = pool.clone();
        let answer = pool.submit(move || {
            let inner = handle.submit(|| 7).unwrap();
            match inner.wait() {
                Ok(seven) => {
                    assert_eq!(seven, 7);
                    false
                }
                Err(error) => {
                    let circle = error.to_string();
                    assert!(circle.contains("workers waits for workers"), "{circle}");
                    error.is_refused()
                }
            }
        });
        assert_eq!(answer.unwrap().wait().unwrap(), refused);
    }
}

#[test]
fn the_usual_reserve_follows_cpus_and_maximum() {
    assert_eq!(PoolLimits::usual_reserve(1), 1);
    assert_eq!(PoolLimits::usual_reserve(7), 1);
    let cpus = tidegate_core::internal::usable_cpus();
    assert_eq!(
        PoolLimits::usual_reserve(32_767),
        cpus.next_power_of_two().min(64)
    );
    assert_eq!(
        PoolLimits::usual_reserve(16),
        cpus.min(2).next_power_of_two()
    );
}
