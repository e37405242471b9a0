//! Latency and throughput of a thread bulkhead.

use tidegate_isolate::{Command, Isolation, PoolConfig};

use super::{Failure, LIMIT, ROUND_TRIPS, TIMEOUT, each, heading, isolation, runtime, seen, work};
use crate::report::{Role, Table};
use crate::rounds::{self, Entry, Outcome, Settings};

/// Number of calls in flight in the throughput table.
const IN_FLIGHT: u64 = 64;

pub(super) fn run(settings: &Settings) -> Vec<Table> {
    vec![round_trip(settings), throughput(settings)]
}

fn on_threads(isolation: &Isolation, queue: usize) -> Command<u64, Failure> {
    let pool = PoolConfig {
        core: LIMIT,
        queue,
        ..PoolConfig::default()
    };
    Command::builder("threads")
        .group("bench")
        .threads(pool)
        .timeout(TIMEOUT)
        .build(isolation)
        .expect("the settings agree with each other")
}

fn round_trip(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, 10);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        each("tidegate thread bulkhead", Role::Ours, move |n| {
            seen(command.run(move |_| work(n)));
        }),
        Entry::new("tokio spawn_blocking", Role::Peer, move |count| {
            Outcome::timed(count, || {
                runtime.block_on(async {
                    for n in 0..count {
                        seen(tokio::task::spawn_blocking(move || work(n)).await);
                    }
                });
            })
        }),
        each("rayon spawn + oneshot", Role::Inline, move |n| {
            let (sender, receiver) = oneshot::channel();
            rayon.spawn(move || drop(sender.send(work(n))));
            seen(receiver.recv());
        }),
    ];
    let ratios = [
        ("thread_roundtrip_over_tokio", Role::Peer),
        ("thread_roundtrip_over_rayon", Role::Inline),
    ];
    let heading = heading("round trip through a thread", &ratios);
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// Makes 64 calls at once and waits for them.
fn batch(command: &Command<u64, Failure>, n: u64) {
    let answers: Vec<_> = (0..IN_FLIGHT)
        .map(|at| command.queue(move |_| work(n + at)))
        .collect();
    for answer in answers {
        seen(answer.wait());
    }
}

fn throughput(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, IN_FLIGHT as usize * 2);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        in_flight("tidegate thread bulkhead", Role::Ours, move |n| {
            batch(&command, n);
        }),
        in_flight("tokio spawn_blocking", Role::Peer, move |n| {
            runtime.block_on(async {
                let answers: Vec<_> = (0..IN_FLIGHT)
                    .map(|at| tokio::task::spawn_blocking(move || work(n + at)))
                    .collect();
                for answer in answers {
                    seen(answer.await);
                }
            });
        }),
        in_flight("rayon spawn + oneshot", Role::Floor, move |n| {
            let answers: Vec<_> = (0..IN_FLIGHT)
                .map(|at| {
                    let (sender, receiver) = oneshot::channel();
                    rayon.spawn(move || drop(sender.send(work(n + at))));
                    receiver
                })
                .collect();
            answers.into_iter().for_each(|answer| {
                seen(answer.recv());
            });
        }),
    ];
    let heading = heading(
        "64 in flight on threads",
        &[("thread_throughput", Role::Peer)],
    );
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// Creates a contestant whose call makes 64 calls at once.
fn in_flight(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry::new(name, role, move |count| {
        let turns = count.div_ceil(IN_FLIGHT);
        Outcome::timed(turns * IN_FLIGHT, || (0..turns).for_each(&mut call))
    })
}

fn one_rayon_thread() -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
    builder.build().expect("the system has a thread")
}
