//! The series of a route: each is described here, once.
//!
//! A row of the table is everything that a new series needs. The snapshot describes it to the page,
//! which shows it as a column, keeps it in the history and draws it with the drawing of its unit. A
//! drawing of its own is added to `DRAWINGS` in `page.html`.

use std::time::Duration;

use super::figures::Figures;
use crate::json::Object;

/// How the values of a series become one value of a bucket of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The highest one.
    Highest,
    /// The last one.
    Last,
    /// The page shows the count within the window, and the history has the count of each bucket.
    Count(fn(&Figures) -> u64),
    /// Is shown and not kept.
    Now,
}

/// A series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: Kind,
    /// Whether the list has a column for it, unless the user chooses others.
    pub(crate) is_column: bool,
    /// Returns the value that is shown; `None` if there is none.
    pub(crate) read: fn(&Figures) -> Option<f64>,
}

const fn series(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    kind: Kind,
    read: fn(&Figures) -> Option<f64>,
) -> Series {
    Series {
        name,
        title,
        unit,
        kind,
        is_column: false,
        read,
    }
}

const fn column(series: Series) -> Series {
    Series {
        is_column: true,
        ..series
    }
}

use Kind::{Count, Highest, Last, Now};

/// All series, in the order of the values of a route.
pub(crate) const SERIES: &[Series] = &[
    column(series("rate", "Rate", "1/s", Last, |f| Some(f.rate()))),
    column(series("error_percent", "Errors", "%", Highest, |f| {
        Some(f.error_percent as f64)
    })),
    series("calls", "Calls", "", Count(|f| f.totals.calls()), |f| {
        Some(f.window.calls() as f64)
    }),
    series("ok", "Ok", "", Count(|f| f.totals.ok), |f| {
        Some(f.window.ok as f64)
    }),
    column(series(
        "failed",
        "Failed",
        "",
        Count(|f| f.totals.failed),
        |f| Some(f.window.failed as f64),
    )),
    column(series(
        "timeout",
        "Timed out",
        "",
        Count(|f| f.totals.timeout),
        |f| Some(f.window.timeout as f64),
    )),
    column(series(
        "refused_limit",
        "Refused (limit)",
        "",
        Count(|f| f.totals.limit),
        |f| Some(f.window.limit as f64),
    )),
    column(series(
        "refused_breaker",
        "Refused (breaker)",
        "",
        Count(|f| f.totals.breaker),
        |f| Some(f.window.breaker as f64),
    )),
    series(
        "refused_rate",
        "Refused (rate)",
        "",
        Count(|f| f.totals.rate),
        |f| Some(f.window.rate as f64),
    ),
    series(
        "refused_other",
        "Other refusals",
        "",
        Count(Figures::other),
        |f| Some(f.other() as f64),
    ),
    series(
        "bad_request",
        "Bad requests",
        "",
        Count(|f| f.totals.bad_request),
        |f| Some(f.window.bad_request as f64),
    ),
    series(
        "fallback",
        "Fallbacks",
        "",
        Count(|f| f.totals.fallback),
        |f| Some(f.window.fallback as f64),
    ),
    series(
        "cancelled",
        "Cancelled",
        "",
        Count(|f| f.totals.cancelled),
        |f| Some(f.window.cancelled as f64),
    ),
    series("retried", "Retries", "", Count(|f| f.totals.retried), |f| {
        Some(f.window.retried as f64)
    }),
    series("hedged", "Hedges", "", Count(|f| f.totals.hedged), |f| {
        Some(f.window.hedged as f64)
    }),
    series("budget", "Retry budget", "", Last, |f| {
        f.route.budget_left.map(|left| left as f64)
    }),
    column(series("in_flight", "In flight", "", Highest, |f| {
        Some(f.in_flight as f64)
    })),
    series("limit", "Limit", "", Last, |f| Some(f.limit as f64)),
    column(series("waiting", "Queue", "", Highest, |f| {
        Some(f.waiting as f64)
    })),
    series("queue_limit", "Queue limit", "", Now, |f| {
        Some(f.queue_limit as f64)
    }),
    series("overstaying", "Overstaying", "", Highest, |f| {
        Some(f.overstaying as f64)
    }),
    series("oldest_ms", "Oldest", "ms", Highest, |f| {
        f.oldest.map(millis)
    }),
    series("adaptive", "Adaptive", "", Now, |f| {
        Some(f64::from(u8::from(f.is_adaptive)))
    }),
    column(series("breaker", "Breaker", "state", Now, |f| {
        f.breaker.map(|state| state as f64)
    })),
    series("forced", "Breaker forced", "", Now, |f| {
        Some(f64::from(f.forced))
    }),
    series("opened", "Times opened", "", Count(|f| f.entered[1]), |f| {
        Some(f.entered[1] as f64)
    }),
    series("probes", "Probes", "", Count(|f| f.entered[2]), |f| {
        Some(f.entered[2] as f64)
    }),
    series("open_ms", "Time open", "ms", spent(1), |f| time(f, 1)),
    series("half_open_ms", "Time probing", "ms", spent(2), |f| {
        time(f, 2)
    }),
    series("ramping_ms", "Time ramping", "ms", spent(3), |f| time(f, 3)),
    series("mean_ms", "Mean", "ms", Now, |f| latency(f, 0)),
    column(series("p50_ms", "p50", "ms", Last, |f| latency(f, 1))),
    series("p90_ms", "p90", "ms", Now, |f| latency(f, 2)),
    column(series("p99_ms", "p99", "ms", Last, |f| latency(f, 3))),
    series("p995_ms", "p99.5", "ms", Now, |f| latency(f, 4)),
];

/// Returns the kind of the time that a breaker spends in a state.
const fn spent(state: usize) -> Kind {
    match state {
        1 => Count(|f| millis(f.times[1]) as u64),
        2 => Count(|f| millis(f.times[2]) as u64),
        _ => Count(|f| millis(f.times[3]) as u64),
    }
}

fn time(figures: &Figures, state: usize) -> Option<f64> {
    Some(millis(figures.times[state]).floor())
}

fn latency(figures: &Figures, at: usize) -> Option<f64> {
    Some(millis(figures.latencies[at]))
}

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
            Count(_) => "count",
            Highest | Last => "gauge",
            Now => "now",
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
