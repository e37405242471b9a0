//! Sending flushed data, and handling the result.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::channel_request::ChannelRequest;
use super::core::ChannelCore;
use super::event::InEvent;
use super::file_range::FileRange;
use super::pipeline::ChannelPipeline;
use super::shared::Shared;
use super::state::Flags;
use super::transport::Transport;
use super::write_queue::{Drained, Sink};
use crate::reactor::IoContext;
use crate::sys::{Chunk, Lent};

impl<P: ChannelPipeline> ChannelCore<P> {
    fn flush_datagrams(&mut self, io_context: &mut IoContext) {
        if let (Transport::Udp(socket), Some(outbox)) =
            (&self.transport, &mut self.pipeline.io_mut().outbox)
        {
            let sent = outbox.send(socket, &io_context.counters);
            io_context.counters.writes.add(sent.calls);
            io_context.counters.written_bytes.add(sent.bytes);
            let waits = Flags::WRITE_BLOCKED.union(Flags::TURN_OWED);
            self.state_mut().flags.put(waits, sent.blocked);
            self.pipeline.io_mut().release(sent.released);
            for why in sent.lost {
                self.pipeline.fire(InEvent::Error(why));
            }
            if self.has(Flags::FLUSH) {
                // What the handlers wrote in response is sent in another turn, since it may be lost
                // as well.
                self.request_turn();
            }
        }
    }

    /// Sends the flushed data.
    pub(super) fn flush(&mut self, io_context: &mut IoContext) {
        let stops = Flags::WRITE_BLOCKED.union(Flags::ABORTED);
        if self.has(stops) || !self.state().is_open() {
            return;
        }
        if let Transport::Udp(_) = self.transport {
            return self.flush_datagrams(io_context);
        }
        self.drain(None, io_context);
    }

    /// Sends the flushed data, after a first call with the result `first`.
    pub(super) fn drain(&mut self, first: Option<io::Result<usize>>, io_context: &mut IoContext) {
        let spins = self.pipeline.io().options.write_spin.max(1);
        if let Err(why) = self.write_out(first, spins, io_context) {
            self.fail(why, io_context);
        }
    }

    /// Like `drain`, with at most `spins` calls. Returns the error instead of closing the channel.
    pub(super) fn write_out(
        &mut self,
        first: Option<io::Result<usize>>,
        spins: usize,
        io_context: &mut IoContext,
    ) -> io::Result<()> {
        let io = self.pipeline.io_mut();
        let queue = &mut io.queue;
        let before = queue.written();
        let mut sink = CountedSink {
            transport: &mut self.transport,
            calls: u64::from(first.is_some()),
            chunk: &mut io_context.chunk,
            // The channel has the memory while its handlers may run.
            lent: match io.lent.is_some() {
                true => &mut io.lent,
                false => &mut io_context.lent,
            },
        };
        let drained = queue.drain_on(first, &mut sink, spins);
        let calls = sink.calls;
        io_context.counters.writes.add(calls);
        let written = queue.written() - before;
        io_context.counters.written_bytes.add(written);
        match drained? {
            Drained::All => {}
            Drained::Blocked => self.set(Flags::WRITE_BLOCKED),
            Drained::Spent => self.request_turn(),
            Drained::NeedsRead => self.read_file(),
        }
        Ok(())
    }

    /// Reads the next part of the file that is to be sent, in the readers' pool.
    fn read_file(&mut self) {
        let io = self.pipeline.io_mut();
        if let Some(range) = io.queue.begin_read() {
            let channel = io.weak();
            range.read_in_pool(move |read| {
                if let Some(channel) = channel.upgrade() {
                    // Refused: the channel is closed.
                    let _ = Shared::post(&channel, ChannelRequest::FileRead(read), true);
                }
            });
        }
    }

    /// Goes on with a file, a part of which was read.
    pub(super) fn file_was_read(&mut self, read: io::Result<Bytes>, io_context: &mut IoContext) {
        match read {
            Ok(chunk) => {
                let io = self.pipeline.io_mut();
                io.queue.end_read(chunk);
                io.flush_rest();
            }
            Err(why) => self.fail(why, io_context),
        }
    }
}

/// A sink that counts the calls of a flush and returns the memory of what was sent to the loop.
struct CountedSink<'a> {
    transport: &'a mut Transport,
    calls: u64,
    chunk: &'a mut Chunk,
    lent: &'a mut Option<Box<Lent>>,
}

impl Sink for CountedSink<'_> {
    #[inline]
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls += 1;
        self.transport.write(slices)
    }

    #[inline]
    fn write_one(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        self.transport.write_one(bytes)
    }

    fn write_before_file(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.calls += 1;
        self.transport.write_before_file(slices)
    }

    fn send_file(&mut self, range: &FileRange, most: usize) -> io::Result<Option<usize>> {
        let sent = self.transport.send_file(range, most);
        self.calls += u64::from(!matches!(sent, Ok(None)));
        sent
    }

    fn written(&mut self, bytes: Bytes) {
        drop(self.chunk.give_back(bytes, self.lent));
    }
}
