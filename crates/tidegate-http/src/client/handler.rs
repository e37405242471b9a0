//! The handler of a connection in its pipeline, and the messages that calls send to it.

use bytes::Bytes;
use tidegate_net::{
    Blocking, Inbound, InboundContext, Message, Nothing, Outbound, OutboundContext,
};
use tidegate_promise::Failure;

use super::exchange::{Connection, Exchange, ExchangeError, ExchangeFailure, Receiver};

/// How long a body may be to be sent in one piece with its head.
const INLINE_BODY: usize = 4096;

/// A message from a call to a connection.
pub(super) enum Order<R> {
    Begin(Box<Exchange<R>>),
    /// The receiver of this exchange takes more of the body.
    Resume(u64),
    /// The caller of this exchange has left.
    Cancel(u64),
}

impl<R: Receiver> Message for Order<R> {
    /// Nothing of it is copied: the caller holds the body already.
    fn size(&self) -> usize {
        0
    }

    fn refused(self, why: Failure) {
        if let Self::Begin(exchange) = self {
            let mut exchange = *exchange;
            let reused = exchange.lease.is_none();
            // The next attempt may need the permit.
            drop(exchange.lease.take());
            exchange.receiver.fail(ExchangeError {
                cause: ExchangeFailure::Closed(Some(why)),
                sent: false,
                responded: false,
                reused,
            });
        }
    }
}

/// The handler of one connection.
pub(super) struct ClientHandler<R> {
    connection: Connection<R>,
}

impl<R: Receiver> ClientHandler<R> {
    pub(super) fn new(connection: Connection<R>) -> Self {
        Self { connection }
    }
}

impl<R: Receiver> Inbound for ClientHandler<R> {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;
    const DUPLEX: bool = true;

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.connection.closed(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.connection.received(bytes, ctx);
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        self.connection.error(why, ctx);
    }

    fn deadline(&mut self, key: u8, ctx: &mut InboundContext<'_, Self>) {
        self.connection.deadline(key, ctx);
    }
}

impl<R: Receiver> Outbound for ClientHandler<R> {
    type Take = Order<R>;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, order: Order<R>, ctx: &mut OutboundContext<'_, Self>) {
        match order {
            Order::Begin(exchange) => {
                let Some((head, body)) = self.connection.begin(*exchange, ctx) else {
                    return;
                };
                let out = ctx.output();
                out.extend_from_slice(&head);
                if body.len() <= INLINE_BODY {
                    out.extend_from_slice(&body);
                } else {
                    ctx.write(body);
                }
                ctx.flush();
            }
            Order::Resume(id) => self.connection.resume(id, ctx),
            Order::Cancel(id) => self.connection.cancel(id, ctx),
        }
    }
}
