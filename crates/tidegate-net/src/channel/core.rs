//! A connection, as its loop owns it: reads, writes, opens, closes.
//!
//! One readiness is handled in the order connect, write, mail, read. What the handlers asked for
//! meanwhile (a flush, an end) is carried out when they have returned.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_core::{Blocking, SignalBlock};
use tidegate_promise::Failure;

use super::datagram::{Datagram, LARGEST};
use super::event::{InEvent, InputEnd, InputShutdown, UserEvent};
use super::handle::Channel;
use super::pipeline::ChannelPipeline;
use super::read_size::ReadSize;
use super::shared::Shared;
use super::start::{Connecting, Start};
use super::state::Off;
use super::transport::Transport;
use crate::errors::NetError;
use crate::message::Msg;
use crate::reactor::{Desk, EventSource, Next, SourceHandle};
use crate::sys::{Readiness, Source, Token};

/// Rounds of events and flushes within one readiness before others have their turn.
const ROUNDS: usize = 16;

pub(super) enum State {
    /// Registered, and its handlers know nothing yet.
    New(Start),
    Connecting(Box<Connecting>),
    Open,
    /// Nobody watches its socket.
    Off(Box<Off>),
    Closed,
}

/// A channel on its loop.
pub(crate) struct ChannelCore<P: ChannelPipeline> {
    pub(super) transport: Transport,
    pub(super) pipeline: P,
    pub(super) state: State,
    pub(super) size: ReadSize,
    /// What was received before its turn.
    pub(super) early: Option<io::Result<Bytes>>,
    /// What went wrong when it sent after its turn.
    pub(super) late_error: Option<io::Error>,
    /// The socket takes no more for now.
    pub(super) blocked: bool,
    /// Its turn was over before it had written or told everything.
    pub(super) owes: bool,
    /// The socket has something to read, as far as is known.
    pub(super) read_ready: bool,
    /// The peer writes no more: reads go on to the end.
    pub(super) hung_up: bool,
    pub(super) input_shut: bool,
    pub(super) output_shut: bool,
    pub(super) again: Readiness,
}

impl<P: ChannelPipeline> ChannelCore<P> {
    pub(crate) fn new(transport: Transport, pipeline: P, start: Start, token: Token) -> Self {
        let shared = &pipeline.io().shared;
        shared.set_token(token);
        transport.attach(Arc::downgrade(shared));
        let size = shared.options().read_size;
        Self {
            transport,
            pipeline,
            state: State::New(start),
            size,
            early: None,
            late_error: None,
            blocked: false,
            owes: false,
            read_ready: false,
            hung_up: false,
            input_shut: false,
            output_shut: false,
            again: Readiness::NONE,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<SignalBlock<Shared>> {
        &self.pipeline.io().shared
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    fn handle(&mut self, readiness: Readiness, desk: &mut Desk) {
        if matches!(self.state, State::Open)
            && let Some(why) = self.late_error.take()
        {
            return self.fail(why, desk);
        }
        if !matches!(self.state, State::Open) || readiness.any(Readiness::MAIL) {
            self.begin(readiness, desk);
            if !matches!(self.state, State::Open) {
                return;
            }
        }
        // Every event says that there is room to write; it matters to who waited for it.
        if readiness.has(Readiness::WRITE) && (self.blocked || self.owes) {
            self.blocked = false;
            self.owes = false;
            let io = self.pipeline.io_mut();
            io.flush_wanted |= io.queue.has_flushed() || io.outbox.is_some();
            self.carry_out(desk);
        }
        if readiness.any(Readiness::READ | Readiness::HANG_UP | Readiness::ERROR) {
            self.read_ready = true;
            self.hung_up |= readiness.any(Readiness::HANG_UP | Readiness::ERROR);
        }
        self.read_on(None, desk);
        if readiness.has(Readiness::ERROR)
            && !self.is_closed()
            && let Some(why) = self.transport.take_error()
        {
            self.fail(why, desk);
        }
    }

    /// What comes before reading and writing: the start, the connect, the mail.
    fn begin(&mut self, readiness: Readiness, desk: &mut Desk) {
        if let State::New(_) = self.state {
            self.start(desk);
        }
        if let State::Connecting(_) = self.state {
            self.connecting(readiness, desk);
        }
        if let State::Off(_) = self.state {
            self.remember(readiness);
        }
        if readiness.any(Readiness::MAIL) {
            self.look_off(desk);
            self.read_mail(desk);
        }
    }

    /// The first thing that happens on the loop: the handlers are added.
    fn start(&mut self, desk: &mut Desk) {
        let State::New(start) = std::mem::replace(&mut self.state, State::Open) else {
            return;
        };
        self.pipeline.begin();
        // No poller tells what came before this end was there.
        self.read_ready = self.transport.io().is_none();
        match start {
            Start::Open => self.activate(desk),
            Start::Connecting(connecting) => {
                self.state = State::Connecting(connecting);
                if self.transport.io().is_none() {
                    // Nothing to wait for.
                    self.connected(desk);
                }
            }
        }
    }

    fn activate(&mut self, desk: &mut Desk) {
        self.shared().set_active(true);
        self.pipeline.fire(InEvent::Active);
        self.carry_out(desk);
    }

    /// Looks whether a connect has ended.
    fn connecting(&mut self, readiness: Readiness, desk: &mut Desk) {
        let told = Readiness::WRITE | Readiness::ERROR | Readiness::HANG_UP;
        if !readiness.any(told) {
            return;
        }
        match self.transport.is_connected() {
            Ok(false) => {}
            Ok(true) => self.connected(desk),
            Err(why) => self.close(Some(Failure::new(why)), desk),
        }
    }

    fn connected(&mut self, desk: &mut Desk) {
        let State::Connecting(connecting) = std::mem::replace(&mut self.state, State::Open) else {
            return;
        };
        if let Some(timeout) = connecting.timeout {
            timeout.cancel();
        }
        let channel = Channel::of(Arc::clone(self.shared()));
        self.shared().set_active(true);
        let wanted = connecting.promise.succeed(channel).is_ok();
        // What was written meanwhile.
        let io = self.pipeline.io_mut();
        io.flush_wanted |= io.queue.has_flushed();
        self.pipeline.fire(InEvent::Active);
        self.carry_out(desk);
        if !wanted {
            self.close(Some(Failure::cancelled()), desk);
        }
    }

    /// Reads what is there, as far as the budget and the handlers' wish go. `first` is what was
    /// read before.
    pub(super) fn read_on(
        &mut self,
        mut first: Option<io::Result<(Bytes, bool)>>,
        desk: &mut Desk,
    ) {
        let io = self.pipeline.io();
        if !self.read_ready || !(io.auto_read || io.read_wanted) || self.is_closed() {
            return;
        }
        if let Transport::Udp(_) = self.transport {
            return self.read_datagrams(desk);
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
                    desk.counters.reads.add(1);
                    self.transport.read(&mut desk.chunk, most, fixed)
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
                    self.pipeline.io_mut().read_wanted = false;
                    if count >= most {
                        self.size.record(count);
                    }
                    if all && !self.hung_up {
                        self.read_ready = false;
                        complete = true;
                        self.pipeline.read_last(Msg::Bytes(bytes));
                        break;
                    }
                    self.pipeline.read(Msg::Bytes(bytes));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => self.read_ready = false,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    ended = Some(Err(why));
                    break;
                }
            }
            let io = self.pipeline.io();
            let wanted = io.auto_read || io.read_wanted;
            if !self.read_ready || !wanted || io.close_wanted {
                break;
            }
        }
        if total > 0 && !complete {
            self.pipeline.fire(InEvent::ReadComplete);
        }
        self.read_to(total, ended, desk);
    }

    /// Reads datagrams; a failed read says nothing about the next one, and is an error event.
    fn read_datagrams(&mut self, desk: &mut Desk) {
        desk.datagram.resize(LARGEST, 0);
        let (mut any, mut failed) = (false, false);
        for _ in 0..self.pipeline.io().options.reads_per_turn.max(1) {
            let Transport::Udp(socket) = &self.transport else {
                return;
            };
            desk.counters.reads.add(1);
            match socket.recv_from(&mut desk.datagram) {
                Ok((count, peer)) => {
                    any = true;
                    self.pipeline.io_mut().read_wanted = false;
                    desk.counters.read_bytes.add(count as u64);
                    let bytes = Bytes::copy_from_slice(&desk.datagram[..count]);
                    self.pipeline.read(Msg::of(Datagram { bytes, peer }));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => self.read_ready = false,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => {
                    failed = true;
                    let why = NetError::ReceiveFailed(Failure::new(why));
                    self.pipeline.fire(InEvent::Error(Failure::new(why)));
                }
            }
            let io = self.pipeline.io();
            if !self.read_ready || !(io.auto_read || io.read_wanted) || io.close_wanted {
                break;
            }
        }
        if any {
            self.pipeline.fire(InEvent::ReadComplete);
        }
        if any || failed {
            self.carry_out(desk);
        }
        let io = self.pipeline.io();
        if self.read_ready && (io.auto_read || io.read_wanted) {
            self.again |= Readiness::READ;
        }
    }

    /// The end of a read: tells the handlers, and what came after the bytes.
    fn read_to(&mut self, total: usize, ended: Option<io::Result<()>>, desk: &mut Desk) {
        if total > 0 {
            desk.counters.read_bytes.add(total as u64);
            self.size.record(total);
            self.after(desk);
        }
        match ended {
            None => {
                let io = self.pipeline.io();
                if self.read_ready && (io.auto_read || io.read_wanted) {
                    self.again |= Readiness::READ;
                }
            }
            Some(Ok(())) => self.end_of_input(desk),
            Some(Err(why)) => self.fail(why, desk),
        }
    }

    fn end_of_input(&mut self, desk: &mut Desk) {
        self.read_ready = false;
        if self.input_shut || self.is_closed() {
            return;
        }
        self.input_shut = true;
        if !self.pipeline.io().options.half_closure || self.output_shut {
            if self.pipeline.io().tells_input_end() {
                self.pipeline.fire(InEvent::User(UserEvent::new(InputEnd)));
                self.after(desk);
            }
            let cause = self.pipeline.io().close_cause.clone();
            return self.close(cause, desk);
        }
        let event = UserEvent::new(InputShutdown);
        self.pipeline.fire(InEvent::User(event));
        self.carry_out(desk);
    }

    /// The socket is broken: the handlers hear why, and the channel is closed.
    pub(super) fn fail(&mut self, why: io::Error, desk: &mut Desk) {
        if self.is_closed() {
            return;
        }
        let why = Failure::new(why);
        self.pipeline
            .io_mut()
            .close_cause
            .get_or_insert(why.clone());
        self.read_ready = false;
        self.pipeline.fire(InEvent::Error(why.clone()));
        self.close(Some(why), desk);
    }

    /// Carries out what the handlers asked for, if anything.
    fn after(&mut self, desk: &mut Desk) {
        if self.has_requests() {
            self.carry_out(desk);
        }
    }

    /// Returns `true` if the handlers asked for anything, or have to be told something.
    pub(super) fn has_requests(&self) -> bool {
        self.pipeline.io().has_wishes() || !self.pipeline.is_idle()
    }

    /// Carries out what the handlers asked for, and what follows from that.
    pub(super) fn carry_out(&mut self, desk: &mut Desk) {
        for _ in 0..ROUNDS {
            self.pipeline.run_rest();
            let io = self.pipeline.io_mut();
            if io.flush_wanted {
                io.flush_wanted = false;
                self.flush(desk);
            }
            let io = self.pipeline.io_mut();
            io.look_at_marks();
            if let Some(writable) = io.writability_news() {
                self.pipeline.fire(InEvent::Writability(writable));
                continue;
            }
            if io.shutdown_wanted || io.close_wanted || io.close_when_flushed {
                self.wind_up(desk);
            }
            return;
        }
        self.owe();
    }

    /// Asks for another turn.
    pub(super) fn owe(&mut self) {
        self.owes = true;
        self.again |= Readiness::WRITE;
    }

    pub(super) fn with_desk<R>(
        &mut self,
        desk: &mut Desk,
        work: impl FnOnce(&mut Self, &mut Desk) -> R,
    ) -> R {
        self.pipeline.begin_turn();
        let done = work(self, desk);
        self.pipeline.end_turn();
        done
    }
}

impl<P: ChannelPipeline> EventSource for ChannelCore<P> {
    fn ready(&mut self, readiness: Readiness, desk: &mut Desk) -> Next {
        self.again = Readiness::NONE;
        if self.is_plain(readiness) {
            return self.read_plain(desk);
        }
        self.with_desk(desk, |core, desk| core.handle(readiness, desk));
        self.finish(readiness.any(Readiness::MAIL))
    }

    fn io(&mut self) -> Option<&mut dyn Source> {
        match &self.state {
            State::Off(off) if !off.is_watched() => None,
            _ => self.transport.io(),
        }
    }

    fn watched(&mut self, said: io::Result<()>) {
        match (&mut self.state, said) {
            (State::Off(off), said) => off.note(said),
            (State::New(start), Err(why)) => {
                let why = Failure::new(why);
                start.refuse(&why);
                self.pipeline.io_mut().close_cause = Some(why);
            }
            _ => {}
        }
    }

    fn close(&mut self, desk: &mut Desk) {
        let cause = self.late_error.take().map(Failure::new);
        self.with_desk(desk, |core, desk| ChannelCore::close(core, cause, desk));
    }

    fn handle(&self) -> Option<Arc<dyn SourceHandle>> {
        let shared: Arc<SignalBlock<Shared>> = Arc::clone(self.shared());
        Some(shared)
    }

    fn names(&self) -> Vec<String> {
        self.pipeline.names()
    }

    fn blocking(&self) -> Blocking {
        self.pipeline.blocking()
    }
}

impl<P: ChannelPipeline> Drop for ChannelCore<P> {
    fn drop(&mut self) {
        // A channel that goes without having been closed: its loop lost it.
        let shared = Arc::clone(self.shared());
        shared.finish(self.pipeline.io().close_cause.clone());
    }
}
