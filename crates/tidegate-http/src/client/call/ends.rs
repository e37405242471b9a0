//! How a call ends: with a response, an error, a cancel, or the request that follows a redirect.

use std::sync::Arc;
use std::time::Duration;

use tidegate_promise::{Failure, Promise};

use super::{Call, Next, Stage};
use crate::client::body::BodyPieces;
use crate::client::error::{ClientError, Kind, Phase};
use crate::client::response::Response;
use crate::client::slot::Signal;
use crate::codec::ResponseHead;
use crate::wakers::wake;

/// What waits for the result of a call: its promise, or after the head its body.
pub(super) struct Waiting {
    pub(super) promise: Option<Promise<Response>>,
    pub(super) body: Option<Arc<BodyPieces>>,
}

impl Waiting {
    pub(super) fn fail(self, why: ClientError) {
        match (self.promise, self.body) {
            (Some(promise), _) => drop(promise.fail(Failure::new(why))),
            (None, Some(body)) => body.finish(Err(why)),
            (None, None) => {}
        }
    }
}

impl Call {
    /// Returns the request that follows a redirect, if `head` is one that the call follows.
    pub(super) fn next_request(&self, head: &ResponseHead<'_>) -> Option<Next> {
        let redirect = self.request.redirect.as_ref()?;
        redirect(head.status(), head.get("location")?)
    }

    /// Sends the request that follows a redirect. Returns `false` if there is none.
    pub(super) fn follow(&self) -> bool {
        let Some(next) = self.lock().next.take() else {
            return false;
        };
        if let Some((_, waiting)) = self.end()
            && let Some(promise) = waiting.promise
        {
            let took = self.host.now(self.at).saturating_sub(self.began);
            next(promise, Duration::from_nanos(took));
        }
        true
    }

    /// Handles a failed exchange: begins the second attempt, or ends the call.
    pub(super) fn failed(self: &Arc<Self>, why: ClientError) {
        if why.phase() == Phase::Connect {
            // A server that could not encrypt this connection would hardly encrypt another one.
            return self.end_with(why);
        }
        let mut state = self.lock();
        // A piece of a streamed body cannot be sent again.
        let safe = why.is_safe_to_retry() && !state.streamed;
        if safe && state.attempt == 0 && state.promise.is_some() {
            state.attempt = 1;
            state.stage = Stage::Starting;
            state.writing = None;
            drop(state);
            return self.acquire(1, true);
        }
        drop(state);
        self.end_with(why.with_retry(safe));
    }

    /// Ends the call with an error, unless it has ended.
    pub(super) fn end_with(&self, why: ClientError) {
        if let Some((_, waiting)) = self.end() {
            waiting.fail(why);
        }
    }

    /// Ends the call because its time is over.
    pub(super) fn time_out(&self, kind: Kind) {
        let (phase, sent) = {
            let state = self.lock();
            match &state.stage {
                Stage::Starting => (Phase::Wait, false),
                Stage::Searching(search) => (search.phase(), false),
                Stage::Running(_) if state.promise.is_some() => (Phase::Head, true),
                Stage::Running(_) | Stage::Ended => (Phase::Body, true),
            }
        };
        let why = self.error(kind, phase, sent, !sent);
        if let Some((stage, waiting)) = self.end() {
            self.undo(stage);
            waiting.fail(why);
        }
    }

    /// Sets the final stage. Returns the stage before, and what waits for the result; `None` if the
    /// call has ended before.
    pub(super) fn end(&self) -> Option<(Stage, Waiting)> {
        let mut state = self.lock();
        let stage = std::mem::replace(&mut state.stage, Stage::Ended);
        if matches!(stage, Stage::Ended) {
            return None;
        }
        let timers = std::mem::take(&mut state.timers);
        let (promise, body) = (state.promise.take(), state.body.take());
        let writer = state.writer.take();
        drop(state);
        wake(writer);
        for timer in timers {
            timer.cancel();
        }
        Some((stage, Waiting { promise, body }))
    }

    /// Stops what a call is doing.
    pub(super) fn undo(&self, stage: Stage) {
        match stage {
            Stage::Searching(search) => search.leave(),
            Stage::Running(link) => link.channel.fire_event(Signal::Cancel(self.id)),
            Stage::Starting | Stage::Ended => {}
        }
    }
}
