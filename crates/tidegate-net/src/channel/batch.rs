//! The channel's part in batching: it receives before its turn and sends after it.
//!
//! [`Batched`] is the interface; the reactor's `batch` explains the gain. Bytes that were received
//! early, and the error of a late send, are kept in the channel until its next turn. Only a close
//! drops them.

use std::io;

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_core::internal::trace;

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::state::Flags;
use super::transport::Transport;
use crate::message::Msg;
use crate::reactor::{Batched, IoContext, Next, TakenWrite};
use crate::sys::{PIECE, Readiness, prefetch};

impl<P: ChannelPipeline> Batched for ChannelCore<P> {
    /// Receives early if the channel has nothing else to do and the buffer that it would offer the
    /// socket has at most `PIECE` bytes. Returns `true` only if its handlers never block, too.
    #[inline]
    fn receive_early(&mut self, readiness: Readiness, io_context: &mut IoContext) -> bool {
        if !self.is_plain(readiness) {
            return false;
        }
        let room = self.room();
        if room > PIECE || self.early.is_some() {
            return false;
        }
        io_context.counters.reads.add(1);
        self.early = Some(self.transport.receive(&mut io_context.chunk, room));
        self.set(Flags::READ_READY);
        self.pipeline.blocking() == Blocking::Never
    }

    #[inline]
    fn send_late(&mut self, io_context: &mut IoContext) -> bool {
        match self.send_one(io_context) {
            Ok(spent) => {
                if let Some(spent) = spent {
                    io_context.batch.keep(spent);
                }
                self.is_calm() || self.finish_late_send(None, io_context)
            }
            Err(first) => self.finish_late_send(first, io_context),
        }
    }

    #[inline]
    fn prefetch_parts(&self) {
        // Whether the server drains, which handlers look at with each message.
        prefetch(self.shared().origin_slot());
        self.pipeline.prefetch_parts();
    }

    #[inline]
    fn prefetch_handlers(&self) {
        self.pipeline.prefetch_handlers();
    }

    fn take_write(
        &mut self,
        key: usize,
        bytes: Option<Bytes>,
        flush: bool,
    ) -> Result<TakenWrite, Option<Bytes>> {
        self.take_neighbours_write(key, bytes, flush)
    }

    fn take_requests(&mut self, key: usize) -> Option<bool> {
        self.take_neighbours_requests(key)
    }

    fn take_message(&mut self, key: usize, message: &mut Option<Msg>) -> bool {
        self.take_neighbours_message(key, message)
    }

    fn owed_turn(&mut self, io_context: &mut IoContext) -> Next {
        if trace::wants_spans() {
            return self.in_span(|core| core.send_neighbours_writes(io_context));
        }
        self.send_neighbours_writes(io_context)
    }
}

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Returns the bytes that were received early, or receives now.
    #[inline(always)]
    pub(super) fn receive(&mut self, room: usize, io_context: &mut IoContext) -> io::Result<Bytes> {
        match self.early.take() {
            Some(read) => read,
            None => {
                io_context.counters.reads.add(1);
                self.transport.receive(&mut io_context.chunk, room)
            }
        }
    }

    /// Returns `true` if the only work left is to send one entry without a promise, and the send
    /// may be deferred until the other sources of the batch have handled their events.
    #[inline(always)]
    pub(super) fn sends_late(&self, io_context: &IoContext) -> bool {
        io_context.batch.may_wait && self.pipeline.io().has_one_to_send()
    }

    /// Takes the result of the early receive, if there was one. The flag is `true` if the bytes did
    /// not fill the buffer, so the socket has nothing more to read.
    pub(super) fn take_early(&mut self) -> Option<io::Result<(Bytes, bool)>> {
        let room = self.room();
        let read = self.early.take()?;
        Some(read.map(|bytes| {
            let all = Transport::is_last_read(bytes.len(), room);
            (bytes, all)
        }))
    }

    /// Handles a late send that left something to do. Applies the result `first` of the system
    /// call, if one was made; the rest is done in the turn for the next write event. Returns
    /// `false`, so that this event follows.
    #[cold]
    fn finish_late_send(
        &mut self,
        first: Option<io::Result<usize>>,
        io_context: &mut IoContext,
    ) -> bool {
        // One spin, for the system call that was already made: no other call is made here. Another
        // call could finish an entry and drop the user's bytes, which is user code.
        if first.is_some()
            && let Err(why) = self.write_out(first, 1, io_context)
        {
            self.set_late_error(why);
        }
        self.set(Flags::TURN_OWED);
        false
    }
}
