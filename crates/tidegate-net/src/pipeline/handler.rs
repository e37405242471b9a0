//! What handlers are: the two traits that users implement, and how a pipeline sees them.

use std::any::{Any, type_name};
use std::fmt;

use tidegate_core::Blocking;
use tidegate_promise::{Failure, Promise};

use super::context::{HandlerContext, InboundContext, OutboundContext};
use crate::message::{Kind, Message, Msg};

/// Events that a handler may care about, as bits.
pub(crate) mod mask {
    pub(crate) const READ: u16 = 1;
    pub(crate) const READ_COMPLETE: u16 = 1 << 1;
    pub(crate) const ACTIVE: u16 = 1 << 2;
    pub(crate) const INACTIVE: u16 = 1 << 3;
    pub(crate) const WRITABILITY: u16 = 1 << 4;
    pub(crate) const EVENT: u16 = 1 << 5;
    pub(crate) const ERROR: u16 = 1 << 6;
    pub(crate) const WRITE: u16 = 1 << 7;
    pub(crate) const FLUSH: u16 = 1 << 8;
    pub(crate) const CLOSE: u16 = 1 << 9;
    pub(crate) const CLOSE_WHEN_FLUSHED: u16 = 1 << 10;
    pub(crate) const SHUTDOWN: u16 = 1 << 11;
    pub(crate) const DEMAND: u16 = 1 << 12;
    pub(crate) const INBOUND: u16 = WRITE - 1;
    pub(crate) const OUTBOUND: u16 = WRITE | FLUSH | CLOSE | CLOSE_WHEN_FLUSHED | SHUTDOWN | DEMAND;
}

/// An event of the user's own, on its way from head to tail.
///
/// ```
/// use tidegate_net::UserEvent;
///
/// let event = UserEvent::new("handshake done");
/// assert_eq!(event.is::<&str>(), Some(&"handshake done"));
/// assert_eq!(event.is::<u32>(), None);
/// ```
pub struct UserEvent(Box<dyn Any + Send>);

impl UserEvent {
    /// An event that carries `what`.
    pub fn new(what: impl Any + Send) -> Self {
        Self(Box::new(what))
    }

    /// What it carries, if that is a `T`.
    pub fn is<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Takes out what it carries, or gives itself back.
    ///
    /// # Errors
    ///
    /// The event, if it carries something else.
    pub fn downcast<T: 'static>(self) -> Result<T, Self> {
        self.0.downcast().map(|own| *own).map_err(Self)
    }
}

impl fmt::Debug for UserEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserEvent")
    }
}

/// The peer writes no more, and the channel stays open for what is left to say: an event for
/// channels that allow half-closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShutdown;

/// The channel was taken off its loop: an event. See [`Channel::deregister`](crate::Channel::deregister).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deregistered;

/// The channel is on its loop again: an event. See [`Channel::register`](crate::Channel::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered;

/// The peer writes no more, and the channel is about to be closed for it: an event for handlers
/// that asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputEnd;

/// A handler of what comes in. Events flow from the first handler to the last.
///
/// A method that is not written passes its event on, and its handler is not asked again.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::{Blocking, EmbeddedChannel, Inbound, InboundContext, Nothing};
///
/// struct Shout;
/// impl Inbound for Shout {
///     type In = Bytes;
///     type Out = Nothing; // passes nothing on
///     type Write = Bytes;
///     const BLOCKING: Blocking = Blocking::Never;
///     fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
///         ctx.write(line.to_ascii_uppercase());
///     }
///     fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
///         ctx.flush();
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("shout", Shout))?;
/// channel.write_inbound(Bytes::from("hello"));
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "HELLO");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Threads
///
/// Every method runs on the channel's loop, one at a time; a handler is never entered twice.
/// What it passes on or writes goes further after it has returned, in the order in which it
/// said so. A panic becomes an error event that begins at this handler; one in [`Inbound::error`]
/// begins behind it.
pub trait Inbound: Sized + 'static {
    /// What it takes.
    type In: Send + 'static;
    /// What it passes on.
    type Out: Send + 'static;
    /// What it writes.
    type Write: Message;
    /// What it may do to its thread. Where all handlers of channels that are ready together never
    /// block, up to eight of them are told in a row on a pinned loop, and what each sends goes out
    /// behind the last of them.
    const BLOCKING: Blocking = Blocking::May;
    /// Whether it is nothing without its [`Outbound`] side: to add it for what comes in alone, with
    /// `add` instead of `add_duplex`, then does not compile.
    const DUPLEX: bool = false;

    /// It was added; nothing has reached it yet.
    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let _ = ctx;
    }

    /// It was removed; nothing will reach it any more.
    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let _ = ctx;
    }

    /// The channel is open.
    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.never(mask::ACTIVE);
        ctx.fire_active();
    }

    /// The channel is closed.
    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.never(mask::INACTIVE);
        ctx.fire_inactive();
    }

    /// A message came.
    fn read(&mut self, message: Self::In, ctx: &mut InboundContext<'_, Self>);

    /// No more messages for the moment.
    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.never(mask::READ_COMPLETE);
        ctx.fire_read_complete();
    }

    /// The channel became writable, or is not any more.
    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        ctx.never(mask::WRITABILITY);
        ctx.fire_writability(writable);
    }

    /// An event of the user's own.
    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        ctx.never(mask::EVENT);
        ctx.fire_event(event);
    }

    /// Something went wrong: a read or a write, or a handler that panicked. An error that no
    /// handler takes closes the channel, and is then its
    /// [`close_cause`](crate::Channel::close_cause). A handler that has this method takes it: it
    /// goes on, closes, or passes it on with [`HandlerContext::fire_error`].
    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.never(mask::ERROR);
        ctx.fire_error(why);
    }

    /// A timer that this handler asked for with [`HandlerContext::schedule`] is due.
    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        let _ = (key, ctx);
    }
}

/// A handler of what goes out. Operations flow from the last handler to the first.
///
/// ```
/// use bytes::Bytes;
/// use tidegate_net::{EmbeddedChannel, Outbound, OutboundContext};
///
/// struct Numbers;
/// impl Outbound for Numbers {
///     type Take = u32;
///     type Write = Bytes;
///     fn write(&mut self, number: u32, ctx: &mut OutboundContext<'_, Self>) {
///         ctx.write(number.to_string());
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(|p| p.add_outbound("numbers", Numbers))?;
/// channel.write_outbound(42_u32);
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "42");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Outbound: Sized + 'static {
    /// What it is given to write.
    type Take: Send + 'static;
    /// What it hands on.
    type Write: Message;
    /// What it may do to its thread.
    const BLOCKING: Blocking = Blocking::May;

    /// Somebody writes `message`. The promise of that write goes with the last thing that this
    /// call hands on, unless it is taken with [`OutboundContext::take_promise`]; if nothing is
    /// handed on, it fails as abandoned.
    fn write(&mut self, message: Self::Take, ctx: &mut OutboundContext<'_, Self>);

    /// Somebody flushes.
    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.never(mask::FLUSH);
        ctx.flush();
    }

    /// Somebody closes.
    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.never(mask::CLOSE);
        ctx.close();
    }

    /// Somebody closes once everything written so far is sent. A handler that holds some of it
    /// back passes this on when it holds no more, and takes no more writes meanwhile.
    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.never(mask::CLOSE_WHEN_FLUSHED);
        ctx.close_when_flushed();
    }

    /// Somebody closes the sending half, after what was flushed so far.
    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.never(mask::SHUTDOWN);
        ctx.shutdown_output();
    }

    /// Somebody asks for a read, or lets the channel read on its own again.
    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.never(mask::DEMAND);
        ctx.read();
    }
}

/// An event on its way in.
#[derive(Debug)]
pub(crate) enum InEvent {
    Active,
    Inactive,
    ReadComplete,
    Writability(bool),
    User(UserEvent),
    Error(Failure),
}

impl InEvent {
    pub(crate) fn bit(&self) -> u16 {
        match self {
            Self::Active => mask::ACTIVE,
            Self::Inactive => mask::INACTIVE,
            Self::ReadComplete => mask::READ_COMPLETE,
            Self::Writability(_) => mask::WRITABILITY,
            Self::User(_) => mask::EVENT,
            Self::Error(_) => mask::ERROR,
        }
    }
}

/// An operation on its way out that is not a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutOp {
    Flush,
    Close,
    CloseWhenFlushed,
    ShutdownOutput,
    Read,
}

impl OutOp {
    pub(crate) fn bit(self) -> u16 {
        match self {
            Self::Flush => mask::FLUSH,
            Self::Close => mask::CLOSE,
            Self::CloseWhenFlushed => mask::CLOSE_WHEN_FLUSHED,
            Self::ShutdownOutput => mask::SHUTDOWN,
            Self::Read => mask::DEMAND,
        }
    }
}

/// What happens to one handler alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Added,
    Removed,
    Timer(u64),
}

/// What a pipeline knows of a handler's types.
#[derive(Debug)]
pub(crate) struct Shape {
    /// In, Out and Write of the inbound side.
    pub(crate) inbound: Option<[Kind; 3]>,
    /// Take and Write of the outbound side.
    pub(crate) outbound: Option<[Kind; 2]>,
    pub(crate) blocking: Blocking,
    pub(crate) type_name: fn() -> &'static str,
}

impl Shape {
    pub(crate) fn mask(&self) -> u16 {
        let inbound = self.inbound.map_or(0, |_| mask::INBOUND);
        let outbound = self.outbound.map_or(0, |_| mask::OUTBOUND);
        inbound | outbound
    }
}

/// A handler as a pipeline holds it.
pub(crate) trait Erased {
    fn shape(&self) -> &'static Shape;
    /// A message; if it is the `last` for the moment, the end of the read as well, unless the
    /// handler says something that comes before that.
    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>);
    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>);
    fn own(&mut self, what: Own, ctx: HandlerContext<'_>);
    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>);
    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>);
    /// Whether it keeps its place after its removal, until it says that it is done.
    fn lingers(&self) -> bool {
        false
    }
    /// Whether nothing has come to it since it has said so.
    fn is_idle(&self, _posted: u64) -> bool {
        true
    }
}

/// How a pipeline holds its handlers: bound to their thread, or free to leave it.
pub(crate) trait Held: Erased {
    /// The handler, if it can be held that way.
    fn hold(made: Made) -> Option<Box<Self>>;
}

impl Held for dyn Erased {
    fn hold(made: Made) -> Option<Box<Self>> {
        Some(match made {
            Made::Sent(handler) => handler,
            Made::Local(handler) => handler,
        })
    }
}

impl Held for dyn Erased + Send {
    fn hold(made: Made) -> Option<Box<Self>> {
        match made {
            Made::Sent(handler) => Some(handler),
            Made::Local(_) => None,
        }
    }
}

/// A handler that is in no pipeline yet.
pub(crate) enum Made {
    /// It may leave its thread.
    Sent(Box<dyn Erased + Send>),
    /// It stays where it was made.
    Local(Box<dyn Erased>),
}

impl Made {
    pub(crate) fn shape(&self) -> &'static Shape {
        match self {
            Self::Sent(handler) => handler.shape(),
            Self::Local(handler) => handler.shape(),
        }
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }
}

/// A handler with an inbound side only.
pub(crate) struct In<H>(pub(crate) H);
/// A handler with an outbound side only.
pub(crate) struct Out<H>(pub(crate) H);
/// A handler with both sides.
pub(crate) struct Both<H>(pub(crate) H);

const fn in_kinds<H: Inbound>() -> [Kind; 3] {
    [
        Kind::of::<H::In>(),
        Kind::of::<H::Out>(),
        Kind::of::<H::Write>(),
    ]
}

const fn out_kinds<H: Outbound>() -> [Kind; 2] {
    [Kind::of::<H::Take>(), Kind::of::<H::Write>()]
}

const fn wider(a: Blocking, b: Blocking) -> Blocking {
    if a as u8 > b as u8 { a } else { b }
}

/// The shape of a handler of what comes in.
pub(crate) const fn inbound_shape<H: Inbound>(blocking: Blocking) -> Shape {
    assert!(
        !H::DUPLEX,
        "this handler handles what goes out as well: add it with `add_duplex` or `Handler::duplex`"
    );
    Shape {
        inbound: Some(in_kinds::<H>()),
        outbound: None,
        blocking,
        type_name: type_name::<H>,
    }
}

/// The shape of a handler of both.
pub(crate) const fn duplex_shape<H: Inbound + Outbound>(blocking: Blocking) -> Shape {
    Shape {
        inbound: Some(in_kinds::<H>()),
        outbound: Some(out_kinds::<H>()),
        blocking,
        type_name: type_name::<H>,
    }
}

impl<H: Inbound> Erased for In<H> {
    fn shape(&self) -> &'static Shape {
        const { &inbound_shape::<H>(H::BLOCKING) }
    }

    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>) {
        read(&mut self.0, message, last, ctx);
    }

    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>) {
        inbound(&mut self.0, event, ctx);
    }

    fn own(&mut self, what: Own, ctx: HandlerContext<'_>) {
        own(&mut self.0, what, ctx);
    }

    fn write(&mut self, _: Msg, _: Option<Promise<()>>, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }

    fn outbound(&mut self, _: OutOp, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }
}

impl<H: Outbound> Erased for Out<H> {
    fn shape(&self) -> &'static Shape {
        const {
            &Shape {
                inbound: None,
                outbound: Some(out_kinds::<H>()),
                blocking: H::BLOCKING,
                type_name: type_name::<H>,
            }
        }
    }

    fn read(&mut self, _: Msg, _: bool, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }

    fn inbound(&mut self, _: InEvent, _: HandlerContext<'_>) {
        unreachable!("the mask leaves this handler out");
    }

    fn own(&mut self, _: Own, _: HandlerContext<'_>) {}

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>) {
        write(&mut self.0, message, promise, ctx);
    }

    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>) {
        outbound(&mut self.0, op, ctx);
    }
}

impl<H: Inbound + Outbound> Erased for Both<H> {
    fn shape(&self) -> &'static Shape {
        const { &duplex_shape::<H>(wider(<H as Inbound>::BLOCKING, <H as Outbound>::BLOCKING)) }
    }

    fn read(&mut self, message: Msg, last: bool, ctx: HandlerContext<'_>) {
        read(&mut self.0, message, last, ctx);
    }

    fn inbound(&mut self, event: InEvent, ctx: HandlerContext<'_>) {
        inbound(&mut self.0, event, ctx);
    }

    fn own(&mut self, what: Own, ctx: HandlerContext<'_>) {
        own(&mut self.0, what, ctx);
    }

    fn write(&mut self, message: Msg, promise: Option<Promise<()>>, ctx: HandlerContext<'_>) {
        write(&mut self.0, message, promise, ctx);
    }

    fn outbound(&mut self, op: OutOp, ctx: HandlerContext<'_>) {
        outbound(&mut self.0, op, ctx);
    }
}

#[inline]
fn read<H: Inbound>(handler: &mut H, message: Msg, last: bool, mut ctx: HandlerContext<'_>) {
    match message.cast::<H::In>() {
        Ok(message) => {
            let ctx = &mut InboundContext::new(ctx);
            handler.read(message, ctx);
            if last && ctx.completes() {
                handler.read_complete(ctx);
            }
        }
        Err(other) => ctx.misfit(&other, Kind::of::<H::In>()),
    }
}

fn inbound<H: Inbound>(handler: &mut H, event: InEvent, ctx: HandlerContext<'_>) {
    let ctx = &mut InboundContext::new(ctx);
    match event {
        InEvent::Active => handler.active(ctx),
        InEvent::Inactive => handler.inactive(ctx),
        InEvent::ReadComplete => handler.read_complete(ctx),
        InEvent::Writability(writable) => handler.writability(writable, ctx),
        InEvent::User(event) => handler.event(event, ctx),
        InEvent::Error(why) => handler.error(why, ctx),
    }
}

fn own<H: Inbound>(handler: &mut H, what: Own, ctx: HandlerContext<'_>) {
    let ctx = &mut InboundContext::new(ctx);
    match what {
        Own::Added => handler.added(ctx),
        Own::Removed => handler.removed(ctx),
        Own::Timer(key) => handler.timer(key, ctx),
    }
}

fn write<H: Outbound>(
    handler: &mut H,
    message: Msg,
    promise: Option<Promise<()>>,
    mut ctx: HandlerContext<'_>,
) {
    match message.cast::<H::Take>() {
        Ok(message) => {
            ctx.set_promise(promise);
            handler.write(message, &mut OutboundContext::new(ctx));
        }
        Err(other) => {
            let why = ctx.misfit_cause(&other, Kind::of::<H::Take>());
            match promise {
                Some(promise) => drop(promise.fail(why)),
                None => ctx.tell_refusal(why),
            }
        }
    }
}

fn outbound<H: Outbound>(handler: &mut H, op: OutOp, ctx: HandlerContext<'_>) {
    let ctx = &mut OutboundContext::new(ctx);
    match op {
        OutOp::Flush => handler.flush(ctx),
        OutOp::Close => handler.close(ctx),
        OutOp::CloseWhenFlushed => handler.close_when_flushed(ctx),
        OutOp::ShutdownOutput => handler.shutdown_output(ctx),
        OutOp::Read => handler.read(ctx),
    }
}
