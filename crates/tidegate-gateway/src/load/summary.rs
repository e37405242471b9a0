//! The result of a run as text.

use std::fmt::Write as _;

use super::result::{RunResult, Sample};
use super::schedule::Shape;
use super::tally::Histogram;
use crate::config::show_duration;
use crate::table::aligned;

/// The percentiles that are shown, with their names.
pub(crate) const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

/// Returns the summary.
pub(crate) fn summary(result: &RunResult) -> String {
    let tally = &result.tally;
    let mut text = format!("{}: {}\n\n", result.url, load(result));
    let requests = tally.total.requests.max(1) as f64;
    let share = |count: u64| format!("{:.1} %", count as f64 * 100.0 / requests);
    let rows = [
        [
            "requests".to_owned(),
            tally.total.requests.to_string(),
            format!("{:.1}/s", result.rate()),
        ],
        [
            "good".to_owned(),
            tally.total.good.to_string(),
            format!("{:.1}/s", result.goodput()),
        ],
        [
            "received".to_owned(),
            format!("{} bytes", tally.bytes),
            String::new(),
        ],
    ];
    push_rows(&mut text, rows.map(Vec::from).into());
    text.push('\n');
    let outcomes = tally.outcomes().into_iter();
    let mut rows = vec![vec![
        "outcome".to_owned(),
        "requests".to_owned(),
        "share".to_owned(),
    ]];
    rows.extend(outcomes.map(|(name, count)| vec![name, count.to_string(), share(count)]));
    push_rows(&mut text, rows);
    text.push('\n');
    push_rows(&mut text, times(result));
    text.push('\n');
    for line in notes(result) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the progress in one line.
pub(crate) fn progress(sample: &Sample) -> String {
    let rate = sample
        .rate
        .map_or(String::new(), |rate| format!("planned {rate:.0}/s, "));
    format!(
        "{:.0} s: {rate}ended {:.0}/s, good {:.0}/s, p50 {}, p99 {}",
        sample.at,
        sample.requests,
        sample.good,
        time(sample.p50),
        time(sample.p99)
    )
}

/// Returns a time with about three digits.
pub(crate) fn time(nanos: u64) -> String {
    let millis = nanos as f64 / 1e6;
    match millis {
        _ if millis < 9.995 => format!("{millis:.2} ms"),
        _ if millis < 99.95 => format!("{millis:.1} ms"),
        _ if millis < 9_999.5 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1000.0),
    }
}

/// Returns a time with one or two digits, for tables.
pub(crate) fn short_time(nanos: u64) -> String {
    let millis = nanos as f64 / 1e6;
    match millis {
        _ if millis < 9.95 => format!("{millis:.1} ms"),
        _ if millis < 9_999.5 => format!("{millis:.0} ms"),
        _ => format!("{:.0} s", millis / 1000.0),
    }
}

/// Returns what was sent.
fn load(result: &RunResult) -> String {
    let elapsed = format!("{:.1} s", result.elapsed.as_secs_f64());
    let places = format!(
        "connections: {}, threads: {}",
        result.connections, result.loops
    );
    match result.shape {
        Shape::Closed => format!("closed loop, {places}, {elapsed}"),
        Shape::Rate(rate) => format!("open loop, {rate} requests/s, {places}, {elapsed}"),
        Shape::Ramp { from, stage } => {
            let stage = show_duration(stage);
            format!("ramp from {from} requests/s, stages of {stage}, {places}, {elapsed}")
        }
    }
}

/// Returns the table of times.
fn times(result: &RunResult) -> Vec<Vec<String>> {
    let mut heading = vec!["time".to_owned()];
    heading.extend(PERCENTILES.map(|(name, _)| name.to_owned()));
    let row = |name: &str, times: &Histogram| {
        let mut row = vec![name.to_owned()];
        row.extend(PERCENTILES.map(|(_, percent)| time(times.value_at_percentile(percent))));
        row
    };
    let first = match result.shape {
        Shape::Closed => "corrected",
        _ => "from plan",
    };
    vec![
        heading,
        row(first, &result.response()),
        row("from sending", &result.tally.service),
    ]
}

/// Returns what a reader should know about the figures.
fn notes(result: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((rate, good)) = result.best {
        let ended = result.ended.unwrap_or("the time was over");
        notes.push(format!(
            "the best stage had {good:.0} good responses/s at {rate:.0} requests/s; {ended}"
        ));
    }
    let within = show_duration(result.within);
    notes.push(format!(
        "good: status below 400 within {within}; times are without refusals and errors"
    ));
    if let Some(why) = &result.tally.connect_failure {
        let count = result.tally.connect_failures;
        notes.push(format!(
            "connections that failed: {count}; the last one: {why}"
        ));
    }
    notes.extend(result.bottleneck());
    notes
}

fn push_rows(text: &mut String, rows: Vec<Vec<String>>) {
    for line in aligned(&rows) {
        let _ = writeln!(text, "{line}");
    }
}
