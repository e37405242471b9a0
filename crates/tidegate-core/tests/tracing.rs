//! What a subscriber of `tracing` sees of this crate, and what happens if it panics.
#![cfg(not(any(tidegate_loom, tidegate_shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::internal::trace::{self, EventLimit, Span};
use tidegate_core::internal::{PlainTask, contain};
use tidegate_core::{OnUnhandled, Task, Unhandled};
use tidegate_testkit::{Gate, Recorder};
use tracing::subscriber::with_default;
use tracing::{Level, info_span};

/// Runs a task on another thread, which has no subscriber of its own.
fn run_elsewhere(task: Task) {
    std::thread::scope(|scope| {
        scope.spawn(|| task.run());
    });
}

#[test]
fn a_task_runs_in_the_span_in_which_it_was_created() {
    let recorder = Recorder::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let task = with_default(recorder.clone(), || {
        let (seen, recorder) = (Arc::clone(&seen), recorder.clone());
        let check = move || {
            assert_eq!(recorder.current(), ["request"]);
            seen.fetch_add(1, Ordering::Relaxed);
        };
        info_span!("request").in_scope(|| Task::named("compact", check))
    });
    assert_eq!(task.name(), "compact");
    run_elsewhere(task);
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    let span = &recorder.spans("request")[0];
    assert_eq!((span.entered, span.left), (2, 2));
    assert_eq!(span.handles, 0, "closed");
}

#[test]
fn every_kind_of_task_keeps_its_kind_and_its_name_in_a_span() {
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let plain = || {
            [
                Task::new(nothing),
                Task::non_blocking(nothing),
                Task::long(nothing),
            ]
        };
        let outside = plain();
        let inside = info_span!("request").in_scope(plain);
        for (outside, inside) in outside.iter().zip(&inside) {
            assert_eq!(outside.name(), inside.name());
            assert_eq!(outside.blocking(), inside.blocking());
            assert_eq!(outside.is_long(), inside.is_long());
            assert_ne!(outside.class(), inside.class(), "only one carries a span");
        }
        assert_eq!(recorder.spans("request")[0].handles, 3);
        drop(inside);
        assert_eq!(recorder.spans("request")[0].handles, 0);
    });
}

fn nothing() {}

#[test]
fn a_task_of_the_library_carries_no_span_and_asks_no_subscriber() {
    let recorder = Recorder::new();
    let look = recorder.clone();
    let task = with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        recorder.set_panics(true);
        let task = PlainTask::named("helper", move || assert!(look.current().is_empty()));
        recorder.set_panics(false);
        task
    });
    assert_eq!(task.name(), "helper");
    run_elsewhere(task);
    assert_eq!(recorder.spans("request")[0].handles, 0);
}

#[test]
fn a_task_that_panics_leaves_its_span() {
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let task = info_span!("request").in_scope(|| Task::new(|| panic!("on purpose")));
        assert!(contain(|| task.run()).is_err());
        assert!(recorder.current().is_empty());
    });
    let span = &recorder.spans("request")[0];
    assert_eq!((span.entered, span.left, span.handles), (2, 2, 0));
}

#[test]
fn without_a_current_span_a_task_is_as_small_as_ever() {
    with_default(Recorder::new(), || {
        let (with, without) = (Task::new(nothing), Task::new(nothing));
        assert_eq!(with.class(), without.class());
        assert!(Span::current().is_none());
    });
}

#[test]
fn a_subscriber_that_panics_loses_spans_and_events_and_nothing_else() {
    let recorder = Recorder::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = || {
        let ran = Arc::clone(&ran);
        move || {
            ran.fetch_add(1, Ordering::Relaxed);
        }
    };
    with_default(recorder.clone(), || {
        let span = info_span!("request");
        let carried = span.in_scope(|| Task::new(count()));
        recorder.set_panics(true);
        // Its span cannot be entered.
        carried.run();
        let bare = Task::new(count());
        let made = trace::command_span("prices", "shop");
        assert!(made.is_none());
        trace::breaker_changed("prices", "closed", "open", true);
        trace::refused(&EventLimit::new(), 0, "pool", "workers", &"full");
        let received = trace::accept_failed(&EventLimit::new(), 0, &"[::1]:80", &"no descriptor");
        assert!(!received, "the hook for unhandled errors reports it");
        recorder.set_panics(false);
        bare.run();
    });
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    assert!(recorder.events("breaker_changed").is_empty());
    let span = &recorder.spans("request")[0];
    assert_eq!((span.entered, span.left), (1, 1), "only by the test");
}

#[test]
fn a_subscriber_that_uses_the_library_is_not_called_from_within_itself() {
    let recorder = Recorder::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, done) = (Arc::clone(&calls), Arc::clone(&ran));
    recorder.on_call(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        // All of these would ask the subscriber.
        let done = Arc::clone(&done);
        let task = Task::new(move || {
            done.fetch_add(1, Ordering::Relaxed);
        });
        task.run();
        assert!(trace::command_span("prices", "shop").is_none());
        trace::breaker_changed("prices", "closed", "open", true);
    });
    let limit = EventLimit::new();
    let dispatch = tracing::Dispatch::new(recorder.clone());
    tracing::dispatcher::with_default(&dispatch, || {
        let span = trace::command_span("prices", "shop");
        let entered = span.enter();
        trace::refused(&limit, 0, "pool", "workers", &"full");
        drop(entered);
        span.record("outcome", "success");
    });
    assert_eq!(
        calls.load(Ordering::Relaxed),
        6,
        "one for each call, and the close"
    );
    assert_eq!(ran.load(Ordering::Relaxed), 6);
    assert_eq!(recorder.spans("command").len(), 1);
    assert_eq!(recorder.events("refused").len(), 1);
    assert!(recorder.events("breaker_changed").is_empty());
}

#[test]
fn a_muted_thread_calls_no_subscriber_and_counts_what_it_leaves_out() {
    let recorder = Recorder::new();
    let limit = EventLimit::new();
    with_default(recorder.clone(), || {
        let inside = info_span!("request").entered();
        let muted = trace::mute();
        let task = Task::new(nothing);
        assert_eq!(recorder.spans("request")[0].handles, 1, "the task has none");
        drop(task);
        assert!(trace::command_span("prices", "shop").is_none());
        trace::refused(&limit, 0, "pool", "workers", &"full");
        trace::loop_stalled("io-0", "compact", Duration::ZERO);
        drop(muted);
        trace::refused(&limit, 0, "pool", "workers", &"full");
        drop(inside);
    });
    let refused = recorder.events("refused");
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].field("left_out"), Some("1"));
    assert!(recorder.events("loop_stalled").is_empty());
}

#[test]
fn a_subscriber_that_blocks_delays_reports_and_no_thread_that_reports() {
    let recorder = Recorder::new();
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let (here, gate) = (arrived.clone(), go_on.clone());
    recorder.on_call(move |method| {
        if method == "event" {
            here.open();
            gate.wait();
        }
    });
    let hook = OnUnhandled::default();
    with_default(recorder.clone(), || {
        // Returns although the subscriber does not.
        hook.report("io-0", &Unhandled::ListenerFellBack);
    });
    arrived.wait();
    assert!(recorder.events("unhandled_error").is_empty());
    go_on.open();
    hook.flush().expect("this thread may block");
    assert_eq!(recorder.events("unhandled_error").len(), 1);
}

#[test]
fn the_default_hook_reports_to_the_subscriber_of_the_reporting_thread() {
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let what = Unhandled::TaskPanic {
            task: "compact",
            message: "out of ink",
        };
        let hook = OnUnhandled::default();
        info_span!("request").in_scope(|| hook.report("io-0", &what));
        hook.flush().expect("this thread may block");
    });
    let event = &recorder.events("unhandled_error")[0];
    assert_eq!(
        (event.target, event.level),
        ("tidegate::unhandled", Level::ERROR)
    );
    assert_eq!(event.field("source"), Some("io-0"));
    assert_eq!(event.field("kind"), Some("task_panic"));
    assert_eq!(event.field("task"), Some("compact"));
    assert_eq!(event.field("left_out"), None);
    let message = "task `compact` panicked: out of ink";
    assert_eq!(event.field("message"), Some(message));
    assert_eq!(event.spans, ["request"]);
}

#[test]
fn a_hook_of_the_user_is_called_even_if_there_is_a_subscriber() {
    let recorder = Recorder::new();
    let (tx, rx) = std::sync::mpsc::channel();
    with_default(recorder.clone(), || {
        let hook = OnUnhandled::new(move |source, _| tx.send(source.to_owned()).unwrap());
        hook.report("io-0", &Unhandled::ListenerFellBack);
        hook.flush().expect("this thread may block");
    });
    assert_eq!(rx.try_recv().as_deref(), Ok("io-0"));
    assert!(recorder.events("unhandled_error").is_empty());
}

#[test]
fn refusals_pass_once_in_a_second_and_count_the_rest() {
    let recorder = Recorder::new();
    let limit = EventLimit::new();
    let second = 1_000_000_000;
    with_default(recorder.clone(), || {
        for now in [0, 1, second - 1, second] {
            trace::refused(&limit, now, "pool", "workers", &"the queue is full");
        }
        let other = EventLimit::new();
        trace::refused(&other, 1, "command", "prices", &"open");
    });
    let refused = recorder.events("refused");
    let told: Vec<_> = refused
        .iter()
        .map(|event| {
            (
                event.field("name").unwrap(),
                event.field("left_out").unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [("workers", "0"), ("workers", "2"), ("prices", "0")]);
    assert_eq!(refused[0].level, Level::WARN);
    assert_eq!(refused[0].field("kind"), Some("pool"));
    assert_eq!(refused[0].field("reason"), Some("the queue is full"));
}

#[test]
fn events_have_their_names_levels_and_fields() {
    let recorder = Recorder::new();
    let long = Duration::from_millis(250);
    with_default(recorder.clone(), || {
        trace::slow_task(&EventLimit::new(), 7, "io-0", (3, "compact"), long);
        trace::loop_stalled("io-0", "compact", long);
        trace::loop_recovered("io-0", "compact", long);
        trace::breaker_changed("prices", "closed", "open", true);
        trace::breaker_changed("prices", "open", "half-open", false);
        let limit = EventLimit::new();
        for at in [7, 8] {
            // The second one is left out, and counted in the next event.
            assert!(trace::accept_failed(
                &limit,
                at,
                &"[::1]:80",
                &"no descriptor"
            ));
        }
        let call = trace::command_span("prices", "shop");
        call.record("outcome", "success");
        drop(trace::connection_span("server", 3, Some(&"[::1]:9")));
        drop(trace::connection_span("client", 4, None));
    });
    let one = |name| recorder.events(name).remove(0);
    let slow = one("slow_task");
    assert_eq!((slow.target, slow.level), ("tidegate::loop", Level::WARN));
    assert_eq!(slow.field("event_loop"), Some("io-0"));
    assert_eq!(slow.field("task"), Some("compact"));
    assert_eq!(slow.field("tasks"), Some("3"));
    assert_eq!(slow.field("elapsed_ms"), Some("250"));
    let stalled = one("loop_stalled");
    assert_eq!(
        (stalled.target, stalled.level),
        ("tidegate::loop", Level::WARN)
    );
    assert_eq!(stalled.field("stalled_ms"), Some("250"));
    assert_eq!(one("loop_recovered").level, Level::INFO);
    let changes = recorder.events("breaker_changed");
    assert_eq!(
        (changes[0].level, changes[1].level),
        (Level::WARN, Level::INFO)
    );
    assert_eq!(changes[1].field("breaker"), Some("prices"));
    assert_eq!(
        (changes[1].field("from"), changes[1].field("to")),
        (Some("open"), Some("half-open"))
    );
    let accept = one("accept_failed");
    assert_eq!(
        (accept.target, accept.level),
        ("tidegate::net", Level::WARN)
    );
    assert_eq!(accept.field("address"), Some("[::1]:80"));
    assert_eq!(accept.field("error"), Some("no descriptor"));
    let call = &recorder.spans("command")[0];
    assert_eq!(
        (call.target, call.level),
        ("tidegate::command", Level::DEBUG)
    );
    assert_eq!(
        (call.field("command"), call.field("group")),
        (Some("prices"), Some("shop"))
    );
    assert_eq!((call.field("outcome"), call.handles), (Some("success"), 0));
    let connections = recorder.spans("connection");
    assert_eq!(connections[0].field("side"), Some("server"));
    assert_eq!(connections[0].field("peer"), Some("[::1]:9"));
    assert_eq!(connections[1].field("id"), Some("4"));
    assert_eq!(connections[1].field("peer"), None);
}
