//! How a part of Tidegate describes its metrics, without knowing which program reads them.
//!
//! Each crate implements [`Collect`] for its own types. An exporter implements [`MetricVisitor`].
//! Neither knows the other, so a new crate joins an existing exporter without a change there.

use std::sync::Arc;
use std::time::Duration;

/// Describes its metrics and their current values.
///
/// The event loops, pools, timers, servers and commands of Tidegate implement it. A program
/// implements it for its own types, to export them together with those.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate_core::{Collect, Metric, MetricVisitor};
///
/// struct Cache {
///     hits: AtomicU64,
/// }
///
/// impl Collect for Cache {
///     fn collect(&self, visitor: &mut dyn MetricVisitor) {
///         let hits = self.hits.load(Ordering::Relaxed) as f64;
///         let metric = Metric::new("cache_hits", "Lookups that found an entry.");
///         visitor.counter(metric, &[("cache", "prices")], hits);
///     }
/// }
/// # let _ = Cache { hits: AtomicU64::new(0) };
/// ```
///
/// # Threads
///
/// `collect` runs on the thread of the exporter, with no lock held. The implementations of Tidegate
/// read counters; none of them waits for a task, a connection or a call.
pub trait Collect {
    /// Passes each metric and its current value to `visitor`.
    fn collect(&self, visitor: &mut dyn MetricVisitor);
}

impl<C: Collect + ?Sized> Collect for Arc<C> {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        (**self).collect(visitor);
    }
}

/// Receives metrics from [`Collect::collect`]. Exporters implement it.
///
/// Labels are pairs of name and value. A metric has the same label names each time, and each
/// combination of label values at most once.
///
/// ```
/// use tidegate_core::{Metric, MetricVisitor};
///
/// /// Prints each counter and each gauge.
/// struct Print;
///
/// impl MetricVisitor for Print {
///     fn counter(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
///         println!("{} {labels:?} {value}", metric.name);
///     }
///     fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
///         self.counter(metric, labels, value);
///     }
///     fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
/// }
/// # Print.gauge(Metric::new("queued", "Jobs that wait."), &[], 3.0);
/// ```
pub trait MetricVisitor {
    /// Receives a number that only grows, except when its owner is created again.
    fn counter(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64);

    /// Receives a number that goes up and down.
    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64);

    /// Receives a distribution of all values since its owner was created.
    ///
    /// Each bucket is an upper bound and the number of values between the bound before it and this
    /// one. The bounds ascend, and the last one is infinite. `sum` is the sum of all values.
    fn histogram(
        &mut self,
        metric: Metric,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        sum: f64,
    );
}

/// The name, the help text and the unit of a metric.
///
/// The name contains neither the unit nor a suffix such as `_total`: an exporter adds what its
/// format demands.
///
/// ```
/// use tidegate_core::Metric;
///
/// let busy = Metric::new("tidegate_loop_busy", "Time in which the loop was awake.").seconds();
/// assert_eq!((busy.name, busy.unit), ("tidegate_loop_busy", "seconds"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name: letters, digits and underscores, not starting with a digit.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// The base unit in the plural, such as `seconds`; empty for a plain number.
    pub unit: &'static str,
}

impl Metric {
    /// The upper bounds of the buckets in Tidegate's histograms of times, in nanoseconds. A last bucket
    /// without a bound follows.
    pub const TIME_BOUNDS: [u64; 17] = [
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
    /// The number of these buckets.
    pub const TIME_BUCKETS: usize = Self::TIME_BOUNDS.len() + 1;

    /// Returns the bucket of a duration: the first one whose bound is not below it.
    #[inline]
    pub fn time_bucket(nanos: u64) -> usize {
        if nanos <= Self::TIME_BOUNDS[0] {
            return 0;
        }
        Self::TIME_BOUNDS.partition_point(|bound| *bound < nanos)
    }

    /// Returns the buckets as [`MetricVisitor::histogram`] takes them: the upper bound of each one in
    /// seconds, with the number of durations in it.
    ///
    /// ```
    /// use tidegate_core::Metric;
    ///
    /// let mut counts = [0; Metric::TIME_BUCKETS];
    /// counts[Metric::time_bucket(70_000)] += 1; // nanoseconds
    /// let buckets = Metric::time_buckets(counts);
    /// assert_eq!(buckets[..2], [(0.00005, 0), (0.0001, 1)]);
    /// ```
    pub fn time_buckets(counts: [u64; Self::TIME_BUCKETS]) -> [(f64, u64); Self::TIME_BUCKETS] {
        std::array::from_fn(|at| {
            let bound = Self::TIME_BOUNDS.get(at).map_or(f64::INFINITY, |nanos| {
                Duration::from_nanos(*nanos).as_secs_f64()
            });
            (bound, counts[at])
        })
    }

    /// Creates a metric without a unit.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            unit: "",
        }
    }

    /// Sets the unit to seconds.
    pub const fn seconds(self) -> Self {
        self.unit("seconds")
    }

    /// Sets the unit to bytes.
    pub const fn bytes(self) -> Self {
        self.unit("bytes")
    }

    /// Sets the unit.
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }
}

/// Gives a visitor several metrics of one kind, each by the end of its name, its help text and its
/// value. With `seconds`, the values are durations.
#[doc(hidden)]
#[macro_export]
macro_rules! describe_metrics {
    ($visitor:expr, $labels:expr, $kind:ident $prefix:literal:
     $($name:ident $help:literal = $value:expr;)*) => {$(
        let metric = $crate::Metric::new(concat!($prefix, stringify!($name)), $help);
        $visitor.$kind(metric, $labels, $value as f64);
    )*};
    ($visitor:expr, $labels:expr, $kind:ident seconds $prefix:literal:
     $($name:ident $help:literal = $value:expr;)*) => {$(
        let metric = $crate::Metric::new(concat!($prefix, stringify!($name)), $help).seconds();
        $visitor.$kind(metric, $labels, $value.as_secs_f64());
    )*};
}

#[cfg(test)]
mod tests {
    //! Buckets of times include their upper bound, and the bounds read as people write them.

    use super::*;

    #[test]
    fn a_bucket_of_times_includes_its_bound() {
        assert_eq!(Metric::time_bucket(0), 0);
        assert_eq!(Metric::time_bucket(50_000), 0);
        assert_eq!(Metric::time_bucket(50_001), 1);
        assert_eq!(Metric::time_bucket(u64::MAX), Metric::TIME_BUCKETS - 1);
    }

    #[test]
    fn bounds_of_times_are_decimal_seconds_and_end_with_infinity() {
        let buckets = Metric::time_buckets([0; Metric::TIME_BUCKETS]);
        let bounds = buckets.map(|(bound, _)| bound);
        assert_eq!(bounds[..4], [0.00005, 0.0001, 0.00025, 0.0005]);
        assert_eq!(bounds[Metric::TIME_BUCKETS - 2..], [10.0, f64::INFINITY]);
        assert!(bounds.is_sorted());
    }
}
