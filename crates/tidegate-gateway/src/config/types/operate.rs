//! The sections of operation: access log, drain, reload.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::notation::Share;
use crate::config::setting::settings;
use crate::config::values::Count;

settings! {
    /// The access log: a line of JSON for each request.
    pub struct Log {
        /// The file; off means standard output. It is opened again on SIGUSR1. A relative path begins at the working directory of the
        /// process.
        file: Option<PathBuf> = None,
        /// The share of successful requests that are logged.
        success: Share = Share::percent(100),
        /// The share of refused requests that are logged.
        refused: Share = Share::percent(100),
        /// The share of failed requests that are logged.
        failed: Share = Share::percent(100),
        /// Logs query strings, which may contain secrets.
        query: bool = false,
        /// The largest number of lines that wait for the disk. More are left out and counted.
        queue: Count = Count(10_000),
    }
}

settings! {
    /// What happens on SIGTERM.
    pub struct Drain {
        /// How long `/ready` returns 503 before the listeners close.
        announce: Duration = Duration::from_secs(5),
        /// How long requests in flight may take after that.
        deadline: Duration = Duration::from_secs(30),
    }
}

settings! {
    /// When the configuration is read again, besides SIGHUP and the admin listener.
    pub struct Reload {
        /// Reads it again when one of its files changes.
        watch: bool = true,
        /// How long the files must be unchanged before they are read.
        settle: Duration = Duration::from_millis(200),
    }
}
