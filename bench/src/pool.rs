//! Suite `pool`: the cost of a job on a thread pool from its submission to its result, one at a
//! time and with 64 in flight. The caller blocks, like a program that calls blocking code from
//! plain threads.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tidegate_pool::WorkerPool;
use tidegate_promise::Completion;

use crate::contest::{PoolContestant, observe};
use crate::peers::pools::{RayonInstall, RayonSpawn, SpawnBlocking};
use crate::report::{Better, Heading, Ratio, Role, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// Threads of every pool.
const THREADS: usize = 4;
/// Number of jobs in flight in the second table.
const IN_FLIGHT: usize = 64;
/// Round trips before the measurement, so that every thread is running.
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
        pending.wait().expect("a job returns a result")
    }

    fn stop(self) {
        let stopped = self.0.shutdown(Duration::from_secs(10));
        stopped.wait().expect("every job has run");
    }
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![run_round_trip(settings), run_throughput(settings)]
}

fn run_round_trip(settings: &Settings) -> Table {
    let lineup = vec![
        round_trip::<Tidegate>("tidegate", Role::Ours),
        round_trip::<RayonInstall>("rayon install", RAYON),
        round_trip::<RayonSpawn>("rayon spawn+oneshot", RAYON),
        round_trip::<SpawnBlocking<false>>("tokio spawn_blocking", BLOCKING),
        round_trip::<SpawnBlocking<true>>("tokio spawn_blocking, futures", BLOCKING),
    ];
    let heading = Heading {
        title: "pool, one job at a time: submit, run, result, p50".to_owned(),
        unit: "ns",
        better: Better::Less,
        side: Some("p99"),
        ratios: vec![
            Ratio::new("pool_roundtrip_over_spawn_blocking", BLOCKING),
            Ratio::new("pool_roundtrip_over_rayon", RAYON),
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
        throughput::<Tidegate>("tidegate", Role::Ours),
        throughput::<RayonSpawn>("rayon spawn+oneshot", RAYON),
        throughput::<SpawnBlocking<false>>("tokio spawn_blocking", BLOCKING),
        throughput::<SpawnBlocking<true>>("tokio spawn_blocking, futures", BLOCKING),
    ];
    let heading = Heading {
        title: format!("pool, {IN_FLIGHT} jobs in flight"),
        unit: "Mjob/s",
        better: Better::More,
        side: None,
        ratios: vec![
            Ratio::new("pool_throughput_over_spawn_blocking", BLOCKING),
            Ratio::new("pool_throughput_over_rayon", RAYON),
        ],
    };
    let work = Work {
        first: 1_000,
        most: 10_000_000,
    };
    rounds::race(heading, work, lineup, settings)
}

fn round_trip<P: PoolContestant>(name: &str, role: Role) -> Entry {
    let run = move |count| {
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
        Outcome::delays(elapsed, delays)
    };
    Entry::new(name, role, run)
}

fn throughput<P: PoolContestant>(name: &str, role: Role) -> Entry {
    let run = move |count| {
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
        Outcome::millions(elapsed, count)
    };
    Entry::new(name, role, run)
}

/// Starts a pool and waits until all its threads are running.
fn warm<P: PoolContestant>() -> P {
    let pool = P::start(THREADS);
    let first: Vec<_> = (0..WARM_UP).map(|value| pool.submit(value)).collect();
    for pending in first {
        observe(pool.wait(pending));
    }
    pool
}
