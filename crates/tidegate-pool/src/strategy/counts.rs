//! What a strategy has decided so far: the only practical way to see what it does.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tidegate_core::internal::Counter;

/// How often a strategy chose each way, and what went wrong, since it was made or reset.
///
/// The first five are raised once per task, before the task runs, and add up to the number of
/// tasks.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::{ImmediateExecutor, ProduceConsume, Strategy};
/// use tidegate_core::Task;
///
/// let mut left = 3;
/// let producer = move || { left -= 1; (left > 0).then(|| Task::new(|| ())) };
/// let strategy = ProduceConsume::new(producer, Arc::new(ImmediateExecutor::new()));
/// strategy.produce();
/// assert_eq!(strategy.counts().pc, 2);
/// assert_eq!(strategy.counts().to_string(), "pc 2");
/// strategy.reset_counts();
/// assert_eq!(strategy.counts().tasks(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Produce, consume: run by the producer, which went on afterwards.
    pub pc: u64,
    /// Produce, invoke, consume: the same under the non-blocking tag.
    pub pic: u64,
    /// Produce, execute, consume: given to the executor.
    pub pec: u64,
    /// Execute, produce, consume: run by the thread that produced it, while a helper went for
    /// the right to produce.
    pub epc: u64,
    /// Run by the thread that produced it, with the right to produce lying in the cell.
    pub lent: u64,
    /// Of the lent ones, those whose producer the monitor gave to another thread: late EPC.
    pub late_epc: u64,
    /// Of those, the ones that a thread of the monitor's own took over, since no thread of the pool
    /// could.
    pub stand_ins: u64,
    /// Looks of the monitor that found a stuck task and no thread of the pool for its producer.
    pub no_spare: u64,
    /// Of the lent ones, those with which a thread of the pool left the producer to a stand-in,
    /// since tasks of other producers waited for a thread.
    pub relieved: u64,
    /// Tasks that were not lent, since no stand-in could be had: the monitor has as many as it may,
    /// or the system refused a thread. They got a thread of the pool, or did not run here.
    pub unwatched: u64,
    /// Times a producer had to wake the monitor.
    pub monitor_wakes: u64,
    /// Helpers asked for.
    pub helpers: u64,
    /// Helpers that found nothing to do when they arrived.
    pub idle_helpers: u64,
    /// Helpers that the executor refused.
    pub helpers_refused: u64,
    /// Tasks that the executor refused; each was closed.
    pub refused: u64,
    /// Tasks that panicked on the thread that produced them.
    pub task_panics: u64,
    /// Panics of the producer.
    pub producer_panics: u64,
}

impl Counts {
    /// Tasks produced.
    pub fn tasks(&self) -> u64 {
        self.pc + self.pic + self.pec + self.epc + self.lent
    }

    fn since(self, base: Self) -> Self {
        Self {
            pc: self.pc - base.pc,
            pic: self.pic - base.pic,
            pec: self.pec - base.pec,
            epc: self.epc - base.epc,
            // A loan that is taken back at once is taken back here, too.
            lent: self.lent.saturating_sub(base.lent),
            late_epc: self.late_epc - base.late_epc,
            stand_ins: self.stand_ins - base.stand_ins,
            no_spare: self.no_spare - base.no_spare,
            relieved: self.relieved - base.relieved,
            unwatched: self.unwatched - base.unwatched,
            monitor_wakes: self.monitor_wakes - base.monitor_wakes,
            helpers: self.helpers - base.helpers,
            idle_helpers: self.idle_helpers - base.idle_helpers,
            helpers_refused: self.helpers_refused - base.helpers_refused,
            refused: self.refused - base.refused,
            task_panics: self.task_panics - base.task_panics,
            producer_panics: self.producer_panics - base.producer_panics,
        }
    }
}

impl fmt::Display for Counts {
    /// The figures that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = [
            ("pc", self.pc),
            ("pic", self.pic),
            ("pec", self.pec),
            ("epc", self.epc),
            ("lent", self.lent),
            ("late epc", self.late_epc),
            ("stand-ins", self.stand_ins),
            ("no spare", self.no_spare),
            ("relieved", self.relieved),
            ("unwatched", self.unwatched),
            ("monitor woken", self.monitor_wakes),
            ("helpers", self.helpers),
            ("idle helpers", self.idle_helpers),
            ("helpers refused", self.helpers_refused),
            ("refused", self.refused),
            ("task panics", self.task_panics),
            ("producer panics", self.producer_panics),
        ];
        let mut gap = "";
        for (name, figure) in figures.iter().filter(|(_, figure)| *figure > 0) {
            write!(f, "{gap}{name} {figure}")?;
            gap = ", ";
        }
        Ok(())
    }
}

/// The counters behind [`Counts`]. The first group is written only by whoever holds the
/// producer, so a plain store does.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) pc: Counter,
    pub(crate) pic: Counter,
    pub(crate) pec: Counter,
    pub(crate) lent: Counter,
    pub(crate) epc: AtomicU64,
    pub(crate) late_epc: AtomicU64,
    pub(crate) stand_ins: AtomicU64,
    pub(crate) no_spare: AtomicU64,
    pub(crate) relieved: AtomicU64,
    pub(crate) unwatched: AtomicU64,
    pub(crate) monitor_wakes: AtomicU64,
    pub(crate) helpers: AtomicU64,
    pub(crate) idle_helpers: AtomicU64,
    pub(crate) helpers_refused: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) task_panics: AtomicU64,
    pub(crate) producer_panics: AtomicU64,
    /// What was there at the last reset: the counters themselves only grow, so that a reset
    /// never races a producer's store.
    base: Mutex<Counts>,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let base = *self.base.lock().unwrap_or_else(PoisonError::into_inner);
        self.total().since(base)
    }

    pub(crate) fn reset(&self) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = self.total();
    }

    fn total(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            pc: self.pc.get(),
            pic: self.pic.get(),
            pec: self.pec.get(),
            epc: read(&self.epc),
            lent: self.lent.get(),
            late_epc: read(&self.late_epc),
            stand_ins: read(&self.stand_ins),
            no_spare: read(&self.no_spare),
            relieved: read(&self.relieved),
            unwatched: read(&self.unwatched),
            monitor_wakes: read(&self.monitor_wakes),
            helpers: read(&self.helpers),
            idle_helpers: read(&self.idle_helpers),
            helpers_refused: read(&self.helpers_refused),
            refused: read(&self.refused),
            task_panics: read(&self.task_panics),
            producer_panics: read(&self.producer_panics),
        }
    }
}

/// Counts one more, from any thread.
pub(crate) fn raise(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
