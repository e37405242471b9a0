//! What handles ask of a channel, carried out on its loop.

use tidegate_core::discard;

use super::core::{ChannelCore, State};
use super::event::{InEvent, OutOp};
use super::mail::{Mail, refuse};
use super::pipeline::ChannelPipeline;
use crate::reactor::Desk;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Reads what handles put into the box, oldest first.
    pub(super) fn read_mail(&mut self, desk: &mut Desk) {
        for mail in self.shared().take_mail() {
            if self.is_closed() {
                refuse(mail, self.pipeline.io().close_cause.as_ref());
                continue;
            }
            self.read_letter(mail, desk);
            if self.pipeline.io().close_wanted && !self.is_closed() {
                // What was asked for after that comes too late.
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
                // They may say goodbye; those that hold the close back are not waited for.
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
            Mail::ShutdownOutput(promise) if self.output_shut => drop(promise.succeed(())),
            Mail::ShutdownOutput(promise) if !promise.set_uncancellable() => {}
            Mail::ShutdownOutput(promise) => {
                self.shared().wait_for_half(promise);
                self.pipeline.out(OutOp::Flush);
                self.pipeline.out(OutOp::ShutdownOutput);
            }
            Mail::AutoRead(yes) => self.pipeline.set_auto_read(yes),
            Mail::Read => self.pipeline.out(OutOp::Read),
            Mail::CanRead => self.read_ready = true,
            Mail::CanWrite => {
                self.blocked = false;
                self.pipeline.io_mut().flush_wanted |= self.pipeline.io().queue.has_flushed();
            }
            Mail::Fire(event) => self.pipeline.fire(event),
            Mail::Stage(id, back) => self.pipeline.back(id, back),
            Mail::UserWritable(flag, writable) => {
                // A number that is no flag changes nothing; the handle's docs say so.
                let _ = self.pipeline.io_mut().set_user_writable(flag, writable);
            }
            Mail::Own(id, what) => self.pipeline.own(id, what),
            Mail::Inbound(msg) if self.pipeline.io().ends() => discard(msg),
            Mail::Inbound(msg) => {
                self.pipeline.read(msg);
                self.pipeline.fire(InEvent::ReadComplete);
            }
            Mail::Change(request) => self.pipeline.change(request),
            Mail::Register(on, promise) => self.wish(on, promise, desk),
            Mail::CloseDeadline => self.give_up_sending(desk),
            Mail::CancelConnect(why) => {
                if let State::Connecting(_) = self.state {
                    self.close(Some(why), desk);
                }
            }
        }
    }
}
