//! The latencies of a command over a rolling window: waiting time, running time and total time.
//!
//! A call that did not wait has one figure instead of three: its running time is its total time.
//! Such calls go into a separate histogram, so that they cost one addition; a reader counts them in
//! all three figures. The histograms are created when the first call needs them. Their steps are freed
//! when the key has been idle for a window; the sum of what they recorded stays.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};

use super::cells::thread_number;
use super::cumulative::{Cumulative, CumulativeLatencies};
use super::histogram::{Distribution, Histogram, Sparse};
use super::window::{Edge, WindowConfig};
use crate::lock::lock;

/// The number of histograms for calls that did not wait.
const STRIPES: usize = 4;

/// Waiting, running and total time of the calls in a window.
///
/// ```
/// use tidegate_isolate::Latencies;
///
/// let none = Latencies::default();
/// assert_eq!(none.total.count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// From the call to the start of the work: the time in the queue, or the wait for a permit.
    pub wait: Distribution,
    /// From the start of the work to its end.
    pub run: Distribution,
    /// From the call to its result, as the caller saw it.
    pub total: Distribution,
}

/// The histograms of one key.
#[derive(Debug)]
pub(crate) struct Block {
    window: WindowConfig,
    /// Calls that did not wait, striped by thread, so that concurrent threads rarely write to the
    /// same histogram.
    unwaited: [OnceLock<Box<WindowedHistogram>>; STRIPES],
    waited: OnceLock<Box<[WindowedHistogram; 3]>>,
}

impl Block {
    pub(crate) fn new(window: WindowConfig) -> Self {
        Self {
            window,
            unwaited: [const { OnceLock::new() }; STRIPES],
            waited: OnceLock::new(),
        }
    }

    /// Records a call that did not wait.
    #[inline]
    pub(crate) fn record_at_once(&self, now: u64, nanos: u64) {
        self.unwaited[thread_number() % STRIPES]
            .get_or_init(|| Box::new(WindowedHistogram::new(self.window)))
            .record(now, nanos);
    }

    /// Records a call that waited.
    pub(crate) fn record(&self, now: u64, wait: u64, run: u64, total: u64) {
        let make = || std::array::from_fn(|_| WindowedHistogram::new(self.window));
        let figures = self.waited.get_or_init(|| Box::new(make()));
        for (figure, nanos) in figures.iter().zip([wait, run, total]) {
            figure.record(now, nanos);
        }
    }

    pub(crate) fn read(&self, now: u64) -> Latencies {
        let mut latencies = Latencies::default();
        let Latencies { wait, run, total } = &mut latencies;
        for unwaited in self.unwaited.iter().filter_map(OnceLock::get) {
            let both = unwaited.read(now);
            wait.add_zeros(both.count());
            run.merge(&both);
            total.merge(&both);
        }
        if let Some(figures) = self.waited.get() {
            for (figure, sum) in figures.iter().zip([wait, run, total]) {
                sum.merge(&figure.read(now));
            }
        }
        latencies
    }

    /// Returns the latencies of all calls that were recorded in this block.
    pub(crate) fn cumulative(&self, now: u64) -> CumulativeLatencies {
        let mut all = CumulativeLatencies::default();
        for unwaited in self.unwaited.iter().filter_map(OnceLock::get) {
            let both = unwaited.cumulative(now);
            all.wait.add_zeros(both.count());
            all.run.merge(&both);
            all.total.merge(&both);
        }
        if let Some([wait, run, total]) = self.waited.get().map(|all| &**all) {
            all.wait.merge(&wait.cumulative(now));
            all.run.merge(&run.cumulative(now));
            all.total.merge(&total.cumulative(now));
        }
        all
    }

    /// Frees the steps of the histograms without a latency in their window.
    pub(crate) fn free_idle(&self, now: u64) {
        self.all().for_each(|histogram| histogram.free_idle(now));
    }

    /// Returns how many histograms hold memory for their steps.
    pub(crate) fn allocated(&self) -> usize {
        let held = self.all().filter(|one| one.live.is_allocated());
        held.count()
    }

    fn all(&self) -> impl Iterator<Item = &WindowedHistogram> {
        let unwaited = self.unwaited.iter().filter_map(OnceLock::get);
        let waited = self.waited.get().into_iter().flat_map(|all| all.iter());
        unwaited.map(|one| &**one).chain(waited)
    }
}

/// One figure: a histogram of the current bucket, and the contents of the closed buckets.
#[derive(Debug)]
struct WindowedHistogram {
    edge: Edge,
    live: Histogram,
    buckets: u64,
    closed: Mutex<Closed>,
}

#[derive(Debug, Default)]
struct Closed {
    /// The bucket that `live` belongs to.
    current: u64,
    list: VecDeque<(u64, Sparse)>,
    /// The contents of the buckets that have left the list.
    past: Cumulative,
}

impl WindowedHistogram {
    fn new(window: WindowConfig) -> Self {
        Self {
            edge: Edge::new(window.bucket_nanos()),
            live: Histogram::default(),
            buckets: u64::from(window.buckets.max(1)),
            closed: Mutex::default(),
        }
    }

    #[inline]
    fn record(&self, now: u64, nanos: u64) {
        if self.edge.is_past(now) {
            self.roll(now);
        }
        self.live.record(nanos);
    }

    fn read(&self, now: u64) -> Distribution {
        let mut closed = lock(&self.closed);
        self.close(&mut closed, now);
        let mut all = Distribution::default();
        for (_, bucket) in &closed.list {
            all.add_sparse(bucket);
        }
        all.add_sparse(&self.live.read());
        all
    }

    /// Returns everything that was recorded, in the window or before it.
    fn cumulative(&self, now: u64) -> Cumulative {
        let mut closed = lock(&self.closed);
        self.close(&mut closed, now);
        let mut all = closed.past;
        for (_, bucket) in &closed.list {
            all.add_sparse(bucket);
        }
        all.add_sparse(&self.live.read());
        all
    }

    /// Frees the steps if no latency is in the window.
    fn free_idle(&self, now: u64) {
        let mut closed = lock(&self.closed);
        self.close(&mut closed, now);
        if closed.list.is_empty() && self.live.read().is_empty() {
            closed.list = VecDeque::new();
            let late = self.live.free();
            // Recorded since the line above.
            if !late.is_empty() {
                let of = closed.current;
                closed.list.push_back((of, late));
            }
        }
    }

    #[cold]
    fn roll(&self, now: u64) {
        // Does not wait for the lock: the thread that holds it is about to do the same.
        if let Ok(mut closed) = self.closed.try_lock() {
            self.close(&mut closed, now);
        }
    }

    fn close(&self, closed: &mut Closed, now: u64) {
        let bucket = self.edge.bucket_of(now);
        if self.edge.is_past(now) {
            let held = self.live.drain();
            if !held.is_empty() {
                let of = closed.current;
                closed.list.push_back((of, held));
            }
            closed.current = bucket;
            self.edge.set(bucket);
        }
        let first = bucket.saturating_add(1).saturating_sub(self.buckets);
        while closed.list.front().is_some_and(|(at, _)| *at < first) {
            if let Some((_, left)) = closed.list.pop_front() {
                closed.past.add_sparse(&left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Latencies leave the window with their bucket, and calls that did not wait count in all three
    //! figures.

    use super::*;
    use std::time::Duration;

    const WINDOW: WindowConfig = WindowConfig::new(Duration::from_secs(60), 6);
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_call_that_did_not_wait_counts_in_all_three() {
        let block = Block::new(WINDOW);
        block.record_at_once(0, 5_000_000);
        assert_eq!(block.allocated(), 1);
        let reading = block.read(SECOND);
        assert_eq!(reading.wait.percentile(99.0), Duration::ZERO);
        assert_eq!(reading.run, reading.total);
        assert_eq!((reading.wait.count(), reading.run.count()), (1, 1));
    }

    #[test]
    fn waiting_running_and_total_are_three_figures() {
        let block = Block::new(WINDOW);
        block.record(0, 30_000_000, 10_000_000, 40_000_000);
        let reading = block.read(1);
        let near =
            |reading: Duration, ms: f64| (reading.as_secs_f64() * 1e3 - ms).abs() < ms * 0.03;
        assert!(near(reading.wait.max(), 30.0), "{:?}", reading.wait.max());
        assert!(near(reading.run.max(), 10.0), "{:?}", reading.run.max());
        assert!(near(reading.total.max(), 40.0), "{:?}", reading.total.max());
    }

    #[test]
    fn latencies_leave_with_their_bucket() {
        let block = Block::new(WINDOW);
        block.record_at_once(0, 1_000);
        block.record_at_once(10 * SECOND, 2_000);
        assert_eq!(block.read(59 * SECOND).total.count(), 2);
        assert_eq!(block.read(60 * SECOND).total.count(), 1);
        assert_eq!(block.read(70 * SECOND).total.count(), 0);
        let all = block.cumulative(71 * SECOND);
        assert_eq!((all.wait.count(), all.total.count()), (2, 2), "these stay");
        assert_eq!(all.total.sum().as_nanos() / 100, 30);
    }

    #[test]
    fn histograms_are_freed_when_their_window_is_empty() {
        let block = Block::new(WINDOW);
        block.record_at_once(0, 1_000);
        block.record(30 * SECOND, 1, 2, 3);
        block.free_idle(59 * SECOND);
        assert_eq!(block.allocated(), 4, "both are in the window");
        block.free_idle(60 * SECOND);
        assert_eq!(block.allocated(), 3);
        block.free_idle(90 * SECOND);
        assert_eq!(block.allocated(), 0);
        assert_eq!(block.cumulative(91 * SECOND).total.count(), 2, "these stay");
        block.record_at_once(92 * SECOND, 1_000);
        assert_eq!(block.read(92 * SECOND).total.count(), 1);
        assert_eq!(block.cumulative(92 * SECOND).total.count(), 3);
    }
}
