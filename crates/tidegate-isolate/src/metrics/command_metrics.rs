//! The counters and histograms of one command, as its calls write them.

use super::config::MetricsConfig;
use super::cumulative::CumulativeLatencies;
use super::event_counts::{CELLS, EventCounts, PlainRejection};
use super::histogram::Histogram;
use super::latency::{Block, Latencies};
use super::window::{Counts, Peak};
use crate::event::Event;

/// The counters and histograms of one command.
#[derive(Debug)]
pub(crate) struct Metrics {
    counts: Counts<CELLS>,
    peak: Peak,
    latency: Block,
    config: MetricsConfig,
}

impl Metrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        Self {
            counts: Counts::new(config.counts),
            peak: Peak::new(config.counts),
            latency: Block::new(config.latencies),
            config,
        }
    }

    /// Counts one event.
    #[inline]
    pub(crate) fn count(&self, now: u64, event: Event) {
        self.counts.add(now, event as usize);
    }

    /// Counts a rejection and the missing fallback with one addition, for a command without a
    /// fallback.
    #[inline]
    pub(crate) fn count_plain_rejection(&self, now: u64, plain: PlainRejection) {
        self.counts.add(now, plain.cell());
    }

    /// Records how many calls run at the same time.
    #[inline]
    pub(crate) fn note_active(&self, now: u64, active: u64) {
        self.peak.note(now, active);
    }

    /// Records the latency of a call that did not wait for a permit or a thread.
    #[inline(always)]
    pub(crate) fn record_at_once(&self, now: u64, nanos: u64) {
        if self.config.record_latencies {
            self.latency.record_at_once(now, nanos);
        }
    }

    /// Records the waiting, running and total time of a call that waited first.
    pub(crate) fn record(&self, now: u64, wait: u64, run: u64, total: u64) {
        if self.config.record_latencies {
            self.latency.record(now, wait, run, total);
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
        self.latency.read(now)
    }

    /// Returns the latencies of all calls since the key was created.
    pub(crate) fn cumulative(&self, now: u64) -> CumulativeLatencies {
        self.latency.cumulative(now)
    }

    /// Frees the histograms, and the memory of the window, if no event was counted and no latency
    /// was recorded in their windows. Returns `true` if there are no histograms now.
    pub(crate) fn reclaim(&self, now: u64) -> bool {
        if self.latency.allocated() > 0 {
            if !self.counts.is_idle(now) {
                return false;
            }
            self.latency.free_idle(now);
        }
        let is_free = self.latency.allocated() == 0;
        if is_free {
            self.counts.shrink(now);
        }
        is_free
    }

    /// Returns the size of the histograms in bytes. The key holds them only while it is in use;
    /// see [`Metrics::reclaim`].
    pub(crate) fn lent_bytes(&self) -> usize {
        self.latency.allocated() * Histogram::BYTES
    }
}
