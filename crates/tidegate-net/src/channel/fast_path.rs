//! The fast path of a read: all received bytes fit into one receive, and the handlers request a
//! flush at most. Nearly every event is of this kind, so the code for it is in one place. Every
//! other case continues on the slow path.

use std::io;

use bytes::Bytes;

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::shared::Shared;
use super::state::{Flags, Input};
use super::transport::{SLACK, Transport};
use crate::message::Msg;
use crate::reactor::{IoContext, Next};
use crate::sys::Readiness;

/// Flags that decide whether the fast path can be tried.
const PLAIN: Flags = Flags::AUTO_READ
    .union(Flags::WRITE_BLOCKED)
    .union(Flags::TURN_OWED);

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Returns `true` if the fast path can be tried: there is something to read and nothing else to
    /// do.
    #[inline(always)]
    pub(super) fn is_plain(&self, readiness: Readiness) -> bool {
        let unusual = Readiness::HANG_UP | Readiness::ERROR | Readiness::REQUESTS;
        readiness.has(Readiness::READ)
            && !readiness.any(unusual)
            && self.state().is_open()
            && self.state().flags.exactly(Flags::AUTO_READ, PLAIN)
            && self.state().input == Input::Open
            && self.transport.is_stream()
    }

    /// Returns how many bytes to offer the socket.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        Transport::room(self.size.next(), self.size.is_fixed())
    }

    #[inline(always)]
    pub(super) fn read_plain(&mut self, io_context: &mut IoContext) -> Next {
        let room = self.room();
        let bytes = match self.receive(room, io_context) {
            Ok(bytes) if !bytes.is_empty() && Transport::is_last_read(bytes.len(), room) => bytes,
            other => return self.read_long(other, room, io_context),
        };
        let count = bytes.len();
        io_context.counters.read_bytes.add(count as u64);
        self.clear(Flags::READ_READY.union(Flags::READ));
        if room > SLACK {
            // Up to `SLACK` the prediction does not matter: `SLACK` bytes are offered anyway.
            self.size.record_turn(count);
        }
        self.lend(io_context);
        self.pipeline.read_last(Msg::Bytes(bytes));
        self.take_back(io_context);
        if self.is_to_send() && self.pipeline.is_idle() {
            match self.send_one(io_context) {
                Ok(spent) => drop(spent),
                Err(first) => self.drain(first, io_context),
            }
        }
        if !self.is_calm() {
            return self.end_turn_with_work(io_context);
        }
        self.pipeline.end_turn();
        Next::Stay
    }

    /// Lends the loop's memory to the channel, because its handlers are about to run.
    #[inline(always)]
    pub(super) fn lend(&mut self, io_context: &mut IoContext) {
        if io_context.lent.is_some() {
            std::mem::swap(&mut self.pipeline.io_mut().lent, &mut io_context.lent);
        }
    }

    /// Returns the loop's memory to it, because the handlers have returned.
    #[inline(always)]
    pub(super) fn take_back(&mut self, io_context: &mut IoContext) {
        if self.pipeline.io().lent.is_some() {
            self.reuse_consumed(io_context);
            io_context.lent = self.pipeline.io_mut().lent.take();
        }
    }

    /// Returns received memory that the handlers have consumed, so that the next read uses it.
    pub(super) fn reuse_consumed(&mut self, io_context: &mut IoContext) {
        if let Some(lent) = &mut self.pipeline.io_mut().lent {
            lent.return_consumed(&mut io_context.chunk);
        }
    }

    /// Returns `true` if flushed data has to be sent, and the channel is not aborted.
    #[inline(always)]
    pub(super) fn is_to_send(&self) -> bool {
        let mask = Flags::FLUSH.union(Flags::ABORTED);
        self.state().flags.exactly(Flags::FLUSH, mask)
    }

    /// Returns `true` if nothing is pending, nothing was requested, and handlers and other threads
    /// know the current state. Nearly always the case.
    #[inline(always)]
    pub(super) fn is_calm(&self) -> bool {
        self.pipeline.io().is_calm() & self.pipeline.is_idle()
    }

    /// Sends the flushed data if it is one entry without a promise. Returns the bytes, unless they
    /// belong to the loop's buffer.
    ///
    /// # Errors
    ///
    /// The result of the system call, if one was made.
    #[inline(always)]
    pub(super) fn send_one(
        &mut self,
        io_context: &mut IoContext,
    ) -> Result<Option<Bytes>, Option<io::Result<usize>>> {
        let io = self.pipeline.io_mut();
        io.state.flags.clear(Flags::FLUSH);
        let sent = io.queue.drain_one(&mut self.transport)?;
        io_context.counters.writes.add(1);
        io_context.counters.written_bytes.add(sent.len() as u64);
        Ok(io_context.chunk.give_back(sent, &mut io_context.lent))
    }

    /// Continues on the slow path with the result of a first read.
    #[inline(never)]
    fn read_long(
        &mut self,
        first: io::Result<Bytes>,
        room: usize,
        io_context: &mut IoContext,
    ) -> Next {
        self.set(Flags::READ_READY);
        let first = first.map(|bytes| {
            let all = Transport::is_last_read(bytes.len(), room);
            (bytes, all)
        });
        self.with_desk(io_context, |core, io_context| {
            core.read_on(Some(first), io_context)
        });
        self.finish(false)
    }

    /// Ends the turn if something is left to do or to publish.
    #[inline(never)]
    pub(super) fn end_turn_with_work(&mut self, io_context: &mut IoContext) -> Next {
        self.with_desk(io_context, |core, io_context| {
            if core.has_requests() {
                core.carry_out(io_context);
            }
        });
        self.finish(false)
    }

    /// Publishes the channel's state to other threads.
    pub(super) fn show(&mut self, queued_by_handles: bool) {
        let changed = self.pipeline.io_mut().publish();
        if changed && self.shared().has_excess_writes() {
            // A thread that did not know how much is pending here has queued a write meanwhile.
            Shared::ring(self.shared());
        }
        if changed || queued_by_handles {
            self.shared().charge_pending(self.pipeline.io().pending());
            self.shared().notify_writers();
        }
    }

    /// Ends the turn: publishes the state and returns what the channel wants next.
    pub(super) fn finish(&mut self, queued_by_handles: bool) -> Next {
        let again = self.state_mut().flags.take_again();
        if !self.state().is_open()
            && let Some(next) = self.next_unless_open()
        {
            return next;
        }
        self.show(queued_by_handles);
        if again.is_none() {
            Next::Stay
        } else {
            Next::Again(again)
        }
    }
}
