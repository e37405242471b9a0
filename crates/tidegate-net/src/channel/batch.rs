//! The channel's part in batching: it receives before its turn.
//!
//! [`Batched`] is the interface; the reactor's `batch` explains the gain. Bytes that were received
//! early are kept in the channel until its next turn. Only a close drops them.

use std::io;

use bytes::Bytes;
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
    /// socket has at most `PIECE` bytes.
    #[inline]
    fn receive_early(&mut self, readiness: Readiness, io_context: &mut IoContext) {
        if !self.is_plain(readiness) {
            return;
        }
        let room = self.room();
        if room > PIECE || self.early.is_some() {
            return;
        }
        io_context.counters.reads.add(1);
        self.early = Some(self.transport.receive(&mut io_context.chunk, room));
        self.set(Flags::READ_READY);
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
}
