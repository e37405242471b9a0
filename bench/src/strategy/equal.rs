//! Equal threads, and no task sleeps: the cost of the hand-off, and of moving data between CPUs.
//!
//! Every strategy gets a pool of the same number of threads, including the producing one. The load
//! is a closed loop of a given depth: one task in flight shows the cost of the wake-up, many show
//! the capacity.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::Blocking;
use tidegate_pool::strategy::{ProduceExecuteConsume, Strategy};

use super::bench_pool::{BenchPool, Detail, Kind, switches};
use super::plot::Curve;
use super::spin::Spinner;
use super::work::{Mill, Recipe, Ring, units_per_micro};
use crate::cpus::pin;
use crate::gate::Gate;
use crate::machine::cpu_time;
use crate::report::{Better, Heading, Ratio, Role, Sample, Table};
use crate::rounds::{self, Entry, Outcome, Settings, Work};

/// The gate that every task passes.
static GATE: Gate = Gate::new();

/// Threads of each contestant, unless a table says otherwise.
const THREADS: usize = 2;
/// The base case: 1 KiB and 2 µs, like an ordinary small request.
const FOOTPRINT: usize = 1024;
const MICROS: u64 = 2;
/// Number of rounds of the tables without a ratio.
const SWEEP_ROUNDS: usize = 5;
/// One task in flight, and many.
const SHALLOW: usize = 1;
const DEEP: usize = 64;

const WORK: Work = Work {
    first: 1_000,
    most: 2_000_000,
};

/// The details of the rows of one table.
type Details = Rc<RefCell<Vec<(String, Detail)>>>;

/// One comparison.
#[derive(Clone, Copy)]
struct Case {
    threads: usize,
    footprint: usize,
    micros: u64,
    depth: usize,
    kind: Blocking,
}

impl Case {
    const BASE: Case = Case {
        threads: THREADS,
        footprint: FOOTPRINT,
        micros: MICROS,
        depth: SHALLOW,
        kind: Blocking::May,
    };

    fn recipe(self) -> Recipe {
        Recipe {
            footprint: self.footprint,
            units: self.micros * units_per_micro(),
            kind: self.kind,
            depth: self.depth,
        }
    }

    fn title(self) -> String {
        format!(
            "strategy, equal threads: {} threads, depth {}, {} bytes, {} µs, tasks {}",
            self.threads,
            self.depth,
            self.footprint,
            self.micros,
            match self.kind {
                Blocking::Never => "never block",
                Blocking::Adapts => "adapt",
                Blocking::May => "may block",
            }
        )
    }
}

/// Runs the tables and returns them with the curves for the plot.
pub(crate) fn run(settings: &Settings) -> (Vec<Table>, Vec<Curve>) {
    let deep = Case {
        depth: DEEP,
        ..Case::BASE
    };
    let mut tables = vec![
        table(Case::BASE, "ewyk_over_pec_depth1", settings),
        table(deep, "ewyk_over_pec_saturated", settings),
    ];
    let sane = Case {
        kind: Blocking::Never,
        ..deep
    };
    tables.push(table(sane, "", settings));
    let mut curves = Vec::new();
    if settings.quick {
        return (tables, curves);
    }
    // The sweeps only show the shape of the curves: fewer rows, fewer rounds.
    let settings = &Settings {
        quick: true,
        rounds: Some(SWEEP_ROUNDS),
        ..settings.clone()
    };
    for depth in [SHALLOW, 4, DEEP] {
        let mut points = Vec::new();
        for micros in [0, 2, 20, 200] {
            let case = Case {
                depth,
                micros,
                ..Case::BASE
            };
            let swept = table(case, "", settings);
            points.extend(ratio(&swept).map(|ratio| (micros as f64, ratio)));
            tables.push(swept);
        }
        if !points.is_empty() {
            curves.push(Curve {
                name: format!("depth {depth}"),
                points,
            });
        }
    }
    for footprint in [0, 16 << 10, 32 << 10, 512 << 10, 4 << 20] {
        for depth in [SHALLOW, DEEP] {
            let case = Case {
                depth,
                footprint,
                ..Case::BASE
            };
            tables.push(table(case, "", settings));
        }
    }
    for threads in [3, 8] {
        tables.push(table(Case { threads, ..deep }, "", settings));
    }
    (tables, curves)
}

/// Returns how much faster the adaptive strategy was than PEC, by medians.
fn ratio(table: &Table) -> Option<f64> {
    let median = |role| {
        let row = table.rows.iter().find(|row| row.role == role)?;
        let values = row.samples.iter().map(|sample| sample.value);
        Some(crate::report::Quartiles::of(values)?.median)
    };
    Some(median(Role::Ours)? / median(Role::Peer)?)
}

fn table(case: Case, ratio: &str, settings: &Settings) -> Table {
    let details: Details = Rc::default();
    let mut lineup = Vec::new();
    let mut add = |name: &str, role, quick, run: fn(Case, u64) -> Round| {
        lineup.push(entry(name, role, quick, &details, move |tasks| {
            run(case, tasks)
        }));
    };
    add("adaptive", Role::Ours, true, |case, tasks| {
        one(Kind::Eager, case, tasks)
    });
    add("PEC", Role::Peer, true, |case, tasks| {
        one(Kind::Pec, case, tasks)
    });
    add("PC", Role::Floor, true, |case, tasks| {
        one(Kind::Pc, case, tasks)
    });
    add("2 x PC", Role::Floor, false, two_loops);
    add("EPC", Role::Floor, false, |case, tasks| {
        one(Kind::Epc, case, tasks)
    });
    add("EWYK of 2015", Role::Floor, false, |case, tasks| {
        one(Kind::Old, case, tasks)
    });
    add("adaptive, late", Role::Floor, true, |case, tasks| {
        one(Kind::Late, case, tasks)
    });
    add("PEC, spinning", Role::Floor, !ratio.is_empty(), spinning);
    add("PEC, one CPU", Role::Floor, !ratio.is_empty(), on_one_cpu);
    let heading = Heading {
        title: case.title(),
        unit: "thousand tasks/s",
        better: Better::More,
        side: Some("CPU ns/task"),
        ratios: ratios(ratio),
    };
    let table = rounds::race(heading, WORK, lineup, settings);
    if table.rows.is_empty() {
        return table;
    }
    println!("{}", case.title());
    let ran = |detail: &Detail| detail.tasks > 0;
    for (name, detail) in details.borrow().iter().filter(|row| ran(&row.1)) {
        println!("{}", detail.line(name));
    }
    println!();
    table
}

fn ratios(name: &str) -> Vec<Ratio> {
    let named = Some(name).filter(|name| !name.is_empty());
    named
        .map(|name| Ratio::new(name, Role::Peer))
        .into_iter()
        .collect()
}

/// The result of one run.
struct Round {
    outcome: Outcome,
    detail: Detail,
}

fn entry(
    name: &str,
    role: Role,
    quick: bool,
    details: &Details,
    mut run: impl FnMut(u64) -> Round + 'static,
) -> Entry {
    let place = details.borrow().len();
    details
        .borrow_mut()
        .push((name.to_owned(), Detail::default()));
    let details = Rc::clone(details);
    let run = move |tasks| {
        let round = run(tasks);
        let sum = &mut details.borrow_mut()[place].1;
        sum.tasks += round.detail.tasks;
        sum.switches.0 += round.detail.switches.0;
        sum.switches.1 += round.detail.switches.1;
        sum.same_cpu += round.detail.same_cpu;
        sum.monitor += round.detail.monitor;
        sum.counts = round.detail.counts;
        sum.latency = round.detail.latency;
        round.outcome
    };
    Entry::new(name, role, run).quick(quick)
}

/// Runs `begin`, waits until `tasks` have passed the gate, and measures this time.
fn timed(
    bench_pool: &BenchPool,
    strategy: &dyn Strategy,
    ring: &Ring,
    tasks: u64,
    begin: impl FnOnce(),
) -> Round {
    GATE.arm(tasks as usize);
    let (cpu, switched, monitor) = (cpu_time(), switches(), bench_pool.monitor_cpu());
    let began = Instant::now();
    begin();
    GATE.wait("a strategy");
    let elapsed = began.elapsed();
    let cpu = cpu_time().saturating_sub(cpu);
    let after = switches();
    Round {
        outcome: Outcome {
            elapsed,
            sample: Sample {
                value: tasks as f64 / elapsed.as_secs_f64() / 1e3,
                side: Some(cpu.as_nanos() as f64 / tasks as f64),
            },
        },
        detail: Detail {
            tasks,
            counts: strategy.metrics(),
            switches: (
                after.0.saturating_sub(switched.0),
                after.1.saturating_sub(switched.1),
            ),
            same_cpu: ring.same_cpu.load(std::sync::atomic::Ordering::Relaxed),
            monitor: bench_pool.monitor_cpu().saturating_sub(monitor),
            latency: ring.latency(),
        },
    }
}

fn one(kind: Kind, case: Case, tasks: u64) -> Round {
    let bench_pool = BenchPool::new(case.threads, kind == Kind::Late);
    let ring = Ring::new(case.recipe(), &GATE);
    let strategy = bench_pool.strategy(kind, Mill::new(&ring, tasks));
    let round = timed(&bench_pool, &*strategy, &ring, tasks, || {
        strategy.dispatch().expect("the pool has room");
    });
    bench_pool.stop();
    round
}

/// Netty's layout: two producers, each with half of the work.
fn two_loops(case: Case, tasks: u64) -> Round {
    let bench_pool = BenchPool::new(case.threads, false);
    let ring = Ring::new(case.recipe(), &GATE);
    let halves = [tasks / 2, tasks - tasks / 2];
    let loops = halves.map(|half| bench_pool.strategy(Kind::Pc, Mill::new(&ring, half)));
    let round = timed(&bench_pool, &*loops[0], &ring, tasks, || {
        for strategy in &loops {
            strategy.dispatch().expect("the pool has room");
        }
    });
    bench_pool.stop();
    round
}

/// PEC with a worker that never sleeps: there is no wake-up, so the difference to PC is the cost of
/// moving data.
fn spinning(case: Case, tasks: u64) -> Round {
    let (bench_pool, spinner) = (BenchPool::new(1, false), Spinner::start());
    let ring = Ring::new(case.recipe(), &GATE);
    let strategy = Arc::new(ProduceExecuteConsume::new(
        Mill::new(&ring, tasks),
        spinner.executor(),
    ));
    let own = Arc::clone(&strategy);
    let job = tidegate_core::Task::new(move || own.produce());
    let round = timed(&bench_pool, &*strategy, &ring, tasks, || {
        assert!(bench_pool.pool().execute(job).is_ok(), "the pool has room");
    });
    spinner.stop();
    bench_pool.stop();
    round
}

/// PEC with both threads on one CPU: the cost of the wake-up and the context switch, without moving
/// data between CPUs.
fn on_one_cpu(case: Case, tasks: u64) -> Round {
    let before = rustix::thread::sched_getaffinity(None);
    pin(0);
    let round = one(Kind::Pec, case, tasks);
    if let Ok(before) = before {
        // Restoring the previous affinity does not fail.
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    round
}
