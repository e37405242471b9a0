//! Requests of handles to a channel, carried out on its loop.

use tidegate_core::internal::discard;
use tidegate_promise::Failure;

use super::channel_request::{ChannelRequest, refuse};
use super::core::ChannelCore;
use super::event::{InEvent, OutOp};
use super::pipeline::ChannelPipeline;
use super::shared::{Shared, flag};
use super::spare_requests;
use super::state::{Flags, Life, Output, RequestedEnd};
use crate::message::Msg;
use crate::reactor::IoContext;
use crate::sys::Readiness;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Handles the queued requests, oldest first.
    pub(super) fn handle_requests(&mut self, io_context: &mut IoContext) {
        let mut requests = self.shared().take_requests();
        if let Some(passed) = self.take_message() {
            self.pipeline.write(passed, None);
            self.end_now_if_requested(io_context);
        }
        for request in requests.drain(..) {
            if self.is_closed() {
                refuse(request, self.pipeline.io().close_cause.as_ref());
                continue;
            }
            self.handle_request(request, io_context);
            self.end_now_if_requested(io_context);
        }
        spare_requests::put_back(requests);
        if !self.is_closed() {
            self.carry_out(io_context);
        }
    }

    /// Ends the channel if that is requested: requests that follow are too late.
    #[inline]
    fn end_now_if_requested(&mut self, io_context: &mut IoContext) {
        if self.state().end == RequestedEnd::Now && !self.is_closed() {
            self.carry_out(io_context);
        }
    }

    fn handle_request(&mut self, request: ChannelRequest, io_context: &mut IoContext) {
        match request {
            ChannelRequest::Write(msg, promise) => {
                self.shared().take_write(&msg);
                self.pipeline.write(msg, promise);
            }
            ChannelRequest::Flush(promise) => self.pipeline.flush(promise),
            ChannelRequest::Close => self.pipeline.out(OutOp::Close),
            ChannelRequest::ForceClose => self.force_close(io_context),
            ChannelRequest::CloseForMemory(why) => {
                self.shared().count_memory_close(&why);
                let cause = &mut self.pipeline.io_mut().close_cause;
                cause.get_or_insert(Failure::new(why));
                self.force_close(io_context);
            }
            ChannelRequest::Abort => self.abort(io_context),
            ChannelRequest::CloseWhenFlushed => {
                self.pipeline.out(OutOp::Flush);
                self.pipeline.out(OutOp::CloseWhenFlushed);
            }
            ChannelRequest::ShutdownOutput(promise) if self.state().output == Output::Shut => {
                let _ = promise.succeed(());
            }
            ChannelRequest::ShutdownOutput(promise) if !promise.set_uncancellable() => {}
            ChannelRequest::ShutdownOutput(promise) => {
                self.shared().wait_for_half(promise);
                self.pipeline.out(OutOp::Flush);
                self.pipeline.out(OutOp::ShutdownOutput);
            }
            ChannelRequest::AutoRead(yes) => self.pipeline.set_auto_read(yes),
            ChannelRequest::Read => self.pipeline.out(OutOp::Read),
            ChannelRequest::CanRead => self.set(Flags::READ_READY),
            ChannelRequest::HangUp => self.remember(Readiness::READ | Readiness::HANG_UP),
            ChannelRequest::CanWrite => {
                self.clear(Flags::WRITE_BLOCKED);
                self.pipeline.io_mut().flush_rest();
            }
            ChannelRequest::SeenUnwritable => {
                self.shared().set_flag(flag::SEEN_UNWRITABLE, false);
                self.pipeline.io_mut().note_seen_unwritable();
            }
            ChannelRequest::FileRead(read) => self.file_was_read(read, io_context),
            ChannelRequest::Fire(event) => self.pipeline.fire(event),
            ChannelRequest::ReadThenFire(event, left) => self.read_first(event, left, io_context),
            ChannelRequest::HandlerEvent(id, what) => self.pipeline.own(id, what),
            ChannelRequest::CheckDeadlines => self.check_deadlines(io_context),
            ChannelRequest::Inbound(msg) if self.state().ends() => discard(msg),
            ChannelRequest::Inbound(msg) => self.read_alone(msg),
            ChannelRequest::PipelineChange(change) => self.pipeline.change(change),
            ChannelRequest::Register(on, promise) => {
                self.request_registration(on, promise, io_context)
            }
            ChannelRequest::HandOver(promise) => self.request_release(promise, io_context),
            ChannelRequest::CloseDeadline => self.give_up_sending(io_context),
            ChannelRequest::CancelConnect(why) => {
                if let Life::Connecting(_) = self.state().life {
                    self.close(Some(why), io_context);
                }
            }
            ChannelRequest::UserWritable(flag, writable) => {
                // A number that is not a flag changes nothing; the handle's docs say so.
                let _ = self.pipeline.io_mut().set_user_writable(flag, writable);
            }
        }
    }

    /// Closes the channel. The handlers may react to the close; those that hold it back are not
    /// waited for.
    fn force_close(&mut self, io_context: &mut IoContext) {
        self.pipeline.out(OutOp::Close);
        self.carry_out(io_context);
        self.close_for_cause(io_context);
    }

    /// Closes the channel and resets its connection. What was flushed before is sent as far as the socket
    /// takes it. What handlers write because of the close is not: with the `close_notify` of TLS, the peer
    /// would take a part for the whole.
    fn abort(&mut self, io_context: &mut IoContext) {
        self.carry_out(io_context);
        self.set(Flags::ABORTED);
        self.force_close(io_context);
    }

    /// Passes a message to the handlers as a whole read.
    fn read_alone(&mut self, msg: Msg) {
        self.pipeline.read(msg);
        self.pipeline.fire(InEvent::ReadComplete);
    }

    /// Fires an event after what has arrived was read, if there may be something.
    fn read_first(&mut self, event: InEvent, turns: u8, io_context: &mut IoContext) {
        // The poller was not asked.
        self.set(Flags::READ_READY);
        self.read_on(None, io_context);
        if self.is_closed() {
            return discard(event);
        }
        match turns.checked_sub(1) {
            Some(left) if self.state().is_to_read() => {
                let again = ChannelRequest::ReadThenFire(event, left);
                if let Err(refused) = Shared::post(self.shared(), again, true) {
                    refuse(refused, None);
                }
            }
            _ => self.pipeline.fire(event),
        }
    }

    /// Delivers the deadlines that are due, and sets the timer for the next.
    fn check_deadlines(&mut self, io_context: &mut IoContext) {
        let all_due = self.pipeline.io().due_deadlines();
        if !all_due.is_empty() {
            let held = self.transport.unacknowledged();
            self.pipeline.io_mut().record_held(held);
        }
        for due in all_due {
            if self.pipeline.io_mut().take_deadline(due) {
                let (handler, event) = due.event();
                self.pipeline.own(handler, event);
            }
            if self.state().end == RequestedEnd::Now {
                return self.carry_out(io_context);
            }
        }
        self.pipeline.io_mut().set_next_check();
    }
}
