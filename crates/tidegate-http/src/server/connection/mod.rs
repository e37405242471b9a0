//! One connection: receives requests, calls the service, and sends the responses in order.
//!
//! | file | contents |
//! |---|---|
//! | `state` | what the connection decides, as plain data: its diagram |
//! | this one | the loop over received bytes, and the call of the service |
//! | `intake` | the body of the current request |
//! | `outcome` | what becomes of a request when the service has returned |
//! | `responses` | responses are sent in order, and the connection ends |
//! | `ends` | the end of the client's stream, and drains |
//! | `waits` | limits of time |
//! | `switching` | changes of the protocol |
//!
//! ```text
//!             head complete             response at once
//!   received ───────────────▶ service ────────────────────▶ sent
//!      │                         │ defer, stream               ▲
//!      │ body                    ▼                             │ first of the queue
//!      └──────▶ sink          queue of responses ──────────────┘
//! ```
//!
//! The connection ends with the last response: the client, the service or a drain asks for the end, or a
//! request is refused. The client may still be sending then: bytes follow the last request, or its
//! body was not read to its end. Then the channel lingers, so that the client does not lose the response.

mod ends;
mod intake;
mod outcome;
mod responses;
mod state;
mod switching;
mod waits;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_core::internal::contain;
use tidegate_net::Channel;
use tidegate_promise::Failure;

use self::outcome::Asked;
use self::state::{Look, Stage, State, Tail, Turn};
use self::waits::Wait;
use super::body::BodyError;
use super::date::ReadDate;
use super::flow::Window;
use super::head_writer::{HeadWriter, ReplyTo};
use super::input::Received;
use super::metrics::{LoopCell, Tally};
use super::reply_path::ReplyPath;
use super::request::Request;
use super::response::{Response, ResponseParts, Served};
use super::service::Service;
use super::shared::ServerShared;
use super::spare_table;
use super::trouble::Trouble;
use super::wire::Wire;
use crate::codec::{RefusalReason, RequestDecoder, RequestHead};

/// How many bytes of responses are gathered before the connection looks whether the client takes
/// them.
const GATHERED: usize = 32 * 1024;

/// One connection: its state, and what it needs to act.
pub(crate) struct Connection<S> {
    service: S,
    shared: Arc<ServerShared>,
    channel: Option<Channel>,
    state: State,
    decoder: RequestDecoder,
    /// How many of the kept bytes count against the memory limit of the server.
    counted: usize,
    /// Shared with the handles of responses, once there was one.
    path: Option<Arc<ReplyPath>>,
    tally: Tally,
    /// The number of the event loop, for the counters.
    home: u32,
    /// The clock's time at the last event.
    now: u64,
    wait: Wait,
    /// How much of a streamed response may be on its way.
    window: Window,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(service: S, shared: Arc<ServerShared>) -> Self {
        Self {
            service,
            channel: None,
            state: State::new(&shared.limits),
            decoder: RequestDecoder::new(shared.limits.head, shared.limits.body),
            shared,
            counted: 0,
            path: None,
            tally: Tally::default(),
            home: 0,
            now: 0,
            wait: Wait::default(),
            window: Window::new(),
        }
    }

    /// Begins, when the channel is open.
    pub(crate) fn open<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let channel = wire.channel();
        self.home = self.shared.counters.find(channel.loop_name());
        self.channel = Some(channel);
        self.cell().opened();
        self.now = self.shared.wall.nanos();
        let half_close = self.shared.limits.half_close;
        wire.set_half_closure(half_close);
        // Reading stops while a request waits for the one before it, or for its service.
        wire.set_close_on_hang_up(!half_close);
        self.begin_wait(wire);
        self.settle(wire);
    }

    /// Ends, when the channel is closed.
    pub(crate) fn closed<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.state.stage = Stage::Ended;
        self.fail_body(BodyError::Closed);
        self.give_up_from(self.state.queue.first_seq());
        self.state.queue.clear();
        self.path = None;
        self.forget_kept(wire);
        if self.channel.take().is_some() {
            self.report_tally();
            self.cell().closed();
        }
    }

    /// Returns the counters of the event loop.
    #[inline]
    fn cell(&self) -> &LoopCell {
        self.shared.counters.cell(self.home)
    }

    /// Adds what was counted to the counters of the event loop. Reads the clock only if responses
    /// were written since it was last read: they took the time from then on.
    #[inline]
    fn report_tally(&mut self) {
        let mut took = 0;
        if self.tally.has_times() {
            let now = self.shared.wall.nanos();
            took = now.saturating_sub(self.now);
            self.now = now;
        }
        self.shared
            .counters
            .cell(self.home)
            .take(&mut self.tally, took);
    }

    /// Counts what went wrong, and reports it.
    #[cold]
    fn trouble<'a>(&self, what: Trouble, detail: Option<&dyn fmt::Display>, wire: &impl Wire<'a>) {
        self.cell().trouble(what);
        self.shared.troubles.report(what, detail, self.now, wire);
    }

    /// Ends a connection that has failed.
    #[cold]
    pub(crate) fn failed<'a>(&mut self, why: &Failure, wire: &mut impl Wire<'a>) {
        self.now = self.shared.wall.nanos();
        match Trouble::of(why) {
            // The program has set `tcp_user_timeout`, or the network of the client is gone.
            Trouble::Lost if is_timed_out(why) && wire.has_unsent() => {
                return self.cut_slow_reader(wire);
            }
            // A client that resets its connection is not worth a report.
            Trouble::Lost => self.cell().trouble(Trouble::Lost),
            what => self.trouble(what, Some(why), wire),
        }
        wire.close();
    }

    /// Handles received bytes.
    #[inline]
    pub(crate) fn received<'a>(&mut self, bytes: Bytes, wire: &mut impl Wire<'a>) {
        // Responses to an earlier piece of the same read took their time until now.
        if self.tally.has_times() {
            self.report_tally();
        } else {
            self.now = self.shared.wall.nanos();
        }
        self.tally.received(bytes.len());
        if self.state.stage == Stage::Ended {
            return wire.give_back(bytes);
        }
        if wire.is_draining() {
            // Its event follows what the client has sent before.
            self.shared.begin_drain();
        }
        if self.state.kept.is_empty() {
            return self.advance(Received::from(bytes), wire);
        }
        let mut kept = std::mem::take(&mut self.state.kept);
        kept.extend_from_slice(&bytes);
        wire.give_back(bytes);
        self.advance(Received::joined(kept), wire);
    }

    /// Handles as much of `input` as possible, and keeps the rest. The connection does not end before it is
    /// known whether some of it follows the last request.
    fn advance<'a>(&mut self, mut input: Received, wire: &mut impl Wire<'a>) {
        let mut table = spare_table::take();
        let mut date = ReadDate::new(self.now);
        let blocked = loop {
            match self.state.look() {
                Look::Head => {}
                Look::Body => match self.take_body(&mut input, wire) {
                    true => continue,
                    false => break false,
                },
                Look::Held => break true,
                Look::Nothing => {
                    self.drop_rest(&mut input);
                    break false;
                }
            }
            if input.is_empty() {
                break false;
            }
            if input[0] == b'\r' && self.skip_empty_line(&mut input) {
                continue;
            }
            if self.is_blocked(wire) {
                break true;
            }
            match self.decoder.head(&input, &mut table) {
                Ok(Some(head)) if self.is_early(&head) => {
                    // It is parsed again when the queue is empty.
                    self.decoder.put_back();
                    self.state.turn = Turn::Alone;
                    break true;
                }
                Ok(Some(head)) => {
                    let length = head.len();
                    self.serve(head, &mut date, wire);
                    input.advance(length);
                }
                Ok(None) => break false,
                Err(reason) => {
                    let head = RequestDecoder::refused_head(reason, &input, &table);
                    let method = RequestDecoder::refused_method(&input);
                    self.refuse(reason, method, head.as_ref(), wire);
                }
            }
        };
        spare_table::put_back(table);
        self.paused_by(blocked, wire);
        // Usually everything was handled, and the memory goes back to the loop.
        let (kept, spent) = input.keep();
        if let Some(kept) = kept {
            self.state.kept = kept;
        }
        self.count_kept(wire);
        wire.give_back(spent);
        if self.state.is_undecided() {
            self.switch_if_due(wire);
        }
        self.end_if_done(wire);
        if self.state.is_at_end() {
            self.end_input(wire);
        }
    }

    /// Looks at nothing after the last request. The client may go on sending.
    #[cold]
    fn drop_rest(&mut self, input: &mut Received) {
        if !input.is_empty() {
            self.state.close(Tail::Unread);
        }
        input.advance(input.len());
    }

    /// Counts the kept bytes against the memory limit of the server.
    #[inline]
    fn count_kept<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let (counted, kept) = (self.counted, self.state.kept.len());
        if kept > counted {
            wire.hold_input(kept - counted);
        } else if kept < counted {
            wire.release_input(counted - kept);
        }
        self.counted = kept;
    }

    /// Drops the kept bytes: nothing looks at them any more.
    fn forget_kept<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.state.kept = BytesMut::new();
        self.count_kept(wire);
    }

    /// Returns `true` if no further request may be handled now: too many responses are outstanding,
    /// or the client does not take them.
    #[inline]
    fn is_blocked<'a>(&self, wire: &mut impl Wire<'a>) -> bool {
        if !self.state.has_room() {
            return true;
        }
        if wire.output().len() >= GATHERED {
            wire.flush();
        }
        !wire.is_writable()
    }

    /// Returns `true` if the request may not begin now: it would not run alone, and has to.
    #[inline]
    fn is_early(&self, head: &RequestHead<'_>) -> bool {
        !self.state.queue.is_empty() && !head.method().is_safe()
    }

    /// Stops or resumes reading.
    #[inline]
    pub(super) fn paused_by<'a>(&mut self, blocked: bool, wire: &mut impl Wire<'a>) {
        if self.state.hold(blocked) {
            wire.set_auto_read(!blocked);
        }
    }

    /// Goes on with what was kept, if the reason to wait is gone.
    pub(crate) fn resume<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.state.may_resume() {
            let kept = std::mem::take(&mut self.state.kept);
            self.advance(Received::joined(kept), wire);
        }
    }

    /// Calls the service for a request.
    #[inline]
    fn serve<'a>(&mut self, head: RequestHead<'_>, date: &mut ReadDate, wire: &mut impl Wire<'a>) {
        self.tally.request();
        let length = head.framing().length();
        if length.is_some_and(|length| length > self.shared.limits.body.body) {
            let method = Some(head.method());
            return self.refuse(RefusalReason::BodyTooLarge, method, Some(&head), wire);
        }
        let began = self.head_ended();
        let Some(channel) = &self.channel else { return };
        let to = ReplyTo::of(&head);
        let direct = self.state.queue.is_empty();
        let seq = self.state.begin(!head.framing().is_empty());
        let mut apart = BytesMut::new();
        let (mut served, mut status, mut written) = (Served::Nothing, 500, 0);
        let out = if direct { wire.output() } else { &mut apart };
        let start = out.len();
        let request = Request::new(head, &mut self.state.intake, channel, seq);
        let mut parts = ResponseParts {
            head: HeadWriter::new(out),
            out,
            first: direct,
            window: self.window,
            served: &mut served,
            status: &mut status,
            written: &mut written,
            to,
            seq,
            shared: &self.shared,
            channel,
            path: &mut self.path,
            date,
        };
        let response = Response::new(&mut parts);
        let ran = contain(|| self.service.call(request, response));
        let panicked = ran.is_err();
        if let Err(panic) = &ran {
            self.panicked(panic, &head, &mut served, wire);
        }
        let expects_continue = head.expects_continue();
        let is_plain = direct && !expects_continue && self.state.is_plain();
        match served {
            Served::Written { body, close } if is_plain => {
                self.tally.response(status);
                self.tally.sent(written);
                self.took(began);
                if !body.is_empty() {
                    wire.send(body);
                }
                if close {
                    self.state.close(Tail::Read);
                }
            }
            served => {
                self.report_missing(&served, panicked, wire);
                let out = if direct { wire.output() } else { &mut apart };
                let mut served = self.replace_missing(served, out, start, to, &mut status);
                self.put_continue(&mut served, expects_continue, out, start);
                if direct {
                    self.tally.sent(out.len() - start);
                }
                let asked = Asked { head, to, began };
                self.enqueue(served, apart, direct, status, asked);
                self.pump(wire);
            }
        }
    }
}

/// Returns `true` if the system has given up a connection whose peer takes nothing.
#[cold]
fn is_timed_out(why: &Failure) -> bool {
    let why = why.downcast_ref::<io::Error>();
    why.is_some_and(|why| why.kind() == io::ErrorKind::TimedOut)
}
