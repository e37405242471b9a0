//! A change of the protocol: the handlers that take over a connection after an upgrade or a
//! `CONNECT`, and the handler that installs them.
//!
//! ```text
//!   http                    the service has accepted
//!   gate                    `added`: sends the head of the response
//!   gate ─ user's handlers
//!          user's handlers  `removed` of the gate: passes on the bytes that were received already
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_net::handlers::Idle;
use tidegate_net::{
    Blocking, DrainAnnounced, Draining, Handler, HandlerContext, Inbound, InboundContext,
    InputShutdown, PipelineChange, PipelineError, UserEvent,
};

use super::head_writer::ReplyTo;

/// The handlers that take over a connection when its protocol changes. Made by
/// [`Response::switch`](super::Response::switch).
///
/// They take the place of the HTTP handler, first to last: the first one takes bytes, and bytes are
/// written by each one whose writes reach the socket. The channel is open already, so `added` is
/// called and `active` is not. Bytes that the client has sent after its request reach the first
/// handler before all others.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_http::serve;
/// use tidegate_net::{Handler, Inbound, InboundContext, Nothing};
///
/// struct Echo;
///
/// impl Inbound for Echo {
///     type In = Bytes;
///     type Out = Nothing;
///     type Write = Bytes;
///
///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
///         ctx.write_and_flush(bytes);
///     }
/// }
///
/// let group = tidegate_net::pinned("web", 1)?;
/// let server = serve(&group, "127.0.0.1:0", |request, response| match request.upgrade() {
///     Some(b"echo") => {
///         let response = response.field("Upgrade", "echo");
///         response.switch(|switch| switch.add("echo", Handler::inbound(Echo)));
///     }
///     _ => response.status(426).field("Upgrade", "echo").body(""),
/// })
/// .wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a description of handlers has an effect when it is returned to the server"]
pub struct Switch {
    handlers: Vec<(Cow<'static, str>, Handler)>,
    idle: Duration,
}

impl Switch {
    /// How long a connection may be idle after the change, unless [`Switch::idle`] sets it.
    pub const IDLE: Duration = Duration::from_secs(600);

    pub(crate) fn new() -> Self {
        Self {
            handlers: Vec::new(),
            idle: Self::IDLE,
        }
    }

    /// Adds a handler behind the others.
    pub fn add(mut self, name: impl Into<Cow<'static, str>>, handler: Handler) -> Self {
        self.handlers.push((name.into(), handler));
        self
    }

    /// Sets how long the connection may neither receive nor send before it is closed
    /// ([`Switch::IDLE`] by default). `Duration::MAX` means no limit.
    pub fn idle(mut self, after: Duration) -> Self {
        self.idle = after;
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Replaces the handler of `ctx` by the gate, and the gate by these handlers, once the handler's
    /// method has returned.
    ///
    /// # Errors
    ///
    /// Returns an error if a handler does not fit; then the gate stays.
    pub(crate) fn install(
        self,
        gate: Gate,
        ctx: &mut HandlerContext<'_>,
    ) -> Result<(), PipelineError> {
        let me = ctx.name().to_owned();
        ctx.change(PipelineChange::replace(me, GATE, Handler::inbound(gate)))?;
        let mut last = Cow::Borrowed(GATE);
        let idle = (self.idle != Duration::MAX).then(|| {
            let idle = Idle::all(self.idle).closes();
            (Cow::Borrowed(IDLE), Handler::duplex(idle))
        });
        for (name, handler) in idle.into_iter().chain(self.handlers) {
            ctx.change(PipelineChange::add_after(last, name.clone(), handler))?;
            last = name;
        }
        ctx.change(PipelineChange::remove(GATE))
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch")
            .field("handlers", &self.handlers)
            .field("idle", &self.idle)
            .finish()
    }
}

/// The names of the handlers that the server itself adds.
const GATE: &str = "http-switch";
const IDLE: &str = "http-switch-idle";

/// The user's closure that adds the handlers. It runs on the connection's thread.
pub(crate) type MakeSwitch = Box<dyn FnOnce(Switch) -> Switch + Send>;

/// A response that changes the protocol.
pub(crate) struct SwitchPlan {
    pub(crate) head: BytesMut,
    pub(crate) status: u16,
    pub(crate) to: ReplyTo,
    pub(crate) make: MakeSwitch,
}

impl fmt::Debug for SwitchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SwitchPlan")
    }
}

/// What the gate sends first, known once all handlers were checked.
#[derive(Debug)]
pub(crate) enum First {
    /// The head of the response.
    Head(Bytes),
    /// A response of the server itself: the handlers do not fit.
    Failed(Bytes),
}

/// What the client and the server did before the change.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Bytes that were received after the request.
    pub(crate) received: Bytes,
    /// The client has ended its half of the connection.
    pub(crate) input_ended: bool,
    pub(crate) drain: Drain,
}

/// What the server has said of its end: two events, each of which is passed on if it has come. A drain
/// may begin without an announcement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drain {
    pub(crate) announced: bool,
    pub(crate) begun: bool,
}

/// Stands in for the HTTP handler while the user's handlers are installed.
pub(crate) struct Gate {
    pub(crate) first: Arc<OnceLock<First>>,
    pub(crate) before: Before,
}

impl Inbound for Gate {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        match self.first.get() {
            Some(First::Head(head)) => ctx.write_and_flush(head.clone()),
            Some(First::Failed(response)) => {
                ctx.write_and_flush(response.clone());
                ctx.close_when_flushed();
            }
            None => ctx.close(),
        }
    }

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if !matches!(self.first.get(), Some(First::Head(_))) {
            return;
        }
        let before = std::mem::take(&mut self.before);
        if !before.received.is_empty() {
            ctx.fire_read(before.received);
            ctx.fire_read_complete();
        }
        if before.drain.announced {
            ctx.fire_event(UserEvent::new(DrainAnnounced));
        }
        if before.drain.begun {
            ctx.fire_event(UserEvent::new(Draining));
        }
        if before.input_ended {
            match ctx.half_closure() {
                true => ctx.fire_event(UserEvent::new(InputShutdown)),
                false => ctx.close_when_flushed(),
            }
        }
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        // Only if the handlers did not fit: nothing is looked at any more.
        ctx.give_back(bytes);
    }
}
