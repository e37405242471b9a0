//! The starvation detector: what a monitor has seen of a pool, and which loans were promised a
//! thread.
//!
//! The monitor takes care of every loan of a producer (see
//! [`ProducerCell`](crate::strategy::raw::ProducerCell)): a stuck loan gets a thread. A pool is
//! *brisk* if its threads are busy with jobs so short that one of them becomes free within a small
//! part of a tick. Such a thread will do, but that is a prediction. So a loan counts as *promised*
//! only if a thread has its helper. A loan that was promised no thread, in a pool that is not
//! brisk, is *held*, and the monitor must provide a stand-in.
//!
//! A pool is *starved* if jobs are queued and none ends: its threads are blocked by their jobs, or
//! wait inside a producer. A thread that waits inside a producer can be relieved.
//!
//! # Ordering
//!
//! All operations are relaxed. Each record belongs to the number of a loan that the monitor has
//! seen in the cell, and never matches another loan. Whether the pool is brisk or starved is an
//! estimate whenever it is read. `sent` only avoids unneeded helpers: a helper takes the loan by
//! its number, or leaves. `promised` and `sent` are written only by read-modify-write operations:
//! the model checker lets a compare-and-swap that read the value before a plain store take effect
//! after it.

use tidegate_core::internal::prim::{AtomicU64, Ordering};

/// Jobs that the pool's threads must have ended between two scans for the pool to be brisk: each
/// job then took a small part of a tick.
const BRISK_JOBS: u64 = 4;
/// Consecutive scans that must have found this.
const BRISK_SCANS: u64 = 2;
/// Consecutive scans with queued jobs of which none ended, for a pool to be starved.
const STARVED_SCANS: u64 = 8;
/// No loan has this number.
const NO_LOAN: u64 = u64::MAX;

/// What a monitor records about the pool and the loans of one strategy; see the module.
///
/// ```
/// use tidegate_pool::internal::{StarvationDetector, ProducerCell};
///
/// let (starvation_detector, cell) = (StarvationDetector::new(), ProducerCell::new(Box::new(7)));
/// // Two scans of the monitor: the pool's threads have finished many jobs.
/// starvation_detector.record_scan(50, 0);
/// starvation_detector.record_scan(100, 0);
/// assert!(starvation_detector.frees_threads_soon());
/// let held = cell.claim().expect("no other thread produces");
/// let loan = held.lend(false).number;
/// assert!(!starvation_detector.is_held(loan), "one of them will come");
/// starvation_detector.record_scan(100, 0); // no job has ended since: all threads are held
/// assert!(starvation_detector.is_held(loan));
/// starvation_detector.promise(loan);
/// assert!(!starvation_detector.is_held(loan));
/// ```
#[derive(Debug)]
pub struct StarvationDetector {
    /// The pool's moves at the last scan. Only the monitor uses it.
    finished_jobs: AtomicU64,
    /// Consecutive scans that found the pool brisk. Only the monitor writes it.
    brisk: AtomicU64,
    /// Consecutive scans with queued jobs of which none ended. Only the monitor uses it.
    starved: AtomicU64,
    /// The loan to which a thread was promised.
    promised: AtomicU64,
    /// The loan for which a helper is on its way.
    sent: AtomicU64,
}

impl StarvationDetector {
    /// Creates a detector without observations.
    pub fn new() -> Self {
        Self {
            finished_jobs: AtomicU64::new(0),
            brisk: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            promised: AtomicU64::new(NO_LOAN),
            sent: AtomicU64::new(NO_LOAN),
        }
    }

    /// Records one scan: how often the pool's threads have requested a job so far, and how many
    /// jobs wait for a thread.
    pub fn record_scan(&self, finished_jobs: u64, waiting: usize) {
        let last = self.finished_jobs.load(Ordering::Relaxed);
        self.finished_jobs.store(finished_jobs, Ordering::Relaxed);
        let count = |scans: &AtomicU64, one_more: bool| {
            let before = scans.load(Ordering::Relaxed);
            let now = if one_more {
                before.saturating_add(1)
            } else {
                0
            };
            scans.store(now, Ordering::Relaxed);
        };
        count(&self.brisk, finished_jobs.wrapping_sub(last) >= BRISK_JOBS);
        count(&self.starved, waiting > 0 && finished_jobs == last);
    }

    /// Returns `true` if jobs wait and none has ended since the last scan, though not for long yet.
    pub fn may_starve(&self) -> bool {
        (1..STARVED_SCANS).contains(&self.starved.load(Ordering::Relaxed))
    }

    /// Returns `true` if jobs have waited for a while and none has ended.
    pub fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed) >= STARVED_SCANS
    }

    /// Discards the observations, because the monitor will not scan for a while.
    pub fn forget(&self) {
        self.brisk.store(0, Ordering::Relaxed);
    }

    /// Returns `true` if a thread of the pool will soon become free, though none is idle now.
    #[inline]
    pub fn frees_threads_soon(&self) -> bool {
        self.brisk.load(Ordering::Relaxed) >= BRISK_SCANS
    }

    /// Promises a thread to the loan: a thread has its helper, or is about to get it.
    pub fn promise(&self, loan: u64) {
        self.promised.swap(loan, Ordering::Relaxed);
    }

    /// Returns `true` if a thread was promised to the loan.
    pub fn is_promised(&self, loan: u64) -> bool {
        self.promised.load(Ordering::Relaxed) == loan
    }

    /// Returns `true` if the loan was promised no thread, and none of the pool will come for it.
    pub fn is_held(&self, loan: u64) -> bool {
        !self.is_promised(loan) && !self.frees_threads_soon()
    }

    /// Records that a helper for the loan is on its way. Returns `false` if one was already. Must
    /// be called before the helper can arrive.
    pub fn send(&self, loan: u64) -> bool {
        self.sent.swap(loan, Ordering::Relaxed) != loan
    }

    /// Records that the helper for the loan is no longer on its way: it has arrived, was refused,
    /// or was dropped with its queue. A helper for a later loan may still be on its way.
    pub fn helper_done(&self, loan: u64) {
        for noted in [&self.sent, &self.promised] {
            // If the exchange fails, the record belongs to another loan.
            let _ = noted.compare_exchange(loan, NO_LOAN, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Default for StarvationDetector {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_looks_in_a_row_with_many_moves_make_it_brisk_and_one_with_few_ends_that() {
        let starvation_detector = StarvationDetector::new();
        starvation_detector.record_scan(4, 0);
        assert!(!starvation_detector.frees_threads_soon());
        starvation_detector.record_scan(7, 0);
        starvation_detector.record_scan(11, 0);
        assert!(
            !starvation_detector.frees_threads_soon(),
            "the second look saw three"
        );
        starvation_detector.record_scan(15, 0);
        assert!(starvation_detector.frees_threads_soon());
        starvation_detector.forget();
        assert!(!starvation_detector.frees_threads_soon());
        starvation_detector.record_scan(19, 0);
        starvation_detector.record_scan(23, 0);
        starvation_detector.record_scan(26, 0);
        assert!(!starvation_detector.frees_threads_soon());
    }

    #[test]
    fn a_loan_without_a_promise_is_held_while_the_pool_is_not_brisk() {
        let starvation_detector = StarvationDetector::new();
        assert!(starvation_detector.is_held(3));
        starvation_detector.record_scan(50, 0);
        starvation_detector.record_scan(100, 0);
        assert!(!starvation_detector.is_held(3));
        starvation_detector.record_scan(100, 0);
        starvation_detector.promise(3);
        assert!(
            !starvation_detector.is_held(3) && starvation_detector.is_held(4),
            "one loan only"
        );
        starvation_detector.helper_done(3);
        assert!(starvation_detector.is_held(3), "the helper was dropped");
        starvation_detector.promise(4);
        starvation_detector.helper_done(3);
        assert!(
            !starvation_detector.is_held(4),
            "another one's end is not its own"
        );
    }

    #[test]
    fn jobs_that_wait_while_none_ends_make_a_pool_starved() {
        let starvation_detector = StarvationDetector::new();
        (0..20).for_each(|_| starvation_detector.record_scan(7, 0));
        assert!(!starvation_detector.is_starved(), "nothing waits");
        (0..20).for_each(|finished_jobs| starvation_detector.record_scan(8 + finished_jobs, 3));
        assert!(!starvation_detector.is_starved(), "it is slow, but moves");
        (0..STARVED_SCANS - 1).for_each(|_| starvation_detector.record_scan(27, 3));
        assert!(!starvation_detector.is_starved() && starvation_detector.may_starve());
        starvation_detector.record_scan(27, 1);
        assert!(starvation_detector.is_starved() && !starvation_detector.may_starve());
        starvation_detector.record_scan(27, 0);
        assert!(!starvation_detector.is_starved() && !starvation_detector.may_starve());
    }

    #[test]
    fn one_helper_is_sent_for_a_loan() {
        let starvation_detector = StarvationDetector::new();
        assert!(starvation_detector.send(1) && !starvation_detector.send(1));
        assert!(starvation_detector.send(2));
        starvation_detector.helper_done(1);
        assert!(
            !starvation_detector.send(2),
            "another one's end is not its own"
        );
        starvation_detector.helper_done(2);
        assert!(
            starvation_detector.send(2),
            "it was lost, so another is sent"
        );
    }
}
