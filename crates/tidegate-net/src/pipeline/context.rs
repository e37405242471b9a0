//! The context of a handler: passes events on, writes, queries the channel, changes the chain.

use std::net::SocketAddr;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::internal::SignalBlock;
use tidegate_promise::{Completion, Failure, Promise};

use super::pipeline_state::PipelineState;
use super::stack::Action;
use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::channel::{
    Channel, ChannelOptions, Flags, InEvent, OutOp, Peer, PeerProgress, Shared, UserEvent, mask,
    refuse_write, ring_timer,
};
use crate::errors::NetError;
use crate::message::{AnyMessage, Kind, Msg};

/// The operations that every handler has on its channel, independent of its message types.
///
/// Events and operations start at this handler's position. Other handlers receive them after this
/// handler's method has returned. A write or another operation that no other handler would receive
/// may take effect at once.
pub struct HandlerContext<'a> {
    pub(super) parts: &'a mut PipelineState,
    pub(super) at: u32,
}

impl HandlerContext<'_> {
    /// Returns the name under which the handler was added.
    pub fn name(&self) -> &str {
        self.parts.name(self.at)
    }

    /// Returns a handle of the channel.
    pub fn channel(&self) -> Channel {
        self.parts.io.channel()
    }

    /// Returns the address of the peer, if it has one.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer().address()
    }

    pub(crate) fn peer(&self) -> &Peer {
        self.parts.io.shared.peer()
    }

    /// Returns `true` if a drain of the channel's server was
    /// [announced](crate::Server::announce_drain) or has begun. A protocol with several requests per
    /// connection then tells the peer that the next response is the last one.
    pub fn is_draining(&self) -> bool {
        self.parts.io.shared.is_draining()
    }

    /// Sends everything written so far. Several flushes during one event cost one system call.
    #[inline]
    pub fn flush(&mut self) {
        self.parts.flush(self.at);
    }

    /// Sends everything written so far. The completion succeeds when the operating system has taken
    /// all of it, except data that other handlers hold back and datagrams that were lost. It fails
    /// if the channel closes first, or if an earlier write without a promise was refused or came after
    /// the output was shut. A flush that is cancelled before the handler returns may still be carried out.
    pub fn flush_with(&mut self) -> Completion<()> {
        let (promise, done) = self.parts.io.new_promise();
        self.parts.flush_with(self.at, promise);
        done
    }

    /// Closes the channel. Messages that are not sent yet fail, and so do later writes.
    pub fn close(&mut self) {
        self.out(OutOp::Close);
    }

    /// Closes the channel and resets its connection, as [`Channel::abort`] does, but at once: nothing
    /// that waits is sent any more, even if it was flushed before, and no other handler can send
    /// something first or hold the close back. For a message that must not reach the peer any more,
    /// since it is sent elsewhere.
    pub fn abort(&mut self) {
        self.parts.io.request_abort();
    }

    /// Closes the channel once everything written so far is sent: see
    /// [`Channel::close_when_flushed`].
    pub fn close_when_flushed(&mut self) {
        self.flush();
        self.out(OutOp::CloseWhenFlushed);
    }

    /// Closes the sending half. The peer reads an end of stream after everything written so far.
    /// Later writes fail with [`NetError::OutputShut`].
    pub fn shutdown_output(&mut self) {
        self.flush();
        self.out(OutOp::ShutdownOutput);
    }

    /// Returns `true` if the channel is writable: it is not closed or closing, the pending bytes
    /// are within the water marks, and all [user flags](Self::set_user_writable) are set.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.parts.io.is_writable()
    }

    /// Returns how many bytes may be written before the channel becomes unwritable.
    pub fn bytes_before_unwritable(&self) -> usize {
        self.parts.io.bytes_before_unwritable()
    }

    /// Returns the number of bytes that the operating system has accepted since the channel was
    /// opened.
    pub fn sent_bytes(&self) -> u64 {
        self.parts.io.queue.written()
    }

    /// Returns the progress of the peer, for the deadline of a handler. Returns `None` where it is not
    /// known: for sockets other than TCP, and on systems other than Linux.
    #[doc(hidden)]
    pub fn peer_progress(&self) -> Option<PeerProgress> {
        self.parts.io.peer_progress()
    }

    /// Returns `true` if data is waiting to be sent, or a file of which a handler sends the rest.
    pub fn has_unsent(&self) -> bool {
        let queue = &self.parts.io.queue;
        !queue.is_empty() || queue.file_bytes() > 0
    }

    /// Counts `bytes` that this handler keeps for later as pending, so that the water marks include
    /// them.
    ///
    /// # Errors
    ///
    /// [`NetError::WriteQueueFull`] if the pending bytes would exceed the cap; nothing is counted
    /// then.
    pub fn hold(&mut self, bytes: usize) -> Result<(), NetError> {
        self.parts.io.hold(bytes)
    }

    /// Stops counting `bytes` of [`HandlerContext::hold`], because they were written or dropped.
    pub fn release(&mut self, bytes: usize) {
        self.parts.io.release(bytes);
    }

    /// Counts bytes of a file that this handler sends later for the water marks, not as memory.
    #[cfg(feature = "tls")]
    pub(crate) fn hold_file(&mut self, bytes: u64) {
        self.parts.io.queue.hold_file(bytes);
        self.parts.io.look_at_marks();
    }

    /// Stops counting `bytes` of [`HandlerContext::hold_file`].
    #[cfg(feature = "tls")]
    pub(crate) fn release_file(&mut self, bytes: u128) {
        self.parts.io.queue.release_file(bytes);
        self.parts.io.look_at_marks();
    }

    /// Writes bytes and completes `promise` with the result. For a handler whose messages are
    /// bytes.
    #[cfg(feature = "tls")]
    pub(crate) fn write_bytes(&mut self, bytes: Bytes, promise: Option<Promise<()>>) {
        self.write_msg(Msg::Bytes(bytes), promise);
    }

    /// Counts `bytes` that were received and that this handler keeps, because a message is not
    /// complete yet. They count against the
    /// [`max_memory`](crate::ServerBuilder::max_memory) of the server, and not against the water
    /// marks. The ready-made frame decoders do this.
    pub fn hold_input(&mut self, bytes: usize) {
        self.parts.io.shared.hold_input(bytes);
    }

    /// Stops counting `bytes` of [`HandlerContext::hold_input`].
    pub fn release_input(&mut self, bytes: usize) {
        self.parts.io.shared.release_input(bytes);
    }

    /// Returns memory that this handler no longer needs to the event loop: received bytes that it
    /// has consumed, or written bytes of which it has made others. The loop then receives into this
    /// memory again, or lends it again for an [output](crate::InboundContext::output). A handler
    /// that drops received bytes instead makes the loop allocate.
    ///
    /// Accepts any bytes, also a part whose start was [cut off](bytes::Buf::advance). Bytes that are
    /// not the loop's memory, and bytes of which another part is in use, are only dropped.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing};
    ///
    /// struct Count;
    /// impl Inbound for Count {
    ///     type In = Bytes;
    ///     type Out = Nothing;
    ///     type Write = Bytes;
    ///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
    ///         let line = format!("{} bytes\n", bytes.len());
    ///         ctx.output().extend_from_slice(line.as_bytes());
    ///         ctx.give_back(bytes);
    ///         ctx.flush();
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(|p| p.add("count", Count))?;
    /// channel.receive("hello");
    /// assert_eq!(channel.sent(), "5 bytes\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn give_back(&mut self, bytes: Bytes) {
        self.parts.io.give_back(bytes);
    }

    /// Returns the options of the channel.
    pub fn options(&self) -> &ChannelOptions {
        &self.parts.io.options
    }

    /// Sets whether the channel stays open when the peer closes its sending half. Overrides the
    /// [option](ChannelOptions::half_closure) for this channel.
    ///
    /// If it does, the handlers receive an [`InputShutdown`](crate::InputShutdown) event after the
    /// last bytes of the peer, and can still write. The channel is closed when a handler closes it
    /// or its [sending half](Self::shutdown_output). If it does not, the end of the peer's stream
    /// closes the channel.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use tidegate_net::{
    ///     EmbeddedChannel, Inbound, InboundContext, InputShutdown, Nothing, UserEvent,
    /// };
    ///
    /// /// Responds when the request is complete: at the end of the peer's stream.
    /// #[derive(Default)]
    /// struct Length(usize);
    /// impl Inbound for Length {
    ///     type In = Bytes;
    ///     type Out = Nothing;
    ///     type Write = Bytes;
    ///     fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
    ///         ctx.set_half_closure(true);
    ///     }
    ///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
    ///         self.0 += bytes.len();
    ///         ctx.give_back(bytes);
    ///     }
    ///     fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
    ///         if event.downcast_ref::<InputShutdown>().is_some() {
    ///             ctx.write(format!("{} bytes", self.0));
    ///             ctx.close_when_flushed();
    ///         }
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(|p| p.add("length", Length::default()))?;
    /// channel.receive("hello");
    /// channel.end_input();
    /// assert_eq!(channel.sent(), "5 bytes");
    /// assert!(!channel.is_open());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_half_closure(&mut self, yes: bool) {
        self.parts.io.state.flags.put(Flags::HALF_CLOSURE, yes);
    }

    /// Sets whether the channel closes as soon as the peer has closed its sending half, even while
    /// nothing is [read](Self::set_auto_read) from it: bytes that are not read yet are lost. `false` at
    /// first, so that the channel closes when the end is read. No effect while the channel allows
    /// [half-closure](Self::set_half_closure), or while it sends the rest before it is closed.
    ///
    /// For a handler that works for its peer and holds its input back meanwhile, such as a proxy: it
    /// stops when the peer is gone. The end of a stream comes after its bytes, so it is not seen while
    /// the system has no more room for them.
    pub fn set_close_on_hang_up(&mut self, yes: bool) {
        self.parts.io.state.flags.put(Flags::CLOSE_ON_HANG_UP, yes);
    }

    /// Makes [`close_when_flushed`](Self::close_when_flushed) wait for the end of the peer, at most for
    /// [`LINGER_TIME`](ChannelOptions::LINGER_TIME), even if the channel has not received anything since: for
    /// a handler which knows that the peer may still be sending.
    pub fn linger_on_close(&mut self) {
        self.parts.io.state.flags.set(Flags::LINGERS);
    }

    /// Returns `true` if everything is sent, and the channel waits for the end of the peer before it is
    /// closed.
    #[doc(hidden)]
    pub fn is_lingering(&self) -> bool {
        self.parts.io.state.is_lingering()
    }

    /// Returns `true` if the channel stays open when the peer closes its sending half.
    pub fn half_closure(&self) -> bool {
        self.parts.io.state.flags.any(Flags::HALF_CLOSURE)
    }

    /// Returns how many bytes one write may have now: up to the high-water mark or slightly more,
    /// never above the cap; none if the channel is not writable.
    pub(crate) fn write_room(&self, least: usize) -> usize {
        let io = &self.parts.io;
        if !io.is_writable() {
            return 0;
        }
        let (pending, marks) = (io.pending(), io.options.marks);
        let below_mark = marks.high().saturating_sub(io.unsent()).max(least);
        below_mark.min(marks.cap().saturating_sub(pending + ENTRY_OVERHEAD))
    }

    /// Sets the cause to report if the channel is closed next.
    pub(crate) fn set_close_cause(&mut self, why: Failure) {
        self.parts.io.close_cause.get_or_insert(why);
    }

    /// Returns what [`ring_timer`] needs to call this handler's `timer` method.
    pub(crate) fn ring_target(&self) -> (Weak<SignalBlock<Shared>>, u32) {
        (self.parts.io.weak(), self.parts.id(self.at))
    }

    /// Requests an [`InputEnd`](crate::channel::InputEnd) event before the end of the peer's stream
    /// closes the channel.
    #[cfg(feature = "tls")]
    pub(crate) fn report_input_end(&mut self) {
        self.parts.io.state.flags.set(Flags::REPORT_INPUT_END);
    }

    /// Sets or clears one of 31 user flags, numbered from 1 to 31. All flags are set at first. The
    /// channel is writable only while all flags are set and the pending bytes are within the water
    /// marks.
    ///
    /// # Errors
    ///
    /// [`NetError::InvalidFlag`] for any other number.
    pub fn set_user_writable(&mut self, flag: u8, writable: bool) -> Result<(), NetError> {
        self.parts.io.set_user_writable(flag, writable)
    }

    /// Returns `true` if the channel reads on its own.
    pub fn is_auto_read(&self) -> bool {
        self.parts.io.state.flags.any(Flags::AUTO_READ)
    }

    /// Returns `true` if the channel reads on its own, or a read was requested.
    pub(crate) fn wants_to_read(&self) -> bool {
        let reads = Flags::AUTO_READ.union(Flags::READ);
        self.parts.io.state.flags.any(reads)
    }

    /// Sets whether the channel reads on its own or only on request.
    pub fn set_auto_read(&mut self, yes: bool) {
        self.parts.io.state.set_auto_read(yes);
        if yes && self.parts.is_watched(self.at, mask::DEMAND) {
            self.out(OutOp::Read);
        }
    }

    /// Requests one read, if the channel does not read on its own.
    pub fn read(&mut self) {
        self.out(OutOp::Read);
    }

    /// Notifies the next handlers that the channel is open.
    pub fn fire_active(&mut self) {
        self.fire(InEvent::Active);
    }

    /// Notifies the next handlers that the channel is closed.
    pub fn fire_inactive(&mut self) {
        self.fire(InEvent::Inactive);
    }

    /// Notifies the next handlers that there are no more messages for the moment.
    pub fn fire_read_complete(&mut self) {
        self.fire(InEvent::ReadComplete);
    }

    /// Notifies the next handlers whether the channel is writable.
    pub fn fire_writability(&mut self, writable: bool) {
        self.fire(InEvent::Writability(writable));
    }

    /// Passes a user event on to the next handlers.
    pub fn fire_event(&mut self, event: UserEvent) {
        self.fire(InEvent::User(event));
    }

    /// Passes an error on to the next handlers.
    pub fn fire_error(&mut self, why: Failure) {
        self.fire(InEvent::Error(why));
    }

    /// Calls this handler's `timer` method with `key`, `after` from now. Cancelling the completion
    /// cancels the timer; dropping it does not. The timer ends with its handler and with the channel:
    /// the completion is cancelled then. For a duplex handler this is
    /// [`Inbound::timer`](crate::Inbound::timer). Returns `None` if the channel is closed or the event
    /// loop accepts no more timers.
    pub fn schedule(&mut self, after: Duration, key: u64) -> Option<Completion<()>> {
        let (channel, id) = self.ring_target();
        let ring = Box::new(move || ring_timer(&channel, id, key));
        self.parts.io.schedule(id, after, ring)
    }

    /// Calls this handler's [`deadline`](crate::Inbound::deadline) method with `key`, `after` from
    /// now, to within some milliseconds. Moves the deadline if there is one with this key. Each
    /// handler has its own keys. A deadline passes once; a handler that needs it again sets it
    /// again.
    ///
    /// This is for limits that nearly always move before they pass, such as idle times. To move a
    /// deadline to a later time only stores the time, and all deadlines of a channel share one
    /// coarse timer. A precise timer is [`HandlerContext::schedule`].
    ///
    /// A deadline ends with its handler and with the channel.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bytes::Bytes;
    /// use tidegate_net::{EmbeddedChannel, Inbound, InboundContext, Nothing};
    ///
    /// const IDLE: u8 = 0;
    /// const LIMIT: Duration = Duration::from_secs(75);
    ///
    /// struct Patient;
    /// impl Inbound for Patient {
    ///     type In = Bytes;
    ///     type Out = Nothing;
    ///     type Write = Nothing;
    ///     fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
    ///         ctx.deadline(IDLE, LIMIT);
    ///     }
    ///     fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
    ///         ctx.deadline(IDLE, LIMIT);
    ///         ctx.give_back(bytes);
    ///     }
    ///     fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
    ///         ctx.close();
    ///     }
    /// }
    ///
    /// let mut channel = EmbeddedChannel::new(|p| p.add("patient", Patient))?;
    /// channel.advance(Duration::from_secs(50));
    /// channel.receive("still here");
    /// channel.advance(Duration::from_secs(50));
    /// assert!(channel.is_open());
    /// channel.advance(Duration::from_secs(25));
    /// assert!(!channel.is_open());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&mut self, key: u8, after: Duration) {
        let handler = self.parts.id(self.at);
        self.parts.io.set_handler_deadline(handler, key, after);
    }

    /// Removes the deadline that this handler set with `key`, if there is one.
    pub fn clear_deadline(&mut self, key: u8) {
        let handler = self.parts.id(self.at);
        self.parts.io.clear_deadline(handler, key);
    }

    /// Reports an error that concerns the user of the program and that no handler has to handle, to
    /// the event loop's hook for unhandled errors. The channel stays open.
    #[cold]
    pub fn report(&self, why: &Failure) {
        self.parts.io.shared.report(why);
    }

    /// Returns the time of the event loop's clock in nanoseconds.
    pub fn now(&self) -> u64 {
        let clock = self.parts.io.shared.executor().clock();
        let lent = self.parts.io.lent.as_ref();
        lent.map_or_else(|| clock.nanos(), |lent| lent.nanos(clock))
    }

    pub(crate) fn skip_event(&mut self, event: u16) {
        self.parts.skip_event(self.at, event);
    }

    pub(super) fn set_promise(&mut self, promise: Option<Promise<()>>) {
        self.parts.promise = promise;
    }

    /// Marks the read as completed and returns `true`, if this handler has queued no actions.
    /// Otherwise removes the mark and returns `false`, because the actions must be carried out
    /// first.
    #[inline]
    pub(super) fn completes(&mut self) -> bool {
        let completes = self.parts.has_no_pending_actions() || self.parts.output_was_all();
        self.parts
            .io
            .state
            .flags
            .put(Flags::READ_COMPLETED, completes);
        completes
    }

    #[cold]
    pub(super) fn misfit_cause(&self, got: &'static str, takes: Kind) -> Failure {
        Failure::new(NetError::TypeMismatch {
            handler: self.name().to_owned(),
            takes: takes.name(),
            got,
        })
    }

    /// Records that a write without a promise came after the channel or its sending half was
    /// closed. The next flush with a promise fails.
    #[cold]
    pub(crate) fn mark_lost_write(&mut self) {
        self.parts.io.mark_lost_write();
    }

    /// Fires an error event at the next handlers, those farther from the socket, because a write
    /// without a promise was refused. Repeated refusals are not all reported; see
    /// `PipelineState::report_refused_write`.
    #[cold]
    pub(crate) fn report_refused_write(&mut self, why: Failure) {
        let _ = self.parts.report_refused_write(self.at + 1, why);
    }

    /// Refuses a written message: its promise fails, or an error event follows, and its owner gets it
    /// back.
    #[cold]
    pub(super) fn refuse_write(
        &mut self,
        message: Msg,
        promise: Option<Promise<()>>,
        why: Failure,
    ) {
        if promise.is_none() {
            self.report_refused_write(why.clone());
        }
        refuse_write(message, promise, why);
    }

    #[cold]
    pub(super) fn misfit(&mut self, message: &Msg, takes: Kind) {
        let why = self.misfit_cause(message.describe(), takes);
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

    /// Passes a message of any type that this handler held back on to the next handlers, as a read.
    pub(crate) fn pass_on(&mut self, message: AnyMessage) {
        let at = self.at + 1;
        self.parts.push(Action::Read { at, msg: message.0 });
    }

    /// Fires a read-complete event after the messages of [`HandlerContext::pass_on`]. It is an
    /// ordinary inbound event even if an operation such as `read` causes it: this cannot loop,
    /// because each message is held back only once.
    pub(crate) fn pass_on_complete(&mut self) {
        self.pass_on_event(InEvent::ReadComplete);
    }

    /// Passes an event that this handler held back on to the next handlers, like
    /// [`HandlerContext::pass_on_complete`].
    pub(crate) fn pass_on_event(&mut self, event: InEvent) {
        let at = self.at + 1;
        self.parts.push(Action::In { at, event });
    }
}

impl std::fmt::Debug for HandlerContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HandlerContext").field(&self.name()).finish()
    }
}
