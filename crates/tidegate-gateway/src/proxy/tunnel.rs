//! Tunnels: WebSockets and other upgrades. After both sides have agreed, bytes pass unchanged.
//!
//! ```text
//!   server: 101 ──▶ its connection gets a relay, which reads nothing yet
//!   client: 101 ──▶ its connection gets a relay, which lets the other one begin
//! ```
//!
//! The relay of the server's connection holds the entry of the command and the place at the server,
//! until that connection is closed. Each side is read only as fast as the other one takes. If one side
//! ends its half, the other one sees the end and can still send. If one side is closed, so is the
//! other one.

use std::fmt;
use std::time::Duration;

use tidegate::http::DeferredResponse;
use tidegate::http::codec::{EncodeError, OwnedRequestHead, ResponseHead};
use tidegate::net::{
    Bytes, Channel, Handler, HandlerContext, Inbound, InboundContext, InputShutdown, Nothing,
    UserEvent,
};

use super::flight::{Back, Flight};
use super::held::Held;
use super::logged::{Done, End};

/// The event that lets a relay begin: the other side is there.
struct Begin;

/// Passes what one connection receives to the other one.
struct Relay {
    other: Channel,
    /// What was received before the relay begins.
    first: Bytes,
    held: Option<Held>,
}

impl Inbound for Relay {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.set_half_closure(true);
        match self.held {
            // The client's connection may still send earlier responses.
            Some(_) => ctx.set_auto_read(false),
            None => self.other.fire_event(Begin),
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let other = ctx.neighbour(&self.other);
        other.write_and_flush(bytes);
        if !other.is_writable() {
            ctx.set_auto_read(false);
        }
    }

    fn writability(&mut self, writable: bool, _: &mut InboundContext<'_, Self>) {
        if writable {
            self.other.set_auto_read(true);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Begin>().is_some() {
            let first = std::mem::take(&mut self.first);
            if !first.is_empty() {
                self.other.write_and_flush(first);
            }
            ctx.set_auto_read(true);
        } else if event.downcast_ref::<InputShutdown>().is_some() {
            drop(self.other.shutdown_output());
        }
    }

    fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
        drop(self.other.close_when_flushed());
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Relay").field(&self.other).finish()
    }
}

/// Asks the server for the change of the protocol that the client wants.
///
/// # Errors
///
/// [`EncodeError::HeadTooLarge`].
pub(super) fn ask(head: &mut OwnedRequestHead, protocols: &[u8]) -> Result<(), EncodeError> {
    head.replace("Connection", b"upgrade")?;
    head.replace("Upgrade", protocols)
}

impl Flight {
    /// Opens the tunnel of an attempt whose server has changed the protocol. Returns the handler of
    /// the server's connection. Returns `None` if the request asked for no change, or has ended.
    pub(super) fn open_tunnel(
        &self,
        attempt: u32,
        head: ResponseHead<'_>,
        received: Bytes,
        held: Held,
        ctx: &mut HandlerContext<'_>,
    ) -> Option<Handler> {
        let wanted = self.tunnel.as_ref()?;
        let mut state = self.lock();
        if !state.is_at(attempt) || !state.is_unanswered() {
            return None;
        }
        let rest = state.end();
        let times = state.times;
        drop(state);
        let done = rest.done.map(|done| Done {
            status: 101,
            is_whole: true,
            ..done
        });
        let Some(Back::Waiting(back)) = rest.let_go() else {
            return None;
        };
        let (server, client) = (ctx.channel(), wanted.client.clone());
        let mut back = self.write_fields(back, &head, &times);
        for protocol in head.get_all("upgrade") {
            back = back.field("Upgrade", protocol);
        }
        open(back, server.clone(), wanted.idle);
        self.log(done, End::Served);
        // Also if the client leaves before its side is there.
        let other = server;
        client.closed().on_complete(move |_| drop(other.close()));
        let relay = Relay {
            other: client,
            first: received,
            held: Some(held),
        };
        Some(Handler::inbound(relay))
    }
}

/// Opens the client's side of a tunnel.
fn open(back: DeferredResponse, server: Channel, idle: Duration) {
    back.switch(move |switch| {
        let relay = Relay {
            other: server,
            first: Bytes::new(),
            held: None,
        };
        switch.add("relay", Handler::inbound(relay)).idle(idle)
    });
}
