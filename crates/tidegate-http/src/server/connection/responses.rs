//! The responses of a connection: puts their parts in order, sends them, and ends the connection
//! after the last one.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use tidegate_core::internal::discard;

use super::Connection;
use super::state::{Fault, Filled, Next, Stage};
use crate::codec::encode;
use crate::server::body::BodyError;
use crate::server::head_writer::{ReplyTo, write_closing};
use crate::server::metrics::Tally;
use crate::server::part::{BodyNotice, BodyNoticeKind, Part, PartKind, Whole};
use crate::server::queue::{Queued, Slot};
use crate::server::request::Pace;
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
            self.state.decided(seq);
        }
        self.end_if_draining();
        let missing = self.decoder.missing();
        match what {
            PartKind::Whole(mut whole) if self.state.is_next(seq, &whole, missing) => {
                // Without its slot.
                send_whole(&mut whole, wire, &mut self.tally);
                self.end_first(false, wire);
            }
            what => self.fill(seq, what, wire),
        }
        self.pump(wire);
        self.end_if_done(wire);
        self.go_on(wire);
    }

    /// Handles a notice about the body of a request, from any thread.
    pub(crate) fn body_notice<'a>(&mut self, notice: BodyNotice, wire: &mut impl Wire<'a>) {
        if self.state.current != Some(notice.seq) {
            return;
        }
        self.now = self.shared.wall.nanos();
        self.state.set_pace(Pace::Reads);
        match notice.what {
            // The client may wait for `100 Continue`.
            BodyNoticeKind::ReadMore => self.pump(wire),
            BodyNoticeKind::Dropped if self.state.has_reader() => self.discard_rest(wire),
            BodyNoticeKind::Dropped => {}
        }
        self.end_if_done(wire);
        self.go_on(wire);
    }

    /// Goes on with what waited for a part or for a reader, and sends what was written.
    fn go_on<'a>(&mut self, wire: &mut impl Wire<'a>) {
        self.resume(wire);
        if self.state.is_undecided() {
            self.switch_if_due(wire);
        }
        self.settle(wire);
    }

    /// Removes the first response of the queue, which was sent, and `closes` the connection or not.
    fn end_first<'a>(&mut self, closes: bool, wire: &mut impl Wire<'a>) {
        if let Some(began) = self.state.sent(closes) {
            self.cell().total_time(self.now.saturating_sub(began));
        }
        if closes {
            self.leave_unanswered(wire);
        }
    }

    /// Puts a part of a response into its slot.
    fn fill<'a>(&mut self, seq: u64, what: PartKind, wire: &mut impl Wire<'a>) {
        match self.state.fill(seq, what, self.decoder.missing()) {
            Filled::Nothing => {}
            Filled::Unasked => self.fail_body(BodyError::Closed),
            // A client that does not take what was sent before gets none.
            Filled::Interim(head) if wire.is_writable() => self.send_interim(&head, wire),
            Filled::Interim(_) => {}
            Filled::Missing(to, why) => {
                let ready = self.closing(500, to);
                self.state.replace(seq, ready);
                self.report(&why, wire);
            }
            Filled::Broken(why) => self.report(&why, wire),
            Filled::Cut(why) => {
                self.report(&why, wire);
                self.cut(wire);
            }
        }
    }

    fn report<'a>(&self, (what, detail): &Fault, wire: &impl Wire<'a>) {
        let detail = detail.as_ref().map(|detail| detail as &dyn fmt::Display);
        self.trouble(*what, detail, wire);
    }

    /// Sends what is first in the queue, as far as it is known. The caller looks whether the connection
    /// ends then.
    pub(super) fn pump<'a>(&mut self, wire: &mut impl Wire<'a>) {
        loop {
            let close = match self.state.next() {
                Next::Nothing => return,
                Next::Interim(heads) => {
                    for head in heads {
                        self.send_interim(&head, wire);
                    }
                    continue;
                }
                Next::Continue => {
                    wire.output().put_slice(encode::CONTINUE);
                    self.tally.sent(encode::CONTINUE.len());
                    return;
                }
                Next::Whole(whole) => {
                    send_whole(whole, wire, &mut self.tally);
                    whole.close
                }
                Next::Stream(stream) => {
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
                Next::Cut => return self.cut(wire),
            };
            self.end_first(close, wire);
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
        let Some((seq, to)) = self.state.give_up_first() else {
            return;
        };
        let late = self.closing(503, to);
        self.state.replace(seq, late);
        self.give_up_from(seq);
        self.fail_body(BodyError::Closed);
        self.trouble(Trouble::LateResponse, None, wire);
        self.pump(wire);
    }

    /// Tells the deferred responses from `seq` on that they are not sent any more.
    pub(super) fn give_up_from(&self, seq: u64) {
        if let Some(path) = &self.path {
            path.give_up_from(seq);
        }
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
        let Some(Queued { slot, .. }) = self.state.queue.pop() else {
            return;
        };
        let reset = matches!(&slot, Slot::Stream(stream)
            if stream.is_begun() && stream.ends_with_connection());
        discard(slot);
        self.leave_unanswered(wire);
        self.fail_body(BodyError::Closed);
        match &self.channel {
            Some(channel) if reset => {
                self.state.stage = Stage::Ended;
                drop(channel.abort());
            }
            _ => self.end_behind_responses(wire),
        }
    }

    /// Gives up the requests behind a response that has ended the connection.
    fn leave_unanswered<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.state.queue.is_empty() {
            return;
        }
        self.give_up_from(self.state.queue.first_seq());
        let (requests, with_current) = self.state.abandon();
        for _ in 0..requests {
            self.trouble(Trouble::Unanswered, None, wire);
        }
        if with_current {
            self.fail_body(BodyError::Closed);
        }
    }

    /// Ends the connection if no more requests are accepted and every response is sent.
    #[inline]
    pub(super) fn end_if_done<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.state.is_done() {
            self.end_behind_responses(wire);
        }
    }

    /// Ends the connection behind what was written: in stages, if the client may still be sending.
    fn end_behind_responses<'a>(&mut self, wire: &mut impl Wire<'a>) {
        if self.state.has_to_linger() {
            self.forget_kept(wire);
            wire.linger_on_close();
        }
        self.state.stage = Stage::Ended;
        wire.close_when_flushed();
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
