//! Rolling counts: how often each kind of event happened within the last seconds.
//!
//! The counters themselves only grow; they are the totals, exact by construction. A window keeps
//! *marks*: the totals at the start of a bucket of time. The count of the window is the difference
//! between the current totals and the totals at its first mark. Counting is therefore one addition
//! to a cell of the thread's own, and one comparison with the end of the current bucket.
//!
//! # Invariants
//!
//! * A writer never waits: it takes the lock of the marks only if it is free, and once per bucket.
//! * A bucket in which nothing was counted or read has no mark: the next mark serves for it.
//! * A count is in exactly one bucket. In a race at a bucket's edge it may be the bucket before the
//!   edge; without a race, it is always the right one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::as_nanos;

use super::cells::Cells;
use crate::error::ConfigError;
use crate::lock::lock;

/// The length of a window and the number of its buckets.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::WindowConfig;
///
/// assert!(WindowConfig::new(Duration::from_secs(10), 10).validate("a window").is_ok());
/// assert!(WindowConfig::new(Duration::from_secs(10), 7).validate("a window").is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// The total length.
    pub length: Duration,
    /// The number of buckets; the length must divide evenly into them.
    pub buckets: u32,
}

impl WindowConfig {
    /// Creates a window of this length with this number of buckets.
    pub const fn new(length: Duration, buckets: u32) -> Self {
        Self { length, buckets }
    }

    /// Checks that the window can be divided into its buckets.
    ///
    /// # Errors
    ///
    /// Returns an error if the window has no buckets, has no length, or does not divide evenly. It
    /// names `timeInMilliseconds` or `numBuckets` of `property`.
    pub fn validate(&self, property: &str) -> Result<(), ConfigError> {
        self.check().map_err(|(part, reason)| {
            let part = match part {
                WindowPart::Length => "timeInMilliseconds",
                WindowPart::Buckets => "numBuckets",
            };
            ConfigError::new("", format!("{property}.{part}"), self, reason)
        })
    }

    /// Returns which part of the window is invalid, and why, if one is.
    pub(crate) fn check(&self) -> Result<(), (WindowPart, &'static str)> {
        let (length, buckets) = (as_nanos(self.length), u64::from(self.buckets));
        let (part, reason) = if length == 0 {
            (WindowPart::Length, "a window needs a length")
        } else if buckets == 0 {
            (WindowPart::Buckets, "a window needs a bucket")
        } else if buckets > MOST_BUCKETS {
            (WindowPart::Buckets, "a window has at most 10000 buckets")
        } else if !length.is_multiple_of(buckets) {
            let reason = "the length does not divide evenly into the buckets";
            (WindowPart::Buckets, reason)
        } else {
            return Ok(());
        };
        Err((part, reason))
    }

    pub(crate) fn bucket_nanos(&self) -> u64 {
        (as_nanos(self.length) / u64::from(self.buckets.max(1))).max(1)
    }
}

/// A part of a window that a property sets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowPart {
    Length,
    Buckets,
}

impl fmt::Display for WindowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {} buckets", self.length, self.buckets)
    }
}

const MOST_BUCKETS: u64 = 10_000;

/// `K` counters with totals and a rolling window.
#[derive(Debug)]
pub(crate) struct Counts<const K: usize> {
    cells: Cells<K>,
    edge: Edge,
    marks: Mutex<Marks<K>>,
}

/// The end of the current bucket, which a writer checks with one load.
#[derive(Debug)]
pub(crate) struct Edge {
    bucket: u64,
    next: AtomicU64,
}

#[derive(Debug)]
struct Marks<const K: usize> {
    buckets: u64,
    /// Bucket numbers and the totals at the start of each bucket; oldest first.
    list: VecDeque<(u64, [u64; K])>,
}

impl<const K: usize> Counts<K> {
    /// Creates counters with this window.
    pub(crate) fn new(window: WindowConfig) -> Self {
        Self {
            cells: Cells::new(),
            edge: Edge::new(window.bucket_nanos()),
            marks: Mutex::new(Marks {
                buckets: u64::from(window.buckets.max(1)),
                list: VecDeque::new(),
            }),
        }
    }

    /// Counts one `kind` at time `now`.
    #[inline]
    pub(crate) fn add(&self, now: u64, kind: usize) {
        if self.edge.is_past(now) {
            self.roll(now);
        }
        self.cells.add(kind);
    }

    /// Returns the totals since the counters were created.
    pub(crate) fn totals(&self) -> [u64; K] {
        self.cells.sum()
    }

    /// Returns the counts of the window that ends with the current bucket, including that bucket.
    pub(crate) fn rolling(&self, now: u64) -> [u64; K] {
        let mut marks = lock(&self.marks);
        let totals = self.totals();
        let bucket = self.edge.bucket_of(now);
        // A reader sets a mark too; otherwise events counted before a pause would look new after
        // it.
        self.mark(&mut marks, bucket, totals);
        let first = bucket.saturating_add(1).saturating_sub(marks.buckets);
        difference(totals, marks.at_start_of(first).unwrap_or(totals))
    }

    /// Returns the counts of the closed buckets of the window, without the current one.
    pub(crate) fn closed(&self, now: u64) -> [u64; K] {
        let mut marks = lock(&self.marks);
        let totals = self.totals();
        let bucket = self.edge.bucket_of(now);
        self.mark(&mut marks, bucket, totals);
        let first = bucket.saturating_sub(marks.buckets);
        let at = |bucket| marks.at_start_of(bucket).unwrap_or(totals);
        difference(at(bucket), at(first))
    }

    /// Returns every window that closed after bucket `since` and up to `now`: the number of the
    /// bucket that began at that moment, and the counts of the buckets before it. Windows that
    /// closed after all counts had left them are omitted.
    pub(crate) fn closings(&self, now: u64, since: u64) -> Vec<(u64, [u64; K])> {
        let mut marks = lock(&self.marks);
        let totals = self.totals();
        let bucket = self.edge.bucket_of(now);
        let at = |bucket: u64| marks.at_start_of(bucket).unwrap_or(totals);
        let last = marks.list.back().map_or(0, |(last, _)| *last);
        let emptied = last.max(since).saturating_add(marks.buckets + 1);
        let until = bucket.min(emptied);
        let windows = (since.saturating_add(1)..=until).map(|end| {
            let first = end.saturating_sub(marks.buckets);
            (end, difference(at(end), at(first)))
        });
        let windows = windows.collect();
        self.mark(&mut marks, bucket, totals);
        windows
    }

    /// Restarts the window: earlier counts remain in the totals only.
    pub(crate) fn restart(&self, now: u64) {
        let mut marks = lock(&self.marks);
        let totals = self.totals();
        let bucket = self.edge.bucket_of(now);
        marks.list.clear();
        marks.list.push_back((bucket, totals));
        self.edge.set(bucket);
    }

    /// Returns the number of the bucket that contains `now`.
    pub(crate) fn bucket_of(&self, now: u64) -> u64 {
        self.edge.bucket_of(now)
    }

    /// Returns the time at which `bucket` begins.
    pub(crate) fn start_of(&self, bucket: u64) -> u64 {
        bucket.saturating_mul(self.edge.bucket)
    }

    /// Returns `true` if nothing was counted in the window.
    pub(crate) fn is_idle(&self, now: u64) -> bool {
        self.rolling(now).iter().all(|&count| count == 0)
    }

    /// Frees the memory of the marks if the window is empty.
    pub(crate) fn shrink(&self, now: u64) {
        if self.is_idle(now) {
            let mut marks = lock(&self.marks);
            marks.list = VecDeque::new();
            self.edge.next.store(0, Ordering::Relaxed);
        }
    }

    #[cold]
    fn roll(&self, now: u64) {
        if let Ok(mut marks) = self.marks.try_lock() {
            let totals = self.totals();
            self.mark(&mut marks, self.edge.bucket_of(now), totals);
        }
    }

    fn mark(&self, marks: &mut Marks<K>, bucket: u64, totals: [u64; K]) {
        if marks.list.back().is_some_and(|(last, _)| *last >= bucket) {
            return;
        }
        marks.list.push_back((bucket, totals));
        // Keeps one mark more than the window has buckets, because the closed buckets begin one
        // earlier.
        let oldest = bucket.saturating_sub(marks.buckets);
        while marks.list.front().is_some_and(|(first, _)| *first < oldest) {
            marks.list.pop_front();
        }
        self.edge.set(bucket);
    }
}

impl<const K: usize> Marks<K> {
    /// Returns the totals at the start of `bucket`, if anything happened in it or since.
    fn at_start_of(&self, bucket: u64) -> Option<[u64; K]> {
        let mut later = self.list.iter().filter(|(at, _)| *at >= bucket);
        later.next().map(|(_, totals)| *totals)
    }
}

impl Edge {
    pub(crate) fn new(bucket: u64) -> Self {
        Self {
            bucket,
            next: AtomicU64::new(0),
        }
    }

    /// Returns `true` if `now` lies after the current bucket.
    #[inline]
    pub(crate) fn is_past(&self, now: u64) -> bool {
        now >= self.next.load(Ordering::Relaxed)
    }

    pub(crate) fn bucket_of(&self, now: u64) -> u64 {
        now / self.bucket
    }

    /// Makes `bucket` the current bucket.
    pub(crate) fn set(&self, bucket: u64) {
        let next = bucket.saturating_add(1).saturating_mul(self.bucket);
        self.next.store(next, Ordering::Relaxed);
    }
}

/// The largest level seen in each bucket and in the window.
#[derive(Debug)]
pub(crate) struct Peak {
    edge: Edge,
    current: AtomicU64,
    closed: Mutex<VecDeque<(u64, u64)>>,
    buckets: u64,
}

impl Peak {
    pub(crate) fn new(window: WindowConfig) -> Self {
        Self {
            edge: Edge::new(window.bucket_nanos()),
            current: AtomicU64::new(0),
            closed: Mutex::default(),
            buckets: u64::from(window.buckets.max(1)),
        }
    }

    /// Records that the level was `level` at `now`.
    #[inline]
    pub(crate) fn note(&self, now: u64, level: u64) {
        if self.edge.is_past(now) {
            self.roll(now, level);
        }
        // A load first: most calls do not raise the peak.
        if self.current.load(Ordering::Relaxed) < level {
            self.current.fetch_max(level, Ordering::Relaxed);
        }
    }

    /// Returns the largest level in the window that ends with the current bucket.
    pub(crate) fn rolling(&self, now: u64, level: u64) -> u64 {
        self.note(now, level);
        let first = (self.edge.bucket_of(now).saturating_add(1)).saturating_sub(self.buckets);
        let closed = lock(&self.closed);
        let known = closed.iter().filter(|(bucket, _)| *bucket >= first);
        let current = self.current.load(Ordering::Relaxed);
        known.map(|(_, peak)| *peak).max().unwrap_or(0).max(current)
    }

    #[cold]
    fn roll(&self, now: u64, level: u64) {
        let Ok(mut closed) = self.closed.try_lock() else {
            return;
        };
        let next = self.edge.next.load(Ordering::Relaxed);
        if now < next {
            return;
        }
        let bucket = self.edge.bucket_of(now);
        let peak = self.current.swap(level, Ordering::Relaxed);
        if next > 0 {
            closed.push_back((next / self.edge.bucket - 1, peak));
        }
        let oldest = bucket.saturating_sub(self.buckets);
        while closed.front().is_some_and(|(first, _)| *first < oldest) {
            closed.pop_front();
        }
        self.edge.set(bucket);
    }
}

fn difference<const K: usize>(new: [u64; K], old: [u64; K]) -> [u64; K] {
    std::array::from_fn(|at| new[at].saturating_sub(old[at]))
}

#[cfg(test)]
mod tests {
    //! The results of a window at its edges. The model in `tests/it` covers the rest.

    use super::*;

    const TEN: WindowConfig = WindowConfig::new(Duration::from_nanos(100), 10);

    #[test]
    fn a_window_that_does_not_divide_is_refused() {
        let bad = WindowConfig::new(Duration::from_nanos(100), 7);
        let error = bad.validate("metrics.rollingStats").unwrap_err();
        assert!(error.reason().contains("divide"), "{error}");
        assert_eq!(error.property(), "metrics.rollingStats.numBuckets");
        let empty = WindowConfig::new(Duration::ZERO, 1).validate("x");
        assert_eq!(empty.unwrap_err().property(), "x.timeInMilliseconds");
        assert!(
            WindowConfig::new(Duration::from_secs(1), 0)
                .validate("x")
                .is_err()
        );
        assert!(TEN.validate("x").is_ok());
    }

    #[test]
    fn counts_leave_the_window_and_stay_in_the_totals() {
        let counts = Counts::<2>::new(TEN);
        counts.add(5, 0);
        counts.add(15, 1);
        assert_eq!(counts.rolling(15), [1, 1]);
        assert_eq!(counts.closed(15), [1, 0], "the current bucket is open");
        assert_eq!(counts.rolling(99), [1, 1]);
        assert_eq!(counts.rolling(100), [0, 1]);
        assert_eq!(counts.rolling(110), [0, 0]);
        assert_eq!(counts.totals(), [1, 1]);
    }

    #[test]
    fn a_pause_longer_than_the_window_clears_it() {
        let counts = Counts::<1>::new(TEN);
        counts.add(0, 0);
        assert_eq!(counts.rolling(1_000_000), [0]);
        counts.add(1_000_001, 0);
        assert_eq!(counts.rolling(1_000_001), [1]);
        assert_eq!(counts.totals(), [2]);
        counts.shrink(2_000_000);
        assert!(counts.is_idle(2_000_000));
        counts.add(2_000_001, 0);
        assert_eq!(counts.rolling(2_000_001), [1]);
    }

    #[test]
    fn a_time_that_is_late_counts_into_the_bucket_that_has_begun() {
        let counts = Counts::<1>::new(TEN);
        counts.add(15, 0);
        // A coarse clock may still return the tick before the edge.
        counts.add(9, 0);
        assert_eq!(counts.closed(15), [0], "bucket 0 was over");
        assert_eq!(counts.rolling(109), [2]);
        assert_eq!(counts.rolling(110), [0], "both leave with bucket 1");
        // A time that is a whole window late, after a pause: no old bucket is used again.
        counts.add(1_000, 0);
        counts.add(120, 0);
        assert_eq!(counts.rolling(1_000), [2]);
        assert_eq!(counts.totals(), [4]);
        // Without any mark, a count goes into its own bucket.
        counts.shrink(2_000);
        counts.add(2_009, 0);
        counts.add(2_011, 0);
        assert_eq!((counts.closed(2_011), counts.rolling(2_011)), ([1], [2]));
    }

    #[test]
    fn totals_are_exact_under_contention() {
        let counts = Counts::<3>::new(TEN);
        std::thread::scope(|scope| {
            for kind in 0..3 {
                let counts = &counts;
                scope.spawn(move || (0..10_000).for_each(|now| counts.add(now, kind)));
            }
            for now in 0..500 {
                counts.rolling(now * 20);
            }
        });
        assert_eq!(counts.totals(), [10_000; 3]);
    }

    #[test]
    fn a_peak_is_the_largest_of_the_window() {
        let peak = Peak::new(TEN);
        peak.note(5, 3);
        peak.note(6, 7);
        peak.note(7, 2);
        peak.note(55, 4);
        assert_eq!(peak.rolling(55, 1), 7);
        assert_eq!(peak.rolling(99, 1), 7);
        assert_eq!(peak.rolling(100, 1), 4);
        assert_eq!(peak.rolling(160, 1), 1);
    }
}
