//! A histogram of durations that one thread at a time records into.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Metric;

pub(super) const BUCKETS: usize = Metric::TIME_BUCKETS;

/// The number and the sum of durations, by bucket.
#[derive(Debug, Default)]
pub(crate) struct Times {
    counts: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// Adds to a counter. No other thread may add to it at the same time.
#[inline]
pub(super) fn add(counter: &AtomicU64, number: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(number);
    counter.store(sum, Ordering::Relaxed);
}

impl Times {
    /// Adds `number` durations of `nanos` each. No other thread may record at the same time.
    #[inline]
    pub(super) fn record(&self, nanos: u64, number: u64) {
        add(&self.counts[Metric::time_bucket(nanos)], number);
        add(&self.nanos, nanos.saturating_mul(number));
    }

    /// Returns the sum of the durations, in nanoseconds.
    pub(super) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// Returns the upper bound of each bucket in seconds, with the number of durations in it.
    pub(super) fn buckets(&self) -> [(f64, u64); BUCKETS] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metric::time_buckets(self.counts.each_ref().map(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_includes_its_bound() {
        let times = Times::default();
        for (nanos, bucket) in [(0, 0), (50_000, 0), (50_001, 1), (u64::MAX, BUCKETS - 1)] {
            assert_eq!(Metric::time_bucket(nanos), bucket, "{nanos}");
            times.record(nanos.min(1 << 40), 2);
        }
        let buckets = times.buckets();
        assert_eq!(buckets[0], (0.00005, 4));
        assert_eq!(buckets[1], (0.0001, 2));
        assert_eq!(buckets[BUCKETS - 1], (f64::INFINITY, 2));
        assert_eq!(times.nanos(), 2 * (100_001 + (1 << 40)));
    }
}
