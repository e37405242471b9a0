//! What users implement: the two traits of handlers, and the contexts that know their types.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use tidegate_core::Blocking;
use tidegate_promise::{Completion, Failure, Promise};

use super::context::HandlerContext;
use super::stack::Action;
use crate::channel::{UserEvent, mask};
use crate::errors::WriteRefused;
use crate::message::{Message, Msg};

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

/// The context of an [`Inbound`] handler: knows what it passes on and writes.
pub struct InboundContext<'a, H: Inbound> {
    raw: HandlerContext<'a>,
    handler: PhantomData<fn(&mut H)>,
}

impl<'a, H: Inbound> InboundContext<'a, H> {
    #[inline]
    pub(super) fn new(raw: HandlerContext<'a>) -> Self {
        Self {
            raw,
            handler: PhantomData,
        }
    }

    /// Passes a message on to the next handler.
    #[inline]
    pub fn fire_read(&mut self, message: impl Into<H::Out>) {
        let at = self.raw.at + 1;
        let msg = Msg::of(message.into());
        self.raw.parts.push(Action::Read { at, msg });
    }

    /// Writes a message, and does not ask what becomes of it: what cannot be written is an
    /// error event.
    #[inline]
    pub fn write(&mut self, message: impl Into<H::Write>) {
        self.raw.write_msg(Msg::to_write(message.into()), None);
    }

    /// Writes a message; completes when the operating system has it.
    pub fn write_with(&mut self, message: impl Into<H::Write>) -> Completion<()> {
        let (promise, done) = self.raw.parts.io.new_promise();
        self.raw
            .write_msg(Msg::to_write(message.into()), Some(promise));
        done
    }

    /// Writes a message for a promise made before.
    pub fn write_for(&mut self, message: impl Into<H::Write>, promise: Option<Promise<()>>) {
        self.raw.write_msg(Msg::to_write(message.into()), promise);
    }

    /// Writes a message if the channel is writable.
    ///
    /// # Errors
    ///
    /// The message, when more waits to be sent than the high water mark, or the channel is closed.
    pub fn try_write<M: Into<H::Write>>(&mut self, message: M) -> Result<(), WriteRefused<M>> {
        if !self.is_writable() {
            return Err(WriteRefused(message));
        }
        self.write(message);
        Ok(())
    }
}

impl<'a, H: Inbound> Deref for InboundContext<'a, H> {
    type Target = HandlerContext<'a>;

    fn deref(&self) -> &HandlerContext<'a> {
        &self.raw
    }
}

impl<H: Inbound> DerefMut for InboundContext<'_, H> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.raw
    }
}

impl<H: Inbound> std::fmt::Debug for InboundContext<'_, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.raw.fmt(f)
    }
}

/// The context of an [`Outbound`] handler: knows what it hands on.
pub struct OutboundContext<'a, H: Outbound> {
    raw: HandlerContext<'a>,
    handler: PhantomData<fn(&mut H)>,
}

impl<'a, H: Outbound> OutboundContext<'a, H> {
    #[inline]
    pub(super) fn new(raw: HandlerContext<'a>) -> Self {
        Self {
            raw,
            handler: PhantomData,
        }
    }

    /// Hands a message on towards the socket.
    pub fn write(&mut self, message: impl Into<H::Write>) {
        let at = self.raw.at;
        let message = Msg::to_write(message.into());
        self.raw.parts.hand_on(at, message, None);
    }

    /// Hands a message on with a promise of its own.
    pub fn write_for(&mut self, message: impl Into<H::Write>, promise: Option<Promise<()>>) {
        let at = self.raw.at;
        let message = Msg::to_write(message.into());
        self.raw.parts.hand_on(at, message, promise);
    }

    /// Takes the promise of the write that this handler was asked for, to complete it later.
    pub fn take_promise(&mut self) -> Option<Promise<()>> {
        self.raw.parts.promise.take()
    }

    /// The untyped context.
    pub fn as_handler(&mut self) -> HandlerContext<'_> {
        self.raw.reborrow()
    }
}

impl<'a, H: Outbound> Deref for OutboundContext<'a, H> {
    type Target = HandlerContext<'a>;

    fn deref(&self) -> &HandlerContext<'a> {
        &self.raw
    }
}

impl<H: Outbound> DerefMut for OutboundContext<'_, H> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.raw
    }
}

impl<H: Outbound> std::fmt::Debug for OutboundContext<'_, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.raw.fmt(f)
    }
}
