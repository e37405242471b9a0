//! Rounds: every contestant of a comparison runs once per round, one after the other, so that noise
//! affects all alike.
//!
//! The first pass is the warm-up: it finds for each contestant how much work fills its time span, and
//! its figures are discarded. That amount is confirmed by a second run, because a disturbance makes the
//! first one too small. Odd rounds run the line-up backwards, and the rounds begin with
//! different contestants, so that no contestant always runs after the same other one.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use crate::machine::Watch;
use crate::report::{Heading, Role, Row, Sample, Table, quantile};

/// How long one contestant should run in one round, unless the suite sets it.
const SPAN: Duration = Duration::from_millis(150);

/// Default numbers of rounds: with and without `--quick`.
const ROUNDS: (usize, usize) = (9, 15);

/// The minimum number of rounds for quartiles.
const FEWEST_QUICK: usize = 5;

/// The options from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Measure fewer rounds.
    pub(crate) quick: bool,
    /// The number of measured rounds.
    pub(crate) rounds: Option<usize>,
    /// How long one contestant should run in one round; the default is [`SPAN`].
    pub(crate) span: Option<Duration>,
    /// Parts of the names of the contestants to run; empty means all.
    pub(crate) only: Vec<String>,
    /// Parts of the titles of the tables to run; empty means all.
    pub(crate) tables: Vec<String>,
}

impl Settings {
    /// Returns the number of rounds to measure.
    pub(crate) fn rounds(&self) -> usize {
        match (self.quick, self.rounds) {
            (true, rounds) => rounds.unwrap_or(ROUNDS.0).max(FEWEST_QUICK),
            (false, rounds) => rounds.unwrap_or(ROUNDS.1),
        }
    }

    fn span(&self) -> Duration {
        self.span.unwrap_or(SPAN)
    }

    /// Returns `true` if the contestant with this name is to be run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }

    /// Returns `true` if the table with this title is to be run.
    pub(crate) fn wants_table(&self, title: &str) -> bool {
        let fits = |parts: &String| parts.split('+').all(|part| title.contains(part));
        self.tables.is_empty() || self.tables.iter().any(fits)
    }
}

/// The result of one run of one contestant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// The duration of the timed part; the warm-up uses it.
    pub(crate) elapsed: Duration,
    /// The measured figures.
    pub(crate) sample: Sample,
}

impl Outcome {
    /// Times `work`, which performs `count` operations.
    pub(crate) fn timed(count: u64, work: impl FnOnce()) -> Self {
        let began = Instant::now();
        work();
        Self::nanos_each(began.elapsed(), count)
    }

    /// Creates an outcome in nanoseconds per operation.
    pub(crate) fn nanos_each(elapsed: Duration, count: u64) -> Self {
        let value = elapsed.as_nanos() as f64 / count as f64;
        Self {
            elapsed,
            sample: Sample { value, side: None },
        }
    }

    /// Creates an outcome in million operations per second.
    pub(crate) fn millions(elapsed: Duration, count: u64) -> Self {
        let value = count as f64 / elapsed.as_secs_f64() / 1e6;
        Self {
            elapsed,
            sample: Sample { value, side: None },
        }
    }

    /// Creates an outcome from the median of `delays`, with their 99th percentile as the second
    /// figure.
    pub(crate) fn delays(elapsed: Duration, mut delays: Vec<f64>) -> Self {
        delays.sort_by(f64::total_cmp);
        let sample = Sample {
            value: quantile(&delays, 0.5),
            side: Some(quantile(&delays, 0.99)),
        };
        Self { elapsed, sample }
    }

    /// Sets the second figure.
    pub(crate) fn beside(mut self, side: Option<f64>) -> Self {
        self.sample.side = side;
        self
    }
}

/// The range of work for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The amount of work with which the warm-up starts, and the least of a round.
    pub(crate) first: u64,
    /// The maximum amount of work.
    pub(crate) most: u64,
}

/// One contestant of a comparison.
pub(crate) struct Entry {
    /// Its name in the table.
    pub(crate) name: String,
    /// The role of the contestant.
    pub(crate) role: Role,
    /// Runs the contestant once with that much work. Starting and stopping it is not timed.
    pub(crate) run: Box<dyn FnMut(u64) -> Outcome>,
}

impl Entry {
    /// Creates a contestant.
    pub(crate) fn new(name: &str, role: Role, run: impl FnMut(u64) -> Outcome + 'static) -> Self {
        Self {
            name: name.to_owned(),
            role,
            run: Box::new(run),
        }
    }
}

/// Runs a comparison: the warm-up, then the rounds.
pub(crate) fn race(heading: Heading, work: Work, lineup: Vec<Entry>, settings: &Settings) -> Table {
    if !settings.wants_table(&heading.title) {
        return Table {
            heading,
            rows: Vec::new(),
            others: None,
        };
    }
    let wanted = lineup
        .into_iter()
        .filter(|entry| settings.wants(&entry.name));
    let mut lineup: Vec<Entry> = wanted.collect();
    eprintln!("  {}", heading.title);
    let amounts: Vec<u64> = lineup
        .iter_mut()
        .map(|entry| warm_up(entry, work, settings.span()))
        .collect();
    let row = |entry: &Entry| Row {
        name: entry.name.clone(),
        role: entry.role,
        samples: Vec::new(),
    };
    let mut rows: Vec<Row> = lineup.iter().map(row).collect();
    let watch = Watch::new();
    for round in 0..settings.rounds() {
        for place in order(lineup.len(), round) {
            let outcome = (lineup[place].run)(amounts[place]);
            rows[place].samples.push(outcome.sample);
        }
        if io::stderr().is_terminal() {
            eprint!("\r    round {} of {}", round + 1, settings.rounds());
        }
    }
    eprintln!("\r    {} rounds done    ", settings.rounds());
    Table {
        heading,
        rows,
        others: watch.others(),
    }
}

/// Returns the order of contestants in a round: forwards in even rounds, backwards in odd ones,
/// with changing starts. With three or more contestants, none runs twice in a row, when it would
/// find its memory in the cache.
fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    let first = round / 2;
    (0..count).map(move |place| {
        if round.is_multiple_of(2) {
            (first + place) % count
        } else {
            (first + 1 + count - place) % count
        }
    })
}

/// Runs a contestant with increasing work until the elapsed time shows how much fills the span. Then
/// runs it with that much: the larger one of the two results counts.
fn warm_up(entry: &mut Entry, work: Work, span: Duration) -> u64 {
    let least = work.first.min(work.most);
    let mut amount = least;
    loop {
        let elapsed = (entry.run)(amount).elapsed;
        let next = scaled(amount, elapsed, span).clamp(least, work.most);
        if elapsed * 3 >= span || amount == work.most {
            let confirmed = match least == work.most {
                true => next,
                false => scaled(next, (entry.run)(next).elapsed, span).clamp(next, work.most),
            };
            eprintln!("    {:34} {confirmed} a round", entry.name);
            return confirmed;
        }
        // The first, cold run is misleading: grow at most tenfold.
        amount = next.clamp(amount + 1, amount.saturating_mul(10).max(amount + 1));
        amount = amount.min(work.most);
    }
}

/// Returns how much work fills the span if `amount` took `elapsed`.
fn scaled(amount: u64, elapsed: Duration, span: Duration) -> u64 {
    (amount as f64 * span.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::report::Better;

    fn entry(name: &str, ns_each: u64, log: &Rc<RefCell<Vec<(String, u64)>>>) -> Entry {
        let (label, log) = (name.to_owned(), Rc::clone(log));
        let run = move |amount| {
            log.borrow_mut().push((label.clone(), amount));
            let elapsed = Duration::from_nanos(ns_each * amount);
            Outcome::nanos_each(elapsed, amount)
        };
        Entry::new(name, Role::Peer, run)
    }

    fn heading() -> Heading {
        Heading {
            title: "test".to_owned(),
            unit: "ns",
            better: Better::Less,
            side: None,
            ratios: Vec::new(),
        }
    }

    const WORK: Work = Work {
        first: 1000,
        most: 1_000_000_000,
    };

    #[test]
    fn each_contestant_gets_the_work_that_fills_the_span_and_rounds_alternate() {
        let log = Rc::default();
        let lineup = vec![entry("a", 10, &log), entry("b", 1000, &log)];
        let settings = Settings {
            rounds: Some(2),
            ..Settings::default()
        };
        let table = race(heading(), WORK, lineup, &settings);
        let log = log.borrow();
        let measured: Vec<(&str, u64)> = log[log.len() - 4..]
            .iter()
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        let (a, b) = (("a", 15_000_000), ("b", 150_000));
        assert_eq!(measured, [a, b, b, a]);
        assert_eq!(table.rows[1].samples.len(), 2);
    }

    #[test]
    fn a_disturbance_during_the_warm_up_does_not_make_the_rounds_small() {
        let log: Rc<RefCell<Vec<u64>>> = Rc::default();
        let runs = Rc::clone(&log);
        let run = move |amount| {
            runs.borrow_mut().push(amount);
            // The first run takes a hundred times as long.
            let each = if runs.borrow().len() == 1 {
                50_000
            } else {
                500
            };
            Outcome::nanos_each(Duration::from_nanos(each * amount), amount)
        };
        let settings = Settings {
            rounds: Some(1),
            ..Settings::default()
        };
        let lineup = vec![Entry::new("a", Role::Ours, run)];
        race(heading(), WORK, lineup, &settings);
        assert_eq!(*log.borrow(), [1000, 3000, 300_000]);
    }

    #[test]
    fn every_contestant_runs_once_a_round_and_never_twice_in_a_row() {
        for count in 3..9 {
            let runs: Vec<usize> = (0..40).flat_map(|round| order(count, round)).collect();
            assert!(runs.windows(2).all(|pair| pair[0] != pair[1]), "{runs:?}");
            for round in runs.chunks(count) {
                let mut round = round.to_vec();
                round.sort_unstable();
                assert!(round.into_iter().eq(0..count));
            }
        }
    }

    #[test]
    fn a_suite_may_request_shorter_runs() {
        let log = Rc::default();
        let settings = Settings {
            rounds: Some(1),
            span: Some(Duration::from_millis(30)),
            ..Settings::default()
        };
        race(heading(), WORK, vec![entry("a", 10, &log)], &settings);
        assert_eq!(log.borrow().last(), Some(&("a".to_owned(), 3_000_000)));
    }

    #[test]
    fn a_table_is_run_if_its_title_has_all_the_requested_parts() {
        let settings = Settings {
            tables: vec!["depth 1+2 µs".to_owned(), "folklore".to_owned()],
            ..Settings::default()
        };
        assert!(settings.wants_table("depth 1, 2 µs") && settings.wants_table("folklore"));
        assert!(!settings.wants_table("depth 1, 3 µs"));
        assert!(Settings::default().wants_table("any"));
    }

    #[test]
    fn the_work_never_exceeds_its_limit() {
        let log = Rc::default();
        let work = Work {
            first: 1000,
            most: 50_000,
        };
        let settings = Settings {
            rounds: Some(1),
            ..Settings::default()
        };
        race(heading(), work, vec![entry("a", 10, &log)], &settings);
        assert!(log.borrow().iter().all(|(_, amount)| *amount <= 50_000));
    }
}
