//! The handler of a connection in a pipeline.

use bytes::Bytes;
use tidegate_net::{
    Blocking, DrainAnnounced, Draining, Inbound, InboundContext, InputShutdown, Nothing, Outbound,
    OutboundContext, UserEvent,
};
use tidegate_promise::Failure;

use super::connection::Connection;
use super::part::{BodyNotice, Part};
use super::service::Service;

/// Codec and service as one handler: requests borrow from received bytes, and responses are written
/// into the memory that is sent.
///
/// A service that never blocks (`MAY_BLOCK` is `false`) gets ready connections in batches. While one that
/// may block runs on a roaming loop, another thread takes over the loop.
pub(crate) struct HttpHandler<S, const MAY_BLOCK: bool>(pub(crate) Connection<S>);

/// What a pipeline asks before it has a value.
const fn blocking(may_block: bool) -> Blocking {
    match may_block {
        true => Blocking::May,
        false => Blocking::Never,
    }
}

impl<S: Service, const MAY_BLOCK: bool> Inbound for HttpHandler<S, MAY_BLOCK> {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = blocking(MAY_BLOCK);
    const DUPLEX: bool = true;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.0.open(ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.0.closed(ctx);
    }

    #[inline]
    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.0.received(bytes, ctx);
    }

    #[inline]
    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.0.settle(ctx);
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        if writable {
            self.0.resume(ctx);
            self.0.settle(ctx);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<InputShutdown>().is_some() {
            self.0.input_ended(ctx);
        } else if event.downcast_ref::<DrainAnnounced>().is_some() {
            self.0.announce_drain();
        } else if event.downcast_ref::<Draining>().is_some() {
            self.0.drain(ctx);
        } else if let Some(notice) = event.downcast_ref::<BodyNotice>() {
            self.0.body_notice(*notice, ctx);
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.0.failed(&why, ctx);
    }

    fn deadline(&mut self, _: u8, ctx: &mut InboundContext<'_, Self>) {
        self.0.check(ctx);
    }
}

impl<S: Service, const MAY_BLOCK: bool> Outbound for HttpHandler<S, MAY_BLOCK> {
    type Take = Part;
    type Write = Bytes;
    const BLOCKING: Blocking = blocking(MAY_BLOCK);

    fn write(&mut self, part: Part, ctx: &mut OutboundContext<'_, Self>) {
        self.0.part(part, ctx);
    }
}
