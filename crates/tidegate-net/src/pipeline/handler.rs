//! The two handler traits that users implement, and their typed contexts.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytes::{Bytes, BytesMut};
use tidegate_core::Blocking;
use tidegate_promise::{Completion, Failure, Promise};

use super::context::HandlerContext;
use super::stack::Action;
use crate::channel::{FileRange, UserEvent, mask};
use crate::message::{Kind, Message, Msg};

/// A handler of inbound events. Events travel from the first handler to the last.
///
/// A method that is not implemented passes its event on. After its first call the pipeline skips
/// this handler for that event.
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
/// Every method runs on the channel's event loop, one at a time. A handler is never re-entered.
/// What it passes on or writes travels further after its method has returned, in the order of the
/// calls. A panic becomes an error event that starts at this handler; a panic in [`Inbound::error`]
/// starts at the next handler.
pub trait Inbound: Sized + 'static {
    /// The message type that this handler takes.
    type In: Send + 'static;
    /// The message type that it passes on.
    type Out: Send + 'static;
    /// The message type that it writes.
    type Write: Message;
    /// Whether this handler may block its thread. A roaming event loop runs handlers that never
    /// block in place.
    const BLOCKING: Blocking = Blocking::May;
    /// `true` if this handler must not be used without its [`Outbound`] side. Adding it with `add`
    /// instead of `add_duplex` is then a compile error.
    const DUPLEX: bool = false;

    /// Called when the handler was added, before anything else reaches it.
    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let _ = ctx;
    }

    /// Called when the handler was removed. Nothing reaches it afterwards.
    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let _ = ctx;
    }

    /// Called when the channel is open.
    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.skip_event(mask::ACTIVE);
        ctx.fire_active();
    }

    /// Called when the channel is closed.
    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.skip_event(mask::INACTIVE);
        ctx.fire_inactive();
    }

    /// Called for each message.
    fn read(&mut self, message: Self::In, ctx: &mut InboundContext<'_, Self>);

    /// Called when there are no more messages for the moment.
    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.skip_event(mask::READ_COMPLETE);
        ctx.fire_read_complete();
    }

    /// Called when the channel becomes writable or unwritable.
    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        ctx.skip_event(mask::WRITABILITY);
        ctx.fire_writability(writable);
    }

    /// Called for a user event.
    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        ctx.skip_event(mask::EVENT);
        ctx.fire_event(event);
    }

    /// Called for an error: a failed read or write, or a panic of a handler. An implementation of
    /// this method handles the error: it can continue, close the channel, or pass the error on with
    /// [`HandlerContext::fire_error`]. An error that no handler handles closes the channel and
    /// becomes its [`close_cause`](crate::Channel::close_cause).
    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.skip_event(mask::ERROR);
        ctx.fire_error(why);
    }

    /// Called when a timer of this handler, set with [`HandlerContext::schedule`], expires.
    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        let _ = (key, ctx);
    }

    /// Called when a deadline of this handler, set with [`HandlerContext::deadline`], has passed.
    /// Never called after [`Inbound::removed`] or [`Inbound::inactive`].
    fn deadline(&mut self, key: u8, ctx: &mut InboundContext<'_, Self>) {
        let _ = (key, ctx);
    }
}

/// A handler of outbound operations. Operations travel from the last handler to the first.
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
    /// The message type that this handler is given to write.
    type Take: Send + 'static;
    /// The message type that it passes on towards the socket.
    type Write: Message;
    /// Whether this handler may block its thread.
    const BLOCKING: Blocking = Blocking::May;

    /// Called for each written `message`. The promise of that write is attached to the last message
    /// that this call passes on, unless the handler takes it with
    /// [`OutboundContext::take_promise`]. If the call passes nothing on, the promise fails as
    /// abandoned.
    fn write(&mut self, message: Self::Take, ctx: &mut OutboundContext<'_, Self>);

    /// Called for a written [`FileRange`], if this handler takes messages of another type. A handler
    /// that does not change bytes passes the range on with
    /// [`OutboundContext::write_file`]. Unless implemented, the write fails with
    /// [`NetError::TypeMismatch`](crate::NetError::TypeMismatch).
    fn write_file(&mut self, range: FileRange, ctx: &mut OutboundContext<'_, Self>) {
        let (takes, promise) = (Kind::of::<Self::Take>(), ctx.take_promise());
        let why = ctx.raw.misfit_cause("a range of a file", takes);
        ctx.raw.refuse_write(Msg::to_write(range), promise, why);
    }

    /// Called for a flush.
    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.skip_event(mask::FLUSH);
        ctx.flush();
    }

    /// Called when the channel is to be closed.
    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.skip_event(mask::CLOSE);
        ctx.close();
    }

    /// Called when the channel is to be closed once everything written so far is sent. A handler
    /// that holds messages back passes this operation on after the last of them, and accepts no
    /// more writes until then.
    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.skip_event(mask::CLOSE_WHEN_FLUSHED);
        ctx.close_when_flushed();
    }

    /// Called when the sending half is to be closed, after everything flushed so far.
    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.skip_event(mask::SHUTDOWN);
        ctx.shutdown_output();
    }

    /// Called when a read is requested, or when the channel starts to read on its own again.
    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        ctx.skip_event(mask::DEMAND);
        ctx.read();
    }
}

/// The context of a handler of type `H`. It checks the types of messages: see [`InboundContext`]
/// and [`OutboundContext`].
pub struct TypedContext<'a, H, D> {
    raw: HandlerContext<'a>,
    handler: PhantomData<fn(&mut H, D)>,
}

/// The context of an [`Inbound`] handler. It checks the types that the handler passes on and
/// writes.
pub type InboundContext<'a, H> = TypedContext<'a, H, Inwards>;

/// The context of an [`Outbound`] handler. It checks the type that the handler passes on towards the
/// socket. A write carries the promise of the current write, unless the handler takes it.
pub type OutboundContext<'a, H> = TypedContext<'a, H, Outwards>;

/// The way in, from the socket to the program.
#[derive(Debug)]
pub enum Inwards {}

/// The way out.
#[derive(Debug)]
pub enum Outwards {}

/// Which messages the context of a handler of type `H` takes, and which way they go.
pub trait Direction<H> {
    /// The type of messages to write.
    type Write: Message;

    /// Whether a write goes on behind what the handler has requested before, as it always does on
    /// the way out.
    const PASSES: bool;
}

impl<H: Inbound> Direction<H> for Inwards {
    type Write = H::Write;
    const PASSES: bool = false;
}

impl<H: Outbound> Direction<H> for Outwards {
    type Write = H::Write;
    const PASSES: bool = true;
}

impl<'a, H, D> TypedContext<'a, H, D> {
    #[inline]
    pub(super) fn new(raw: HandlerContext<'a>) -> Self {
        Self {
            raw,
            handler: PhantomData,
        }
    }
}

impl<H: Inbound> InboundContext<'_, H> {
    /// Passes a message on to the next handler.
    #[inline]
    pub fn fire_read(&mut self, message: impl Into<H::Out>) {
        let at = self.raw.at + 1;
        let msg = Msg::of(message.into());
        self.raw.parts.push(Action::Read { at, msg });
    }
}

impl<H: Outbound> OutboundContext<'_, H> {
    /// Takes the promise of the current write, so that the handler can complete it later.
    pub fn take_promise(&mut self) -> Option<Promise<()>> {
        self.raw.parts.promise.take()
    }
}

impl<H, D: Direction<H>> TypedContext<'_, H, D> {
    #[inline]
    fn write_msg(&mut self, message: Msg, promise: Option<Promise<()>>) {
        if D::PASSES {
            let at = self.raw.at;
            self.raw.parts.close_output();
            self.raw.parts.pass_on(at, message, promise);
        } else {
            self.raw.write_msg(message, promise);
        }
    }

    /// Writes a message and completes `promise` with the result.
    #[inline]
    pub(crate) fn write_for(&mut self, message: impl Into<D::Write>, promise: Option<Promise<()>>) {
        self.write_msg(Msg::to_write(message.into()), promise);
    }

    /// Writes a message without waiting for the result. A failed write becomes an error event.
    #[inline]
    pub fn write(&mut self, message: impl Into<D::Write>) {
        self.write_for(message, None);
    }

    /// Writes a message. The completion succeeds when the operating system has accepted the
    /// message. The promise of the current write is not attached to it.
    pub fn write_with(&mut self, message: impl Into<D::Write>) -> Completion<()> {
        let (promise, done) = self.raw.parts.io.new_promise();
        self.write_for(message, Some(promise));
        done
    }

    /// Writes a message and sends everything written so far.
    pub fn write_and_flush(&mut self, message: impl Into<D::Write>) {
        self.write(message);
        self.flush();
    }

    /// Writes a message like [`write_with`](Self::write_with) and sends everything written so far.
    pub fn write_and_flush_with(&mut self, message: impl Into<D::Write>) -> Completion<()> {
        let done = self.write_with(message);
        self.flush();
        done
    }
}

impl<H, D: Direction<H, Write = Bytes>> TypedContext<'_, H, D> {
    /// Returns memory of the event loop to write into. It is sent where it lies, and then used
    /// again: in the long run, nothing is allocated.
    ///
    /// What this handler appends becomes one write, as by [`write`](Self::write), when its method
    /// returns, or earlier: before its next write, flush, shutdown or close. So everything is sent
    /// in the order of the calls. Further calls of this method append to the same write until then.
    /// Nothing is written if the memory is left empty, and nothing is sent before a flush.
    ///
    /// The memory has room for a few kilobytes and grows if needed. A large body is better written
    /// as [`Bytes`], behind its head. Appended bytes count as pending once they are a write. If the
    /// method panics, bytes that are not a write yet are dropped.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing};
    ///
    /// struct Greet;
    /// impl Inbound for Greet {
    ///     type In = Bytes;
    ///     type Out = Nothing;
    ///     type Write = Bytes;
    ///     fn read(&mut self, name: Bytes, ctx: &mut InboundContext<'_, Self>) {
    ///         ctx.output().extend_from_slice(b"hello, ");
    ///         ctx.output().extend_from_slice(&name);
    ///         ctx.give_back(name);
    ///     }
    ///     fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
    ///         ctx.flush();
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(|p| p.add("greet", Greet))?;
    /// channel.receive("world");
    /// assert_eq!(channel.sent(), "hello, world");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn output(&mut self) -> &mut BytesMut {
        self.raw.parts.output()
    }

    /// Writes a range of a file, after everything written so far: see [`FileRange`]. A failed write
    /// becomes an error event.
    pub fn write_file(&mut self, range: FileRange) {
        self.write_msg(Msg::to_write(range), None);
    }

    /// Writes a range of a file like [`write_file`](Self::write_file). The completion succeeds when
    /// the operating system has accepted all of it.
    pub fn write_file_with(&mut self, range: FileRange) -> Completion<()> {
        let (promise, done) = self.raw.parts.io.new_promise();
        self.write_msg(Msg::to_write(range), Some(promise));
        done
    }
}

impl<'a, H, D> Deref for TypedContext<'a, H, D> {
    type Target = HandlerContext<'a>;

    fn deref(&self) -> &HandlerContext<'a> {
        &self.raw
    }
}

impl<H, D> DerefMut for TypedContext<'_, H, D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.raw
    }
}

impl<H, D> std::fmt::Debug for TypedContext<'_, H, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.raw.fmt(f)
    }
}
