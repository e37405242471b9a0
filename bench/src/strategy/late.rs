//! Late hand-over compared with ProduceConsume and with eager hand-over: throughput, CPU time,
//! latency, and protection from blocking tasks.

use std::time::{Duration, Instant};

use tidegate_core::Blocking;

use super::bench_pool::{BenchPool, Kind};
use super::open_loop::{self, Latencies, Load};
use super::work::{Mill, Recipe, Ring, units_per_micro};
use crate::gate::Gate;
use crate::machine::cpu_time;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

static GATE: Gate = Gate::new();

/// Number of buffers of a saturated run: as many as the loop can use.
const DEPTH: usize = 64;
const MICROS: u64 = 2;

const SATURATED: Work = Work {
    first: 1_000,
    most: 2_000_000,
};

/// Light load: a task every 200 µs.
const LIGHT: Load = Load {
    every: Duration::from_micros(200),
    block_one_in: 0,
    blocks_for: Duration::ZERO,
};
/// Load with blocking tasks: one in a hundred blocks for 10 ms.
const BLOCKERS: Load = Load {
    every: Duration::from_micros(500),
    block_one_in: 100,
    blocks_for: Duration::from_millis(10),
};

/// The compared figure of a saturated run.
#[derive(Clone, Copy)]
enum Figure {
    /// Thousand tasks a second.
    Rate,
    /// CPU nanoseconds per task, including the monitor's.
    Cpu,
}

/// Runs the tables.
pub(crate) fn run(settings: &Settings) -> Vec<Table> {
    let rate = |kind, loops| saturated(Figure::Rate, kind, loops);
    let cpu = |kind, loops| saturated(Figure::Cpu, kind, loops);
    vec![
        race(
            heading(
                "saturated, 2 µs tasks that may block, one loop",
                Figure::Rate,
                "late_over_pc_short_tasks",
            ),
            vec![
                ("adaptive, late", Role::Ours, rate(Kind::Late, 1)),
                ("PC", Role::Peer, rate(Kind::Pc, 1)),
            ],
            SATURATED,
            settings,
        ),
        race(
            heading(
                "CPU time, saturated, the monitor's included",
                Figure::Cpu,
                "late_cpu_over_ewyk",
            ),
            vec![
                ("adaptive, late", Role::Ours, cpu(Kind::Late, 1)),
                ("adaptive, eager", Role::Peer, cpu(Kind::Eager, 1)),
            ],
            SATURATED,
            settings,
        ),
        race(
            heading("two CPUs, saturated", Figure::Rate, "late_2loops_over_ewyk"),
            vec![
                ("two loops, late", Role::Ours, rate(Kind::Late, 2)),
                (
                    "one loop, eager, two threads",
                    Role::Peer,
                    rate(Kind::Eager, 1),
                ),
                ("two loops, PC", Role::Floor, rate(Kind::Pc, 2)),
            ],
            SATURATED,
            settings,
        ),
        latency(
            "light load, from due to done, p50",
            LIGHT,
            0.5,
            "late_latency_over_ewyk",
            settings,
        ),
        latency(
            "1 % block for 10 ms: the others, from due to done, p99",
            BLOCKERS,
            0.99,
            "late_p99_blockers",
            settings,
        ),
    ]
}

type Run = Box<dyn FnMut(u64) -> Outcome>;

fn race(
    heading: Heading,
    lineup: Vec<(&str, Role, Run)>,
    work: Work,
    settings: &Settings,
) -> Table {
    let lineup = lineup
        .into_iter()
        .map(|(name, role, run)| Entry::new(name, role, run));
    rounds::race(heading, work, lineup.collect(), settings)
}

fn heading(title: &str, figure: Figure, ratio: &str) -> Heading {
    let (unit, better, side) = match figure {
        Figure::Rate => ("thousand tasks/s", Better::More, "CPU ns/task"),
        Figure::Cpu => ("CPU ns/task", Better::Less, "monitor's share"),
    };
    Heading {
        title: format!("strategy, late: {title}"),
        unit,
        better,
        side: Some(side),
        ratios: vec![Ratio::new(ratio, Role::Peer)],
    }
}

/// Runs loops that always have work, with one thread more than there are loops.
fn saturated(figure: Figure, kind: Kind, loops: usize) -> Run {
    Box::new(move |tasks| {
        // A loop here waits inside its producer and so occupies a thread; the additional thread is
        // for the case that a task blocks.
        let bench_pool = BenchPool::new(loops + 1, kind == Kind::Late);
        let recipe = Recipe {
            footprint: 64,
            units: MICROS * units_per_micro(),
            kind: Blocking::May,
            depth: DEPTH,
        };
        let each = tasks.div_ceil(loops as u64);
        let lines: Vec<_> = (0..loops)
            .map(|_| bench_pool.strategy(kind, Mill::new(&Ring::new(recipe, &GATE), each)))
            .collect();
        let tasks = each * loops as u64;
        GATE.arm(tasks as usize);
        let (cpu, monitor, began) = (cpu_time(), bench_pool.monitor_cpu(), Instant::now());
        for line in &lines {
            line.dispatch().expect("the pool has room");
        }
        GATE.wait("a strategy");
        let elapsed = began.elapsed();
        let cpu = cpu_time().saturating_sub(cpu).as_nanos() as f64 / tasks as f64;
        let monitor =
            bench_pool.monitor_cpu().saturating_sub(monitor).as_nanos() as f64 / tasks as f64;
        bench_pool.stop();
        let sample = match figure {
            Figure::Rate => Sample {
                value: tasks as f64 / elapsed.as_secs_f64() / 1e3,
                side: Some(cpu),
            },
            Figure::Cpu => Sample {
                value: cpu,
                side: Some(monitor),
            },
        };
        Outcome { elapsed, sample }
    })
}

fn latency(title: &str, load: Load, part: f64, ratio: &str, settings: &Settings) -> Table {
    // Enough for a meaningful quantile, whatever the warm-up would choose. With blocking tasks, the
    // quantile lies where their effect begins, so more tasks are needed.
    let tasks = if load.block_one_in == 0 { 1_000 } else { 4_000 };
    let run = |kind| -> Run {
        Box::new(move |_| {
            let began = Instant::now();
            let seen: Latencies = open_loop::run(kind, load, tasks);
            let side = match load.block_one_in {
                0 => crate::report::quantile(&seen.start, part),
                _ => seen.at(0.999),
            };
            Outcome {
                elapsed: began.elapsed(),
                sample: Sample {
                    value: seen.at(part),
                    side: Some(side),
                },
            }
        })
    };
    let heading = Heading {
        title: format!("strategy, late: {title}"),
        unit: "µs",
        better: Better::Less,
        side: Some(if load.block_one_in == 0 {
            "p50 to its start"
        } else {
            "p99.9"
        }),
        ratios: vec![Ratio::new(ratio, Role::Peer)],
    };
    let work = Work { first: 1, most: 1 };
    let lineup = vec![
        ("adaptive, late", Role::Ours, run(Kind::Late)),
        ("adaptive, eager", Role::Peer, run(Kind::Eager)),
        ("PEC", Role::Floor, run(Kind::Pec)),
        ("PC", Role::Floor, run(Kind::Pc)),
    ];
    race(heading, lineup, work, settings)
}
