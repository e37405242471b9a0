//! The attempts of a request: admission, a server, a connection, and what comes after a failure.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate::http::client::{ClientError, Exchange, Phase, Upstream};
use tidegate::isolate::{Call, CommandError, Entry, Event as Count};
use tidegate::loops::CoarseTimer;
use tidegate_core::internal::as_nanos;

use super::answer::Answer;
use super::flight::{Flight, State, Tries, Wait};
use super::flights::Watched;
use super::held::{Admission, Held, Watch};
use super::live::ProxyRoute;
use super::step::{Action, Event, Failure, Request, Side, step};
use super::upstream::UpstreamState;
use crate::command::{Problem, Reason};

/// The time of an attempt that nothing else limits.
const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl ProxyRoute {
    /// Begins the attempts of a request, if the route has retries.
    pub(super) fn begin_tries(&self) -> Option<Tries> {
        let retry = self.retry.as_ref()?;
        let whole = self.timeout().unwrap_or(NO_LIMIT);
        Some(retry.begin(self.command.call().timeout(whole)))
    }

    /// Asks for the admission of an attempt.
    pub(super) fn admit(
        &self,
        has_body: bool,
        tries: Option<&mut Tries>,
    ) -> Result<Entry, CommandError<Infallible>> {
        match (tries, self.untimed(has_body)) {
            (_, Some(call)) => call.admit(),
            (Some(tries), None) => tries.admit(),
            (None, None) => self.command.admit(),
        }
    }

    /// Returns the call of an attempt whose entry has no timeout of its own: that of a request with a
    /// body, which says itself which side was late. Its retries are still taken from its attempts.
    pub(super) fn untimed(&self, has_body: bool) -> Option<Call<(), Infallible>> {
        let is_timed = self.command.timeout().is_some() || self.timeout().is_some();
        (has_body && is_timed).then(|| self.command.call().timeout(NO_LIMIT))
    }
}

impl Flight {
    /// Asks the command for admission of the attempt.
    pub(super) fn admit(&self, attempt: u32) {
        let mut state = self.state();
        let mut tries = state.holds.tries.take();
        let has_body = state.request.has_body();
        drop(state);
        if !self.proxy.waits {
            let admitted = self.proxy.admit(has_body, tries.as_mut());
            self.state().holds.tries = tries;
            return self.admitted(attempt, admitted);
        }
        let flight = self.clone();
        let then = move |admitted| {
            // A loop that is ending hands it to any thread.
            let gate = Arc::clone(flight.gate());
            gate.on_loop(flight.home, move || flight.admitted(attempt, admitted));
        };
        let executor = self.gate().executor(self.home);
        let pending = match (&mut tries, self.proxy.untimed(has_body)) {
            (_, Some(call)) => call.admit_or_wait(executor, then),
            (Some(tries), None) => tries.admit_or_wait(executor, then),
            (None, None) => self.proxy.command.admit_or_wait(executor, then),
        };
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        if request.is_at(attempt) {
            holds.tries = tries.or(holds.tries.take());
        }
        // Otherwise the closure was called already.
        if request.asks(attempt) && pending.is_pending() {
            holds.wait = Wait::Entry(pending);
        }
    }

    fn admitted(&self, attempt: u32, admitted: Result<Entry, CommandError<Infallible>>) {
        match admitted {
            Ok(entry) => self.connect(attempt, entry, self.now()),
            Err(error) => self.handle(Some(attempt), Event::Denied(Problem::from(&error))),
        }
    }

    /// Takes a server for the attempt, which was admitted at `now`, and a connection to it.
    pub(super) fn connect(&self, attempt: u32, entry: Entry, now: u64) {
        let limit = self.proxy.attempt_timeout();
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let actions = step(request, Some(attempt), Event::Admitted, || now);
        if actions.are_late() {
            drop(state);
            // Its client has left.
            return entry.abandon();
        }
        holds.watch = self.watch(request, entry.is_probe(), limit);
        let admission = Admission::new(entry, holds.watch.clone());
        let fell_back = request.fell_back().is_some();
        if let Some(limit) = limit.filter(|_| !fell_back) {
            holds.attempt_limit = self.attempt_timer(attempt, as_nanos(limit));
        }
        let upstream = self.upstream_of(fell_back);
        let Some((chosen, lease)) = upstream.pick(self.home, holds.server.as_ref()) else {
            drop(state);
            admission.unserved();
            return self.handle(Some(attempt), Event::Denied(Reason::NoServer.into()));
        };
        // Usually there is one.
        let idle = chosen.target().try_acquire();
        let connected = idle.is_some();
        let picked = Event::Picked { connected };
        let actions = step(request, Some(attempt), picked, || now);
        holds.server = Some(chosen);
        drop(state);
        let held = Held {
            _lease: lease,
            admission,
        };
        let left = match (actions.first, idle) {
            (Action::Begin, Some(exchange)) => self.exchange(attempt, now, exchange, held),
            (Action::Search, _) => Some(held),
            _ => None,
        };
        if let Some(held) = left {
            self.search(attempt, held, false);
        }
    }

    /// Returns what tells the time of the client from that of the server, for an attempt whose entry has
    /// no timeout: its request has a body, or it is that of a fallback. It also says whether the client
    /// of a probe has left, and when an attempt with a time of its own has ended: the next one follows.
    fn watch(
        &self,
        request: &Request,
        is_probe: bool,
        limit: Option<Duration>,
    ) -> Option<Arc<Watch>> {
        let is_untimed = request.has_body() || request.fell_back().is_some();
        (is_untimed || is_probe || limit.is_some()).then(|| {
            let limit = limit.or_else(|| self.proxy.timeout());
            Watch::new(limit.unwrap_or(NO_LIMIT))
        })
    }

    /// Returns the upstream of the route, or that of its fallback.
    pub(super) fn upstream_of(&self, fell_back: bool) -> &Arc<UpstreamState> {
        match self.proxy.fallback_route().filter(|_| fell_back) {
            Some(fallback) => &fallback.upstream,
            None => &self.proxy.upstream,
        }
    }

    /// Takes an idle connection to the server of the attempt, or waits for a new one. With `fresh`, it
    /// takes no idle one.
    fn search(&self, attempt: u32, mut held: Held, fresh: bool) {
        let Some(target) = self.target() else {
            held.admission.unserved();
            return self.handle(Some(attempt), Event::Denied(Reason::NoServer.into()));
        };
        while let Some(exchange) = (!fresh).then(|| target.try_acquire()).flatten() {
            match self.exchange(attempt, self.now(), exchange, held) {
                None => return,
                Some(again) => held = again,
            }
        }
        let flight = self.clone();
        let then = move |acquired| flight.acquired(attempt, acquired, held, fresh);
        let pending = match fresh {
            true => target.acquire_new(then),
            false => target.acquire(then),
        };
        // The closure is never called before `acquire` returns.
        let mut before = Wait::Search(pending);
        let mut state = self.state();
        if state.request.searches(attempt) {
            std::mem::swap(&mut state.holds.wait, &mut before);
        }
        drop(state);
    }

    /// Returns the connections to the server of the attempt.
    fn target(&self) -> Option<Upstream<Answer>> {
        let state = self.state();
        let server = state.holds.server.as_ref();
        server.map(|chosen| chosen.target().clone())
    }

    fn acquired(
        &self,
        attempt: u32,
        acquired: Result<Exchange<Answer>, ClientError>,
        held: Held,
        fresh: bool,
    ) {
        let exchange = match acquired {
            Ok(exchange) => exchange,
            Err(why) => return self.failed(attempt, &why, Some(held)),
        };
        let event = Event::Connected;
        let actions = step(&mut self.state().request, Some(attempt), event, || 0);
        if actions.are_late() {
            // The connection goes back to the pool.
            return drop((exchange, held));
        }
        if let Some(held) = self.exchange(attempt, self.now(), exchange, held) {
            self.search(attempt, held, fresh);
        }
    }

    /// Begins the exchange on a connection. Returns the admission and the place if the connection has
    /// ended that was idle before: nothing was sent, and the next one can be tried.
    fn exchange(
        &self,
        attempt: u32,
        now: u64,
        mut exchange: Exchange<Answer>,
        held: Held,
    ) -> Option<Held> {
        let is_reused = exchange.is_reused();
        match exchange.begin(&self.head, Answer::new(self, attempt, held)) {
            Ok(()) => {
                let mut state = self.state();
                let State { request, holds } = &mut *state;
                let actions = step(request, Some(attempt), Event::Begun, || now);
                let before = std::mem::replace(&mut holds.wait, Wait::Exchange(exchange));
                drop(state);
                drop(before);
                if !actions.are_none() {
                    self.act(actions);
                }
                None
            }
            Err(answer) => {
                drop(exchange);
                let held = answer.into_held()?;
                if !is_reused {
                    self.broken(attempt, held);
                    return None;
                }
                Some(held)
            }
        }
    }

    /// Handles a new connection that the server has closed before anything was sent.
    fn broken(&self, attempt: u32, mut held: Held) {
        let (of, event) = (Some(attempt), Event::Broken);
        let actions = step(&mut self.state().request, of, event, || self.now());
        if matches!(actions.first, Action::Replace) {
            return self.replace(attempt, held);
        }
        held.admission.verdict(false, || self.now());
        drop(held);
        self.act(actions);
    }

    /// Handles an attempt without a response, or with a part of it only.
    #[cold]
    pub(super) fn failed(&self, attempt: u32, why: &ClientError, held: Option<Held>) {
        let is_head = why.phase() == Phase::Head;
        let is_safe = why.is_safe_to_retry();
        let failure = Failure {
            reason: Reason::from(why),
            sent: why.was_sent(),
            stale: held.is_some() && is_head && is_safe && why.is_closed(),
            safe: is_safe,
            silent: is_head && !why.was_answered() && (why.is_closed() || why.is_timeout()),
        };
        let (of, event) = (Some(attempt), Event::Failed(failure));
        let actions = step(&mut self.state().request, of, event, || self.now());
        let held = match (actions.first, held) {
            (Action::Replace, Some(held)) => return self.replace(attempt, held),
            (_, held) => held,
        };
        // What comes after the end of a request says nothing about its server.
        if !actions.are_late() {
            self.report(why);
        }
        // Then it says nothing about the server.
        let is_ours = why.is_refused() || why.is_bad_request();
        let is_ours = is_ours || failure.reason == Reason::Descriptors;
        match held {
            Some(held) if is_ours => held.admission.ignore(),
            Some(mut held) => held.admission.verdict(false, || self.now()),
            None => {}
        }
        self.act(actions);
    }

    /// Goes on with a new connection to the same server.
    fn replace(&self, attempt: u32, held: Held) {
        let now = self.now();
        let mut state = self.state();
        if let Some(watch) = &state.holds.watch {
            // The client is not waited for while there is no connection.
            watch.wait(false, now);
        }
        let before = std::mem::take(&mut state.holds.wait);
        drop(state);
        drop(before);
        self.search(attempt, held, true);
    }

    /// Reports why a server cannot be used, for operators: the client and the log get one word.
    fn report(&self, why: &ClientError) {
        let kind = match Reason::from(why) {
            Reason::Descriptors => "descriptors",
            _ if why.is_connect() => "connect",
            _ if why.is_bad_response() => "bad_response",
            _ => return,
        };
        let fell_back = self.state().request.fell_back().is_some();
        let upstream = &self.upstream_of(fell_back).name;
        let problems = &self.gate().reports.problems;
        problems.report(kind, format!("upstream.{upstream}: {why}"));
    }

    /// Ends the attempt after so many nanoseconds.
    pub(super) fn limit_attempt(&self, attempt: u32, nanos: u64) {
        let timer = self.attempt_timer(attempt, nanos);
        self.state().holds.attempt_limit = timer;
    }

    fn attempt_timer(&self, attempt: u32, nanos: u64) -> Option<CoarseTimer> {
        let flight = self.clone();
        let expire = move || {
            let limit = flight.proxy.attempt_timeout().unwrap_or(NO_LIMIT);
            let state = flight.state();
            let answered = match &state.holds.wait {
                Wait::Exchange(exchange) => exchange.was_answered(),
                _ => false,
            };
            drop(state);
            let limit = as_nanos(limit);
            flight.handle(Some(attempt), Event::Expired { limit, answered });
        };
        let after = Duration::from_nanos(nanos);
        self.gate().after(self.home, after, expire)
    }

    /// Notes which side has used up the time of the attempt.
    pub(super) fn blame(&self, side: Side) {
        let now = self.now();
        if let Some(watch) = &self.state().holds.watch {
            watch.set_late(side, now);
        }
    }

    /// Asks for another attempt: if the budget has one and time is left.
    pub(super) fn retry(&self, attempt: u32, reason: Reason) {
        let mut state = self.state();
        let holds = &mut state.holds;
        let (mut tries, timer) = (holds.tries.take(), holds.attempt_limit.take());
        drop(state);
        if let Some(timer) = timer {
            timer.cancel();
        }
        let pause = tries.as_mut().and_then(|tries| tries.after_failure(None));
        let event = Event::Retried(reason, pause);
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let actions = step(request, Some(attempt), event, || self.now());
        if pause.is_some() {
            holds.tries = tries.take();
        }
        drop(state);
        self.act(actions);
    }

    /// Waits until the attempt before has given back what it held: its connection may still be open.
    pub(super) fn free(&self, attempt: u32, pause: Duration) {
        let ended = self.state().holds.watch.take();
        let event = Event::Freed(pause);
        let Some(ended) = ended else {
            return self.handle(Some(attempt), event);
        };
        let flight = self.clone();
        ended.freed.then(move || flight.later(Some(attempt), event));
    }

    /// Begins the attempt after a pause.
    pub(super) fn pause(&self, attempt: u32, pause: Duration) {
        let flight = self.clone();
        let go_on = move || flight.handle(Some(attempt), Event::Paused);
        let timer = self.gate().after(self.home, pause, go_on);
        self.state().holds.wait = timer.map_or(Wait::Nothing, Wait::Pause);
    }

    /// Turns the request to the upstream of its fallback, which has so many nanoseconds, if its command
    /// admits it.
    pub(super) fn turn(&self, attempt: u32, problem: Problem, left: u64) {
        let now = self.now();
        let fallback = self.proxy.fallback_route();
        let Some((fallback, entry)) =
            fallback.and_then(|fallback| Some((fallback, fallback.command.admit().ok()?)))
        else {
            self.proxy.command.count(Count::FallbackRejection);
            return self.handle(Some(attempt), Event::Turned(problem, false));
        };
        let own = fallback.command.timeout().unwrap_or(Duration::MAX);
        let left = match left {
            u64::MAX => own,
            left => Duration::from_nanos(left).min(own),
        };
        let mut state = self.state();
        let State { request, holds } = &mut *state;
        let event = Event::Turned(problem, true);
        let actions = step(request, Some(attempt), event, || now);
        if actions.are_late() {
            drop(state);
            return entry.abandon();
        }
        holds.server = None;
        holds.cancel_timers();
        drop(state);
        if left < Duration::MAX {
            let flight = self.clone();
            let expire = move || Watched::time_out(&flight);
            self.state().holds.limit = self.gate().after(self.home, left, expire);
        }
        self.act(actions);
        self.connect(actions.attempt, entry, now);
    }
}
