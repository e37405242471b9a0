//! The handler of a connection in a pipeline.

use std::marker::PhantomData;

use bytes::Bytes;
use tidegate_net::{
    Blocking, DrainAnnounced, Draining, Inbound, InboundContext, InputShutdown, Nothing, Outbound,
    OutboundContext, UserEvent,
};
use tidegate_promise::Failure;

use super::connection::Connection;
use super::part::{BodyNotice, Part};
use super::service::Service;

/// Whether the service may block, as a type: the pipeline asks before it has a value.
pub(crate) trait Mode: Send + 'static {
    const BLOCKING: Blocking;
}

/// The service never blocks: ready connections are handled in batches.
pub(crate) struct NeverBlocks;
/// The service may block: on a roaming loop, another thread takes over the loop meanwhile.
pub(crate) struct MayBlock;

impl Mode for NeverBlocks {
    const BLOCKING: Blocking = Blocking::Never;
}

impl Mode for MayBlock {
    const BLOCKING: Blocking = Blocking::May;
}

/// Codec and service as one handler: requests borrow from received bytes, and responses are written
/// into the memory that is sent.
pub(crate) struct HttpHandler<S, M> {
    connection: Connection<S>,
    mode: PhantomData<fn(M)>,
}

impl<S: Service, M: Mode> HttpHandler<S, M> {
    pub(crate) fn new(connection: Connection<S>) -> Self {
        Self {
            connection,
            mode: PhantomData,
        }
    }
}

impl<S: Service, M: Mode> Inbound for HttpHandler<S, M> {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = M::BLOCKING;
    const DUPLEX: bool = true;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.connection.open(ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.connection.closed(ctx);
    }

    #[inline]
    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.connection.received(bytes, ctx);
    }

    #[inline]
    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.connection.settle(ctx);
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        if writable {
            self.connection.resume(ctx);
            self.connection.settle(ctx);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<InputShutdown>().is_some() {
            self.connection.input_ended(ctx);
        } else if event.downcast_ref::<DrainAnnounced>().is_some() {
            self.connection.announce_drain();
        } else if event.downcast_ref::<Draining>().is_some() {
            self.connection.drain(ctx);
        } else if let Some(notice) = event.downcast_ref::<BodyNotice>() {
            self.connection.body_notice(*notice, ctx);
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.connection.failed(&why, ctx);
    }

    fn deadline(&mut self, _: u8, ctx: &mut InboundContext<'_, Self>) {
        self.connection.check(ctx);
    }
}

impl<S: Service, M: Mode> Outbound for HttpHandler<S, M> {
    type Take = Part;
    type Write = Bytes;
    const BLOCKING: Blocking = M::BLOCKING;

    fn write(&mut self, part: Part, ctx: &mut OutboundContext<'_, Self>) {
        self.connection.part(part, ctx);
    }
}
