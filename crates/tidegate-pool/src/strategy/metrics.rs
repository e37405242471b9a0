//! Counters of a strategy's decisions, which are the only practical way to observe them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_core::internal::Counter;

/// How often a strategy chose each way to run a task, and what failed, since it was created or
/// reset.
///
/// The first five are incremented once per task, before the task runs. Their sum is the number of
/// tasks.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::ImmediateExecutor;
/// use tidegate_pool::strategy::{ProduceConsume, Strategy};
/// use tidegate_core::Task;
///
/// let mut left = 3;
/// let producer = move || { left -= 1; (left > 0).then(|| Task::new(|| ())) };
/// let strategy = ProduceConsume::new(producer, Arc::new(ImmediateExecutor::new()));
/// strategy.produce();
/// assert_eq!(strategy.metrics().pc, 2);
/// assert_eq!(strategy.metrics().to_string(), "pc 2");
/// strategy.reset_metrics();
/// assert_eq!(strategy.metrics().tasks(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StrategyMetrics {
    /// Produce, consume: the producing thread ran the task and then produced again.
    pub pc: u64,
    /// Produce, invoke, consume: the same with the thread tagged as non-blocking.
    pub pic: u64,
    /// Produce, execute, consume: the task was given to the executor.
    pub pec: u64,
    /// Execute, produce, consume: the producing thread ran the task, while a helper took over the
    /// right to produce.
    pub epc: u64,
    /// The producing thread ran the task while its producer was lent: the producer was in the
    /// strategy's cell, where another thread could take it. No helper was requested.
    pub lent: u64,
    /// Lent tasks whose producer was taken over by a helper or a stand-in that was sent for it
    /// (late EPC).
    pub late_epc: u64,
    /// Late EPC tasks whose producer went to a stand-in of the monitor, because the pool had no
    /// thread or needed the producing one (`handed_to_stand_in`).
    pub stand_ins: u64,
    /// Scans in which the monitor found a stuck task and no thread of the pool for its producer.
    pub no_pool_thread: u64,
    /// Lent tasks for which a pool thread left the producer to a stand-in, because tasks of other
    /// producers waited for a thread.
    pub handed_to_stand_in: u64,
    /// Tasks that were not lent because no stand-in was available: the monitor has its maximum or
    /// has just stopped, or the system could not start a thread. Each was handed over eagerly
    /// (`epc`). If the pool had no free thread either, it was given to the executor (`pec`) or ran
    /// with the thread tagged as non-blocking (`pic`).
    pub without_stand_in: u64,
    /// How often a producer woke the monitor.
    pub monitor_wakes: u64,
    /// Helpers that were requested.
    pub helpers: u64,
    /// Helpers that found nothing to do on arrival.
    pub idle_helpers: u64,
    /// Helpers that the executor refused to run or queue. An adaptive strategy first requests only
    /// a free thread; a refusal of that request is not counted.
    pub helpers_refused: u64,
    /// Tasks that the executor refused. Each of them was closed.
    pub refused: u64,
    /// Tasks that panicked on the thread that produced them.
    pub task_panics: u64,
    /// Panics of the producer.
    pub producer_panics: u64,
    /// How often [`EatWhatYouKill`](crate::strategy::EatWhatYouKill) changed between its two modes:
    /// running tasks on the producing thread, and giving them away because the pool is low on
    /// threads.
    pub mode_switches: u64,
    /// `true` if [`EatWhatYouKill`](crate::strategy::EatWhatYouKill) gives tasks away at the moment,
    /// because the pool was low on threads for the last task that may block. A reset does not change
    /// it.
    pub low_on_threads: bool,
}

impl StrategyMetrics {
    /// Returns the number of tasks produced.
    pub fn tasks(&self) -> u64 {
        self.pc + self.pic + self.pec + self.epc + self.lent
    }

    fn since(self, base: Self) -> Self {
        Self {
            pc: self.pc - base.pc,
            pic: self.pic - base.pic,
            pec: self.pec - base.pec,
            epc: self.epc - base.epc,
            // A loan that was undone at once decrements the counter, so it can be below the base.
            lent: self.lent.saturating_sub(base.lent),
            late_epc: self.late_epc - base.late_epc,
            stand_ins: self.stand_ins - base.stand_ins,
            no_pool_thread: self.no_pool_thread - base.no_pool_thread,
            handed_to_stand_in: self.handed_to_stand_in - base.handed_to_stand_in,
            without_stand_in: self.without_stand_in - base.without_stand_in,
            monitor_wakes: self.monitor_wakes - base.monitor_wakes,
            helpers: self.helpers - base.helpers,
            idle_helpers: self.idle_helpers - base.idle_helpers,
            helpers_refused: self.helpers_refused - base.helpers_refused,
            refused: self.refused - base.refused,
            task_panics: self.task_panics - base.task_panics,
            producer_panics: self.producer_panics - base.producer_panics,
            mode_switches: self.mode_switches - base.mode_switches,
            low_on_threads: self.low_on_threads,
        }
    }
}

impl StrategyMetrics {
    /// Returns the counters that are not zero: the field, its name in sentences, and the count.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let figures = [
            ("pc", "pc", self.pc),
            ("pic", "pic", self.pic),
            ("pec", "pec", self.pec),
            ("epc", "epc", self.epc),
            ("lent", "lent", self.lent),
            ("late_epc", "late epc", self.late_epc),
            ("stand_ins", "stand-ins", self.stand_ins),
            ("no_pool_thread", "no pool thread", self.no_pool_thread),
            (
                "handed_to_stand_in",
                "handed to a stand-in",
                self.handed_to_stand_in,
            ),
            (
                "without_stand_in",
                "without a stand-in",
                self.without_stand_in,
            ),
            ("monitor_wakes", "monitor woken", self.monitor_wakes),
            ("helpers", "helpers", self.helpers),
            ("idle_helpers", "idle helpers", self.idle_helpers),
            ("helpers_refused", "helpers refused", self.helpers_refused),
            ("refused", "refused", self.refused),
            ("task_panics", "task panics", self.task_panics),
            ("producer_panics", "producer panics", self.producer_panics),
            ("mode_switches", "mode switches", self.mode_switches),
        ];
        figures.into_iter().filter(|(_, _, figure)| *figure > 0)
    }
}

impl fmt::Display for StrategyMetrics {
    /// Writes the counters that are not zero, and whether the strategy is low on threads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for (_, name, figure) in self.figures() {
            write!(f, "{gap}{name} {figure}")?;
            gap = ", ";
        }
        if self.low_on_threads {
            write!(f, "{gap}low on threads")?;
        }
        Ok(())
    }
}

/// The counters behind [`StrategyMetrics`]. The fields of type [`Counter`] are written only by the
/// thread that holds the producer, so a plain store is enough. Any thread may write the others.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) pc: Counter,
    pub(crate) pic: Counter,
    pub(crate) pec: Counter,
    pub(crate) lent: Counter,
    pub(crate) epc: AtomicU64,
    pub(crate) late_epc: AtomicU64,
    pub(crate) stand_ins: AtomicU64,
    pub(crate) no_pool_thread: AtomicU64,
    pub(crate) handed_to_stand_in: AtomicU64,
    pub(crate) without_stand_in: AtomicU64,
    pub(crate) monitor_wakes: AtomicU64,
    pub(crate) helpers: AtomicU64,
    pub(crate) idle_helpers: AtomicU64,
    pub(crate) helpers_refused: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) task_panics: AtomicU64,
    pub(crate) producer_panics: AtomicU64,
    mode_switches: Counter,
    /// 1 while the strategy gives tasks away because the pool is low on threads.
    low_on_threads: Counter,
    /// The values at the last reset. The counters themselves are never set back, so a reset cannot
    /// race a producer's store.
    base: Mutex<StrategyMetrics>,
}

impl Counters {
    pub(crate) fn read(&self) -> StrategyMetrics {
        let base = *self.base.lock().unwrap_or_else(PoisonError::into_inner);
        self.total().since(base)
    }

    pub(crate) fn reset(&self) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = self.total();
    }

    fn total(&self) -> StrategyMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StrategyMetrics {
            pc: self.pc.get(),
            pic: self.pic.get(),
            pec: self.pec.get(),
            epc: read(&self.epc),
            lent: self.lent.get(),
            late_epc: read(&self.late_epc),
            stand_ins: read(&self.stand_ins),
            no_pool_thread: read(&self.no_pool_thread),
            handed_to_stand_in: read(&self.handed_to_stand_in),
            without_stand_in: read(&self.without_stand_in),
            monitor_wakes: read(&self.monitor_wakes),
            helpers: read(&self.helpers),
            idle_helpers: read(&self.idle_helpers),
            helpers_refused: read(&self.helpers_refused),
            refused: read(&self.refused),
            task_panics: read(&self.task_panics),
            producer_panics: read(&self.producer_panics),
            mode_switches: self.mode_switches.get(),
            low_on_threads: self.low_on_threads.get() > 0,
        }
    }

    /// Records the mode of the next task, and counts a change. Only the thread that holds the
    /// producer may call this.
    pub(crate) fn set_low_on_threads(&self, low: bool) {
        let low = u64::from(low);
        if self.low_on_threads.get() != low {
            self.low_on_threads.set(low);
            self.mode_switches.add(1);
        }
    }
}

/// Increments a counter; can be called from any thread.
pub(crate) fn raise(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
