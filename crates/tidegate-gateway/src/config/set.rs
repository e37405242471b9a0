//! The settings of routes that operators set while the gateway runs, in place of those of the files.
//!
//! A setting has the path and the notation that it has in a file, and the same effect: it is put into the tree
//! of the files before that is read.

use std::collections::BTreeMap;

use super::mistake::{Mistake, Mistakes};
use super::setting::Setting as _;
use super::source::{Sources, Span};
use super::tree::{Entry, Node, Value, parse};
use super::types::Route;
use super::values::LimitKind;

/// What operators have set: the values by their paths.
pub(crate) type SetValues = BTreeMap<String, String>;

/// The sections of a route whose keys can be set, and the key that a value in place of the table stands for.
const SECTIONS: [(&str, &str); 5] = [
    ("limit", "max"),
    ("queue", "max"),
    ("breaker", ""),
    ("retry", "times"),
    ("tunnel", ""),
];

/// A setting that can be set: its route, its section if it has one, its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'a> {
    route: &'a str,
    section: Option<&'a str>,
    key: &'a str,
}

impl<'a> Place<'a> {
    fn find(path: &'a str) -> Option<Self> {
        let parts: Vec<&str> = path.split('.').collect();
        let (route, section, key) = match parts[..] {
            ["route", route, "timeout"] => (route, None, "timeout"),
            ["route", route, "fallback", "limit"] => (route, Some("fallback"), "limit"),
            ["route", route, section, key] if has_key(section, key) => (route, Some(section), key),
            _ => return None,
        };
        Some(Self {
            route,
            section,
            key,
        })
    }
}

/// Returns `true` if a section of a route can be set and has a key.
fn has_key(section: &str, key: &str) -> bool {
    let fields = Route::section().into_iter().flat_map(|route| route.fields);
    let mut own = fields.filter(|field| field.name == section);
    let keys = own.next().and_then(|field| field.section);
    SECTIONS.iter().any(|(name, _)| *name == section)
        && keys.is_some_and(|keys| keys.fields.iter().any(|field| field.name == key))
}

/// Returns `true` if a setting can be set while the gateway runs.
pub(crate) fn can_be_set(path: &str) -> bool {
    Place::find(path).is_some()
}

/// Returns the route of a setting.
pub(crate) fn route_of(path: &str) -> Option<&str> {
    Some(Place::find(path)?.route)
}

/// Returns why a setting has no effect on its route, whatever its value is.
pub(super) fn why_without_effect(route: &Route, path: &str) -> Option<&'static str> {
    let place = Place::find(path)?;
    let fallback = route.fallback.as_ref();
    match (place.section, place.key) {
        _ if route.upstream.is_none() => Some("the route has no upstream"),
        (Some("limit"), "min" | "initial") if route.limit.kind == LimitKind::Fixed => {
            Some("the limit of the route is fixed")
        }
        (Some("fallback"), _) if fallback.is_none_or(|one| one.upstream.is_none()) => {
            Some("the fallback of the route has no upstream")
        }
        _ => None,
    }
}

/// Puts a value into the tree. Adds the mistake if it is not one.
pub(super) fn put(
    root: &mut Node,
    (path, text): (&str, &str),
    sources: &mut Sources,
    mistakes: &mut Mistakes,
) {
    let Some(place) = Place::find(path) else {
        return;
    };
    let Some(value) = value(place.key, (path, text), sources, mistakes) else {
        return;
    };
    let defaults = root.get("defaults").and_then(|all| all.get("route"));
    let inherited = defaults.and_then(|route| route.get("fallback")).cloned();
    let Some(route) = entry(root, "route").and_then(|all| entry(all, place.route)) else {
        return;
    };
    let Some(section) = place.section else {
        return set(route, place.key, value);
    };
    match (section, route.get(section)) {
        // It is inherited as a whole. A limit alone would be a fixed response.
        ("fallback", own) => match own.cloned().or(inherited) {
            Some(whole) if whole.table().is_some() => set(route, section, whole),
            _ => return,
        },
        (_, None) => set(route, section, table(Vec::new(), value.at)),
        _ => {}
    }
    if let Some(own) = entry(route, section) {
        let short = SECTIONS.iter().find(|(name, _)| *name == section);
        if own.table().is_none() {
            let before = std::mem::replace(own, table(Vec::new(), value.at));
            if let (Some((_, short)), false) = (short, matches!(before.value, Value::Bool(_))) {
                set(own, short, before);
            }
        }
        set(own, place.key, value);
    }
}

/// Returns the value that a text stands for.
fn value(
    key: &str,
    (path, text): (&str, &str),
    sources: &mut Sources,
    mistakes: &mut Mistakes,
) -> Option<Node> {
    let file = sources.add("operator", format!("{key} = {text}\n"));
    // A value that an operator sets has no variables.
    let mut read = parse(file, sources, &|_| None, mistakes);
    match &mut read.value {
        Value::Table(entries) if entries.len() == 1 => entries.pop().map(|entry| entry.node),
        _ => {
            let at = Span::new(file, 0..key.len());
            let mistake = Mistake::new(at, path, "it is not one value");
            mistakes.add(mistake.expected("a value as it is in the file"));
            None
        }
    }
}

fn table(entries: Vec<Entry>, at: Span) -> Node {
    Node {
        value: Value::Table(entries),
        at,
        written: None,
        is_secret: false,
    }
}

/// Returns the value of a key of a table.
fn entry<'a>(table: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let Value::Table(entries) = &mut table.value else {
        return None;
    };
    let own = entries.iter_mut().find(|entry| entry.key == key);
    own.map(|entry| &mut entry.node)
}

/// Sets a key of a table.
fn set(table: &mut Node, key: &str, node: Node) {
    if let Some(own) = entry(table, key) {
        *own = node;
    } else if let Value::Table(entries) = &mut table.value {
        entries.push(Entry {
            key: key.to_owned(),
            key_at: node.at,
            node,
        });
    }
}

#[cfg(test)]
mod tests {
    //! What can be set, and what the route has then.

    use std::path::Path;

    use super::*;
    use crate::config::load::Tree;
    use crate::config::tests::One;

    #[test]
    fn the_command_of_a_route_can_be_set_and_nothing_else() {
        for path in [
            "route.a.timeout",
            "route.a.limit.kind",
            "route.a.limit.max",
            "route.a.queue.wait",
            "route.a.breaker.error_rate",
            "route.a.retry.attempt_timeout",
            "route.a.tunnel.protocols",
            "route.a.fallback.limit",
        ] {
            assert!(can_be_set(path), "{path}");
        }
        for path in [
            "",
            "route.a",
            "route.a.limit",
            "route.a.limit.colour",
            "route.a.limit.max.more",
            "route.a.path",
            "route.a.rewrite.path",
            "route.a.fallback.status",
            "upstream.a.idle",
            "drain.deadline",
        ] {
            assert!(!can_be_set(path), "{path}");
        }
    }

    /// Returns the settings of a route in the notation of the file, with what is set.
    fn with(defaults: &str, own: &str, all: &[(&str, &str)]) -> Result<Route, String> {
        let text = format!(
            "[listen]\nhttp = \"h:1\"\n[upstream.u]\nservers = \"h:2\"\n\
             [defaults.route]\n{defaults}\n[route.a]\nupstream = \"u\"\n{own}\n"
        );
        let tree = Tree::read(Path::new("t.toml"), &One(&text), &|_| Some("8".to_owned()));
        let path = |key: &str| format!("route.a.{key}");
        let all = all
            .iter()
            .map(|(key, value)| (path(key), (*value).to_owned()));
        let loaded = tree.unwrap().load(&all.collect());
        let mistakes = loaded.mistakes.render(&loaded.sources);
        let config = loaded.config.ok_or(mistakes)?;
        Ok(config.routes[0].value.clone())
    }

    #[test]
    fn a_value_has_the_effect_that_it_has_in_the_file() {
        // The defaults, the settings of the route, what is set, the settings that are the same.
        let rows = r#"
||limit.max = 7|limit = 7
limit = 9||queue.max = 7|limit = 9; queue = 7
|queue = 5|queue.wait = "1s"|queue = { max = 5, wait = "1s" }
|queue = { max = 5 }|queue.max = 6|queue = 6
queue = { wait = "1s" }||queue.max = 6|queue = { max = 6, wait = "1s" }
breaker = { volume = 3 }|breaker = true|breaker.sleep = "1s"|breaker = { volume = 3, sleep = "1s" }
|retry = 2|retry.pause = "1ms"|retry = { times = 2, pause = "1ms" }
|timeout = "5s"|timeout = false|timeout = false
fallback = { upstream = "u" }||fallback.limit = 3|fallback = { upstream = "u", limit = 3 }
|tunnel = {}|tunnel.protocols = ["x"]|tunnel = { protocols = "x" }"#;
        for row in rows.trim_start().lines() {
            let parts: Vec<&str> = row.split('|').collect();
            let set = with(parts[0], parts[1], &[parts[2].split_once(" = ").unwrap()]);
            let same = with("", &parts[3].replace("; ", "\n"), &[]);
            assert!(set.unwrap() == same.unwrap(), "{row}");
        }
        let both = [("limit.kind", "\"adaptive\""), ("limit.min", "2")];
        let same = "limit = { kind = \"adaptive\", min = 2, max = 30 }";
        assert!(with("", "limit = 30", &both) == with("", same, &[]));
    }

    #[test]
    fn what_is_no_value_has_its_place_in_the_message() {
        for (key, value, part) in [
            ("limit.max", "many", "operator:1:"),
            ("limit.max", "0", "0 is not a positive whole number"),
            ("limit.max", "1\nmin = 1", "it is not one value"),
            ("limit.max", "\"${N}\"", "the variable `N` is not set"),
            ("limit.max", "", "operator:1:"),
            ("timeout", "5", "route.a.timeout"),
            ("timeout", "\"10ms\"", "route.a.timeout"),
        ] {
            let why = with("", "retry = { attempt_timeout = \"1s\" }", &[(key, value)]);
            let why = why.err().unwrap_or_default();
            assert!(why.contains(part), "{key} = {value}: {why}");
        }
    }
}
