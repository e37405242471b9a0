//! The end of a channel whose peer may still be sending.
//!
//! A close with received bytes in the socket, or with bytes that come later, resets the connection: the
//! peer then loses what it has not read (RFC 9112, section 9.6). A channel that is to be closed when
//! everything is sent therefore drops what comes meanwhile. If something came, or if a handler expects
//! it, the channel closes its sending half first, and the socket when the peer has ended as well, or
//! after [`ChannelOptions::LINGER_TIME`]. Off its loop, a channel is not told of what comes: it looks
//! for that at the beginning and at the end of this time.

use std::io;

use super::core::ChannelCore;
use super::options::ChannelOptions;
use super::pipeline::ChannelPipeline;
use super::state::{Flags, Input, Output, RequestedEnd};
use crate::reactor::IoContext;

/// How many bytes each read that drops them is offered.
const DROPPED: usize = 16 * 1024;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Closes a channel that has sent everything, or lingers if its peer may still be sending.
    #[cold]
    pub(super) fn linger(&mut self, io_context: &mut IoContext) {
        self.state_mut().end = RequestedEnd::Lingering;
        // The poller was not asked.
        self.set(Flags::READ_READY);
        self.drop_input(io_context);
        let is_heard = self.state().has_socket() && self.state().input != Input::Shut;
        if !(is_heard && self.has(Flags::LINGERS)) {
            return self.close_for_cause(io_context);
        }
        if self.state().output != Output::Shut {
            self.state_mut().output = Output::Shut;
            if self.transport.shutdown_output().is_err() {
                return self.close_for_cause(io_context);
            }
            self.shared().complete_output_waiters();
        }
        self.pipeline.io().close_after(ChannelOptions::LINGER_TIME);
    }

    /// Reads and drops what has arrived, because the channel is about to be closed.
    #[cold]
    pub(super) fn drop_input(&mut self, io_context: &mut IoContext) {
        for _ in 0..self.pipeline.io().options.reads_per_turn.max(1) {
            if !self.has(Flags::READ_READY) || !self.state().has_socket() {
                return;
            }
            let read = self.take_early().unwrap_or_else(|| {
                io_context.counters.reads.add(1);
                self.transport.read(&mut io_context.chunk, DROPPED, false)
            });
            match read {
                Ok((bytes, _)) if bytes.is_empty() => {
                    self.clear(Flags::READ_READY);
                    self.state_mut().input = Input::Shut;
                    if self.state().end == RequestedEnd::Lingering {
                        return self.close_for_cause(io_context);
                    }
                }
                Ok((bytes, all)) => {
                    io_context.counters.read_bytes.add(bytes.len() as u64);
                    self.set(Flags::LINGERS);
                    if all && self.state().input == Input::Open {
                        self.clear(Flags::READ_READY);
                    }
                    drop(io_context.chunk.give_back(bytes, &mut io_context.lent));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    self.clear(Flags::READ_READY);
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return self.fail(why, io_context),
            }
        }
        if self.has(Flags::READ_READY) {
            self.set(Flags::READ_AGAIN);
        }
    }
}
