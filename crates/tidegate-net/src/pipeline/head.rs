//! Where a chain ends at the socket: what has passed all handlers on its way out.

use tidegate_promise::{Failure, Promise};

use super::handler::{InEvent, OutOp};
use super::parts::{Action, Parts, bits};
use crate::channel::write_queue::{ENTRY_OVERHEAD, Overfull};
use crate::channel::{Datagram, Mail, Shared};
use crate::errors::NetError;
use crate::message::Msg;

impl Parts {
    #[inline]
    pub(super) fn out_head(&mut self, op: OutOp) {
        match op {
            OutOp::Flush => self.flush_head(),
            OutOp::Close => self.close_head(),
            OutOp::CloseWhenFlushed => self.close_flushed_head(),
            OutOp::ShutdownOutput => self.shutdown_head(),
            OutOp::Read => self.read_wanted = !self.ends(),
        }
    }

    #[inline]
    pub(super) fn flush_head(&mut self) {
        self.queue.flush();
        self.flush_wanted = true;
    }

    /// Has `promise` completed when the operating system has all that has come so far.
    pub(super) fn flush_for(&mut self, promise: Promise<()>) {
        if self.bits & bits::LOST != 0 {
            self.bits &= !bits::LOST;
            return drop(promise.fail(Failure::new(self.why_late())));
        }
        let free = match &mut self.outbox {
            Some(outbox) => outbox.push_flush(promise),
            None => self.queue.push_mark(promise),
        };
        match free {
            // Nothing waits.
            Some(promise) => drop(promise.succeed(())),
            None => self.flush_head(),
        }
    }

    /// Closes as soon as the running handlers have returned.
    #[cold]
    pub(super) fn close_head(&mut self) {
        self.close_wanted = true;
        self.end();
    }

    /// Closes behind what was written before.
    #[cold]
    fn close_flushed_head(&mut self) {
        // Even if a handler holds its flushes back.
        self.flush_head();
        self.close_when_flushed = true;
        self.end();
    }

    /// Bounds the time that the rest may take which is to be sent before the end: from the moment
    /// that somebody asks for the end, since handlers may hold that back with what they hold.
    #[cold]
    pub(crate) fn set_deadline(&self) {
        let after = self.options.close_timeout;
        if after.is_zero() || self.closed || self.shared.has_deadline() {
            return;
        }
        let channel = self.weak();
        let ring = move || {
            if let Some(channel) = channel.upgrade() {
                // Refused: it is closed.
                let _ = Shared::post(&channel, Mail::CloseDeadline, true);
            }
        };
        // A loop that takes no more timers is on its way out, and closes its channels.
        if let Some(timer) = self.schedule(after, ring) {
            self.shared.set_deadline(timer);
        }
    }

    /// Nothing is read any more, and nothing more is taken to be written.
    fn end(&mut self) {
        self.bits |= bits::ENDS;
        self.shared.set_ends();
        self.auto_read = false;
        self.read_wanted = false;
    }

    #[cold]
    fn shutdown_head(&mut self) {
        // What was written before goes before, even if a handler holds its flushes back.
        self.flush_head();
        self.shutdown_wanted = true;
        self.bits |= bits::OUTPUT_ENDS;
    }

    /// A write that has passed all handlers.
    #[inline]
    pub(crate) fn write_head(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        if self.closed | (self.bits & bits::UNUSUAL != 0) {
            return self.write_unusual(msg, promise);
        }
        self.write_usual(msg, promise);
    }

    /// True if it was taken.
    #[inline(always)]
    fn write_usual(&mut self, msg: Msg, promise: Option<Promise<()>>) -> bool {
        let bytes = match msg {
            Msg::Bytes(bytes) => bytes,
            other => return self.write_other(other, promise),
        };
        let pushed = self.queue.push(bytes, promise, &self.options.marks);
        if let Err(Overfull { bytes, promise }) = pushed {
            let why = NetError::Overfull {
                size: bytes.len() + ENTRY_OVERHEAD,
                pending: self.queue.pending(),
                cap: self.options.marks.cap(),
            };
            self.refuse_write(promise, why);
            return false;
        }
        self.look_at_marks();
        true
    }

    /// A write after the end of both halves, or of the one that sends, or after one that was refused,
    /// or to a channel that speaks in datagrams.
    #[inline(never)]
    fn write_unusual(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        if !self.closed && self.bits & (bits::ENDS | bits::OUTPUT_ENDS) == 0 {
            return self.write_again(msg, promise);
        }
        // The handlers need not know: there is nothing after the end to miss it in.
        match promise {
            Some(promise) => drop(promise.fail(Failure::new(self.why_late()))),
            None => self.lose(),
        }
    }

    /// Why a write is not taken that comes after the end.
    fn why_late(&self) -> NetError {
        match self.closed || self.ends() {
            true => NetError::Closed(self.close_cause.clone()),
            false => NetError::OutputShut,
        }
    }

    /// Notes that a write for which nobody waits came too late: the next flush that is waited for
    /// fails.
    pub(super) fn lose(&mut self) {
        self.bits |= bits::LOST;
    }

    /// A write after one that was refused, or to a channel that speaks in datagrams.
    fn write_again(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        let taken = match self.bits & bits::DATAGRAMS {
            0 => self.write_usual(msg, promise),
            _ => self.write_other(msg, promise),
        };
        if taken {
            // The next refusal is news again.
            self.bits &= !bits::REFUSAL_TOLD;
        }
    }

    #[inline(never)]
    fn write_other(&mut self, msg: Msg, promise: Option<Promise<()>>) -> bool {
        let msg = match msg.cast::<Datagram>() {
            Ok(datagram) if self.outbox.is_some() => return self.write_datagram(datagram, promise),
            Ok(datagram) => Msg::to_write(datagram),
            Err(msg) => msg,
        };
        if let Some(mut record) = self.recorded() {
            if promise.as_ref().is_some_and(|one| !one.set_uncancellable()) {
                return true;
            }
            record.outbound.push_back(msg);
            drop(record);
            if let Some(promise) = promise {
                let _ = promise.succeed(());
            }
            return true;
        }
        let why = NetError::Misfit {
            handler: "the socket".to_owned(),
            takes: match self.outbox {
                Some(_) => "datagrams",
                None => "bytes",
            },
            bytes: matches!(msg, Msg::Bytes(_)),
        };
        self.refuse_write(promise, why);
        false
    }

    /// A datagram that has passed all handlers; true if it was taken. It counts for the water marks until it is sent; one
    /// for which there is no room is an error of its promise, or an error event.
    pub(super) fn write_datagram(
        &mut self,
        datagram: Datagram,
        promise: Option<Promise<()>>,
    ) -> bool {
        let full = self.outbox.as_ref().is_some_and(|outbox| outbox.is_full());
        let room = match full {
            true => Err(NetError::ManyDatagrams),
            false => self.hold(datagram.counts()),
        };
        let Some(outbox) = &mut self.outbox else {
            return false;
        };
        match room {
            Ok(()) => {
                outbox.push(datagram, promise);
                true
            }
            Err(why) => {
                outbox.lose();
                let why = datagram.lost(Failure::new(why));
                self.refuse_write(promise, why);
                false
            }
        }
    }

    /// Refuses a write. Its promise fails; if it has none, the handlers hear an error event, since a
    /// stream with a hole in it must not go on silently.
    #[cold]
    fn refuse_write(&mut self, promise: Option<Promise<()>>, why: impl Into<Failure>) {
        let why = why.into();
        match promise {
            Some(promise) => drop(promise.fail(why)),
            None => drop(self.tell_refusal(0, why)),
        }
    }

    /// Tells the handlers from `at` on that a write for which nobody waits was refused: once until
    /// one is taken again, since a stream has one hole until then. Of datagrams each is told, except
    /// those that an event of that kind has caused. A handler that answers an error with a write would
    /// otherwise hear of the refusal of its answer, and so on without end. Returns whether they hear.
    #[cold]
    pub(super) fn tell_refusal(&mut self, at: u32, why: Failure) -> bool {
        let known = match self.bits & bits::DATAGRAMS {
            0 => self.bits & bits::REFUSAL_TOLD != 0,
            _ => self.depth > 0,
        };
        if !known {
            self.bits |= bits::REFUSAL_TOLD;
            let event = InEvent::Error(why);
            self.stack.push(Action::Return { at, event });
        }
        !known
    }
}
