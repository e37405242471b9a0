//! Suite `pool`: what a job on a pool of threads costs from its submission to its answer, one at a time and with 64 in
//! flight. The caller waits by blocking, as a program does that calls blocking code from plain threads.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tidegate_exec::WorkerPool;
use tidegate_promise::Completion;

use crate::contest::{PoolContestant, observe};
use crate::peers::pools::{RayonInstall, RayonSpawn, Rusty, SpawnBlocking, StdChannel, Threadpool};
use crate::report::{Better, Heading, Ratio, Role, Sample, Table, quantile};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// Threads of every pool.
const THREADS: usize = 4;
/// Jobs that are in flight at once in the second table.
const IN_FLIGHT: usize = 64;
/// Round trips before the clock starts: every thread is there.
const WARM_UP: u64 = 200;

const BLOCKING: Role = Role::Named("spawn_blocking");
const RAYON: Role = Role::Named("rayon");

/// Our worker pool.
struct Tidegate(WorkerPool);

impl PoolContestant for Tidegate {
    type Pending = Completion<u64>;

    fn start(threads: usize) -> Self {
        let pool = WorkerPool::builder("bench").core(threads).max(threads);
        let pool = pool.build().expect("the description is sound");
        pool.prestart();
        Self(pool)
    }

    #[inline]
    fn submit(&self, value: u64) -> Self::Pending {
        self.0.submit(move || value + 1).expect("there is room")
    }

    #[inline]
    fn wait(&self, pending: Self::Pending) -> u64 {
        pending.wait().expect("a job answers")
    }

    fn stop(self) {
        let stopped = self.0.stop(Duration::from_secs(10));
        stopped.wait().expect("every job has run");
    }
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![run_round_trip(settings), run_throughput(settings)]
}

fn run_round_trip(settings: &Settings) -> Table {
    let lineup = vec![
        round_trip::<Tidegate>("tidegate", Role::Ours, true),
        round_trip::<RayonInstall>("rayon install", RAYON, true),
        round_trip::<RayonSpawn>("rayon spawn+oneshot", RAYON, true),
        round_trip::<SpawnBlocking<false>>("tokio spawn_blocking", BLOCKING, true),
        round_trip::<SpawnBlocking<true>>("tokio spawn_blocking, futures", BLOCKING, true),
        round_trip::<Threadpool>("threadpool", Role::Peer, false),
        round_trip::<Rusty>("rusty_pool", Role::Peer, false),
        round_trip::<StdChannel>("std channel+threads", Role::Peer, false),
    ];
    let heading = Heading {
        title: "pool, one job at a time: submit, run, answer, p50".to_owned(),
        unit: "ns",
        better: Better::Less,
        side: Some("p99"),
        ratios: vec![
            ratio("pool_roundtrip_over_spawn_blocking", BLOCKING),
            ratio("pool_roundtrip_over_rayon", RAYON),
            ratio("pool_roundtrip_over_others", Role::Peer),
        ],
    };
    let work = Work {
        first: 500,
        most: 100_000,
    };
    rounds::race(heading, work, lineup, settings)
}

fn run_throughput(settings: &Settings) -> Table {
    let lineup = vec![
        throughput::<Tidegate>("tidegate", Role::Ours, true),
        throughput::<RayonSpawn>("rayon spawn+oneshot", RAYON, true),
        throughput::<SpawnBlocking<false>>("tokio spawn_blocking", BLOCKING, true),
        throughput::<SpawnBlocking<true>>("tokio spawn_blocking, futures", BLOCKING, true),
        throughput::<Threadpool>("threadpool", Role::Peer, false),
        throughput::<Rusty>("rusty_pool", Role::Peer, false),
        throughput::<StdChannel>("std channel+threads", Role::Peer, false),
    ];
    let heading = Heading {
        title: format!("pool, {IN_FLIGHT} jobs in flight"),
        unit: "Mjob/s",
        better: Better::More,
        side: None,
        ratios: vec![
            ratio("pool_throughput_over_spawn_blocking", BLOCKING),
            ratio("pool_throughput_over_rayon", RAYON),
            ratio("pool_throughput_over_others", Role::Peer),
        ],
    };
    let work = Work {
        first: 1_000,
        most: 10_000_000,
    };
    rounds::race(heading, work, lineup, settings)
}

fn ratio(name: &str, against: Role) -> Ratio {
    Ratio {
        name: name.to_owned(),
        against,
    }
}

fn round_trip<P: PoolContestant>(name: &str, role: Role, quick: bool) -> Entry {
    entry(name, role, quick, |count| {
        let pool = warm::<P>();
        let mut delays = Vec::with_capacity(count as usize);
        let began = Instant::now();
        let mut last = began;
        for value in 0..count {
            observe(pool.call(value));
            let now = Instant::now();
            delays.push((now - last).as_nanos() as f64);
            last = now;
        }
        let elapsed = began.elapsed();
        pool.stop();
        delays.sort_by(f64::total_cmp);
        let sample = Sample {
            value: quantile(&delays, 0.5),
            side: Some(quantile(&delays, 0.99)),
        };
        Outcome { elapsed, sample }
    })
}

fn throughput<P: PoolContestant>(name: &str, role: Role, quick: bool) -> Entry {
    entry(name, role, quick, |count| {
        let pool = warm::<P>();
        let mut flying = VecDeque::with_capacity(IN_FLIGHT);
        let began = Instant::now();
        for value in 0..count {
            if flying.len() == IN_FLIGHT
                && let Some(oldest) = flying.pop_front()
            {
                observe(pool.wait(oldest));
            }
            flying.push_back(pool.submit(value));
        }
        for pending in flying {
            observe(pool.wait(pending));
        }
        let elapsed = began.elapsed();
        pool.stop();
        let value = count as f64 / elapsed.as_secs_f64() / 1e6;
        let sample = Sample { value, side: None };
        Outcome { elapsed, sample }
    })
}

/// A pool whose threads are all there.
fn warm<P: PoolContestant>() -> P {
    let pool = P::start(THREADS);
    let first: Vec<_> = (0..WARM_UP).map(|value| pool.submit(value)).collect();
    for pending in first {
        observe(pool.wait(pending));
    }
    pool
}

fn entry(name: &str, role: Role, quick: bool, run: impl FnMut(u64) -> Outcome + 'static) -> Entry {
    Entry {
        name: name.to_owned(),
        role,
        quick,
        run: Box::new(run),
    }
}
