//! User code that panics with a payload whose drop panics, and user values whose drop panics: the
//! library survives both.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
use tidegate_core::{ManualClock, Task, ThreadBuilder, Ticker};
use tidegate_loop::{EventLoop, Lifecycle, Quiet, RoamingConfig, Watchdog};
use tidegate_pool::{OrderedView, WorkerPool};
use tidegate_testkit::{Bomb, Counter, Gate, Log, explode, until};

use crate::{SECOND, builder, end, hold, home, watched};

/// Asserts that the event loop still runs tasks, on the thread that it had.
fn assert_lives(home: &EventLoop) {
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert_eq!(home.lifecycle(), Lifecycle::Started);
}

#[test]
fn of_tasks() {
    for timed in [false, true] {
        let clock = ManualClock::new();
        let (log, home) = (Log::new(), builder(&clock, "home"));
        let received = log.clone();
        let hook =
            move |_: &str, what: &tidegate_core::Unhandled<'_>| received.push(what.to_string());
        let home = home.time_tasks(timed).on_unhandled(hook).build().unwrap();
        home.execute(|| explode()).unwrap();
        let own = home.clone();
        home.execute(move || own.execute(|| explode()).unwrap())
            .unwrap();
        assert_lives(&home);
        home.settle();
        assert_eq!((log.len(), home.metrics().panics), (2, 2));
        let failed = home.submit(|| -> u32 { explode() }).unwrap();
        let failure = failed.wait().unwrap_err().failure().unwrap();
        assert!(failure.is_panic());
        assert_lives(&home);
        assert_eq!(end(&home).handed_back.len(), 0);
    }
}

#[test]
fn of_timers_and_timeouts() {
    let clock = ManualClock::new();
    let (home, _log) = watched(&clock);
    let once = home.schedule(SECOND, || -> u32 { explode() }).unwrap();
    let rate = home.schedule_at_fixed_rate(SECOND, SECOND, || explode());
    let rate = rate.unwrap();
    let timeout = home.schedule_coarse(SECOND, || explode()).unwrap();
    let after = Counter::new();
    drop(home.schedule(SECOND, after.hits()));
    home.settle();
    clock.advance(2 * SECOND);
    assert!(once.wait().unwrap_err().failure().unwrap().is_panic());
    assert!(rate.wait().unwrap_err().failure().unwrap().is_panic());
    assert!(timeout.is_expired());
    assert_eq!(after.count(), 1);
    assert_lives(&home);
}

#[test]
fn of_the_hook_for_unhandled_errors() {
    let clock = ManualClock::new();
    let hook = |_: &str, _: &tidegate_core::Unhandled<'_>| explode();
    let home = builder(&clock, "home").on_unhandled(hook).build().unwrap();
    home.execute(|| explode()).unwrap();
    assert_lives(&home);
}

#[test]
fn of_futures_listeners_and_signals() {
    struct Explodes;
    impl Deliver for Explodes {
        fn deliver(_: Arc<SignalBlock<Self>>, _: Delivery) {
            explode();
        }
    }
    let clock = ManualClock::new();
    let (home, _log) = watched(&clock);
    let future = home.spawn(async { explode() }).unwrap();
    assert!(future.wait().unwrap_err().failure().unwrap().is_panic());
    let bomb = Bomb::new();
    let ready = home.spawn(poll_fn(move |_| {
        let _held = &bomb;
        Poll::Ready(())
    }));
    assert!(ready.unwrap().wait().is_err(), "its drop has panicked");
    let (promise, answer) = home.promise::<u32>();
    answer.on_complete(|_| explode());
    promise.on_cancel(|| explode());
    let (second, cancelled) = home.promise::<u32>();
    second.on_cancel(|| explode());
    promise.succeed(1).unwrap();
    assert!(cancelled.cancel());
    let block = SignalBlock::new(Explodes);
    home.executor().signal(block.raise().unwrap()).unwrap();
    assert_lives(&home);
}

#[test]
fn of_hooks_at_both_ends_of_a_loop() {
    let clock = ManualClock::new();
    let log = Log::new();
    let threads = ThreadBuilder::new("hooked")
        .on_start(|| explode())
        .on_stop(|| explode())
        .on_stop(log.pushes("stopped"));
    let home = builder(&clock, "home").threads(threads).build().unwrap();
    home.add_shutdown_hook("first", || explode()).unwrap();
    home.add_shutdown_hook("second", log.pushes("second"))
        .unwrap();
    assert_lives(&home);
    let report = end(&home);
    assert_eq!(report.hooks, 2);
    log.wait_for(2);
    log.assert_order(&["second", "stopped"]);
}

#[test]
fn of_values_that_a_loop_drops_at_its_end() {
    let (home, clock) = home();
    let bombs = || [Bomb::new(), Bomb::new()].map(Some);
    for bomb in bombs() {
        drop(home.schedule(SECOND, move || drop(bomb)));
    }
    for bomb in bombs() {
        drop(home.schedule_coarse(SECOND, move || drop(bomb)));
    }
    for bomb in bombs() {
        drop(home.spawn(poll_fn(move |_| {
            let _held = &bomb;
            Poll::<()>::Pending
        })));
    }
    home.settle();
    let gate = hold(&home);
    for bomb in bombs() {
        home.execute(move || drop(bomb)).unwrap();
    }
    let ended = home.shutdown(Quiet::none(SECOND));
    for (name, bomb) in ["one", "two"].into_iter().zip(bombs()) {
        home.add_shutdown_hook(name, move || drop(bomb)).unwrap();
    }
    // The deadline has passed, but the event loop does not count as stuck yet.
    clock.jump(SECOND);
    gate.open();
    let report = ended.wait().unwrap();
    assert_eq!((report.cancelled, report.dropped), (4, 2));
    assert_eq!(report.handed_back.len(), 2);
    drop(report);
    drop(home);
}

#[test]
fn of_a_roaming_loops_tasks() {
    let pool = WorkerPool::builder("workers").max(3).build().unwrap();
    let home = EventLoop::builder("roams");
    let home = home
        .build_roaming(&RoamingConfig::new(Arc::new(pool)))
        .unwrap();
    home.execute(|| explode()).unwrap();
    home.execute_task(Task::non_blocking(|| explode())).unwrap();
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    // One of the panics may still be on its way to the counter, on a thread of the pool.
    until("both panics are counted", || home.metrics().panics == 2);
}

#[test]
fn of_jobs_and_hooks_of_a_pool() {
    let clock = ManualClock::new();
    let pool = WorkerPool::builder("workers").core(1).max(1).clock(&clock);
    let pool = pool.on_low_threads(|_| explode());
    let pool = pool.on_unhandled(|_, _| explode()).build().unwrap();
    pool.execute(|| explode()).unwrap();
    let failed = pool.submit(|| -> u32 { explode() }).unwrap();
    assert!(failed.wait().unwrap_err().failure().unwrap().is_panic());
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    clock.settle();
    assert_eq!(pool.metrics().started_threads, 1, "the same thread");
}

#[test]
fn of_an_ordered_views_tasks() {
    let pool = WorkerPool::builder("workers").max(2).build().unwrap();
    let view = OrderedView::over(Arc::new(pool)).unwrap();
    view.execute(|| explode()).unwrap();
    let (ran, open) = Gate::pair();
    view.execute(move || open.open()).unwrap();
    ran.wait();
    assert_eq!(view.panics(), 1);
}

#[test]
fn of_a_watchdogs_callbacks() {
    let (ticker, steps) = Ticker::manual();
    let (home, _clock) = home();
    let (calls, count) = Counter::pair();
    let watchdog = Watchdog::builder()
        .ticker(ticker)
        .on_stall(move |_| {
            count.hit();
            explode();
        })
        .watch(&home)
        .build()
        .unwrap();
    let gate = hold(&home);
    for _ in 0..3 {
        steps.tick(SECOND);
    }
    assert_eq!(calls.count(), 2, "it was called again");
    gate.open();
    assert_lives(&home);
    drop(watchdog);
}

#[test]
fn of_the_users_way_to_start_threads() {
    let clock = ManualClock::new();
    let works = Arc::new(AtomicBool::new(false));
    let may = Arc::clone(&works);
    let threads = ThreadBuilder::new("own").spawner(move |job| {
        if !may.load(Ordering::Relaxed) {
            explode();
        }
        let thread = std::thread::Builder::new();
        thread.spawn(move || job.run()).map(drop)
    });
    let home = builder(&clock, "home").threads(threads).build().unwrap();
    let refused = home.execute(|| ()).unwrap_err();
    assert_eq!(refused.why(), tidegate_core::RejectReason::NoThread);
    works.store(true, Ordering::Relaxed);
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert!(
        home.await_termination(Duration::ZERO)
            .is_ok_and(|over| !over)
    );
}
