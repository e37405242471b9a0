//! Reads a whole configuration: all files, all sections, all checks, all mistakes at once.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::check;
use super::include::{Disk, Includes};
use super::mistake::{Mistake, Mistakes};
use super::places::Places;
use super::set::{self, SetValues};
use super::setting::{Origin, Reading, Scope, Section, Setting};
use super::source::{Sources, Span};
use super::tree::{Node, Variables};
use super::types::{Admin, Drain, Listener, Log, Reload, Route, Upstream};
use super::whole;
use crate::route::Table;

/// The keys of the file itself.
const ROOT: [&str; 8] = [
    "include", "listen", "defaults", "upstream", "route", "log", "drain", "reload",
];

/// A section that has a name, and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The place of the name.
    pub at: Span,
    /// The section.
    pub value: T,
}

/// A configuration without errors.
#[derive(Clone)]
pub struct Config {
    /// The listeners for requests.
    pub listeners: Vec<Named<Listener>>,
    /// The listener for operators.
    pub admin: Option<Named<Admin>>,
    /// The upstreams.
    pub upstreams: Vec<Named<Upstream>>,
    /// The routes. Their positions are those of the table.
    pub routes: Vec<Named<Route>>,
    /// The access log.
    pub log: Log,
    /// What happens on SIGTERM.
    pub drain: Drain,
    /// When the configuration is read again.
    pub reload: Reload,
    /// Finds the route of a request.
    pub table: Table,
    /// Each setting, its value, and where it comes from.
    pub origins: Vec<Origin>,
}

/// What was read: the texts, the mistakes, and the configuration if there are no errors.
#[derive(Debug)]
pub struct Loaded {
    /// The texts of the files.
    pub sources: Sources,
    /// The mistakes, also warnings.
    pub mistakes: Mistakes,
    /// The configuration, unless there are errors.
    pub config: Option<Config>,
    /// What could be read, if there are errors: the files that it names are checked all the same.
    pub(crate) readable: Option<Config>,
    /// The settings that could not be read.
    pub(crate) wrong: Vec<String>,
}

/// Reads a configuration.
///
/// # Errors
///
/// The file itself cannot be read. All other problems are [`Loaded::mistakes`].
pub fn load(path: &Path, disk: &dyn Disk, variables: Variables<'_>) -> io::Result<Loaded> {
    Ok(Tree::read(path, disk, variables)?.load(&SetValues::new()))
}

/// The files of a configuration, before their settings are read.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: Node,
    /// The texts of the files.
    pub(crate) sources: Sources,
    mistakes: Mistakes,
}

impl Tree {
    /// Reads all files.
    ///
    /// # Errors
    ///
    /// The first file cannot be read.
    pub(crate) fn read(path: &Path, disk: &dyn Disk, variables: Variables<'_>) -> io::Result<Self> {
        let (mut sources, mut mistakes) = (Sources::default(), Mistakes::default());
        let root = Includes::new(disk, variables, &mut sources, &mut mistakes).read(path)?;
        Ok(Self {
            root,
            sources,
            mistakes,
        })
    }

    /// Returns `true` if the files have a route.
    pub(crate) fn has_route(&self, name: &str) -> bool {
        let routes = self.root.get("route");
        routes.is_some_and(|routes| routes.get(name).is_some())
    }

    /// Reads all settings, those that operators have set in place of those of the files.
    pub(crate) fn load(&self, values: &SetValues) -> Loaded {
        let Self {
            mut root,
            mut sources,
            mistakes,
        } = self.clone();
        let mut reading = Reading {
            mistakes,
            ..Reading::default()
        };
        whole::check(&root, &sources, &mut reading.mistakes);
        for (path, value) in values {
            set::put(
                &mut root,
                (path, value),
                &mut sources,
                &mut reading.mistakes,
            );
        }
        let config = Config::read(&root, &mut reading);
        for secret in &reading.secrets {
            sources.hide(*secret);
        }
        let (config, readable) = match reading.mistakes.has_errors() {
            true => (None, config),
            false => (config, None),
        };
        Loaded {
            sources,
            config,
            mistakes: reading.mistakes,
            readable,
            wrong: reading.wrong,
        }
    }
}

/// Returns the sections of the file with their names, for the reference.
pub(super) fn sections() -> Vec<(&'static str, Section)> {
    let all = [
        ("listen.NAME", Listener::section()),
        ("listen.admin", Admin::section()),
        ("upstream.NAME", Upstream::section()),
        ("route.NAME", Route::section()),
        ("log", Log::section()),
        ("drain", Drain::section()),
        ("reload", Reload::section()),
    ];
    let all = all.into_iter();
    all.filter_map(|(name, section)| Some((name, section?)))
        .collect()
}

impl Config {
    /// Returns where a setting is, unless it is a default.
    pub(crate) fn place_of(&self, path: &str) -> Option<Span> {
        Places::new(&self.origins, BTreeSet::new()).at(path)
    }

    /// Reads all sections and checks them against each other.
    fn read(root: &Node, reading: &mut Reading) -> Option<Self> {
        unknown_keys(root, "", &ROOT, reading);
        let defaults = root.get("defaults");
        if let Some(defaults) = defaults {
            unknown_keys(defaults, "defaults", &["route", "upstream"], reading);
        }
        let route_defaults = defaults.and_then(|d| d.get("route"));
        let upstream_defaults = defaults.and_then(|d| d.get("upstream"));
        partial::<Route>("defaults.route", route_defaults, reading);
        partial::<Upstream>("defaults.upstream", upstream_defaults, reading);

        let is_admin = |name: &str| name == "admin";
        let listeners: Vec<Named<Listener>> =
            named(root, "listen", |name| !is_admin(name), None, reading);
        let admin: Vec<Named<Admin>> = named(root, "listen", is_admin, None, reading);
        let upstreams: Vec<Named<Upstream>> =
            named(root, "upstream", |_| true, upstream_defaults, reading);
        let routes: Vec<Named<Route>> = named(root, "route", |_| true, route_defaults, reading);
        let log = single(root, "log", reading);
        let drain = single(root, "drain", reading);
        let reload = single(root, "reload", reading);

        let whole = routes.len() == count(root, "route");
        let (table, ties) = Table::build(routes.iter().map(|r| check::rule(&r.value)).collect());
        let config = Self {
            listeners,
            admin: admin.into_iter().next(),
            upstreams,
            routes,
            log: log?,
            drain: drain?,
            reload: reload?,
            table,
            origins: std::mem::take(&mut reading.origins),
        };
        check::all(&config, &ties, whole, &reading.wrong, &mut reading.mistakes);
        Some(config)
    }

    /// Returns an upstream by its name.
    pub fn upstream(&self, name: &str) -> Option<&Named<Upstream>> {
        self.upstreams.iter().find(|upstream| upstream.name == name)
    }

    /// Returns why a setting has no effect on its route, whatever its value is.
    pub(crate) fn why_without_effect(&self, path: &str) -> Option<&'static str> {
        let name = set::route_of(path)?;
        let route = self.routes.iter().find(|route| route.name == name)?;
        set::why_without_effect(&route.value, path)
    }
}

// Prints the origins only: they show no secret.
tidegate_core::debug_fields!(Config, this => origins: this.origins);

/// Reads a section that the file has once. One that is wrong as a whole has its defaults.
fn single<T: Setting>(root: &Node, key: &str, reading: &mut Reading) -> Option<T> {
    let node = root.get(key);
    let at = node.map_or(root.at, |node| node.at);
    let read = T::read(&Scope::new(key, node, at), reading);
    read.or_else(|| {
        reading.wrong.push(key.to_owned());
        T::read(&Scope::new(key, None, at), reading)
    })
}

/// Reads the values of defaults, so that a mistake is found even if nothing inherits it.
fn partial<T: Setting>(path: &str, node: Option<&Node>, reading: &mut Reading) {
    if let Some(node) = node {
        let _ = T::read(&Scope::new(path, Some(node), node.at).partial(), reading);
    }
}

/// Reads the sections below a key whose names are wanted. A section with an error is left out.
fn named<T: Setting>(
    root: &Node,
    key: &str,
    is_wanted: impl Fn(&str) -> bool,
    inherited: Option<&Node>,
    reading: &mut Reading,
) -> Vec<Named<T>> {
    let Some(node) = root.get(key) else {
        return Vec::new();
    };
    let Some(entries) = node.table() else {
        let what = format!("{} is not a table", node.shown());
        let mistake = Mistake::new(node.at, key, what);
        reading
            .mistakes
            .add(mistake.expected(format!("a table of tables, as in `[{key}.NAME]`")));
        return Vec::new();
    };
    let mut read = Vec::new();
    for entry in entries.iter().filter(|entry| is_wanted(&entry.key)) {
        let path = format!("{key}.{}", entry.key);
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if entry.key.is_empty() || !entry.key.chars().all(is_part) {
            let what = format!("`{}` is not a name", entry.key.escape_debug());
            let mistake = Mistake::new(entry.key_at, &path, what);
            reading
                .mistakes
                .add(mistake.expected("letters, digits, `-` and `_`"));
        }
        let scope = Scope::new(path.clone(), Some(&entry.node), entry.key_at).inherit(inherited);
        match T::read(&scope, reading) {
            Some(value) => read.push(Named {
                name: entry.key.clone(),
                at: entry.key_at,
                value,
            }),
            None => reading.wrong.push(path),
        }
    }
    read
}

/// Returns the number of sections below a key.
fn count(root: &Node, key: &str) -> usize {
    root.get(key).and_then(Node::table).map_or(0, <[_]>::len)
}

/// Reports the keys of a table that are not known.
fn unknown_keys(node: &Node, path: &str, known: &[&str], reading: &mut Reading) {
    let known: BTreeSet<&str> = known.iter().copied().collect();
    let entries = node.table().unwrap_or_default();
    for entry in entries.iter().filter(|e| !known.contains(e.key.as_str())) {
        let path = match path {
            "" => entry.key.clone(),
            path => format!("{path}.{}", entry.key),
        };
        let all = known.iter().copied().collect::<Vec<_>>().join(", ");
        let mistake = Mistake::new(entry.key_at, path, "the key is unknown");
        let mistake = mistake.expected(format!("one of {all}"));
        reading
            .mistakes
            .add(mistake.nearest(&entry.key, known.iter().copied()));
    }
}
