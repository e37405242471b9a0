//! The time limit for a whole frame.

use std::time::Duration;

use tidegate_core::internal::as_nanos;

use crate::errors::NetError;
use crate::pipeline::HandlerContext;

/// Watches how long a frame takes, from its first byte. Bytes only record the time; one timer
/// checks, when it fires, whether the limit of the current frame is over.
#[derive(Debug, Default)]
pub(super) struct TimeLimit {
    /// In nanoseconds; 0 means no limit.
    limit: u64,
    /// The time at which the current frame began; `None` between two frames.
    began: Option<u64>,
    /// `true` while a timer is set.
    armed: bool,
}

impl TimeLimit {
    pub(super) fn set(&mut self, limit: Duration) {
        self.limit = as_nanos(limit);
    }

    /// Records that bytes have come: whether a frame is incomplete now, and whether it began with
    /// these bytes.
    #[inline]
    pub(super) fn record(&mut self, incomplete: bool, is_new: bool, ctx: &mut HandlerContext<'_>) {
        if self.limit > 0 {
            self.watch(incomplete, is_new, ctx);
        }
    }

    fn watch(&mut self, incomplete: bool, is_new: bool, ctx: &mut HandlerContext<'_>) {
        if !incomplete {
            self.began = None;
        } else if self.began.is_none() || is_new {
            self.began = Some(ctx.now());
            if !self.armed {
                self.arm(self.limit, ctx);
            }
        }
    }

    /// Ends the limit of the current frame: the peer has ended its stream, and sends no more.
    pub(super) fn end(&mut self) {
        self.began = None;
    }

    /// Handles the timer. Returns the error if the frame takes too long. Unless that closes the
    /// channel, the limit starts again with the next bytes.
    pub(super) fn check(&mut self, ctx: &mut HandlerContext<'_>) -> Option<NetError> {
        self.armed = false;
        let mut began = self.began?;
        let now = ctx.now();
        if !ctx.wants_to_read() {
            // The peer cannot finish the frame, since a handler holds reads back.
            began = now;
            self.began = Some(now);
        }
        let passed = now.saturating_sub(began);
        if passed < self.limit {
            self.arm(self.limit - passed, ctx);
            return None;
        }
        self.began = None;
        Some(NetError::FrameTimeout(Duration::from_nanos(self.limit)))
    }

    fn arm(&mut self, after: u64, ctx: &mut HandlerContext<'_>) {
        // Without a timer the event loop is shutting down, and the channel with it.
        self.armed = ctx.schedule(Duration::from_nanos(after), 0).is_some();
    }
}
