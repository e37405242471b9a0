//! TLS encryption: `rustls` as a handler, for servers and clients.
//!
//! Written data waits in the handler until it is flushed and the handshake is done. A flush packs
//! it into as few records as possible. Waiting data counts against the water marks.

mod config;
mod error;
mod files;
mod promises;
mod roots;

use std::fmt;
use std::io::{BufRead, IoSlice, Write};
use std::time::Duration;

use bytes::Bytes;
use rustls::{Connection, ProtocolVersion};
use tidegate_core::Blocking;
use tidegate_promise::{Failure, Promise};

use self::config::{Side, Times};
pub use self::config::{TlsClient, TlsName, TlsServer};
pub use self::error::TlsError;
use self::files::HeldFiles;
use self::promises::join_promises;
use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::channel::{FileRange, InputEnd, InputShutdown, UserEvent};
use crate::errors::{NetError, peer_has_left};
use crate::pipeline::{HandlerContext, Inbound, InboundContext, Outbound, OutboundContext};
pub use rustls;

/// The result of a handshake. A [`Tls`] handler fires it as an event before the first bytes, and
/// stores it as an attribute of the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsHandshake {
    /// The version of TLS.
    pub version: TlsVersion,
    /// The negotiated application protocol, if both sides named some.
    pub alpn: Option<Bytes>,
    /// The server name that the client requested.
    pub server_name: Option<String>,
    /// The peer's own certificate, if it sent one.
    pub peer_certificate: Option<Bytes>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// Encrypts outbound data and decrypts inbound data. Created by [`TlsServer::handler`] and
/// [`TlsName::handler`].
///
/// Fires a [`TlsHandshake`] event when the handshake is done. Sends a `close_notify` alert when the
/// channel is closed, and answers that of the peer. If half-closure is enabled, a `close_notify` of
/// the peer becomes an [`InputShutdown`] event. On failure the handler sends an alert to the peer,
/// then fires an error event with a [`TlsError`].
pub struct Tls {
    side: Side,
    /// `None` until the channel is open.
    tls: Option<Box<Connection>>,
    state: State,
    times: Times,
    /// What the peer has exceeded if the deadline comes.
    late: Option<TlsError>,
    /// When the handler was added, in nanoseconds of the loop's clock. The connect begins then.
    added: u64,
    /// Data that was written and is not encrypted yet.
    held: Vec<(Bytes, Option<Promise<()>>)>,
    held_bytes: usize,
    /// Files, and the data behind them.
    files: Option<Box<HeldFiles>>,
    /// `true` if a flush was requested during the handshake.
    flush: bool,
    /// The operation that follows the held data.
    end: Option<End>,
    /// Whether this side has sent a `close_notify`, and whether the peer has.
    sent_close_notify: bool,
    received_close_notify: bool,
    /// `true` if a read was requested and nothing was passed on since.
    read_requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Handshaking,
    Open,
    /// The connection failed, or the channel is closed.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    ShutOutput,
}

/// The key of the deadline of the handshake.
const HANDSHAKE: u8 = 0;
/// The maximum payload of a record, and the maximum size that a record adds to its payload.
const RECORD: usize = 16 * 1024;
const RECORD_OVERHEAD: usize = 32;

/// The result of processing bytes of the peer.
#[derive(Default)]
struct TlsProgress {
    /// `true` if the handshake is done.
    agreed: bool,
    bytes: Vec<Bytes>,
    bye: bool,
    failure: Option<TlsError>,
}

impl Tls {
    fn new(side: Side, times: Times) -> Self {
        Self {
            side,
            tls: None,
            state: State::Handshaking,
            times,
            late: None,
            added: 0,
            held: Vec::new(),
            held_bytes: 0,
            files: None,
            flush: false,
            end: None,
            sent_close_notify: false,
            received_close_notify: false,
            read_requested: false,
        }
    }

    /// Starts the handshake once the channel is open. A client sends the first message.
    fn start(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if self.tls.is_some() || self.state == State::Over {
            return;
        }
        ctx.report_input_end();
        match self.side.connection() {
            Ok(mut tls) => {
                // No limit here: the channel counts the held data and has a cap.
                tls.set_buffer_limit(None);
                self.tls = Some(Box::new(tls));
            }
            Err(why) => return self.fail(TlsError::Handshake(why), ctx),
        }
        let passed = ctx.now().saturating_sub(self.added);
        if let Some((left, late)) = self.times.left(Duration::from_nanos(passed)) {
            self.late = Some(late);
            ctx.deadline(HANDSHAKE, left);
        }
        self.send(ctx);
        self.read_on(ctx);
    }

    /// Requests another read if no other handler will: during the handshake, and after an
    /// incomplete record. The other handlers know of neither.
    fn read_on(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let wanted = match self.state {
            State::Handshaking => true,
            State::Open => self.read_requested && !self.received_close_notify,
            State::Over => false,
        };
        if wanted && !ctx.is_auto_read() {
            ctx.read();
        }
    }

    /// Processes a part of the received bytes. Returns how many bytes are left.
    fn take(&mut self, mut rest: &[u8], progress: &mut TlsProgress) -> usize {
        let Some(tls) = &mut self.tls else { return 0 };
        let handshaking = self.state == State::Handshaking && !progress.agreed;
        let failed = |why| match handshaking {
            true => TlsError::Handshake(why),
            false => TlsError::ConnectionFailed(why),
        };
        match tls.read_tls(&mut rest) {
            // Bytes after a `close_notify` are ignored.
            Ok(0) => return 0,
            Ok(_) => {}
            Err(why) => {
                let why = rustls::Error::General(why.to_string());
                progress.failure = Some(failed(why));
                return 0;
            }
        }
        let processed = tls.process_new_packets();
        progress.agreed |= handshaking && processed.is_ok() && !tls.is_handshaking();
        let mut reader = tls.reader();
        // Both an error and an empty chunk mean that there is no more data for now.
        while let Ok(chunk) = reader.fill_buf()
            && !chunk.is_empty()
        {
            let bytes = Bytes::copy_from_slice(chunk);
            reader.consume(bytes.len());
            progress.bytes.push(bytes);
        }
        match processed {
            Ok(state) => {
                progress.bye = state.peer_has_closed();
                rest.len()
            }
            Err(why) => {
                progress.failure = Some(failed(why));
                0
            }
        }
    }

    /// Passes on the results, after the reply of `rustls` was sent. What handlers write in response
    /// is encrypted later, so it has to be sent later.
    fn report(&mut self, progress: TlsProgress, ctx: &mut InboundContext<'_, Self>) {
        self.send(ctx);
        let end = if progress.agreed {
            self.finish_handshake(ctx)
        } else {
            None
        };
        self.read_requested &= progress.bytes.is_empty();
        for bytes in progress.bytes {
            ctx.fire_read(bytes);
        }
        match end {
            Some(End::Close) => ctx.close_when_flushed(),
            Some(End::ShutOutput) => ctx.shutdown_output(),
            None => {}
        }
        if progress.bye && !self.received_close_notify {
            self.on_close_notify(ctx);
        }
        if let Some(why) = progress.failure {
            self.fail(why, ctx);
        }
    }

    /// Completes the handshake: sends the held data, then fires the event. Returns the end that was
    /// requested during the handshake.
    fn finish_handshake(&mut self, ctx: &mut InboundContext<'_, Self>) -> Option<End> {
        self.state = State::Open;
        ctx.clear_deadline(HANDSHAKE);
        if std::mem::take(&mut self.flush) {
            let (bytes, promise) = self.encrypt(|spent| ctx.give_back(spent));
            ctx.release(std::mem::take(&mut self.held_bytes));
            ctx.write_for(bytes, promise);
            ctx.flush();
            self.send_files(ctx);
        }
        let end = self.end.take_if(|_| self.files.is_none());
        if end.is_some() {
            let bye = self.send_close_notify();
            ctx.write(bye);
            ctx.flush();
        }
        if let Some(tls) = &self.tls {
            let handshake = TlsHandshake {
                version: match tls.protocol_version() {
                    Some(ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
                    _ => TlsVersion::V1_3,
                },
                alpn: tls.alpn_protocol().map(Bytes::copy_from_slice),
                server_name: self.side.server_name(tls),
                peer_certificate: tls
                    .peer_certificates()
                    .and_then(|chain| chain.first())
                    .map(|own| Bytes::copy_from_slice(own)),
            };
            ctx.channel().set_attribute(handshake.clone());
            ctx.fire_event(UserEvent::new(handshake));
        }
        end
    }

    /// Handles the `close_notify` of the peer.
    fn on_close_notify(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.received_close_notify = true;
        if self.state == State::Handshaking {
            return self.fail(TlsError::ClosedInHandshake, ctx);
        }
        if ctx.half_closure() {
            return ctx.fire_event(UserEvent::new(InputShutdown));
        }
        // Closes the channel behind the last message, also one that a handler holds back.
        let end = InputEnd::closing(ctx.channel());
        ctx.fire_event(UserEvent::new(end));
    }

    /// Sends the records that `rustls` has produced.
    fn send(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let bytes = self.cipher(0);
        if !bytes.is_empty() {
            ctx.write(bytes);
            ctx.flush();
        }
    }

    /// Returns the records that `rustls` has produced. `room` is the size of their payload, to
    /// reserve memory.
    fn cipher(&mut self, room: usize) -> Bytes {
        let mut bytes = Vec::new();
        if let Some(tls) = &mut self.tls {
            if room > 0 {
                bytes.reserve(room + (room / RECORD + 1) * RECORD_OVERHEAD);
            }
            while tls.wants_write() {
                let written = tls.write_tls(&mut bytes);
                if !matches!(written, Ok(count) if count > 0) {
                    break;
                }
            }
        }
        bytes.into()
    }

    /// Encrypts the held data and passes it to `spent`. The returned promise covers all of it.
    fn encrypt(&mut self, mut spent: impl FnMut(Bytes)) -> (Bytes, Option<Promise<()>>) {
        let mut held = std::mem::take(&mut self.held);
        // Cancelled writes are left out now: a record must be sent once it exists.
        held.retain(|(_, promise)| promise.as_ref().is_none_or(Promise::set_uncancellable));
        if let Some(tls) = &mut self.tls {
            let filled = held.iter().filter(|(bytes, _)| !bytes.is_empty());
            let mut slices: Vec<_> = filled.map(|(bytes, _)| IoSlice::new(bytes)).collect();
            let mut rest = slices.as_mut_slice();
            // Without a limit one call takes everything.
            while !rest.is_empty() {
                match tls.writer().write_vectored(rest) {
                    Ok(count) if count > 0 => IoSlice::advance_slices(&mut rest, count),
                    _ => break,
                }
            }
        }
        let bytes = self.cipher(held.iter().map(|(bytes, _)| bytes.len()).sum());
        let promises = held.into_iter().filter_map(|(bytes, promise)| {
            spent(bytes);
            promise
        });
        (bytes, join_promises(promises.collect()))
    }

    /// Returns a `close_notify` of this side, if it was not sent before.
    fn send_close_notify(&mut self) -> Bytes {
        let first = !std::mem::replace(&mut self.sent_close_notify, true);
        match &mut self.tls {
            Some(tls) if first && self.state != State::Over => tls.send_close_notify(),
            _ => return Bytes::new(),
        }
        self.cipher(0)
    }

    fn fail(&mut self, why: TlsError, ctx: &mut InboundContext<'_, Self>) {
        if self.state == State::Over {
            return;
        }
        // `rustls` has an alert for the peer.
        self.send(ctx);
        self.state = State::Over;
        ctx.clear_deadline(HANDSHAKE);
        let why = Failure::new(why);
        self.give_up(&why, ctx);
        ctx.fire_error(why);
    }

    /// Fails the writes that will not be sent.
    fn give_up(&mut self, why: &Failure, ctx: &mut HandlerContext<'_>) {
        for (_, promise) in std::mem::take(&mut self.held) {
            if let Some(promise) = promise {
                let _ = promise.fail(why.clone());
            }
        }
        ctx.release(std::mem::take(&mut self.held_bytes));
        self.give_up_files(why, ctx);
    }

    /// Returns why a write is refused, if it comes after the end.
    fn accepts(&self) -> Result<(), NetError> {
        match self.end {
            _ if self.state == State::Over || self.sent_close_notify => Err(NetError::Closed(None)),
            Some(End::Close) => Err(NetError::Closed(None)),
            Some(End::ShutOutput) => Err(NetError::OutputShut),
            None => Ok(()),
        }
    }

    fn refuse(why: NetError, promise: Option<Promise<()>>, ctx: &mut OutboundContext<'_, Self>) {
        match (why, promise) {
            (why, Some(promise)) => drop(promise.fail(why)),
            // A late write without a promise is reported only by a flush, as in all handlers.
            (NetError::Closed(_) | NetError::OutputShut, None) => ctx.mark_lost_write(),
            (why, None) => ctx.report_refused_write(Failure::new(why)),
        }
    }

    /// Sends what was written before the end, even if a handler holds flushes back.
    fn flush_rest(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if !self.held.is_empty() || self.files.is_some() {
            Outbound::flush(self, ctx);
        }
    }

    /// Returns the bytes to write at the end; `None` if the end has to wait until the handshake is
    /// done.
    fn begin_end(&mut self, end: End) -> Option<Bytes> {
        // The sending half is closed after the handshake, which needs both halves.
        let waits = self.flush && !self.held.is_empty() || end == End::ShutOutput;
        if self.state == State::Handshaking && waits || self.files.is_some() {
            if self.end != Some(End::Close) {
                self.end = Some(end);
            }
            return None;
        }
        Some(self.send_close_notify())
    }
}

/// Returns the number of bytes that a write counts for, at least the size of its records. A record
/// must not be refused once it exists, because later records are useless without it.
fn counts(bytes: usize) -> usize {
    bytes + ENTRY_OVERHEAD + (bytes / RECORD + 1) * RECORD_OVERHEAD
}

impl Inbound for Tls {
    type In = Bytes;
    type Out = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;
    // Without its outbound side the handler would let everything out unencrypted.
    const DUPLEX: bool = true;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.added = ctx.now();
        // The handler was added to an open connection.
        if ctx.channel().is_active() {
            self.start(ctx);
        }
    }

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.state = State::Over;
        self.give_up(&Failure::new(NetError::Closed(None)), ctx);
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.start(ctx);
        ctx.fire_active();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.state == State::Over {
            return;
        }
        let mut progress = TlsProgress::default();
        let mut left = bytes.len();
        while left > 0 {
            left = self.take(&bytes[bytes.len() - left..], &mut progress);
        }
        ctx.give_back(bytes);
        self.report(progress, ctx);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.read_on(ctx);
        ctx.fire_read_complete();
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.state = State::Over;
        self.give_up(&Failure::new(NetError::Closed(None)), ctx);
        ctx.fire_inactive();
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        let halved = event.downcast_ref::<InputShutdown>().is_some();
        if !halved && event.downcast_ref::<InputEnd>().is_none() {
            return ctx.fire_event(event);
        }
        // The end of the socket's stream, which should come after a `close_notify`.
        if self.received_close_notify && self.state == State::Open && !halved {
            let bye = self.send_close_notify();
            ctx.write(bye);
            return ctx.flush();
        }
        if self.received_close_notify || self.state == State::Over {
            return;
        }
        let why = match self.state {
            State::Handshaking => TlsError::ClosedInHandshake,
            _ => TlsError::Truncated,
        };
        self.fail(why, ctx);
    }

    /// A peer that has sent its `close_notify` may leave without reading what this side still sends, and
    /// its system then resets the connection.
    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if !(self.received_close_notify && peer_has_left(&why)) {
            ctx.fire_error(why);
        }
    }

    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        self.chunk_event(key, ctx);
    }

    fn deadline(&mut self, _key: u8, ctx: &mut InboundContext<'_, Self>) {
        if self.state == State::Handshaking
            && let Some(late) = self.late.take()
        {
            self.fail(late, ctx);
        }
    }
}

impl Outbound for Tls {
    type Take = Bytes;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        let promise = ctx.take_promise();
        let size = counts(bytes.len());
        if let Err(why) = self.accepts().and_then(|()| ctx.hold(size)) {
            return Self::refuse(why, promise, ctx);
        }
        match &mut self.files {
            Some(files) => files.push_bytes(bytes, promise),
            None => {
                self.held_bytes += size;
                self.held.push((bytes, promise));
            }
        }
    }

    fn write_file(&mut self, range: FileRange, ctx: &mut OutboundContext<'_, Self>) {
        self.hold_file(range, ctx);
    }

    fn flush(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        if self.state == State::Handshaking {
            self.flush = true;
        } else if !self.held.is_empty() {
            let (bytes, promise) = self.encrypt(|spent| ctx.give_back(spent));
            ctx.release(std::mem::take(&mut self.held_bytes));
            ctx.write_for(bytes, promise);
        }
        ctx.flush();
        if let Some(files) = &mut self.files {
            files.flush();
            self.send_files(ctx);
        }
    }

    fn read(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.read_requested = !ctx.is_auto_read();
        ctx.read();
    }

    fn close(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        let bye = self.send_close_notify();
        self.give_up(&Failure::new(NetError::Closed(None)), ctx);
        if !bye.is_empty() {
            ctx.write(bye);
            ctx.flush();
        }
        ctx.close();
    }

    fn close_when_flushed(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.flush_rest(ctx);
        if let Some(bye) = self.begin_end(End::Close) {
            if !bye.is_empty() {
                ctx.write(bye);
            }
            ctx.close_when_flushed();
        }
    }

    fn shutdown_output(&mut self, ctx: &mut OutboundContext<'_, Self>) {
        self.flush_rest(ctx);
        if let Some(bye) = self.begin_end(End::ShutOutput) {
            if !bye.is_empty() {
                ctx.write(bye);
                ctx.flush();
            }
            ctx.shutdown_output();
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
