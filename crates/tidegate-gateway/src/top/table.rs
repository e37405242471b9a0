//! A snapshot as lines of text.
//!
//! The values of a route are an array, whose order the snapshot itself describes. A column that a
//! later version adds changes nothing here.

use serde_json::Value;

use crate::load::short_time;
use crate::table::aligned;

/// The version of snapshots that this program reads.
const VERSION: u64 = 1;

/// Returns the lines of a snapshot.
///
/// # Errors
///
/// A sentence if the text is not a snapshot of this version.
pub(super) fn lines(text: &str) -> Result<Vec<String>, String> {
    let what = "it is not a snapshot of this version; use the `tidegate` that the gateway runs";
    let snapshot: Value = serde_json::from_str(text).map_err(|_| what)?;
    if snapshot["version"].as_u64() != Some(VERSION) {
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

/// Returns the elements of an array, or none.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text, or an empty one.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a number, or 0.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn state(snapshot: &Value) -> String {
    let ready = match snapshot["ready"] == true {
        true => "ready",
        false => "not ready: the gateway takes no requests",
    };
    let routes = list(&snapshot["routes"]).len();
    let upstreams = list(&snapshot["upstreams"]).len();
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
        self.route["values"].get(at)?.as_f64()
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
    let series = list(&snapshot["schema"]["series"]).iter();
    let names: Vec<&str> = series.map(|one| text(&one["name"])).collect();
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for route in list(&snapshot["routes"]) {
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
            text(&route["key"]).to_owned(),
            number("rate"),
            format!("{} %", number("error_percent")),
            format!("{:.0}", values.sum(&refused)),
            time("p50_ms"),
            time("p99_ms"),
            format!("{}/{}", number("in_flight"), number("limit")),
            number("waiting"),
            breaker(&values).to_owned(),
            text(&route["says"]).to_owned(),
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
    for upstream in list(&snapshot["upstreams"]) {
        for server in list(&upstream["servers"]) {
            let is_found = server["found"] != false;
            let state = match (server["up"] == true, server["draining"] == true) {
                (_, true) => "draining",
                (true, false) => "up",
                (false, false) if !is_found => "not found",
                (false, false) => "down",
            };
            let share = server["share"].as_f64().map(|share| share * 100.0);
            rows.push(vec![
                text(&upstream["name"]).to_owned(),
                text(&server["address"]).to_owned(),
                format!("{:.0}", number(&server["in_flight"])),
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
    for one in list(&snapshot["loops"]) {
        let time = |name| short_time((number(&one[name]) * 1e6) as u64);
        rows.push(vec![
            text(&one["name"]).to_owned(),
            format!("{:.0} %", number(&one["busy"]) * 100.0),
            time("late_max_ms"),
            format!("{} {}", time("longest_ms"), text(&one["longest_task"])),
            format!("{:.0}", number(&one["stalls"])),
        ]);
    }
    aligned(&rows)
}
