//! The line of the access log about a request that was passed on.

use std::sync::Arc;

use tidegate::isolate::Event;

use super::flight::{Ended, Flight};
use super::line::{Line, Passage};
use super::logged::{Done, End, Seen, log};
use super::upstream::Chosen;
use crate::access::{Outcome, Record};

impl Flight {
    /// Logs the end of the request. `ended` is what `State::end` has returned: `None` if the request
    /// had ended before.
    pub(super) fn log(&self, ended: Option<Ended>, end: End) {
        let Some(Ended { mut done, server }) = ended else {
            return;
        };
        match end {
            End::Problem(reason, _) | End::Cut(reason) => self.route().counts.add(reason),
            _ => {}
        }
        if done.fell_back.is_some() {
            done.fallback = self.end_fallback(&done, end);
        }
        let settings = &self.route().log;
        log(self.gate(), settings, self.home, done, end, |record| {
            let seen = self.seen();
            let upstream = self.upstream_of(done.fell_back.is_some());
            Record {
                id: seen.id,
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

    /// Counts how the fallback of the request has ended, for its command, and returns it. What the client
    /// does says nothing about it.
    fn end_fallback(&self, done: &Done, end: End) -> Option<Outcome> {
        let is_fixed = self.proxy.fallback_route().is_none();
        let is_served = matches!(end, End::Served) && done.status < 500;
        let (outcome, event) = match end {
            End::Served | End::Problem(..) if is_fixed || is_served => {
                (Outcome::Success, Event::FallbackSuccess)
            }
            End::Served | End::Problem(..) => (Outcome::Failed, Event::FallbackFailure),
            _ => return None,
        };
        self.proxy.command.count(event);
        Some(outcome)
    }

    /// Returns the tunnel that the request has become, for the log.
    pub(super) fn passage(&self, ended: Ended) -> Option<Arc<Passage>> {
        let Ended { done, server } = ended;
        let to = (self.gate(), &self.route().log);
        let line = Line::new(to, (self.home, done), self.seen(), &self.route().name)?;
        let upstream = &self.upstream_of(done.fell_back.is_some()).name;
        let server = server.as_ref().map_or("", Chosen::label);
        Some(Passage::new(line.passed(upstream, server)))
    }

    /// Returns the parts of the request that the log shows.
    fn seen(&self) -> Seen<'_> {
        let mut seen = Seen::new(&self.head.as_head(), self.client, self.request_id.as_str());
        if let Some(original) = &self.original {
            (seen.host, seen.path) = original.parts();
        }
        seen
    }
}
