//! Panics of user code that no caller sees are reported to the hook of the isolation.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::ManualClock;
use tidegate_isolate::{
    BreakerConfig, BreakerWindow, Collapser, CollapserConfig, CollapserScope, Command, Isolation,
    IsolationBuilder, PermitConfig,
};
use tidegate_testkit::{Gate, WATCHDOG};

use crate::support::{Numbers, SECOND, builder, poll_once, pool_of, while_inside};

/// The reports that the hook of an isolation received.
#[derive(Clone, Default)]
struct Heard(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Heard {
    fn note(&self, line: String) {
        self.0.0.lock().unwrap().push(line);
        self.0.1.notify_all();
    }

    /// Waits until the hook has received a panic with this message.
    #[track_caller]
    fn wait_for(&self, message: &str) {
        let lines = self.0.0.lock().unwrap();
        let is_missing = |lines: &mut Vec<String>| !lines.iter().any(|one| one.contains(message));
        let waited = self.0.1.wait_timeout_while(lines, WATCHDOG, is_missing);
        let (lines, over) = waited.unwrap();
        assert!(!over.timed_out(), "`{message}` is not in {lines:?}");
    }
}

fn hearing(
    with: impl FnOnce(IsolationBuilder) -> IsolationBuilder,
) -> (ManualClock, Isolation, Heard) {
    let (clock, heard) = (ManualClock::new(), Heard::default());
    let hear = heard.clone();
    let isolation = Isolation::builder()
        .clock(&clock)
        .on_unhandled(move |who, what| hear.note(format!("{who}: {what}")));
    (clock, with(isolation).build().unwrap(), heard)
}

/// A waker that panics.
struct BadWaker(&'static str);

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("{}", self.0);
    }
}

#[test]
fn listeners_and_questions_that_panic_are_reported() {
    let listen = |isolation: IsolationBuilder| isolation.on_transition(|_| panic!("transition"));
    let (_clock, isolation, heard) = hearing(listen);
    let breaker = BreakerConfig {
        window: BreakerWindow::Count(1),
        min_calls: 1,
        ..BreakerConfig::default()
    };
    let command = builder("a").breaker(breaker);
    let command = command.bad_request_when(|_| panic!("question"));
    let command = command.build(&isolation).unwrap();
    let call = command.call().observe(|_| panic!("observer"));
    assert!(call.run(|_| Err("on purpose")).is_err());
    for message in ["a: a hook panicked: transition", "question", "observer"] {
        heard.wait_for(message);
    }
}

#[test]
fn what_the_end_of_a_time_calls_is_reported_when_it_panics() {
    let (clock, isolation, heard) = hearing(|isolation| isolation);
    let command = builder("a").timeout(SECOND).build(&isolation).unwrap();
    let mut call = pin!(command.run_async(|token| {
        token.on_cancel(|| panic!("hook of a token")).forget();
        pending()
    }));
    let waker = Waker::from(Arc::new(BadWaker("waker of a call")));
    assert!(
        call.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    clock.advance(SECOND);
    heard.wait_for("a: a hook panicked: hook of a token");
    heard.wait_for("waker of a call");
}

#[test]
fn what_a_caller_causes_is_reported_when_it_panics() {
    let (_clock, isolation, heard) = hearing(|isolation| isolation);
    let threads = builder("a").threads(pool_of(1, 0)).no_timeout();
    let threads = threads.configure(|config| config.interrupt_on_cancel = true);
    let threads = threads.build(&isolation).unwrap();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (mine, until) = (inside.clone(), go_on.clone());
    let answer = threads.queue(move |token| {
        token.on_cancel(|| panic!("hook of a token")).forget();
        mine.open();
        until.wait();
        Ok(1)
    });
    inside.wait();
    answer.on_complete(|_| panic!("listener of an answer"));
    assert!(answer.cancel());
    go_on.open();
    heard.wait_for("a: a hook panicked: hook of a token");
    heard.wait_for("listener of an answer");
    // A returned permit wakes a future that waits for one.
    let permits = PermitConfig {
        max_wait: SECOND,
        ..PermitConfig::from(1)
    };
    let permits: Numbers = builder("b").permits(permits).build(&isolation).unwrap();
    let mut waits = pin!(permits.run_async(|_| async { Ok(1) }));
    while_inside(&permits, 1, || {
        let waker = Waker::from(Arc::new(BadWaker("waker of a waiter")));
        let polled = waits.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    });
    assert_eq!(poll_once(waits), Poll::Ready(Ok(1)));
    heard.wait_for("b: a hook panicked: waker of a waiter");
}

/// A propagator that panics when it installs its context, or when it restores the previous one.
fn bad_propagator(on_install: bool) -> impl FnOnce() -> fn() + Send {
    move || {
        assert!(!on_install, "installed");
        || panic!("restored")
    }
}

#[test]
fn propagators_and_splits_that_panic_are_reported() {
    let (_clock, isolation, heard) = hearing(|isolation| {
        isolation
            .propagator(|| bad_propagator(true))
            .propagator(|| bad_propagator(false))
    });
    let command = builder("a").threads(pool_of(1, 0)).build(&isolation);
    assert_eq!(command.unwrap().run(|_| Ok(1)), Ok(1));
    heard.wait_for("installed");
    heard.wait_for("restored");
    let command = Command::builder("b").group("tests").build(&isolation);
    let command: Command<HashMap<u32, u32>, &str> = command.unwrap();
    let config = CollapserConfig {
        scope: CollapserScope::Global,
        max_batch: 1,
        ..CollapserConfig::default()
    };
    let double = |all: &[u32], _: &_| Ok(all.iter().map(|one| (*one, one * 2)).collect());
    let doubles = Collapser::new(&command, config, double).unwrap();
    let doubles = doubles.shards(|_| panic!("split"));
    assert_eq!(doubles.submit(2).wait(), Ok(4), "as one batch");
    heard.wait_for("b: a hook panicked: split");
}
