//! The watchdog, stepped by hand: what it reports, when, and what it ignores.

use std::time::Duration;

use tidegate_core::{ManualClock, ManualTicker, Task, ThreadBuilder, Ticker};
use tidegate_loop::{EventLoop, Quiet, Recovered, Stall, Watchdog, WatchdogBuilder, WatchdogError};
use tidegate_testkit::{Counter, Gate, Log, Stop};

const SECOND: Duration = Duration::from_secs(1);

/// A report: age or duration in seconds, task and number.
#[derive(Debug, PartialEq, Eq)]
enum Reported {
    Stuck(u64, &'static str, u64),
    GoesOn(u64, &'static str, u64),
}

fn stuck(stall: &Stall) -> Reported {
    Reported::Stuck(stall.age.as_secs(), stall.task, stall.sequence)
}

fn goes_on(recovered: &Recovered) -> Reported {
    Reported::GoesOn(
        recovered.lasted.as_secs(),
        recovered.task,
        recovered.sequence,
    )
}

/// Returns a watchdog builder with a threshold of two seconds that logs its reports.
fn watchdog(log: &Log<Reported>) -> (WatchdogBuilder, ManualTicker) {
    let (ticker, steps) = Ticker::manual();
    let (stalls, recoveries) = (log.clone(), log.clone());
    let builder = Watchdog::builder()
        .threshold(2 * SECOND)
        .ticker(ticker)
        .on_stall(move |stall| stalls.push(stuck(stall)))
        .on_recover(move |recovered| recoveries.push(goes_on(recovered)));
    (builder, steps)
}

/// Watches an event loop with such a watchdog.
fn watch(home: &EventLoop) -> (Log<Reported>, ManualTicker, Watchdog) {
    let log = Log::new();
    let (builder, steps) = watchdog(&log);
    let watchdog = builder.watch(home).build();
    (log, steps, watchdog.expect("the threshold is not zero"))
}

/// Keeps the event loop in a task called `compact` until the returned gate is opened.
fn hold(home: &EventLoop) -> Gate {
    let stop = Stop::new();
    let task = Task::named("compact", stop.closure());
    home.execute_task(task).expect("the loop has room");
    stop.reached()
}

/// Returns an event loop on a manual clock, so that a test can wait until it sleeps.
fn manual(name: &str) -> EventLoop {
    let clock = ManualClock::new();
    let home = EventLoop::builder(name).clock(&clock).build();
    home.expect("nothing contradicts itself")
}

/// Waits until the event loop has finished its task and sleeps.
fn let_go(home: &EventLoop, gate: &Gate) {
    gate.open();
    home.settle();
}

#[test]
fn reports_at_the_threshold_and_whenever_the_age_doubles() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, watchdog) = watch(&home);
    let gate = hold(&home);
    steps.tick(SECOND); // seen for the first time
    steps.tick(SECOND);
    assert!(log.is_empty() && !home.is_stalled() && watchdog.stalled().is_empty());
    for _ in 0..7 {
        steps.tick(SECOND);
    }
    let reported = [2, 4, 8].map(|age| Reported::Stuck(age, "compact", 1));
    assert_eq!(log.take(), reported);
    assert!(home.is_stalled());
    assert_eq!(watchdog.stalled(), ["home"]);
    assert_eq!(watchdog.stalls(), 1, "one stall, however often reported");
    gate.open();
}

#[test]
fn a_long_tick_is_reported_once() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, _watchdog) = watch(&home);
    let gate = hold(&home);
    steps.tick(SECOND);
    steps.tick(100 * SECOND);
    assert_eq!(log.take(), [Reported::Stuck(100, "compact", 1)]);
    steps.tick(27 * SECOND);
    assert!(log.is_empty());
    steps.tick(SECOND);
    assert_eq!(log.take(), [Reported::Stuck(128, "compact", 1)]);
    gate.open();
}

#[test]
fn reports_a_recovery_once() {
    let home = manual("home");
    let (log, steps, watchdog) = watch(&home);
    let gate = hold(&home);
    steps.tick(SECOND);
    steps.tick(3 * SECOND);
    let_go(&home, &gate);
    steps.tick(SECOND);
    steps.tick(SECOND);
    assert_eq!(
        log.take(),
        [
            Reported::Stuck(3, "compact", 1),
            Reported::GoesOn(3, "compact", 1)
        ]
    );
    assert!(!home.is_stalled());
    let again = hold(&home);
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    assert_eq!(watchdog.stalls(), 2);
    again.open();
}

#[test]
fn the_next_task_being_stuck_is_a_stall_of_its_own() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, _watchdog) = watch(&home);
    let first = hold(&home);
    let stop = Stop::new();
    let next = Task::named("index", stop.closure());
    home.execute_task(next).unwrap();
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    first.open();
    stop.reached();
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    let reported = log.take();
    let expected = [
        Reported::Stuck(2, "compact", 1),
        Reported::GoesOn(2, "compact", 1),
        Reported::Stuck(2, "index", 2),
    ];
    assert_eq!(reported, expected);
    stop.go_on();
}

#[test]
fn a_sleeping_loop_is_never_reported() {
    let log = Log::new();
    let (builder, steps) = watchdog(&log);
    let idle = manual("idle");
    let unused = EventLoop::builder("unused").build().unwrap();
    let (manual, mut manual_loop) = EventLoop::builder("hand").build_manual().unwrap();
    manual.execute(|| ()).unwrap();
    manual_loop.run_until_idle();
    let _watchdog = builder
        .watch(&idle)
        .watch(&unused)
        .watch(&manual)
        .build()
        .unwrap();
    idle.execute(|| ()).unwrap();
    idle.settle();
    for _ in 0..20 {
        steps.tick(10 * SECOND);
    }
    assert!(log.is_empty(), "{:?}", log.take());
    assert!(!idle.is_stalled() && !unused.is_stalled());
}

#[test]
fn a_busy_loop_is_not_stuck() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, _watchdog) = watch(&home);
    for _ in 0..20 {
        // Busy at every check, each time with another task.
        let gate = hold(&home);
        steps.tick(10 * SECOND);
        gate.open();
    }
    assert!(log.is_empty(), "{:?}", log.take());
}

#[test]
fn a_stuck_listener_is_reported_without_a_name() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, _watchdog) = watch(&home);
    let (promise, answer) = home.promise::<u32>();
    let stop = Stop::new();
    let inside = stop.closure();
    answer.on_complete(move |_| {
        inside();
    });
    promise.succeed(1).unwrap();
    stop.reached();
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    let reported = log.take();
    assert!(
        matches!(reported[..], [Reported::Stuck(2, task, _)] if task.contains("listener")),
        "{reported:?}"
    );
    stop.go_on();
}

#[test]
fn a_backtrace_is_taken_only_on_request() {
    for asked in [false, true] {
        let (ticker, steps) = Ticker::manual();
        let (log, seen) = Log::pair();
        let home = EventLoop::builder("home").build().unwrap();
        let _watchdog = Watchdog::builder()
            .ticker(ticker)
            .backtrace(asked)
            .on_stall(move |stall| seen.push(stall.clone()))
            .watch(&home)
            .build()
            .unwrap();
        let gate = hold(&home);
        steps.tick(SECOND);
        steps.tick(SECOND);
        gate.open();
        let stall = log.take().remove(0);
        assert_eq!((&*stall.name, stall.age), ("home", SECOND));
        let frames = stall.backtrace.as_ref().map(Vec::len);
        if asked && cfg!(target_os = "linux") {
            assert!(frames.is_some_and(|frames| frames > 1), "{stall}");
            assert!(stall.to_string().lines().count() > 2);
        } else if !asked {
            assert_eq!(frames, None);
        }
    }
}

#[test]
fn a_callback_that_panics_is_contained() {
    let (ticker, steps) = Ticker::manual();
    let calls = Counter::new();
    let (stalls, recoveries) = (calls.clone(), calls.clone());
    let home = manual("home");
    let watchdog = Watchdog::builder()
        .ticker(ticker)
        .on_stall(move |_| {
            stalls.hit();
            panic!("on purpose");
        })
        .on_recover(move |_| {
            recoveries.hit();
            panic!("on purpose");
        })
        .watch(&home)
        .build()
        .unwrap();
    let gate = hold(&home);
    for _ in 0..3 {
        steps.tick(SECOND); // seen, then reported at one second and at two
    }
    assert_eq!(calls.count(), 2);
    let_go(&home, &gate);
    steps.tick(SECOND);
    assert_eq!((calls.count(), watchdog.stalls()), (3, 1));
}

#[test]
fn loops_that_end_are_forgotten() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, watchdog) = watch(&home);
    let gate = hold(&home);
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    let end = home.shutdown(Quiet::none(60 * SECOND));
    gate.open();
    end.wait().unwrap();
    steps.tick(SECOND);
    assert_eq!(
        log.take(),
        [
            Reported::Stuck(2, "compact", 1),
            Reported::GoesOn(2, "compact", 1)
        ]
    );
    assert!(watchdog.stalled().is_empty() && !home.is_stalled());
    drop(home);
    steps.tick(100 * SECOND);
    assert!(log.is_empty());
}

#[test]
fn more_loops_can_be_watched_later() {
    let log = Log::new();
    let (builder, steps) = watchdog(&log);
    let watchdog = builder.build().unwrap();
    steps.tick(SECOND);
    let home = EventLoop::builder("home").build().unwrap();
    watchdog.watch(&home);
    let gate = hold(&home);
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    assert_eq!(log.take(), [Reported::Stuck(2, "compact", 1)]);
    gate.open();
}

#[test]
fn a_dropped_watchdog_takes_its_word_back() {
    let home = EventLoop::builder("home").build().unwrap();
    let (log, steps, watchdog) = watch(&home);
    let gate = hold(&home);
    steps.tick(SECOND);
    steps.tick(2 * SECOND);
    assert!(home.is_stalled());
    drop(watchdog);
    assert!(!home.is_stalled(), "its recovery would never be reported");
    assert_eq!(log.take().len(), 1);
    steps.tick(100 * SECOND);
    assert!(log.is_empty());
    gate.open();
}

#[test]
fn stop_waits_for_a_callback_and_drop_does_not() {
    for stops in [false, true] {
        let (ticker, steps) = Ticker::manual();
        let (arrived, go_on, log) = (Gate::new(), Gate::new(), Log::new());
        let (here, gate, seen) = (arrived.clone(), go_on.clone(), log.clone());
        let home = EventLoop::builder("home").build().unwrap();
        let watchdog = Watchdog::builder()
            .ticker(ticker)
            .on_stall(move |_| {
                here.open();
                gate.wait();
                seen.push("callback");
            })
            .watch(&home)
            .build()
            .unwrap();
        let held = hold(&home);
        steps.tick(SECOND);
        let stepped = ThreadBuilder::new("steps").spawn(move || steps.tick(SECOND));
        arrived.wait();
        if stops {
            let seen = log.clone();
            let stopping = ThreadBuilder::new("stop").spawn(move || {
                watchdog.shutdown();
                seen.push("stopped");
            });
            go_on.open();
            assert!(stopping.unwrap().join().unwrap());
            assert_eq!(log.take(), ["callback", "stopped"]);
        } else {
            drop(watchdog);
            assert!(log.is_empty());
            go_on.open();
        }
        assert!(stepped.unwrap().join().unwrap());
        assert!(!home.is_stalled());
        held.open();
    }
}

#[test]
fn a_watchdog_by_real_time_stops_without_waiting_for_a_tick() {
    let home = EventLoop::builder("home").build().unwrap();
    let builder = || {
        Watchdog::builder()
            .threshold(1_000_000 * SECOND)
            .watch(&home)
    };
    builder().build().unwrap().shutdown();
    drop(builder().build().unwrap());
    assert!(!home.is_stalled());
}

#[test]
fn a_threshold_of_zero_is_an_error() {
    let error = Watchdog::builder()
        .threshold(Duration::ZERO)
        .build()
        .unwrap_err();
    assert!(matches!(error, WatchdogError::ZeroThreshold));
    assert!(error.to_string().contains("at least a millisecond"));
}
