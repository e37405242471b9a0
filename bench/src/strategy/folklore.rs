//! The set-up behind the "8 times", scaled down: callers that run the strategy themselves, a small
//! pool, and a quarter of the requests sleep.
//!
//! Throughput here is the number of threads that may sleep, divided by the mean sleep: 250 callers
//! and 32 pool threads give 250/32 = 7.8 for ProduceConsume over PEC and 282/32 = 8.8 for EPC,
//! which uses both. The last row gives PEC as many threads as EPC has, and the ratio disappears.
//! The adaptive strategy finds no spare thread under such a load and hands over, as it must: a
//! caller that sleeps no longer produces. It therefore has the figure of PEC, which is not a
//! defect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_core::Task;

use super::bench_pool::{BenchPool, Kind};
use super::work::{burn, units_per_micro};
use crate::dice::Dice;
use crate::gate::Gate;
use crate::machine::cpu_time;
use crate::report::{Better, Heading, Ratio, Role, Row, Sample, Table};
use crate::rounds::Settings;

const CALLERS: usize = 250;
const POOL: usize = 32;
/// Requests per operation: 15 to 19 (the minimum, and the size of the range).
const BURST: (u64, u64) = (15, 5);
/// One request in four sleeps, for 0 to 99 ms.
const SLEEP_ONE_IN: u64 = 4;
const SLEEP_MS: u64 = 100;
const MICROS: u64 = 10;

/// One row: a strategy and its pool.
#[derive(Clone, Copy)]
struct Contestant {
    name: &'static str,
    role: Role,
    kind: Kind,
    pool: usize,
    /// Number of threads that may sleep in a request at once.
    consumers: usize,
}

const LINEUP: [Contestant; 5] = [
    Contestant {
        name: "EPC, 250 + 32 threads",
        role: Role::Ours,
        kind: Kind::Epc,
        pool: POOL,
        consumers: CALLERS + POOL,
    },
    Contestant {
        name: "PEC, 32 threads",
        role: Role::Peer,
        kind: Kind::Pec,
        pool: POOL,
        consumers: POOL,
    },
    Contestant {
        name: "PC, 250 threads",
        role: Role::Floor,
        kind: Kind::Pc,
        pool: POOL,
        consumers: CALLERS,
    },
    Contestant {
        name: "adaptive, 32 threads",
        role: Role::Floor,
        kind: Kind::Eager,
        pool: POOL,
        consumers: POOL,
    },
    Contestant {
        name: "PEC, 282 threads",
        role: Role::Floor,
        kind: Kind::Pec,
        pool: CALLERS + POOL,
        consumers: CALLERS + POOL,
    },
];

/// Runs the table.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let title = "strategy, folklore: 250 callers, 1 request in 4 asleep for 0 to 99 ms";
    if !settings.wants_table(title) {
        return Vec::new();
    }
    eprintln!("  {title}");
    let (settle, window, rounds) = if settings.quick {
        (
            Duration::from_millis(1_500),
            Duration::from_millis(1_500),
            1,
        )
    } else {
        (
            Duration::from_millis(1_500),
            Duration::from_secs(2),
            settings.rounds().min(2),
        )
    };
    let mut rows = LINEUP.map(|one| Row {
        name: one.name.to_owned(),
        role: one.role,
        samples: Vec::new(),
    });
    for _ in 0..rounds {
        for (row, one) in rows.iter_mut().zip(LINEUP) {
            row.samples.push(measure(one, settle, window));
        }
    }
    print_arithmetic(&rows);
    vec![Table {
        heading: Heading {
            title: title.to_owned(),
            unit: "operations/s",
            better: Better::More,
            side: Some("CPUs used"),
            ratios: vec![Ratio::new("folklore_8x", Role::Peer)],
        },
        rows: rows.into(),
        others: None,
    }]
}

/// Prints each ratio beside that of the thread counts; the rest is the effect of the strategy.
fn print_arithmetic(rows: &[Row; 5]) {
    let mean = |row: &Row| {
        let sum: f64 = row.samples.iter().map(|sample| sample.value).sum();
        sum / row.samples.len().max(1) as f64
    };
    let pec = mean(&rows[1]);
    println!("folklore: the ratio to PEC with 32 threads, and that of the threads that may sleep");
    for (row, one) in rows.iter().zip(LINEUP) {
        let (ratio, threads) = (mean(row) / pec, one.consumers as f64 / POOL as f64);
        println!(
            "    {:28} {:4} threads: {ratio:5.2} = {threads:4.2} by threads x {:.2}",
            one.name,
            one.consumers,
            ratio / threads
        );
    }
    println!();
}

/// Runs the callers until they have settled, then counts requests for a while.
fn measure(one: Contestant, settle: Duration, window: Duration) -> Sample {
    let bench_pool = Arc::new(BenchPool::new(one.pool, false));
    let (over, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let callers: Vec<_> = (0..CALLERS as u64)
        .map(|seed| {
            let (bench_pool, over, done) = (
                Arc::clone(&bench_pool),
                Arc::clone(&over),
                Arc::clone(&done),
            );
            thread::spawn(move || {
                let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9) + 1);
                while !over.load(Ordering::Relaxed) {
                    operation(&bench_pool, one.kind, &mut dice, &done);
                }
            })
        })
        .collect();
    thread::sleep(settle);
    let (began, cpu, before) = (Instant::now(), cpu_time(), done.load(Ordering::Relaxed));
    thread::sleep(window);
    let requests = done.load(Ordering::Relaxed) - before;
    let elapsed = began.elapsed().as_secs_f64();
    let cpu = cpu_time().saturating_sub(cpu).as_secs_f64();
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.join().expect("a caller does not panic");
    }
    let bench_pool = Arc::into_inner(bench_pool).expect("the callers are gone");
    bench_pool.stop();
    let mean_burst = (BURST.0 + (BURST.1 - 1) / 2) as f64;
    Sample {
        value: requests as f64 / mean_burst / elapsed,
        side: Some(cpu / elapsed),
    }
}

/// Runs one "connection": a burst of requests with its own strategy, and the wait for all results.
fn operation(bench_pool: &BenchPool, kind: Kind, dice: &mut Dice, done: &Arc<AtomicU64>) {
    let burst = BURST.0 + dice.below(BURST.1);
    let gate: Arc<Gate> = Arc::new(Gate::new());
    gate.arm(burst as usize);
    let mut requests: Vec<Task> = (0..burst)
        .map(|_| {
            let (gate, done) = (Arc::clone(&gate), Arc::clone(done));
            let sleeps = dice.below(SLEEP_ONE_IN) == 0;
            let sleep = Duration::from_millis(dice.below(SLEEP_MS));
            Task::new(move || {
                if sleeps {
                    thread::sleep(sleep);
                }
                burn(MICROS * units_per_micro());
                done.fetch_add(1, Ordering::Relaxed);
                gate.pass();
            })
        })
        .collect();
    let strategy = bench_pool.strategy(kind, move || requests.pop());
    strategy.produce();
    gate.wait("a strategy");
}
