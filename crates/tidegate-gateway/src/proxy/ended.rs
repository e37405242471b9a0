//! The end of a request that was passed on: what stops, what its client still gets, its line in the
//! access log.

use std::cell::RefMut;
use std::sync::Arc;

use tidegate::http::DeferredResponse;
use tidegate::isolate::Event as Count;

use super::answer::Trailing;
use super::flight::{Back, Flight, State};
use super::line::{Line, Passage};
use super::live::Fallback;
use super::logged::{Done, End, Passed, Seen, log, logs_served, own_length};
use super::out::Own;
use super::step::Ending;
use super::upstream::Chosen;
use crate::access::Outcome;
use crate::fields::response_trailers;

impl Flight {
    /// Ends the request, once: stops what is left of it, sends what the client still gets, and logs it.
    /// Outside of the borrow: a response that has begun and is not whole is cut.
    pub(super) fn end(&self, ending: Ending, trailing: Option<Box<Trailing>>) {
        let mut state = self.state();
        let mut done = Done::of(&state.request);
        let mut holds = std::mem::take(&mut state.holds);
        drop(state);
        if ending.is_by_client()
            && let Some(watch) = &holds.watch
        {
            // A probe that ends so says nothing about its server.
            watch.leave();
        }
        holds.cancel_timers();
        let wait = std::mem::take(&mut holds.wait);
        match ending {
            // The connection to the server stays.
            Ending::Served => drop(wait),
            _ => wait.stop(ending.is_by_client()),
        }
        drop((holds.body.take(), holds.tries.take()));
        let end = match (ending, std::mem::take(&mut holds.back)) {
            (Ending::Served, Back::Streaming(stream)) => {
                let timing = self.proxy.server_timing;
                let timing = timing.then(|| done.times.body_timing(self.now()));
                done.is_whole = !stream.is_closed();
                let Trailing { lines, options } = trailing.map(|some| *some).unwrap_or_default();
                let fields = response_trailers(&lines, &options, &self.route().rewriting);
                match &timing {
                    Some(timing) => {
                        let own = [("Server-Timing", timing.as_ref())];
                        stream.finish_with_trailers(fields.chain(own));
                    }
                    None => stream.finish_with_trailers(fields),
                }
                match done.is_whole {
                    true => End::Served,
                    false => self.left(),
                }
            }
            (Ending::Served, _) => End::Served,
            (Ending::Problem(problem), Back::Owed(back)) => {
                let fixed = match &self.proxy.fallback {
                    Some(Fallback::Fixed(fixed)) => Some(fixed),
                    _ => None,
                };
                done.fell_back = done.fell_back.or(fixed.map(|_| problem.reason));
                let own = Own::problem(problem, &self.route().name, fixed);
                self.send_own(own, back, &mut done)
            }
            (Ending::Problem(problem), _) => End::Problem(problem.reason, problem.reason.status()),
            (Ending::Client(status, text), Back::Owed(back)) => {
                self.send_own(Own::in_body(status, text), back, &mut done)
            }
            (Ending::Client(status, _), _) => End::Refused("body", status),
            // There is no client to respond to.
            (Ending::Refused(why), _) => End::Refused(why.word(), why.status()),
            (Ending::Left(why), _) => why.map_or_else(|| self.left(), End::Cut),
        };
        self.log(done, holds.server.take(), end);
    }

    /// Ends a request whose response was sent as a whole, and that has nothing else to stop: nearly all of
    /// them.
    #[inline]
    pub(super) fn end_plain(&self, mut state: RefMut<'_, State>) {
        let State { request, holds } = &mut *state;
        // What was done is only needed for a line in the log.
        let is_logged = request.fell_back().is_some()
            || logs_served(self.gate(), &self.route().log, request.status());
        let done = is_logged.then(|| Done::of(request));
        let wait = std::mem::take(&mut holds.wait);
        let server = holds.server.take();
        drop(state);
        drop(wait);
        if let Some(done) = done {
            self.log(done, server, End::Served);
        }
    }

    /// Sends a response of the gateway itself.
    fn send_own(&self, own: Own<'_>, back: DeferredResponse, done: &mut Done) -> End {
        let end = own.end;
        let length = own.send(self.shown(), back);
        let method = self.head.as_head().method();
        done.sent = own_length(method.as_str(), end.status(), length);
        end
    }

    /// Returns why the connection of the client has ended.
    fn left(&self) -> End {
        End::left(self.gate(), self.home)
    }

    /// Logs the end of the request.
    fn log(&self, mut done: Done, server: Option<Chosen>, end: End) {
        match end {
            End::Problem(reason, _) | End::Cut(reason) => self.route().counts.add(reason),
            _ => {}
        }
        if done.fell_back.is_some() {
            done.fallback = self.end_fallback(&done, end);
        }
        let settings = &self.route().log;
        log(self.gate(), settings, self.home, done, end, || {
            let upstream = self.upstream_of(done.fell_back.is_some());
            let passed = Passed {
                upstream: &upstream.name,
                server: server.as_ref().map(Chosen::label),
            };
            (self.seen(), Some(self.route().name.as_str()), Some(passed))
        });
    }

    /// Counts how the fallback of the request has ended, for its command, and returns it. What the client
    /// does says nothing about it.
    fn end_fallback(&self, done: &Done, end: End) -> Option<Outcome> {
        let is_fixed = self.proxy.fallback_route().is_none();
        let is_served = matches!(end, End::Served) && done.status < 500;
        let (outcome, event) = match end {
            End::Served | End::Problem(..) if is_fixed || is_served => {
                (Outcome::Success, Count::FallbackSuccess)
            }
            End::Served | End::Problem(..) => (Outcome::Failed, Count::FallbackFailure),
            _ => return None,
        };
        self.proxy.command.count(event);
        Some(outcome)
    }

    /// Returns the tunnel that the request has become, for the log.
    pub(super) fn passage(&self, done: Done, server: Option<&Chosen>) -> Option<Arc<Passage>> {
        let to = (self.gate(), &self.route().log);
        let line = Line::new(to, (self.home, done), self.seen(), &self.route().name)?;
        let upstream = &self.upstream_of(done.fell_back.is_some()).name;
        let server = server.map_or("", Chosen::label);
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
