//! What each check uses: the configuration, the mistakes, the places of settings.

use std::time::Duration;

use crate::config::load::{Config, Named};
use crate::config::mistake::{Mistake, Mistakes};
use crate::config::setting::Source;
use crate::config::source::Span;

/// A configuration and its mistakes so far.
pub(super) struct Checks<'a> {
    pub(super) config: &'a Config,
    /// The settings that could not be read. The configuration has their defaults.
    pub(super) wrong: &'a [String],
    pub(super) mistakes: &'a mut Mistakes,
}

impl Checks<'_> {
    /// Returns the place of a setting, or `otherwise` if it is a default.
    pub(super) fn place(&self, path: &str, otherwise: Span) -> Span {
        let mut origins = self.config.origins.iter();
        match origins.find(|origin| origin.path == path).map(|o| o.source) {
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
            self.wrong
                .iter()
                .any(|wrong| is_part(wrong, &path) || is_part(&path, wrong))
        })
    }

    /// Returns a value for a message: as it is in the file if it contains a variable.
    pub(super) fn shown(&self, path: &str) -> &str {
        let mut origins = self.config.origins.iter();
        let found = origins.find(|origin| origin.path == path);
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
        let mut origins = self.config.origins.iter();
        origins.any(|origin| origin.path == path && origin.source == Source::Default)
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

/// Returns `true` if a setting is the one at `path`, or a part of it.
fn is_part(setting: &str, path: &str) -> bool {
    let rest = setting.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
