//! Taking a channel off its loop for a while, and putting it back.
//!
//! Meanwhile the channel keeps its handlers, its timers and its queued requests; it neither reads
//! nor sends. The loop takes the socket out of the poller, and puts it back, after the handlers
//! have returned: the channel requests it by returning [`Next::Watch`] and receives the result.

use std::io;
use std::net::TcpStream;

use tidegate_promise::{Failure, Promise};

use super::core::ChannelCore;
use super::event::{Deregistered, InEvent, Registered, UserEvent};
use super::pipeline::ChannelPipeline;
use super::state::{Deregistration, Flags, Life, Phase};
use crate::errors::NetError;
use crate::reactor::{IoContext, Next};
use crate::sys::Readiness;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Handles a request to put the channel on its loop or to take it off.
    pub(super) fn request_registration(
        &mut self,
        on: bool,
        promise: Promise<()>,
        io_context: &mut IoContext,
    ) {
        if promise.is_cancelled() {
            return;
        }
        // Earlier requests come first.
        self.carry_out(io_context);
        let refused = match &mut self.state_mut().life {
            Life::Off(off) => {
                off.pending_requests.push_back((on, promise));
                return self.start_next_request();
            }
            Life::Open if !on => {
                if !promise.set_uncancellable() {
                    return;
                }
                self.state_mut().life = Life::Off(Deregistration::leaving(promise));
                return;
            }
            Life::Open => NetError::AlreadyRegistered,
            Life::Closed => NetError::Closed(self.pipeline.io().close_cause.clone()),
            Life::New(_) | Life::Connecting(_) => NetError::NotConnected,
        };
        let _ = promise.fail(Failure::new(refused));
    }

    /// Records what the poller reported. The poller reports each change once, maybe before the
    /// channel knows that it is registered again.
    pub(super) fn remember(&mut self, readiness: Readiness) {
        let ends = Readiness::HANG_UP | Readiness::ERROR;
        if readiness.any(Readiness::READ | ends) {
            self.set(Flags::READ_READY);
        }
        if readiness.any(ends) {
            self.state_mut().hang_up();
        }
    }

    /// Handles the result of the change that was requested from the loop.
    pub(super) fn finish_registration_change(&mut self, io_context: &mut IoContext) {
        let Life::Off(off) = &mut self.state_mut().life else {
            return;
        };
        let Some(result) = off.result.take() else {
            return;
        };
        if let Some(release) = off.release.take() {
            return self.finish_release(release, result, io_context);
        }
        let went_well = result.is_ok();
        let on = (off.phase == Phase::Returning) == went_well;
        let promise = off.promise.take();
        off.phase = Phase::Off;
        self.shared().set_registered(on);
        if let Some(promise) = promise {
            let _ = promise.complete(result.map_err(Failure::new));
        }
        if on {
            self.resume(io_context);
        }
        if went_well {
            let event = if on {
                UserEvent::new(Registered)
            } else {
                UserEvent::new(Deregistered)
            };
            self.pipeline.fire(InEvent::User(event));
        }
        self.carry_out(io_context);
        self.start_next_request();
    }

    /// Hands the socket over if the poller does not watch it any more; otherwise the channel stays
    /// on its loop.
    fn finish_release(
        &mut self,
        release: Promise<TcpStream>,
        result: io::Result<()>,
        io_context: &mut IoContext,
    ) {
        match result {
            Ok(()) => self.release(release, io_context),
            Err(why) => {
                let _ = release.fail(Failure::new(why));
                self.resume(io_context);
            }
        }
    }

    /// Resumes reading and sending: the poller watches the socket again.
    fn resume(&mut self, io_context: &mut IoContext) {
        let Life::Off(off) = std::mem::replace(&mut self.state_mut().life, Life::Open) else {
            return;
        };
        self.clear(Flags::WRITE_BLOCKED);
        // A poller reports what there is to read. Without one, the channel has to try.
        if self.transport.io().is_none() {
            self.set(Flags::READ_READY);
        }
        self.pipeline.io_mut().resume_flush();
        for (on, promise) in off.pending_requests {
            self.request_registration(on, promise, io_context);
        }
    }

    /// Handles the requests that came meanwhile, up to the first that needs the loop.
    fn start_next_request(&mut self) {
        let Life::Off(off) = &mut self.state_mut().life else {
            return;
        };
        while off.phase == Phase::Off
            && let Some((on, promise)) = off.pending_requests.pop_front()
        {
            if !promise.set_uncancellable() {
                continue;
            }
            if on {
                off.phase = Phase::Returning;
                off.promise = Some(promise);
                off.ask = true;
            } else {
                let _ = promise.succeed(());
            }
        }
    }

    /// Returns what a channel that is closed or off its loop wants next; `None` in every other
    /// state.
    pub(super) fn next_unless_open(&mut self) -> Option<Next> {
        match &mut self.state_mut().life {
            Life::Closed => Some(Next::Leave),
            Life::Off(off) => {
                let next = off.next();
                self.show(true);
                Some(next)
            }
            Life::New(_) | Life::Connecting(_) | Life::Open => None,
        }
    }
}
