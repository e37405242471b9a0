//! The body of a request that is streamed: where its next piece goes.

use std::sync::Arc;
use std::task::Waker;

use tidegate_core::internal::discard;

use super::{Call, CallReceiver, Link, Stage};
use crate::client::error::{ClientError, Kind, Phase};
use crate::codec::EncodeError;
use crate::wakers::wake;

/// How the next piece of a streamed request can be written.
pub(in crate::client) enum Writing {
    /// To this connection, when it is writable.
    Now(Link<CallReceiver>),
    /// The waker is called when that changes.
    Later,
    /// The call has ended, or its final response has come.
    Over,
}

impl Call {
    /// Returns where the next piece of the request's body goes. `waker` is called when there is a
    /// connection, when the final response comes, and when the call ends.
    pub(in crate::client) fn poll_writing(&self, waker: &Waker) -> Writing {
        // A waker is user code, which must not run under the lock.
        let waker = waker.clone();
        let mut state = self.lock();
        if matches!(state.stage, Stage::Ended) {
            return Writing::Over;
        }
        let link = state.writing.clone();
        if link
            .as_ref()
            .is_some_and(|link| link.slot.is_stopped(self.id))
        {
            return Writing::Over;
        }
        let (held, old) = (state.held, state.writer.replace(waker));
        drop(state);
        discard(old);
        match link {
            Some(link) if !held => Writing::Now(link),
            _ => Writing::Later,
        }
    }

    /// Sends a body that was held, or lets its pieces be written: the server has asked for it, or has
    /// had its time to refuse.
    pub(super) fn send_body(&self, attempt: u8) {
        let mut state = self.lock();
        // Only of this attempt is it known that its head was written.
        if state.attempt != attempt || !state.held {
            return;
        }
        let Stage::Running(link) = &state.stage else {
            return;
        };
        let link = link.clone();
        state.held = false;
        let writer = state.writer.take();
        drop(state);
        wake(writer);
        if let Some(body) = &self.request.body
            && !link.slot.is_stopped(self.id)
        {
            link.write_and_flush(body.clone());
            self.note_complete(&link);
        }
    }

    /// Notes that a piece of the body is about to be written to `link`. Returns `false` if the call
    /// does not use this connection any more.
    pub(in crate::client) fn note_streamed(&self, link: &Link<CallReceiver>) -> bool {
        let mut state = self.lock();
        let now = state.writing.as_ref();
        let same = now.is_some_and(|now| Arc::ptr_eq(&now.slot, &link.slot));
        state.streamed |= same;
        same && !link.slot.is_stopped(self.id)
    }

    /// Notes that the request is complete.
    pub(in crate::client) fn note_complete(&self, link: &Link<CallReceiver>) {
        link.slot.complete(self.id, self.host.now(self.at));
    }

    /// Ends the call, because the rest of its request will not come. A call whose final response
    /// has come does not need it.
    pub(in crate::client) fn give_up_body(&self) {
        let link = self.lock().writing.clone();
        if link.is_some_and(|link| link.slot.is_stopped(self.id)) {
            return;
        }
        let why = self.error(Kind::BodyDropped, Phase::Head, true, false);
        if let Some((stage, waiting)) = self.end() {
            self.undo(stage);
            waiting.fail(why);
        }
    }

    /// Returns the error of a body that does not keep to its declared length.
    pub(in crate::client) fn bad_body(&self, why: EncodeError) -> ClientError {
        self.error(Kind::Encode(why), Phase::Head, true, false)
    }
}
