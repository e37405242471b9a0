//! What becomes of a request when the service has returned: its response is completed or replaced,
//! and waits for its turn.

use bytes::{Bytes, BytesMut};
use tidegate_core::CaughtPanic;

use super::Connection;
use super::state::Tail;
use crate::codec::RequestHead;
use crate::server::head_writer::{ReplyTo, Switches, insert_continue, say_close, write_closing};
use crate::server::part::{StreamHead, Whole};
use crate::server::queue::{Slot, Stream};
use crate::server::request::{Intake, Pace};
use crate::server::response::Served;
use crate::server::service::Service;
use crate::server::trouble::Trouble;
use crate::server::wire::Wire;

/// How many bytes of a path a report shows.
const LONGEST_SHOWN: usize = 100;

/// What the response to a request depends on.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) head: RequestHead<'a>,
    pub(super) to: ReplyTo,
    /// When the request began.
    pub(super) began: u64,
}

impl<S: Service> Connection<S> {
    /// Returns `true` if the service reads the body and has not ended its response.
    fn reads_on(&self, served: &Served) -> bool {
        let goes_on = matches!(served, Served::Deferred | Served::Streams { .. });
        goes_on && self.state.has_reader()
    }

    /// Returns `true` if the client gets `100 Continue` only when the service begins to read.
    fn asks_first(&self, served: &Served) -> bool {
        let is_deferred = matches!(served, Served::Deferred);
        is_deferred && matches!(&self.state.intake, Intake::Sink(sink, _) if sink.asks_first())
    }

    /// Puts `100 Continue` before the head of a streamed response, if the client waits for it. A
    /// response without it ends the connection, and so does one before a large body that nothing reads.
    pub(super) fn put_continue(
        &mut self,
        served: &mut Served,
        expects: bool,
        out: &mut BytesMut,
        start: usize,
    ) {
        let reads_on = self.reads_on(served);
        let missing = self.decoder.missing();
        if !expects && (reads_on || !self.state.has_too_much_left(missing)) {
            return;
        }
        if expects && self.asks_first(served) {
            self.state.set_pace(Pace::Holds);
        }
        match served {
            Served::Streams { .. } if reads_on => insert_continue(out, start),
            Served::Streams { close, .. }
            | Served::Written { close, .. }
            | Served::File { close, .. }
                if !*close =>
            {
                *close = true;
                let mut response = out.split_off(start);
                say_close(&mut response);
                out.unsplit(response);
            }
            _ => {}
        }
    }

    /// Handles a panic of the service. What it has responded before counts, but no change of the
    /// protocol.
    #[cold]
    pub(super) fn panicked<'a>(
        &mut self,
        panic: &CaughtPanic,
        head: &RequestHead<'_>,
        served: &mut Served,
        wire: &impl Wire<'a>,
    ) {
        // Without the query, which may be a secret. A long path would fill the log.
        let path = head.path().get(..LONGEST_SHOWN).unwrap_or(head.path());
        let detail = format!(
            "{}; the request was {} {path}",
            panic.message(),
            head.method()
        );
        self.trouble(Trouble::Panic, Some(&detail), wire);
        self.state.close(Tail::Read);
        if let Served::Switches(_) = served {
            *served = Served::Nothing;
        }
    }

    /// Counts and reports a response that the service did not make. A panic was reported already.
    pub(super) fn report_missing<'a>(&self, served: &Served, panicked: bool, wire: &impl Wire<'a>) {
        match served {
            Served::Nothing if !panicked => self.trouble(Trouble::Dropped, None, wire),
            Served::Mistake(mistake) => self.trouble(Trouble::Mistake(*mistake), None, wire),
            _ => {}
        }
    }

    /// Writes status 500 in place of a response that the service did not make.
    pub(super) fn replace_missing(
        &mut self,
        served: Served,
        out: &mut BytesMut,
        start: usize,
        to: ReplyTo,
        status: &mut u16,
    ) -> Served {
        if !matches!(served, Served::Nothing | Served::Mistake(_)) {
            return served;
        }
        out.truncate(start);
        let date = self.shared.wall.date_at(self.now);
        write_closing(out, 500, to, &date);
        *status = 500;
        Served::Written {
            body: Bytes::new(),
            close: true,
        }
    }

    /// Puts a response into the queue, and decides what becomes of the request's body. `head` is
    /// what was written of the response; if `direct`, it is already on its way.
    pub(super) fn enqueue(
        &mut self,
        served: Served,
        head: BytesMut,
        direct: bool,
        status: u16,
        asked: Asked<'_>,
    ) {
        let to = asked.to;
        let reads_on = self.reads_on(&served);
        let ends = !to.keep_alive || self.shared.is_draining() || served.closes();
        let Some(slot) = self.slot_of(served, head, direct, status, asked) else {
            return;
        };
        let decides = match slot {
            Slot::Waiting { .. } => to.switches != Switches::No,
            Slot::Switch(_) => true,
            Slot::Ready(_) | Slot::Stream(_) => false,
        };
        // A client that waits for `100 Continue` and got a response may send the body or not:
        // nothing after this response can be understood.
        let tail = match asked.head.expects_continue() && !reads_on {
            true => Some(Tail::Unread),
            false => ends.then_some(Tail::Read),
        };
        let safe = asked.head.method().is_safe();
        self.state.respond(slot, asked.began, safe, decides, tail);
    }

    /// Returns the response as it waits for its turn.
    fn slot_of(
        &self,
        served: Served,
        head: BytesMut,
        direct: bool,
        status: u16,
        asked: Asked<'_>,
    ) -> Option<Slot> {
        Some(match served {
            Served::Deferred => Slot::Waiting {
                to: asked.to,
                owes_continue: asked.head.expects_continue() && self.reads_on(&served),
                since: self.now,
            },
            Served::Streams {
                framing,
                close,
                flow,
            } => {
                let head = StreamHead {
                    head,
                    framing,
                    close,
                    status,
                    flow,
                };
                Slot::Stream(Box::new(Stream::new(head, direct)))
            }
            Served::Written { body, close } => Slot::Ready(Box::new(Whole {
                head,
                body,
                close,
                status,
                ..Whole::default()
            })),
            Served::File { range, close } => Slot::Ready(Box::new(Whole {
                head,
                file: Some(range),
                close,
                status,
                ..Whole::default()
            })),
            Served::Switches(plan) => Slot::Switch(plan),
            Served::Nothing | Served::Mistake(_) => return None,
        })
    }
}
