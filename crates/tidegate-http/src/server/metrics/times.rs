//! A histogram of durations that threads record into.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in nanoseconds; the same as those of commands. A last bucket
/// without a bound follows.
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

pub(super) const BUCKETS: usize = BOUNDS.len() + 1;

/// The number and the sum of durations, by bucket.
#[derive(Debug, Default)]
pub(crate) struct Times {
    counts: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// Adds to a counter. `one_writer`: no other thread adds to it at the same time.
#[inline]
pub(super) fn add(counter: &AtomicU64, number: u64, one_writer: bool) {
    if one_writer {
        let sum = counter.load(Ordering::Relaxed).wrapping_add(number);
        counter.store(sum, Ordering::Relaxed);
    } else {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

impl Times {
    /// Adds `number` durations of `nanos` each.
    #[inline]
    pub(super) fn record(&self, nanos: u64, number: u64, one_writer: bool) {
        let bucket = match nanos <= BOUNDS[0] {
            true => 0,
            false => bucket_of(nanos),
        };
        add(&self.counts[bucket], number, one_writer);
        add(&self.nanos, nanos.saturating_mul(number), one_writer);
    }

    /// Returns the sum of the durations, in nanoseconds.
    pub(super) fn nanos(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// Returns the upper bound of each bucket in seconds, with the number of durations in it.
    pub(super) fn buckets(&self) -> [(f64, u64); BUCKETS] {
        std::array::from_fn(|at| {
            let bound = BOUNDS.get(at).map_or(f64::INFINITY, |nanos| {
                Duration::from_nanos(*nanos).as_secs_f64()
            });
            (bound, self.counts[at].load(Ordering::Relaxed))
        })
    }
}

/// Returns the first bucket whose bound is not below `nanos`.
fn bucket_of(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_includes_its_bound() {
        let times = Times::default();
        for (nanos, bucket) in [(0, 0), (50_000, 0), (50_001, 1), (u64::MAX, BUCKETS - 1)] {
            assert_eq!(bucket_of(nanos), bucket, "{nanos}");
            times.record(nanos.min(1 << 40), 2, true);
        }
        let buckets = times.buckets();
        assert_eq!(buckets[0], (0.00005, 4));
        assert_eq!(buckets[1], (0.0001, 2));
        assert_eq!(buckets[BUCKETS - 1], (f64::INFINITY, 2));
        assert_eq!(times.nanos(), 2 * (100_001 + (1 << 40)));
    }
}
