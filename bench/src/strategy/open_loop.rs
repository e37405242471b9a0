//! An open loop: tasks fall due at fixed times, whether or not the previous one is done, and their
//! latency counts from then.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_core::Task;
use tidegate_pool::strategy::Producer;

use super::bench_pool::{BenchPool, Kind};
use super::work::{burn, units_per_micro};
use crate::dice::Dice;
use crate::gate::Gate;
use crate::report::quantile;

/// Threads of each contestant: enough that blocking tasks never use them up.
const THREADS: usize = 8;
/// Work of a task, in microseconds.
const MICROS: u64 = 2;

static GATE: Gate = Gate::new();

/// The kind and rate of tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) every: Duration,
    /// One task in this many sleeps for [`Load::blocks_for`]; 0 means none.
    pub(crate) block_one_in: u64,
    pub(crate) blocks_for: Duration,
}

/// Latencies of the tasks that did not block, sorted, in microseconds.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// From the due time to the end of the task.
    pub(crate) total: Vec<f64>,
    /// From the due time to the start of the task.
    pub(crate) start: Vec<f64>,
}

impl Latencies {
    /// Returns a quantile of the total latency.
    pub(crate) fn at(&self, part: f64) -> f64 {
        quantile(&self.total, part)
    }
}

/// A producer that waits for each due time, as a poller does, and returns the due task.
struct Clockwork {
    next: Instant,
    left: u64,
    load: Load,
    dice: Dice,
    log: Arc<Mutex<Latencies>>,
}

impl Producer for Clockwork {
    fn produce(&mut self) -> Option<Task> {
        self.left = self.left.checked_sub(1)?;
        let due = self.next;
        self.next += self.load.every;
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        let blocks = self.load.block_one_in > 0 && self.dice.below(self.load.block_one_in) == 0;
        let (load, log) = (self.load, Arc::clone(&self.log));
        Some(Task::new(move || {
            if blocks {
                thread::sleep(load.blocks_for);
            } else {
                let started = due.elapsed();
                burn(MICROS * units_per_micro());
                note(&log, started, due.elapsed());
            }
            GATE.pass();
        }))
    }
}

fn note(log: &Mutex<Latencies>, start: Duration, total: Duration) {
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.start.push(micros(start));
    log.total.push(micros(total));
}

/// Runs `tasks` tasks of that load under a strategy.
pub(crate) fn run(kind: Kind, load: Load, tasks: u64) -> Latencies {
    let bench_pool = BenchPool::new(THREADS, kind == Kind::Late);
    let log = Arc::new(Mutex::new(Latencies {
        total: Vec::with_capacity(tasks as usize),
        start: Vec::with_capacity(tasks as usize),
    }));
    units_per_micro();
    let producer = Clockwork {
        next: Instant::now() + Duration::from_millis(5),
        left: tasks,
        load,
        dice: Dice(7),
        log: Arc::clone(&log),
    };
    let strategy = bench_pool.strategy(kind, producer);
    GATE.arm(tasks as usize);
    strategy.dispatch().expect("the pool has room");
    GATE.wait("a strategy");
    bench_pool.stop();
    drop(strategy);
    let mut log = std::mem::replace(
        &mut *log.lock().unwrap_or_else(PoisonError::into_inner),
        Latencies {
            total: Vec::new(),
            start: Vec::new(),
        },
    );
    log.total.sort_by(f64::total_cmp);
    log.start.sort_by(f64::total_cmp);
    log
}
