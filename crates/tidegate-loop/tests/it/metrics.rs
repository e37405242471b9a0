//! The metrics of an event loop, one by one.

use std::time::Duration;

use tidegate_core::{ManualClock, Task};
use tidegate_loop::{EventLoop, RejectPolicy};
use tidegate_testkit::{Counter, Stop, until};

use crate::{SECOND, builder, end, hold, home};

#[test]
fn a_new_loop_shows_nothing() {
    let (home, _clock) = home();
    let metrics = home.metrics();
    assert_eq!((metrics.tasks_run, metrics.tasks_pending), (0, 0));
    assert_eq!((metrics.turns, metrics.sleeps, metrics.wakeups), (0, 0, 0));
    assert_eq!(
        (metrics.longest, metrics.longest_task),
        (Duration::ZERO, None)
    );
    assert_eq!((metrics.busy, metrics.running), (Duration::ZERO, None));
    assert!(metrics.busy_ratio == 0.0);
}

#[test]
fn tasks_pending_and_high_water_follow_the_queue() {
    let (home, _clock) = home();
    let gate = hold(&home);
    for _ in 0..10 {
        home.execute(|| ()).unwrap();
    }
    assert_eq!(home.metrics().tasks_pending, 10);
    gate.open();
    home.settle();
    let handle = home.clone();
    home.execute(move || {
        for _ in 0..20 {
            handle.execute(|| ()).unwrap();
        }
    })
    .unwrap();
    home.settle();
    let metrics = home.metrics();
    assert_eq!((metrics.tasks_run, metrics.tasks_pending), (32, 0));
    assert_eq!(metrics.high_water, 20);
}

#[test]
fn the_running_task_shows_its_number_and_its_name() {
    let (home, _clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let stop = Stop::new();
    let task = Task::named("compact", stop.closure());
    home.execute_task(task).unwrap();
    stop.reached();
    let running = home.metrics().running.unwrap();
    assert_eq!((running.sequence, running.name), (2, "compact"));
    stop.go_on();
    home.settle();
    assert_eq!(home.metrics().running, None);
    let gate = hold(&home);
    let running = home.metrics().running.unwrap();
    assert!(running.name.contains("Stop"), "{}", running.name);
    gate.open();
}

#[test]
fn the_longest_task_is_named_when_every_task_is_timed() {
    let clock = ManualClock::new();
    let home = builder(&clock, "home").time_tasks(true).build().unwrap();
    for (name, seconds) in [("short", 1), ("long", 5), ("middling", 3)] {
        let turn = clock.clone();
        let task = Task::named(name, move || turn.jump(SECOND * seconds));
        home.execute_task(task).unwrap();
    }
    home.settle();
    let metrics = home.metrics();
    assert_eq!(metrics.longest, SECOND * 5);
    assert_eq!(metrics.longest_task, Some("long"));
}

#[test]
fn without_timing_the_longest_run_is_that_between_two_looks() {
    let (home, clock) = home();
    let gate = hold(&home);
    for _ in 0..64 {
        let turn = clock.clone();
        home.execute(move || turn.jump(SECOND)).unwrap();
    }
    gate.open();
    home.settle();
    let longest = home.metrics().longest;
    assert!(longest >= SECOND * 60, "{longest:?}");
}

#[test]
fn refusals_and_panics_are_counted() {
    let clock = ManualClock::new();
    let home = builder(&clock, "home").bound(16).reject(RejectPolicy::Fail);
    let home = home.build().unwrap();
    let gate = hold(&home);
    let refused = (0..40).filter(|_| home.execute(|| ()).is_err()).count();
    assert_eq!(home.metrics().refused, refused as u64);
    gate.open();
    home.settle();
    home.execute(|| panic!("on purpose")).unwrap();
    let (promise, answer) = home.promise::<u32>();
    answer.on_complete(|_| panic!("on purpose"));
    promise.succeed(1).unwrap();
    home.settle();
    let metrics = home.metrics();
    assert_eq!((metrics.panics, metrics.listener_panics), (1, 1));
    end(&home);
    assert!(home.execute(|| ()).is_err());
    assert_eq!(home.metrics().refused, refused as u64 + 1);
}

#[test]
fn timers_show_how_many_wait_and_how_late_they_were() {
    let (home, clock) = home();
    let gate = hold(&home);
    let first = home.schedule(SECOND, || ()).unwrap();
    let second = home.schedule(SECOND * 3, || ()).unwrap();
    gate.open();
    home.settle();
    assert_eq!(home.metrics().timers_pending, 2);
    clock.advance(SECOND);
    assert!(first.is_done());
    let gate = hold(&home);
    clock.jump(SECOND * 4);
    gate.open();
    home.settle();
    assert!(second.is_done());
    let metrics = home.metrics();
    assert_eq!((metrics.timers_pending, metrics.timers_run), (0, 2));
    assert_eq!(metrics.lateness_max, SECOND * 2);
    assert_eq!(metrics.lateness_mean, SECOND);
}

#[test]
fn the_busy_ratio_is_the_share_of_time_awake() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    clock.advance(SECOND * 6);
    let turn = clock.clone();
    home.execute(move || turn.jump(SECOND * 2)).unwrap();
    home.settle();
    let metrics = home.metrics();
    assert_eq!(metrics.busy, SECOND * 2);
    assert!(
        (metrics.busy_ratio - 0.25).abs() < 1e-6,
        "{}",
        metrics.busy_ratio
    );
}

#[test]
fn the_busy_ratio_survives_a_change_of_thread() {
    let (home, clock) = home();
    let turn = clock.clone();
    home.execute(move || turn.jump(SECOND)).unwrap();
    home.settle();
    home.try_suspend();
    home.settle();
    until("the loop is suspended", || {
        home.lifecycle() == tidegate_loop::Lifecycle::Suspended
    });
    clock.jump(SECOND * 3);
    home.submit(|| ()).unwrap().wait().unwrap();
    home.settle();
    let metrics = home.metrics();
    assert_eq!(metrics.busy, SECOND);
    assert!(
        (metrics.busy_ratio - 0.25).abs() < 1e-6,
        "{}",
        metrics.busy_ratio
    );
}

#[test]
fn turns_sleeps_and_heartbeat_move() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    home.settle();
    let before = home.metrics();
    assert!(before.turns > 0 && before.sleeps > 0);
    clock.advance(SECOND * 7);
    assert_eq!(
        home.metrics().heartbeat_age.as_secs(),
        6,
        "the first beat is at 1 ns"
    );
    home.execute(|| ()).unwrap();
    home.settle();
    let after = home.metrics();
    assert!(after.turns > before.turns && after.sleeps == before.sleeps + 1);
    assert_eq!(after.wakeups, before.wakeups + 1);
    assert_eq!(after.heartbeat_age, Duration::ZERO);
}

#[test]
fn live_futures_are_counted() {
    let (home, _clock) = home();
    let futures: Vec<_> = (0..5)
        .map(|_| home.spawn(std::future::pending::<()>()).unwrap())
        .collect();
    home.settle();
    assert_eq!(home.metrics().futures, 5);
    futures[2].cancel();
    home.settle();
    assert_eq!(home.metrics().futures, 4);
    assert_eq!(end(&home).dropped, 4);
}

#[test]
fn metrics_may_be_read_on_the_loop_itself_and_after_its_end() {
    let (home, _clock) = home();
    let handle: EventLoop = home.clone();
    let inside = home.submit(move || handle.metrics().tasks_run);
    assert_eq!(inside.unwrap().wait().unwrap(), 1);
    let ran = Counter::new();
    home.execute(ran.hits()).unwrap();
    end(&home);
    let metrics = home.metrics();
    assert_eq!((metrics.tasks_run, metrics.tasks_pending), (2, 0));
    assert_eq!(metrics.running, None);
}
