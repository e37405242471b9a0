//! Suite `promise`: the cost of a promise on one thread, and the latency of waking a waiting
//! thread.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::contest::{PromiseContestant, WaitContestant};
use crate::ours;
use crate::peers::condvar::MutexCondvar;
use crate::peers::oneshots::{Futures, Oneshot, Tokio};
use crate::report::{Better, Heading, Ratio, Role, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// Number of promises alive at once in the second table.
const OUTSTANDING: usize = 100_000;

/// How long the helper lets the waiter sleep before it completes the promise: long enough for the
/// waiter to park.
const ASLEEP: Duration = Duration::from_micros(30);

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![
        run_single(settings),
        run_outstanding(settings),
        run_wait(settings),
    ]
}

fn heading(title: &str, unit: &'static str, side: Option<&'static str>, ratio: &str) -> Heading {
    Heading {
        title: format!("promise, {title}"),
        unit,
        better: Better::Less,
        side,
        ratios: vec![Ratio::new(ratio, Role::Peer)],
    }
}

fn run_single(settings: &Settings) -> Table {
    let title = "one at a time: create, listen, complete, observe";
    let mut lineup = Vec::new();
    ours::promise_single(&mut lineup);
    lineup.push(single::<Tokio>("tokio oneshot", Role::Peer));
    lineup.push(single::<Oneshot>("oneshot", Role::Peer));
    lineup.push(single::<Futures>("futures oneshot", Role::Peer));
    let work = Work {
        first: 10_000,
        most: 100_000_000,
    };
    let heading = heading(title, "ns", None, "promise_single");
    rounds::race(heading, work, lineup, settings)
}

fn run_outstanding(settings: &Settings) -> Table {
    let title = "100,000 alive: create all, listen on all, complete all";
    let mut lineup = Vec::new();
    ours::promise_outstanding(&mut lineup);
    lineup.push(outstanding::<Tokio>("tokio oneshot", Role::Peer));
    lineup.push(outstanding::<Oneshot>("oneshot", Role::Peer));
    lineup.push(outstanding::<Futures>("futures oneshot", Role::Peer));
    // The work is counted in passes of 100,000 promises.
    let work = Work {
        first: 1,
        most: 1_000,
    };
    let heading = heading(title, "ns per promise", None, "promise_outstanding");
    rounds::race(heading, work, lineup, settings)
}

fn run_wait(settings: &Settings) -> Table {
    let title = "from complete to the end of a blocking wait, p50";
    let mut lineup = Vec::new();
    ours::promise_wait(&mut lineup);
    lineup.push(wait::<Tokio>("tokio oneshot", Role::Peer));
    lineup.push(wait::<Oneshot>("oneshot", Role::Peer));
    lineup.push(wait::<Futures>("futures oneshot", Role::Peer));
    lineup.push(wait::<MutexCondvar>("mutex+condvar", Role::Floor));
    let work = Work {
        first: 200,
        most: 20_000,
    };
    let heading = heading(title, "ns", Some("p99"), "promise_wait");
    rounds::race(heading, work, lineup, settings)
}

/// Creates a contestant of the first table. `--quick` runs all promise contestants, because there
/// are few.
pub(crate) fn single<P: PromiseContestant>(name: &str, role: Role) -> Entry {
    Entry::new(name, role, |count| {
        Outcome::timed(count, || {
            for value in 0..count {
                let mut pending = P::create();
                P::listen(&mut pending);
                P::complete(pending, value);
            }
        })
    })
}

/// Creates a contestant of the second table.
pub(crate) fn outstanding<P: PromiseContestant>(name: &str, role: Role) -> Entry {
    Entry::new(name, role, |passes| {
        let mut alive = Vec::with_capacity(OUTSTANDING);
        let began = Instant::now();
        for _ in 0..passes {
            alive.extend(std::iter::repeat_with(P::create).take(OUTSTANDING));
            alive.iter_mut().for_each(P::listen);
            for (value, pending) in alive.drain(..).enumerate() {
                P::complete(pending, value as u64);
            }
        }
        Outcome::nanos_each(began.elapsed(), passes * OUTSTANDING as u64)
    })
}

/// Creates a contestant of the third table.
pub(crate) fn wait<W: WaitContestant>(name: &str, role: Role) -> Entry {
    Entry::new(name, role, |count| {
        let (sender, receiver) = mpsc::channel();
        let began = Instant::now();
        let delays = thread::scope(|scope| {
            scope.spawn(move || receiver.into_iter().for_each(complete_later::<W>));
            let delays: Vec<f64> = (0..count)
                .map(|_| {
                    let (completer, waiter) = W::pair();
                    sender.send(completer).expect("the helper listens");
                    W::wait(waiter).elapsed().as_nanos() as f64
                })
                .collect();
            drop(sender);
            delays
        });
        Outcome::delays(began.elapsed(), delays)
    })
}

/// Runs on the helper thread: waits until the waiter is asleep, then completes.
fn complete_later<W: WaitContestant>(completer: W::Completer) {
    let received = Instant::now();
    while received.elapsed() < ASLEEP {
        std::hint::spin_loop();
    }
    W::complete(completer, Instant::now());
}
