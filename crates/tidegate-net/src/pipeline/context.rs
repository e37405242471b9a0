//! What a handler can do: pass on, write, ask, change the chain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_promise::{Completion, Failure, Promise};

use super::parts::Parts;
use super::stack::Action;
use crate::channel::{
    Channel, ChannelOptions, Flags, InEvent, Mail, OutOp, Shared, UserEvent, mask, ring_timer,
};
use crate::errors::NetError;
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
        self.parts.io.channel()
    }

    /// The address of the other side, where there is one.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.parts.io.shared.peer_addr()
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
        self.parts.io.is_writable()
    }

    /// How many bytes may be written before the channel is not writable any more.
    pub fn bytes_before_unwritable(&self) -> usize {
        self.parts.io.bytes_before_unwritable()
    }

    /// Bytes that the operating system has taken since the channel was opened.
    pub fn sent_bytes(&self) -> u64 {
        self.parts.io.queue.written()
    }

    /// Whether something waits to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.parts.io.queue.is_empty()
    }

    /// Counts `bytes` that this handler keeps for later as waiting to be sent, so that the water
    /// marks hold for them too. Not for a handler on an executor of its own.
    ///
    /// # Errors
    ///
    /// [`NetError::Overfull`] when more would wait than the cap allows; nothing is counted.
    pub fn hold(&mut self, bytes: usize) -> Result<(), NetError> {
        self.parts.io.hold(bytes)
    }

    /// Counts `bytes` of [`HandlerContext::hold`] out: they were written, or given up.
    pub fn release(&mut self, bytes: usize) {
        self.parts.io.release(bytes);
    }

    /// How the channel behaves.
    pub fn options(&self) -> &ChannelOptions {
        &self.parts.io.options
    }

    /// Whether the channel stays open when the peer writes no more, whatever its
    /// [options](ChannelOptions::half_closure) said. Of a handler on the channel's loop.
    pub(crate) fn set_half_closure(&mut self, yes: bool) {
        if self.parts.io.options.half_closure != yes {
            Arc::make_mut(&mut self.parts.io.options).half_closure = yes;
        }
    }

    /// Asks for an [`InputEnd`](crate::channel::InputEnd) event before the peer's end closes the channel.
    #[cfg(feature = "tls")]
    pub(crate) fn tell_input_end(&mut self) {
        self.parts.io.state.flags.set(Flags::TELL_INPUT_END);
    }

    /// Switches one of 31 flags of the user's, numbered from 1: the channel is writable when
    /// all are set and little waits.
    ///
    /// # Errors
    ///
    /// [`NetError::BadFlag`] for another number.
    pub fn set_user_writable(&mut self, flag: u8, writable: bool) -> Result<(), NetError> {
        self.parts.io.set_user_writable(flag, writable)?;
        self.tell_home(|| Mail::UserWritable(flag, writable));
        Ok(())
    }

    /// Whether the channel reads on its own.
    pub fn is_auto_read(&self) -> bool {
        self.parts.io.state.flags.any(Flags::AUTO_READ)
    }

    /// Lets the channel read on its own, or only when asked.
    pub fn set_auto_read(&mut self, yes: bool) {
        self.parts.io.state.set_auto_read(yes);
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
        let channel = self.parts.io.weak();
        let id = self.parts.id(self.at);
        let ring = move || ring_timer(&channel, id, key);
        self.parts.io.schedule(after, ring)
    }

    /// Nanoseconds on the loop's clock.
    pub fn now(&self) -> u64 {
        self.parts.io.shared.executor().clock().nanos()
    }

    /// Lets the channel know of what was asked of it, if the handler is on an executor of its own.
    fn tell_home(&self, mail: impl FnOnce() -> Mail) {
        if self.parts.is_elsewhere() {
            // Refused: it is closed, and asks nobody any more.
            let _ = Shared::post(&self.parts.io.shared, mail(), true);
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
        self.parts
            .io
            .state
            .flags
            .put(Flags::READ_COMPLETED, completes);
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
        self.parts.io.lose();
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
    pub(super) fn write_msg(&mut self, message: Msg, promise: Option<Promise<()>>) {
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

    pub(super) fn reborrow(&mut self) -> HandlerContext<'_> {
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
