//! Counters of a strategy's decisions, which are the only practical way to observe them.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::internal::{Counter, unpoisoned};

/// Declares the counters: the field, the type that it has in [`Counters`], and its name in sentences.
macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident: $kind:ident, $name:literal;)*) => {
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
            $($(#[$doc])* pub $field: u64,)*
            /// `true` if [`EatWhatYouKill`](crate::strategy::EatWhatYouKill) gives tasks away at the moment,
            /// because the pool was low on threads for the last task that may block. A reset does not change
            /// it.
            pub low_on_threads: bool,
        }

        impl StrategyMetrics {
            fn since(self, base: Self) -> Self {
                Self {
                    // A loan that was undone at once decrements its counter, which can be below the base.
                    $($field: self.$field.saturating_sub(base.$field),)*
                    low_on_threads: self.low_on_threads,
                }
            }

            /// Returns the counters that are not zero: the field, its name in sentences, and the count.
            pub(crate) fn figures(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                let figures = [$((stringify!($field), $name, self.$field),)*];
                figures.into_iter().filter(|(_, _, figure)| *figure > 0)
            }
        }

        /// The counters behind [`StrategyMetrics`]. The fields of type [`Counter`] are written only by the
        /// thread that holds the producer, so a plain store is enough. Any thread may write the others.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $field: $kind,)*
            /// 1 while the strategy gives tasks away because the pool is low on threads.
            low_on_threads: Counter,
            /// The values at the last reset. The counters themselves are never set back, so a reset cannot
            /// race a producer's store.
            base: Mutex<StrategyMetrics>,
        }

        impl Counters {
            fn total(&self) -> StrategyMetrics {
                StrategyMetrics {
                    $($field: self.$field.read(),)*
                    low_on_threads: self.low_on_threads.get() > 0,
                }
            }
        }
    };
}

counters! {
    /// Produce, consume: the producing thread ran the task and then produced again.
    pc: Counter, "pc";
    /// Produce, invoke, consume: the same with the thread tagged as non-blocking.
    pic: Counter, "pic";
    /// Produce, execute, consume: the task was given to the executor.
    pec: Counter, "pec";
    /// Execute, produce, consume: the producing thread ran the task, while a helper took over the
    /// right to produce.
    epc: AtomicU64, "epc";
    /// The producing thread ran the task while its producer was lent: the producer was in the
    /// strategy's cell, where another thread could take it. No helper was requested.
    lent: Counter, "lent";
    /// Lent tasks whose producer was taken over by a helper or a stand-in that was sent for it
    /// (late EPC).
    late_epc: AtomicU64, "late epc";
    /// Late EPC tasks whose producer went to a stand-in of the monitor, because the pool had no
    /// thread or needed the producing one (`handed_to_stand_in`).
    stand_ins: AtomicU64, "stand-ins";
    /// Scans in which the monitor found a stuck task and no thread of the pool for its producer.
    no_pool_thread: AtomicU64, "no pool thread";
    /// Lent tasks for which a pool thread left the producer to a stand-in, because tasks of other
    /// producers waited for a thread.
    handed_to_stand_in: AtomicU64, "handed to a stand-in";
    /// Tasks that were not lent because no stand-in was available: the monitor has its maximum or
    /// has just stopped, or the system could not start a thread. Each was handed over eagerly
    /// (`epc`). If the pool had no free thread either, it was given to the executor (`pec`) or ran
    /// with the thread tagged as non-blocking (`pic`).
    without_stand_in: AtomicU64, "without a stand-in";
    /// How often a producer woke the monitor.
    monitor_wakes: AtomicU64, "monitor woken";
    /// Helpers that were requested.
    helpers: AtomicU64, "helpers";
    /// Helpers that found nothing to do on arrival.
    idle_helpers: AtomicU64, "idle helpers";
    /// Helpers that the executor refused to run or queue. An adaptive strategy first requests only
    /// a free thread; a refusal of that request is not counted.
    helpers_refused: AtomicU64, "helpers refused";
    /// Tasks that the executor refused. Each of them was closed.
    refused: AtomicU64, "refused";
    /// Tasks that panicked on the thread that produced them.
    task_panics: AtomicU64, "task panics";
    /// Panics of the producer.
    producer_panics: AtomicU64, "producer panics";
    /// How often [`EatWhatYouKill`](crate::strategy::EatWhatYouKill) changed between its two modes:
    /// running tasks on the producing thread, and giving them away because the pool is low on
    /// threads.
    mode_switches: Counter, "mode switches";
}

impl StrategyMetrics {
    /// Returns the number of tasks produced.
    pub fn tasks(&self) -> u64 {
        self.pc + self.pic + self.pec + self.epc + self.lent
    }
}

/// Reads a counter of either type.
trait Read {
    fn read(&self) -> u64;
}

impl Read for Counter {
    fn read(&self) -> u64 {
        self.get()
    }
}

impl Read for AtomicU64 {
    fn read(&self) -> u64 {
        self.load(Ordering::Relaxed)
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

impl Counters {
    pub(crate) fn read(&self) -> StrategyMetrics {
        let base = *unpoisoned(self.base.lock());
        self.total().since(base)
    }

    pub(crate) fn reset(&self) {
        *unpoisoned(self.base.lock()) = self.total();
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
