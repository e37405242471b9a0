//! A subscriber of the process that panics at the events of slow tasks and of stalls, and one that
//! uses event loops and the watchdog itself. The test is alone in its process.
#![cfg(not(tidegate_shuttle))]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::{ManualClock, ManualTicker, Task, Ticker};
use tidegate_loop::{EventLoop, Quiet, Watchdog, block_on};
use tidegate_testkit::{Gate, Recorder, Stop};
use tracing::subscriber::set_global_default;

const SECOND: Duration = Duration::from_secs(1);

/// What the subscriber uses, if it should.
#[derive(Default)]
struct Tools {
    clock: Option<ManualClock>,
    home: Option<EventLoop>,
    watchdog: Option<Watchdog>,
    /// Whether the subscriber ends the watchdog.
    ends: bool,
}

static TOOLS: Mutex<Option<Tools>> = Mutex::new(None);
static REENTERED: AtomicUsize = AtomicUsize::new(0);

/// Uses the library from within a method of the subscriber, in each way that does not wait.
fn reenter() {
    // Taken out: the lock of the test is not held while the library is used.
    let Some(mut tools) = TOOLS.lock().unwrap().take() else {
        return;
    };
    REENTERED.fetch_add(1, Ordering::Relaxed);
    if let Some(here) = EventLoop::current() {
        here.execute(|| ()).unwrap();
        drop(here.spawn_local(async {}).unwrap());
        drop(here.schedule(SECOND, || ()).unwrap());
        block_on(async {}).expect_err("this thread drives a loop");
        here.submit(|| ())
            .unwrap()
            .wait()
            .expect_err("so does this");
    }
    if let Some(home) = &tools.home {
        drop((home.metrics(), home.dump()));
        home.execute(|| ()).unwrap();
    }
    // The subscriber is slow itself.
    if let Some(clock) = &tools.clock {
        clock.jump(SECOND);
    }
    if let Some(watchdog) = &tools.watchdog {
        let other = EventLoop::builder("other").build().unwrap();
        watchdog.watch(&other);
        drop((watchdog.stalls(), watchdog.stalled()));
    }
    if tools.ends {
        tools.watchdog.take().unwrap().shutdown();
    }
    *TOOLS.lock().unwrap() = Some(tools);
}

fn use_in_subscriber(tools: Tools) {
    *TOOLS.lock().unwrap() = Some(tools);
    REENTERED.store(0, Ordering::Relaxed);
}

/// Stops the use of the library in the subscriber. Returns how often it happened.
fn stop_use() -> (usize, Tools) {
    let tools = TOOLS.lock().unwrap().take().unwrap();
    (REENTERED.load(Ordering::Relaxed), tools)
}

fn slow_tasks(recorder: &Recorder) {
    let clock = ManualClock::new();
    let home = EventLoop::builder("slow").clock(&clock).time_tasks(true);
    let home = home.build().unwrap();
    let slow = || {
        let clock = clock.clone();
        let task = Task::named("compact", move || clock.jump(2 * SECOND));
        home.execute_task(task).unwrap();
        home.submit(|| 7).unwrap().wait().unwrap()
    };
    recorder.set_panics(true);
    assert_eq!(slow(), 7);
    recorder.set_panics(false);
    assert_eq!(home.metrics().panics, 0, "none of a task");
    assert!(recorder.events("slow_task").is_empty());
    assert_eq!(slow(), 7);
    assert_eq!(recorder.events("slow_task").len(), 1);

    use_in_subscriber(Tools {
        clock: Some(clock.clone()),
        home: Some(home.clone()),
        ..Tools::default()
    });
    for _ in 0..3 {
        assert_eq!(slow(), 7);
    }
    let (reentered, tools) = stop_use();
    // The subscriber takes a second each time, which is an event for the next task, not without end.
    assert!((1..100).contains(&reentered), "{reentered}");
    drop(tools);
    home.shutdown(Quiet::none(60 * SECOND)).wait().unwrap();
}

/// Holds a loop until the gate is opened.
fn hold(home: &EventLoop) -> Gate {
    let stop = Stop::new();
    let hold = stop.closure();
    home.execute_task(Task::named("compact", hold)).unwrap();
    stop.reached()
}

fn watched(home: &EventLoop) -> (Watchdog, ManualTicker) {
    let (ticker, steps) = Ticker::manual();
    let watchdog = Watchdog::builder().threshold(SECOND).ticker(ticker);
    (watchdog.watch(home).build().unwrap(), steps)
}

fn stalls(recorder: &Recorder) {
    let home = EventLoop::builder("stuck").build().unwrap();
    let (watchdog, steps) = watched(&home);
    let go_on = hold(&home);
    recorder.set_panics(true);
    for _ in 0..2 {
        steps.tick(SECOND);
    }
    recorder.set_panics(false);
    assert_eq!(watchdog.stalls(), 1, "counted all the same");
    assert!(recorder.events("loop_stalled").is_empty());

    use_in_subscriber(Tools {
        home: Some(home.clone()),
        watchdog: Some(watchdog),
        ..Tools::default()
    });
    go_on.open();
    home.submit(|| ()).unwrap().wait().unwrap();
    steps.tick(SECOND);
    assert_eq!(recorder.events("loop_recovered").len(), 1);
    let go_on = hold(&home);
    for _ in 0..2 {
        steps.tick(SECOND);
    }
    assert_eq!(recorder.events("loop_stalled").len(), 1);
    let (reentered, mut tools) = stop_use();
    assert!(reentered >= 2, "{reentered}");

    // The subscriber ends the watchdog from within its event.
    tools.ends = true;
    use_in_subscriber(tools);
    go_on.open();
    home.submit(|| ()).unwrap().wait().unwrap();
    steps.tick(SECOND);
    let (_, tools) = stop_use();
    assert!(tools.watchdog.is_none());
    drop(tools);
    home.shutdown(Quiet::none(60 * SECOND)).wait().unwrap();
}

#[test]
fn slow_tasks_and_stalls_survive_a_subscriber_that_panics_or_uses_the_library() {
    let recorder = Recorder::new();
    recorder.on_call(|method| {
        if method == "event" {
            reenter();
        }
    });
    set_global_default(recorder.clone()).unwrap();
    slow_tasks(&recorder);
    stalls(&recorder);
}
