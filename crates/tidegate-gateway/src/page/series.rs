//! The series of a route: each is described here, once.
//!
//! A row of the table is everything that a new series needs. The snapshot describes it to the page,
//! which shows it as a column, keeps it in the history and draws it with the drawing of its unit. A
//! drawing of its own is added to `DRAWINGS` in `page.html`.

use std::time::Duration;

use super::figures::{Counts, Figures};
use crate::json::Object;

/// Where the values of a series come from, and how they become one value of a bucket of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The bucket has the highest value.
    Highest(Read),
    /// The bucket has the last value.
    Last(Read),
    /// Is shown and not kept.
    Now(Read),
    /// The number of calls that ended in a way: within the window, and within each bucket.
    Ends(fn(&Counts) -> u64),
    /// Something that is counted since the start, and within each bucket.
    Since(fn(&Figures) -> u64),
}

/// Returns the value that is shown; `None` if there is none.
type Read = fn(&Figures) -> Option<f64>;

/// A series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: Kind,
    /// Whether the list has a column for it, unless the user chooses others.
    pub(crate) is_column: bool,
}

const fn series(name: &'static str, title: &'static str, unit: &'static str, kind: Kind) -> Series {
    Series {
        name,
        title,
        unit,
        kind,
        is_column: false,
    }
}

const fn column(series: Series) -> Series {
    Series {
        is_column: true,
        ..series
    }
}

impl Series {
    /// Returns the value that is shown; not a number if there is none.
    pub(crate) fn value(&self, figures: &Figures) -> f64 {
        match self.kind {
            Highest(read) | Last(read) | Now(read) => read(figures).unwrap_or(f64::NAN),
            Ends(count) => count(&figures.window) as f64,
            Since(count) => count(figures) as f64,
        }
    }

    /// Returns the count since the start, if the series is a count.
    pub(crate) fn total(&self, figures: &Figures) -> Option<f64> {
        match self.kind {
            Highest(_) | Last(_) | Now(_) => None,
            Ends(count) => Some(count(&figures.totals) as f64),
            Since(count) => Some(count(figures) as f64),
        }
    }

    /// Returns `true` if the history has the series.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self.kind, Now(_))
    }
}

use Kind::{Ends, Highest, Last, Now, Since};

/// All series, in the order of the values of a route.
#[rustfmt::skip] // A table: one series in each line.
pub(crate) const SERIES: &[Series] = &[
    column(series("rate", "Rate", "1/s", Last(|f| Some(f.rate())))),
    column(series("error_percent", "Errors", "%", Highest(|f| Some(f.error_percent as f64)))),
    series("calls", "Calls", "", Ends(Counts::calls)),
    series("ok", "Ok", "", Ends(|ends| ends.ok)),
    column(series("failed", "Failed", "", Ends(|ends| ends.failed))),
    column(series("timeout", "Timed out", "", Ends(|ends| ends.timeout))),
    column(series("refused_limit", "Refused (limit)", "", Ends(|ends| ends.limit))),
    column(series("refused_breaker", "Refused (breaker)", "", Ends(|ends| ends.breaker))),
    series("refused_rate", "Refused (rate)", "", Ends(|ends| ends.rate)),
    series("refused_other", "Other refusals", "", Since(Figures::other)),
    series("bad_request", "Bad requests", "", Ends(|ends| ends.bad_request)),
    series("fallback", "Fallbacks", "", Ends(|ends| ends.fallback)),
    series("cancelled", "Cancelled", "", Ends(|ends| ends.cancelled)),
    series("retried", "Retries", "", Ends(|ends| ends.retried)),
    series("hedged", "Hedges", "", Ends(|ends| ends.hedged)),
    series("budget", "Retry budget", "", Last(|f| f.route.budget_left.map(|left| left as f64))),
    column(series("in_flight", "In flight", "", Highest(|f| Some(f.in_flight as f64)))),
    series("limit", "Limit", "", Last(|f| Some(f.limit as f64))),
    column(series("waiting", "Queue", "", Highest(|f| Some(f.waiting as f64)))),
    series("queue_limit", "Queue limit", "", Now(|f| Some(f.queue_limit as f64))),
    series("overstaying", "Overstaying", "", Highest(|f| Some(f.overstaying as f64))),
    series("oldest_ms", "Oldest", "ms", Highest(|f| f.oldest.map(millis))),
    series("adaptive", "Adaptive", "", Now(|f| Some(f64::from(u8::from(f.is_adaptive))))),
    column(series("breaker", "Breaker", "state", Now(|f| f.breaker.map(|state| state as f64)))),
    series("forced", "Breaker forced", "", Now(|f| Some(f64::from(f.forced)))),
    series("opened", "Times opened", "", Since(|f| f.entered[1])),
    series("probes", "Probes", "", Since(|f| f.entered[2])),
    series("open_ms", "Time open", "ms", Since(|f| millis(f.times[1]) as u64)),
    series("half_open_ms", "Time probing", "ms", Since(|f| millis(f.times[2]) as u64)),
    series("ramping_ms", "Time ramping", "ms", Since(|f| millis(f.times[3]) as u64)),
    series("mean_ms", "Mean", "ms", Now(|f| Some(millis(f.latencies[0])))),
    column(series("p50_ms", "p50", "ms", Last(|f| Some(millis(f.latencies[1]))))),
    series("p90_ms", "p90", "ms", Now(|f| Some(millis(f.latencies[2])))),
    column(series("p99_ms", "p99", "ms", Last(|f| Some(millis(f.latencies[3]))))),
    series("p995_ms", "p99.5", "ms", Now(|f| Some(millis(f.latencies[4])))),
];

/// Returns a time in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns the position of a series.
#[cfg(test)]
pub(crate) fn position(name: &str) -> usize {
    let found = SERIES.iter().position(|series| series.name == name);
    found.expect("the series is in the table")
}

/// Returns the descriptions of all series as JSON.
pub(crate) fn described() -> String {
    let all = SERIES.iter().map(|series| {
        let kind = match series.kind {
            Ends(_) | Since(_) => "count",
            Highest(_) | Last(_) => "gauge",
            Now(_) => "now",
        };
        Object::new()
            .text("name", series.name)
            .text("title", series.title)
            .text("unit", series.unit)
            .text("kind", kind)
            .raw("column", series.is_column)
            .end()
    });
    crate::json::array(all)
}

/// Returns a number as JSON, with at most three digits after the point. What is no number is null.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let rounded = (value * 1000.0).round() / 1000.0;
    match rounded == 0.0 {
        true => "0".to_owned(),
        false => rounded.to_string(),
    }
}

#[cfg(test)]
mod tests {
    //! The table.

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_series_has_a_name_of_its_own_and_a_description() {
        let names: HashSet<_> = SERIES.iter().map(|series| series.name).collect();
        assert_eq!(names.len(), SERIES.len());
        let text = described();
        for series in SERIES {
            assert!(text.contains(&format!("{{\"name\":\"{}\",", series.name)));
            assert!(!series.title.is_empty());
        }
    }

    #[test]
    fn numbers_are_short_and_never_invalid() {
        let rows = [
            (0.0, "0"),
            (-0.0001, "0"),
            (12.0, "12"),
            (0.12349, "0.123"),
            (f64::NAN, "null"),
            (f64::INFINITY, "null"),
            (1e15, "1000000000000000"),
        ];
        for (value, text) in rows {
            assert_eq!(number(value), text);
        }
    }
}
