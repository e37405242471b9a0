//! A log-linear histogram of durations: 4 KiB, with an error of at most 3 %.
//!
//! Each power of two is divided into [`STEPS`] equal steps, so a step is at most 1/32 of its value
//! wide, and its middle is at most 1/64 away from the recorded value. Below 32 units the steps are
//! exact. The unit is 16 ns and the range ends at about 18 minutes; longer durations count as the
//! highest step.
//!
//! The steps are allocated by the first record, and freed on request. A record only tries for the
//! lock that protects them from being freed: it succeeds unless another thread allocates or frees them
//! at this moment. Recording is then one relaxed addition. `drain` swaps each step with zero, so that
//! no record is lost or seen twice while other threads record.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tidegate_core::internal::unpoisoned;

/// Steps in one power of two.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Low bits that the unit of 16 ns drops.
const UNIT_BITS: u32 = 4;
/// The total number of steps.
const LEN: usize = 1024;
/// The largest distinguished value, in units; larger values fall into the highest step.
const TOP: u64 = (1 << (STEP_BITS as u64 + (LEN / STEPS) as u64 - 1)) - 1;

/// A histogram of durations that many threads record into.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// `None` until the first record, and after `free`.
    steps: RwLock<Option<Box<[AtomicU32]>>>,
}

impl Histogram {
    /// The size of the steps.
    pub(crate) const BYTES: usize = LEN * size_of::<AtomicU32>();

    /// Adds one duration, in nanoseconds.
    #[inline]
    pub(crate) fn record(&self, nanos: u64) {
        let step = step_of(nanos);
        if let Ok(steps) = self.steps.try_read()
            && let Some(steps) = &*steps
        {
            steps[step].fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.record_first(step);
    }

    #[cold]
    fn record_first(&self, step: usize) {
        let mut steps = unpoisoned(self.steps.write());
        let make = || (0..LEN).map(|_| AtomicU32::new(0)).collect();
        *steps.get_or_insert_with(make)[step].get_mut() += 1;
    }

    /// Removes and returns all counts.
    pub(crate) fn drain(&self) -> Sparse {
        self.collect(|step| step.swap(0, Ordering::Relaxed))
    }

    /// Returns the current counts.
    pub(crate) fn read(&self) -> Sparse {
        self.collect(|step| step.load(Ordering::Relaxed))
    }

    /// Frees the steps, and returns the counts that they still held.
    pub(crate) fn free(&self) -> Sparse {
        let mut steps = unpoisoned(self.steps.write());
        let freed = Self {
            steps: RwLock::new(steps.take()),
        };
        drop(steps);
        freed.read()
    }

    /// Returns `true` while the histogram holds memory for its steps.
    pub(crate) fn is_allocated(&self) -> bool {
        let steps = unpoisoned(self.steps.read());
        steps.is_some()
    }

    fn collect(&self, take: impl Fn(&AtomicU32) -> u32) -> Sparse {
        let mut counts = Vec::new();
        let steps = unpoisoned(self.steps.read());
        for (at, step) in steps.iter().flatten().enumerate() {
            // Most steps are empty, and a load is cheaper than a swap.
            if step.load(Ordering::Relaxed) != 0 {
                let count = take(step);
                if count != 0 {
                    counts.push((at as u16, count));
                }
            }
        }
        Sparse { counts }
    }
}

/// The contents of a histogram without its empty steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sparse {
    counts: Vec<(u16, u32)>,
}

impl Sparse {
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the steps that are not empty, with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.counts.iter();
        counts.map(|&(step, count)| (usize::from(step), u64::from(count)))
    }
}

/// A distribution of durations: the merged contents of a latency window.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::Distribution;
///
/// let mut latencies = Distribution::default();
/// for ms in 1..=100 {
///     latencies.record(Duration::from_millis(ms));
/// }
/// let p99 = latencies.percentile(99.0).as_secs_f64() * 1e3;
/// assert!((p99 - 99.0).abs() <= 99.0 * 0.03);
/// assert_eq!(latencies.count(), 100);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Counts by step; shorter than the histogram when the highest steps are empty.
    counts: Vec<u64>,
    count: u64,
}

impl Distribution {
    /// Adds one duration.
    pub fn record(&mut self, duration: Duration) {
        self.add(step_of(tidegate_core::internal::as_nanos(duration)), 1);
    }

    /// Adds all durations of `other`.
    pub fn merge(&mut self, other: &Distribution) {
        for (step, &count) in other.counts.iter().enumerate() {
            self.add(step, count);
        }
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the duration at or below which `percent` of all durations lie; zero if there are
    /// none. A `percent` outside of 0 to 100 counts as the nearer bound.
    pub fn percentile(&self, percent: f64) -> Duration {
        let share = (percent / 100.0).clamp(0.0, 1.0);
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(middle_of(step));
            }
        }
        Duration::ZERO
    }

    /// Returns the mean; zero if the distribution is empty.
    pub fn mean(&self) -> Duration {
        let sum: u128 = self
            .counts
            .iter()
            .enumerate()
            .map(|(step, &count)| u128::from(middle_of(step)) * u128::from(count))
            .sum();
        let mean = sum.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_nanos(mean as u64)
    }

    /// Returns the longest duration; zero if the distribution is empty.
    pub fn max(&self) -> Duration {
        self.percentile(100.0)
    }

    pub(crate) fn add_sparse(&mut self, sparse: &Sparse) {
        for (step, count) in sparse.iter() {
            self.add(step, count);
        }
    }

    /// Adds `count` durations of zero.
    pub(crate) fn add_zeros(&mut self, count: u64) {
        self.add(0, count);
    }

    fn add(&mut self, step: usize, count: u64) {
        if count == 0 {
            return;
        }
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += count;
        self.count += count;
    }
}

debug_fields!(Distribution, this =>
    count: this.count, p50: this.percentile(50.0), p99: this.percentile(99.0), max: this.max());

/// Returns the step that `nanos` falls into.
#[inline]
fn step_of(nanos: u64) -> usize {
    let units = (nanos >> UNIT_BITS).min(TOP);
    // Below `2 * STEPS` units the step equals the value.
    let octave = (u64::BITS - (units | (STEPS as u64 - 1)).leading_zeros()) - STEP_BITS;
    let shifted = units >> octave.saturating_sub(1);
    match octave {
        0 => units as usize,
        _ => (octave as usize) * STEPS + (shifted as usize - STEPS),
    }
}

/// Returns the middle of the values of `step`, in nanoseconds.
pub(super) fn middle_of(step: usize) -> u64 {
    let octave = step / STEPS;
    if octave == 0 {
        return if step == 0 {
            0
        } else {
            (step as u64) << UNIT_BITS
        };
    }
    let width = 1_u64 << (octave - 1);
    let low = ((step % STEPS + STEPS) as u64) * width;
    (low << UNIT_BITS) + ((width << UNIT_BITS) / 2)
}

#[cfg(test)]
mod tests {
    //! No duration is off by more than 3 %, and no record is lost.

    use super::*;

    #[test]
    fn every_duration_is_within_three_percent_of_its_step() {
        let mut nanos = 512_u64;
        while nanos < 800_000_000_000 {
            for probe in [nanos, nanos + nanos / 3, nanos + nanos / 7] {
                let middle = middle_of(step_of(probe));
                let error = middle.abs_diff(probe) as f64 / probe as f64;
                assert!(error <= 0.03, "{probe} is reported as {middle}");
            }
            nanos += nanos / 11 + 1;
        }
    }

    #[test]
    fn short_durations_are_within_one_unit() {
        for nanos in 0..1_024 {
            assert!(middle_of(step_of(nanos)).abs_diff(nanos) <= 24, "{nanos}");
        }
    }

    #[test]
    fn steps_are_in_order_and_the_longest_has_a_place() {
        let mut last = 0;
        for units in 0..100_000_u64 {
            let step = step_of(units << UNIT_BITS);
            assert!(step == last || step == last + 1, "{units}");
            last = step;
        }
        assert_eq!(step_of(u64::MAX), LEN - 1);
        assert_eq!(step_of(TOP << UNIT_BITS), LEN - 1);
    }

    #[test]
    fn four_kibibytes() {
        let histogram = Histogram::default();
        assert!(!histogram.is_allocated());
        histogram.record(1);
        let steps = histogram.steps.read().expect("no record panicked");
        assert_eq!(size_of_val(steps.as_deref().expect("allocated")), 4096);
        assert_eq!(Histogram::BYTES, 4096);
    }

    #[test]
    fn freeing_while_others_record_loses_nothing() {
        let histogram = Histogram::default();
        let mut all = Distribution::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for nanos in 0..20_000 {
                    histogram.record(nanos);
                }
            });
            while !writer.is_finished() {
                all.add_sparse(&histogram.free());
            }
        });
        all.add_sparse(&histogram.free());
        assert_eq!(all.count(), 20_000);
        assert!(!histogram.is_allocated());
    }

    #[test]
    fn draining_while_others_record_loses_nothing() {
        let histogram = Histogram::default();
        let mut all = Distribution::default();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2_u64)
                .map(|who| {
                    let histogram = &histogram;
                    scope.spawn(move || {
                        for n in 0..20_000 {
                            histogram.record(n * 100 + who);
                        }
                    })
                })
                .collect();
            while !writers.iter().all(|writer| writer.is_finished()) {
                all.add_sparse(&histogram.drain());
            }
        });
        all.add_sparse(&histogram.drain());
        assert_eq!(all.count(), 40_000);
        assert!(histogram.read().is_empty());
    }

    #[test]
    fn percentiles_of_nothing_are_zero() {
        let nothing = Distribution::default();
        assert_eq!(nothing.percentile(50.0), Duration::ZERO);
        assert_eq!(
            (nothing.mean(), nothing.max()),
            (Duration::ZERO, Duration::ZERO)
        );
    }
}
