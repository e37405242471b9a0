//! Suite `pool`: the cost of a job on a thread pool from its submission to its result, one at a
//! time and with 64 in flight. The caller blocks, like a program that calls blocking code from
//! plain threads.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_pool::WorkerPool;
use tidegate_promise::Completion;

use crate::contest::{PoolContestant, observe};
use crate::machine::cpu_time;
use crate::peers::pools::{RayonInstall, RayonSpawn, Rusty, SpawnBlocking, StdChannel, Threadpool};
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

    fn wakeups(&self) -> Option<u64> {
        Some(self.0.metrics().wakeups)
    }

    fn stop(self) {
        let stopped = self.0.shutdown(Duration::from_secs(10));
        stopped.wait().expect("every job has run");
    }
}

/// The cost of a contestant's jobs in CPU time and wake-ups, over all its rounds.
#[derive(Default)]
struct Cost {
    jobs: u64,
    cpu: Duration,
    wakeups: Option<u64>,
}

/// The costs of a table's rows, by name.
type Costs = Rc<RefCell<Vec<(String, Cost)>>>;

/// Measures the cost of the jobs until `end` is called.
struct Meter {
    cpu: Duration,
    wakeups: Option<u64>,
}

impl Meter {
    fn start<P: PoolContestant>(pool: &P) -> Self {
        Self {
            wakeups: pool.wakeups(),
            cpu: cpu_time(),
        }
    }

    fn end<P: PoolContestant>(self, pool: &P, jobs: u64, costs: &Costs, name: &str) {
        let cpu = cpu_time().saturating_sub(self.cpu);
        let mut costs = costs.borrow_mut();
        let at = costs.iter().position(|row| row.0 == name);
        let at = at.unwrap_or_else(|| {
            costs.push((name.to_owned(), Cost::default()));
            costs.len() - 1
        });
        let cost = &mut costs[at].1;
        cost.jobs += jobs;
        cost.cpu += cpu;
        if let (Some(before), Some(now)) = (self.wakeups, pool.wakeups()) {
            *cost.wakeups.get_or_insert(0) += now - before;
        }
    }
}

/// Runs a table and prints the costs of its rows.
fn race(
    heading: Heading,
    work: Work,
    lineup: Vec<Entry>,
    costs: &Costs,
    settings: &Settings,
) -> Table {
    let title = heading.title.clone();
    let table = rounds::race(heading, work, lineup, settings);
    if !table.rows.is_empty() {
        println!("{title}");
    }
    for (name, cost) in costs.borrow().iter() {
        let per = |figure: f64| figure / cost.jobs.max(1) as f64;
        let wakeups = match cost.wakeups {
            Some(wakeups) => format!(", {:.4} wakeups", per(wakeups as f64)),
            None => String::new(),
        };
        println!(
            "    {name:30} {:.0} CPU ns{wakeups} a job",
            per(cost.cpu.as_nanos() as f64)
        );
    }
    println!();
    table
}

/// Runs the suite.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![run_round_trip(settings), run_throughput(settings)]
}

fn run_round_trip(settings: &Settings) -> Table {
    let costs = Costs::default();
    let lineup = vec![
        round_trip::<Tidegate>(&costs, "tidegate", Role::Ours, true),
        round_trip::<RayonInstall>(&costs, "rayon install", RAYON, true),
        round_trip::<RayonSpawn>(&costs, "rayon spawn+oneshot", RAYON, true),
        round_trip::<SpawnBlocking<false>>(&costs, "tokio spawn_blocking", BLOCKING, true),
        round_trip::<SpawnBlocking<true>>(&costs, "tokio spawn_blocking, futures", BLOCKING, true),
        round_trip::<Threadpool>(&costs, "threadpool", Role::Peer, false),
        round_trip::<Rusty>(&costs, "rusty_pool", Role::Peer, false),
        round_trip::<StdChannel>(&costs, "std channel+threads", Role::Peer, false),
    ];
    let heading = Heading {
        title: "pool, one job at a time: submit, run, result, p50".to_owned(),
        unit: "ns",
        better: Better::Less,
        side: Some("p99"),
        ratios: vec![
            Ratio::new("pool_roundtrip_over_spawn_blocking", BLOCKING),
            Ratio::new("pool_roundtrip_over_rayon", RAYON),
            Ratio::new("pool_roundtrip_over_others", Role::Peer),
        ],
    };
    let work = Work {
        first: 500,
        most: 100_000,
    };
    race(heading, work, lineup, &costs, settings)
}

fn run_throughput(settings: &Settings) -> Table {
    let costs = Costs::default();
    let lineup = vec![
        throughput::<Tidegate>(&costs, "tidegate", Role::Ours, true),
        throughput::<RayonSpawn>(&costs, "rayon spawn+oneshot", RAYON, true),
        throughput::<SpawnBlocking<false>>(&costs, "tokio spawn_blocking", BLOCKING, true),
        throughput::<SpawnBlocking<true>>(&costs, "tokio spawn_blocking, futures", BLOCKING, true),
        throughput::<Threadpool>(&costs, "threadpool", Role::Peer, false),
        throughput::<Rusty>(&costs, "rusty_pool", Role::Peer, false),
        throughput::<StdChannel>(&costs, "std channel+threads", Role::Peer, false),
    ];
    let heading = Heading {
        title: format!("pool, {IN_FLIGHT} jobs in flight"),
        unit: "Mjob/s",
        better: Better::More,
        side: None,
        ratios: vec![
            Ratio::new("pool_throughput_over_spawn_blocking", BLOCKING),
            Ratio::new("pool_throughput_over_rayon", RAYON),
            Ratio::new("pool_throughput_over_others", Role::Peer),
        ],
    };
    let work = Work {
        first: 1_000,
        most: 10_000_000,
    };
    race(heading, work, lineup, &costs, settings)
}

fn round_trip<P: PoolContestant>(costs: &Costs, name: &str, role: Role, quick: bool) -> Entry {
    let (costs, label) = (Rc::clone(costs), name.to_owned());
    let run = move |count| {
        let pool = warm::<P>();
        let meter = Meter::start(&pool);
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
        meter.end(&pool, count, &costs, &label);
        pool.stop();
        Outcome::delays(elapsed, delays)
    };
    Entry::new(name, role, run).quick(quick)
}

fn throughput<P: PoolContestant>(costs: &Costs, name: &str, role: Role, quick: bool) -> Entry {
    let (costs, label) = (Rc::clone(costs), name.to_owned());
    let run = move |count| {
        let pool = warm::<P>();
        let meter = Meter::start(&pool);
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
        meter.end(&pool, count, &costs, &label);
        pool.stop();
        Outcome::millions(elapsed, count)
    };
    Entry::new(name, role, run).quick(quick)
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
