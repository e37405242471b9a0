//! The responses of a connection: puts their parts in order, sends them, and ends the connection
//! after the last one.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use tidegate_core::internal::discard;

use super::{Connection, Phase};
use crate::codec::encode;
use crate::server::body::BodyError;
use crate::server::head_writer::{ReplyTo, insert_continue, say_close, write_closing};
use crate::server::metrics::Tally;
use crate::server::part::{BodyNotice, BodyNoticeKind, Part, PartKind, StreamHead, Whole};
use crate::server::queue::{Queued, Slot, Stream};
use crate::server::request::Intake;
use crate::server::service::Service;
use crate::server::spare_output;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

impl<S: Service> Connection<S> {
    /// Handles a message about a response, from any thread.
    pub(crate) fn part<'a>(&mut self, part: Part, wire: &mut impl Wire<'a>) {
        let Part { seq, what } = part;
        self.now = self.shared.wall.nanos();
        if !matches!(what, PartKind::Switch(_) | PartKind::Interim(_)) {
            self.decided(seq);
        }
        self.end_if_draining();
        match what {
            PartKind::Whole(whole) if self.is_next(seq, &whole) => self.send_next(whole, wire),
            what => self.fill(seq, what, wire),
        }
        self.pump(wire);
        self.go_on(wire);
    }

    /// Handles a notice about the body of a request, from any thread.
    pub(crate) fn body_notice<'a>(&mut self, notice: BodyNotice, wire: &mut impl Wire<'a>) {
        if notice.seq != self.current {
            return;
        }
        self.now = self.shared.wall.nanos();
        self.body_paused = false;
        match notice.what {
            // The client may wait for `100 Continue`.
            BodyNoticeKind::ReadMore => self.pump(wire),
            BodyNoticeKind::Dropped => match self.intake {
                Intake::Sink(_) => self.discard_rest(wire),
                _ => self.end_if_done(wire),
            },
        }
        self.go_on(wire);
    }

    /// Goes on with what waited for a part or for a reader, and sends what was written.
    fn go_on<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.resume(wire);
        if self.outstanding == 0 {
            self.switch_if_due(wire);
        }
        self.settle(wire);
    }

    /// Returns `true` if the client waits for this response, and its turn changes nothing else. So are
    /// nearly all of a proxy.
    fn is_next(&self, seq: u64, whole: &Whole) -> bool {
        self.phase == Phase::Open
            && !whole.close
            && self.queue.is_awaited(seq)
            && !self.ends_early(seq)
    }

    /// Returns `true` if the response `seq` comes before so much of its request's body that the connection
    /// ends with it. The client should know that from its head (RFC 9112, section 9.6).
    fn ends_early(&self, seq: u64) -> bool {
        self.decoder.in_body() && seq == self.current && self.has_too_much_left()
    }

    /// Sends such a response without putting it into its slot.
    fn send_next<'a>(&mut self, mut whole: Whole, wire: &mut impl Wire<'a>) {
        send_whole(&mut whole, wire, &mut self.tally);
        self.end_first();
    }

    /// Removes the first response of the queue, which was sent.
    fn end_first(&mut self) {
        if let Some(began) = self.queue.pop().and_then(|sent| sent.began) {
            self.cell().total_time(self.now.saturating_sub(began));
        }
    }

    /// Puts a part of a response into its slot.
    pub(super) fn fill<'a>(&mut self, seq: u64, what: PartKind, wire: &mut impl Wire<'a>) {
        let ends_early = self.ends_early(seq);
        let Some(slot) = self.queue.get_mut(seq) else {
            return;
        };
        match (slot, what) {
            (slot @ Slot::Waiting { .. }, PartKind::Whole(whole)) => {
                let unasked = slot.owes_continue();
                if whole.close || ends_early {
                    // Nothing behind it would be answered.
                    self.phase = Phase::Closing;
                }
                *slot = Slot::Ready(Box::new(whole));
                if unasked {
                    // As for a response at once: the client may send the body or not.
                    (self.phase, self.linger) = (Phase::Closing, true);
                    self.fail_body(BodyError::Closed);
                }
            }
            (Slot::Waiting { .. }, PartKind::Head(head)) => self.begin_stream(seq, head),
            (slot @ Slot::Waiting { .. }, PartKind::Switch(plan)) => *slot = Slot::Switch(plan),
            (Slot::Waiting { .. }, PartKind::Interim(head)) => self.interim(seq, head, wire),
            (slot @ Slot::Waiting { .. }, what) => {
                let (trouble, detail) = match what {
                    PartKind::Dropped => (Trouble::Dropped, None),
                    PartKind::Mistake(mistake) => (Trouble::Mistake(mistake), None),
                    PartKind::Failed(why) => (why.what, Some(why.detail)),
                    _ => return,
                };
                let Slot::Waiting { to, .. } = *slot else {
                    return;
                };
                let ready = self.closing(500, to);
                if let Some(slot) = self.queue.get_mut(seq) {
                    *slot = ready;
                }
                let detail = detail.as_ref().map(|detail| detail as &dyn fmt::Display);
                self.trouble(trouble, detail, wire);
            }
            (Slot::Stream(stream), PartKind::Data(bytes)) => stream.held.push_back(bytes),
            (Slot::Stream(stream), PartKind::End { trailers }) => stream.end = Some(trailers),
            (Slot::Stream(stream), what @ (PartKind::Dropped | PartKind::Failed(_))) => {
                let is_begun = stream.is_begun();
                if !is_begun {
                    // The client gets the same as it would have got without the responses before it.
                    stream.drop_early();
                    self.phase = Phase::Closing;
                }
                match what {
                    PartKind::Failed(why) => self.trouble(why.what, Some(&why.detail), wire),
                    _ => self.trouble(Trouble::Dropped, None, wire),
                }
                if is_begun {
                    self.cut(wire);
                }
            }
            _ => {}
        }
    }

    /// Begins a streamed response. It goes to a client that may wait for `100 Continue`.
    fn begin_stream(&mut self, seq: u64, mut head: StreamHead) {
        let ends_early = self.ends_early(seq);
        let Some(slot) = self.queue.get_mut(seq) else {
            return;
        };
        let reads_on = matches!(self.intake, Intake::Sink(_));
        if !reads_on && (slot.owes_continue() || ends_early) {
            // As for a response at once: the client may send the body or not.
            if !std::mem::replace(&mut head.close, true) {
                say_close(&mut head.head);
            }
            (self.phase, self.linger) = (Phase::Closing, true);
        } else if slot.owes_continue() {
            // The service has kept the body, so it reads while it responds.
            insert_continue(&mut head.head, 0);
            self.body_paused = false;
        }
        *slot = Slot::Stream(Box::new(Stream::new(head, false)));
    }

    /// Sends what is first in the queue, as far as it is known.
    pub(super) fn pump<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.phase == Phase::Closing {
            self.queue.say_close_if_last();
        }
        while !self.queue.is_empty() {
            if !self.queue.held.is_empty() {
                self.send_held(wire);
            }
            let Some(slot) = self.queue.front_mut() else {
                break;
            };
            let close = match slot {
                Slot::Waiting { owes_continue, .. } => {
                    // A service that has not begun to read may respond without the body.
                    let reads = matches!(self.intake, Intake::Sink(_)) && !self.body_paused;
                    if *owes_continue && reads {
                        *owes_continue = false;
                        wire.output().put_slice(encode::CONTINUE);
                        self.tally.sent(encode::CONTINUE.len());
                    }
                    return self.end_if_done(wire);
                }
                // As soon as the rest of the received bytes is known.
                Slot::Switch(_) => return,
                Slot::Ready(whole) => {
                    send_whole(whole, wire, &mut self.tally);
                    whole.close
                }
                Slot::Stream(stream) if stream.is_unsendable() => return self.cut(wire),
                Slot::Stream(stream) => {
                    match stream.send(wire, &mut self.window, &mut self.tally) {
                        Ok(true) => stream.close,
                        Ok(false) if stream.is_dropped() => return self.cut(wire),
                        Ok(false) => return,
                        Err(mistake) => {
                            // More or less than the declared length.
                            self.trouble(Trouble::Mistake(mistake), None, wire);
                            return self.cut(wire);
                        }
                    }
                }
            };
            self.end_first();
            if close {
                self.phase = Phase::Closing;
                self.leave_unanswered(wire);
            } else if self.phase == Phase::Closing {
                self.queue.say_close_if_last();
            }
        }
        self.end_if_done(wire);
    }

    /// Sends the head of an interim response, or holds it back until its turn comes. A client that does
    /// not take what was sent before gets none.
    #[cold]
    fn interim<'a>(&mut self, seq: u64, head: Bytes, wire: &mut impl Wire<'a>) {
        if !self.queue.is_first(seq) {
            self.queue.held.hold(seq, head);
        } else if wire.is_writable() {
            self.send_interim(&head, wire);
        }
    }

    /// Sends the interim responses of the response that has become the first one.
    #[cold]
    fn send_held<'a>(&mut self, wire: &mut impl Wire<'a>) {
        for head in self.queue.take_held() {
            self.send_interim(&head, wire);
        }
    }

    fn send_interim<'a>(&mut self, head: &Bytes, wire: &mut impl Wire<'a>) {
        self.tally.sent(head.len());
        wire.output().put_slice(head);
    }

    /// Responds with status 503 to the request that the client waits for, because the service has not
    /// begun its response in time. The connection ends with it.
    #[cold]
    pub(super) fn give_up_response<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let Some((seq, _)) = self.queue.front_waiting() else {
            return;
        };
        self.decided(seq);
        let Some(Slot::Waiting {
            to, owes_continue, ..
        }) = self.queue.get_mut(seq)
        else {
            return;
        };
        let (to, owes_continue) = (*to, *owes_continue);
        let late = self.closing(503, to);
        if let Some(slot) = self.queue.get_mut(seq) {
            *slot = late;
        }
        self.queue.give_up_from(seq);
        self.linger |= owes_continue;
        self.phase = Phase::Closing;
        self.fail_body(BodyError::Closed);
        self.trouble(Trouble::LateResponse, None, wire);
        self.pump(wire);
    }

    /// Returns the response with `status` that takes the place of another one, and ends the
    /// connection.
    pub(super) fn closing(&self, status: u16, to: ReplyTo) -> Slot {
        let mut head = BytesMut::new();
        write_closing(&mut head, status, to, &self.shared.wall.date_at(self.now));
        Slot::Ready(Box::new(Whole {
            head,
            close: true,
            status,
            ..Whole::default()
        }))
    }

    /// Ends the connection in the middle of the first response, so that the client does not take the
    /// part for the whole. Responses before it still reach the client, unless only a reset tells the part
    /// from the whole.
    fn cut<'a>(&mut self, wire: &mut impl Wire<'a>) {
        let Some(Queued { slot, .. }) = self.queue.pop() else {
            return;
        };
        let reset = matches!(&slot, Slot::Stream(stream)
            if stream.is_begun() && stream.ends_with_connection());
        discard(slot);
        self.leave_unanswered(wire);
        self.fail_body(BodyError::Closed);
        match &self.channel {
            Some(channel) if reset => {
                self.phase = Phase::Ended;
                drop(channel.abort());
            }
            _ => self.end_behind_responses(wire),
        }
    }

    /// Gives up the requests behind a response that has ended the connection.
    fn leave_unanswered<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.queue.is_empty() {
            return;
        }
        let of_body = self.queue.get_mut(self.current).is_some();
        for _ in 0..self.queue.clear() {
            self.trouble(Trouble::Unanswered, None, wire);
        }
        if of_body {
            self.fail_body(BodyError::Closed);
        }
    }

    /// Ends the connection after a response that was written at once.
    pub(super) fn close_after_response<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.phase = Phase::Closing;
        self.end_if_done(wire);
    }

    /// Ends the connection if no more requests are accepted and every response is sent: in stages, if
    /// the client may still be sending.
    pub(super) fn end_if_done<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.phase != Phase::Closing || !self.queue.is_empty() || self.advancing {
            return;
        }
        if self.decoder.in_body() && matches!(self.intake, Intake::Sink(_)) {
            // The service still reads the body of the last request.
            return;
        }
        self.end_behind_responses(wire);
    }

    /// Ends the connection behind what was written: in stages, if the client may still be sending. A
    /// close with received bytes in the socket would reset what the client has not read.
    fn end_behind_responses<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.has_to_linger() {
            self.forget_kept(wire);
            wire.linger_on_close();
        }
        self.phase = Phase::Ended;
        wire.close_when_flushed();
    }

    /// Returns `true` if the client may still be sending when the last response is sent.
    pub(super) fn has_to_linger(&self) -> bool {
        // Bytes that wait in the socket of a connection that has stopped reading would reset it, too.
        let unread = !self.input_ended && (self.paused || !self.kept.is_empty());
        self.linger || unread || self.decoder.in_body()
    }
}

/// Sends a complete response.
fn send_whole<'a>(whole: &mut Whole, wire: &mut impl Wire<'a>, tally: &mut Tally) {
    tally.response(whole.status);
    let head = std::mem::take(&mut whole.head);
    tally.sent(head.len());
    spare_output::send(head, wire);
    let body = std::mem::take(&mut whole.body);
    if !body.is_empty() {
        tally.sent(body.len());
        wire.send(body);
    }
    if let Some(range) = whole.file.take() {
        let length = usize::try_from(range.len());
        tally.sent(length.unwrap_or(usize::MAX));
        wire.send_file(*range);
    }
}
