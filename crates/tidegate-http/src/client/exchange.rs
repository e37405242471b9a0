//! One request and its response, for handlers: the layer below calls.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_net::{Handler, HandlerContext};

use super::connection::{Flow, Receiver};
use super::error::{ClientError, Phase};
use super::failure::ExchangeError;
use super::host::Host;
use super::method::{is_idempotent, method_of_response};
use super::pool::{Idle, Lease};
use super::slot::{Begun, Link, Signal};
use crate::codec::{BodyEncoder, BodyFraming, EncodeError, OwnedRequestHead, ResponseHead};

/// Receives the response of an [`Exchange`].
///
/// # Threads
///
/// All methods run on the event loop of the connection, with the context of its handler. So they
/// write to another channel of that loop with [`HandlerContext::neighbour`], without a lock or a
/// copy. `end` and `fail` are the last call; one of them comes unless the exchange is cancelled or
/// the event loop ends, which drop the handler.
pub trait ExchangeHandler: Send + 'static {
    /// Called with each interim head (status 1xx).
    fn interim(&mut self, head: ResponseHead<'_>, ctx: &mut HandlerContext<'_>) {
        let _ = (head, ctx);
    }

    /// Called with the final head, and with where the body ends.
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>);

    /// Called with each part of the body, a slice of the received bytes. With [`Flow::Pause`] the
    /// connection stops reading until [`Exchange::resume`].
    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow;

    /// Called with the trailer fields. [`Trailers`](crate::codec::Trailers) reads them.
    fn trailers(&mut self, lines: Bytes, ctx: &mut HandlerContext<'_>) {
        let _ = (lines, ctx);
    }

    /// Called when the connection takes more of the request, after [`Exchange::write`] has returned
    /// [`Flow::Pause`].
    fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        let _ = ctx;
    }

    /// Called if the server changes the protocol, with status 101 or, after a `CONNECT`, with one of
    /// success; `received` follows its head. The
    /// handler that is returned takes the connection over, which does not belong to the client any
    /// more. It takes bytes, and gets `added`. Without one, the exchange fails.
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

/// The handler of an exchange, as a connection sees it.
pub(super) struct Outside<H> {
    handler: H,
    label: Arc<str>,
    idempotent: bool,
    in_body: bool,
}

impl<H: ExchangeHandler> Receiver for Outside<H> {
    fn interim(&mut self, head: ResponseHead<'_>, ctx: &mut HandlerContext<'_>) {
        self.handler.interim(head, ctx);
    }

    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, ctx: &mut HandlerContext<'_>) {
        self.in_body = true;
        self.handler.head(head, framing, ctx);
    }

    fn data(&mut self, bytes: Bytes, ctx: &mut HandlerContext<'_>) -> Flow {
        self.handler.data(bytes, ctx)
    }

    fn trailers(&mut self, lines: Bytes, ctx: &mut HandlerContext<'_>) {
        self.handler.trailers(lines, ctx);
    }

    fn writable(&mut self, ctx: &mut HandlerContext<'_>) {
        self.handler.writable(ctx);
    }

    fn switch(
        &mut self,
        head: ResponseHead<'_>,
        received: Bytes,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        self.handler.switch(head, received, ctx)
    }

    fn end(self, ctx: &mut HandlerContext<'_>) {
        self.handler.end(ctx);
    }

    fn fail(self, why: ExchangeError, ctx: &mut HandlerContext<'_>) {
        let (handshake, sent, safe) = (
            why.is_of_handshake(),
            why.was_sent(),
            why.is_safe(self.idempotent),
        );
        let phase = match self.in_body {
            true => Phase::Body,
            false if handshake => Phase::Connect,
            false => Phase::Head,
        };
        let kind = why.cause.into_kind();
        let why = ClientError::new(&self.label, kind, phase, sent, safe);
        self.handler.fail(why, ctx);
    }
}

/// Where an exchange is.
enum Stage<H: ExchangeHandler> {
    /// A connection that was idle.
    Reused(Idle<Link<Outside<H>>>),
    /// A new connection.
    New(Lease<Link<Outside<H>>>),
    /// The head was written; the body has not ended.
    Sending(BodyEncoder),
    /// The whole request was written.
    Sent,
}

/// A connection that is taken for one request, for handlers. From an
/// [`Upstream`](super::Upstream).
///
/// The request goes out as a head and slices of a body, the response comes in to an
/// [`ExchangeHandler`]. Called from a handler or a service on the event loop of the connection, the
/// bytes go directly into its write queue. From elsewhere they take the way of
/// [`Channel::write`](tidegate_net::Channel::write).
///
/// Dropping an exchange that has not begun returns its connection. Dropping it before the request is
/// complete closes the connection. After that it can be dropped: the response still arrives.
///
/// # Back-pressure
///
/// [`write`](Exchange::write) returns [`Flow::Pause`] when the server takes less than is written;
/// stop reading the source until [`ExchangeHandler::writable`]. In the other direction,
/// [`ExchangeHandler::data`] returns it, until [`resume`](Exchange::resume).
pub struct Exchange<H: ExchangeHandler> {
    host: Arc<Host<Outside<H>>>,
    link: Link<Outside<H>>,
    label: Arc<str>,
    id: u64,
    /// `None` only while it is being dropped or changed.
    stage: Option<Stage<H>>,
}

impl<H: ExchangeHandler> Exchange<H> {
    pub(super) fn reused(
        host: &Arc<Host<Outside<H>>>,
        label: &Arc<str>,
        id: u64,
        idle: Idle<Link<Outside<H>>>,
    ) -> Self {
        Self {
            host: Arc::clone(host),
            link: idle.connection.clone(),
            label: Arc::clone(label),
            id,
            stage: Some(Stage::Reused(idle)),
        }
    }

    pub(super) fn fresh(
        host: &Arc<Host<Outside<H>>>,
        label: &Arc<str>,
        id: u64,
        link: Link<Outside<H>>,
        lease: Lease<Link<Outside<H>>>,
    ) -> Self {
        Self {
            host: Arc::clone(host),
            link,
            label: Arc::clone(label),
            id,
            stage: Some(Stage::New(lease)),
        }
    }

    /// Returns `true` if the connection was used before.
    pub fn is_reused(&self) -> bool {
        matches!(self.stage, Some(Stage::Reused(_)))
    }

    /// Writes the head of the request. Its body, if it declares one, follows with
    /// [`write`](Exchange::write). `Connection` and the other fields of a connection should have
    /// been [removed](OwnedRequestHead::remove_hop_by_hop).
    ///
    /// # Errors
    ///
    /// The handler, if the connection has ended meanwhile or the exchange has begun already. Nothing
    /// was sent: take another connection.
    pub fn begin(&mut self, head: &OwnedRequestHead, handler: H) -> Result<(), H> {
        let view = head.as_head();
        let (method, framing) = (view.method(), view.framing());
        let mut out = BytesMut::with_capacity(view.len() + 128);
        if head.encode(&mut out).is_err() {
            // Growing memory is never full.
            return Err(handler);
        }
        let lease = match self.stage.take() {
            Some(Stage::New(lease)) => Some(lease),
            Some(Stage::Reused(_)) => None,
            other => {
                self.stage = other;
                return Err(handler);
            }
        };
        let is_reused = lease.is_none();
        let begun = Begun {
            id: self.id,
            method: method_of_response(method),
            receiver: Outside {
                handler,
                label: Arc::clone(&self.label),
                idempotent: is_idempotent(method),
                in_body: false,
            },
            lease,
        };
        let complete = framing.is_empty();
        if let Err(refused) = self.link.slot.begin(begun, complete, self.host.now(0)) {
            return Err(refused.receiver.handler);
        }
        match is_reused {
            true => self.host.counts.reused(),
            false => self.host.counts.fresh(),
        }
        self.stage = Some(match complete {
            true => Stage::Sent,
            false => Stage::Sending(BodyEncoder::new(framing)),
        });
        self.link.write_and_flush(out.freeze());
        Ok(())
    }

    /// Writes a part of the body. Returns [`Flow::Pause`] if the connection should get no more for
    /// now, and [`Flow::Gone`] if it takes no more at all: the final response has come, or the
    /// connection has ended. The part is dropped then.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the body becomes longer than its head declares, or the exchange is not at
    /// its body. The part is not sent.
    pub fn write(&mut self, part: Bytes) -> Result<Flow, EncodeError> {
        let Some(Stage::Sending(encoder)) = &mut self.stage else {
            return Err(EncodeError::Finished);
        };
        if self.link.slot.is_stopped(self.id) {
            return Ok(Flow::Gone);
        }
        let writable = self.link.write_part(encoder, part)?;
        Ok(match writable {
            true => Flow::More,
            false => Flow::Pause,
        })
    }

    /// Ends the body, with trailers if it has any.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the body is shorter than its head declares, or cannot have trailers. The
    /// connection is closed when the exchange is dropped.
    pub fn finish(&mut self, trailers: &[(&str, &[u8])]) -> Result<(), EncodeError> {
        let encoder = match &mut self.stage {
            Some(Stage::Sending(encoder)) => encoder,
            Some(Stage::Sent) => return Ok(()),
            _ => return Err(EncodeError::Finished),
        };
        let mut end = BytesMut::new();
        match trailers {
            [] => encoder.finish(&mut end)?,
            _ => encoder.finish_with_trailers(&mut end, trailers)?,
        }
        self.stage = Some(Stage::Sent);
        if self.link.slot.is_stopped(self.id) {
            return Ok(());
        }
        if !end.is_empty() {
            self.link.write_and_flush(end.freeze());
        }
        self.link.slot.complete(self.id, self.host.now(0));
        Ok(())
    }

    /// Lets the connection read again, after [`ExchangeHandler::data`] has returned
    /// [`Flow::Pause`].
    pub fn resume(&self) {
        self.link.channel.fire_event(Signal::Resume(self.id));
    }

    /// Ends the exchange and closes its connection. The handler is dropped without another call,
    /// except for what its event loop is delivering at this moment.
    pub fn cancel(mut self) {
        match self.stage.take() {
            Some(Stage::Sending(_) | Stage::Sent) => {
                self.link.channel.fire_event(Signal::Cancel(self.id));
            }
            other => self.stage = other,
        }
    }
}

impl<H: ExchangeHandler> Drop for Exchange<H> {
    fn drop(&mut self) {
        match self.stage.take() {
            Some(Stage::Reused(idle)) if !self.link.slot.is_closed() => {
                self.host.pool.give_back(idle);
            }
            Some(Stage::New(lease)) => self.link.close_with(lease),
            Some(Stage::Sending(_)) if !self.link.slot.is_stopped(self.id) => {
                self.link.channel.fire_event(Signal::Cancel(self.id));
            }
            // After a final response, the connection closes by itself.
            Some(Stage::Reused(_) | Stage::Sending(_) | Stage::Sent) | None => {}
        }
    }
}

impl<H: ExchangeHandler> fmt::Debug for Exchange<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Exchange").field(&self.link.channel).finish()
    }
}
