//! Ten minutes of the gateway: all routes, their servers, the loops, the log of changes.
//!
//! Pure data: a sample goes in twice a second, and frames come out (`frame`). The caller says what
//! time it is.
//!
//! # Invariants
//!
//! * Each row has the number of the sample in which it changed last. What a page has missed since a
//!   sample follows from these numbers alone, so no page has a queue.
//! * Each list is bounded, for each route and over all of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_isolate::LatencyTotals;

use super::figures::{Figures, STATES};
use super::reports::{Knob, LoopReport, UpstreamReport};
use super::servers::Servers;
use super::track::{BUCKETS, COLUMNS, HEAT_BUCKETS, SAMPLES, Track};
use super::watch::{Seen, What};

/// The period of samples.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// The number of entries of the log.
pub(crate) const LOGGED: usize = 1024;

/// Everything about one moment.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) time_ms: u64,
    /// Whether it is the sample of a period. Others only show the present.
    pub(crate) is_tick: bool,
    pub(crate) is_ready: bool,
    pub(crate) figures: Vec<Figures>,
    /// Needed when [`History::wants_latencies`].
    pub(crate) latencies: Vec<LatencyTotals>,
    pub(crate) upstreams: Vec<UpstreamReport>,
    pub(crate) loops: Vec<LoopReport>,
    pub(crate) knobs: Vec<Knob>,
    /// What routes have reported since the last sample.
    pub(crate) seen: VecDeque<Seen>,
    /// What operators have changed since the last sample, the oldest entry first.
    pub(crate) changes: Vec<Entry>,
}

/// The kinds of entries of the log: name and title. A new kind needs a row here.
pub(crate) const EVENTS: &[(&str, &str)] = &[
    ("breaker", "Breakers"),
    ("server", "Servers"),
    ("loop", "Loops"),
    ("change", "Changes"),
];

/// An entry of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) time_ms: u64,
    /// One of [`EVENTS`].
    pub(crate) kind: &'static str,
    pub(crate) origin: String,
    pub(crate) what: String,
    pub(crate) route: Option<String>,
    /// The sample with which it came.
    pub(crate) sample: u64,
}

/// A loop, and its share of time since the last sample.
#[derive(Debug)]
pub(crate) struct LoopNow {
    pub(crate) report: LoopReport,
    pub(crate) busy: f64,
}

/// Ten minutes of the gateway.
#[derive(Debug)]
pub(crate) struct History {
    /// Distinguishes this process from the one before.
    pub(crate) epoch: String,
    /// The number of the last sample; 0 before the first one.
    pub(crate) sample: u64,
    /// The number of samples of a period.
    ticks: u64,
    /// The samples with which the last two buckets ended, the last one first.
    pub(crate) closed: [u64; 2],
    pub(crate) time_ms: u64,
    pub(crate) is_ready: bool,
    pub(crate) tracks: BTreeMap<String, Track>,
    /// The sample in which a route was added or removed last.
    pub(crate) keys_changed: u64,
    pub(crate) servers: Servers,
    pub(crate) servers_changed: u64,
    pub(crate) loops: Vec<LoopNow>,
    pub(crate) knobs: Vec<Knob>,
    pub(crate) knobs_changed: u64,
    /// The latest entry last.
    pub(crate) log: VecDeque<Entry>,
    /// When each bucket ended, the oldest one first; and the number of the first one.
    pub(crate) times: VecDeque<u64>,
    pub(crate) first: u64,
    /// When each column of the heat map ended.
    pub(crate) columns: VecDeque<u64>,
}

impl History {
    /// Creates an empty history. `start_ms` is the time of the start.
    pub(crate) fn new(start_ms: u64) -> Self {
        Self {
            epoch: format!("{start_ms:x}"),
            sample: 0,
            ticks: 0,
            closed: [0; 2],
            time_ms: start_ms,
            is_ready: false,
            tracks: BTreeMap::new(),
            keys_changed: 0,
            servers: Servers::new(),
            servers_changed: 0,
            loops: Vec::new(),
            knobs: Vec::new(),
            knobs_changed: 0,
            log: VecDeque::new(),
            times: VecDeque::new(),
            first: 0,
            columns: VecDeque::new(),
        }
    }

    /// Returns `true` if the next sample of a period ends a column of the heat map.
    pub(crate) fn wants_latencies(&self) -> bool {
        (self.ticks + 1) % (SAMPLES * HEAT_BUCKETS) == 1
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, sample: Sample) {
        self.sample += 1;
        let elapsed = sample.time_ms.saturating_sub(self.time_ms);
        (self.time_ms, self.is_ready) = (sample.time_ms, sample.is_ready);
        self.match_keys(&sample.figures);
        for seen in sample.seen {
            self.note_seen(seen);
        }
        for entry in sample.changes {
            self.log(entry);
        }
        if self.servers.sample(sample.upstreams, sample.is_tick) {
            self.servers_changed = self.sample;
        }
        if sample.knobs != self.knobs {
            (self.knobs, self.knobs_changed) = (sample.knobs, self.sample);
        }
        self.set_loops(sample.loops, elapsed);
        let now = (self.sample, self.time_ms);
        for figures in &sample.figures {
            let upstream = figures.route.upstream.as_ref();
            let mut upstreams = self.servers.upstreams.iter();
            let upstream = upstream.and_then(|name| upstreams.find(|one| one.name == *name));
            if let Some(track) = self.tracks.get_mut(&figures.key) {
                track.sample(figures, upstream, now);
            }
        }
        if sample.is_tick {
            self.ticks += 1;
            self.close(&sample.figures, &sample.latencies);
        }
    }

    /// Adds and removes routes.
    fn match_keys(&mut self, figures: &[Figures]) {
        let before = self.tracks.len();
        let is_there = |key: &String| figures.binary_search_by(|one| one.key.cmp(key)).is_ok();
        self.tracks.retain(|key, _| is_there(key));
        let mut has_changed = self.tracks.len() != before;
        let bucket = self.first + self.times.len() as u64;
        for one in figures {
            if !self.tracks.contains_key(&one.key) {
                has_changed = true;
                let track = Track::new(one, bucket);
                self.tracks.insert(one.key.clone(), track);
            }
        }
        if has_changed {
            self.keys_changed = self.sample;
        }
    }

    /// Takes a report of a route. A transition of a breaker is also an entry of the log.
    fn note_seen(&mut self, seen: Seen) {
        if let What::Breaker { from, to } = seen.what {
            let entry = Entry {
                time_ms: seen.time_ms,
                kind: "breaker",
                origin: "breaker".to_owned(),
                what: format!("{}: {} to {}", seen.key, STATES[from], STATES[to]),
                route: Some(seen.key.clone()),
                sample: 0,
            };
            self.log(entry);
        }
        if let Some(track) = self.tracks.get_mut(&seen.key) {
            track.report(seen);
        }
    }

    fn log(&mut self, entry: Entry) {
        if self.log.len() == LOGGED {
            self.log.pop_front();
        }
        let sample = self.sample;
        self.log.push_back(Entry { sample, ..entry });
    }

    fn set_loops(&mut self, loops: Vec<LoopReport>, elapsed_ms: u64) {
        let before = std::mem::take(&mut self.loops);
        let now = loops.into_iter().map(|report| {
            let mut before = before.iter();
            let before = before.find(|one| one.report.name == report.name);
            let busy = match before {
                Some(one) => report.busy.saturating_sub(one.report.busy),
                None => Duration::ZERO,
            };
            let busy = match elapsed_ms {
                0 => 0.0,
                elapsed => (busy.as_secs_f64() * 1000.0 / elapsed as f64).min(1.0),
            };
            LoopNow { report, busy }
        });
        self.loops = now.collect();
    }

    /// Closes the buckets and columns that end with this sample.
    fn close(&mut self, figures: &[Figures], latencies: &[LatencyTotals]) {
        if !latencies.is_empty() {
            if self.columns.len() == COLUMNS {
                self.columns.pop_front();
            }
            self.columns.push_back(self.time_ms);
        }
        for now in latencies {
            if let Some(track) = self.tracks.get_mut(now.key.as_str()) {
                track.close_column(now);
            }
        }
        if !self.ticks.is_multiple_of(SAMPLES) {
            return;
        }
        self.closed = [self.sample, self.closed[0]];
        if self.times.len() == BUCKETS {
            self.times.pop_front();
            self.first += 1;
        }
        self.times.push_back(self.time_ms);
        for one in figures {
            if let Some(track) = self.tracks.get_mut(&one.key) {
                track.close_bucket(one);
            }
        }
    }
}
