//! The live table and the summary.

use std::time::Duration;

use tidegate::isolate::BreakerState;

use crate::load::{Counts, Tally, short_time};
use crate::table::aligned;

/// A route as the isolation sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) active: usize,
    pub(crate) limit: usize,
    pub(crate) state: Option<BreakerState>,
    /// How long an open breaker refuses before it lets a probe pass.
    pub(crate) probe_in: Option<Duration>,
}

/// Follows how long breakers have been open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSince {
    entered: u64,
    /// The time in the state open, over all times, when it was entered last.
    before: Duration,
    /// The same, as it was seen last.
    last: Duration,
}

impl OpenSince {
    /// Returns how long the breaker has been open. Takes how often it was open, and for how long.
    pub(crate) fn update(&mut self, entered: u64, total: Duration) -> Duration {
        if entered != self.entered {
            self.entered = entered;
            self.before = self.last;
        }
        self.last = total;
        total.saturating_sub(self.before)
    }
}

/// Returns the lines of the live table.
pub(crate) fn live(rows: &[(&str, &Counts, Guard)], seconds: f64) -> Vec<String> {
    let heading = [
        "route", "req/s", "ok", "slow", "refused", "broken", "p50", "p99", "limit", "breaker",
    ];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|(name, recent, guard)| {
        let mut row = counts(name, recent);
        row[1] = format!("{:.0}", recent.requests as f64 / seconds.max(1e-9));
        row.push(match guard.limit {
            // Without bulkheads.
            limit if limit >= 100_000 => format!("{}/-", guard.active),
            limit => format!("{}/{limit}", guard.active),
        });
        row.push(breaker(guard));
        row
    }));
    aligned(&table)
}

/// Returns the summary of a run.
pub(crate) fn summary(rows: &[(&str, &Tally)], seconds: f64) -> Vec<String> {
    let heading = [
        "route", "requests", "ok", "slow", "refused", "broken", "p50", "p99",
    ];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|(name, tally)| counts(name, &tally.total)));
    let mut lines = vec![format!("summary of {seconds:.1} s")];
    lines.extend(aligned(&table));
    for (name, tally) in rows {
        let outcomes = tally.outcomes().into_iter().take(4);
        let outcomes: Vec<String> = outcomes
            .map(|(outcome, count)| format!("{count} x {outcome}"))
            .collect();
        lines.push(format!("/{name}: {}", outcomes.join(", ")));
    }
    lines
}

/// Returns the columns that the table and the summary share.
fn counts(name: &str, recent: &Counts) -> Vec<String> {
    let share = |count: u64| match (count, recent.requests) {
        (0, _) | (_, 0) => "0".to_owned(),
        (count, all) => format!("{:.0} %", (count as f64 * 100.0 / all as f64).max(1.0)),
    };
    vec![
        format!("/{name}"),
        recent.requests.to_string(),
        share(recent.good),
        share(recent.slow),
        share(recent.refused),
        share(recent.failed()),
        short_time(recent.response.value_at_percentile(50.0)),
        short_time(recent.response.value_at_percentile(99.0)),
    ]
}

fn breaker(guard: &Guard) -> String {
    match (guard.state, guard.probe_in) {
        (None, _) => "-".to_owned(),
        (Some(BreakerState::Closed), _) => "closed".to_owned(),
        (Some(BreakerState::Open), Some(time)) => {
            format!("open, probe in {:.1} s", time.as_secs_f64())
        }
        (Some(BreakerState::Open), None) => "open".to_owned(),
        (Some(BreakerState::HalfOpen), _) => "half open".to_owned(),
        (Some(BreakerState::Ramping), _) => "ramping".to_owned(),
        (Some(_), _) => "unknown".to_owned(),
    }
}
