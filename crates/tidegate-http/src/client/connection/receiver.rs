//! What receives a response.

use bytes::Bytes;
use tidegate_net::{Handler, HandlerContext};

use crate::client::failure::ExchangeError;
use crate::codec::{BodyFraming, ResponseHead};

/// Whether the receiver of a body takes more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It takes more.
    More,
    /// It takes no more until [`Exchange::resume`](crate::client::Exchange::resume) is called.
    Pause,
    /// It never takes more: the connection ends.
    Gone,
}

/// Receives one response. Its methods run on the connection's loop.
pub(in crate::client) trait Receiver: Send + 'static {
    /// Called with each interim head.
    fn interim(&mut self, head: ResponseHead<'_>, ctx: &mut HandlerContext<'_>) {
        let _ = (head, ctx);
    }
    /// Called with the final head.
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>);
    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow;
    fn trailers(&mut self, lines: Bytes, ctx: &mut HandlerContext<'_>);
    /// Called when the connection takes more of the request.
    fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        let _ = ctx;
    }
    /// Called if the server changes the protocol; `received` follows its head. Returns the handler
    /// that takes the connection over.
    fn switch(
        &mut self,
        head: ResponseHead<'_>,
        received: Bytes,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        let _ = (head, received, ctx);
        None
    }
    fn end(self, ctx: &mut HandlerContext<'_>);
    fn fail(self, why: ExchangeError, ctx: &mut HandlerContext<'_>);
}
