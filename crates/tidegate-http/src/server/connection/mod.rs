//! One connection: receives requests, calls the service, and sends the responses in order.
//!
//! | file | contents |
//! |---|---|
//! | this one | the loop over received bytes, and the call of the service |
//! | `intake` | the body of the current request |
//! | `outcome` | what becomes of a request when the service has returned |
//! | `responses` | the order of responses, and the end of the connection |
//! | `ends` | the end of the client's stream, and drains |
//! | `turns` | requests that do not run beside others |
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
//! | phase | accepts requests | ends when |
//! |---|---|---|
//! | `Open` | yes | the client, the service or a drain asks for the end, or a request is refused |
//! | `Closing` | no; the body of the last request is still received | the queue is empty |
//! | `Ended` | no; received bytes are dropped | everything is sent |
//!
//! The client may still be sending when the last response is sent: bytes follow the last request, or its
//! body was not read to its end. Then the channel lingers, so that the client does not lose the response.

mod ends;
mod intake;
mod outcome;
mod responses;
mod switching;
mod turns;
mod waits;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_core::internal::contain;
use tidegate_net::Channel;
use tidegate_promise::Failure;

use self::outcome::Asked;
use self::waits::Waits;
use super::body::BodyError;
use super::date::ReadDate;
use super::flow::Window;
use super::head_writer::{HeadWriter, ReplyTo};
use super::input::Received;
use super::metrics::{LoopCell, Tally};
use super::queue::ResponseQueue;
use super::request::{Intake, Request};
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

/// The number of no request.
const NO_REQUEST: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    Ended,
}

/// The state of one connection.
pub(crate) struct Connection<S> {
    service: S,
    shared: Arc<ServerShared>,
    channel: Option<Channel>,
    decoder: RequestDecoder,
    /// Received bytes that could not be handled yet.
    kept: BytesMut,
    /// How many of them count against the memory limit of the server.
    counted: usize,
    /// What happens to the body of the request `current`, which is [`NO_REQUEST`] before the first one.
    intake: Intake,
    current: u64,
    queue: ResponseQueue,
    /// How many responses may be in the queue: one if a request runs alone, or waits for that; zero
    /// while the protocol is undecided.
    outstanding: usize,
    /// The response that decides about the protocol.
    undecided: Option<u64>,
    tally: Tally,
    /// The number of the event loop, for the counters.
    home: u32,
    phase: Phase,
    waits: Waits,
    /// The connection has stopped reading.
    paused: bool,
    /// The service has enough of a body for the moment.
    body_paused: bool,
    /// The client may still be sending when the last response is sent.
    linger: bool,
    /// Received bytes are being handled: the connection does not end before it is known whether some
    /// of them follow the last request.
    advancing: bool,
    /// The client has sent something of the body since the limit of its time was last set.
    body_moved: bool,
    /// Bytes waited to be sent when the limit of time for a response was last set.
    unsent: bool,
    /// The client has ended its half while the protocol was undecided, or while received bytes could
    /// not be handled.
    input_ended: bool,
    /// A drain was announced, and has begun.
    announced: bool,
    draining: bool,
    /// The clock's time at the last event, and when the current wait began.
    now: u64,
    since: u64,
    /// When the deadline passes that is set; a time that is over if none is.
    checks_at: u64,
    /// How many bytes were sent when the progress was last checked.
    sent: u64,
    /// How much the client had taken when it was last seen to take something, and when that was. `None` if
    /// nothing was left to take.
    taken: Option<(u64, u64)>,
    /// How much of a streamed response may be on its way.
    window: Window,
}

/// Why the loop over the received bytes stopped.
enum Stop {
    NeedsMore,
    Blocked,
}

impl<S: Service> Connection<S> {
    pub(crate) fn new(service: S, shared: Arc<ServerShared>) -> Self {
        let decoder = RequestDecoder::new(shared.limits.head, shared.limits.body);
        let outstanding = shared.limits.outstanding;
        Self {
            service,
            shared,
            channel: None,
            decoder,
            kept: BytesMut::new(),
            counted: 0,
            intake: Intake::None,
            current: NO_REQUEST,
            queue: ResponseQueue::default(),
            outstanding,
            undecided: None,
            tally: Tally::default(),
            home: 0,
            phase: Phase::Open,
            waits: Waits::Idle,
            paused: false,
            body_paused: false,
            linger: false,
            advancing: false,
            body_moved: false,
            unsent: false,
            input_ended: false,
            announced: false,
            draining: false,
            now: 0,
            since: 0,
            checks_at: 0,
            sent: 0,
            taken: None,
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
        self.phase = Phase::Ended;
        self.fail_body(BodyError::Closed);
        self.queue.clear();
        self.queue.path = None;
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
        if self.phase == Phase::Ended {
            return wire.give_back(bytes);
        }
        if wire.is_draining() {
            // Its event follows what the client has sent before.
            self.shared.begin_drain();
        }
        if self.kept.is_empty() {
            return self.advance(Received::from(bytes), wire);
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(&bytes);
        wire.give_back(bytes);
        self.advance(Received::joined(kept), wire);
    }

    /// Handles as much of `input` as possible, and keeps the rest.
    fn advance<'a>(&mut self, mut input: Received, wire: &mut impl Wire<'a>) {
        let mut table = spare_table::take();
        let mut date = ReadDate::new(self.now);
        self.advancing = true;
        let stop = loop {
            if self.decoder.in_body() && self.phase != Phase::Ended {
                match self.take_body(&mut input, wire) {
                    None => continue,
                    Some(stop) => break stop,
                }
            }
            if self.phase != Phase::Open {
                // Nothing after the last request is looked at. The client may go on sending.
                self.linger |= !input.is_empty();
                input.advance(input.len());
                break Stop::NeedsMore;
            }
            if input.is_empty() {
                break Stop::NeedsMore;
            }
            if input[0] == b'\r' && self.skip_empty_line(&mut input) {
                continue;
            }
            if self.is_blocked(wire) {
                break Stop::Blocked;
            }
            match self.decoder.head(&input, &mut table) {
                Ok(Some(head)) if self.is_early(&head) => {
                    self.hold_back();
                    break Stop::Blocked;
                }
                Ok(Some(head)) => {
                    let length = head.len();
                    self.serve(head, &mut date, wire);
                    input.advance(length);
                }
                Ok(None) => break Stop::NeedsMore,
                Err(reason) => {
                    let head = RequestDecoder::refused_head(reason, &input, &table);
                    let method = RequestDecoder::refused_method(&input);
                    self.refuse(reason, method, head.as_ref(), wire);
                }
            }
        };
        spare_table::put_back(table);
        self.advancing = false;
        self.paused_by(matches!(stop, Stop::Blocked), wire);
        let ended = self.input_ended && !self.paused && self.undecided.is_none();
        // Usually everything was handled, and the memory goes back to the loop.
        let (kept, spent) = input.keep();
        if let Some(kept) = kept {
            self.kept = kept;
        }
        self.count_kept(wire);
        wire.give_back(spent);
        if self.outstanding == 0 {
            self.switch_if_due(wire);
        }
        if self.phase == Phase::Closing {
            self.end_if_done(wire);
        }
        if ended && self.phase != Phase::Ended {
            self.end_input(wire);
        }
    }

    /// Counts the kept bytes against the memory limit of the server.
    #[inline]
    fn count_kept<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let (counted, kept) = (self.counted, self.kept.len());
        if kept > counted {
            wire.hold_input(kept - counted);
        } else if kept < counted {
            wire.release_input(counted - kept);
        }
        self.counted = kept;
    }

    /// Drops the kept bytes: nothing looks at them any more.
    fn forget_kept<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.kept = BytesMut::new();
        self.count_kept(wire);
    }

    /// Returns `true` if no further request may be handled now: too many responses are outstanding,
    /// or the client does not take them.
    #[inline]
    fn is_blocked<'a>(&self, wire: &mut impl Wire<'a>) -> bool {
        if self.queue.len() >= self.outstanding {
            return true;
        }
        if wire.output().len() >= GATHERED {
            wire.flush();
        }
        !wire.is_writable()
    }

    /// Stops or resumes reading.
    #[inline]
    pub(super) fn paused_by<'a>(&mut self, blocked: bool, wire: &mut impl Wire<'a>) {
        if blocked != self.paused {
            self.paused = blocked;
            wire.set_auto_read(!blocked);
        }
    }

    /// Goes on with what was kept, if the reason to wait is gone.
    pub(crate) fn resume<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.paused && !self.body_paused && self.phase != Phase::Ended {
            let kept = std::mem::take(&mut self.kept);
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
        let direct = self.queue.is_empty();
        (self.current, self.body_moved) = (self.queue.next_seq(), true);
        self.intake = match head.framing().is_empty() {
            true => Intake::None,
            false => Intake::Unasked,
        };
        let mut apart = BytesMut::new();
        let (mut served, mut status, mut written) = (Served::Nothing, 500, 0);
        let out = if direct { wire.output() } else { &mut apart };
        let start = out.len();
        let request = Request::new(head, &mut self.intake, channel, self.current);
        let mut parts = ResponseParts {
            head: HeadWriter::new(out),
            out,
            first: direct,
            window: self.window,
            served: &mut served,
            status: &mut status,
            written: &mut written,
            to,
            seq: self.current,
            shared: &self.shared,
            channel,
            path: &mut self.queue.path,
            date,
        };
        let response = Response::new(&mut parts);
        let ran = contain(|| self.service.call(request, response));
        let panicked = ran.is_err();
        if let Err(panic) = &ran {
            self.panicked(panic, &head, &mut served, wire);
        }
        let expects_continue = head.expects_continue();
        match served {
            Served::Written { body, close } if direct && self.is_plain(expects_continue) => {
                self.tally.response(status);
                self.tally.sent(written);
                self.took(began);
                if !body.is_empty() {
                    wire.send(body);
                }
                if close {
                    self.close_after_response(wire);
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
                self.take_turn(head.method().is_safe());
                let asked = Asked::new(to, began, expects_continue);
                self.enqueue(served, apart, direct, status, asked);
                self.pump(wire);
            }
        }
    }

    /// Returns `true` if nothing is left to do for the request but its response.
    #[inline]
    fn is_plain(&self, expects_continue: bool) -> bool {
        matches!(self.intake, Intake::None) && !expects_continue && self.phase == Phase::Open
    }
}

/// Returns `true` if the system has given up a connection whose peer takes nothing.
#[cold]
fn is_timed_out(why: &Failure) -> bool {
    let why = why.downcast_ref::<io::Error>();
    why.is_some_and(|why| why.kind() == io::ErrorKind::TimedOut)
}
