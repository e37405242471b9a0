//! The attempts of a request: admission, a server, a connection, and whether there is another one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate::http::Method;
use tidegate::http::client::{ClientError, Exchange, Phase, Upstream};
use tidegate::isolate::{Call, CommandError, Entry};

use super::answer::Answer;
use super::flight::{Flight, Locked, Stage, State, Tries};
use super::held::{Admission, Held, Upload};
use super::live::ProxyRoute;
use super::upstream::UpstreamState;
use crate::balance::Lease;
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
    /// Asks the command for admission of the attempt in progress.
    pub(super) fn admit(&self) {
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
        let flight = self.clone();
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

    fn admitted(&self, attempt: u32, admitted: Result<Entry, CommandError<Infallible>>) {
        let problem = match admitted {
            Ok(entry) => return self.connect(attempt, entry, self.now()),
            Err(error) => Problem::from(&error),
        };
        let is_wanted = self.lock().is_some_and(|state| state.is_at(attempt));
        if is_wanted {
            self.give_up(problem);
        }
    }

    /// Takes a server for the attempt, which was admitted at `now`, and a connection to it.
    pub(super) fn connect(&self, attempt: u32, entry: Entry, now: u64) {
        let limit = self.attempt_limit();
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) {
            drop(state);
            // Its client has left.
            return entry.abandon();
        }
        let upload = self.watch(&mut state, entry.is_probe());
        let admission = Admission::new(entry, upload);
        state.times.admitted = now;
        state.times.first.get_or_insert(now);
        if let Some(after) = limit.filter(|_| state.fell_back.is_none()) {
            self.limit_attempt(&mut state, attempt, after);
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
        state.tried += 1;
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

    /// Returns what tells the time of the client from that of the server, for an attempt whose entry has
    /// no timeout: its request has a body, or it is that of a fallback. It also says whether the client
    /// of a probe has left, and when an attempt with a time of its own has ended: the next one follows.
    fn watch(&self, state: &mut State, is_probe: bool) -> Option<Arc<Upload>> {
        let own = self.attempt_limit();
        let is_untimed = state.body.is_some() || state.fell_back.is_some();
        state.upload = (is_untimed || is_probe || own.is_some()).then(|| {
            let limit = own.or_else(|| self.proxy.timeout());
            Upload::new(limit.unwrap_or(NO_LIMIT))
        });
        state.upload.clone()
    }

    /// Takes a connection to the server, if there is one.
    fn search(
        &self,
        attempt: u32,
        admission: Admission,
        target: Option<Upstream<Answer>>,
        lease: Lease,
    ) {
        match target {
            Some(target) => self.take_connection(attempt, admission, (target, false), lease),
            None => self.no_server(&admission),
        }
    }

    /// Ends an attempt for which there is no server.
    fn no_server(&self, admission: &Admission) {
        admission.unserved();
        self.give_up(Reason::NoServer.into());
    }

    /// Returns the upstream of the attempt in progress.
    fn upstream(&self, state: &State) -> &Arc<UpstreamState> {
        self.upstream_of(state.fell_back.is_some())
    }

    /// Returns the upstream of the route, or that of its fallback.
    pub(super) fn upstream_of(&self, fell_back: bool) -> &Arc<UpstreamState> {
        match self.proxy.fallback_route().filter(|_| fell_back) {
            Some(fallback) => &fallback.upstream,
            None => &self.proxy.upstream,
        }
    }

    /// Takes an idle connection, or waits for a new one. With `fresh`, it takes no idle one.
    fn take_connection(
        &self,
        attempt: u32,
        mut admission: Admission,
        (target, fresh): (Upstream<Answer>, bool),
        mut lease: Lease,
    ) {
        while let Some(exchange) = (!fresh).then(|| target.try_acquire()).flatten() {
            let Some(state) = self.lock() else { return };
            match self.exchange(state, self.now(), attempt, exchange, admission, lease) {
                None => return,
                Some(again) => (admission, lease) = again,
            }
        }
        let (flight, again) = (self.clone(), (target.clone(), fresh));
        let then = move |acquired| match acquired {
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
        };
        let pending = match fresh {
            true => target.acquire_new(then),
            false => target.acquire(then),
        };
        // The closure is never called before `acquire` returns.
        let Some(mut state) = self.lock() else { return };
        if state.is_at(attempt) {
            state.stage = Stage::Connecting(pending);
        }
    }

    /// Begins the exchange on a connection. Returns the admission and the place if the connection has
    /// ended that was idle before: nothing was sent, and the next one can be tried.
    fn exchange(
        &self,
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
        let is_reused = exchange.is_reused();
        match exchange.begin(&self.head, answer) {
            Ok(()) => {
                let before = std::mem::replace(&mut state.stage, Stage::Exchanging(exchange));
                let has_body = state.body.is_some();
                state.send_kept(self);
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
                if !is_reused {
                    self.new_connection_ended(attempt, held);
                    return None;
                }
                Some((held.admission, held.lease))
            }
        }
    }

    /// Handles a new connection that the server has closed before anything was sent. It is replaced once,
    /// as one that was used before: a server that closes each of them would get one after the other.
    fn new_connection_ended(&self, attempt: u32, held: Held) {
        let Some(mut state) = self.lock() else { return };
        let target = state.server_target().filter(|_| state.replaced != attempt);
        state.replaced = attempt;
        drop(state);
        if let Some(target) = target {
            return self.take_connection(attempt, held.admission, (target, true), held.lease);
        }
        let mut held = held;
        held.admission.verdict(false, || self.now());
        drop(held);
        self.again_or_give_up(attempt, true, Reason::Closed);
    }

    /// Handles an attempt without a response: begins another one where that is safe, or gives up.
    pub(super) fn attempt_failed(&self, attempt: u32, why: &ClientError, held: Option<Held>) {
        if why.was_sent()
            && let Some(mut state) = self.lock().filter(|state| state.is_at(attempt))
        {
            state.was_sent = true;
            state.forget_kept();
        }
        let Some(held) = self.replace_connection(attempt, why, held) else {
            return;
        };
        // What comes after the end of a request says nothing about its server.
        if self.lock().is_some_and(|state| state.is_at(attempt)) {
            self.report(why);
        }
        let reason = Reason::from(why);
        // It says nothing about the server, and is the same with the next one.
        let lacks_descriptors = reason == Reason::Descriptors;
        let is_ours = why.is_refused() || why.is_bad_request() || lacks_descriptors;
        match held {
            Some(held) if is_ours => held.admission.ignore(),
            Some(mut held) => held.admission.verdict(false, || self.now()),
            None => {}
        }
        let unanswered = why.phase() == Phase::Head
            && !why.was_answered()
            && (why.is_closed() || why.is_timeout());
        let safe = why.is_safe_to_retry() || unanswered && self.is_idempotent();
        let safe = safe && !lacks_descriptors;
        self.again_or_give_up(attempt, safe, reason);
    }

    /// Reports why a server cannot be used, for operators: the client and the log get one word.
    fn report(&self, why: &ClientError) {
        let kind = match Reason::from(why) {
            Reason::Descriptors => "descriptors",
            _ if why.is_connect() => "connect",
            _ if why.is_bad_response() => "bad_response",
            _ => return,
        };
        let Some(state) = self.lock() else { return };
        let upstream = self.upstream(&state).name.clone();
        drop(state);
        let problems = &self.gate().reports.problems;
        problems.report(kind, format!("upstream.{upstream}: {why}"));
    }

    /// Goes on with a new connection to the same server if the one of the attempt was used before, and
    /// the server has closed it while the request was on its way, or before: that is how servers end
    /// idle connections, and no failure. Returns what the attempt holds in all other cases. It happens
    /// once for each attempt, so that a request is not sent on each connection that is idle.
    fn replace_connection(
        &self,
        attempt: u32,
        why: &ClientError,
        held: Option<Held>,
    ) -> Option<Option<Held>> {
        let is_stale = why.is_closed() && why.phase() == Phase::Head && why.is_safe_to_retry();
        let Some(mut state) = self.lock().filter(|_| is_stale) else {
            return Some(held);
        };
        let may_repeat = state.is_at(attempt) && state.can_repeat() && state.is_unanswered();
        let may_repeat = may_repeat && state.replaced != attempt;
        let target = state.server_target().filter(|_| may_repeat);
        match (held, target) {
            (Some(held), Some(target)) => {
                state.replaced = attempt;
                state.blocked = false;
                if let Some(upload) = &state.upload {
                    // The client is not waited for while there is no connection.
                    upload.wait(false, self.now());
                }
                let before = std::mem::replace(&mut state.stage, Stage::Admitting);
                drop(state);
                drop(before);
                self.take_connection(attempt, held.admission, (target, true), held.lease);
                None
            }
            (held, _) => Some(held),
        }
    }

    /// Ends the attempt after this time.
    fn limit_attempt(&self, state: &mut State, attempt: u32, after: Duration) {
        let flight = self.clone();
        let expire = move || flight.attempt_expired(attempt);
        state.attempt_limit = self.gate().after(self.home, after, expire);
    }

    /// Handles the end of an attempt's time.
    fn attempt_expired(&self, attempt: u32) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) || !state.is_unanswered() {
            return;
        }
        let (now, limit) = (self.now(), self.attempt_limit().unwrap_or(NO_LIMIT));
        if let Some(left) = state.attempt_left(now, limit) {
            return self.limit_attempt(&mut state, attempt, left);
        }
        let is_harmless = state.body_bytes == 0 && self.is_idempotent();
        let safe = match &state.stage {
            Stage::Exchanging(exchange) => is_harmless && !exchange.was_answered(),
            _ => true,
        };
        state.was_sent |= matches!(state.stage, Stage::Exchanging(_));
        state.blame_server(now);
        drop(state);
        self.again_or_give_up(attempt, safe, Reason::Timeout);
    }

    /// Begins another attempt if that is `safe`, the budget has one and time is left. The earlier one
    /// is stopped.
    fn again_or_give_up(&self, attempt: u32, safe: bool, reason: Reason) {
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
        state.note_failed(reason);
        state.attempt += 1;
        state.blocked = false;
        let before = std::mem::replace(&mut state.stage, Stage::Pausing(None));
        let (next, ended) = (state.attempt, state.upload.take());
        drop(state);
        before.stop();
        let Some(ended) = ended else {
            return self.pause(next, pause);
        };
        // The connection of the earlier attempt may still be open, and holds what this one needs.
        let flight = self.clone();
        ended.freed.then(move || {
            let gate = Arc::clone(flight.gate());
            gate.on_loop(flight.home, move || flight.pause(next, pause));
        });
    }

    /// Begins an attempt after a pause.
    fn pause(&self, attempt: u32, pause: Duration) {
        let Some(mut state) = self.lock() else { return };
        if !state.is_at(attempt) {
            return;
        }
        if pause.is_zero() {
            drop(state);
            return self.admit();
        }
        let flight = self.clone();
        let timer = self.gate().after(self.home, pause, move || flight.admit());
        state.stage = Stage::Pausing(timer);
    }

    /// Returns the time of one attempt, if it differs from that of the request.
    fn attempt_limit(&self) -> Option<Duration> {
        self.proxy.attempt_timeout()
    }

    pub(super) fn is_idempotent(&self) -> bool {
        use Method::{Delete, Get, Head, Options, Put, Trace};
        let method = self.head.as_head().method();
        matches!(method, Get | Head | Put | Delete | Options | Trace)
    }
}
