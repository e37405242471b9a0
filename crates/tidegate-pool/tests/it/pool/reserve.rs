//! Reserved threads: available at once or not at all, and never kept from queued jobs.

use std::thread;

use tidegate_core::{ManualClock, RejectReason, Task};
use tidegate_pool::{FreeThreads, Growth, TryExecutor, WorkerPool};
use tidegate_testkit::{Counter, until};

use super::{builder, hold, hold_many, release};
use crate::SECOND;

fn reserving(clock: &ManualClock, max: usize, reserved: usize) -> WorkerPool {
    let builder = builder(clock).core(max).max(max).queue(8);
    builder.reserved(reserved).build().unwrap()
}

fn count(ran: &Counter) -> Task {
    Task::new(ran.hits())
}

#[test]
fn try_execute_takes_a_thread_that_waits_or_gives_the_task_back_at_once() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 2, 1);
    release(&clock, hold_many(&pool, 2));
    let ran = Counter::new();
    pool.try_execute(count(&ran)).unwrap();
    ran.wait_for(1);
    clock.settle();
    let gates = hold_many(&pool, 2);
    let refused = pool.try_execute(count(&ran)).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Busy);
    refused.into_inner().run();
    assert_eq!(ran.count(), 2);
    assert_eq!(pool.metrics().queued, 0, "it never queues");
    release(&clock, gates);
}

#[test]
fn a_miss_starts_a_thread_for_the_next_time() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 2, 1);
    let ran = Counter::new();
    assert!(pool.try_execute(count(&ran)).is_err());
    clock.settle();
    assert_eq!((pool.metrics().threads, pool.metrics().reserved), (1, 1));
    pool.try_execute(count(&ran)).unwrap();
    ran.wait_for(1);
    let metrics = pool.metrics();
    assert_eq!((metrics.reserve_hits, metrics.reserve_misses), (1, 1));
}

#[test]
fn without_a_reserve_try_execute_always_refuses() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 2, 0);
    release(&clock, hold_many(&pool, 2));
    let ran = Counter::new();
    for _ in 0..10 {
        assert_eq!(
            pool.try_execute(count(&ran)).unwrap_err().why(),
            RejectReason::Busy
        );
    }
    assert_eq!((pool.metrics().threads, ran.count()), (2, 0));
}

#[test]
fn a_reserved_thread_is_in_reserve_again_after_its_task() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 1, 1);
    let _ = pool.try_execute(Task::new(|| ()));
    let ran = Counter::new();
    for _ in 0..20 {
        clock.settle();
        assert_eq!(pool.metrics().reserved, 1);
        pool.try_execute(count(&ran)).unwrap();
    }
    ran.wait_for(20);
    assert_eq!(pool.metrics().started_threads, 1);
}

#[test]
fn an_idle_reserved_thread_leaves_like_any_other() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(1).max(4).reserved(2);
    let pool = pool.keep_alive(10 * SECOND).build().unwrap();
    release(&clock, hold_many(&pool, 4));
    assert_eq!(pool.metrics().reserved, 2);
    clock.advance(10 * SECOND);
    assert_eq!(pool.metrics().threads, 1);
    assert_eq!(pool.metrics().ready, 1);
    let ran = Counter::new();
    pool.try_execute(count(&ran)).unwrap();
    ran.wait_for(1);
}

#[test]
fn a_stop_ends_the_reserve() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 4, 4);
    release(&clock, hold_many(&pool, 4));
    let stopped = pool.shutdown(SECOND);
    assert!(stopped.wait().unwrap().stuck.is_empty());
    assert_eq!((pool.metrics().threads, pool.metrics().reserved), (0, 0));
    assert!(pool.try_execute(Task::new(|| ())).is_err());
    assert_eq!(pool.free_threads(), FreeThreads::default());
}

#[test]
fn misses_by_the_hundred_start_no_stray_threads() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 3, 1);
    let gates = hold_many(&pool, 3);
    for _ in 0..300 {
        assert!(pool.try_execute(Task::new(|| ())).is_err());
    }
    let metrics = pool.metrics();
    assert_eq!((metrics.threads, metrics.queued), (3, 0));
    assert_eq!(metrics.reserve_misses, 300);
    release(&clock, gates);
}

#[test]
fn a_job_takes_a_reserved_thread_rather_than_wait() {
    let clock = ManualClock::new();
    for growth in [Growth::ThreadsFirst, Growth::QueueFirst] {
        let pool = builder(&clock).core(2).max(2).reserved(2).queue(8);
        let pool = pool.growth(growth).build().unwrap();
        release(&clock, hold_many(&pool, 2));
        assert_eq!(pool.metrics().reserved, 2);
        let gates = hold_many(&pool, 2);
        assert_eq!((pool.metrics().queued, pool.metrics().ready), (0, 0));
        release(&clock, gates);
    }
}

#[test]
fn no_worker_goes_into_reserve_while_jobs_wait() {
    let clock = ManualClock::new();
    let pool = reserving(&clock, 1, 1);
    let gate = hold(&pool);
    let ran = Counter::new();
    for _ in 0..8 {
        pool.execute(ran.hits()).unwrap();
    }
    gate.open();
    ran.wait_for(8);
    clock.settle();
    assert_eq!((pool.metrics().queued, pool.metrics().reserved), (0, 1));
}

#[test]
fn takers_and_submitters_at_once_lose_nothing() {
    let pool = WorkerPool::builder("workers").core(2).max(4).reserved(2);
    let pool = pool.build().unwrap();
    let ran = Counter::new();
    let each = 2_000;
    let taken: u64 = thread::scope(|scope| {
        let takers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let tried =
                        (0..each).filter(|_| TryExecutor::try_execute(&pool, count(&ran)).is_ok());
                    tried.count() as u64
                })
            })
            .collect();
        for _ in 0..each {
            pool.execute(ran.hits()).unwrap();
        }
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    ran.wait_for(each + taken);
    until("every job is done", || pool.metrics().done == each + taken);
    assert_eq!(ran.count(), each + taken);
}

#[test]
fn room_says_what_is_left() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(2).queue(3).reserved(1);
    let pool = pool.build().unwrap();
    let room = |idle, may_start, places| FreeThreads {
        idle,
        may_start,
        places,
    };
    assert_eq!(pool.free_threads(), room(0, 2, 3));
    let first = hold(&pool);
    assert_eq!(pool.free_threads(), room(0, 1, 3));
    release(&clock, vec![first]);
    assert_eq!(pool.free_threads(), room(1, 1, 3));
    let gates = hold_many(&pool, 2);
    pool.execute(|| ()).unwrap();
    let full = pool.free_threads();
    assert_eq!(full, room(0, 0, 2));
    assert!(!full.has_thread());
    release(&clock, gates);
}
