//! What is kept of one route: its values now, and ten minutes of history, bounded.
//!
//! A bucket that is equal to the one before shares its memory, so a route without calls costs little.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_isolate::LatencyTotals;

use super::figures::Figures;
use super::reports::UpstreamReport;
use super::sentence::{Around, Level, Verdict, sentence, verdict};
use super::series::{Kind, SERIES};
use super::watch::{Seen, What};

/// Samples in a bucket of the history: three seconds.
pub(crate) const SAMPLES: u64 = 6;
/// Buckets of ten minutes.
pub(crate) const BUCKETS: usize = 200;
/// Buckets in a column of the heat map: six seconds.
pub(crate) const HEAT_BUCKETS: u64 = 2;
/// Columns of ten minutes.
pub(crate) const COLUMNS: usize = BUCKETS / HEAT_BUCKETS as usize;
/// The buckets of the small line in the list: two minutes.
pub(crate) const SPARK: usize = 40;
/// The number of moves and of transitions that are kept.
const KEPT: usize = 300;
/// Rows of the heat map.
pub(crate) const ROWS: usize = LatencyTotals::BOUNDS_NANOS.len() + 1;

/// How many calls took how long, within a column: waiting, running, total.
pub(crate) type Heat = [[u16; ROWS]; 3];

/// A route.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) group: String,
    pub(crate) upstream: Option<String>,
    /// In the order of [`SERIES`]; not a number where there is no value.
    pub(crate) values: Vec<f64>,
    pub(crate) says: String,
    pub(crate) verdict: Verdict,
    /// The number of the sample in which the row changed last.
    pub(crate) changed: u64,
    /// The first bucket in which the route was there.
    pub(crate) first: u64,
    pub(crate) buckets: VecDeque<Arc<[f32]>>,
    pub(crate) heat: VecDeque<Option<Box<Heat>>>,
    pub(crate) moves: VecDeque<Seen>,
    pub(crate) transitions: VecDeque<Seen>,
    /// The bucket that is being filled.
    open: Vec<f32>,
    /// The totals of counts at the start of the bucket.
    totals: Vec<f64>,
    latencies: Option<Box<LatencyTotals>>,
    since_ms: u64,
}

impl Track {
    pub(crate) fn new(figures: &Figures, bucket: u64) -> Self {
        Self {
            group: figures.group.clone(),
            upstream: figures.route.upstream.clone(),
            values: Vec::new(),
            says: String::new(),
            verdict: Verdict {
                level: Level::Idle,
                reason: None,
                is_failing: false,
            },
            changed: 0,
            first: bucket,
            buckets: VecDeque::new(),
            heat: VecDeque::new(),
            moves: VecDeque::new(),
            transitions: VecDeque::new(),
            open: vec![f32::NAN; SERIES.len()],
            totals: totals(figures),
            latencies: None,
            since_ms: 0,
        }
    }

    /// Adds what the route has reported.
    pub(crate) fn report(&mut self, seen: Seen) {
        let list = match seen.what {
            What::Breaker { .. } => &mut self.transitions,
            What::Limit { .. } => &mut self.moves,
        };
        if list.len() == KEPT {
            list.pop_front();
        }
        list.push_back(seen);
    }

    /// Takes the figures of a sample.
    pub(crate) fn sample(
        &mut self,
        figures: &Figures,
        upstream: Option<&UpstreamReport>,
        (sample, time_ms): (u64, u64),
    ) {
        let values = SERIES.iter().map(|series| series.value(figures));
        let values: Vec<f64> = values.collect();
        let found = verdict(figures, upstream);
        let before = (self.verdict.reason, self.verdict.is_failing);
        if (found.reason, found.is_failing) != before {
            self.since_ms = time_ms;
        }
        let moved = self.moves.back().and_then(|seen| match seen.what {
            What::Limit { from, to, why } => Some((from, to, why)),
            What::Breaker { .. } => None,
        });
        let around = Around {
            upstream,
            since_ms: Some(self.since_ms),
            moved,
        };
        let says = sentence(found, figures, around);
        let is_same = same(&values, &self.values)
            && (says == self.says && found == self.verdict)
            && self.upstream == figures.route.upstream;
        if !is_same {
            self.changed = sample;
        }
        (self.values, self.says, self.verdict) = (values, says, found);
        self.upstream.clone_from(&figures.route.upstream);
        self.fill(figures);
    }

    /// Adds the sample to the bucket that is being filled.
    fn fill(&mut self, figures: &Figures) {
        for (at, series) in SERIES.iter().enumerate() {
            let (value, open) = (self.values[at] as f32, &mut self.open[at]);
            *open = match series.kind {
                // `max` ignores what is no number.
                Kind::Highest(_) => open.max(value),
                Kind::Last(_) => value,
                Kind::Now(_) => f32::NAN,
                Kind::Ends(_) | Kind::Since(_) => {
                    let total = series.total(figures).unwrap_or(0.0);
                    since(total, self.totals[at]) as f32
                }
            };
        }
    }

    /// Closes the bucket.
    pub(crate) fn close_bucket(&mut self, figures: &Figures) {
        let bucket = match self.buckets.back() {
            Some(last) if same_bits(last, &self.open) => Arc::clone(last),
            _ => Arc::from(self.open.as_slice()),
        };
        if self.buckets.len() == BUCKETS {
            self.buckets.pop_front();
            self.first += 1;
        }
        self.buckets.push_back(bucket);
        self.totals = totals(figures);
        self.open.fill(f32::NAN);
    }

    /// Closes a column of the heat map.
    pub(crate) fn close_column(&mut self, now: &LatencyTotals) {
        let column = self.latencies.as_deref().and_then(|before| {
            let parts = [
                (&before.wait, &now.wait),
                (&before.run, &now.run),
                (&before.total, &now.total),
            ];
            let heat: Heat = parts.map(|(before, now)| {
                std::array::from_fn(|row| {
                    let count = now[row].checked_sub(before[row]);
                    u16::try_from(count.unwrap_or(now[row])).unwrap_or(u16::MAX)
                })
            });
            (heat != [[0; ROWS]; 3]).then(|| Box::new(heat))
        });
        if self.heat.len() == COLUMNS {
            self.heat.pop_front();
        }
        self.heat.push_back(column);
        self.latencies = Some(Box::new(now.clone()));
    }

    /// Returns the last values of a series, with the bucket that is being filled.
    pub(crate) fn latest(&self, at: usize, count: usize) -> impl Iterator<Item = f32> + '_ {
        let skipped = self.buckets.len().saturating_sub(count);
        self.buckets
            .iter()
            .skip(skipped)
            .map(move |bucket| bucket[at])
    }
}

/// Returns what was counted since `before`. The command of a route counts from zero again if a reload
/// replaces it.
fn since(total: f64, before: f64) -> f64 {
    match total < before {
        true => total,
        false => total - before,
    }
}

/// Returns the totals of the series that are counts.
fn totals(figures: &Figures) -> Vec<f64> {
    let totals = SERIES.iter().map(|series| series.total(figures));
    totals.map(|total| total.unwrap_or(0.0)).collect()
}

fn same(one: &[f64], other: &[f64]) -> bool {
    let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
    one.len() == other.len() && one.iter().zip(other).all(same)
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.iter()
        .zip(other)
        .all(|(a, b)| a.to_bits() == b.to_bits())
}
