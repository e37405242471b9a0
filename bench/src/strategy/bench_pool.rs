//! Threads and strategies for the experiments: one constructor per contestant, so that only the
//! strategy differs.

use std::sync::Arc;
use std::time::Duration;

use tidegate_pool::strategy::{
    Adaptive, EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceConsume,
    ProduceExecuteConsume, Producer, Strategy, StrategyMetrics,
};
use tidegate_pool::{TryExecutor, WorkerPool};

/// The strategy of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// ProduceConsume.
    Pc,
    /// ProduceExecuteConsume.
    Pec,
    /// ExecuteProduceConsume.
    Epc,
    /// EatWhatYouKill with the rule of 2015.
    Old,
    /// Adaptive, the successor of EatWhatYouKill.
    Eager,
    /// Adaptive with late hand-over.
    Late,
}

/// The pool whose threads do everything, including producing.
pub(crate) struct BenchPool {
    pool: WorkerPool,
    /// The monitor for late hand-over; started before the timed part.
    monitor: Option<Monitor>,
}

impl BenchPool {
    /// Creates a pool of exactly `threads` threads, all started.
    pub(crate) fn new(threads: usize, with_monitor: bool) -> Self {
        let pool = WorkerPool::builder("bench")
            .core(threads)
            .max(threads)
            .queue(1 << 20)
            .reserved(threads.min(64))
            .build()
            .expect("the limits fit together");
        pool.prestart();
        let monitor = with_monitor.then(|| Monitor::start("bench").expect("there is a thread"));
        Self { pool, monitor }
    }

    /// Returns the pool as an executor for strategies.
    pub(crate) fn pool(&self) -> Arc<dyn TryExecutor> {
        Arc::new(self.pool.clone())
    }

    /// Creates a strategy over `producer`.
    pub(crate) fn strategy<P: Producer>(&self, kind: Kind, producer: P) -> Arc<dyn Strategy> {
        let pool = self.pool();
        match kind {
            Kind::Pc => Arc::new(ProduceConsume::new(producer, pool)),
            Kind::Pec => Arc::new(ProduceExecuteConsume::new(producer, pool)),
            Kind::Epc => Arc::new(ExecuteProduceConsume::new(producer, pool)),
            Kind::Old => {
                let strategy = EatWhatYouKill::new(producer, pool);
                // With so few threads, the default threshold would always mean "low on threads".
                strategy.low_threads(0);
                Arc::new(strategy)
            }
            Kind::Eager => Arc::new(Adaptive::new(producer, pool)),
            Kind::Late => {
                let monitor = self
                    .monitor
                    .as_ref()
                    .expect("late hand-over needs a monitor");
                Arc::new(Adaptive::builder(producer, pool).late(monitor).build())
            }
        }
    }

    /// Returns the CPU time of the monitor so far.
    pub(crate) fn monitor_cpu(&self) -> Duration {
        self.monitor
            .as_ref()
            .map(Monitor::cpu_time)
            .unwrap_or_default()
    }

    /// Stops the threads and waits for them.
    pub(crate) fn stop(self) {
        if let Some(monitor) = &self.monitor {
            monitor.shutdown();
        }
        let stopped = self.pool.shutdown(Duration::from_secs(5)).wait();
        assert!(stopped.is_ok(), "the pool ends in order");
    }
}

/// Returns the voluntary and involuntary context switches of all live threads of this process.
pub(crate) fn switches() -> (u64, u64) {
    let mut sum = (0, 0);
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else {
            continue;
        };
        let read = |what: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(what));
            line.and_then(|rest| rest.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        sum.0 += read("voluntary_ctxt_switches:");
        sum.1 += read("nonvoluntary_ctxt_switches:");
    }
    sum
}

/// The details of a row beyond its compared figure, summed over its rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Detail {
    /// Number of tasks.
    pub(crate) tasks: u64,
    /// The decisions of the strategy in the last round.
    pub(crate) counts: StrategyMetrics,
    /// Voluntary and involuntary context switches.
    pub(crate) switches: (u64, u64),
    /// Number of tasks consumed on the CPU that produced them.
    pub(crate) same_cpu: u64,
    /// CPU time of the monitor.
    pub(crate) monitor: Duration,
    /// Median and 99th percentile from produced to consumed, in microseconds, of the last round.
    pub(crate) latency: Option<(f64, f64)>,
}

impl Detail {
    /// Formats the details as one line.
    pub(crate) fn line(&self, name: &str) -> String {
        let per = |figure: u64| figure as f64 / self.tasks.max(1) as f64;
        let monitor = if self.monitor.is_zero() {
            String::new()
        } else {
            let ns = self.monitor.as_nanos() as u64;
            format!(", monitor {:.0} CPU ns/task", per(ns))
        };
        let (p50, p99) = self.latency.unwrap_or_default();
        format!(
            "    {name:18} p50 {p50:.1} p99 {p99:.1} µs, switches/task {:.2} + {:.2}, same CPU {:.0} %{monitor}; last round: {}",
            per(self.switches.0),
            per(self.switches.1),
            100.0 * per(self.same_cpu),
            self.counts,
        )
    }
}
