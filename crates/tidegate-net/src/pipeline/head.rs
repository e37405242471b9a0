//! The socket end of a chain: handles writes that have passed all handlers.

use tidegate_promise::{Failure, Promise};

use super::pipeline_state::PipelineState;
use super::stack::Action;
use crate::channel::write_queue::{ENTRY_OVERHEAD, FILE_ENTRY, Overfull};
use crate::channel::{Datagram, FileRange, Flags, InEvent, refuse_write};
use crate::errors::NetError;
use crate::message::Msg;

/// The flags that send a write through the slow path although the channel still accepts writes.
const UNUSUAL: Flags = Flags::DATAGRAMS.union(Flags::REFUSAL_REPORTED);

impl PipelineState {
    /// Handles a write that has passed all handlers.
    #[inline]
    pub(crate) fn write_head(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        if !self.io.state.takes_writes() | self.io.state.flags.any(UNUSUAL) {
            return self.write_unusual(msg, promise);
        }
        self.write_usual(msg, promise);
    }

    /// Queues a write. Returns `true` if it was accepted.
    #[inline(always)]
    fn write_usual(&mut self, msg: Msg, promise: Option<Promise<()>>) -> bool {
        let bytes = match msg {
            Msg::Bytes(bytes) => bytes,
            other => return self.write_other(other, promise),
        };
        let pushed = self.io.queue.push(bytes, promise, &self.io.options.marks);
        if let Err(Overfull { bytes, promise }) = pushed {
            let why = NetError::WriteQueueFull {
                size: bytes.len() + ENTRY_OVERHEAD,
                pending: self.io.queue.pending(),
                cap: self.io.options.marks.cap(),
            };
            self.refuse_write(Msg::Bytes(bytes), promise, why);
            return false;
        }
        self.io.look_at_marks();
        true
    }

    /// Handles a write in the slow path: the channel or its sending half is closed, an earlier
    /// write was refused, or the channel carries datagrams.
    #[inline(never)]
    fn write_unusual(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        if self.io.state.takes_writes() {
            return self.write_again(msg, promise);
        }
        // No error event: the stream has ended, so the lost write leaves no gap in it.
        if promise.is_none() {
            self.io.mark_lost_write();
        }
        refuse_write(msg, promise, self.io.why_late());
    }

    /// Handles a write after a refused one, or to a channel that carries datagrams.
    fn write_again(&mut self, msg: Msg, promise: Option<Promise<()>>) {
        let taken = match self.io.state.flags.any(Flags::DATAGRAMS) {
            false => self.write_usual(msg, promise),
            true => self.write_other(msg, promise),
        };
        if taken {
            // The next refusal is reported again.
            self.io.state.flags.clear(Flags::REFUSAL_REPORTED);
        }
    }

    #[inline(never)]
    fn write_other(&mut self, msg: Msg, promise: Option<Promise<()>>) -> bool {
        if msg.is_text() {
            let bytes = msg.text_to_bytes();
            return match self.io.outbox.is_some() {
                true => self.write_other(bytes, promise),
                false => self.write_usual(bytes, promise),
            };
        }
        let msg = match msg.cast::<Datagram>() {
            Ok(datagram) if self.io.outbox.is_some() => {
                return self.write_datagram(datagram, promise);
            }
            Ok(datagram) => Msg::to_write(datagram),
            Err(msg) => msg,
        };
        let msg = match msg.cast::<FileRange>() {
            Ok(range) if self.io.outbox.is_none() => return self.write_file(range, promise),
            Ok(range) => Msg::to_write(range),
            Err(msg) => msg,
        };
        if self.io.is_recorded() {
            self.record_write(msg, promise);
            return true;
        }
        let why = NetError::TypeMismatch {
            handler: "the socket".to_owned(),
            takes: match self.io.outbox {
                Some(_) => "datagrams",
                None => "bytes",
            },
            got: msg.describe(),
        };
        self.refuse_write(msg, promise, why);
        false
    }

    /// Records a write for a test, unless it was cancelled.
    #[cold]
    fn record_write(&self, msg: Msg, promise: Option<Promise<()>>) {
        if promise.as_ref().is_some_and(|one| !one.set_uncancellable()) {
            return msg.refuse(Failure::cancelled());
        }
        if let Some(mut record) = self.io.recorded() {
            record.outbound.push_back(msg);
        }
        if let Some(promise) = promise {
            let _ = promise.succeed(());
        }
    }

    /// Queues a range of a file. Returns `true` if it was accepted.
    fn write_file(&mut self, range: FileRange, promise: Option<Promise<()>>) -> bool {
        let pushed = self
            .io
            .queue
            .push_file(range, promise, &self.io.options.marks);
        if let Err(promise) = pushed {
            let why = NetError::WriteQueueFull {
                size: FILE_ENTRY,
                pending: self.io.queue.pending(),
                cap: self.io.options.marks.cap(),
            };
            self.refuse_promise(promise, why);
            return false;
        }
        self.io.look_at_marks();
        true
    }

    /// Queues a datagram that has passed all handlers. Returns `true` if it was accepted. It counts
    /// against the water marks until it is sent. If there is no room, its promise fails, or an
    /// error event follows.
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
            true => Err(NetError::TooManyDatagrams),
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
                outbox.count_lost();
                let why = datagram.lost(Failure::new(why));
                self.refuse_promise(promise, why);
                false
            }
        }
    }

    /// Refuses a write, and hands its message back.
    #[cold]
    fn refuse_write(&mut self, msg: Msg, promise: Option<Promise<()>>, why: NetError) {
        let why = Failure::new(why);
        self.refuse_promise(promise, why.clone());
        msg.refuse(why);
    }

    /// Refuses a write. Its promise fails. Without a promise the handlers get an error event,
    /// because a stream with a gap must not continue silently.
    #[cold]
    fn refuse_promise(&mut self, promise: Option<Promise<()>>, why: impl Into<Failure>) {
        let why = why.into();
        match promise {
            Some(promise) => drop(promise.fail(why)),
            None => drop(self.report_refused_write(0, why)),
        }
    }

    /// Fires an error event at the handlers from `at` on, because a write without a promise was
    /// refused. For a stream only the first refusal is reported until a write is accepted again,
    /// because until then there is one gap. For datagrams each refusal is reported, except inside a
    /// level (see `levels`). Otherwise a handler that writes in its error callback would be
    /// notified that its answer was refused, and so on without end. Returns `true` if the event was
    /// fired.
    #[cold]
    pub(super) fn report_refused_write(&mut self, at: u32, why: Failure) -> bool {
        let flags = &mut self.io.state.flags;
        let known = match flags.any(Flags::DATAGRAMS) {
            // A stream has a gap.
            false => {
                flags.set(Flags::LOST);
                flags.any(Flags::REFUSAL_REPORTED)
            }
            true => self.depth > 0,
        };
        if !known {
            flags.set(Flags::REFUSAL_REPORTED);
            let event = InEvent::Error(why);
            self.stack.push(Action::Return { at, event });
        }
        !known
    }
}
