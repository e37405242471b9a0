//! The counters and histograms of one command, as its calls write them.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use super::config::MetricsConfig;
use super::cumulative::CumulativeLatencies;
use super::event_counts::{CELLS, EventCounts, PlainRejection};
use super::latency::{Block, Latencies};
use super::window::{Counts, Peak};
use crate::event::Event;

/// The counters and histograms of one command.
#[derive(Debug)]
pub(crate) struct Metrics {
    counts: Counts<CELLS>,
    peak: Peak,
    latency: ArcSwapOption<Block>,
    /// The latencies of the histograms that were freed. No call takes this lock.
    freed: Mutex<Option<Box<CumulativeLatencies>>>,
    config: MetricsConfig,
}

impl Metrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        Self {
            counts: Counts::new(config.counts),
            peak: Peak::new(config.counts),
            latency: ArcSwapOption::empty(),
            freed: Mutex::default(),
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
        if !self.config.record_latencies {
            return;
        }
        match &*self.latency.load() {
            Some(block) => block.record_at_once(now, nanos),
            None => self.borrow_block().record_at_once(now, nanos),
        }
    }

    /// Records the waiting, running and total time of a call that waited first.
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

    /// Returns the latencies of all calls since the key was created.
    pub(crate) fn cumulative(&self, now: u64) -> CumulativeLatencies {
        // Locked first: `reclaim` moves the latencies of a block here in one step.
        let freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = freed.as_deref().copied().unwrap_or_default();
        if let Some(block) = self.latency.load_full() {
            all.merge(&block.cumulative(now));
        }
        all
    }

    /// Frees the histograms, and the memory of the window, if no event was counted and no latency
    /// was recorded in their windows. Returns `true` if there are no histograms now. A latency that
    /// is recorded at the same moment may be lost.
    pub(crate) fn reclaim(&self, now: u64) -> bool {
        let Some(block) = self.latency.load_full() else {
            self.counts.shrink(now);
            return true;
        };
        let idle = self.counts.is_idle(now) && block.read(now).total.count() == 0;
        if idle {
            let mut freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(block) = self.latency.swap(None) {
                let all = block.cumulative(now);
                freed.get_or_insert_default().merge(&all);
            }
            drop(freed);
            self.counts.shrink(now);
        }
        idle
    }

    /// Returns the size of the histograms in bytes. The key holds them only while it is in use;
    /// see [`Metrics::reclaim`].
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
