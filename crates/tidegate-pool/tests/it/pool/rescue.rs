//! No job waits while a thread could run it. A job that was queued for a searching worker is
//! rescued if that worker, or the worker that it would have sent, is claimed, ends or cannot be
//! started.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, Task, ThreadBuilder};
use tidegate_pool::{Growth, WorkerPool};
use tidegate_testkit::{Counter, Gate};

use super::{builder, fixed, held, hold, hold_many, release};
use crate::SECOND;

const ROUNDS: usize = 100;

#[test]
fn a_job_queued_behind_a_wakeup_runs_though_the_idle_thread_is_claimed() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let pool = builder(&clock).core(2).max(4).reserved(1).build().unwrap();
        release(&clock, hold_many(&pool, 2));
        let (first, _, end_first) = held("first");
        let (claiming, _, end_claiming) = held("claiming");
        let ran = Counter::new();
        pool.execute_task(first).unwrap();
        pool.execute(ran.hits()).unwrap();
        let _ = pool.try_execute(claiming);
        ran.wait_for(1);
        release(&clock, vec![end_first, end_claiming]);
    }
}

#[test]
fn a_job_queued_behind_a_wakeup_runs_though_the_idle_thread_leaves() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let pool = builder(&clock).core(1).max(4).reserved(0);
        let pool = pool.keep_alive(SECOND).build().unwrap();
        release(&clock, hold_many(&pool, 2));
        let (first, _, end_first) = held("first");
        let ran = Counter::new();
        thread::scope(|scope| {
            scope.spawn(|| clock.jump(SECOND));
            pool.execute_task(first).unwrap();
            pool.execute(ran.hits()).unwrap();
        });
        ran.wait_for(1);
        release(&clock, vec![end_first]);
    }
}

#[test]
fn what_was_accepted_before_a_stop_gets_its_threads_after_it() {
    for _ in 0..ROUNDS {
        let clock = ManualClock::new();
        let pool = builder(&clock).core(2).max(4).reserved(0).build().unwrap();
        release(&clock, hold_many(&pool, 2));
        let (first, _, end_first) = held("first");
        let ran = Counter::new();
        pool.execute_task(first).unwrap();
        pool.execute(ran.hits()).unwrap();
        let stopped = pool.shutdown(SECOND);
        ran.wait_for(1);
        end_first.open();
        assert!(stopped.wait().unwrap().handed_back.is_empty());
    }
}

/// Returns a spawner that first runs `before`, and then starts the thread unless `broken` is set.
fn spawner(broken: &Arc<AtomicBool>, before: impl Fn() + Send + Sync + 'static) -> ThreadBuilder {
    let broken = Arc::clone(broken);
    ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        before();
        if broken.swap(false, Ordering::Relaxed) {
            return Err(io::Error::other("no more threads"));
        }
        let thread = thread::Builder::new().name(job.name().to_owned());
        thread.spawn(move || job.run()).map(drop)
    })
}

#[test]
fn a_job_that_relied_on_a_thread_that_cannot_be_started_gets_another() {
    let clock = ManualClock::new();
    let broken = Arc::new(AtomicBool::new(true));
    let (pool_of, ran) = (
        Arc::new(std::sync::OnceLock::<WorkerPool>::new()),
        Counter::new(),
    );
    let (inside, count) = (Arc::clone(&pool_of), ran.clone());
    let is_broken = Arc::clone(&broken);
    // While the first thread is being started, the second job relies on it.
    let threads = spawner(&broken, move || {
        if is_broken.load(Ordering::Relaxed) {
            let pool = inside.get().unwrap();
            pool.execute(count.hits()).unwrap();
            assert_eq!(pool.metrics().queued, 1);
        }
    });
    let pool = fixed(&clock, 1, 8).threads(threads).build().unwrap();
    assert!(pool_of.set(pool.clone()).is_ok());
    pool.execute(ran.hits()).unwrap();
    ran.wait_for(2);
    clock.settle();
    let metrics = pool.metrics();
    assert_eq!(
        (metrics.failed_starts, metrics.threads, metrics.queued),
        (1, 1, 0)
    );
}

#[test]
fn queue_first_without_a_core_starts_a_thread_for_what_it_queues() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(0).max(2).queue(4).reserved(0);
    let pool = pool.growth(Growth::QueueFirst).keep_alive(SECOND);
    let pool = pool.build().unwrap();
    let ran = Counter::new();
    for round in 1..=3 {
        pool.execute(ran.hits()).unwrap();
        ran.wait_for(round);
        clock.settle();
        clock.advance(SECOND);
        assert_eq!(pool.metrics().threads, 0, "the keep-alive is over");
    }
}

#[test]
fn a_hook_that_blocks_keeps_no_job_waiting() {
    let clock = ManualClock::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (here, until) = (inside.clone(), go_on.clone());
    let pool = fixed(&clock, 2, 8)
        .low_threads(0)
        .on_low_threads(move |low| {
            if low {
                here.open();
                until.wait();
            }
        });
    let pool = pool.build().unwrap();
    pool.prestart();
    clock.settle();
    let first = hold(&pool);
    let ran = Gate::new();
    thread::scope(|scope| {
        scope.spawn(|| pool.execute_task(Task::new(ran.opens())).unwrap());
        inside.wait();
        ran.wait();
        go_on.open();
    });
    release(&clock, vec![first]);
}
