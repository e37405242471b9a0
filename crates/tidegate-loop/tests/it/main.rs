//! Integration tests of `tidegate-loop`: what a user of event loops can rely on.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod bad_input;
mod beside_a_pool;
mod block_on;
mod driver;
mod dump;
mod ended_pool;
mod ending;
mod execute;
mod global;
mod group;
mod handed_back;
mod hostile_ends;
mod manual;
#[path = "../../../tidegate-testkit/shared/manual_executor.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests of strategies, which use more of it"
)]
mod manual_executor;
mod metrics;
mod own_strategy;
mod passes;
mod payloads;
mod reject;
mod roam;
mod scarce_ends;
mod schedule;
mod shutdown;
mod spawn;
mod strategies;
mod stress;
mod suspend;
mod timeout;
mod turn_budget;
mod unhandled;
mod watchdog;

use std::time::Duration;

use tidegate_core::{ManualClock, OnUnhandled};
use tidegate_loop::{EventLoop, EventLoopBuilder, Quiet};
use tidegate_testkit::{Gate, Log, Stop};

/// One second of a manual clock: no test waits for it in real time.
const SECOND: Duration = Duration::from_secs(1);

/// Returns an event loop on a manual clock, and the clock.
fn home() -> (EventLoop, ManualClock) {
    let clock = ManualClock::new();
    (on(&clock, "home"), clock)
}

fn on(clock: &ManualClock, name: &str) -> EventLoop {
    builder(clock, name).build().unwrap()
}

fn builder(clock: &ManualClock, name: &str) -> EventLoopBuilder {
    EventLoop::builder(name).clock(clock)
}

/// Returns an event loop on a manual clock that logs its unhandled errors.
fn watched(clock: &ManualClock) -> (EventLoop, UnhandledLog) {
    let received = UnhandledLog::new();
    let home = builder(clock, "home").report_to(received.hook.clone());
    (home.build().unwrap(), received)
}

/// The log of a hook for unhandled errors. Each read first waits for the errors reported before it.
struct UnhandledLog {
    log: Log<String>,
    hook: OnUnhandled,
}

impl UnhandledLog {
    fn new() -> Self {
        let (log, received) = Log::pair();
        let hook = OnUnhandled::new(move |_, what| received.push(what.to_string()));
        Self { log, hook }
    }

    fn take(&self) -> Vec<String> {
        self.hook.flush().unwrap();
        self.log.take()
    }

    fn len(&self) -> usize {
        self.hook.flush().unwrap();
        self.log.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Keeps the event loop in a task until the gate is opened.
fn hold(home: &EventLoop) -> Gate {
    let stop = Stop::new();
    home.execute(stop.closure()).unwrap();
    stop.reached()
}

/// Shuts the event loop down without a quiet period and returns the report.
fn end(home: &EventLoop) -> tidegate_loop::ShutdownReport {
    home.shutdown(Quiet::none(SECOND)).wait().unwrap()
}
