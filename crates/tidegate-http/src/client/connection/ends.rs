//! How an exchange and its connection end.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_net::HandlerContext;
use tidegate_promise::Failure;

use super::course::{Course, Look, OnDeadline};
use super::{Connection, LIMIT};
use crate::client::error::Kind;
use crate::client::exchange_handler::ExchangeHandler;
use crate::client::failure::ExchangeError;
use crate::client::slot::{Begun, Link};

/// The largest request that the system may keep for a server that does not take it.
const MOST_LEFT_BEHIND: u64 = 16 * 1024;

impl<R: ExchangeHandler> Connection<R> {
    /// Ends exchange `id`, whose caller has left, and the connection with it.
    pub(in crate::client) fn cancel(&mut self, id: u64, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        let current = self.current.as_ref();
        if current.is_some_and(|current| current.id == id) && self.course.is_receiving() {
            self.leave(ctx);
        }
    }

    /// Closes the connection, because its receiver wants nothing more.
    pub(super) fn leave(&mut self, ctx: &mut HandlerContext<'_>) {
        self.course = Course::Left;
        self.abandon(ctx);
    }

    /// Ends the exchange after its response; `rest` was received behind it.
    pub(super) fn finish(&mut self, rest: &[u8], ctx: &mut HandlerContext<'_>) {
        let now = ctx.now();
        let age = Duration::from_nanos(now.saturating_sub(self.since));
        let complete = self.slot.stop();
        let usable = complete
            && rest.is_empty()
            && !ctx.has_unsent()
            && self.served < self.limits.max_requests
            && age < self.limits.max_age
            && self.lease.is_some();
        if let Some(idle) = self.course.on_end(usable) {
            self.watch_idle(self.limits.idle.min(idle), now, ctx);
            self.sent_before = ctx.sent_bytes();
            self.slot.end();
            let slot = &self.slot;
            let link = self
                .link
                .get_or_insert_with(|| Link::new(ctx.channel(), Arc::clone(slot)));
            // Before the caller learns of the end, so that its next call finds the connection.
            if let (Some(lease), Some(current)) = (&self.lease, &self.current) {
                lease.make_free(link.clone(), current.shared);
            }
        } else {
            self.close_behind(complete, ctx);
        }
        if let Some(current) = self.current.take() {
            current.receiver.end(ctx);
        }
    }

    /// Ends the connection behind a response whose request was `complete` or not.
    fn close_behind(&mut self, complete: bool, ctx: &mut HandlerContext<'_>) {
        match complete {
            true => self.close(ctx),
            false => self.abandon(ctx),
        }
    }

    /// Handles the deadline.
    pub(in crate::client) fn deadline(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.watched_until = 0;
        let (sent, progress) = (ctx.sent_bytes(), self.slot.progress());
        let look = Look {
            now: ctx.now(),
            has_unsent: ctx.has_unsent(),
            has_sent: sent > std::mem::replace(&mut self.sent_seen, sent),
            complete: progress.complete,
            since: progress.since,
        };
        match self.course.on_deadline(look, &self.limits) {
            OnDeadline::Nothing => {}
            OnDeadline::Wait(time) => ctx.deadline(LIMIT, time),
            OnDeadline::Close => self.close(ctx),
            OnDeadline::Fail(time) => self.fail(Kind::Timeout(time), ctx),
        }
    }

    /// Handles an error of the connection.
    pub(in crate::client) fn error(&mut self, why: Failure, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.fail(Kind::closed(why), ctx);
    }

    /// Handles that the server has ended its side. A body without a length is complete then.
    pub(in crate::client) fn input_ended(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.deliver_rest(ctx);
        match self.course {
            Course::Idle { .. } => self.close(ctx),
            Course::Body { .. }
                if self.decoder.in_body() && self.decoder.end_of_input().is_ok() =>
            {
                let complete = self.slot.stop();
                self.close_behind(complete, ctx);
                if let Some(current) = self.current.take() {
                    current.receiver.end(ctx);
                }
            }
            Course::Head { .. } | Course::Body { .. } => self.fail_early(ctx),
            Course::Left | Course::Over => {}
        }
    }

    /// Handles the end of the connection. If the server has not ended its side before, this program
    /// or an error did: a response in progress is not complete.
    pub(in crate::client) fn closed(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.link = None;
        let late = self.slot.close();
        // The next attempt may need the permit.
        drop((self.lease.take(), self.reservation.take()));
        if let Some(late) = late {
            self.refuse(late, ctx);
        }
        self.deliver_rest(ctx);
        self.fail_early(ctx);
        self.course = Course::Over;
        // One that wants nothing more.
        drop(self.current.take());
    }

    /// Delivers what a receiver that has paused did not take: nothing more comes.
    pub(super) fn deliver_rest(&mut self, ctx: &mut HandlerContext<'_>) {
        self.course.on_end_of_input();
        if self.course.is_receiving() {
            self.advance_kept(ctx);
        }
    }

    /// Fails the exchange in progress, if there is one, because the connection ended before it.
    pub(super) fn fail_early(&mut self, ctx: &mut HandlerContext<'_>) {
        match self.course {
            Course::Head { .. } => self.fail(Kind::Closed(None), ctx),
            Course::Body { .. } => self.fail(Kind::Truncated, ctx),
            Course::Idle { .. } | Course::Left | Course::Over => {}
        }
    }

    pub(super) fn fail(&mut self, cause: Kind, ctx: &mut HandlerContext<'_>) {
        let before = self.course;
        match matches!(cause, Kind::Connect(_)) {
            // The peer gets the alert that says why.
            true => self.close(ctx),
            false => self.abandon(ctx),
        }
        if before.is_receiving()
            && let Some(current) = self.current.take()
        {
            let (responded, in_body) = before.progress();
            let why = ExchangeError {
                cause,
                sent: ctx.sent_bytes() > self.sent_before,
                responded,
                reused: self.served > 1,
                in_body,
            };
            let why = current.terms.failed(self.slot.label(), why);
            current.receiver.fail(why, ctx);
        }
    }

    /// Ends the connection of an exchange that is not complete. What waits to be sent must not reach
    /// the server after its exchange has failed: the request may be on its way elsewhere. What the
    /// system holds is dropped, too: it would keep the rest of a body for minutes for a server that does
    /// not read.
    fn abandon(&mut self, ctx: &mut HandlerContext<'_>) {
        let sent = ctx.sent_bytes().saturating_sub(self.sent_before);
        let is_left = ctx.has_unsent() || !self.slot.progress().complete || sent > MOST_LEFT_BEHIND;
        match self.current.is_some() && is_left {
            true => self.end_by(HandlerContext::abort, ctx),
            false => self.close(ctx),
        }
    }

    pub(super) fn close(&mut self, ctx: &mut HandlerContext<'_>) {
        self.end_by(HandlerContext::close, ctx);
    }

    fn end_by<'a>(&mut self, end: fn(&mut HandlerContext<'a>), ctx: &mut HandlerContext<'a>) {
        self.course.end();
        if !self.slot.is_closed() {
            self.kept = BytesMut::new();
            end(ctx);
            if let Some(late) = self.slot.close() {
                self.refuse(late, ctx);
            }
        }
    }

    /// Fails an exchange of another thread that began while the connection ended. Its request is
    /// behind the close.
    pub(super) fn refuse(&self, mut late: Begun<R>, ctx: &mut HandlerContext<'_>) {
        drop(late.lease.take());
        let why = late.terms.not_begun(self.slot.label());
        late.receiver.fail(why, ctx);
    }
}
