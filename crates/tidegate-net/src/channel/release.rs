//! Handing the socket of an idle channel over to the caller.
//!
//! The channel first leaves its loop, as for [`deregister`](super::Channel::deregister): the poller
//! must not watch the socket any more. Then the socket is taken out, and the channel is closed.

use std::net::TcpStream;

use tidegate_promise::{Failure, Promise};

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::state::{Deregistration, Flags, Input, Life, Output};
use super::transport::Transport;
use crate::errors::NetError;
use crate::reactor::IoContext;
use crate::sys::Adopted;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Handles a request to hand the socket over.
    pub(super) fn request_release(
        &mut self,
        promise: Promise<TcpStream>,
        io_context: &mut IoContext,
    ) {
        // Earlier requests come first.
        self.carry_out(io_context);
        let refused = match &self.state().life {
            Life::Open => self.why_not_idle().map(NetError::NotReleased),
            Life::Closed => Some(NetError::Closed(self.pipeline.io().close_cause.clone())),
            Life::Off(_) => Some(NetError::NotReleased("it is off its loop")),
            Life::New(_) | Life::Connecting(_) => Some(NetError::NotConnected),
        };
        if let Some(why) = refused {
            return drop(promise.fail(Failure::new(why)));
        }
        if promise.set_uncancellable() {
            self.state_mut().life = Life::Off(Deregistration::releasing(promise));
        }
    }

    /// Returns what keeps an open channel from being idle, if anything does.
    fn why_not_idle(&self) -> Option<&'static str> {
        let io = self.pipeline.io();
        let state = self.state();
        let found = [
            (
                !matches!(self.transport, Transport::Tcp(_)),
                "it is no TCP connection",
            ),
            (
                !self.pipeline.is_empty(),
                "it has handlers; remove them first",
            ),
            (
                io.pending() > 0 || !io.queue.is_empty(),
                "it has bytes to send",
            ),
            (
                io.unread > 0 || self.early.is_some(),
                "it has received bytes that no handler took; stop reading before the handlers are \
                 removed",
            ),
            (
                state.input != Input::Open || state.output != Output::Open,
                "the peer or this side has begun to end it",
            ),
        ];
        let reason = found.into_iter().find(|(applies, _)| *applies);
        reason.map(|(_, reason)| reason)
    }

    /// Hands the socket over, because the poller does not watch it any more, and closes the
    /// channel.
    pub(super) fn release(&mut self, promise: Promise<TcpStream>, io_context: &mut IoContext) {
        self.clear(Flags::READ_READY);
        match std::mem::replace(&mut self.transport, Transport::Gone) {
            Transport::Tcp(stream) => {
                let stream = stream.into_inner().into_std();
                // Nobody can have cancelled it: that was excluded when the release began.
                let _ = promise.succeed(stream);
            }
            other => self.transport = other,
        }
        self.close(None, io_context);
    }
}
