//! What each check uses: the configuration, the mistakes, the places of settings.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::config::load::{Config, Named};
use crate::config::mistake::{Mistake, Mistakes};
use crate::config::setting::{Origin, Source};
use crate::config::source::Span;

/// A configuration and its mistakes so far.
pub(super) struct Checks<'a> {
    pub(super) config: &'a Config,
    pub(super) mistakes: &'a mut Mistakes,
    /// The settings that could not be read. The configuration has their defaults.
    wrong: BTreeSet<&'a str>,
    /// The settings that could be read, by their paths.
    origins: HashMap<&'a str, &'a Origin>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(config: &'a Config, wrong: &'a [String], mistakes: &'a mut Mistakes) -> Self {
        let origins = config.origins.iter().rev();
        Self {
            config,
            mistakes,
            wrong: wrong.iter().map(String::as_str).collect(),
            origins: origins
                .map(|origin| (origin.path.as_str(), origin))
                .collect(),
        }
    }

    /// Returns the place of a setting, or `otherwise` if it is a default.
    pub(super) fn place(&self, path: &str, otherwise: Span) -> Span {
        match self.origins.get(path).map(|origin| origin.source) {
            Some(Source::Own(at) | Source::Inherited(at)) => at,
            Some(Source::Default) | None => otherwise,
        }
    }

    /// Returns `true` if a section has one of these settings, and it is wrong, or a part of it or what it
    /// is a part of. It has a mistake already, and does not count as absent.
    pub(super) fn is_wrong<T>(&self, kind: &str, section: &Named<T>, keys: &[&str]) -> bool {
        let mut paths = keys
            .iter()
            .map(|key| format!("{kind}.{}.{key}", section.name));
        paths.any(|path| {
            let ends = path.match_indices(['.', '[']).map(|(at, _)| &path[..at]);
            let mut above = ends.chain([path.as_str()]);
            let parts = ['.', '['].map(|separator| format!("{path}{separator}"));
            let mut below = parts.iter().map(|part| {
                let next = self.wrong.range(part.as_str()..).next();
                next.is_some_and(|wrong| wrong.starts_with(part))
            });
            above.any(|path| self.wrong.contains(path)) || below.any(|is_below| is_below)
        })
    }

    /// Returns `true` if a setting or a section, by its path, is there and could not be read.
    pub(super) fn is_named_wrong(&self, path: &str) -> bool {
        self.wrong.contains(path)
    }

    /// Returns a value for a message: as it is in the file if it contains a variable.
    pub(super) fn shown(&self, path: &str) -> &str {
        let found = self.origins.get(path);
        found.map_or("", |origin| origin.shown.trim_matches('"'))
    }

    /// Adds a mistake of a setting of a section.
    pub(super) fn add<T>(
        &mut self,
        kind: &str,
        section: &Named<T>,
        key: &str,
        what: &str,
        expected: &str,
    ) {
        let path = format!("{kind}.{}.{key}", section.name);
        let at = self.place(&path, section.at);
        self.mistakes
            .add(Mistake::new(at, path, what).expected(expected));
    }

    /// Returns `true` if a setting has its default.
    pub(super) fn is_default(&self, path: &str) -> bool {
        let found = self.origins.get(path);
        found.is_some_and(|origin| origin.source == Source::Default)
    }

    /// Adds a mistake for each time of a section that is zero.
    pub(super) fn positive<T>(
        &mut self,
        kind: &str,
        section: &Named<T>,
        times: &[(&str, Duration)],
    ) {
        for (key, time) in times {
            if time.is_zero() {
                self.add(
                    kind,
                    section,
                    key,
                    "nothing happens in no time",
                    "a positive duration",
                );
            }
        }
    }
}
