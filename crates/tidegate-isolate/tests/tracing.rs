//! What a subscriber of `tracing` sees of commands: a span for each call, changes of breakers,
//! rejections. And that a subscriber that panics costs neither a permit nor an answer.
#![cfg(not(tidegate_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock};
use tidegate_isolate::{
    BreakerConfig, BreakerWindow, Command, CommandBuilder, Isolation, PermitConfig, PoolConfig,
};
use tidegate_testkit::{Gate, RecordedSpan, Recorder, block_on, explode};
use tracing::subscriber::{Interest, with_default};
use tracing::{Level, info_span};

const SECOND: Duration = Duration::from_secs(1);

type Numbers = Command<u32, &'static str>;

fn still() -> (ManualClock, Isolation) {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    (clock, isolation)
}

fn builder(key: &str) -> CommandBuilder<u32, &'static str> {
    Command::builder(key).group("tests")
}

fn threads() -> PoolConfig {
    PoolConfig {
        core: 1,
        queue: 1,
        ..PoolConfig::default()
    }
}

/// Returns the spans of calls and checks that each of them is closed.
fn calls(recorder: &Recorder) -> Vec<RecordedSpan> {
    let spans = recorder.spans("command");
    for span in &spans {
        assert_eq!(span.handles, 0, "{span:?}");
        assert_eq!(span.entered, span.left, "{span:?}");
    }
    spans
}

fn outcomes(recorder: &Recorder) -> Vec<String> {
    let outcome = |span: &RecordedSpan| span.field("outcome").unwrap_or("none").to_owned();
    calls(recorder).iter().map(outcome).collect()
}

#[test]
fn a_call_in_place_has_a_span_with_its_outcome() {
    let (_clock, isolation) = still();
    let command: Numbers = builder("prices").build(&isolation).unwrap();
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        let seen = command.run_in_place(|_| {
            assert_eq!(recorder.current(), ["command", "request"]);
            Ok(1)
        });
        assert_eq!(seen, Ok(1));
        command.run(|_| Err("down")).unwrap_err();
        command.run_in_place(|_| panic!("on purpose")).unwrap_err();
    });
    let spans = calls(&recorder);
    assert_eq!(spans[0].field("command"), Some("prices"));
    assert_eq!(spans[0].field("group"), Some("tests"));
    assert_eq!(spans[0].level, Level::DEBUG);
    assert_eq!(outcomes(&recorder), ["SUCCESS", "FAILURE", "FAILURE"]);
}

#[test]
fn a_call_on_threads_takes_its_span_along() {
    let (_clock, isolation) = still();
    let command = builder("prices").threads(threads()).build(&isolation);
    let command = command.unwrap();
    let recorder = Recorder::new();
    let work = || {
        let recorder = recorder.clone();
        move |_: &CancelToken| -> Result<u32, &'static str> {
            assert_eq!(recorder.current(), ["command", "request"]);
            Ok(1)
        }
    };
    with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        assert_eq!(command.run(work()), Ok(1));
        assert_eq!(command.queue(work()).wait(), Ok(1));
        let failed = command.queue(|_| Err("down"));
        assert!(failed.wait().is_err());
    });
    // The worker drops its handle to the span after it has told the caller.
    isolation.shutdown(SECOND).wait().unwrap();
    assert_eq!(outcomes(&recorder), ["SUCCESS", "SUCCESS", "FAILURE"]);
}

#[test]
fn a_queued_call_that_times_out_ends_its_span_and_falls_back_in_it() {
    let (clock, isolation) = still();
    let recorder = Recorder::new();
    let look = recorder.clone();
    let command = builder("prices").threads(threads()).timeout(SECOND);
    let command = command.fallback(move |_| {
        assert_eq!(look.current(), ["command", "request"]);
        Ok(7)
    });
    let command = command.build(&isolation).unwrap();
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let (here, gate) = (arrived.clone(), go_on.clone());
    let answer = with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        command.queue(move |_| {
            here.open();
            gate.wait();
            Ok(1)
        })
    });
    arrived.wait();
    clock.jump(SECOND);
    assert_eq!(answer.wait(), Ok(7));
    go_on.open();
    isolation.shutdown(SECOND).wait().unwrap();
    assert_eq!(outcomes(&recorder), ["SUCCESS"], "the caller has a value");
}

#[test]
fn a_future_is_polled_in_its_span() {
    let (_clock, isolation) = still();
    let command: Numbers = builder("prices").build(&isolation).unwrap();
    let recorder = Recorder::new();
    let look = recorder.clone();
    with_default(recorder.clone(), || {
        let call = command.run_async(move |_| async move {
            assert_eq!(look.current(), ["command"]);
            yield_once().await;
            assert_eq!(look.current(), ["command"]);
            Ok(1)
        });
        assert_eq!(block_on("the call", call), Ok(1));
        let mut dropped = Box::pin(command.run_async(|_| pending()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(dropped.as_mut().poll(&mut context).is_pending());
        drop(dropped);
        let failed = pin!(command.run_async(|_| async { Err("down") }));
        assert!(failed.poll(&mut context).is_ready());
    });
    assert_eq!(outcomes(&recorder), ["SUCCESS", "CANCELLED", "FAILURE"]);
}

#[test]
fn a_future_that_is_dropped_while_it_waits_for_a_permit_ends_its_span() {
    let (_clock, isolation) = still();
    let permits = PermitConfig {
        max_wait: SECOND,
        ..PermitConfig::from(1)
    };
    let command = builder("prices").permits(permits).build(&isolation);
    let command = command.unwrap();
    let entry = command.admit().unwrap();
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let mut waits = Box::pin(command.run_async(|_| async { Ok(1) }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
    });
    drop(entry);
    assert_eq!(outcomes(&recorder), ["CANCELLED"]);
}

/// Is pending once.
async fn yield_once() {
    let mut first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

#[test]
fn an_entry_has_a_span_until_it_is_dropped() {
    let (_clock, isolation) = still();
    let command: Numbers = builder("prices").build(&isolation).unwrap();
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let entry = command.admit().unwrap();
        assert!(recorder.current().is_empty(), "its holder does the work");
        let inside = entry.enter_span();
        assert_eq!(recorder.current(), ["command"]);
        drop(inside);
        assert!(entry.verdict(true));
        assert_eq!(recorder.spans("command")[0].handles, 1);
        drop(entry);
        drop(command.admit().unwrap());
    });
    assert_eq!(outcomes(&recorder), ["SUCCESS", "CANCELLED"]);
}

#[test]
fn a_breaker_reports_each_change_of_its_state() {
    let (clock, isolation) = still();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(5),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let command = builder("prices").breaker(breaker).build(&isolation);
    let command = command.unwrap();
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        command.run(|_| Err("down")).unwrap_err();
        clock.advance(Duration::from_millis(5_001));
        assert_eq!(command.run(|_| Ok(1)), Ok(1));
    });
    let events = recorder.events("breaker_changed");
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            let field = |name| event.field(name).unwrap();
            (event.level, field("breaker"), field("from"), field("to"))
        })
        .collect();
    let expected = [
        (Level::WARN, "prices", "closed", "open"),
        (Level::INFO, "prices", "open", "half_open"),
        (Level::INFO, "prices", "half_open", "closed"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn rejections_are_an_event_at_most_once_in_a_second_and_command() {
    let (clock, isolation) = still();
    let command: Numbers = builder("prices").permits(1).build(&isolation).unwrap();
    let other: Numbers = builder("stock").permits(1).build(&isolation).unwrap();
    let (one, two) = (command.admit().unwrap(), other.admit().unwrap());
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        command.run(|_| Ok(1)).unwrap_err();
        command.run_in_place(|_| Ok(1)).unwrap_err();
        command.admit().unwrap_err();
        other.run(|_| Ok(1)).unwrap_err();
        clock.advance(2 * SECOND);
        command.run(|_| Ok(1)).unwrap_err();
    });
    drop((one, two));
    let events = recorder.events("refused");
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            let field = |name| event.field(name).unwrap();
            (field("kind"), field("name"), field("left_out"))
        })
        .collect();
    let expected = [
        ("command", "prices", "0"),
        ("command", "stock", "0"),
        ("command", "prices", "2"),
    ];
    assert_eq!(told, expected);
    assert!(events[0].field("reason").unwrap().contains("permits"));
}

#[test]
fn a_subscriber_that_panics_costs_no_permit_and_no_answer() {
    let (_clock, isolation) = still();
    let command: Numbers = builder("prices").permits(1).build(&isolation).unwrap();
    let slow = builder("stock").threads(threads()).build(&isolation);
    let slow = slow.unwrap();
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        recorder.set_panics(true);
        for _ in 0..3 {
            assert_eq!(command.run(|_| Ok(1)), Ok(1));
            let call = command.run_async(|_| async { Ok(2) });
            assert_eq!(block_on("the call", call), Ok(2));
            let entry = command.admit().unwrap();
            command.run(|_| Ok(1)).unwrap_err();
            assert!(entry.verdict(true));
            drop(entry);
            assert_eq!(slow.run(|_| Ok(3)), Ok(3));
            assert_eq!(slow.queue(|_| Ok(4)).wait(), Ok(4));
        }
        recorder.set_panics(false);
    });
    assert_eq!(command.snapshot().active, 0);
    assert!(recorder.events("refused").is_empty());
    isolation.shutdown(SECOND).wait().unwrap();
}

#[test]
fn a_subscriber_that_blocks_holds_its_own_call_and_no_other() {
    let (_clock, isolation) = still();
    let command: Numbers = builder("prices").permits(1).build(&isolation).unwrap();
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let (here, gate) = (arrived.clone(), go_on.clone());
    let recorder = Recorder::new();
    recorder.on_call(move |method| {
        if method == "new_span" {
            here.open();
            gate.wait();
        }
    });
    std::thread::scope(|scope| {
        let blocked = || with_default(recorder.clone(), || command.run(|_| Ok(1)));
        let blocked = scope.spawn(blocked);
        arrived.wait();
        // The span is made before the call takes a permit.
        assert_eq!(command.snapshot().active, 0);
        assert_eq!(command.run(|_| Ok(2)), Ok(2));
        go_on.open();
        assert_eq!(blocked.join().unwrap(), Ok(1));
    });
    assert_eq!(outcomes(&recorder), ["SUCCESS"]);
}

/// Wants to be asked each time, and panics then.
struct PanicsInEnabled;

impl tracing::Subscriber for PanicsInEnabled {
    fn register_callsite(&self, _: &'static tracing::Metadata<'static>) -> Interest {
        Interest::sometimes()
    }
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        explode()
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        unreachable!("nothing is enabled")
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Calls commands in each way, one of them without a permit and one without a closed breaker.
fn call_in_each_way() {
    let (_clock, isolation) = still();
    let command: Numbers = builder("prices").permits(1).build(&isolation).unwrap();
    let slow = builder("stock").threads(threads()).build(&isolation);
    let slow = slow.unwrap();
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(1),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let broken: Numbers = builder("broken")
        .breaker(breaker)
        .build(&isolation)
        .unwrap();
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
    let call = command.run_async(|_| async { Ok(2) });
    assert_eq!(block_on("the call", call), Ok(2));
    let mut dropped = Box::pin(command.run_async(|_| pending()));
    let polled = dropped
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    drop(dropped);
    let entry = command.admit().unwrap();
    command.run(|_| Ok(1)).expect_err("there is no permit");
    assert!(entry.verdict(true));
    drop(entry);
    assert_eq!(slow.run(|_| Ok(3)), Ok(3));
    assert_eq!(slow.queue(|_| Ok(4)).wait(), Ok(4));
    broken.run(|_| Err("no")).expect_err("it fails");
    broken.run(|_| Ok(1)).expect_err("the breaker is open");
    for one in [&command, &slow, &broken] {
        assert_eq!(one.snapshot().active, 0, "{one:?}");
    }
    isolation.shutdown(SECOND).wait().unwrap();
}

#[test]
fn a_subscriber_that_panics_in_one_of_its_methods_costs_nothing() {
    const METHODS: [&str; 8] = [
        "new_span",
        "record",
        "event",
        "enter",
        "exit",
        "clone_span",
        "try_close",
        "current_span",
    ];
    for bad in METHODS {
        let recorder = Recorder::new();
        recorder.on_call(move |method| {
            if method == bad {
                explode();
            }
        });
        with_default(recorder, call_in_each_way);
    }
    with_default(PanicsInEnabled, call_in_each_way);
}
