//! Ending a channel: at once, or when everything is sent.

use tidegate_promise::Failure;

use super::core::ChannelCore;
use super::event::InEvent;
use super::pipeline::ChannelPipeline;
use super::start::Start;
use super::state::{Flags, Input, Life, Output, RequestedEnd};
use super::transport::Transport;
use crate::errors::NetError;
use crate::reactor::IoContext;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Carries out the requested end of the sending half or of the channel. Except for `Now`, it
    /// waits until all flushed data is sent.
    pub(super) fn carry_out_end(&mut self, io_context: &mut IoContext) {
        let io = self.pipeline.io_mut();
        let blocked = io.state.flags.any(Flags::WRITE_BLOCKED) && io.outbox.is_some();
        let sent = !(io.queue.has_flushed() || blocked);
        match io.state.end {
            RequestedEnd::WhenFlushed if !sent => {
                io.set_deadline();
                self.drop_input(io_context);
            }
            RequestedEnd::WhenFlushed => return self.linger(io_context),
            RequestedEnd::Lingering => return,
            RequestedEnd::Now => return self.close_for_cause(io_context),
            RequestedEnd::None => {}
        }
        if self.state().output == Output::Ending && sent {
            self.state_mut().output = Output::Shut;
            if let Err(why) = self.transport.shutdown_output() {
                return self.fail(why, io_context);
            }
            self.shared().complete_output_waiters();
            if self.state().input == Input::Shut {
                self.close(None, io_context);
            }
        }
    }

    /// Closes the channel for the cause that is recorded, if there is one.
    pub(super) fn close_for_cause(&mut self, io_context: &mut IoContext) {
        let cause = self.pipeline.io().close_cause.clone();
        self.close(cause, io_context);
    }

    /// Closes the channel: accepts no more writes, drops the socket, completes the waiters, then
    /// notifies and removes the handlers, and then completes the end.
    pub(super) fn close(&mut self, cause: Option<Failure>, io_context: &mut IoContext) {
        let life = std::mem::replace(&mut self.state_mut().life, Life::Closed);
        let io = self.pipeline.io_mut();
        if let Some(cause) = &cause {
            io.close_cause.get_or_insert(cause.clone());
        }
        if matches!(life, Life::Closed) {
            return;
        }
        if io.state.flags.any(Flags::ABORTED) {
            self.transport.reset_on_close();
        }
        self.transport = Transport::Gone;
        self.early = None;
        io.end_deadlines();
        io.shared.close(cause.clone());
        self.refuse_message(cause.clone());
        let io = self.pipeline.io_mut();
        // Usually nothing is left that has to fail, and no error is made.
        let closed = || Failure::new(NetError::Closed(cause.clone()));
        if !io.queue.is_empty() {
            io.queue.fail_all(&closed());
        }
        if let Some(outbox) = &mut io.outbox {
            outbox.fail_all(&closed());
            io_context.counters.lost_datagrams.add(outbox.take_lost());
        }
        let was_open = matches!(life, Life::Open | Life::Off(_));
        match life {
            Life::Connecting(connecting) | Life::New(Start::Connecting(connecting)) => {
                connecting.fail(&cause.clone().unwrap_or_else(closed));
            }
            Life::Off(off) => off.refuse(&closed()),
            _ => {}
        }
        if was_open {
            self.pipeline.fire(InEvent::Inactive);
        }
        self.pipeline.end();
        self.shared().end();
        io_context
            .counters
            .unread
            .add(u64::from(self.pipeline.io().unread));
    }

    /// Closes the channel because the peer has not ended in time, or because sending the rest took longer
    /// than the close timeout. Waits again if a file is being sent, and a part of it was sent meanwhile.
    pub(super) fn give_up_sending(&mut self, io_context: &mut IoContext) {
        if self.state().end == RequestedEnd::Lingering {
            if !self.state().is_open() {
                self.set(Flags::READ_READY);
                self.drop_input(io_context);
            }
            return self.close_for_cause(io_context);
        }
        let io = self.pipeline.io_mut();
        if io.queue.take_file_progress() {
            // A large file may take longer, as long as the peer takes it.
            return io.restart_deadline();
        }
        let after = io.options.close_timeout;
        let why = Failure::new(NetError::CloseTimeout(after));
        self.pipeline.report(&why);
        self.close(Some(why), io_context);
    }
}
