//! What a channel does for the others of its batch: receives before its turn, and sends after it.
//!
//! The seam is [`Batched`]; why it is worth it, says the reactor's `batch`. What came early, or went
//! wrong late, waits in the channel for its next turn, whatever happens in between.

use std::io;

use bytes::Bytes;
use tidegate_core::Blocking;

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::state::Flags;
use crate::reactor::{Batched, Desk};
use crate::sys::{PIECE, Readiness};

impl<P: ChannelPipeline> Batched for ChannelCore<P> {
    /// Receives, if that is little.
    #[inline]
    fn receive_early(&mut self, readiness: Readiness, desk: &mut Desk) -> bool {
        if !self.is_plain(readiness) {
            return false;
        }
        let room = self.room();
        if room > PIECE || self.early.is_some() {
            return false;
        }
        desk.counters.reads.add(1);
        self.early = Some(self.transport.receive(&mut desk.chunk, room));
        self.set(Flags::READ_READY);
        self.pipeline.blocking() == Blocking::Never
    }

    #[inline]
    fn send_late(&mut self, desk: &mut Desk) -> bool {
        match self.send_one(desk) {
            Ok(spent) => {
                if let Some(spent) = spent {
                    desk.batch.keep(spent);
                }
                self.is_calm() || self.sent_otherwise(None, desk)
            }
            Err(first) => self.sent_otherwise(first, desk),
        }
    }

    #[inline]
    fn prefetch(&self) {
        self.pipeline.prefetch();
    }
}

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Returns what was received before its turn, or else receives now.
    #[inline(always)]
    pub(super) fn receive(&mut self, room: usize, desk: &mut Desk) -> io::Result<Bytes> {
        match self.early.take() {
            Some(read) => read,
            None => {
                desk.counters.reads.add(1);
                self.transport.receive(&mut desk.chunk, room)
            }
        }
    }

    /// Returns `true` if what it has to send may wait for the others of its batch, and is all that is
    /// left to do.
    #[inline(always)]
    pub(super) fn sends_late(&self, desk: &Desk) -> bool {
        desk.batch.may_wait && self.pipeline.io().has_one_to_send()
    }

    /// Takes out what was received before its turn, and whether that was all.
    pub(super) fn take_early(&mut self) -> Option<io::Result<(Bytes, bool)>> {
        let room = self.room();
        let read = self.early.take()?;
        Some(read.map(|bytes| {
            let all = bytes.len() < room;
            (bytes, all)
        }))
    }

    /// Notes what the call came to, if there was one; the rest is done when it is told that it may
    /// write.
    #[cold]
    fn sent_otherwise(&mut self, first: Option<io::Result<usize>>, desk: &mut Desk) -> bool {
        // One spin is this call: none that would come to the end of an entry of the user's.
        if first.is_some()
            && let Err(why) = self.write_out(first, 1, desk)
        {
            self.late_error = Some(why);
        }
        self.set(Flags::TURN_OWED);
        false
    }
}
