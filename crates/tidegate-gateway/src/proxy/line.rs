//! Lines of the access log that are written when the request is gone: about files and tunnels.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::gate::Gate;
use super::logged::{Done, End, Passed, Seen, log, own_length};
use crate::access::OwedLine;
use crate::config::types::Log;

/// What a later line says about its request.
pub(super) struct Line {
    gate: Arc<Gate>,
    settings: Arc<Log>,
    /// The number of the loop.
    home: usize,
    done: Done,
    id: String,
    client: Option<IpAddr>,
    method: String,
    host: String,
    path: String,
    query: Option<String>,
    route: String,
    /// The upstream and the server, if the request was passed on.
    passed: Option<[String; 2]>,
    /// Another thread may write the line, also when the loop has ended.
    _owed: OwedLine,
}

impl Line {
    /// Keeps what the line needs. Returns `None` if there is no log.
    pub(super) fn new(
        (gate, settings): (&Arc<Gate>, &Arc<Log>),
        (home, done): (usize, Done),
        seen: Seen<'_>,
        route: &str,
    ) -> Option<Self> {
        let log = gate.reports.log.as_ref()?;
        Some(Self {
            _owed: log.owe(),
            gate: Arc::clone(gate),
            settings: Arc::clone(settings),
            home,
            done,
            id: seen.id.to_owned(),
            client: seen.client,
            method: seen.method.to_owned(),
            host: seen.host.to_owned(),
            path: seen.path.to_owned(),
            query: seen.query.filter(|_| settings.query).map(str::to_owned),
            route: route.to_owned(),
            passed: None,
        })
    }

    /// Adds the upstream and the server of a request that was passed on.
    pub(super) fn passed(self, upstream: &str, server: &str) -> Self {
        Self {
            passed: Some([upstream, server].map(str::to_owned)),
            ..self
        }
    }

    /// Writes the line about a response with this status and length; 0 if the client has left.
    /// `error` is that of the file system, if that is the reason.
    pub(super) fn write_response(mut self, status: u16, length: u64, error: Option<&io::Error>) {
        self.done.sent = length;
        if let Some(error) = error.filter(|_| status >= 500) {
            let what = format!("route.{} {}: {error}", self.route, self.path);
            self.gate.reports.problems.report("files", what);
        }
        let end = match status {
            0 => End::left(&self.gate, self.home),
            503 => End::Refused(refusal(error), status),
            _ => {
                (self.done.status, self.done.is_whole) = (status, true);
                End::Local(status)
            }
        };
        self.write(end);
    }

    /// Writes the line about a response of the gateway itself, with a body of this length.
    pub(super) fn write_end(mut self, end: End, sent: usize) {
        self.done.sent = own_length(&self.method, end.status(), sent);
        self.write(end);
    }

    fn write(&self, end: End) {
        let (gate, settings) = (&self.gate, &self.settings);
        log(gate, settings, self.home, self.done, end, || {
            let seen = Seen {
                id: &self.id,
                client: self.client,
                method: &self.method,
                host: &self.host,
                path: &self.path,
                query: self.query.as_deref(),
            };
            let passed = self.passed.as_ref();
            let passed = passed.map(|[upstream, server]| Passed {
                upstream,
                server: Some(server),
            });
            (seen, Some(&*self.route), passed)
        });
    }
}

/// Returns the word for a file that is refused.
fn refusal(error: Option<&io::Error>) -> &'static str {
    use rustix::io::Errno;
    match error.map(Errno::from_io_error) {
        // Too many requests wait for files.
        None => "limit",
        Some(Some(Errno::MFILE | Errno::NFILE)) => "descriptors",
        // It was renamed again and again meanwhile.
        Some(_) => "file_changes",
    }
}

/// A tunnel that is logged when both of its sides are gone. Both relays hold it.
pub(super) struct Passage {
    line: Line,
    /// The bytes of the client, and those of the server.
    received: AtomicU64,
    sent: AtomicU64,
}

impl Passage {
    pub(super) fn new(line: Line) -> Arc<Self> {
        Arc::new(Self {
            line,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        })
    }

    /// Counts what one side has sent.
    pub(super) fn count(&self, of_client: bool, bytes: usize) {
        let count = if of_client {
            &self.received
        } else {
            &self.sent
        };
        count.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Both sides are gone.
impl Drop for Passage {
    fn drop(&mut self) {
        let done = &mut self.line.done;
        done.received += *self.received.get_mut();
        done.sent += *self.sent.get_mut();
        let end = match End::left(&self.line.gate, self.line.home) {
            End::ClientLeft => End::Served,
            // The gateway ends, and has cut it.
            cut => {
                done.is_whole = false;
                cut
            }
        };
        self.line.write(end);
    }
}

#[cfg(test)]
mod tests {
    //! Why a file is refused.

    use std::io;

    use rustix::io::Errno;

    use super::refusal;

    #[test]
    fn a_file_is_refused_for_its_own_reason() {
        let word = |errno: Errno| refusal(Some(&io::Error::from(errno)));
        assert_eq!(refusal(None), "limit");
        assert_eq!(word(Errno::MFILE), "descriptors");
        assert_eq!(word(Errno::NFILE), "descriptors");
        assert_eq!(word(Errno::AGAIN), "file_changes");
    }
}
