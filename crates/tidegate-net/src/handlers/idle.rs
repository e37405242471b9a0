//! Detects idle connections and stuck writes, and reports or closes them.

use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_core::internal::as_nanos;
use tidegate_promise::Failure;

use crate::channel::UserEvent;
use crate::errors::NetError;
use crate::message::{AnyMessage, Nothing};
use crate::pipeline::{HandlerContext, Inbound, InboundContext, Outbound, OutboundContext};

/// The kind of inactivity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleKind {
    /// Nothing was received.
    Read,
    /// Nothing was written.
    Write,
    /// Nothing was received or written.
    All,
}

/// The event that notifies handlers that a connection is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleEvent {
    /// The kind of inactivity.
    pub what: IdleKind,
    /// `true` for the first event since the last activity.
    pub first: bool,
}

/// Detects idle connections. Activity only records the time. When the
/// [deadline](crate::HandlerContext::deadline) of a kind of inactivity passes, the handler checks how
/// long the connection has really been idle.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::Idle;
///
/// let minute = Duration::from_secs(60);
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("idle", Idle::reads(minute).closes()))?;
/// channel.advance(Duration::from_secs(59));
/// channel.receive("just in time");
/// channel.advance(Duration::from_secs(59));
/// assert!(channel.is_open());
/// channel.advance(Duration::from_secs(1));
/// assert!(!channel.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Idle {
    limits: [u64; 3],
    /// The time of the last activity, per kind.
    last: [u64; 3],
    first: [bool; 3],
    closes: bool,
    /// `true` from a message until the end of its read: the handlers may still be busy with it.
    reading: bool,
}

const KINDS: [IdleKind; 3] = [IdleKind::Read, IdleKind::Write, IdleKind::All];

impl Idle {
    /// Creates a handler that fires an [`IdleEvent`] when nothing was received for `read`, nothing
    /// was written for `write`, or neither for `all`. Zero disables a kind.
    pub fn new(read: Duration, write: Duration, all: Duration) -> Self {
        Self {
            limits: [read, write, all].map(as_nanos),
            last: [0; 3],
            first: [true; 3],
            closes: false,
            reading: false,
        }
    }

    /// Creates a handler that fires the event when nothing was received for `after`.
    pub fn reads(after: Duration) -> Self {
        Self::new(after, Duration::ZERO, Duration::ZERO)
    }

    /// Creates a handler that fires the event when nothing was written for `after`.
    pub fn writes(after: Duration) -> Self {
        Self::new(Duration::ZERO, after, Duration::ZERO)
    }

    /// Creates a handler that fires the event when nothing was received or written for `after`.
    pub fn all(after: Duration) -> Self {
        Self::new(Duration::ZERO, Duration::ZERO, after)
    }

    /// Fails the connection with a [`NetError::IdleTimeout`] instead of firing an event.
    pub fn closes(mut self) -> Self {
        self.closes = true;
        self
    }

    fn note(&mut self, kind: usize, now: u64) {
        for at in [kind, 2] {
            self.last[at] = now;
            self.first[at] = true;
        }
    }

    /// Sets the deadlines, once the channel is open.
    fn start(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.last = [ctx.now(); 3];
        for kind in 0..3 {
            self.arm(kind, self.limits[kind], ctx);
        }
    }

    fn arm(&self, kind: usize, after: u64, ctx: &mut InboundContext<'_, Self>) {
        if self.limits[kind] > 0 {
            ctx.deadline(kind as u8, Duration::from_nanos(after));
        }
    }
}

impl Inbound for Idle {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // The handler was added to an open connection.
        if ctx.channel().is_active() {
            self.start(ctx);
        }
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.start(ctx);
        ctx.fire_active();
    }

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        let now = ctx.now();
        self.note(0, now);
        self.reading = true;
        ctx.fire_read(message);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // The time that the handlers took does not count as inactivity of the peer.
        if std::mem::take(&mut self.reading) {
            let now = ctx.now();
            self.note(0, now);
        }
        ctx.fire_read_complete();
    }

    fn deadline(&mut self, key: u8, ctx: &mut InboundContext<'_, Self>) {
        let kind = usize::from(key);
        let quiet = ctx.now().saturating_sub(self.last[kind]);
        let limit = self.limits[kind];
        if quiet < limit {
            return self.arm(kind, limit - quiet, ctx);
        }
        if self.closes {
            let why = NetError::IdleTimeout(Duration::from_nanos(limit));
            return ctx.fire_error(Failure::new(why));
        }
        let first = std::mem::take(&mut self.first[kind]);
        let what = KINDS[kind];
        ctx.fire_event(UserEvent::new(IdleEvent { what, first }));
        self.arm(kind, limit, ctx);
    }
}

impl Outbound for Idle {
    type Take = AnyMessage;
    type Write = AnyMessage;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        let now = ctx.now();
        self.note(1, now);
        ctx.write(message);
    }
}

/// Fails a connection when data waits to be sent and not a byte was sent for some time, because the
/// peer does not read. The error is a [`NetError::WriteTimeout`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_net::EmbeddedChannel;
/// use tidegate_net::handlers::WriteTimeout;
///
/// let minute = Duration::from_secs(60);
/// let mut channel = EmbeddedChannel::new(|p| p.add_duplex("write", WriteTimeout::new(minute)))?;
/// channel.set_room(Some(0));
/// channel.channel().write_and_flush("to a peer that does not read");
/// channel.run();
/// channel.advance(minute);
/// assert!(!channel.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WriteTimeout {
    limit: Duration,
    /// The number of bytes that were sent when the deadline was set; `None` while none is set.
    sent: Option<u64>,
}

impl WriteTimeout {
    /// Creates a handler that fails the connection when a write waits for longer than `limit`. This
    /// is detected before twice that time has passed. Zero means no limit.
    pub fn new(limit: Duration) -> Self {
        Self { limit, sent: None }
    }

    /// Sets the deadline at which progress is checked.
    fn watch(&mut self, ctx: &mut HandlerContext<'_>) {
        self.sent = Some(ctx.sent_bytes());
        ctx.deadline(0, self.limit);
    }
}

impl Inbound for WriteTimeout {
    type In = AnyMessage;
    type Out = AnyMessage;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, message: AnyMessage, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(message);
    }

    fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
        let before = self.sent.take();
        if !ctx.has_unsent() {
            return;
        }
        if before == Some(ctx.sent_bytes()) {
            // Not a byte was sent since the deadline was set, and some are waiting.
            return ctx.fire_error(Failure::new(NetError::WriteTimeout(self.limit)));
        }
        self.watch(ctx);
    }
}

impl Outbound for WriteTimeout {
    type Take = AnyMessage;
    type Write = AnyMessage;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, message: AnyMessage, ctx: &mut OutboundContext<'_, Self>) {
        if self.sent.is_none() && !self.limit.is_zero() {
            self.watch(ctx);
        }
        ctx.write(message);
    }
}
