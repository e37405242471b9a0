//! Configurations for tests of other modules.

use std::io;
use std::path::Path;

use super::{Address, Config, Disk, load};

/// One file.
struct One<'a>(&'a str);

impl Disk for One<'_> {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.to_owned())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Returns the configuration of a file without mistakes.
pub(crate) fn config_of(text: &str) -> Config {
    let loaded = load(Path::new("/tidegate.toml"), &One(text), &|_| None).unwrap();
    let mistakes = loaded.mistakes.render(&loaded.sources);
    loaded.config.unwrap_or_else(|| panic!("{mistakes}"))
}

#[test]
fn a_message_shows_an_address_with_a_variable_as_it_is_in_the_file() {
    let at = |host: &str| Address::Tcp {
        host: host.to_owned(),
        port: 80,
    };
    let socket = || Address::Unix("/run/a.sock".into());
    let rows = [
        (at("a.example"), "${A}:80", "to a.example:80", "to ${A}:80"),
        (
            at("a.example"),
            "${A}:80",
            "`a.example` is not found",
            "`${A}` is not found",
        ),
        (
            at("a.example"),
            "${ALL}",
            "`a.example` is not found",
            "`${ALL}` is not found",
        ),
        (
            at("a.example"),
            "${ALL}",
            "http://a.example:80/",
            "http://${ALL}/",
        ),
        (
            at("a.example"),
            "a.example:80",
            "to a.example:80",
            "to a.example:80",
        ),
        (socket(), "unix:${A}", "to /run/a.sock", "to ${A}"),
        (
            socket(),
            "unix:/run/a.sock",
            "to /run/a.sock",
            "to /run/a.sock",
        ),
    ];
    for (address, label, message, shown) in rows {
        assert_eq!(address.hide_in(message, label), shown);
    }
}
