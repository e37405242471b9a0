//! The handler of a connection in its pipeline.
//!
//! It takes no part in writes: requests are bytes that go straight into the write queue. See `slot`.

use bytes::Bytes;
use tidegate_net::{Blocking, Inbound, InboundContext, InputShutdown, Nothing, UserEvent};
use tidegate_promise::Failure;

use super::connection::Connection;
use super::exchange_handler::ExchangeHandler;
use super::slot::Signal;

/// The handler of one connection.
pub(super) struct ClientHandler<R: ExchangeHandler> {
    connection: Connection<R>,
}

impl<R: ExchangeHandler> ClientHandler<R> {
    pub(super) fn new(connection: Connection<R>) -> Self {
        Self { connection }
    }
}

impl<R: ExchangeHandler> Inbound for ClientHandler<R> {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // What makes the connection finds the slot there. The first one of this type.
        let slot = self.connection.slot();
        slot.settle();
        drop(ctx.channel().set_attribute(slot));
        // The end of the server's side is an event, so that it differs from any other end.
        ctx.set_half_closure(true);
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.connection.opened(ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.connection.closed(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.connection.received(bytes, ctx);
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        if writable {
            self.connection.writable(ctx);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        match event.downcast_ref() {
            Some(Signal::Resume(id)) => self.connection.resume(*id, ctx),
            Some(Signal::Cancel(id)) => self.connection.cancel(*id, ctx),
            None if event.downcast_ref::<InputShutdown>().is_some() => {
                self.connection.input_ended(ctx);
            }
            None => {
                if let Ok(depart) = event.downcast() {
                    self.connection.depart(depart, ctx);
                }
            }
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.connection.error(why, ctx);
    }

    fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
        self.connection.deadline(ctx);
    }
}
