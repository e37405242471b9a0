//! Counts of times in nanoseconds, in buckets whose width is at most a 512th of their value.
//!
//! This is the layout of HdrHistogram with about three digits: one row of buckets for each power of
//! two, so that short and long times have the same relative error.

/// The bits of a value that a bucket distinguishes.
const BITS: u32 = 10;
/// The number of buckets in a row. The first row has twice as many.
const ROW: usize = 1 << (BITS - 1);
/// The highest bit of the longest time: about 18 minutes. A longer one counts as this.
const HIGHEST: u32 = 40;
/// The number of buckets.
const BUCKETS: usize = (HIGHEST - BITS + 3) as usize * ROW;

/// Counts of times.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS].into(),
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Counts a time.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.record_many(nanos, 1);
    }

    fn record_many(&mut self, nanos: u64, times: u64) {
        self.counts[bucket(nanos)] += times;
        self.count += times;
        self.sum += u128::from(nanos) * u128::from(times);
        self.max = self.max.max(nanos);
    }

    /// Adds the counts of another histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, others) in self.counts.iter_mut().zip(&other.counts) {
            *own += others;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Returns the counts with those that a closed loop left out: while one request took longer than
    /// `interval`, the time after which each connection usually sends, further ones would have
    /// waited for the rest of that time.
    pub(crate) fn corrected(&self, interval: u64) -> Self {
        let mut corrected = self.clone();
        if interval == 0 {
            return corrected;
        }
        for (at, &times) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, times)| **times > 0)
        {
            let mut missing = highest(at).min(self.max).saturating_sub(interval);
            while missing >= interval {
                corrected.record_many(missing, times);
                missing -= interval;
            }
        }
        corrected
    }

    /// Returns how many times were counted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean of the times, or 0.
    pub(crate) fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Returns the time that `percent` of the times do not exceed, or 0 if there are none.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, times) in self.counts.iter().enumerate() {
            seen += times;
            if seen >= wanted {
                return highest(at).min(self.max);
            }
        }
        self.max
    }
}

/// Returns the bucket of a value.
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << (HIGHEST + 1)) - 1);
    let row = (u64::BITS - nanos.leading_zeros()).saturating_sub(BITS);
    // In the first row this is the value; in each further one, its highest bits.
    row as usize * ROW + (nanos >> row) as usize
}

/// Returns the highest value of a bucket.
fn highest(bucket: usize) -> u64 {
    let row = (bucket / ROW).saturating_sub(1);
    let within = (bucket - row * ROW) as u64;
    ((within + 1) << row) - 1
}

#[cfg(test)]
mod tests {
    //! Buckets and percentiles against a sorted list.

    use super::{Histogram, bucket, highest};

    #[test]
    fn a_bucket_contains_its_values_and_is_narrow() {
        let mut value: u64 = 0;
        while value < 1 << 41 {
            let top = highest(bucket(value));
            assert!(top >= value && top - value <= value / 512, "{value}: {top}");
            assert_eq!(bucket(top), bucket(value));
            assert_eq!(bucket(top + 1), bucket(value) + 1);
            value = value * 9 / 8 + 1;
            if bucket(value) + 1 >= super::BUCKETS {
                break;
            }
        }
        assert_eq!(bucket(u64::MAX), super::BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let mut histogram = Histogram::new();
        let mut list: Vec<u64> = (0..1000).map(|n| (n * 7919) % 1_000_003).collect();
        list.iter().for_each(|value| histogram.record(*value));
        list.sort_unstable();
        for percent in [0.1, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let exact = list[(percent * 10.0) as usize - 1];
            let shown = histogram.percentile(percent);
            assert!(
                shown >= exact && shown - exact <= exact / 500 + 1,
                "{percent}: {shown}"
            );
        }
        assert_eq!(histogram.percentile(100.0), *list.last().unwrap());
        assert_eq!(Histogram::new().percentile(99.0), 0);
    }

    #[test]
    fn a_stall_counts_once_for_each_request_that_it_kept_back() {
        let mut histogram = Histogram::new();
        (0..99).for_each(|_| histogram.record(10));
        histogram.record(100);
        let corrected = histogram.corrected(10);
        // 90, 80, ... 10 are added.
        assert_eq!(corrected.count(), 109);
        assert_eq!(corrected.percentile(99.0), 90);
        assert_eq!(histogram.percentile(99.0), 10);
        assert_eq!(histogram.corrected(0).count(), 100);
    }
}
