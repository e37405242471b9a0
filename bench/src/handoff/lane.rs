//! Lanes: each producer has one, which counts its tasks.
//!
//! A task is a closure of two words: a reference to its producer's lane and a number. Lanes are
//! statics, so a task needs neither a reference count (which would move a cache line per task) nor
//! a leak.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::gate::Gate;

/// Progress is published once per this many tasks: a waiting producer must not take the counter's
/// cache line away from the consumer at every task.
pub(super) const STEP: u64 = 256;

/// The maximum number of producers.
pub(super) const MOST: usize = 4;

/// One lane per producer.
static LANES: [Lane; MOST] = [const { Lane::new() }; MOST];

/// Opens when every lane has run all its tasks.
pub(super) static FINISH: Gate = Gate::new();

/// The count of one producer's tasks.
pub(super) struct Lane {
    /// Counters that only the consumer writes.
    count: CachePadded<Count>,
    /// The number of finished tasks that the producer reads.
    published: CachePadded<AtomicU64>,
}

struct Count {
    ran: AtomicU64,
    sum: AtomicU64,
    target: AtomicU64,
}

impl Lane {
    const fn new() -> Self {
        Lane {
            count: CachePadded::new(Count {
                ran: AtomicU64::new(0),
                sum: AtomicU64::new(0),
                target: AtomicU64::new(0),
            }),
            published: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Runs a task: counts it, and passes the gate if it was the last. Only the consumer's thread
    /// runs tasks, so plain loads and stores are sufficient.
    #[inline]
    pub(super) fn run(&self, value: u64) {
        let count = &*self.count;
        let ran = count.ran.load(Ordering::Relaxed) + 1;
        count.ran.store(ran, Ordering::Relaxed);
        let sum = count.sum.load(Ordering::Relaxed).wrapping_add(value);
        count.sum.store(sum, Ordering::Relaxed);
        if ran.is_multiple_of(STEP) {
            self.published.store(ran, Ordering::Release);
        }
        if ran == count.target.load(Ordering::Relaxed) {
            FINISH.pass();
        }
    }

    /// Returns a lower bound for the number of the lane's tasks that have run.
    #[inline]
    pub(super) fn ran(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Panics unless each of the numbers 0..target came exactly once (by count and sum).
    pub(super) fn check(&self, contestant: &str) {
        let target = self.count.target.load(Ordering::Relaxed);
        let ran = self.count.ran.load(Ordering::Relaxed);
        let sum = self.count.sum.load(Ordering::Relaxed);
        let expected = (u128::from(target) * u128::from(target.saturating_sub(1)) / 2) as u64;
        assert_eq!(
            (ran, sum),
            (target, expected),
            "{contestant} lost or changed a task"
        );
    }
}

/// Resets and returns the lanes for `shares.len()` producers, each with that many tasks to run.
/// Arms the gate.
pub(super) fn prepare(shares: &[u64]) -> &'static [Lane] {
    let lanes = &LANES[..shares.len()];
    for (lane, &share) in lanes.iter().zip(shares) {
        lane.count.ran.store(0, Ordering::Relaxed);
        lane.count.sum.store(0, Ordering::Relaxed);
        lane.count.target.store(share, Ordering::Relaxed);
        lane.published.store(0, Ordering::Relaxed);
    }
    FINISH.arm(shares.len());
    lanes
}
