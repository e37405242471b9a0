//! Requests of handles to a channel, carried out on its loop.

use tidegate_core::discard;

use super::core::ChannelCore;
use super::event::{InEvent, OutOp};
use super::mail::{Mail, refuse};
use super::pipeline::ChannelPipeline;
use super::state::{Flags, Life, Output, RequestedEnd};
use crate::reactor::Desk;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Handles the queued requests, oldest first.
    pub(super) fn read_mail(&mut self, desk: &mut Desk) {
        for mail in self.shared().take_mail() {
            if self.is_closed() {
                refuse(mail, self.pipeline.io().close_cause.as_ref());
                continue;
            }
            self.read_letter(mail, desk);
            if self.state().end == RequestedEnd::Now && !self.is_closed() {
                // Requests that came after this one are too late.
                self.carry_out(desk);
            }
        }
        if !self.is_closed() {
            self.carry_out(desk);
        }
    }

    fn read_letter(&mut self, mail: Mail, desk: &mut Desk) {
        match mail {
            Mail::Write(msg, promise) => {
                self.shared().took(&msg);
                self.pipeline.write(msg, promise);
            }
            Mail::Flush(Some(promise)) if promise.is_cancelled() => {}
            Mail::Flush(promise) => self.pipeline.flush(promise),
            Mail::Close => self.pipeline.out(OutOp::Close),
            Mail::Cut => {
                // The handlers may react to the close; those that hold it back are not waited for.
                self.pipeline.out(OutOp::Close);
                self.carry_out(desk);
                let cause = self.pipeline.io().close_cause.clone();
                self.close(cause, desk);
            }
            Mail::Abort => {
                self.transport.reset_on_close();
                self.pipeline.out(OutOp::Close);
            }
            Mail::Cause(why) => {
                self.pipeline.io_mut().close_cause.get_or_insert(why);
            }
            Mail::CloseWhenFlushed => {
                self.pipeline.out(OutOp::Flush);
                self.pipeline.out(OutOp::CloseWhenFlushed);
            }
            Mail::ShutdownOutput(promise) if self.state().output == Output::Shut => {
                let _ = promise.succeed(());
            }
            Mail::ShutdownOutput(promise) if !promise.set_uncancellable() => {}
            Mail::ShutdownOutput(promise) => {
                self.shared().wait_for_half(promise);
                self.pipeline.out(OutOp::Flush);
                self.pipeline.out(OutOp::ShutdownOutput);
            }
            Mail::AutoRead(yes) => self.pipeline.set_auto_read(yes),
            Mail::Read => self.pipeline.out(OutOp::Read),
            Mail::CanRead => self.set(Flags::READ_READY),
            Mail::CanWrite => {
                self.clear(Flags::WRITE_BLOCKED);
                self.pipeline.io_mut().flush_rest();
            }
            Mail::Fire(event) => self.pipeline.fire(event),
            Mail::Stage(id, back) => self.pipeline.back(id, back),
            Mail::UserWritable(flag, writable) => {
                // A number that is not a flag changes nothing; the handle's docs say so.
                let _ = self.pipeline.io_mut().set_user_writable(flag, writable);
            }
            Mail::Own(id, what) => self.pipeline.own(id, what),
            Mail::Inbound(msg) if self.state().ends() => discard(msg),
            Mail::Inbound(msg) => {
                self.pipeline.read(msg);
                self.pipeline.fire(InEvent::ReadComplete);
            }
            Mail::Change(request) => self.pipeline.change(request),
            Mail::Register(on, promise) => self.wish(on, promise, desk),
            Mail::CloseDeadline => self.give_up_sending(desk),
            Mail::CancelConnect(why) => {
                if let Life::Connecting(_) = self.state().life {
                    self.close(Some(why), desk);
                }
            }
        }
    }
}
