//! Groups: choosing, forwarding, shutdown, scaling.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::internal::usable_cpus;
use tidegate_core::{ManualClock, ThreadBuilder, Ticker};
use tidegate_loop::internal::ParkDriver;
use tidegate_loop::{
    BuildError, Choose, EventLoop, EventLoopGroup, Lifecycle, Quiet, RoamingConfig, Scaling,
    ShutdownError,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::WaitError;
use tidegate_testkit::{Gate, Log, Stop};

fn here() -> String {
    EventLoop::current().expect("on a loop").name().to_owned()
}

fn at_once() -> Quiet {
    Quiet::none(Duration::from_secs(5))
}

#[test]
fn zero_loops_means_twice_the_processors() {
    let group = EventLoopGroup::builder("g").build().unwrap();
    assert_eq!(group.len(), 2 * usable_cpus());
}

#[test]
fn an_absurd_number_of_loops_is_an_error() {
    let refused = EventLoopGroup::builder("g")
        .loops(EventLoopGroup::MAX_LOOPS + 1)
        .build();
    let refused = refused.expect_err("too many");
    assert!(matches!(refused, BuildError::TooManyLoops { .. }));
    assert!(refused.to_string().contains("use at most"));
}

#[test]
fn loops_are_made_at_once_and_threads_with_the_first_work() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let threads = ThreadBuilder::new("g").on_start(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let group = EventLoopGroup::builder("g")
        .loops(4)
        .threads(threads)
        .build()
        .unwrap();
    assert!(
        group
            .iter()
            .all(|one| one.lifecycle() == Lifecycle::NotStarted)
    );
    group.submit(|| ()).unwrap().wait().unwrap();
    assert_eq!(started.load(Ordering::Relaxed), 1);
}

#[test]
fn iteration_is_in_the_order_of_creation() {
    let group = EventLoopGroup::builder("g").loops(3).build().unwrap();
    let names: Vec<_> = group.iter().map(EventLoop::name).collect();
    assert_eq!(names, ["g-0", "g-1", "g-2"]);
}

#[test]
fn work_goes_round_robin_one_choice_per_call() {
    for loops in [3, 4] {
        let group = EventLoopGroup::builder("g").loops(loops).build().unwrap();
        let places: Vec<_> = (0..2 * loops)
            .map(|_| group.submit(here).unwrap().wait().unwrap())
            .collect();
        let expected: Vec<_> = (0..2 * loops)
            .map(|at| format!("g-{}", at % loops))
            .collect();
        assert_eq!(places, expected);
    }
}

#[test]
fn every_way_to_submit_is_forwarded() {
    let group = EventLoopGroup::builder("g").loops(2).build().unwrap();
    group.execute(|| ()).unwrap();
    assert_eq!(
        group.spawn(async { here() }).unwrap().wait().unwrap(),
        "g-1"
    );
    let later = group.schedule(Duration::ZERO, here).unwrap();
    assert_eq!(later.wait().unwrap(), "g-0");
    let log = Log::new();
    let note = || {
        let log = log.clone();
        move || log.push(here())
    };
    let tick = Duration::from_nanos(1);
    let rate = group.schedule_at_fixed_rate(Duration::ZERO, tick, note());
    let rate = rate.unwrap();
    log.wait_for(2);
    assert!(rate.cancel());
    let _ = group.iter().map(|one| one.settle()).count();
    assert!(log.take().iter().all(|name| name == "g-1"));
    let delay = group.schedule_with_fixed_delay(Duration::ZERO, tick, note());
    log.wait_for(2);
    assert!(delay.unwrap().cancel());
    assert!(log.take().iter().all(|name| name == "g-0"));
}

#[test]
fn asking_about_a_group_does_not_advance_the_chooser() {
    let group = EventLoopGroup::builder("g").loops(2).build().unwrap();
    assert_eq!(group.next().name(), "g-0");
    let _ = (
        group.len(),
        group.active_count(),
        group.is_shutdown(),
        group.utilisation(),
    );
    assert_eq!(group.next().name(), "g-1");
}

#[test]
fn a_dead_loop_gets_no_more_work() {
    for choose in [Choose::RoundRobin, Choose::LessBusy] {
        let group = EventLoopGroup::builder("g")
            .loops(3)
            .choose(choose)
            .build()
            .unwrap();
        let dead = group.iter().nth(1).unwrap();
        dead.shutdown(at_once()).wait().unwrap();
        for _ in 0..12 {
            assert_ne!(group.submit(here).unwrap().wait().unwrap(), "g-1");
        }
    }
}

#[test]
fn the_less_busy_loop_gets_the_work() {
    let group = EventLoopGroup::builder("g")
        .loops(2)
        .choose(Choose::LessBusy)
        .build()
        .unwrap();
    let (gate, wait) = Gate::pair();
    let busy = group.iter().next().unwrap();
    busy.execute(move || wait.wait()).unwrap();
    for _ in 0..10 {
        busy.execute(|| ()).unwrap();
    }
    for _ in 0..10 {
        assert_eq!(group.submit(here).unwrap().wait().unwrap(), "g-1");
    }
    gate.open();
}

#[test]
fn a_group_that_cannot_be_made_leaves_nothing_behind() {
    let threads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&threads);
    let builder = ThreadBuilder::new("g").on_start(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let group = EventLoopGroup::builder("g").loops(3).threads(builder);
    let failed = group.build_with_driver(|at| match at {
        2 => Err(io::Error::other("no more")),
        _ => Ok(ParkDriver::new()),
    });
    let failed = failed.expect_err("the third driver failed");
    assert!(matches!(failed, BuildError::Driver(_)));
    assert_eq!(threads.load(Ordering::Relaxed), 0);
}

#[test]
fn a_group_ends_when_its_last_loop_has() {
    let group = EventLoopGroup::builder("g").loops(3).build().unwrap();
    for one in &group {
        one.execute(|| ()).unwrap();
    }
    assert!(!group.is_shutting_down());
    let report = group.shutdown(at_once()).wait().unwrap();
    assert!(group.is_shutting_down() && group.is_shutdown() && group.is_terminated());
    assert!(report.handed_back.is_empty());
    assert!(group.execute(|| ()).is_err());
    assert!(group.await_termination(Duration::ZERO).unwrap());
}

#[test]
fn predicates_are_the_conjunction_over_the_loops() {
    let group = EventLoopGroup::builder("g").loops(2).build().unwrap();
    let one = group.iter().next().unwrap();
    one.shutdown(at_once()).wait().unwrap();
    assert!(one.is_terminated());
    assert!(!group.is_shutting_down() && !group.is_shutdown() && !group.is_terminated());
}

#[test]
fn a_bad_quiet_period_is_refused_for_the_group() {
    let group = EventLoopGroup::builder("g").loops(2).build().unwrap();
    let quiet = Quiet {
        period: Duration::from_secs(2),
        timeout: Duration::from_secs(1),
    };
    let refused = group.shutdown(quiet).wait();
    assert!(matches!(
        refused,
        Err(WaitError::Failed(ShutdownError::BadQuiet(_)))
    ));
    assert!(!group.is_shutting_down());
}

#[test]
fn waiting_for_the_end_spends_one_deadline_over_all_loops() {
    let clock = ManualClock::new();
    let group = EventLoopGroup::builder("g")
        .loops(2)
        .clock(&clock)
        .build()
        .unwrap();
    let waiting = group.clone();
    let thread = ThreadBuilder::new("waiter");
    let (tx, rx) = std::sync::mpsc::channel();
    thread
        .spawn(move || {
            let ended = waiting.await_termination(Duration::from_secs(3));
            tx.send(ended.unwrap()).unwrap();
        })
        .unwrap();
    clock.await_sleepers(1);
    clock.jump(Duration::from_secs(3));
    assert!(!rx.recv().unwrap());
}

#[test]
fn a_roaming_group_lets_its_tasks_wait() {
    let pool = Arc::new(WorkerPool::builder("workers").max(4).build().unwrap());
    let config = RoamingConfig::new(pool);
    let group = EventLoopGroup::builder("g").loops(2);
    let group = group.build_roaming(&config).unwrap();
    let other = group.iter().nth(1).unwrap().clone();
    let answer = group.submit(move || other.submit(|| 7).unwrap().wait());
    assert_eq!(answer.unwrap().wait().unwrap().unwrap(), 7);
}

#[test]
fn an_idle_scaling_group_gives_its_threads_back_and_work_brings_them_again() {
    let (ticker, manual_ticker) = Ticker::manual();
    let clock = ManualClock::new();
    let scaling = Scaling::between(1, 3).consecutive_windows(0).ticker(ticker);
    let group = EventLoopGroup::builder("g")
        .loops(3)
        .clock(&clock)
        .scaling(scaling);
    let group = group.build().unwrap();
    assert_eq!(group.active_count(), 3);
    for one in &group {
        one.submit(|| ()).unwrap().wait().unwrap();
    }
    clock.settle();
    for expected in [2, 1, 1] {
        manual_ticker.tick(Duration::from_secs(1));
        assert_eq!(group.active_count(), expected);
    }
    assert_eq!(group.utilisation().len(), 3);
    clock.settle();
    let last = group.iter().nth(2).unwrap();
    assert_eq!(last.lifecycle(), Lifecycle::Suspended);
    assert_eq!(group.submit(here).unwrap().wait().unwrap(), "g-0");
    assert_eq!(last.submit(here).unwrap().wait().unwrap(), "g-2");
    assert_eq!(last.lifecycle(), Lifecycle::Started);
}

#[test]
fn a_busy_scaling_group_grows_again() {
    let (ticker, manual_ticker) = Ticker::manual();
    let clock = ManualClock::new();
    let scaling = Scaling::between(1, 2).consecutive_windows(0).ticker(ticker);
    let group = EventLoopGroup::builder("g")
        .loops(2)
        .clock(&clock)
        .scaling(scaling);
    let group = group.build().unwrap();
    manual_ticker.tick(Duration::from_secs(1));
    assert_eq!(group.active_count(), 1);
    let stop = Stop::new();
    let first = group.iter().next().unwrap();
    first.execute(stop.closure()).unwrap();
    stop.reached();
    clock.jump(Duration::from_secs(1));
    manual_ticker.tick(Duration::from_secs(1));
    assert_eq!(group.active_count(), 2);
    assert!(group.utilisation()[0] > 0.9);
    stop.go_on();
}

#[test]
fn scaling_down_to_nothing_still_takes_work() {
    let (ticker, manual_ticker) = Ticker::manual();
    let scaling = Scaling::between(0, 1).consecutive_windows(0).ticker(ticker);
    let group = EventLoopGroup::builder("g")
        .loops(1)
        .scaling(scaling)
        .build()
        .unwrap();
    manual_ticker.tick(Duration::from_secs(1));
    assert_eq!(group.active_count(), 0);
    assert_eq!(group.submit(here).unwrap().wait().unwrap(), "g-0");
}

#[test]
fn a_scaled_group_takes_work_while_any_of_its_loops_does() {
    let (ticker, manual_ticker) = Ticker::manual();
    let (tick, clock) = (
        || manual_ticker.tick(Duration::from_secs(1)),
        ManualClock::new(),
    );
    let scaling = Scaling::between(0, 3).consecutive_windows(1).ticker(ticker);
    let group = EventLoopGroup::builder("g").loops(3).clock(&clock);
    let group = group.scaling(scaling).build().unwrap();
    let runs_on = || {
        let name = group.submit(here).unwrap().wait().unwrap();
        clock.settle();
        name
    };
    let end = |at: usize| group.iter().nth(at).unwrap().shutdown(at_once()).wait();
    (0..3).for_each(|_| tick());
    assert_eq!((group.active_count(), runs_on()), (1, "g-0".to_owned()));
    end(0).unwrap();
    assert_eq!(runs_on(), "g-1", "the last active loop has ended");
    tick();
    assert_eq!(
        (group.active_count(), runs_on()),
        (1, "g-1".to_owned()),
        "it counts as active"
    );
    tick();
    assert_eq!(
        (group.active_count(), runs_on()),
        (0, "g-1".to_owned()),
        "scaled to zero"
    );
    end(1).unwrap();
    assert_eq!(runs_on(), "g-2");
    end(2).unwrap();
    assert!(group.execute(|| ()).is_err());
}

#[test]
fn a_shutdown_that_is_refused_leaves_the_scaling_running() {
    let (ticker, manual_ticker) = Ticker::manual();
    let scaling = Scaling::between(0, 1).consecutive_windows(0).ticker(ticker);
    let group = EventLoopGroup::builder("g").loops(1).scaling(scaling);
    let group = group.build().unwrap();
    let (period, timeout) = (Duration::from_secs(2), Duration::from_secs(1));
    let refused = group.shutdown(Quiet { period, timeout }).wait();
    assert!(refused.is_err(), "{refused:?}");
    manual_ticker.tick(Duration::from_secs(1));
    assert_eq!(group.active_count(), 0, "it still scales");
}

#[test]
fn the_monitor_ends_with_the_group() {
    let (ticker, manual_ticker) = Ticker::manual();
    let scaling = Scaling::between(0, 1).ticker(ticker);
    let group = EventLoopGroup::builder("g")
        .loops(1)
        .scaling(scaling)
        .build()
        .unwrap();
    group.shutdown(at_once()).wait().unwrap();
    manual_ticker.tick(Duration::from_secs(1));
    manual_ticker.tick(Duration::from_secs(1));
    assert!(group.is_terminated());
}

#[test]
fn a_thread_has_the_name_of_its_loop() {
    let group = EventLoopGroup::builder("io").loops(2).build().unwrap();
    for one in group.iter() {
        let thread = one.thread_info().unwrap();
        let expected = format!("{}-", one.name());
        assert!(thread.name().starts_with(&expected), "{}", thread.name());
    }
    let threads = ThreadBuilder::new("own");
    let group = EventLoopGroup::builder("io").loops(2).threads(threads);
    let group = group.build().unwrap();
    let names = group.iter().map(|one| one.thread_info().unwrap());
    let names: Vec<_> = names.map(|thread| thread.name().to_owned()).collect();
    assert!(names[0].starts_with("own-") && names[0].ends_with("-1"));
    assert!(
        names[1].starts_with("own-") && names[1].ends_with("-2"),
        "{names:?}"
    );
}
