//! One request and its response, for handlers: the layer below calls.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::FastClock;

use super::exchange_handler::{ExchangeHandler, Flow};
use super::failure::Terms;
use super::head_memory;
use super::method::{is_idempotent, method_of_response};
use super::pool::{Free, FreePlace, Lease};
use super::search::Found;
use super::slot::{Begun, Link, Owner, Signal};
use crate::codec::{BodyEncoder, EncodeError, OwnedRequestHead};

/// Where an exchange is.
enum Stage<H: ExchangeHandler> {
    /// A connection that was used before.
    Reused(FreePlace),
    /// A new connection.
    New(Lease<Link<H>>),
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
    /// The connection. Its slot has the upstream.
    link: Link<H>,
    /// The stream of the connection: with HTTP/1 they follow one another.
    stream: u64,
    /// The connection belongs to threads that are no loops of the group.
    shared: bool,
    /// `None` only while it is being dropped or changed.
    stage: Option<Stage<H>>,
}

impl<H: ExchangeHandler> Exchange<H> {
    /// Creates an exchange on a connection. `shared`: see [`Begun::shared`].
    #[inline]
    pub(super) fn new(owner: &Arc<Owner<H>>, found: Found<H>, shared: bool) -> Self {
        let (link, stage) = match found {
            Found::Reused(free) => (free.connection, Stage::Reused(free.place)),
            Found::New(link, lease) => (link, Stage::New(lease)),
        };
        link.slot.set_owner(owner);
        Self {
            stream: link.slot.new_id(),
            link,
            shared,
            stage: Some(stage),
        }
    }

    /// Returns `true` if the connection was used before.
    pub fn is_reused(&self) -> bool {
        matches!(self.stage, Some(Stage::Reused(_)))
    }

    /// Writes the head of the request. Its body, if it declares one, follows with
    /// [`write`](Exchange::write). `Connection` and the other fields of a connection should have
    /// been [left out](crate::codec::RequestHead::to_forward).
    ///
    /// # Errors
    ///
    /// The handler, if the connection has ended meanwhile or the exchange has begun already. Nothing
    /// was sent: take another connection.
    pub fn begin(&mut self, head: &OwnedRequestHead, handler: H) -> Result<(), H> {
        let view = head.as_head();
        let (method, framing) = (view.method(), view.framing());
        let (at, lease) = match self.stage.take() {
            Some(Stage::New(lease)) => (lease.at(), Some(lease)),
            Some(Stage::Reused(place)) => (place.at(), None),
            other => {
                self.stage = other;
                return Err(handler);
            }
        };
        let is_reused = lease.is_none();
        let begun = Begun {
            id: self.stream,
            method: method_of_response(method),
            receiver: handler,
            terms: Terms {
                label: None,
                idempotent: is_idempotent(method),
            },
            lease,
            shared: self.shared,
        };
        let complete = framing.is_empty();
        let slot = &self.link.slot;
        if let Err(refused) = slot.begin(begun, complete, self.now()) {
            return Err(refused.receiver);
        }
        if let Some(owner) = slot.owner() {
            owner.counts.add(slot.is_home().then_some(at), is_reused);
        }
        self.stage = Some(match complete {
            true => Stage::Sent,
            false => Stage::Sending(BodyEncoder::new(framing)),
        });
        self.link.write_and_flush(head_memory::encoded(head));
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
        if self.link.slot.is_stopped(self.stream) {
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
        if self.link.slot.is_stopped(self.stream) {
            return Ok(());
        }
        if !end.is_empty() {
            self.link.write_and_flush(end.freeze());
        }
        self.link.slot.complete(self.stream, self.now());
        Ok(())
    }

    /// Returns `true` if a part of the response was received before its final head: an interim head
    /// such as 103, or the beginning of a head.
    pub fn was_answered(&self) -> bool {
        self.link.slot.has_answer(self.stream)
    }

    /// Makes the connection read again, after [`ExchangeHandler::data`] has returned
    /// [`Flow::Pause`].
    pub fn resume(&self) {
        self.link.channel.fire_event(Signal::Resume(self.stream));
    }

    /// Ends the exchange and closes its connection. The handler is dropped without another call,
    /// except for what its event loop is delivering at this moment.
    pub fn cancel(mut self) {
        match self.stage.take() {
            Some(Stage::Sending(_) | Stage::Sent) => {
                self.link.channel.fire_event(Signal::Cancel(self.stream));
            }
            other => self.stage = other,
        }
    }

    /// Returns the time of the upstream's clock, in nanoseconds.
    #[inline]
    fn now(&self) -> u64 {
        let clock = self
            .link
            .slot
            .owner()
            .and_then(|owner| owner.clock.as_ref());
        clock.map_or(0, FastClock::nanos)
    }
}

impl<H: ExchangeHandler> Drop for Exchange<H> {
    fn drop(&mut self) {
        match self.stage.take() {
            Some(Stage::Reused(place)) if !self.link.slot.is_closed() => {
                let owner = self.link.slot.owner();
                if let Some(pool) = owner.and_then(|owner| owner.pool.upgrade()) {
                    let connection = self.link.clone();
                    pool.give_back(Free { connection, place });
                }
            }
            Some(Stage::New(lease)) => self.link.close_with(lease),
            Some(Stage::Sending(_)) if !self.link.slot.is_stopped(self.stream) => {
                self.link.channel.fire_event(Signal::Cancel(self.stream));
            }
            // After a final response, the connection closes by itself.
            Some(Stage::Reused(_) | Stage::Sending(_) | Stage::Sent) | None => {}
        }
    }
}

tidegate_core::debug_fields!([H: ExchangeHandler] Exchange<H>, this => channel: this.link.channel);
