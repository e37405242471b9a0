//! How an exchange and its connection end.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tidegate_net::HandlerContext;
use tidegate_promise::Failure;

use super::{Connection, LIMIT, after};
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
        if current.is_some_and(|current| current.id == id) {
            self.leave(ctx);
        }
    }

    /// Closes the connection, because its receiver wants nothing more.
    pub(super) fn leave(&mut self, ctx: &mut HandlerContext<'_>) {
        self.course.gone = self.current.is_some();
        self.abandon(ctx);
    }

    /// Ends the exchange after its response; `rest` was received behind it.
    pub(super) fn finish(&mut self, rest: &[u8], ctx: &mut HandlerContext<'_>) {
        if self.current.is_none() {
            return;
        }
        let course = &self.course;
        let server_idle = course.server_idle.unwrap_or(Duration::MAX);
        let now = ctx.now();
        let age = Duration::from_nanos(now.saturating_sub(self.since));
        let complete = self.stop_request();
        let usable = course.keep
            && complete
            && !self.over
            && rest.is_empty()
            && !ctx.has_unsent()
            && self.served < self.limits.max_requests
            && age < self.limits.max_age;
        if usable && self.lease.is_some() {
            self.watch_idle(self.limits.idle.min(server_idle), now, ctx);
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

    /// Stops the request, because its response has ended. Returns `true` if it was complete. Otherwise
    /// its rest is not sent, and the connection cannot serve another one.
    fn stop_request(&self) -> bool {
        self.course.complete || self.slot.stop()
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
        if self.over {
            return;
        }
        self.load(ctx);
        self.watched_until = 0;
        let (now, limits) = (ctx.now(), self.limits);
        if self.current.is_none() {
            return match self.idle_until.saturating_sub(now) {
                0 => self.close(ctx),
                left => {
                    let left = Duration::from_nanos(left);
                    ctx.deadline(LIMIT, left.min(limits.head_timeout));
                }
            };
        }
        if self.course.paused {
            return;
        }
        let sent = ctx.sent_bytes();
        if sent > std::mem::replace(&mut self.course.sent_seen, sent) && ctx.has_unsent() {
            // The request is still being sent, and the server takes it.
            return ctx.deadline(LIMIT, limits.head_timeout);
        }
        if self.course.in_body {
            return self.fail(Kind::Timeout(limits.body_timeout), ctx);
        }
        let progress = self.slot.progress();
        if !progress.complete && !ctx.has_unsent() {
            // The rest of the request has not been written yet: the server is not slow.
            return ctx.deadline(LIMIT, limits.head_timeout);
        }
        // The request may have begun, or become complete, after the deadline was set.
        let until = after(progress.since, limits.head_timeout);
        match until.saturating_sub(now) {
            0 => self.fail(Kind::Timeout(limits.head_timeout), ctx),
            left => ctx.deadline(LIMIT, Duration::from_nanos(left)),
        }
    }

    /// Handles an error of the connection.
    pub(in crate::client) fn error(&mut self, why: Failure, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.fail(Kind::closed(why), ctx);
    }

    /// Handles that the server has ended its side. A body without a length is complete then.
    pub(in crate::client) fn input_ended(&mut self, ctx: &mut HandlerContext<'_>) {
        if self.over {
            return;
        }
        self.load(ctx);
        self.deliver_rest(ctx);
        if self.over {
            return;
        }
        if self.current.is_none() {
            return self.close(ctx);
        }
        if self.course.in_body && self.decoder.in_body() && self.decoder.end_of_input().is_ok() {
            let complete = self.stop_request();
            self.close_behind(complete, ctx);
            if let Some(current) = self.current.take() {
                current.receiver.end(ctx);
            }
            return;
        }
        self.fail_early(ctx);
    }

    /// Handles the end of the connection. If the server has not ended its side before, this program
    /// or an error did: a response in progress is not complete.
    pub(in crate::client) fn closed(&mut self, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        self.over = true;
        self.link = None;
        let late = self.slot.close();
        // The next attempt may need the permit.
        drop((self.lease.take(), self.reservation.take()));
        if let Some(late) = late {
            self.refuse(late, ctx);
        }
        self.deliver_rest(ctx);
        self.fail_early(ctx);
        // One that wants nothing more.
        drop(self.current.take());
    }

    /// Delivers what a receiver that has paused did not take: nothing more comes.
    pub(super) fn deliver_rest(&mut self, ctx: &mut HandlerContext<'_>) {
        self.input_over = true;
        if self.current.is_some() && !self.course.gone {
            self.course.paused = false;
            self.advance_kept(ctx);
        }
    }

    /// Fails the exchange in progress, if there is one, because the connection ended before it.
    pub(super) fn fail_early(&mut self, ctx: &mut HandlerContext<'_>) {
        if self.current.is_some() {
            let why = match self.course.in_body {
                true => Kind::Truncated,
                false => Kind::Closed(None),
            };
            self.fail(why, ctx);
        }
    }

    pub(super) fn fail(&mut self, cause: Kind, ctx: &mut HandlerContext<'_>) {
        match matches!(cause, Kind::Connect(_)) {
            // The peer gets the alert that says why.
            true => self.close(ctx),
            false => self.abandon(ctx),
        }
        if let Some(current) = self.current.take_if(|_| !self.course.gone) {
            let sent = ctx.sent_bytes() > self.sent_before;
            let why = ExchangeError {
                cause,
                sent,
                responded: self.course.responded,
                reused: self.served > 1,
                in_body: self.course.in_body,
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
        if !std::mem::replace(&mut self.over, true) {
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
