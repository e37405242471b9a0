//! Suite `isolate`: the cost of a guarded call, and the latency of a thread bulkhead.
//!
//! For comparison with Hystrix, others have measured on such a machine: 7 to 8 µs for a call with a
//! semaphore, 21 µs with a thread pool and 29 µs with its timeout on.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use tidegate_isolate::Isolation;

use crate::report::{Better, Heading, Ratio, Role, Table};
use crate::rounds::{Entry, Outcome, Settings, Work};

mod admission;
mod guarded;
mod peers;
mod refusals;
mod threads;

pub(crate) use self::admission::run as admission;

/// Maximum number of concurrent calls.
const LIMIT: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(1);

const CHEAP: Work = Work {
    first: 10_000,
    most: 100_000_000,
};
const ROUND_TRIPS: Work = Work {
    first: 200,
    most: 1_000_000,
};

type Failure = std::io::Error;

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let mut tables = guarded::run(settings);
    tables.extend(refusals::run(settings));
    tables.extend(threads::run(settings));
    tables
}

fn isolation() -> Isolation {
    Isolation::builder()
        .build()
        .expect("the default settings are valid")
}

fn heading(title: &str, ratios: &[(&str, Role)]) -> Heading {
    let ratio = |&(name, against): &(&str, Role)| Ratio::new(name, against);
    Heading {
        title: format!("isolate, {title}"),
        unit: "ns per call",
        better: Better::Less,
        side: None,
        ratios: ratios.iter().map(ratio).collect(),
    }
}

/// The guarded work: too small to hide the cost of the guard.
fn work(n: u64) -> Result<u64, Failure> {
    Ok(black_box(n) + 1)
}

/// Observes a result in place: moving it only to observe it would penalise larger results.
#[inline(always)]
fn seen<T>(answer: T) {
    black_box(&answer);
}

/// Creates a contestant that makes one call at a time on this thread.
fn each(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry::new(name, role, move |count| {
        Outcome::timed(count, || (0..count).for_each(&mut call))
    })
}

/// Creates a contestant that two threads use at the same time; the figure is the time per call of
/// each.
fn by_two(name: &str, role: Role, calls: impl Fn(u64) + Sync + 'static) -> Entry {
    Entry::new(name, role, move |count| {
        Outcome::timed(count, || {
            thread::scope(|scope| {
                scope.spawn(|| calls(count));
                calls(count);
            });
        })
    })
}

/// Creates a peer whose timeouts need a runtime. The runtime is entered once, because a server's
/// threads are always inside their runtime.
fn in_runtime(name: &str, mut calls: impl FnMut(u64) + 'static) -> Entry {
    let runtime = runtime();
    Entry::new(name, Role::Peer, move |count| {
        let _entered = runtime.enter();
        Outcome::timed(count, || calls(count))
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build()
        .expect("the system has what a runtime needs")
}
