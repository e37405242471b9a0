//! Where a chain ends at the socket: what has passed all handlers on its way out.

use tidegate_promise::{Failure, Promise};

use super::parts::Parts;
use super::stack::Action;
use crate::channel::write_queue::{ENTRY_OVERHEAD, Overfull};
use crate::channel::{Datagram, Flags, InEvent};
use crate::errors::NetError;
use crate::message::Msg;

/// What makes a write unusual that is not too late.
const UNUSUAL: Flags = Flags::DATAGRAMS.and(Flags::REFUSAL_TOLD);

impl Parts {
    /// A write that has passed all handlers.
    #[inline]
    pub(crate) fn write_head(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        if !self.io.state.takes_writes() | self.io.state.flags.any(UNUSUAL) {
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
        let pushed = self.io.queue.push(bytes, promise, &self.io.options.marks);
        if let Err(Overfull { bytes, promise }) = pushed {
            let why = NetError::Overfull {
                size: bytes.len() + ENTRY_OVERHEAD,
                pending: self.io.queue.pending(),
                cap: self.io.options.marks.cap(),
            };
            self.refuse_write(promise, why);
            return false;
        }
        self.io.look_at_marks();
        true
    }

    /// A write after the end of both halves, or of the one that sends, or after one that was refused,
    /// or to a channel that speaks in datagrams.
    #[inline(never)]
    fn write_unusual(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        if self.io.state.takes_writes() {
            return self.write_again(msg, promise);
        }
        // The handlers need not know: there is nothing after the end to miss it in.
        match promise {
            Some(promise) => drop(promise.fail(Failure::new(self.io.why_late()))),
            None => self.io.lose(),
        }
    }

    /// A write after one that was refused, or to a channel that speaks in datagrams.
    fn write_again(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        let taken = match self.io.state.flags.any(Flags::DATAGRAMS) {
            false => self.write_usual(msg, promise),
            true => self.write_other(msg, promise),
        };
        if taken {
            // The next refusal is news again.
            self.io.state.flags.clear(Flags::REFUSAL_TOLD);
        }
    }

    #[inline(never)]
    fn write_other(&mut self, msg: Msg, promise: Option<Promise<()>>) -> bool {
        let msg = match msg.cast::<Datagram>() {
            Ok(datagram) if self.io.outbox.is_some() => {
                return self.write_datagram(datagram, promise);
            }
            Ok(datagram) => Msg::to_write(datagram),
            Err(msg) => msg,
        };
        if let Some(mut record) = self.io.recorded() {
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
            takes: match self.io.outbox {
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
        let full = self
            .io
            .outbox
            .as_ref()
            .is_some_and(|outbox| outbox.is_full());
        let room = match full {
            true => Err(NetError::ManyDatagrams),
            false => self.io.hold(datagram.counts()),
        };
        let Some(outbox) = &mut self.io.outbox else {
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
        let flags = &mut self.io.state.flags;
        let known = match flags.any(Flags::DATAGRAMS) {
            false => flags.any(Flags::REFUSAL_TOLD),
            true => self.depth > 0,
        };
        if !known {
            flags.set(Flags::REFUSAL_TOLD);
            let event = InEvent::Error(why);
            self.stack.push(Action::Return { at, event });
        }
        !known
    }
}
