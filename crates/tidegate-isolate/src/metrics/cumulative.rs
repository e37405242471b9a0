//! Cumulative histograms of latencies: all calls since the key was created.
//!
//! The latencies of a window leave it bucket by bucket, and a key that is idle gives its histograms
//! back. What leaves is added up here, so that a call pays nothing for it.

use std::time::Duration;

use super::histogram::{Sparse, middle_of};

/// The upper bounds of the buckets, in nanoseconds. A last bucket without a bound follows.
const BOUNDS: [u64; 17] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

const BUCKETS: usize = BOUNDS.len() + 1;

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
            self.counts[bucket_of(nanos)] += count;
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
        std::array::from_fn(|at| {
            let bound = BOUNDS.get(at).map_or(f64::INFINITY, |nanos| {
                Duration::from_nanos(*nanos).as_secs_f64()
            });
            (bound, self.counts[at])
        })
    }
}

/// Returns the first bucket whose bound is not below `nanos`.
fn bucket_of(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < nanos)
}

/// Waiting, running and total time of all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CumulativeLatencies {
    pub(crate) wait: Cumulative,
    pub(crate) run: Cumulative,
    pub(crate) total: Cumulative,
}

impl CumulativeLatencies {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
        self.total.merge(&other.total);
    }
}

#[cfg(test)]
mod tests {
    //! Buckets include their upper bound, and the bounds read as people write them.

    use super::*;

    #[test]
    fn a_bucket_includes_its_bound() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(50_000), 0);
        assert_eq!(bucket_of(50_001), 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn bounds_are_decimal_seconds_and_end_with_infinity() {
        let bounds = Cumulative::default().buckets().map(|(bound, _)| bound);
        assert_eq!(bounds[..4], [0.00005, 0.0001, 0.00025, 0.0005]);
        assert_eq!(bounds[BUCKETS - 2..], [10.0, f64::INFINITY]);
        assert!(bounds.is_sorted());
    }
}
