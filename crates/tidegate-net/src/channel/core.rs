//! A connection as its event loop owns it: reads, writes, opens, closes.
//!
//! A turn is one call of `ready`. It handles a readiness in the order connect, requests, write,
//! read. What the handlers request meanwhile (a flush, an end) is carried out after they have
//! returned.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::SignalBlock;
use tidegate_core::internal::trace::{self, Span};
use tidegate_core::{Blocking, Dump};
use tidegate_promise::Failure;

use super::datagram::{Datagram, LARGEST};
use super::event::{InEvent, InputShutdown, UserEvent};
use super::handle::Channel;
use super::input_end::InputEnd;
use super::pipeline::ChannelPipeline;
use super::read_size::ReadSize;
use super::shared::Shared;
use super::start::Start;
use super::state::{Flags, Input, Life, Output, RequestedEnd, State};
use super::transport::Transport;
use crate::errors::NetError;
use crate::message::Msg;
use crate::reactor::{IoContext, IoHandle, IoSource, Next};
use crate::sys::{Readiness, Source, Token};

/// Maximum rounds of events and flushes in one turn, before other sources get theirs.
const ROUNDS: usize = 16;

/// Flags of a channel that waits for a write event.
const WAITS: Flags = Flags::WRITE_BLOCKED.union(Flags::TURN_OWED);

/// A channel on its loop.
pub(crate) struct ChannelCore<P: ChannelPipeline> {
    pub(super) transport: Transport,
    pub(super) pipeline: P,
    pub(super) size: ReadSize,
    /// Result of a receive that was made before the channel's turn.
    pub(super) early: Option<io::Result<Bytes>>,
    /// What few channels have. In a box, so that an idle channel is small.
    rare: Option<Box<RareParts>>,
}

#[derive(Default)]
struct RareParts {
    /// A message of a task of the loop, which comes before the queued requests.
    passed: Option<Msg>,
    /// The span of the connection, if a subscriber wants one.
    span: Span,
}

impl<P: ChannelPipeline> ChannelCore<P> {
    pub(crate) fn new(transport: Transport, mut pipeline: P, start: Start, token: Token) -> Self {
        let shared = &pipeline.io().shared;
        shared.set_token(token);
        transport.attach(Arc::downgrade(shared));
        let size = shared.options().read_size;
        pipeline.io_mut().state.life = Life::New(start);
        Self {
            transport,
            pipeline,
            size,
            early: None,
            rare: None,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<SignalBlock<Shared>> {
        &self.pipeline.io().shared
    }

    #[inline(always)]
    pub(super) fn state(&self) -> &State {
        &self.pipeline.io().state
    }

    #[inline(always)]
    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.pipeline.io_mut().state
    }

    #[inline(always)]
    pub(super) fn has(&self, flags: Flags) -> bool {
        self.state().flags.any(flags)
    }

    #[inline(always)]
    pub(super) fn set(&mut self, flags: Flags) {
        self.state_mut().flags.set(flags);
    }

    #[inline(always)]
    pub(super) fn clear(&mut self, flags: Flags) {
        self.state_mut().flags.clear(flags);
    }

    /// Returns `true` if the channel has taken a message that its handlers did not get yet.
    #[inline]
    pub(super) fn has_message(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| rare.passed.is_some())
    }

    #[inline]
    pub(super) fn set_message(&mut self, passed: Option<Msg>) {
        self.rare.get_or_insert_default().passed = passed;
    }

    /// Takes out the message that the channel has taken for its handlers.
    #[inline]
    pub(super) fn take_message(&mut self) -> Option<Msg> {
        let passed = self.rare.as_mut()?.passed.take()?;
        self.shared().take_write(&passed);
        Some(passed)
    }

    pub(super) fn take_span(&mut self) -> Span {
        let rare = self.rare.as_mut();
        rare.map(|rare| std::mem::take(&mut rare.span))
            .unwrap_or_default()
    }

    pub(super) fn set_span(&mut self, span: Span) {
        if !span.is_none() {
            self.rare.get_or_insert_default().span = span;
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().is_closed()
    }

    #[inline(always)]
    pub(super) fn turn(&mut self, readiness: Readiness, io_context: &mut IoContext) -> Next {
        if self.is_plain(readiness) {
            return self.read_plain(io_context);
        }
        self.with_desk(io_context, |core, io_context| {
            core.handle(readiness, io_context)
        });
        self.finish(readiness.any(Readiness::REQUESTS))
    }

    fn handle(&mut self, readiness: Readiness, io_context: &mut IoContext) {
        if !self.state().is_open() || readiness.any(Readiness::REQUESTS) {
            self.begin(readiness, io_context);
            if !self.state().is_open() {
                return;
            }
        }
        // Events report write readiness whenever there is room. It matters only to a channel that
        // waited for it.
        if readiness.has(Readiness::WRITE) && self.has(WAITS) {
            self.clear(WAITS);
            self.pipeline.io_mut().resume_flush();
            self.carry_out(io_context);
        }
        if readiness.any(Readiness::READ | Readiness::HANG_UP | Readiness::ERROR) {
            self.remember(readiness);
        }
        match self.state().ends() {
            true => self.drop_input(io_context),
            false => self.read_on(None, io_context),
        }
        if readiness.has(Readiness::ERROR)
            && !self.is_closed()
            && let Some(why) = self.transport.take_error()
        {
            self.fail(why, io_context);
        }
        if self.state().input == Input::HungUp && self.state().is_left() {
            self.close_for_cause(io_context);
        }
    }

    /// Runs what comes before reading and writing: the start, the connect, the requests.
    fn begin(&mut self, readiness: Readiness, io_context: &mut IoContext) {
        if let Life::New(_) = self.state().life {
            self.start(io_context);
        }
        if let Life::Connecting(_) = self.state().life {
            self.connecting(readiness, io_context);
        }
        if let Life::Off(_) = self.state().life {
            self.remember(readiness);
        }
        if readiness.any(Readiness::REQUESTS) {
            self.finish_registration_change(io_context);
            self.handle_requests(io_context);
        }
    }

    /// Adds the handlers. This is the first thing that happens on the loop.
    fn start(&mut self, io_context: &mut IoContext) {
        let Life::New(start) = std::mem::replace(&mut self.state_mut().life, Life::Open) else {
            return;
        };
        self.pipeline.begin();
        // Without a poller there is no event for bytes that arrived before this end was attached.
        let unpolled = self.transport.io().is_none();
        self.state_mut().flags.put(Flags::READ_READY, unpolled);
        match start {
            Start::Open => self.activate(io_context),
            Start::Connecting(connecting) => {
                self.state_mut().life = Life::Connecting(connecting);
                if self.transport.io().is_none() {
                    // Without a poller there is nothing to wait for.
                    self.connected(io_context);
                }
            }
        }
    }

    fn activate(&mut self, io_context: &mut IoContext) {
        self.shared().set_active(true);
        self.pipeline.fire(InEvent::Active);
        self.carry_out(io_context);
    }

    /// Checks whether a connect has finished.
    fn connecting(&mut self, readiness: Readiness, io_context: &mut IoContext) {
        let told = Readiness::WRITE | Readiness::ERROR | Readiness::HANG_UP;
        if !readiness.any(told) {
            return;
        }
        match self.transport.is_connected() {
            Ok(false) => {}
            Ok(true) => self.connected(io_context),
            Err(why) => self.close(Some(Failure::new(why)), io_context),
        }
    }

    fn connected(&mut self, io_context: &mut IoContext) {
        let Life::Connecting(connecting) =
            std::mem::replace(&mut self.state_mut().life, Life::Open)
        else {
            return;
        };
        if let Some(timeout) = connecting.timeout {
            timeout.cancel();
        }
        let channel = Channel::of(Arc::clone(self.shared()));
        self.shared().set_active(true);
        let wanted = connecting.promise.succeed(channel).is_ok();
        // Sends data that was written during the connect.
        self.pipeline.io_mut().flush_rest();
        self.pipeline.fire(InEvent::Active);
        self.carry_out(io_context);
        if !wanted {
            self.close(Some(Failure::cancelled()), io_context);
        }
    }

    /// Reads until the socket is empty, the read budget is used up, or the handlers want no more.
    /// `first` is the result of a read that was already made.
    pub(super) fn read_on(
        &mut self,
        mut first: Option<io::Result<(Bytes, bool)>>,
        io_context: &mut IoContext,
    ) {
        if !self.state().is_to_read() || self.is_closed() {
            return;
        }
        if let Transport::Udp(_) = self.transport {
            return self.read_datagrams(io_context);
        }
        if first.is_none() {
            first = self.take_early();
        }
        let most_reads = self.pipeline.io().options.reads_per_turn.max(1);
        let fixed = self.size.is_fixed();
        let mut total = 0;
        let mut complete = false;
        let mut ended = None;
        for _ in 0..most_reads {
            let most = self.size.next();
            let read = match first.take() {
                Some(read) => read,
                None => {
                    io_context.counters.reads.add(1);
                    self.transport.read(&mut io_context.chunk, most, fixed)
                }
            };
            match read {
                Ok((bytes, _)) if bytes.is_empty() => {
                    ended = Some(Ok(()));
                    break;
                }
                Ok((bytes, all)) => {
                    let count = bytes.len();
                    total += count;
                    self.clear(Flags::READ);
                    if count >= most {
                        self.size.record(count);
                    }
                    if all && self.state().input == Input::Open {
                        self.clear(Flags::READ_READY);
                        complete = true;
                        self.pipeline.read_last(Msg::Bytes(bytes));
                        break;
                    }
                    self.pipeline.read(Msg::Bytes(bytes));
                    self.reuse_consumed(io_context);
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    self.clear(Flags::READ_READY)
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    ended = Some(Err(why));
                    break;
                }
            }
            if !self.state().is_to_read() || self.state().end == RequestedEnd::Now {
                break;
            }
        }
        if total > 0 && !complete {
            self.pipeline.fire(InEvent::ReadComplete);
        }
        self.finish_read(total, ended, io_context);
    }

    /// Reads datagrams. A failed read says nothing about the next one and becomes an error event.
    fn read_datagrams(&mut self, io_context: &mut IoContext) {
        io_context.datagram.resize(LARGEST, 0);
        let (mut any, mut failed) = (false, false);
        for _ in 0..self.pipeline.io().options.reads_per_turn.max(1) {
            let Transport::Udp(socket) = &self.transport else {
                return;
            };
            io_context.counters.reads.add(1);
            match socket.recv_from(&mut io_context.datagram) {
                Ok((count, peer)) => {
                    any = true;
                    self.clear(Flags::READ);
                    io_context.counters.read_bytes.add(count as u64);
                    let bytes = Bytes::copy_from_slice(&io_context.datagram[..count]);
                    self.pipeline.read(Msg::of(Datagram { bytes, peer }));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    self.clear(Flags::READ_READY)
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    failed = true;
                    let why = NetError::ReceiveFailed(Failure::new(why));
                    self.pipeline.fire(InEvent::Error(Failure::new(why)));
                }
            }
            if !self.state().is_to_read() || self.state().end == RequestedEnd::Now {
                break;
            }
        }
        if any {
            self.pipeline.fire(InEvent::ReadComplete);
        }
        if any || failed {
            self.carry_out(io_context);
        }
        if self.state().is_to_read() {
            self.set(Flags::READ_AGAIN);
        }
    }

    /// Finishes a read: records its size, carries out the requests of the handlers, and handles the
    /// end of input or the error that followed the bytes.
    fn finish_read(
        &mut self,
        total: usize,
        ended: Option<io::Result<()>>,
        io_context: &mut IoContext,
    ) {
        if total > 0 {
            io_context.counters.read_bytes.add(total as u64);
            self.size.record(total);
            self.carry_out_if_requested(io_context);
        }
        match ended {
            None => {
                if self.state().is_to_read() {
                    self.set(Flags::READ_AGAIN);
                }
            }
            Some(Ok(())) => self.end_of_input(io_context),
            Some(Err(why)) => self.fail(why, io_context),
        }
    }

    fn end_of_input(&mut self, io_context: &mut IoContext) {
        self.clear(Flags::READ_READY);
        if self.state().input == Input::Shut || self.is_closed() {
            return;
        }
        self.state_mut().input = Input::Shut;
        if !self.has(Flags::HALF_CLOSURE) || self.state().output == Output::Shut {
            if self.has(Flags::REPORT_INPUT_END) {
                let event = UserEvent::new(InputEnd::of_socket());
                self.pipeline.fire(InEvent::User(event));
                self.carry_out_if_requested(io_context);
            }
            return self.close_for_cause(io_context);
        }
        let event = UserEvent::new(InputShutdown);
        self.pipeline.fire(InEvent::User(event));
        self.carry_out(io_context);
    }

    /// Reports a broken socket to the handlers and closes the channel.
    pub(super) fn fail(&mut self, why: io::Error, io_context: &mut IoContext) {
        if self.is_closed() {
            return;
        }
        if self.state().end == RequestedEnd::Lingering {
            // Everything is sent: how the peer ends does not matter.
            return self.close_for_cause(io_context);
        }
        // A file that cannot be sent has an error of our own.
        let why = why
            .downcast::<NetError>()
            .map_or_else(Failure::new, Failure::new);
        let io = self.pipeline.io_mut();
        // If the channel is about to be closed for another cause, that one is reported.
        let cause = io.close_cause.get_or_insert(why.clone()).clone();
        self.clear(Flags::READ_READY);
        self.pipeline.fire(InEvent::Error(why));
        self.close(Some(cause), io_context);
    }

    /// Carries out the requests of the handlers, if there are any.
    fn carry_out_if_requested(&mut self, io_context: &mut IoContext) {
        if self.has_requests() {
            self.carry_out(io_context);
        }
    }

    /// Returns `true` if the handlers requested anything or have to be notified of something.
    pub(super) fn has_requests(&self) -> bool {
        self.pipeline.io().has_requests() || !self.pipeline.is_idle()
    }

    /// Carries out the requests of the handlers, and what follows from that, in at most `ROUNDS`
    /// rounds.
    pub(super) fn carry_out(&mut self, io_context: &mut IoContext) {
        for _ in 0..ROUNDS {
            self.pipeline.run_rest();
            if self.state_mut().flags.take(Flags::FLUSH) {
                self.flush(io_context);
            }
            let io = self.pipeline.io_mut();
            io.look_at_marks();
            if let Some(writable) = io.writability_news() {
                self.pipeline.fire(InEvent::Writability(writable));
                continue;
            }
            if io.state.has_end_to_do() {
                self.carry_out_end(io_context);
            }
            return;
        }
        self.request_turn();
    }

    /// Requests another turn.
    pub(super) fn request_turn(&mut self) {
        self.set(Flags::TURN_OWED.union(Flags::WRITE_AGAIN));
    }

    /// Does `work`, in which handlers may run, with the memory that the loop lends to them.
    pub(super) fn with_desk<R>(
        &mut self,
        io_context: &mut IoContext,
        work: impl FnOnce(&mut Self, &mut IoContext) -> R,
    ) -> R {
        self.lend(io_context);
        let done = work(self, io_context);
        self.pipeline.end_turn();
        self.take_back(io_context);
        done
    }
}

impl<P: ChannelPipeline> IoSource for ChannelCore<P> {
    fn ready(&mut self, readiness: Readiness, io_context: &mut IoContext) -> Next {
        if trace::wants_spans() {
            return self.turn_in_span(readiness, io_context);
        }
        self.turn(readiness, io_context)
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        match &self.state().life {
            Life::Off(off) if !off.is_watched() => None,
            _ => self.transport.io(),
        }
    }

    fn on_watch_result(&mut self, result: io::Result<()>) {
        match (&mut self.state_mut().life, result) {
            (Life::Off(off), result) => off.set_result(result),
            (Life::New(start), Err(why)) => {
                let why = Failure::new(why);
                start.refuse(&why);
                self.pipeline.io_mut().close_cause = Some(why);
            }
            _ => {}
        }
    }

    fn close(&mut self, io_context: &mut IoContext) {
        let span = self.take_span();
        let _entered = span.enter();
        self.with_desk(io_context, |core, io_context| {
            ChannelCore::close(core, None, io_context)
        });
    }

    fn handle(&self) -> Option<Arc<dyn IoHandle>> {
        let shared: Arc<SignalBlock<Shared>> = Arc::clone(self.shared());
        Some(shared)
    }

    fn names(&self) -> Vec<String> {
        self.pipeline.names()
    }

    fn dump(&self, name: &str) -> Dump {
        self.describe(name)
    }

    fn blocking(&self) -> Blocking {
        self.pipeline.blocking()
    }

    fn place(&self) -> Option<ExecutorId> {
        self.shared().place()
    }
}

impl<P: ChannelPipeline> Drop for ChannelCore<P> {
    fn drop(&mut self) {
        // The channel is dropped without having been closed: its loop lost it.
        let shared = Arc::clone(self.shared());
        let cause = self.pipeline.io().close_cause.clone();
        shared.finish(cause.clone());
        self.refuse_message(cause);
    }
}
