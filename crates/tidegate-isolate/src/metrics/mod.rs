//! What a command counts and measures.
//!
//! # Invariants
//!
//! * Reading never blocks a writer, and a writer takes no lock that a reader waits for long.
//! * Totals are exact: each outcome is added once, by whoever decided it.
//! * An idle key holds counters only; histograms come with the first call and go when the key has
//!   been idle for a window.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::{Event, Events};

mod cells;
mod histogram;
mod latency;
mod window;

pub use self::histogram::Distribution;
pub use self::latency::Latencies;
pub use self::window::WindowConfig;

use self::latency::Block;
pub(crate) use self::window::{Counts, Peak};

/// The windows of a command's metrics.
///
/// ```
/// use tidegate_isolate::MetricsConfig;
///
/// assert_eq!(MetricsConfig::default().counts.buckets, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The window of the counters.
    pub counts: WindowConfig,
    /// The window of the latencies.
    pub latencies: WindowConfig,
    /// Whether latencies are recorded.
    pub record_latencies: bool,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            counts: WindowConfig::new(Duration::from_secs(10), 10),
            latencies: WindowConfig::new(Duration::from_secs(60), 6),
            record_latencies: true,
        }
    }
}

/// How often each event happened.
///
/// ```
/// use tidegate_isolate::{Event, EventCounts};
///
/// assert_eq!(EventCounts::default()[Event::Success], 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    counts: [u64; Event::COUNT],
}

impl EventCounts {
    /// Errors that reach a caller are not counted apart: they follow from the other counts, but
    /// for those that had no such end.
    pub(crate) fn new(cells: [u64; CELLS]) -> Self {
        let mut counts: [u64; Event::COUNT] = std::array::from_fn(|at| cells[at]);
        for plain in Plain::ALL {
            let count = cells[plain.cell()];
            counts[plain.event() as usize] += count;
            counts[Event::FallbackMissing as usize] += count;
        }
        let thrown = [
            Event::BadRequest,
            Event::FallbackFailure,
            Event::FallbackRejection,
            Event::FallbackDisabled,
            Event::FallbackMissing,
        ];
        let thrown: u64 = thrown.iter().map(|event| counts[*event as usize]).sum();
        counts[Event::ExceptionThrown as usize] += thrown;
        Self { counts }
    }

    /// Every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> {
        Event::ALL.into_iter().zip(self.counts)
    }

    /// Calls that count for the health of the dependency: successes, failures, timeouts and
    /// rejections by a bulkhead.
    pub fn health_total(&self) -> u64 {
        self[Event::Success] + self.health_errors()
    }

    /// Of these, the ones that did not succeed.
    pub fn health_errors(&self) -> u64 {
        self[Event::Failure]
            + self[Event::Timeout]
            + self[Event::PoolRejected]
            + self[Event::PermitsRejected]
    }

    /// Errors in percent of the total, truncated; 0 when nothing was counted.
    pub fn error_percent(&self) -> u64 {
        (self.health_errors() * 100)
            .checked_div(self.health_total())
            .unwrap_or(0)
    }
}

impl std::ops::Index<Event> for EventCounts {
    type Output = u64;

    fn index(&self, event: Event) -> &u64 {
        &self.counts[event as usize]
    }
}

/// A refusal by a command without a fallback: what says so and what says that there is no
/// fallback are one count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Permits,
    Pool,
    Open,
}

impl Plain {
    const ALL: [Plain; 3] = [Self::Permits, Self::Pool, Self::Open];

    #[inline]
    const fn cell(self) -> usize {
        Event::COUNT + self as usize
    }

    #[inline]
    const fn event(self) -> Event {
        match self {
            Self::Permits => Event::PermitsRejected,
            Self::Pool => Event::PoolRejected,
            Self::Open => Event::ShortCircuited,
        }
    }

    /// What such a call is told to have gone through.
    #[inline]
    pub(crate) const fn events(self) -> Events {
        Events::of_three(self.event(), Event::FallbackMissing, Event::ExceptionThrown)
    }
}

/// One for each event, and the plain refusals.
const CELLS: usize = Event::COUNT + Plain::ALL.len();

/// The counters and histograms of one command.
#[derive(Debug)]
pub(crate) struct Metrics {
    counts: Counts<CELLS>,
    peak: Peak,
    latency: ArcSwapOption<Block>,
    config: MetricsConfig,
}

impl Metrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        Self {
            counts: Counts::new(config.counts),
            peak: Peak::new(config.counts),
            latency: ArcSwapOption::empty(),
            config,
        }
    }

    /// Counts one event.
    #[inline]
    pub(crate) fn count(&self, now: u64, event: Event) {
        self.counts.add(now, event as usize);
    }

    /// Counts a refusal by a command without a fallback.
    #[inline]
    pub(crate) fn count_plain(&self, now: u64, plain: Plain) {
        self.counts.add(now, plain.cell());
    }

    /// Notes how many calls run at the same time.
    #[inline]
    pub(crate) fn note_active(&self, now: u64, active: u64) {
        self.peak.note(now, active);
    }

    /// Records a call that did not wait.
    #[inline]
    pub(crate) fn record_at_once(&self, now: u64, nanos: u64) {
        if !self.config.record_latencies {
            return;
        }
        match &*self.latency.load() {
            Some(block) => block.record_at_once(now, nanos),
            None => self.borrow_block().record_at_once(now, nanos),
        }
    }

    /// Records a call that waited first.
    pub(crate) fn record(&self, now: u64, wait: u64, run: u64, total: u64) {
        if self.config.record_latencies {
            match &*self.latency.load() {
                Some(block) => block.record(now, wait, run, total),
                None => self.borrow_block().record(now, wait, run, total),
            }
        }
    }

    pub(crate) fn rolling(&self, now: u64) -> EventCounts {
        EventCounts::new(self.counts.rolling(now))
    }

    pub(crate) fn closed(&self, now: u64) -> EventCounts {
        EventCounts::new(self.counts.closed(now))
    }

    pub(crate) fn totals(&self) -> EventCounts {
        EventCounts::new(self.counts.totals())
    }

    pub(crate) fn peak(&self, now: u64, active: u64) -> u64 {
        self.peak.rolling(now, active)
    }

    pub(crate) fn latencies(&self, now: u64) -> Latencies {
        let block = self.latency.load_full();
        block.map(|block| block.read(now)).unwrap_or_default()
    }

    /// Gives the histograms back if nothing was counted in their window; answers whether it has
    /// none now.
    pub(crate) fn reclaim(&self, now: u64) -> bool {
        let Some(block) = self.latency.load_full() else {
            self.counts.shrink(now);
            return true;
        };
        let idle = self.counts.is_idle(now) && block.read(now).total.count() == 0;
        if idle {
            self.latency.store(None);
            self.counts.shrink(now);
        }
        idle
    }

    /// Bytes that this key holds because it is in use.
    pub(crate) fn lent_bytes(&self) -> usize {
        let block = self.latency.load_full();
        block.map_or(0, |block| block.histograms() * 4096)
    }

    #[cold]
    fn borrow_block(&self) -> Arc<Block> {
        let fresh = Arc::new(Block::new(self.config.latencies));
        self.latency
            .rcu(|old| Some(old.clone().unwrap_or_else(|| Arc::clone(&fresh))));
        self.latency.load_full().unwrap_or(fresh)
    }
}
