//! Tunnels: WebSockets and other upgrades. After both sides have agreed, bytes pass unchanged.
//!
//! ```text
//!   server: 101 ──▶ its connection gets a relay, which reads nothing yet
//!   client: 101 ──▶ its connection gets a relay, which lets the other one begin
//! ```
//!
//! The relay of the server's connection holds the entry of the command and the place at the server,
//! until that connection is closed. Both relays hold the line of the access log, which is written when
//! both are gone. Each side is read only as fast as the other one takes. If one side
//! ends its half, the other one sees the end and can still send. If one side is closed, so is the
//! other one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::http::DeferredResponse;
use tidegate::http::codec::{EncodeError, OwnedRequestHead, ResponseHead};
use tidegate::net::{
    Bytes, Channel, Handler, HandlerContext, Inbound, InboundContext, InputShutdown, Nothing,
    UserEvent,
};
use tidegate_core::internal::lock;

use super::flight::{Back, Flight};
use super::held::{Held, Wanted};
use super::line::Passage;
use super::live::{ProxyRoute, TunnelRoute};
use super::logged::Done;
use super::step::{Action, Event, step};

/// The event that lets a relay begin: the other side is there.
struct Begin;

/// The event that gives a relay what it holds as long as its server is connected.
pub(super) struct Hold(pub(super) Mutex<Option<(Held, Option<Arc<Passage>>)>>);

/// Passes what one connection receives to the other one.
pub(super) struct Relay {
    other: Channel,
    /// What was received before the relay begins.
    first: Bytes,
    /// It waits for [`Begin`]: the other side may still send earlier responses.
    waits: bool,
    held: Option<Held>,
    /// Counts the bytes, and logs the tunnel when both sides are gone.
    passage: Option<Arc<Passage>>,
    /// It is the side of the client.
    of_client: bool,
}

impl Relay {
    /// Creates the relay of a server's connection that holds nothing yet.
    pub(super) fn waiting(other: Channel) -> Self {
        Self {
            other,
            first: Bytes::new(),
            waits: true,
            held: None,
            passage: None,
            of_client: false,
        }
    }
}

impl Inbound for Relay {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.set_half_closure(true);
        match self.waits {
            true => ctx.set_auto_read(false),
            false => self.other.fire_event(Begin),
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if let Some(passage) = &self.passage {
            passage.count(self.of_client, bytes.len());
        }
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
        } else if let Some(Hold(held)) = event.downcast_ref::<Hold>() {
            let held = lock(held).take();
            if let Some((held, passage)) = held {
                (self.held, self.passage) = (Some(held), passage);
            }
        } else if event.downcast_ref::<InputShutdown>().is_some() {
            drop(self.other.shutdown_output());
        }
    }

    fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
        drop(self.other.close_when_flushed());
    }
}

/// Returns the protocols of a value of `Upgrade`.
fn listed(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    all.filter(|protocol| !protocol.is_empty())
}

impl ProxyRoute {
    /// Returns the tunnels of the route, and those of the protocols in a client's `Upgrade` that the
    /// route allows. Returns `None` if there are none: the request goes on without `Upgrade`.
    pub(super) fn upgrade(&self, asked: Option<&[u8]>) -> Option<(&TunnelRoute, Vec<u8>)> {
        let tunnel = self.tunnel.as_ref()?;
        let is_allowed = |protocol: &&[u8]| {
            let mut allowed = tunnel.protocols.iter();
            allowed.any(|own| own.as_bytes().eq_ignore_ascii_case(protocol))
        };
        let passed: Vec<&[u8]> = listed(asked?).filter(is_allowed).collect();
        (!passed.is_empty()).then(|| (tunnel, passed.join(&b", "[..])))
    }
}

impl Wanted {
    /// Returns `true` if a server changes to a protocol that it was asked for, and to no other one.
    pub(super) fn is_met_by(&self, head: &ResponseHead<'_>) -> bool {
        let mut chosen = head.get_all("upgrade").flat_map(listed).peekable();
        let is_asked = |protocol: &[u8]| {
            let mut asked = listed(&self.protocols);
            asked.any(|own| own.eq_ignore_ascii_case(protocol))
        };
        chosen.peek().is_some() && chosen.all(is_asked)
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
        let mut state = self.state();
        let actions = step(&mut state.request, Some(attempt), Event::Switched, || 0);
        if !matches!(actions.first, Action::Switch) {
            return None;
        }
        let done = Done::of(&state.request);
        let mut holds = std::mem::take(&mut state.holds);
        drop(state);
        holds.cancel_timers();
        let Back::Owed(back) = std::mem::take(&mut holds.back) else {
            return None;
        };
        let passage = self.passage(done, holds.server.as_ref());
        // The connection to the server stays.
        drop(holds);
        if let Some(passage) = &passage {
            passage.count(false, received.len());
        }
        let (server, client) = (ctx.channel(), wanted.client.clone());
        let timing = self.proxy.server_timing.then_some(&done.times);
        let mut back = self.write_head(back, None, &head, timing, done.fell_back);
        for protocol in head.get_all("upgrade") {
            back = back.field("Upgrade", protocol);
        }
        open(back, server.clone(), wanted.idle, passage.clone());
        // Also if the client leaves before its side is there.
        let other = server;
        client.closed().on_complete(move |_| drop(other.close()));
        let relay = Relay {
            other: client,
            first: received,
            waits: true,
            held: Some(held),
            passage,
            of_client: false,
        };
        Some(Handler::inbound(relay))
    }
}

/// Opens the client's side of a tunnel.
pub(super) fn open(
    back: DeferredResponse,
    server: Channel,
    idle: Duration,
    passage: Option<Arc<Passage>>,
) {
    back.switch(move |switch| {
        let relay = Relay {
            other: server,
            first: Bytes::new(),
            waits: false,
            held: None,
            passage,
            of_client: true,
        };
        switch.add("relay", Handler::inbound(relay)).idle(idle)
    });
}
