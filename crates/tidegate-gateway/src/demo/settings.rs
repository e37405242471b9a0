//! The configuration of the gateway, with and without bulkheads.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Disk;

/// The name under which the configuration is read.
pub(crate) const FILE: &str = "demo.toml";
/// The variable with the token: a secret is never in a file.
const TOKEN: &str = "TIDEGATE_TOKEN";

/// The configuration of the demo, which is not a file.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The ports of the gateway and of the listener for operators.
    pub(crate) ports: (u16, u16),
    /// The token for changes.
    pub(crate) token: String,
    pub(crate) upstreams: Vec<(&'static str, SocketAddr)>,
    pub(crate) has_bulkheads: AtomicBool,
}

impl Settings {
    /// Returns the value of a variable of the configuration.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (name == TOKEN).then(|| self.token.clone())
    }

    /// Returns the configuration.
    pub(crate) fn text(&self) -> String {
        let (http, admin) = self.ports;
        let mut text = format!(
            "[listen]\nhttp = \"127.0.0.1:{http}\"\n\n\
             [listen.admin]\nat = \"127.0.0.1:{admin}\"\ntoken = \"${{{TOKEN}}}\"\n\n\
             [drain]\nannounce = \"0s\"\ndeadline = \"1s\"\n\n\
             [log]\nsuccess = 0\nrefused = 0\nfailed = 0\n"
        );
        // ORDERING: Relaxed: the reload that follows a change reads it on the same thread.
        let has_bulkheads = self.has_bulkheads.load(Ordering::Relaxed);
        for (name, address) in &self.upstreams {
            let bulkhead = match (has_bulkheads, *name) {
                (true, "fast" | "flaky") => GUARDED_FAST,
                (true, _) => GUARDED_SLOW,
                (false, _) => OPEN,
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[upstream.{name}]\nservers = \"{address}\"\n\n\
                 [route.{name}]\npath = \"/{name}\"\nupstream = \"{name}\"\n{bulkhead}"
            );
        }
        text
    }
}

/// Routes with a limit, a timeout and a breaker of their own.
const GUARDED_FAST: &str = "limit = { kind = \"adaptive\", min = 20, initial = 20, max = 200 }\n\
     timeout = \"250ms\"\n\
     breaker = { error_rate = 50, volume = 20, window = \"2s\", sleep = \"2s\" }\n";
/// The load is twice what ten slow requests at a time can do.
const GUARDED_SLOW: &str = "limit = 10\n\
     timeout = \"250ms\"\n\
     breaker = { error_rate = 50, volume = 20, window = \"2s\", sleep = \"2s\" }\n";
/// Routes without.
const OPEN: &str = "limit = 100000\ntimeout = \"30s\"\nbreaker = false\n";

impl Disk for Settings {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.ends_with(FILE) {
            true => Ok(self.text()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
