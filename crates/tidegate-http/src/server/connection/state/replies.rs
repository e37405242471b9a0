//! The responses of a connection: each finds its place, and one is the next.

use bytes::Bytes;

use super::{Stage, State, Tail, Turn};
use crate::server::head_writer::{ReplyTo, insert_continue, say_close};
use crate::server::part::{PartKind, StreamHead, Whole};
use crate::server::queue::{Slot, Stream};
use crate::server::request::{Intake, Pace};
use crate::server::trouble::Trouble;

/// What is sent next.
pub(crate) enum Next<'a> {
    /// Nothing can be sent now.
    Nothing,
    Interim(Vec<Bytes>),
    Continue,
    Whole(&'a mut Whole),
    Stream(&'a mut Stream),
    /// The first response cannot be sent: the connection ends without it.
    Cut,
}

/// What is left to do when a part of a response has found its place.
pub(crate) enum Filled {
    Nothing,
    /// The body is not received any more.
    Unasked,
    /// The head of an interim response whose turn it is.
    Interim(Bytes),
    /// A response of the server takes the place of this one.
    Missing(ReplyTo, Fault),
    /// The response ends in its middle, in its turn.
    Broken(Fault),
    /// It does so now, and the connection with it.
    Cut(Fault),
}

/// What the service has done wrong, for a report.
pub(crate) type Fault = (Trouble, Option<String>);

impl State {
    /// Puts the response to the current request into the queue. The connection goes on, ends with it, or
    /// is passed on, if the response `decides` about the protocol. A method that is not `safe` runs alone.
    pub(crate) fn respond(
        &mut self,
        slot: Slot,
        began: u64,
        safe: bool,
        decides: bool,
        ends: Option<Tail>,
    ) {
        let seq = self.queue.next_seq();
        self.queue.push(slot, Some(began));
        if decides && self.stage == Stage::Open {
            self.turn = Turn::Undecided(seq);
            return;
        }
        self.turn = match safe {
            true => Turn::Shared,
            false => Turn::Alone,
        };
        if let Intake::Unasked = self.intake {
            self.intake = Intake::Discard(self.discard);
        }
        if let Some(tail) = ends {
            self.close(tail);
        }
    }

    /// Returns `true` if the response `seq` comes before so much of its request's body that the connection
    /// ends with it. The client should know that from its head (RFC 9112, section 9.6).
    fn ends_early(&self, seq: u64, missing: Option<u64>) -> bool {
        self.in_body() && self.current == Some(seq) && self.has_too_much_left(missing)
    }

    /// Returns `true` if the client waits for this response, and its turn changes nothing else. So are
    /// nearly all of a proxy.
    #[inline]
    pub(crate) fn is_next(&self, seq: u64, whole: &Whole, missing: Option<u64>) -> bool {
        self.stage == Stage::Open
            && !whole.close
            && self.queue.is_awaited(seq)
            && !self.ends_early(seq, missing)
    }

    /// Puts a part of a response into its slot. A part of a response that was given up is dropped.
    pub(crate) fn fill(&mut self, seq: u64, what: PartKind, missing: Option<u64>) -> Filled {
        let ends_early = self.ends_early(seq, missing);
        let Some(slot) = self.queue.get_mut(seq) else {
            return Filled::Nothing;
        };
        match (slot, what) {
            (slot @ Slot::Waiting { .. }, PartKind::Whole(whole)) => {
                let (unasked, last) = (slot.owes_continue(), whole.close || ends_early);
                *slot = Slot::Ready(Box::new(whole));
                if unasked {
                    // As for a response at once: the client may send the body or not.
                    self.close(Tail::Unread);
                    return Filled::Unasked;
                }
                if last {
                    // Nothing behind it would be answered.
                    self.close(Tail::Read);
                }
            }
            (slot @ Slot::Waiting { .. }, PartKind::Switch(plan)) => *slot = Slot::Switch(plan),
            (slot @ Slot::Waiting { .. }, PartKind::Head(mut head)) => {
                let owes_continue = slot.owes_continue();
                self.begin_stream(&mut head, owes_continue, ends_early);
                self.replace(seq, Slot::Stream(Box::new(Stream::new(head, false))));
            }
            (Slot::Waiting { .. }, PartKind::Interim(head)) => match self.queue.is_first(seq) {
                true => return Filled::Interim(head),
                false => self.queue.held.hold(seq, head),
            },
            (Slot::Waiting { to, .. }, what) => {
                let to = *to;
                return fault(what).map_or(Filled::Nothing, |why| Filled::Missing(to, why));
            }
            (Slot::Stream(stream), PartKind::Data(bytes)) => stream.held.push_back(bytes),
            (Slot::Stream(stream), PartKind::End { trailers }) => stream.end = Some(trailers),
            (Slot::Stream(stream), what @ (PartKind::Dropped | PartKind::Failed(_))) => {
                if stream.is_begun() {
                    return fault(what).map_or(Filled::Nothing, Filled::Cut);
                }
                // The client gets the same as it would have got without the responses before it.
                stream.drop_early();
                self.close(Tail::Read);
                return fault(what).map_or(Filled::Nothing, Filled::Broken);
            }
            _ => {}
        }
        Filled::Nothing
    }

    /// Begins a streamed response. It goes to a client that may wait for `100 Continue`.
    fn begin_stream(&mut self, head: &mut StreamHead, owes_continue: bool, ends_early: bool) {
        if !self.has_reader() && (owes_continue || ends_early) {
            // As for a response at once: the client may send the body or not.
            if !std::mem::replace(&mut head.close, true) {
                say_close(&mut head.head);
            }
            self.close(Tail::Unread);
        } else if owes_continue {
            // The service has kept the body, so it reads while it responds.
            insert_continue(&mut head.head, 0);
            self.set_pace(Pace::Reads);
        }
    }

    /// Puts another response into the place of `seq`.
    pub(crate) fn replace(&mut self, seq: u64, other: Slot) {
        if let Some(slot) = self.queue.get_mut(seq) {
            *slot = other;
        }
    }

    /// Returns the number of the current request and what its response depends on, if that has not begun.
    pub(crate) fn current_waiting(&mut self) -> Option<(u64, ReplyTo)> {
        let seq = self.current?;
        match self.slot()? {
            Slot::Waiting { to, .. } => Some((seq, *to)),
            _ => None,
        }
    }

    /// Gives up the response that the client waits for, and ends with it. Returns its number and what it
    /// depends on, to replace it.
    pub(crate) fn give_up_first(&mut self) -> Option<(u64, ReplyTo)> {
        let (seq, _) = self.queue.front_waiting()?;
        self.decided(seq);
        match *self.queue.front_mut()? {
            Slot::Waiting {
                to, owes_continue, ..
            } => {
                self.close(match owes_continue {
                    true => Tail::Unread,
                    false => Tail::Read,
                });
                Some((seq, to))
            }
            _ => None,
        }
    }

    /// Returns what is sent next, as far as it is known.
    #[inline]
    pub(crate) fn next(&mut self) -> Next<'_> {
        if let Stage::Closing(_) = self.stage {
            self.queue.say_close_if_last();
        }
        if !self.queue.held.is_empty() {
            let heads = self.queue.take_held();
            if !heads.is_empty() {
                return Next::Interim(heads);
            }
        }
        // A service that has not begun to read may respond without the body.
        let reads = matches!(self.intake, Intake::Sink(_, Pace::Reads));
        match self.queue.front_mut() {
            Some(Slot::Waiting { owes_continue, .. }) if *owes_continue && reads => {
                *owes_continue = false;
                Next::Continue
            }
            // A change of the protocol waits until the rest of the received bytes is known.
            None | Some(Slot::Waiting { .. } | Slot::Switch(_)) => Next::Nothing,
            Some(Slot::Ready(whole)) => Next::Whole(whole),
            Some(Slot::Stream(stream)) if stream.is_unsendable() => Next::Cut,
            Some(Slot::Stream(stream)) => Next::Stream(stream),
        }
    }

    /// Removes the first response, which was sent, and `closes` the connection or not. Returns when its
    /// request began.
    #[inline]
    pub(crate) fn sent(&mut self, closes: bool) -> Option<u64> {
        if closes {
            self.close(Tail::Read);
        }
        self.queue.pop()?.began
    }

    /// Drops the responses behind one that has ended the connection. Returns how many requests get none, and
    /// `true` if the last one is among them.
    pub(crate) fn abandon(&mut self) -> (usize, bool) {
        let with_current = self.slot().is_some();
        (self.queue.clear(), with_current)
    }
}

/// Returns what is wrong with a response of which this is the end.
fn fault(what: PartKind) -> Option<Fault> {
    match what {
        PartKind::Dropped => Some((Trouble::Dropped, None)),
        PartKind::Mistake(mistake) => Some((Trouble::Mistake(mistake), None)),
        PartKind::Failed(why) => Some((why.what, Some(why.detail))),
        _ => None,
    }
}
