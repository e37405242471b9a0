//! Threads and strategies for the experiments: one constructor per contestant, so that only the
//! strategy differs.

use std::sync::Arc;
use std::time::Duration;

use tidegate_pool::strategy::{
    Adaptive, EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceConsume,
    ProduceExecuteConsume, Producer, Strategy,
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

    /// Creates a strategy over `producer`.
    pub(crate) fn strategy<P: Producer>(&self, kind: Kind, producer: P) -> Arc<dyn Strategy> {
        let pool: Arc<dyn TryExecutor> = Arc::new(self.pool.clone());
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
