//! Panics of user code that no caller sees are reported to the hook of the isolation.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};

use tidegate_core::ManualClock;
use tidegate_isolate::{
    AdaptiveLimit, BreakerConfig, BreakerWindow, Collapser, CollapserConfig, CollapserScope,
    Command, Isolation, IsolationBuilder,
};
use tidegate_testkit::{Gate, WATCHDOG};

use crate::support::{SECOND, builder, poll_once, pool_of, set};

/// The reports that the hook of an isolation received.
#[derive(Clone, Default)]
struct ReportLog(Arc<(Mutex<Vec<String>>, Condvar)>);

impl ReportLog {
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

fn reporting(
    with: impl FnOnce(IsolationBuilder) -> IsolationBuilder,
) -> (ManualClock, Isolation, ReportLog) {
    let (clock, received) = (ManualClock::new(), ReportLog::default());
    let own = received.clone();
    let isolation = Isolation::builder()
        .clock(&clock)
        .on_unhandled(move |source, what| own.note(format!("{source}: {what}")));
    (clock, with(isolation).build().unwrap(), received)
}

#[test]
fn listeners_and_questions_that_panic_are_reported() {
    let listen = |isolation: IsolationBuilder| isolation.on_transition(|_| panic!("transition"));
    let (_clock, isolation, received) = reporting(listen);
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
        received.wait_for(message);
    }
}

#[test]
fn a_listener_of_moves_that_panics_is_reported() {
    let listen = |isolation: IsolationBuilder| {
        isolation.on_limit_move(|change| panic!("{} to {}", change.from, change.to))
    };
    let (_clock, isolation, received) = reporting(listen);
    let command = builder("a").permits(3).build(&isolation).unwrap();
    let adaptive = || Some(AdaptiveLimit::aimd());
    set(&command, |c| c.permits.adaptive = adaptive());
    received.wait_for("a: a hook panicked: 3 to 20");
    assert_eq!(command.snapshot().limit, 20);
}

#[test]
fn what_the_end_of_a_time_calls_is_reported_when_it_panics() {
    let (clock, isolation, received) = reporting(|isolation| isolation);
    let command = builder("a").timeout(SECOND).build(&isolation).unwrap();
    let mut call = pin!(command.run_async(|token| {
        token.on_cancel(|| panic!("hook of a token")).forget();
        pending()
    }));
    assert!(poll_once(call.as_mut()).is_pending());
    clock.advance(SECOND);
    received.wait_for("a: a hook panicked: hook of a token");
}

#[test]
fn what_a_caller_causes_is_reported_when_it_panics() {
    let (_clock, isolation, received) = reporting(|isolation| isolation);
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
    answer.on_complete(|_| panic!("listener of a result"));
    assert!(answer.cancel());
    go_on.open();
    received.wait_for("a: a hook panicked: hook of a token");
    received.wait_for("listener of a result");
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
    let (_clock, isolation, received) = reporting(|isolation| {
        isolation
            .propagator(|| bad_propagator(true))
            .propagator(|| bad_propagator(false))
    });
    let command = builder("a").threads(pool_of(1, 0)).build(&isolation);
    assert_eq!(command.unwrap().run(|_| Ok(1)), Ok(1));
    received.wait_for("installed");
    received.wait_for("restored");
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
    received.wait_for("b: a hook panicked: split");
}
