//! The order of responses: a response waits until those of earlier requests are sent.
//!
//! The queue is empty as long as a service responds at once. A response that is deferred, or that
//! follows a deferred one, has a slot. Slots are numbered; the first one may be sent.
//!
//! The first slot is part of the queue. Only a client that sends a request before it has the response
//! to another one needs memory for more.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::{Spares, discard};
use tidegate_net::internal::StreamRoom;

use super::flow::{FlowEnd, Window};
use super::head_writer::{ReplyTo, say_close};
use super::interim::HeldInterim;
use super::metrics::Tally;
use super::part::{StreamHead, Whole};
use super::response::INLINE_BODY;
use super::spare_output;
use super::switch::SwitchPlan;
use super::wire::Wire;
use crate::codec::{BodyEncoder, BodyFraming, EncodeError};

/// The longest line with the size of a chunk, and the end of one that may precede it.
const SIZE_LINE: usize = 24;
const LINE_END: &[u8] = b"\r\n";

/// How many connections of a thread become idle and busy again at once, usually.
const KEPT: usize = 128;
/// The most responses that wait whose memory is kept.
const LARGEST: usize = 16;

thread_local! {
    /// Memory for responses that wait, which the connections of a thread use in turn: an idle connection
    /// holds none, and a proxy, whose responses all wait, does not allocate it with each request.
    static SPARE: Spares<VecDeque<Queued>> = const { Spares::new(KEPT) };
}

/// The responses that are not sent yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct ResponseQueue {
    /// The number of the first slot.
    first: u64,
    /// The first slot. `None` if there is none at all.
    front: Option<Queued>,
    /// The slots behind the first one.
    others: VecDeque<Queued>,
    /// Interim responses of the slots behind the first one.
    pub(crate) held: HeldInterim,
}

/// A response, and when its request began.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) slot: Slot,
    /// The time of the clock; `None` if there was no whole request.
    pub(crate) began: Option<u64>,
}

/// A response that is not sent yet.
#[derive(Debug)]
pub(crate) enum Slot {
    /// The service has not responded.
    Waiting {
        to: ReplyTo,
        /// The client waits for `100 Continue`, which may be sent once this slot is the first.
        owes_continue: bool,
        /// Since when only the service is waited for: the time of the clock.
        since: u64,
    },
    /// The whole response is known. A box, because few wait, and each connection has room for a slot.
    Ready(Box<Whole>),
    /// A response in pieces. Pieces are held only while the slot is not the first one.
    Stream(Box<Stream>),
    /// A response after which the connection is passed on to other handlers.
    Switch(Box<SwitchPlan>),
}

impl Slot {
    /// Returns `true` if the client waits for `100 Continue`.
    pub(crate) fn owes_continue(&self) -> bool {
        matches!(
            self,
            Self::Waiting {
                owes_continue: true,
                ..
            }
        )
    }
}

/// A streamed response.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The head, until it is sent.
    head: Option<BytesMut>,
    /// The status, until it is counted.
    status: Option<u16>,
    framing: BodyFraming,
    encoder: BodyEncoder,
    flow: FlowEnd,
    pub(crate) held: VecDeque<Bytes>,
    /// The last line with the size of a chunk: pieces often have the same size.
    size_line: Bytes,
    /// The trailers, once the service has ended the body.
    pub(crate) end: Option<Vec<(String, Vec<u8>)>>,
    pub(crate) close: bool,
    /// The service has dropped it before its turn: the connection is cut after what is held.
    is_dropped: bool,
}

impl Stream {
    /// Creates a streamed response. If its head `is_sent`, only its body follows.
    pub(crate) fn new(head: StreamHead, is_sent: bool) -> Self {
        Self {
            head: (!is_sent).then_some(head.head),
            status: Some(head.status),
            framing: head.framing,
            encoder: BodyEncoder::new(head.framing),
            flow: head.flow,
            held: VecDeque::new(),
            size_line: Bytes::new(),
            end: None,
            close: head.close,
            is_dropped: false,
        }
    }

    /// Notes that the service has dropped the response before its turn.
    pub(crate) fn drop_early(&mut self) {
        self.say_close();
        self.is_dropped = true;
    }

    /// Returns `true` if the connection is cut after what was sent.
    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped
    }

    /// Returns `true` if the client would take the part of a dropped response for the whole, unless the
    /// connection is reset. A reset could also take the responses before it.
    pub(crate) fn is_unsendable(&self) -> bool {
        self.is_dropped && !self.is_begun() && self.ends_with_connection()
    }

    /// Returns `true` if the head was sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.head.is_none()
    }

    /// Returns `true` if the end of the connection is the end of the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.framing == BodyFraming::UntilClose
    }

    /// Makes this response the last one of its connection, if its head is not sent.
    pub(crate) fn say_close(&mut self) {
        if let Some(head) = self.head.as_mut().filter(|_| !self.close) {
            say_close(head);
            self.close = true;
        }
    }

    /// Sends what is known of the response. Returns `true` at its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is longer or shorter than declared.
    pub(crate) fn send<'a>(
        &mut self,
        wire: &mut impl Wire<'a>,
        window: &mut Window,
        tally: &mut Tally,
    ) -> Result<bool, EncodeError> {
        if let Some(status) = self.status.take() {
            let room = StreamRoom::of(&wire.channel());
            self.flow.take_turn(window.at_start(room));
            tally.response(status);
        }
        if let Some(head) = self.head.take() {
            tally.sent(head.len());
            spare_output::send(head, wire);
        }
        while let Some(piece) = self.held.pop_front() {
            let room = || StreamRoom::of(&wire.channel());
            self.flow.wrote(piece.len(), window, room);
            // The response to a `HEAD`, for example, has no body, whatever the service writes.
            if piece.is_empty() || self.framing == BodyFraming::Empty {
                continue;
            }
            if piece.len() > INLINE_BODY {
                self.send_large(piece, wire, tally)?;
                continue;
            }
            let out = wire.output();
            let before = out.len();
            self.encoder.data(out, &piece)?;
            tally.sent(out.len() - before);
        }
        let Some(trailers) = self.end.take() else {
            return Ok(false);
        };
        let out = wire.output();
        let before = out.len();
        match trailers.is_empty() || self.framing != BodyFraming::Chunked {
            true => self.encoder.finish(out)?,
            false => {
                let trailers = trailers.iter().map(|(name, value)| (&name[..], &value[..]));
                let trailers: Vec<_> = trailers.collect();
                self.encoder.finish_with_trailers(out, &trailers)?;
            }
        }
        tally.sent(out.len() - before);
        Ok(true)
    }

    /// Notes that what is known was sent. Returns the status with the head, and `true` at the end.
    #[cfg(test)]
    pub(crate) fn send_to_nobody(&mut self) -> (Option<u16>, bool) {
        self.head = None;
        self.held.clear();
        (self.status.take(), self.end.take().is_some())
    }

    /// Sends a large piece from its own memory. What is around it is sent from memory that many pieces
    /// share: an output of the loop has room for much more, and each piece would need two of them.
    fn send_large<'a>(
        &mut self,
        piece: Bytes,
        wire: &mut impl Wire<'a>,
        tally: &mut Tally,
    ) -> Result<(), EncodeError> {
        let mut memory = [0_u8; SIZE_LINE];
        let mut room = &mut memory[..];
        self.encoder.data_prefix(&mut room, piece.len())?;
        let length = SIZE_LINE - room.len();
        if length > 0 {
            if self.size_line != memory[..length] {
                self.size_line = Bytes::copy_from_slice(&memory[..length]);
            }
            wire.send(self.size_line.clone());
        }
        tally.sent(length + piece.len());
        wire.send(piece);
        // With its chunk: a client may wait for the whole of it.
        let mut room = &mut memory[..];
        self.encoder.data_suffix(&mut room);
        if room.len() < SIZE_LINE {
            tally.sent(LINE_END.len());
            wire.send(Bytes::from_static(LINE_END));
        }
        Ok(())
    }
}

impl ResponseQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.front.is_some()) + self.others.len()
    }

    /// Returns the number of the slot that the next [`ResponseQueue::push`] adds.
    pub(crate) fn next_seq(&self) -> u64 {
        self.first + self.len() as u64
    }

    pub(crate) fn push(&mut self, slot: Slot, began: Option<u64>) {
        let queued = Queued { slot, began };
        match self.front.is_none() {
            true => self.front = Some(queued),
            false => self.push_behind(queued),
        }
    }

    #[cold]
    fn push_behind(&mut self, queued: Queued) {
        if self.others.capacity() == 0 {
            self.others = Spares::take(&SPARE).unwrap_or_default();
        }
        self.others.push_back(queued);
    }

    /// Returns slot `seq`, unless it was sent.
    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Slot> {
        let at = usize::try_from(seq.checked_sub(self.first)?).ok()?;
        let queued = match at.checked_sub(1) {
            None => self.front.as_mut(),
            Some(behind) => self.others.get_mut(behind),
        };
        queued.map(|queued| &mut queued.slot)
    }

    /// Returns `true` if slot `seq` is the first one.
    pub(crate) fn is_first(&self, seq: u64) -> bool {
        seq == self.first
    }

    /// Removes and returns the interim responses of the first slot.
    pub(crate) fn take_held(&mut self) -> Vec<Bytes> {
        self.held.take(self.first)
    }

    /// Returns `true` if slot `seq` is the first one, and waits for the service alone.
    pub(crate) fn is_awaited(&self, seq: u64) -> bool {
        let first = self.front.as_ref().filter(|_| seq == self.first);
        first.is_some_and(|first| {
            matches!(
                first.slot,
                Slot::Waiting {
                    owes_continue: false,
                    ..
                }
            )
        })
    }

    /// Returns the number of the first slot, and since when the service is waited for, if it is.
    pub(crate) fn front_waiting(&self) -> Option<(u64, u64)> {
        match self.front.as_ref()?.slot {
            Slot::Waiting { since, .. } => Some((self.first, since)),
            _ => None,
        }
    }

    /// Returns the number of the first slot, or that of the next one if there is none.
    pub(crate) fn first_seq(&self) -> u64 {
        self.first
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Slot> {
        self.front.as_mut().map(|queued| &mut queued.slot)
    }

    /// Removes all slots: they are not sent any more. Returns how many requests get no response. The
    /// slots may own values of the service, whose drop may panic.
    pub(crate) fn clear(&mut self) -> usize {
        let mut requests = 0;
        self.held.clear();
        while let Some(queued) = self.pop() {
            requests += usize::from(queued.began.is_some());
            discard(queued);
        }
        requests
    }

    /// Returns `true` if the head of the last response was sent, and says that the connection stays.
    pub(crate) fn last_keeps_open(&self) -> bool {
        let last = self.others.back().or(self.front.as_ref());
        matches!(last.map(|last| &last.slot), Some(Slot::Stream(last)) if last.is_begun() && !last.close)
    }

    /// Makes the last response say that the connection ends with it, if it is the first one of the
    /// queue and its head is known but not sent.
    pub(crate) fn say_close_if_last(&mut self) {
        if self.len() != 1 {
            return;
        }
        match self.front_mut() {
            Some(Slot::Ready(whole)) if !whole.close => {
                say_close(&mut whole.head);
                whole.close = true;
            }
            Some(Slot::Stream(stream)) => stream.say_close(),
            _ => {}
        }
    }

    /// Removes the first slot: it was sent.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let queued = self.front.take()?;
        self.first += 1;
        if !self.others.is_empty() {
            self.advance();
        }
        Some(queued)
    }

    /// Makes the next slot the first one.
    #[cold]
    fn advance(&mut self) {
        self.front = self.others.pop_front();
        if self.others.is_empty() {
            let spare = std::mem::take(&mut self.others);
            if (1..=LARGEST).contains(&spare.capacity()) {
                Spares::put_back(&SPARE, spare);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Slot {
        Slot::Waiting {
            to: ReplyTo::unknown(),
            owes_continue: false,
            since: 0,
        }
    }

    #[test]
    fn numbers_continue_when_slots_are_sent() {
        let mut queue = ResponseQueue::default();
        assert_eq!(queue.next_seq(), 0);
        queue.push(waiting(), Some(7));
        queue.push(Slot::Ready(Box::default()), None);
        let first = queue.pop().unwrap();
        assert!(matches!(first.slot, Slot::Waiting { .. }));
        assert_eq!(first.began, Some(7));
        assert!(queue.get_mut(0).is_none());
        assert!(matches!(queue.get_mut(1), Some(Slot::Ready(_))));
        assert_eq!(queue.next_seq(), 2);
        queue.pop();
        assert!(queue.is_empty());
        assert_eq!(queue.next_seq(), 2);
    }

    #[test]
    fn slots_stay_in_order_and_an_empty_queue_holds_no_memory() {
        let mut queue = ResponseQueue::default();
        // Each round leaves some in the queue and removes others, until all are gone.
        for round in 0..3_u64 {
            let before = queue.next_seq();
            for at in 0..4 {
                queue.push(waiting(), Some(before + at));
            }
            assert_eq!(queue.len(), 4 + round as usize);
            for _ in 0..3 {
                let first = queue.next_seq() - queue.len() as u64;
                assert_eq!(queue.front_waiting(), Some((first, 0)));
                assert!(queue.is_awaited(first) && !queue.is_awaited(first + 1));
                assert!(queue.get_mut(queue.next_seq()).is_none());
                assert!(queue.get_mut(queue.next_seq() - 1).is_some());
                assert_eq!(queue.pop().unwrap().began, Some(first));
                assert!(queue.get_mut(first).is_none());
            }
        }
        assert_eq!(queue.clear(), 3);
        assert!(queue.is_empty() && queue.pop().is_none());
        assert_eq!((queue.len(), queue.others.capacity()), (0, 0));
        assert_eq!(queue.next_seq(), 12);
    }
}
