//! What a reload does with each part of a configuration, as plain data: the difference of two configurations.
//! A reload follows it, and `tidegate check --against` prints it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::command::{Terms, terms};
use crate::config::types::{Admin, Drain, Log, Reload};
use crate::config::{Config, FilePath, Named};

/// What a reload does with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Keep,
    Change,
    Add,
    Remove,
}

/// A part of a configuration.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) step: Step,
    /// Its position among the parts of its kind before, if it was there.
    pub(crate) before: Option<usize>,
}

/// What a reload does with each part. The parts of a kind have the order of the new configuration; behind
/// them are those that are removed.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The sections that a file has once.
    pub(crate) sections: Vec<Part<'a>>,
    /// A socket belongs to its address, which may be that of another listener before.
    pub(crate) listeners: Vec<Part<'a>>,
    /// By the paths of their files, which each reload reads again.
    pub(crate) certificates: Vec<Part<'a>>,
    pub(crate) upstreams: Vec<Part<'a>>,
    pub(crate) routes: Vec<Part<'a>>,
    /// By their keys.
    pub(crate) commands: Vec<Part<'a>>,
}

/// The parts of a kind, by their names. No two of them have the same name.
type Parts<'a, T> = Vec<(Cow<'a, str>, T)>;

impl<'a> Plan<'a> {
    /// Compares two configurations. Without an old one, everything is added.
    pub(crate) fn diff(old: Option<&'a Config>, new: &'a Config) -> Self {
        let both = (old, new);
        Self {
            sections: compare(both, sections),
            listeners: compare(both, |config| named(&config.listeners)),
            certificates: compare(both, certificates),
            upstreams: compare(both, |config| named(&config.upstreams)),
            routes: compare(both, |config| named(&config.routes)),
            commands: compare(both, commands),
        }
    }

    /// Returns a line for each part that differs, and one with the numbers of those that are kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (mut lines, mut kept) = (Vec::new(), Vec::new());
        for (kind, parts) in [
            ("section", &self.sections),
            ("listener", &self.listeners),
            ("certificate", &self.certificates),
            ("upstream", &self.upstreams),
            ("route", &self.routes),
            ("command", &self.commands),
        ] {
            let (stay, other): (Vec<&Part<'_>>, Vec<_>) =
                parts.iter().partition(|part| part.step == Step::Keep);
            lines.extend(other.iter().map(|part| {
                let step = format!("{:?}", part.step).to_lowercase();
                format!("{step:<6}  {kind:<11}  {}", part.name)
            }));
            if !stay.is_empty() {
                kept.push(format!("{kind}s: {}", stay.len()));
            }
        }
        lines.push(match kept.is_empty() {
            true => "keep    nothing".to_owned(),
            false => format!("keep    {}", kept.join(", ")),
        });
        lines
    }
}

/// Compares the parts of a kind.
fn compare<'a, T: PartialEq>(
    (old, new): (Option<&'a Config>, &'a Config),
    list: fn(&'a Config) -> Parts<'a, T>,
) -> Vec<Part<'a>> {
    let old = old.map(list).unwrap_or_default();
    let places = old.iter().enumerate();
    let places: HashMap<&str, usize> = places.map(|(at, (name, _))| (&**name, at)).collect();
    let (mut parts, mut stays) = (Vec::new(), vec![false; old.len()]);
    for (name, value) in list(new) {
        let before = places.get(&*name).copied();
        let step = match before {
            Some(at) if old[at].1 == value => Step::Keep,
            Some(_) => Step::Change,
            None => Step::Add,
        };
        before.into_iter().for_each(|at| stays[at] = true);
        parts.push(Part { name, step, before });
    }
    let gone = old.into_iter().enumerate().filter(|(at, _)| !stays[*at]);
    parts.extend(gone.map(|(at, (name, _))| Part {
        name,
        step: Step::Remove,
        before: Some(at),
    }));
    parts
}

fn named<T>(all: &[Named<T>]) -> Parts<'_, &T> {
    let all = all.iter();
    all.map(|one| (Cow::Borrowed(&*one.name), &one.value))
        .collect()
}

fn commands(config: &Config) -> Parts<'_, Terms> {
    let routes = config.routes.iter();
    routes
        .flat_map(|route| terms(&route.name, &route.value))
        .collect()
}

/// Returns the files of certificates and roots, with the keys that belong to them.
fn certificates(config: &Config) -> Parts<'_, Option<&FilePath>> {
    // A file that several of them name is one.
    let mut files = BTreeMap::new();
    for tls in config
        .listeners
        .iter()
        .filter_map(|one| one.value.tls.as_ref())
    {
        files.extend(
            tls.client_roots
                .iter()
                .map(|roots| (roots.to_string(), None)),
        );
        let pairs = tls.certificates.iter();
        files.extend(pairs.map(|pair| (pair.cert.to_string(), Some(&pair.key))));
    }
    for tls in config
        .upstreams
        .iter()
        .filter_map(|one| one.value.tls.as_ref())
    {
        files.extend(tls.roots.iter().map(|roots| (roots.to_string(), None)));
        files.extend(
            tls.cert
                .iter()
                .map(|cert| (cert.to_string(), tls.key.as_ref())),
        );
    }
    let files = files.into_iter();
    files.map(|(path, key)| (Cow::Owned(path), key)).collect()
}

/// A section that a file has once.
#[derive(PartialEq)]
enum Single<'a> {
    Admin(&'a Admin),
    Log(&'a Log),
    Drain(&'a Drain),
    Reload(&'a Reload),
}

fn sections(config: &Config) -> Parts<'_, Single<'_>> {
    let admin = config.admin.iter();
    let admin = admin.map(|admin| ("listen.admin", Single::Admin(&admin.value)));
    let all = [
        ("log", Single::Log(&config.log)),
        ("drain", Single::Drain(&config.drain)),
        ("reload", Single::Reload(&config.reload)),
    ];
    let all = admin.chain(all);
    all.map(|(name, one)| (Cow::Borrowed(name), one)).collect()
}

#[cfg(test)]
mod tests {
    //! Pairs of configurations, and what differs.

    use super::*;
    use crate::config::tests::config_of;

    const BASE: &str = "[listen]\nhttp = \"127.0.0.1:1\"\n\
        [listen.tls]\nat = \"127.0.0.1:2\"\ntls = { certificates = [{ cert = \"/c\", key = \"/k\" }] }\n\
        [upstream.u]\nservers = \"127.0.0.1:3\"\ntls = { roots = \"/r\" }\n\
        [route.a]\nupstream = \"u\"\ntunnel = {}\n\
        [route.b]\npath = \"/b\"\nrespond = 200\n";

    #[test]
    fn each_part_is_kept_changed_added_or_removed() {
        // What is replaced in the file, what takes its place, what differs.
        let rows = "\
nothing||
respond = 200|respond = 204|change route b
tunnel = {}|limit = 7|change route a, change command a, remove command a:tunnel
tunnel = {}|tunnel = { idle = \"9s\" }|change route a
tunnel = {}|tunnel = {}\\nfallback = { upstream = \"u\" }|\
change route a, change command a, change command a:tunnel, add command a:fallback
upstream = \"u\"\\ntunnel = {}|respond = 404|change route a, remove command a, remove command a:tunnel
route.b|route.c|add route c, remove route b
servers = |max_in_flight = 5\\nservers = |change upstream u
\"/k\"|\"/l\"|change listener tls, change certificate /c
roots = \"/r\"|name = \"n\"|remove certificate /r, change upstream u
127.0.0.1:1|127.0.0.1:9|change listener http
[route.a]|[drain]\\ndeadline = \"1s\"\\n[route.a]|change section drain
[listen.tls]|admin = \"127.0.0.1:8\"\\n[listen.tls]|add section listen.admin";
        let old = config_of(BASE);
        for row in rows.lines() {
            let parts: Vec<_> = row
                .split('|')
                .map(|part| part.replace("\\n", "\n"))
                .collect();
            let new = config_of(&BASE.replace(&parts[0], &parts[1]));
            let mut lines = Plan::diff(Some(&old), &new).lines();
            let kept = lines.pop().unwrap();
            let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
            let found: Vec<_> = lines.iter().map(words).collect();
            assert_eq!(found.join(", "), parts[2], "{row}: {kept}");
        }
    }

    #[test]
    fn the_parts_that_are_kept_are_counted() {
        let (old, new) = (config_of(BASE), config_of(BASE));
        let all = "keep    sections: 3, listeners: 2, certificates: 2, upstreams: 1, routes: 2, commands: 2";
        assert_eq!(Plan::diff(Some(&old), &new).lines(), [all]);
        let first = Plan::diff(None, &new).lines();
        assert_eq!(first.len(), 13, "{first:?}");
        assert_eq!(first.last().map(String::as_str), Some("keep    nothing"));
    }
}
