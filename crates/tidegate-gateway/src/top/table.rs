//! A snapshot as lines of text.
//!
//! The values of a route are an array, whose order the snapshot itself describes. A column that a
//! later version adds changes nothing here.

use super::value::Value;
use crate::load::short_time;
use crate::table::aligned;

/// The version of snapshots that this program reads.
const VERSION: f64 = 1.0;

/// Returns the lines of a snapshot.
///
/// # Errors
///
/// A sentence if the text is not a snapshot of this version.
pub(super) fn lines(text: &str) -> Result<Vec<String>, String> {
    let what = "it is not a snapshot of this version; use the `tidegate` that the gateway runs";
    let snapshot = Value::parse(text).ok_or(what)?;
    if snapshot.number("version") != Some(VERSION) {
        return Err(what.to_owned());
    }
    let mut lines = vec![state(&snapshot)];
    lines.push(String::new());
    lines.extend(routes(&snapshot));
    lines.push(String::new());
    lines.extend(servers(&snapshot));
    lines.push(String::new());
    lines.extend(loops(&snapshot));
    Ok(lines.into_iter().map(|line| plain(&line)).collect())
}

/// Returns a text without control characters, and without those that turn the direction of a line:
/// names are those of a configuration, and must not control a terminal.
fn plain(line: &str) -> String {
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || turns(c) { '?' } else { c };
    line.chars().map(shown).collect()
}

fn state(snapshot: &Value) -> String {
    let ready = match snapshot.flag("ready") {
        true => "ready",
        false => "not ready: the gateway takes no requests",
    };
    let routes = snapshot.list("routes").len();
    let upstreams = snapshot.list("upstreams").len();
    format!("{ready}; routes: {routes}, upstreams: {upstreams}")
}

/// The values of a route by name.
struct Values<'a> {
    names: Vec<&'a str>,
    route: &'a Value,
}

impl Values<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        let at = self.names.iter().position(|one| *one == name)?;
        self.route.list("values").get(at)?.as_number()
    }

    fn sum(&self, names: &[&str]) -> f64 {
        let known = names.iter().filter_map(|name| self.get(name));
        // An empty sum would be -0.
        known.fold(0.0, |sum, one| sum + one)
    }
}

fn routes(snapshot: &Value) -> Vec<String> {
    let heading = [
        "route", "req/s", "errors", "refused", "p50", "p99", "limit", "waiting", "breaker", "",
    ];
    let series = snapshot
        .get("schema")
        .map_or(&[][..], |one| one.list("series"));
    let names: Vec<&str> = series.iter().map(|one| one.text("name")).collect();
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for route in snapshot.list("routes") {
        let names = names.clone();
        let values = Values { names, route };
        let refused = [
            "refused_limit",
            "refused_breaker",
            "refused_rate",
            "refused_other",
        ];
        let number = |name| {
            values
                .get(name)
                .map_or("-".to_owned(), |n| format!("{n:.0}"))
        };
        let time = |name| {
            let time = values
                .get(name)
                .map(|millis| short_time((millis * 1e6) as u64));
            time.unwrap_or("-".to_owned())
        };
        rows.push(vec![
            route.text("key").to_owned(),
            number("rate"),
            format!("{} %", number("error_percent")),
            format!("{:.0}", values.sum(&refused)),
            time("p50_ms"),
            time("p99_ms"),
            format!("{}/{}", number("in_flight"), number("limit")),
            number("waiting"),
            breaker(&values).to_owned(),
            route.text("says").to_owned(),
        ]);
    }
    aligned(&rows)
}

fn breaker(values: &Values<'_>) -> &'static str {
    match values.get("breaker").map(|state| state as u32) {
        Some(0) => "closed",
        Some(1) => "open",
        Some(2) => "half open",
        Some(3) => "ramping",
        _ => "-",
    }
}

fn servers(snapshot: &Value) -> Vec<String> {
    let heading = ["upstream", "server", "in flight", "share", "state"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for upstream in snapshot.list("upstreams") {
        for server in upstream.list("servers") {
            let is_found = server.get("found") != Some(&Value::Flag(false));
            let state = match (server.flag("up"), server.flag("draining")) {
                (_, true) => "draining",
                (true, false) => "up",
                (false, false) if !is_found => "not found",
                (false, false) => "down",
            };
            let share = server.number("share").map(|share| share * 100.0);
            rows.push(vec![
                upstream.text("name").to_owned(),
                server.text("address").to_owned(),
                format!("{:.0}", server.number("in_flight").unwrap_or(0.0)),
                share.map_or("-".to_owned(), |share| format!("{share:.0} %")),
                state.to_owned(),
            ]);
        }
    }
    aligned(&rows)
}

fn loops(snapshot: &Value) -> Vec<String> {
    let heading = ["loop", "busy", "late (max)", "longest task", "stalls"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for one in snapshot.list("loops") {
        let time = |name| short_time((one.number(name).unwrap_or(0.0) * 1e6) as u64);
        rows.push(vec![
            one.text("name").to_owned(),
            format!("{:.0} %", one.number("busy").unwrap_or(0.0) * 100.0),
            time("late_max_ms"),
            format!("{} {}", time("longest_ms"), one.text("longest_task")),
            format!("{:.0}", one.number("stalls").unwrap_or(0.0)),
        ]);
    }
    aligned(&rows)
}
