//! Where a chain ends at the socket: what has passed all handlers on its way out.

use tidegate_promise::{Failure, Promise};

use super::handler::{InEvent, OutOp};
use super::parts::{Action, Parts, bits};
use crate::channel::Datagram;
use crate::errors::NetError;
use crate::message::Msg;
use crate::write_queue::Overfull;

impl Parts {
    #[inline]
    pub(super) fn out_head(&mut self, op: OutOp) {
        match op {
            OutOp::Flush => self.flush_head(),
            OutOp::Close => self.close_wanted = true,
            OutOp::CloseWhenFlushed => self.close_when_flushed = true,
            OutOp::ShutdownOutput => self.shutdown_head(),
            OutOp::Read => self.read_wanted = true,
        }
    }

    #[inline]
    pub(super) fn flush_head(&mut self) {
        self.queue.flush();
        self.flush_wanted = true;
    }

    /// Has `promise` completed when the operating system has all that has come so far.
    pub(super) fn flush_for(&mut self, promise: Promise<()>) {
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
        if self.closed | (self.bits & (bits::OUTPUT_ENDS | bits::DATAGRAMS) != 0) {
            return self.write_unusual(msg, promise);
        }
        let bytes = match msg {
            Msg::Bytes(bytes) => bytes,
            other => return self.write_other(other, promise),
        };
        let pushed = self.queue.push(bytes, promise, &self.options.marks);
        if let Err(Overfull { promise, .. }) = pushed {
            let cap = self.options.marks.cap();
            let pending = self.queue.pending();
            return self.refuse_write(promise, NetError::Overfull { pending, cap });
        }
        self.look_at_marks();
    }

    /// A write after the end of both halves, or of the one that sends, or to a channel that speaks
    /// in datagrams.
    #[inline(never)]
    fn write_unusual(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        let why = match self.closed {
            true => NetError::Closed(self.close_cause.clone()),
            false if self.bits & bits::OUTPUT_ENDS == 0 => return self.write_other(msg, promise),
            false => NetError::OutputShut,
        };
        // Who asked for no answer needs none: there is nothing after the end to miss it in.
        if let Some(promise) = promise {
            let _ = promise.fail(Failure::new(why));
        }
    }

    #[inline(never)]
    fn write_other(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        let msg = match msg.cast::<Datagram>() {
            Ok(datagram) if self.outbox.is_some() => return self.write_datagram(datagram, promise),
            Ok(datagram) => Msg::to_write(datagram),
            Err(msg) => msg,
        };
        if let Some(mut record) = self.recorded() {
            if promise.as_ref().is_some_and(|one| !one.set_uncancellable()) {
                return;
            }
            record.outbound.push_back(msg);
            drop(record);
            if let Some(promise) = promise {
                let _ = promise.succeed(());
            }
            return;
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
    }

    /// A datagram that has passed all handlers. It counts for the water marks until it is sent; one
    /// for which there is no room is an error of its promise, or an error event.
    pub(super) fn write_datagram(&mut self, datagram: Datagram, promise: Option<Promise<()>>) {
        let full = self.outbox.as_ref().is_some_and(|outbox| outbox.is_full());
        let room = match full {
            true => Err(NetError::ManyDatagrams),
            false => self.hold(datagram.counts()),
        };
        let Some(outbox) = &mut self.outbox else {
            return;
        };
        match room {
            Ok(()) => outbox.push(datagram, promise),
            Err(why) => {
                outbox.lose();
                let why = datagram.lost(Failure::new(why));
                self.refuse_write(promise, why);
            }
        }
    }

    /// A write that cannot be: its promise hears of it; who asked for none hears an error event,
    /// since a stream with a hole in it must not go on silently.
    #[cold]
    fn refuse_write(&mut self, promise: Option<Promise<()>>, why: impl Into<Failure>) {
        let why = why.into();
        match promise {
            Some(promise) => drop(promise.fail(why)),
            None => {
                let event = InEvent::Error(why);
                self.stack.push(Action::In { at: 0, event });
            }
        }
    }
}
