//! The attempts of a request: admission, a server, a connection, and whether there is another one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate::http::Method;
use tidegate::http::client::{ClientError, Exchange, Phase, Upstream};
use tidegate::isolate::{Call, CommandError, Entry, Verdict};

use super::answer::Answer;
use super::flight::{Flight, Locked, Stage, State, Tries};
use super::held::{Admission, Held, Lateness};
use super::live::{Fallback, ProxyRoute};
use super::upstream::UpstreamState;
use crate::balance::Lease;
use crate::command::{Problem, Reason};

/// The time of an attempt that nothing else limits.
const NO_LIMIT: Duration = Duration::from_secs(24 * 3600);

impl ProxyRoute {
    /// Begins the attempts of a request, if the route has retries.
    pub(super) fn begin_tries(&self) -> Option<Tries> {
        let retry = self.retry.as_ref()?;
        let whole = self.timeout.unwrap_or(NO_LIMIT);
        Some(Box::new(retry.begin(self.command.call().timeout(whole))))
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
    /// body, which says itself who was late. Its retries are still taken from its attempts.
    pub(super) fn untimed(&self, has_body: bool) -> Option<Call<(), Infallible>> {
        let is_timed = self.timeout.is_some() || self.attempt_timeout.is_some();
        (has_body && is_timed).then(|| self.command.call().timeout(NO_LIMIT))
    }
}

impl Flight {
    /// Asks the command for admission of the attempt in progress.
    pub(super) fn admit(self: &Arc<Self>) {
        let Some(mut state) = self.lock() else { return };
        let attempt = state.attempt;
        if !state.is_at(attempt) {
            return;
        }
        state.stage = Stage::Admitting;
        // The command and its listeners run outside of the lock.
        let mut tries = state.tries.take();
        let has_body = state.body.is_some();
        drop(state);
        if !self.proxy.waits {
            let admitted = self.proxy.admit(has_body, tries.as_mut());
            if let Some(mut state) = self.lock() {
                state.tries = tries;
            }
            return self.admitted(attempt, admitted);
        }
        let flight = Arc::clone(self);
        let then = move |admitted| flight.admitted(attempt, admitted);
        let executor = self.gate().executor(self.home);
        let pending = match (&mut tries, self.proxy.untimed(has_body)) {
            (_, Some(call)) => call.admit_or_wait(executor, then),
            (Some(tries), None) => tries.admit_or_wait(executor, then),
            (None, None) => self.proxy.command.admit_or_wait(executor, then),
        };
        let Some(mut state) = self.lock() else { return };
        if state.is_at(attempt) {
            state.tries = tries.or(state.tries.take());
            // Otherwise the closure was called already.
            if matches!(state.stage, Stage::Admitting) && pending.is_pending() {
                state.stage = Stage::Queued(pending);
            }
        }
    }

    fn admitted(self: &Arc<Self>, attempt: u32, admitted: Result<Entry, CommandError<Infallible>>) {
        let error = match admitted {
            Ok(entry) => return self.connect(attempt, Some(entry), self.now()),
            Err(error) => error,
        };
        let is_wanted = self.lock().is_some_and(|state| state.is_at(attempt));
        if is_wanted {
            self.give_up(Problem::from(&error));
        }
    }

    /// Takes a server for the attempt, which was admitted at `now`, and a connection to it. A fallback
    /// has no entry.
    pub(super) fn connect(self: &Arc<Self>, attempt: u32, entry: Option<Entry>, now: u64) {
        let limit = self.attempt_limit();
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) {
            drop(state);
            return drop(entry);
        }
        let admission = Admission::new(entry, self.watch(&mut state));
        state.times.admitted = now;
        state.times.first.get_or_insert(now);
        if let Some(after) = limit.filter(|_| state.fell_back.is_none()) {
            let flight = Arc::clone(self);
            let expire = move || flight.attempt_expired(attempt);
            state.attempt_limit = self.gate().after(self.home, after, expire);
        }
        let picked = self.upstream(&state).pick(self.home, state.server.as_ref());
        let Some((chosen, lease)) = picked else {
            drop(state);
            return self.no_server(&admission);
        };
        // Usually there is one, and the server needs no further handle.
        let reused = chosen.target().try_acquire();
        let target = reused.is_none().then(|| chosen.target().clone());
        state.server = Some(chosen);
        let Some(exchange) = reused else {
            drop(state);
            return self.search(attempt, admission, target, lease);
        };
        let left = self.exchange(state, now, attempt, exchange, admission, lease);
        if let Some((admission, lease)) = left {
            let target = self.lock().and_then(|state| state.server_target());
            self.search(attempt, admission, target, lease);
        }
    }

    /// Returns what decides which side is late, for an attempt whose request has a body.
    fn watch(&self, state: &mut State) -> Option<Arc<Lateness>> {
        let limit = self.attempt_limit().or(self.proxy.timeout)?;
        state.lateness = state.body.is_some().then(|| Lateness::new(limit));
        state.lateness.clone()
    }

    /// Takes a connection to the server, if there is one.
    fn search(
        self: &Arc<Self>,
        attempt: u32,
        admission: Admission,
        target: Option<Upstream<Answer>>,
        lease: Lease,
    ) {
        match target {
            Some(target) => self.take_connection(attempt, admission, target, lease),
            None => self.no_server(&admission),
        }
    }

    /// Ends an attempt for which there is no server.
    fn no_server(self: &Arc<Self>, admission: &Admission) {
        // It says nothing about the health of a server.
        admission.verdict(Verdict::Ignored);
        self.give_up(Reason::NoServer.into());
    }

    /// Returns the upstream of the attempt in progress.
    fn upstream(&self, state: &State) -> &Arc<UpstreamState<Answer>> {
        self.upstream_of(state.fell_back.is_some())
    }

    /// Returns the upstream of the route, or that of its fallback.
    pub(super) fn upstream_of(&self, fell_back: bool) -> &Arc<UpstreamState<Answer>> {
        match &self.proxy.fallback {
            Some(Fallback::Upstream(upstream)) if fell_back => upstream,
            _ => &self.proxy.upstream,
        }
    }

    /// Takes an idle connection, or waits for a new one.
    fn take_connection(
        self: &Arc<Self>,
        attempt: u32,
        mut admission: Admission,
        target: Upstream<Answer>,
        mut lease: Lease,
    ) {
        while let Some(exchange) = target.try_acquire() {
            let Some(state) = self.lock() else { return };
            match self.exchange(state, self.now(), attempt, exchange, admission, lease) {
                None => return,
                Some(again) => (admission, lease) = again,
            }
        }
        let (flight, again) = (Arc::clone(self), target.clone());
        let pending = target.acquire(move |acquired| match acquired {
            Ok(exchange) => {
                let Some(state) = flight.lock() else { return };
                let now = flight.now();
                let left = flight.exchange(state, now, attempt, exchange, admission, lease);
                if let Some((admission, lease)) = left {
                    flight.take_connection(attempt, admission, again, lease);
                }
            }
            Err(why) => {
                let held = Held { admission, lease };
                flight.attempt_failed(attempt, &why, Some(held));
            }
        });
        // The closure is never called before `acquire` returns.
        let Some(mut state) = self.lock() else { return };
        if state.is_at(attempt) {
            state.stage = Stage::Connecting(pending);
        }
    }

    /// Begins the exchange on a connection. Returns the admission and the place if the connection has
    /// ended: nothing was sent, and the next one can be tried.
    fn exchange(
        self: &Arc<Self>,
        mut state: Locked<'_>,
        now: u64,
        attempt: u32,
        mut exchange: Exchange<Answer>,
        admission: Admission,
        lease: Lease,
    ) -> Option<(Admission, Lease)> {
        let answer = Answer::new(self, attempt, admission, lease);
        if !state.is_at(attempt) {
            drop(state);
            // The connection goes back to the pool.
            drop((exchange, answer));
            return None;
        }
        state.times.connected = now;
        match exchange.begin(&self.head, answer) {
            Ok(()) => {
                let before = std::mem::replace(&mut state.stage, Stage::Exchanging(exchange));
                let has_body = state.body.is_some();
                drop(state);
                drop(before);
                if has_body {
                    self.expect_continue(attempt);
                    self.pump_body();
                }
                None
            }
            Err(answer) => {
                drop(state);
                drop(exchange);
                let held = answer.into_held()?;
                Some((held.admission, held.lease))
            }
        }
    }

    /// Handles an attempt without a response: begins another one where that is safe, or gives up.
    pub(super) fn attempt_failed(
        self: &Arc<Self>,
        attempt: u32,
        why: &ClientError,
        held: Option<Held>,
    ) {
        let Some(held) = self.replace_connection(attempt, why, held) else {
            return;
        };
        self.report(why);
        let reason = Reason::from(why);
        let is_ours = why.is_refused() || why.is_bad_request();
        let judged = match is_ours {
            true => Verdict::Ignored,
            false => Verdict::Failure,
        };
        if let Some(held) = held {
            held.admission.verdict(judged);
        }
        let unanswered = why.phase() == Phase::Head
            && !why.was_answered()
            && (why.is_closed() || why.is_timeout());
        let safe = why.is_safe_to_retry() || unanswered && self.is_idempotent();
        self.again_or_give_up(attempt, safe, reason);
    }

    /// Reports why a server cannot be used, for operators: the client and the log get one word.
    fn report(&self, why: &ClientError) {
        let kind = match (why.is_connect(), why.is_bad_response()) {
            (true, _) => "connect",
            (_, true) => "bad_response",
            _ => return,
        };
        let upstream = self.lock().map(|state| self.upstream(&state).name.clone());
        let upstream = upstream.unwrap_or_default();
        let problems = &self.gate().reports.problems;
        problems.report(kind, format!("upstream.{upstream}: {why}"));
    }

    /// Goes on with another connection to the same server if the one of the attempt was used before,
    /// and the server has closed it while the request was on its way: that is how servers end idle
    /// connections, and no failure. Returns what the attempt holds in all other cases. Each connection
    /// can end so once, and a new one cannot.
    fn replace_connection(
        self: &Arc<Self>,
        attempt: u32,
        why: &ClientError,
        held: Option<Held>,
    ) -> Option<Option<Held>> {
        let is_stale = why.is_closed() && why.was_sent() && why.is_safe_to_retry();
        let Some(mut state) = self.lock().filter(|_| is_stale) else {
            return Some(held);
        };
        let may_repeat = state.is_at(attempt) && state.can_repeat() && state.is_unanswered();
        let target = state.server_target().filter(|_| may_repeat);
        match (held, target) {
            (Some(held), Some(target)) => {
                state.blocked = false;
                let before = std::mem::replace(&mut state.stage, Stage::Admitting);
                drop(state);
                drop(before);
                self.take_connection(attempt, held.admission, target, held.lease);
                None
            }
            (held, _) => Some(held),
        }
    }

    /// Handles the end of an attempt's time.
    fn attempt_expired(self: &Arc<Self>, attempt: u32) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) || !state.is_unanswered() {
            return;
        }
        let sent = matches!(state.stage, Stage::Exchanging(_));
        if state.blame(self.now()) {
            drop(state);
            return self.refuse_late_body();
        }
        let stage = std::mem::replace(&mut state.stage, Stage::Admitting);
        drop(state);
        // The answer is dropped with its entry, which has timed out.
        stage.stop();
        self.again_or_give_up(attempt, !sent || self.is_idempotent(), Reason::Timeout);
    }

    /// Begins another attempt if that is `safe`, the budget has one and time is left.
    fn again_or_give_up(self: &Arc<Self>, attempt: u32, safe: bool, reason: Reason) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) {
            return;
        }
        if let Some(timer) = state.attempt_limit.take() {
            timer.cancel();
        }
        let may_repeat = safe && state.can_repeat() && state.is_unanswered();
        let may_repeat = may_repeat && state.fell_back.is_none();
        let Some(mut tries) = state.tries.take().filter(|_| may_repeat) else {
            drop(state);
            return self.give_up(reason.into());
        };
        drop(state);
        let pause = tries.after_failure(None);
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) {
            return;
        }
        let Some(pause) = pause else {
            drop(state);
            return self.give_up(reason.into());
        };
        state.tries = Some(tries);
        state.attempt += 1;
        state.blocked = false;
        let before = std::mem::replace(&mut state.stage, Stage::Admitting);
        let wait = pause > Duration::ZERO;
        if wait {
            let flight = Arc::clone(self);
            let timer = self.gate().after(self.home, pause, move || flight.admit());
            state.stage = Stage::Pausing(timer);
        }
        drop(state);
        drop(before);
        if !wait {
            self.admit();
        }
    }

    /// Returns the time of one attempt, if it differs from that of the request.
    fn attempt_limit(&self) -> Option<Duration> {
        self.proxy.attempt_timeout
    }

    fn is_idempotent(&self) -> bool {
        use Method::{Delete, Get, Head, Options, Put, Trace};
        let method = self.head.as_head().method();
        matches!(method, Get | Head | Put | Delete | Options | Trace)
    }
}
