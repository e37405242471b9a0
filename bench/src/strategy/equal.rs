//! Equal threads, and no task sleeps: the cost of the hand-off, and of moving data between CPUs.
//!
//! Every strategy gets a pool of the same number of threads, including the producing one. The load
//! is a closed loop of a given depth: one task in flight shows the cost of the wake-up, many show
//! the capacity.

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::Blocking;
use tidegate_pool::strategy::Strategy;

use super::bench_pool::{BenchPool, Kind};
use super::work::{Mill, Recipe, Ring, units_per_micro};
use crate::gate::Gate;
use crate::machine::cpu_time;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// The gate that every task passes.
static GATE: Gate = Gate::new();

/// Threads of each contestant.
const THREADS: usize = 2;
/// 1 KiB and 2 µs, like an ordinary small request.
const FOOTPRINT: usize = 1024;
const MICROS: u64 = 2;

const WORK: Work = Work {
    first: 1_000,
    most: 2_000_000,
};

/// Runs the tables: with one task in flight, and with many.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    vec![
        table(1, "ewyk_over_pec_depth1", settings),
        table(64, "ewyk_over_pec_saturated", settings),
    ]
}

fn table(depth: usize, ratio: &str, settings: &Settings) -> Table {
    let lineup = [
        ("adaptive", Role::Ours, Kind::Eager),
        ("PEC", Role::Peer, Kind::Pec),
        ("PC", Role::Floor, Kind::Pc),
        ("EPC", Role::Floor, Kind::Epc),
        ("EWYK of 2015", Role::Floor, Kind::Old),
        ("adaptive, late", Role::Floor, Kind::Late),
    ];
    let mut lineup: Vec<Entry> = lineup
        .into_iter()
        .map(|(name, role, kind)| entry(name, role, kind, depth, 1))
        .collect();
    // Netty's layout: two producers, each with half of the work.
    lineup.push(entry("2 x PC", Role::Floor, Kind::Pc, depth, 2));
    let heading = Heading {
        title: format!(
            "strategy, equal threads: {THREADS} threads, depth {depth}, {FOOTPRINT} bytes, {MICROS} µs"
        ),
        unit: "thousand tasks/s",
        better: Better::More,
        side: Some("CPU ns/task"),
        ratios: vec![Ratio::new(ratio, Role::Peer)],
    };
    rounds::race(heading, WORK, lineup, settings)
}

fn entry(name: &str, role: Role, kind: Kind, depth: usize, loops: u64) -> Entry {
    Entry::new(name, role, move |tasks| {
        let bench_pool = BenchPool::new(THREADS, kind == Kind::Late);
        let ring = Ring::new(
            Recipe {
                footprint: FOOTPRINT,
                units: MICROS * units_per_micro(),
                kind: Blocking::May,
                depth,
            },
            &GATE,
        );
        let each = tasks.div_ceil(loops);
        let tasks = each * loops;
        let strategies: Vec<Arc<dyn Strategy>> = (0..loops)
            .map(|_| bench_pool.strategy(kind, Mill::new(&ring, each)))
            .collect();
        GATE.arm(tasks as usize);
        let (cpu, began) = (cpu_time(), Instant::now());
        for strategy in &strategies {
            strategy.dispatch().expect("the pool has room");
        }
        GATE.wait("a strategy");
        let elapsed = began.elapsed();
        let cpu = cpu_time().saturating_sub(cpu);
        bench_pool.stop();
        Outcome {
            elapsed,
            sample: Sample {
                value: tasks as f64 / elapsed.as_secs_f64() / 1e3,
                side: Some(cpu.as_nanos() as f64 / tasks as f64),
            },
        }
    })
}
