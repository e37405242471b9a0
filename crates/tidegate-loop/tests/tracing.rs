//! What a subscriber of `tracing` sees of event loops. One subscriber receives the events of all
//! tests of this binary, because event loops have threads of their own; the tests tell them apart
//! by the name of the event loop.
#![cfg(not(tidegate_shuttle))]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tidegate_core::{ManualClock, OnUnhandled, Task, Ticker};
use tidegate_loop::{EventLoop, Quiet, Watchdog};
use tidegate_testkit::{RecordedEvent, Recorder, Stop};
use tracing::subscriber::{set_global_default, with_default};
use tracing::{Level, info_span};

const SECOND: Duration = Duration::from_secs(1);
/// Set in a process that [`run_alone`] started.
const CHILD: &str = "TIDEGATE_TRACING_CHILD";

/// The subscriber of the process.
fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = Recorder::new();
        set_global_default(recorder.clone()).unwrap();
        recorder
    })
}

/// Returns the events of this name about the event loop.
fn events_of(name: &str, field: &str, home: &EventLoop) -> Vec<RecordedEvent> {
    let mut events = recorder().events(name);
    events.retain(|event| event.field(field) == Some(home.name()));
    events
}

/// Ends the event loop, so that everything that it reports has been reported.
fn end(home: &EventLoop) {
    home.shutdown(Quiet::none(60 * SECOND)).wait().unwrap();
}

#[test]
fn a_slow_task_is_an_event_at_most_once_in_a_second() {
    recorder();
    let clock = ManualClock::new();
    let home = EventLoop::builder("slow").clock(&clock).time_tasks(true);
    let home = home.build().unwrap();
    let task = |millis| {
        let clock = clock.clone();
        Task::named("compact", move || clock.jump(Duration::from_millis(millis)))
    };
    for millis in [99, 100, 250, 1_000] {
        home.execute_task(task(millis)).unwrap();
    }
    end(&home);
    let events = events_of("slow_task", "event_loop", &home);
    let told = |event: &RecordedEvent| {
        let field = |name| event.field(name).unwrap().to_owned();
        (field("task"), field("elapsed_ms"), field("left_out"))
    };
    let told: Vec<_> = events.iter().map(told).collect();
    let expected = |elapsed: &str, left_out: &str| {
        (
            "compact".to_owned(),
            elapsed.to_owned(),
            left_out.to_owned(),
        )
    };
    assert_eq!(told, [expected("100", "0"), expected("1000", "1")]);
    assert_eq!(events[0].level, Level::WARN);
}

#[test]
fn tasks_and_futures_that_keep_a_loop_are_an_event_even_if_tasks_are_not_timed() {
    recorder();
    let clock = ManualClock::new();
    clock.jump(SECOND);
    let home = EventLoop::builder("kept").clock(&clock).build().unwrap();
    let jumps = clock.clone();
    home.submit(move || jumps.jump(SECOND))
        .unwrap()
        .wait()
        .unwrap();
    // Waits until the loop is idle.
    clock.advance(Duration::ZERO);
    let (promise, answer) = home.promise::<()>();
    let jumps = clock.clone();
    let future = home.spawn(async move {
        answer.await.unwrap();
        jumps.jump(SECOND);
    });
    home.submit(|| ()).unwrap().wait().unwrap();
    // The future waits. A signal polls it now, not a task.
    promise.succeed(()).unwrap();
    future.unwrap().wait().unwrap();
    end(&home);
    let events = events_of("slow_task", "event_loop", &home);
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.field("tasks"), event.field("elapsed_ms")))
        .collect();
    assert_eq!(told, [(Some("1"), Some("1000")), (Some("0"), Some("1000"))]);
    assert!(events[0].field("task").unwrap().contains("closure"));
    assert_eq!(events[1].field("task"), Some("a listener or a future"));
}

#[test]
fn a_stall_and_its_end_are_events_even_without_callbacks() {
    recorder();
    let home = EventLoop::builder("stuck").build().unwrap();
    let (ticker, steps) = Ticker::manual();
    let watchdog = Watchdog::builder().threshold(2 * SECOND).ticker(ticker);
    let watchdog = watchdog.watch(&home).build().unwrap();
    let stop = Stop::new();
    let hold = stop.closure();
    home.execute_task(Task::named("compact", hold)).unwrap();
    stop.reached();
    for _ in 0..3 {
        steps.tick(SECOND);
    }
    let stalls = events_of("loop_stalled", "event_loop", &home);
    assert_eq!(stalls.len(), 1);
    assert_eq!(stalls[0].field("task"), Some("compact"));
    assert_eq!(stalls[0].field("stalled_ms"), Some("2000"));
    stop.go_on();
    home.submit(|| ()).unwrap().wait().unwrap();
    steps.tick(SECOND);
    let recovered = events_of("loop_recovered", "event_loop", &home);
    assert_eq!(recovered.len(), 1);
    assert_eq!(recovered[0].field("stalled_ms"), Some("2000"));
    assert_eq!(recovered[0].level, Level::INFO);
    watchdog.shutdown();
}

#[test]
fn refusals_are_an_event_at_most_once_in_a_second_with_the_number_left_out() {
    recorder();
    let clock = ManualClock::new();
    let home = EventLoop::builder("closed").clock(&clock).build().unwrap();
    end(&home);
    for _ in 0..3 {
        assert!(home.execute(|| ()).is_err());
    }
    clock.jump(SECOND);
    assert!(home.execute(|| ()).is_err());
    let events = events_of("refused", "name", &home);
    let left_out: Vec<_> = events.iter().map(|event| event.field("left_out")).collect();
    assert_eq!(left_out, [Some("0"), Some("2")]);
    assert_eq!(events[0].field("kind"), Some("event_loop"));
    assert!(events[0].field("reason").unwrap().contains("shut down"));
}

/// Runs a task that panics on an event loop without a hook.
fn misbehave() -> EventLoop {
    let home = EventLoop::builder("panics").build().unwrap();
    let bad = Task::named("bad", || panic!("on purpose"));
    home.execute_task(bad).unwrap();
    end(&home);
    OnUnhandled::default().flush().unwrap();
    home
}

/// Runs the test of this name in a process of its own, where `CHILD` is `how`. Returns what it
/// wrote to standard error.
fn run_alone(name: &str, how: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, how)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{text}");
    text
}

#[test]
fn errors_go_to_standard_error_only_if_no_subscriber_takes_them() {
    let line = "tidegate: panics: task `bad` panicked: on purpose\n";
    if let Ok(how) = std::env::var(CHILD) {
        if how != "none" {
            recorder().set_panics(how == "panics");
        }
        misbehave();
        return;
    }
    let name = "errors_go_to_standard_error_only_if_no_subscriber_takes_them";
    assert!(run_alone(name, "none").contains(line));
    let text = run_alone(name, "takes");
    assert!(!text.contains("tidegate: "), "{text}");
    let text = run_alone(name, "panics");
    assert_eq!(text.matches(line).count(), 1, "{text}");
}

#[test]
fn a_panic_of_a_task_is_an_event() {
    recorder();
    let home = misbehave();
    let events = events_of("unhandled_error", "source", &home);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].field("kind"), Some("task_panic"));
    assert_eq!(events[0].field("task"), Some("bad"));
}

#[test]
fn tasks_futures_and_schedules_run_in_the_span_of_their_caller() {
    let recorder = recorder();
    let clock = ManualClock::new();
    let home = EventLoop::builder("spans").clock(&clock).build().unwrap();
    let seen = move || recorder.current();
    let (promise, coarse) = home.promise();
    let (now, later, _timer, future) = info_span!("request").in_scope(|| {
        let now = home.submit(seen).unwrap();
        let later = home.schedule(SECOND, seen).unwrap();
        let tell = move || drop(promise.succeed(seen()));
        let timer = home.schedule_coarse(SECOND, tell).unwrap();
        let future = home.spawn(async move {
            let first = seen();
            tidegate_loop::sleep(SECOND).await.unwrap();
            (first, seen())
        });
        (now, later, timer, future.unwrap())
    });
    clock.advance(2 * SECOND);
    assert_eq!(now.wait().unwrap(), ["request"]);
    assert_eq!(later.wait().unwrap(), ["request"]);
    assert_eq!(coarse.wait().unwrap(), ["request"]);
    let (before, after) = future.wait().unwrap();
    assert_eq!((before, after), (vec!["request"], vec!["request"]));
    let outside = home.submit(seen).unwrap();
    assert!(outside.wait().unwrap().is_empty(), "each span was left");
    end(&home);
}

#[test]
fn an_event_loop_survives_a_subscriber_that_panics() {
    let panicking = Recorder::new();
    let home = EventLoop::builder("survivor").build().unwrap();
    let stop = Stop::new();
    let hold = stop.closure();
    home.execute(hold).unwrap();
    stop.reached();
    let answers: Vec<_> = with_default(panicking.clone(), || {
        let _inside = info_span!("request").entered();
        (0..3).map(|n| home.submit(move || n).unwrap()).collect()
    });
    panicking.set_panics(true);
    stop.go_on();
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.wait().unwrap(), number);
    }
    assert_eq!(
        home.metrics().panics,
        0,
        "the panics are not those of tasks"
    );
    end(&home);
    let span = &panicking.spans("request")[0];
    assert_eq!((span.entered, span.left), (1, 1), "only by the test");
}
