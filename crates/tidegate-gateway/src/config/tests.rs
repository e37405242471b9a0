//! Configurations for tests of other modules.

use std::io;
use std::path::Path;

use super::{Config, Disk, load};

/// One file.
pub(crate) struct One<'a>(pub(crate) &'a str);

impl Disk for One<'_> {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.to_owned())
    }
}

/// Returns the configuration of a file without mistakes.
pub(crate) fn config_of(text: &str) -> Config {
    let loaded = load(Path::new("/tidegate.toml"), &One(text), &|_| None).unwrap();
    let mistakes = loaded.mistakes.render(&loaded.sources);
    loaded.config.unwrap_or_else(|| panic!("{mistakes}"))
}
