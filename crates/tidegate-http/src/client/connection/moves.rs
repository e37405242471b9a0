//! Connections that another handler or another loop takes over.

use tidegate_net::{Handler, HandlerContext, PipelineChange};

use super::course::Course;
use super::{Connection, LIMIT};
use crate::client::exchange_handler::ExchangeHandler;
use crate::client::pool::Lease;
use crate::client::slot::{Depart, Departure, Link, Record};
use crate::codec::HeadLimits;

/// The name of a handler that has taken a connection over.
pub(in crate::client) const SWITCHED: &str = "switched";

impl<R: ExchangeHandler> Connection<R> {
    /// Passes the connection to another handler. It leaves the pool.
    pub(super) fn hand_over(&mut self, handler: Handler, ctx: &mut HandlerContext<'_>) {
        ctx.clear_deadline(LIMIT);
        self.current = None;
        let me = ctx.name().to_owned();
        if ctx
            .change(PipelineChange::replace(me, SWITCHED, handler))
            .is_err()
        {
            // A handler that does not take bytes.
            return self.close(ctx);
        }
        self.course = Course::Over;
        if let Some(late) = self.slot.close() {
            self.refuse(late, ctx);
        }
    }

    /// Makes an idle connection leave this loop. Stops reading first, so that what the server sends
    /// meanwhile stays in the socket. If the connection is ending, `depart` is dropped.
    pub(in crate::client) fn depart(&mut self, depart: Depart<R>, ctx: &mut HandlerContext<'_>) {
        self.load(ctx);
        let Course::Idle { until } = self.course else {
            return;
        };
        let Some(lease) = self.lease.take() else {
            return;
        };
        ctx.set_auto_read(false);
        ctx.clear_deadline(LIMIT);
        let me = ctx.name().to_owned();
        if ctx.change(PipelineChange::remove(me)).is_err() {
            self.lease = Some(lease);
            return self.close(ctx);
        }
        self.course = Course::Over;
        if let Some(late) = self.slot.close() {
            self.refuse(late, ctx);
        }
        depart.with(Departure {
            channel: ctx.channel(),
            lease,
            record: Record {
                limits: self.limits,
                served: self.served,
                since: self.since,
                idle_until: until,
            },
        });
    }

    /// Creates the state of a connection that goes on here after it was idle on another loop.
    pub(in crate::client) fn resumed(record: Record, lease: Option<Lease<Link<R>>>) -> Self {
        let mut connection = Self::new(record.limits, HeadLimits::DEFAULT);
        connection.lease = lease;
        connection.served = record.served;
        connection.since = record.since;
        connection.course = Course::Idle {
            until: record.idle_until,
        };
        connection
    }
}
