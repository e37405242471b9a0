//! The way through a thread bulkhead: how long it is, how many fit on it, and what a resize costs them.

use std::time::{Duration, Instant};

use tidegate_isolate::{Command, Isolation, PoolConfig};

use super::{
    Failure, LIMIT, ROUND_TRIPS, TIMEOUT, each, heading, isolation, runtime, seen, slow, timed,
    work,
};
use crate::report::{Heading, Role, Sample, Table, quantile};
use crate::rounds::{self, Entry, Outcome, Settings};

/// Calls that are under way at the same time in the throughput table.
const IN_FLIGHT: u64 = 64;

pub(super) fn run(settings: &Settings) -> Vec<Table> {
    vec![
        round_trip(settings),
        round_trip_tail(settings),
        throughput(settings),
        resize(settings),
    ]
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
        Entry {
            name: "tokio spawn_blocking".to_owned(),
            role: Role::Peer,
            quick: true,
            run: Box::new(move |count| {
                timed(count, || {
                    runtime.block_on(async {
                        for n in 0..count {
                            seen(tokio::task::spawn_blocking(move || work(n)).await);
                        }
                    });
                })
            }),
        },
        each("rayon spawn + oneshot", Role::Inline, move |n| {
            let (tell, told) = oneshot::channel();
            rayon.spawn(move || drop(tell.send(work(n))));
            seen(told.recv());
        }),
    ];
    let ratios = [
        ("thread_roundtrip_over_tokio", Role::Peer),
        ("thread_roundtrip_over_rayon", Role::Inline),
    ];
    let heading = heading("round trip through a thread", &ratios);
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// The same round trip, as the slowest of a hundred see it.
fn round_trip_tail(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, 10);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        tail("tidegate thread bulkhead", Role::Ours, move |n| {
            seen(command.run(move |_| work(n)));
        }),
        tail("tokio spawn_blocking", Role::Floor, move |n| {
            let answer = runtime.spawn_blocking(move || work(n));
            seen(runtime.block_on(answer));
        }),
        tail("rayon spawn + oneshot", Role::Floor, move |n| {
            let (tell, told) = oneshot::channel();
            rayon.spawn(move || drop(tell.send(work(n))));
            seen(told.recv());
        }),
    ];
    let heading = Heading {
        unit: "ns, p99",
        side: Some("p50"),
        ..heading("round trip through a thread, 99th percentile", &[])
    };
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// Sixty-four calls at once, and `meanwhile` while they are under way.
fn batch(command: &Command<u64, Failure>, n: u64, meanwhile: impl FnOnce()) {
    let answers: Vec<_> = (0..IN_FLIGHT)
        .map(|at| command.queue(move |_| work(n + at)))
        .collect();
    meanwhile();
    for answer in answers {
        seen(answer.wait());
    }
}

/// Every limit of a busy pool is changed while a batch of 64 calls is under way. Every second change lets five threads
/// go, the others start five.
fn resize(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, IN_FLIGHT as usize * 2);
    let steady = command.clone();
    let resized = Entry {
        name: "resized in every batch".to_owned(),
        role: Role::Ours,
        quick: false,
        run: Box::new(move |count| {
            let turns = count.div_ceil(IN_FLIGHT);
            let mut resizing = Duration::ZERO;
            let mut outcome = timed(turns * IN_FLIGHT, || {
                for n in 0..turns {
                    batch(&command, n, || {
                        let began = Instant::now();
                        resize_to(&command, if n % 2 == 0 { LIMIT / 2 } else { LIMIT });
                        resizing += began.elapsed();
                    });
                }
            });
            resize_to(&command, LIMIT);
            outcome.sample.side = Some(resizing.as_nanos() as f64 / turns as f64);
            outcome
        }),
    };
    let lineup = vec![
        resized,
        slow(in_flight("left alone", Role::Floor, move |n| {
            batch(&steady, n, || ());
        })),
    ];
    let heading = Heading {
        side: Some("ns per resize"),
        ..heading("64 in flight on threads, live resize", &[])
    };
    rounds::race(heading, ROUND_TRIPS, lineup, settings)
}

/// Core and maximum, which is the same, in one step.
fn resize_to(command: &Command<u64, Failure>, threads: usize) {
    let changed = command.configure(|config| {
        config.pool.core = threads;
    });
    changed.expect("the settings agree with each other");
}

fn throughput(settings: &Settings) -> Table {
    let isolation = isolation();
    let command = on_threads(&isolation, IN_FLIGHT as usize * 2);
    let runtime = runtime();
    let rayon = one_rayon_thread();
    let lineup = vec![
        in_flight("tidegate thread bulkhead", Role::Ours, move |n| {
            batch(&command, n, || ());
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
                    let (tell, told) = oneshot::channel();
                    rayon.spawn(move || drop(tell.send(work(n + at))));
                    told
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

/// A contestant whose calls are timed one by one.
fn tail(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick: false,
        run: Box::new(move |count| {
            let began = Instant::now();
            let mut each: Vec<f64> = (0..count)
                .map(|n| {
                    let began = Instant::now();
                    call(n);
                    began.elapsed().as_nanos() as f64
                })
                .collect();
            let elapsed = began.elapsed();
            each.sort_by(f64::total_cmp);
            Outcome {
                elapsed,
                sample: Sample {
                    value: quantile(&each, 0.99),
                    side: Some(quantile(&each, 0.5)),
                },
            }
        }),
    }
}

/// A contestant whose call makes 64 at once.
fn in_flight(name: &str, role: Role, mut call: impl FnMut(u64) + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick: true,
        run: Box::new(move |count| {
            let turns = count.div_ceil(IN_FLIGHT);
            timed(turns * IN_FLIGHT, || (0..turns).for_each(&mut call))
        }),
    }
}

fn one_rayon_thread() -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
    builder.build().expect("the system has a thread")
}
