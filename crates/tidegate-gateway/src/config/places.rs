//! Where the settings of a configuration are, and which of them are wrong.

use std::collections::{BTreeSet, HashMap};

use super::setting::{Origin, Source};
use super::source::Span;

/// The settings by their paths.
pub(crate) struct Places<'a> {
    /// The settings that could be read.
    pub(super) origins: HashMap<&'a str, &'a Origin>,
    /// The settings that could not be read. The configuration has their defaults.
    pub(super) wrong: BTreeSet<String>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(origins: &'a [Origin], wrong: BTreeSet<String>) -> Self {
        let origins = origins.iter().rev();
        Self {
            origins: origins.map(|one| (one.path.as_str(), one)).collect(),
            wrong,
        }
    }

    /// Returns where a setting is, unless it is a default.
    pub(crate) fn at(&self, path: &str) -> Option<Span> {
        match self.origins.get(path)?.source {
            Source::Own(at) | Source::Inherited(at) => Some(at),
            Source::Default => None,
        }
    }

    /// Returns `true` if a setting, or a part of it, has a mistake already.
    pub(crate) fn is_wrong(&self, path: &str) -> bool {
        let below = ['.', '['].map(|separator| format!("{path}{separator}"));
        let mut below = below.iter().map(|part| {
            let next = self.wrong.range(part.clone()..).next();
            next.is_some_and(|wrong| wrong.starts_with(part))
        });
        self.wrong.contains(path) || below.any(|is_below| is_below)
    }
}
