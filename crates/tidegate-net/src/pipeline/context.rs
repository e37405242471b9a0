//! What a handler can do: pass on, write, ask, change the chain.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tidegate_promise::{Completion, Failure, Promise};

use super::change::Change;
use super::check::PipelineError;
use super::handler::{InEvent, Inbound, OutOp, Outbound, UserEvent, mask};
#[cfg(feature = "tls")]
use super::parts::bits;
use super::{Action, Parts};
use crate::channel::{Channel, ChannelOptions, Mail, Shared};
use crate::errors::{NetError, WriteRefused};
use crate::message::{Kind, Msg, Passing};

/// What every handler can do with its channel, whatever it takes and writes.
///
/// What goes further, in or out, begins at this handler's place, after the handler's method
/// has returned.
pub struct HandlerContext<'a> {
    pub(super) parts: &'a mut Parts,
    pub(super) at: u32,
}

impl HandlerContext<'_> {
    /// The name under which the handler was added.
    pub fn name(&self) -> &str {
        self.parts.name(self.at)
    }

    /// A handle of the channel.
    pub fn channel(&self) -> Channel {
        self.parts.channel()
    }

    /// The address of the other side, where there is one.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.parts.shared.peer_addr()
    }

    /// Sends what was written so far. Several flushes of one event are one system call.
    #[inline]
    pub fn flush(&mut self) {
        self.parts.flush(self.at);
    }

    /// Closes the channel: what was not sent by then fails, and so does what is written later.
    pub fn close(&mut self) {
        self.out(OutOp::Close);
    }

    /// Closes the channel as soon as everything written so far is sent: see
    /// [`Channel::close_when_flushed`].
    pub fn close_when_flushed(&mut self) {
        self.flush();
        self.out(OutOp::CloseWhenFlushed);
    }

    /// Closes the sending half; the peer reads an end after what was written so far. Later writes
    /// fail with [`NetError::OutputShut`].
    pub fn shutdown_output(&mut self) {
        self.flush();
        self.out(OutOp::ShutdownOutput);
    }

    /// Whether less than the high water mark waits to be sent.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.parts.is_writable()
    }

    /// How many bytes may be written before the channel is not writable any more.
    pub fn bytes_before_unwritable(&self) -> usize {
        self.parts.bytes_before_unwritable()
    }

    /// Bytes that the operating system has taken since the channel was opened.
    pub fn sent_bytes(&self) -> u64 {
        self.parts.queue.written()
    }

    /// Whether something waits to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.parts.queue.is_empty()
    }

    /// Counts `bytes` that this handler keeps for later as waiting to be sent, so that the water
    /// marks hold for them too. Not for a handler on an executor of its own.
    ///
    /// # Errors
    ///
    /// [`NetError::Overfull`] when more would wait than the cap allows; nothing is counted.
    pub fn hold(&mut self, bytes: usize) -> Result<(), NetError> {
        self.parts.hold(bytes)
    }

    /// Counts `bytes` of [`HandlerContext::hold`] out: they were written, or given up.
    pub fn release(&mut self, bytes: usize) {
        self.parts.release(bytes);
    }

    /// How the channel behaves.
    pub fn options(&self) -> &ChannelOptions {
        &self.parts.options
    }

    /// Whether the channel stays open when the peer writes no more, whatever its
    /// [options](ChannelOptions::half_closure) said. Of a handler on the channel's loop.
    pub(crate) fn set_half_closure(&mut self, yes: bool) {
        if self.parts.options.half_closure != yes {
            Arc::make_mut(&mut self.parts.options).half_closure = yes;
        }
    }

    /// Asks for an [`InputEnd`](super::InputEnd) event before the peer's end closes the channel.
    #[cfg(feature = "tls")]
    pub(crate) fn tell_input_end(&mut self) {
        self.parts.bits |= bits::TELL_INPUT_END;
    }

    /// Switches one of 31 flags of the user's, numbered from 1: the channel is writable when
    /// all are set and little waits.
    ///
    /// # Errors
    ///
    /// [`NetError::BadFlag`] for another number.
    pub fn set_user_writable(&mut self, flag: u8, writable: bool) -> Result<(), NetError> {
        self.parts.set_user_writable(flag, writable)?;
        self.tell_home(|| Mail::UserWritable(flag, writable));
        Ok(())
    }

    /// Whether the channel reads on its own.
    pub fn is_auto_read(&self) -> bool {
        self.parts.auto_read
    }

    /// Lets the channel read on its own, or only when asked.
    pub fn set_auto_read(&mut self, yes: bool) {
        self.parts.set_auto_read(yes);
        self.tell_home(|| Mail::AutoRead(yes));
        if yes && self.parts.is_watched(self.at, mask::DEMAND) {
            self.out(OutOp::Read);
        }
    }

    /// Asks for one read, where the channel does not read on its own.
    pub fn read(&mut self) {
        self.out(OutOp::Read);
    }

    /// Tells the next handlers that the channel is open.
    pub fn fire_active(&mut self) {
        self.fire(InEvent::Active);
    }

    /// Tells the next handlers that the channel is closed.
    pub fn fire_inactive(&mut self) {
        self.fire(InEvent::Inactive);
    }

    /// Tells the next handlers that there are no more messages for the moment.
    pub fn fire_read_complete(&mut self) {
        self.fire(InEvent::ReadComplete);
    }

    /// Tells the next handlers whether the channel is writable.
    pub fn fire_writability(&mut self, writable: bool) {
        self.fire(InEvent::Writability(writable));
    }

    /// Sends an event of the user's to the next handlers.
    pub fn fire_event(&mut self, event: UserEvent) {
        self.fire(InEvent::User(event));
    }

    /// Tells the next handlers that something went wrong.
    pub fn fire_error(&mut self, why: Failure) {
        self.fire(InEvent::Error(why));
    }

    /// Calls this handler's `timer` with `key`, `after` from now. Dropping the completion does
    /// not cancel it, cancelling does; it ends with the channel.
    pub fn schedule(&mut self, after: Duration, key: u64) -> Option<Completion<()>> {
        let channel = self.parts.weak();
        let id = self.parts.id(self.at);
        let ring = move || crate::channel::ring_timer(&channel, id, key);
        self.parts.schedule(after, ring)
    }

    /// Nanoseconds on the loop's clock.
    pub fn now(&self) -> u64 {
        self.parts.shared.executor().clock().nanos()
    }

    /// Changes the chain. Takes effect when this handler's method has returned.
    ///
    /// # Errors
    ///
    /// [`PipelineError`] when the new chain would not fit; the old one stays.
    pub fn change(&mut self, change: Change) -> Result<(), PipelineError> {
        self.parts.change(change)
    }

    /// Takes this handler out of the chain.
    ///
    /// # Errors
    ///
    /// As for [`HandlerContext::change`].
    pub fn remove_me(&mut self) -> Result<(), PipelineError> {
        let name = self.name().to_owned();
        self.change(Change::remove(name))
    }

    /// Lets the channel know of what was asked of it, if the handler is on an executor of its own.
    fn tell_home(&self, mail: impl FnOnce() -> Mail) {
        if self.parts.is_elsewhere() {
            // Refused: it is closed, and asks nobody any more.
            let _ = Shared::post(&self.parts.shared, mail(), true);
        }
    }

    pub(crate) fn never(&mut self, event: u16) {
        self.parts.never(self.at, event);
    }

    pub(super) fn set_promise(&mut self, promise: Option<Promise<()>>) {
        self.parts.promise = promise;
    }

    /// Begins the end of a read, if this handler has said nothing that comes before it.
    #[inline]
    pub(super) fn completes(&mut self) -> bool {
        let completes = self.parts.is_first_word();
        self.parts.completed = completes;
        completes
    }

    pub(super) fn misfit_cause(&self, message: &Msg, takes: Kind) -> Failure {
        Failure::new(NetError::Misfit {
            handler: self.name().to_owned(),
            takes: takes.name(),
            bytes: matches!(message, Msg::Bytes(_)),
        })
    }

    /// A write for which nobody waits was refused here.
    /// Notes that a write for which nobody waits came after the end.
    #[cold]
    pub(crate) fn lose(&mut self) {
        self.parts.lose();
    }

    /// Tells the handlers behind this one that a write for which nobody waits was refused.
    #[cold]
    pub(crate) fn tell_refusal(&mut self, why: Failure) {
        let _ = self.parts.tell_refusal(self.at + 1, why);
    }

    #[cold]
    pub(super) fn misfit(&mut self, message: &Msg, takes: Kind) {
        let why = self.misfit_cause(message, takes);
        self.fire_error(why);
    }

    #[inline]
    fn fire(&mut self, event: InEvent) {
        let action = self.parts.fired(self.at + 1, event);
        self.parts.push(action);
    }

    #[inline]
    fn out(&mut self, op: OutOp) {
        self.parts.out(self.at, op);
    }

    #[inline]
    fn write_msg(&mut self, message: Msg, promise: Option<Promise<()>>) {
        self.parts.write(self.at, message, promise);
    }

    /// Passes on a message that was kept back, whatever it is.
    pub(crate) fn pass_on(&mut self, message: Passing) {
        let at = self.at + 1;
        self.parts.push(Action::Read { at, msg: message.0 });
    }

    /// Ends a read of messages that were kept back: since each was, this makes no circle.
    pub(crate) fn pass_on_complete(&mut self) {
        let at = self.at + 1;
        let event = InEvent::ReadComplete;
        self.parts.push(Action::In { at, event });
    }

    fn reborrow(&mut self) -> HandlerContext<'_> {
        HandlerContext {
            parts: self.parts,
            at: self.at,
        }
    }
}

impl std::fmt::Debug for HandlerContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HandlerContext").field(&self.name()).finish()
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
        let (promise, done) = self.raw.parts.new_promise();
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
