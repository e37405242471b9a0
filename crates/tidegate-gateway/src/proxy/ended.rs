//! The line of the access log about a request that was passed on.

use std::sync::Arc;

use super::flight::{Ended, Flight};
use super::line::{Line, Passage};
use super::logged::{End, Seen, log};
use super::upstream::Chosen;
use crate::access::Record;

impl Flight {
    /// Logs the end of the request. `ended` is what `State::end` has returned: `None` if the request
    /// had ended before.
    pub(super) fn log(&self, ended: Option<Ended>, end: End) {
        let Some(Ended { done, server }) = ended else {
            return;
        };
        if let End::Problem(reason, _) = end {
            self.route().counts.add(reason);
        }
        let settings = &self.route().log;
        log(self.gate(), settings, self.home, done, end, |record| {
            let seen = self.seen();
            let upstream = self.upstream_of(done.fell_back);
            Record {
                id: self.request_id.as_str(),
                client: seen.client,
                method: seen.method,
                host: seen.host,
                path: seen.path,
                query: seen.query,
                route: Some(&self.route().name),
                upstream: Some(&upstream.name),
                server: server.as_ref().map(Chosen::label),
                ..record
            }
        });
    }

    /// Returns the tunnel that the request has become, for the log.
    pub(super) fn passage(&self, ended: Ended) -> Option<Arc<Passage>> {
        let Ended { done, server } = ended;
        let to = (self.gate(), &self.route().log);
        let line = Line::new(to, (self.home, done), self.seen(), &self.route().name)?;
        let upstream = &self.upstream_of(done.fell_back).name;
        let server = server.as_ref().map_or("", Chosen::label);
        Some(Passage::new(line.passed(
            self.request_id.as_str(),
            upstream,
            server,
        )))
    }

    /// Returns the parts of the request that the log shows.
    fn seen(&self) -> Seen<'_> {
        let mut seen = Seen::new(&self.head.as_head(), self.client);
        if let Some(original) = &self.original {
            (seen.host, seen.path) = (&original.0, &original.1);
        }
        seen
    }
}
