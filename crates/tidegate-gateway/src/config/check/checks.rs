//! What each check uses: the configuration, the mistakes, the places of settings.

use std::time::Duration;

use crate::config::load::{Config, Named};
use crate::config::mistake::{Mistake, Mistakes};
use crate::config::places::Places;
use crate::config::setting::Source;
use crate::config::source::Span;
use crate::config::types::{Admin, Listener, Route, Upstream};

/// A section with a name, by the first part of its path.
pub(super) trait Kind: Sized {
    const KIND: &'static str;

    /// Returns the path of a setting of a section.
    fn path(section: &Named<Self>, key: &str) -> String {
        format!("{}.{}.{key}", Self::KIND, section.name)
    }
}

impl Kind for Listener {
    const KIND: &'static str = "listen";
}

impl Kind for Admin {
    const KIND: &'static str = "listen";
}

impl Kind for Upstream {
    const KIND: &'static str = "upstream";
}

impl Kind for Route {
    const KIND: &'static str = "route";
}

/// A configuration and its mistakes so far.
pub(super) struct Checks<'a> {
    pub(super) config: &'a Config,
    pub(super) mistakes: &'a mut Mistakes,
    places: Places<'a>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(config: &'a Config, wrong: &'a [String], mistakes: &'a mut Mistakes) -> Self {
        Self {
            config,
            mistakes,
            places: Places::new(&config.origins, wrong.iter().cloned().collect()),
        }
    }

    /// Returns the place of a setting, or `otherwise` if it is a default.
    pub(super) fn place(&self, path: &str, otherwise: Span) -> Span {
        self.places.at(path).unwrap_or(otherwise)
    }

    /// Returns `true` if a section has one of these settings, and it is wrong, or a part of it or what it
    /// is a part of. It has a mistake already, and does not count as absent.
    pub(super) fn is_wrong<T: Kind>(&self, section: &Named<T>, keys: &[&str]) -> bool {
        let mut paths = keys.iter().map(|key| T::path(section, key));
        paths.any(|path| {
            let mut ends = path.match_indices(['.', '[']).map(|(at, _)| &path[..at]);
            ends.any(|path| self.is_named_wrong(path)) || self.places.is_wrong(&path)
        })
    }

    /// Returns `true` if a setting or a section, by its path, is there and could not be read.
    pub(super) fn is_named_wrong(&self, path: &str) -> bool {
        self.places.wrong.contains(path)
    }

    /// Returns a value for a message: as it is in the file if it contains a variable.
    pub(super) fn shown(&self, path: &str) -> &str {
        let found = self.places.origins.get(path);
        found.map_or("", |origin| origin.shown.trim_matches('"'))
    }

    /// Adds a mistake of a setting of a section.
    pub(super) fn add<T: Kind>(
        &mut self,
        section: &Named<T>,
        key: &str,
        what: &str,
        expected: &str,
    ) {
        let path = T::path(section, key);
        let at = self.place(&path, section.at);
        self.mistakes
            .add(Mistake::new(at, path, what).expected(expected));
    }

    /// Returns `true` if a setting has its default.
    pub(super) fn is_default(&self, path: &str) -> bool {
        let found = self.places.origins.get(path);
        found.is_some_and(|origin| origin.source == Source::Default)
    }

    /// Adds a mistake for each time of a section that is zero.
    pub(super) fn positive<T: Kind>(&mut self, section: &Named<T>, times: &[(&str, Duration)]) {
        for (key, time) in times {
            if time.is_zero() {
                self.add(
                    section,
                    key,
                    "nothing happens in no time",
                    "a positive duration",
                );
            }
        }
    }
}
