//! Suite `isolate`: what a guarded call costs, and how long the way through a thread bulkhead is.
//!
//! Beside the measured peers stands Hystrix, as others have measured it on such a machine: 7 to 8 µs for a call with a
//! semaphore, 21 µs with a thread pool and 29 µs with its timeout on.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use tidegate_isolate::Isolation;

use crate::report::{Better, Heading, Ratio, Role, Table};
use crate::rounds::{Entry, Outcome, Settings, Work};

mod guarded;
mod peers;
mod refusals;
mod threads;
mod timeouts;

/// Calls that may run at the same time.
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
    if !settings.quick {
        tables.push(timeouts::run(settings));
    }
    tables
}

fn isolation() -> Isolation {
    Isolation::builder().build().expect("nothing was asked for")
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

/// The work that is guarded: nothing that could hide the guard.
fn work(n: u64) -> Result<u64, Failure> {
    Ok(black_box(n) + 1)
}

/// Looks at an answer where it lies: what is moved only to be looked at would cost the larger ones more.
#[inline(always)]
fn seen<T>(answer: T) {
    black_box(&answer);
}

/// A contestant that makes one call at a time on this thread.
fn each(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry::new(name, role, move |count| {
        Outcome::timed(count, || (0..count).for_each(&mut call))
    })
}

/// A contestant that two threads use at the same time; the figure is what each of them sees.
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

/// A peer whose timeouts need a runtime. It is entered once: a server's threads are always inside of theirs.
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
