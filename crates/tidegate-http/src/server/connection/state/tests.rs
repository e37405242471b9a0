//! Random interleavings of all events on the state alone: the test is the client, the decoder, the
//! service and the channel, and does with each event what [`Connection`](super::super::Connection) does.
//!
//! Letters stand for what a client sends. A head is `(` and one of: `g`, safe; `p`, not safe; `u`, safe,
//! may change the protocol; `b`, with a body; `e`, with a body, and waits for `100 Continue`; `x`,
//! malformed. A body is any number of `d` and a `.`; `!` in it is malformed.
//!
//! Checked: responses leave in the order of their requests, one each; nothing is written after the end;
//! reading that has stopped goes on when nothing is waited for any more; each received byte is handled or
//! handed over once; a drain ends.

use bytes::{Buf, Bytes};
use tidegate_testkit::{Rng, model, short_or_long};

use super::*;
use crate::codec::BodyFraming;
use crate::server::body::{BodyError, Flow};
use crate::server::flow::FlowEnd;
use crate::server::head_writer::ReplyTo;
use crate::server::part::{PartKind, StreamHead, Whole};
use crate::server::queue::Stream;

/// The status of responses of the server itself. Others have the number of their request.
const OWN: u16 = u16::MAX;

/// The reader of a body: whether it asks for the first piece. What it does is decided by the test.
struct Reader(bool);

impl BodySink for Reader {
    fn asks_first(&self) -> bool {
        self.0
    }
    fn data(&mut self, _: Bytes) -> Flow {
        Flow::More
    }
    fn trailers(&mut self, _: Bytes) {}
    fn end(self: Box<Self>) {}
    fn fail(self: Box<Self>, _: BodyError) {}
}

/// A response that the service has not ended.
#[derive(Clone, Copy)]
struct Handle {
    seq: u64,
    number: u64,
    streams: bool,
    may_switch: bool,
}

/// What has to occur in a run: responses, stops, changes of the protocol, drains that have to wait, cuts,
/// late responses, `100 Continue`.
type Seen = [u64; 7];

struct World<'a> {
    rng: &'a mut Rng,
    state: State,
    /// The last letter of the client, and what it has sent that was not read.
    last: u8,
    socket: Vec<u8>,
    received: usize,
    handled: usize,
    /// The client has ended its half, and the connection knows it.
    half_closed: bool,
    told: bool,
    is_writable: bool,
    server_drains: bool,
    handles: Vec<Handle>,
    /// Requests that have begun, and those whose responses were sent or given up.
    begun: u64,
    settled: u64,
    /// Refusals in the queue, which no request has begun.
    refused: u64,
    ended: bool,
    seen: &'a mut Seen,
}

impl<'a> World<'a> {
    fn new(rng: &'a mut Rng, seen: &'a mut Seen) -> Self {
        let mut limits = Limits::default().max_outstanding(1 + rng.index(4));
        limits.discard = 8;
        Self {
            rng,
            state: State::new(&limits),
            last: b'.',
            socket: Vec::new(),
            received: 0,
            handled: 0,
            half_closed: false,
            told: false,
            is_writable: true,
            server_drains: false,
            handles: Vec::new(),
            begun: 0,
            settled: 0,
            refused: 0,
            ended: false,
            seen,
        }
    }

    fn step(&mut self) {
        match self.rng.index(16) {
            0..4 => self.client_sends(),
            4..7 => self.receive(),
            7..11 => self.service_acts(),
            11 => {
                let reads = self.rng.chance(0.8);
                self.notice(reads);
            }
            12 => {
                self.is_writable = !self.is_writable;
                self.go_on();
            }
            _ if self.rng.chance(0.97) => {}
            13 => self.half_closed = true,
            14 => {
                let announced = self.rng.chance(0.5);
                self.drain(announced);
            }
            _ => self.time_out(),
        }
        self.check();
    }

    fn check(&self) {
        let state = &self.state;
        let queued = self.begun - self.settled + self.refused;
        assert_eq!(state.queue.len() as u64, queued, "a slot for each request");
        assert_eq!(self.ended, state.stage == Stage::Ended);
        if !self.ended {
            let waits = queued > 0 || state.look() == Look::Held || !self.is_writable;
            assert!(!state.is_held() || waits, "nothing holds the reads");
            assert!(!state.is_done(), "everything is sent");
            assert_eq!(self.handled + state.kept.len(), self.received);
        }
    }

    fn client_sends(&mut self) {
        for _ in 0..=self.rng.index(6) {
            let (letters, bad) = match self.last {
                b'(' => (&b"gggggggggggppppuubbbbbe"[..], b'x'),
                b'b' | b'e' | b'd' => (&b"ddddddd..."[..], b'!'),
                _ => (&b"("[..], b'('),
            };
            let bad = self.rng.chance(0.002).then_some(bad);
            let letter = bad.unwrap_or(letters[self.rng.index(letters.len())]);
            self.send(letter);
        }
    }

    fn send(&mut self, letter: u8) {
        if !self.half_closed {
            self.socket.push(letter);
            self.last = letter;
        }
    }

    fn receive(&mut self) {
        if !self.state.is_held() && !self.socket.is_empty() {
            let length = 1 + self.rng.index(self.socket.len());
            let rest = self.socket.split_off(length);
            let bytes = std::mem::replace(&mut self.socket, rest);
            if !self.ended {
                self.received += length;
                self.state.kept.extend_from_slice(&bytes);
                self.advance();
            }
        } else if self.half_closed && !self.told && !self.ended && self.socket.is_empty() {
            self.told = true;
            if self.state.input_ended() {
                self.end_input();
            }
        }
    }

    fn advance(&mut self) {
        let mut input = std::mem::take(&mut self.state.kept);
        let before = input.len();
        let blocked = loop {
            match (self.state.look(), input.first().copied()) {
                (Look::Held, _) => break true,
                (_, None) => break false,
                (Look::Nothing, _) => {
                    self.state.close(Tail::Unread);
                    input.clear();
                }
                (Look::Body, Some(letter)) => {
                    input.advance(1);
                    self.body(letter);
                }
                (Look::Head, _) if !self.state.has_room() || !self.is_writable => break true,
                (Look::Head, _) => {
                    let Some(&kind) = input.get(1) else {
                        break false;
                    };
                    if !self.state.queue.is_empty() && !matches!(kind, b'g' | b'u' | b'x') {
                        self.state.turn = Turn::Alone;
                        break true;
                    }
                    input.advance(2);
                    self.serve(kind);
                }
            }
        };
        self.handled += before - input.len();
        self.state.kept = input;
        self.hold(blocked);
        if self.state.is_undecided() {
            self.switch_if_due();
        }
        self.end_if_done();
        if self.state.is_at_end() {
            self.end_input();
        }
    }

    fn hold(&mut self, held: bool) {
        self.seen[1] += u64::from(self.state.hold(held));
    }

    fn serve(&mut self, kind: u8) {
        if kind == b'x' {
            return self.refuse();
        }
        let (expects, may_switch) = (kind == b'e', kind == b'u');
        let direct = self.state.queue.is_empty();
        let seq = self.state.begin(matches!(kind, b'b' | b'e'));
        let number = self.begun;
        self.begun += 1;
        if self.state.in_body() && self.rng.chance(0.6) {
            let reader = Reader(expects && self.rng.chance(0.5));
            self.state.intake = Intake::Sink(Box::new(reader), Pace::Reads);
        }
        let mut close = self.rng.chance(0.01) || self.server_drains;
        // At once, deferred, or streamed.
        let how = self.rng.index(4);
        if how == 0 && direct && !expects && self.state.is_plain() {
            self.wrote(number);
            if close {
                self.state.close(Tail::Read);
            }
            return;
        }
        let (reads_on, missing) = (how > 0 && self.state.has_reader(), self.missing());
        if expects || !reads_on && self.state.has_too_much_left(missing) {
            close |= !reads_on;
            if how == 1 && matches!(&self.state.intake, Intake::Sink(one, _) if one.asks_first()) {
                self.state.set_pace(Pace::Holds);
            }
        }
        let slot = match how {
            0 if may_switch && self.rng.chance(0.5) => Slot::Switch(plan()),
            0 => whole(number as u16, close),
            1 => Slot::Waiting {
                to: ReplyTo::unknown(),
                owes_continue: expects && reads_on,
                since: number,
            },
            _ => Slot::Stream(Box::new(Stream::new(self.head(number, close), direct))),
        };
        if how > 0 {
            let streams = how > 1;
            self.handles.push(Handle {
                seq,
                number,
                streams,
                may_switch,
            });
        }
        let decides = may_switch && how == 1 || matches!(slot, Slot::Switch(_));
        let tail = match expects && !reads_on {
            true => Some(Tail::Unread),
            false => close.then_some(Tail::Read),
        };
        self.state
            .respond(slot, number, matches!(kind, b'g' | b'u'), decides, tail);
        self.pump();
    }

    fn missing(&mut self) -> Option<u64> {
        (self.state.in_body() && self.rng.chance(0.03)).then_some(9)
    }

    fn head(&mut self, number: u64, close: bool) -> StreamHead {
        let framings = [BodyFraming::Chunked, BodyFraming::UntilClose];
        let framing = framings[usize::from(self.rng.chance(0.02))];
        StreamHead {
            head: BytesMut::new(),
            framing,
            close: close || framing == BodyFraming::UntilClose,
            status: number as u16,
            flow: FlowEnd::new().1,
        }
    }

    fn body(&mut self, letter: u8) {
        self.state.body_moved();
        match letter {
            b'.' => {
                self.state.intake = Intake::None;
                self.state.wait_from(self.begun);
            }
            b'!' => self.refuse(),
            _ if !self.state.has_reader() => {
                if !self.state.discard(1) {
                    drop(self.state.refuse());
                    self.pump();
                }
            }
            _ => match self.rng.index(8) {
                0 => self.state.set_pace(Pace::Holds),
                1 => self.discard_rest(),
                _ => {}
            },
        }
    }

    fn discard_rest(&mut self) {
        let missing = self.missing();
        if !self.state.discard_rest(missing) {
            drop(self.state.refuse());
            self.pump();
        }
    }

    /// Refuses the body, or a head.
    fn refuse(&mut self) {
        if !self.state.in_body() {
            self.refused = 1;
            self.state.queue.push(whole(OWN, true), None);
        } else if let Some((seq, _)) = self.state.current_waiting() {
            self.state.replace(seq, whole(OWN, true));
        }
        drop(self.state.refuse());
        self.pump();
    }

    /// The service does something with one of its responses.
    fn service_acts(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let at = self.rng.index(self.handles.len());
        let handle = self.handles[at];
        let close = self.rng.chance(0.01);
        let (goes_on, what) = match (handle.streams, self.rng.index(100)) {
            (_, 0) => (false, PartKind::Dropped),
            (false, 1..20) if handle.may_switch => (false, PartKind::Switch(plan())),
            (false, 1..40) => {
                self.handles[at].streams = true;
                (true, PartKind::Head(self.head(handle.number, close)))
            }
            (false, _) => {
                let status = handle.number as u16;
                let whole = Whole {
                    status,
                    close,
                    ..Whole::default()
                };
                (false, PartKind::Whole(whole))
            }
            (true, 1..50) => (true, PartKind::Data(Bytes::from_static(b"x"))),
            (true, _) => {
                let trailers = Vec::new();
                (false, PartKind::End { trailers })
            }
        };
        if !goes_on {
            self.handles.swap_remove(at);
        }
        self.part(handle.seq, what);
    }

    fn part(&mut self, seq: u64, what: PartKind) {
        if !matches!(what, PartKind::Switch(_)) {
            self.state.decided(seq);
        }
        if self.server_drains {
            self.state.close_in_drain();
        }
        let missing = self.missing();
        match what {
            PartKind::Whole(whole) if self.state.is_next(seq, &whole, missing) => {
                self.sent(whole.status, false);
            }
            what => match self.state.fill(seq, what, missing) {
                Filled::Unasked => drop(self.state.drop_body()),
                Filled::Missing(..) => self.state.replace(seq, whole(OWN, true)),
                Filled::Cut(_) => self.cut(),
                Filled::Broken(_) | Filled::Nothing | Filled::Interim(_) => {}
            },
        }
        self.pump();
        self.end_if_done();
        self.go_on();
    }

    /// The reader of the body reads on, or is dropped.
    fn notice(&mut self, reads: bool) {
        self.state.set_pace(Pace::Reads);
        if reads {
            self.pump();
        } else if self.state.has_reader() {
            self.discard_rest();
        }
        self.end_if_done();
        self.go_on();
    }

    fn go_on(&mut self) {
        if self.state.may_resume() {
            self.advance();
        }
        if self.state.is_undecided() {
            self.switch_if_due();
        }
    }

    fn pump(&mut self) {
        loop {
            let (status, close) = match self.state.next() {
                Next::Nothing | Next::Interim(_) => return,
                Next::Continue => {
                    assert!(!self.ended);
                    self.seen[6] += 1;
                    return;
                }
                Next::Whole(whole) => (whole.status, whole.close),
                Next::Stream(stream) => {
                    assert!(!self.ended);
                    let (status, is_over) = stream.send_to_nobody();
                    let in_order = status.is_none_or(|status| status == self.settled as u16);
                    assert!(in_order, "{status:?} is not {}", self.settled);
                    match is_over {
                        true => (self.settled as u16, stream.close),
                        false if stream.is_dropped() => return self.cut(),
                        false => return,
                    }
                }
                Next::Cut => return self.cut(),
            };
            self.sent(status, close);
        }
    }

    /// The first response was sent.
    fn sent(&mut self, status: u16, close: bool) {
        match self.state.sent(close) {
            Some(number) => {
                assert!(status == number as u16 || status == OWN);
                self.wrote(number);
            }
            None => {
                assert_eq!(
                    (status, self.settled),
                    (OWN, self.begun),
                    "a refusal is last"
                );
                assert!(!self.ended);
                self.refused = 0;
            }
        }
        if close {
            self.leave_unanswered();
        }
    }

    fn wrote(&mut self, number: u64) {
        assert!(!self.ended, "nothing is written after the end");
        assert_eq!(number, self.settled, "in the order of requests, one each");
        self.settled += 1;
        self.seen[0] += 1;
    }

    fn leave_unanswered(&mut self) {
        let (requests, with_current) = self.state.abandon();
        self.settled += requests as u64;
        self.refused = 0;
        if with_current {
            drop(self.state.drop_body());
        }
    }

    fn cut(&mut self) {
        let Some(queued) = self.state.queue.pop() else {
            return;
        };
        assert_eq!(queued.began, Some(self.settled));
        self.settled += 1;
        self.seen[4] += 1;
        self.leave_unanswered();
        drop(self.state.drop_body());
        self.end();
    }

    fn end_if_done(&mut self) {
        if self.state.is_done() {
            self.end();
        }
    }

    fn end(&mut self) {
        assert!(!self.ended, "once");
        self.ended = true;
        self.state.stage = Stage::Ended;
    }

    fn end_input(&mut self) {
        if self.state.in_body() {
            drop(self.state.drop_body());
            return self.close();
        }
        self.handled += self.state.kept.len();
        self.state.kept.clear();
        self.state.close_at_end();
        self.end_if_done();
    }

    /// The channel is closed, or not HTTP any more.
    fn close(&mut self) {
        self.ended = true;
        self.state.stage = Stage::Ended;
        self.settled += self.state.queue.clear() as u64;
        self.refused = 0;
    }

    fn switch_if_due(&mut self) {
        let Some((_, began)) = self.state.take_switch() else {
            return;
        };
        self.wrote(began.unwrap());
        if self.rng.chance(0.2) {
            // The handlers do not fit.
            self.state.close(Tail::Unread);
            return self.end_if_done();
        }
        self.hold(false);
        let before = self.state.hand_over();
        assert_eq!(before.input_ended, self.told);
        assert_eq!(before.received.len(), self.received - self.handled);
        assert!(self.state.hand_over().received.is_empty(), "once");
        self.seen[2] += 1;
        self.close();
    }

    fn drain(&mut self, announced: bool) {
        self.server_drains = true;
        self.state.drain.announced |= announced;
        self.state.drain.begun |= !announced;
        self.state.close_in_drain();
        let state = &self.state;
        let goes_on = announced || state.is_undecided() || state.queue.is_empty();
        let has_begun = !state.kept.is_empty() && !state.is_held();
        assert!(goes_on || has_begun || state.stage != Stage::Open);
        if !announced && self.state.is_idle() {
            self.state.close(Tail::Read);
            self.end_if_done();
        }
    }

    fn time_out(&mut self) {
        match self.state.waits_for() {
            Waits::Response => {
                if let Some((seq, _)) = self.state.give_up_first() {
                    self.state.replace(seq, whole(OWN, true));
                    drop(self.state.drop_body());
                    self.seen[5] += 1;
                    self.pump();
                }
            }
            Waits::Head | Waits::Body => self.refuse(),
            Waits::Idle => self.end(),
            Waits::End | Waits::Anew => {}
        }
        self.end_if_done();
    }

    /// Drains: the service and the client end what they have begun.
    fn finish(mut self) {
        self.is_writable = true;
        self.go_on();
        self.drain(false);
        for _ in 0..1000 {
            if self.ended {
                assert!(self.state.queue.is_empty());
                assert_eq!(self.begun, self.settled, "a response to each request");
                return;
            }
            self.seen[3] += 1;
            match self.last {
                b'(' => self.send(b'g'),
                b'b' | b'e' | b'd' => self.send(b'.'),
                _ => {}
            }
            self.notice(true);
            self.receive();
            self.service_acts();
            self.check();
        }
        panic!("the drain does not end");
    }
}

fn whole(status: u16, close: bool) -> Slot {
    Slot::Ready(Box::new(Whole {
        status,
        close,
        ..Whole::default()
    }))
}

fn plan() -> Box<SwitchPlan> {
    Box::new(SwitchPlan {
        head: BytesMut::new(),
        status: 101,
        to: ReplyTo::unknown(),
        make: Box::new(|switch| switch),
    })
}

#[test]
fn any_order_of_events_keeps_the_promises_of_a_connection() {
    let mut seen = Seen::default();
    model(0..short_or_long(5_000, 500_000), |rng| {
        let mut world = World::new(rng, &mut seen);
        for _ in 0..200 {
            world.step();
        }
        world.finish();
    });
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}
