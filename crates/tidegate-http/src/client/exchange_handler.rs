//! What receives a response: a handler of the user, or a call.

use std::ops::Range;

use bytes::Bytes;
use tidegate_net::{Handler, HandlerContext};

use super::error::ClientError;
use crate::codec::{BodyFraming, ResponseHead};

/// Whether the receiver of a body takes more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It takes more.
    More,
    /// It takes no more until [`Exchange::resume`](super::Exchange::resume) is called.
    Pause,
    /// It never takes more: the connection ends.
    Gone,
}

/// Receives the response of an [`Exchange`](super::Exchange).
///
/// # Threads
///
/// All methods run on the event loop of the connection, with the context of its handler. So they
/// write to another channel of that loop with [`HandlerContext::neighbour`], without a lock or a
/// copy. `end` and `fail` are the last call; one of them comes unless the exchange is cancelled or
/// the event loop ends, which drop the handler.
pub trait ExchangeHandler: Send + 'static {
    /// Called with each interim head (status 1xx). A server may send 16 in a second; with more, the
    /// exchange fails.
    fn interim(&mut self, head: ResponseHead<'_>, ctx: &mut HandlerContext<'_>) {
        let _ = (head, ctx);
    }

    /// Called with the final head, and with where the body ends.
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>);

    /// Whether [`whole`](Self::whole) is called.
    const TAKES_WHOLE: bool = false;

    /// Called in place of `head` and `data` if the head and its whole body were received at once. The
    /// body is this part of the received bytes: a copy costs less than to share their memory, if it is
    /// short. The end of the response comes next, so it cannot pause.
    fn whole(
        &mut self,
        head: ResponseHead<'_>,
        framing: BodyFraming,
        received: &Bytes,
        body: Range<usize>,
        ctx: &mut HandlerContext<'_>,
    ) {
        self.head(head, framing, ctx);
        self.data(received.slice(body), ctx);
    }

    /// Called with each part of the body: a slice of the received bytes, or small chunks that were
    /// received together, joined. With [`Flow::Pause`] the
    /// connection stops reading until [`Exchange::resume`](super::Exchange::resume).
    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow;

    /// Called with the trailer fields. [`Trailers`](crate::codec::Trailers) reads them.
    fn trailers(&mut self, lines: Bytes, ctx: &mut HandlerContext<'_>) {
        let _ = (lines, ctx);
    }

    /// Called when the connection takes more of the request, after
    /// [`Exchange::write`](super::Exchange::write) has returned [`Flow::Pause`].
    fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        let _ = ctx;
    }

    /// Called if the server changes the protocol, with status 101 or, after a `CONNECT`, with one of
    /// success; `received` follows its head. The handler that is returned takes the connection over,
    /// which does not belong to the client any more. It takes bytes, and gets `added`. Without one, the
    /// exchange fails.
    fn switch(
        &mut self,
        head: ResponseHead<'_>,
        received: Bytes,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        let _ = (head, received, ctx);
        None
    }

    /// Called at the end of the response.
    fn end(self, ctx: &mut HandlerContext<'_>)
    where
        Self: Sized;

    /// Called if the exchange fails. [`ClientError::is_safe_to_retry`] tells whether another one may
    /// be begun with the same request.
    fn fail(self, why: ClientError, ctx: &mut HandlerContext<'_>)
    where
        Self: Sized;
}
