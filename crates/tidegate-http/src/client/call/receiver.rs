//! Receives the response to a call, on the loop of its connection.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_net::{Handler, HandlerContext};

use super::{Call, MOST_IGNORED, Stage};
use crate::client::body::{BodyPieces, BodySource, ResponseBody};
use crate::client::error::{ClientError, Kind, Phase};
use crate::client::exchange_handler::{ExchangeHandler, Flow};
use crate::client::response::Response;
use crate::client::upgraded::Upgraded;
use crate::codec::{BodyFraming, ResponseHead};
use crate::pieces::Pushed;
use crate::wakers::wake;

/// Receives the response on the connection's loop.
pub(in crate::client) struct CallReceiver {
    /// `None` once the exchange has ended.
    pub(super) call: Option<Arc<Call>>,
    pub(super) attempt: u8,
}

impl ExchangeHandler for CallReceiver {
    fn interim(&mut self, head: ResponseHead<'_>, _: &mut HandlerContext<'_>) {
        if let Some(call) = self.call.as_ref().filter(|_| head.status() == 100) {
            call.send_body(self.attempt);
        }
    }

    fn head(&mut self, head: ResponseHead<'_>, _: BodyFraming, _: &mut HandlerContext<'_>) {
        let Some(call) = &self.call else {
            return;
        };
        let next = call.next_request(&head);
        let pieces = Arc::new(BodyPieces::default());
        let mut state = call.lock();
        if matches!(state.stage, Stage::Ended) {
            return;
        }
        if next.is_some() {
            // After the body of this response, so that the next request finds the connection.
            state.next = next;
            return;
        }
        let promise = state.promise.take();
        state.body = Some(Arc::clone(&pieces));
        let writer = state.writer.take();
        drop(state);
        // The rest of the request is not wanted.
        wake(writer);
        let source: Arc<dyn BodySource> = Arc::<Call>::clone(call);
        let response = Response::new(head.to_owned(), ResponseBody::new(pieces, source));
        if let Some(promise) = promise {
            // If the caller has cancelled, dropping the response ends the call.
            drop(promise.succeed(response));
        }
    }

    fn data(&mut self, bytes: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        let Some(call) = &self.call else {
            return Flow::Gone;
        };
        let mut state = call.lock();
        if state.next.is_some() {
            state.ignored += bytes.len();
            // Reading a short body is cheaper than another connection.
            if state.ignored <= MOST_IGNORED {
                return Flow::More;
            }
            drop(state);
            call.follow();
            return Flow::Gone;
        }
        let body = state.body.clone();
        drop(state);
        match body {
            Some(body) => match body.push(bytes) {
                Pushed::More => Flow::More,
                Pushed::Full => Flow::Pause,
                Pushed::Left => Flow::Gone,
            },
            None => Flow::Gone,
        }
    }

    fn trailers(&mut self, lines: Bytes, _: &mut HandlerContext<'_>) {
        let body = self.call.as_ref().and_then(|call| call.lock().body.clone());
        if let Some(body) = body {
            body.set_trailers(lines);
        }
    }

    fn switch(
        &mut self,
        head: ResponseHead<'_>,
        received: Bytes,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        let call = self.call.take_if(|call| call.request.switches)?;
        let (_, waiting) = call.end()?;
        // Nothing is read until another handler has taken over.
        ctx.set_auto_read(false);
        let (upgraded, holds) = Upgraded::new(ctx.channel(), received);
        let body = ResponseBody::new(Arc::new(BodyPieces::ended()), call);
        let response = Response::upgraded(head.to_owned(), body, upgraded);
        if let Some(promise) = waiting.promise {
            // If the caller has cancelled, dropping the response closes the connection.
            drop(promise.succeed(response));
        }
        Some(Handler::inbound(holds))
    }

    fn end(mut self, _: &mut HandlerContext<'_>) {
        if let Some(call) = self.call.take()
            && !call.follow()
            && let Some((_, waiting)) = call.end()
            && let Some(body) = waiting.body
        {
            body.finish(Ok(()));
        }
    }

    fn fail(mut self, why: ClientError, _: &mut HandlerContext<'_>) {
        if let Some(call) = self.call.take()
            && !call.follow()
        {
            call.failed(why);
        }
    }
}

/// An exchange that is dropped without an end: the loop of its connection is gone, or the caller
/// has left.
impl Drop for CallReceiver {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            let why = call.error(Kind::Closed(None), Phase::Head, true, false);
            call.end_with(why);
        }
    }
}
