//! Cumulative histograms of latencies: all calls since the key was created.
//!
//! The latencies of a window leave it bucket by bucket, and a key that is idle gives its histograms
//! back. What leaves is added up here, so that a call pays nothing for it.

use std::time::Duration;

use tidegate_core::Metric;

use super::histogram::{Sparse, middle_of};
use crate::key::Key;

const BUCKETS: usize = Metric::TIME_BUCKETS;

/// The number and the sum of durations, by bucket. As precise as the histograms of the window: a
/// duration near a bound may be counted on the other side of it, and the sum is within 3 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cumulative {
    counts: [u64; BUCKETS],
    nanos: u64,
}

impl Cumulative {
    pub(crate) fn add_sparse(&mut self, sparse: &Sparse) {
        for (step, count) in sparse.iter() {
            let nanos = middle_of(step);
            self.counts[Metric::time_bucket(nanos)] += count;
            self.nanos = self.nanos.saturating_add(nanos.saturating_mul(count));
        }
    }

    /// Adds `count` durations of zero.
    pub(crate) fn add_zeros(&mut self, count: u64) {
        self.counts[0] += count;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.nanos = self.nanos.saturating_add(other.nanos);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Returns the upper bound of each bucket in seconds, with the number of durations in it.
    pub(crate) fn buckets(&self) -> [(f64, u64); BUCKETS] {
        Metric::time_buckets(self.counts)
    }
}

/// How many calls of a command took how long, since its key was created: waiting, running and total
/// time. The difference of two readings is what happened between them.
///
/// ```
/// use tidegate_isolate::{Command, Isolation, LatencyTotals};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// prices.run(|_| Ok(1)).unwrap();
/// let all = isolation.latency_totals();
/// assert_eq!(all[0].total.iter().sum::<u64>(), 1);
/// assert_eq!(all[0].total.len(), LatencyTotals::BOUNDS_NANOS.len() + 1);
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatencyTotals {
    /// The key of the command.
    pub key: Key,
    /// From the call to the start of the work, by bucket.
    pub wait: [u64; BUCKETS],
    /// From the start of the work to its end, by bucket.
    pub run: [u64; BUCKETS],
    /// From the call to its result, by bucket.
    pub total: [u64; BUCKETS],
}

impl LatencyTotals {
    /// The upper bounds of the buckets, in nanoseconds. The last bucket, which follows, has none.
    pub const BOUNDS_NANOS: [u64; 17] = Metric::TIME_BOUNDS;

    pub(crate) fn new(key: Key, all: &CumulativeLatencies) -> Self {
        Self {
            key,
            wait: all.wait.counts,
            run: all.run.counts,
            total: all.total.counts,
        }
    }
}

/// Waiting, running and total time of all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CumulativeLatencies {
    pub(crate) wait: Cumulative,
    pub(crate) run: Cumulative,
    pub(crate) total: Cumulative,
}
