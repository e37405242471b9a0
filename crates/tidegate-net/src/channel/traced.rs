//! The span of a connection, for a subscriber of `tracing`.
//!
//! The span begins with the first turn of the channel and ends with the channel. Each turn runs in
//! it, so the handlers do too, and so do the tasks that they submit elsewhere.

use tidegate_core::internal::trace::{self, Span};

use super::core::ChannelCore;
use super::pipeline::ChannelPipeline;
use super::state::Life;
use crate::reactor::{IoContext, Next};
use crate::sys::Readiness;

impl<P: ChannelPipeline> ChannelCore<P> {
    /// Runs a turn in the span of the connection. The first turn creates the span, and not the
    /// constructor, because that runs while the event loop changes its list of sources.
    #[cold]
    #[inline(never)]
    pub(super) fn turn_in_span(
        &mut self,
        readiness: Readiness,
        io_context: &mut IoContext,
    ) -> Next {
        self.in_span(|core| core.turn(readiness, io_context))
    }

    /// Runs `work` in the span of the connection.
    #[cold]
    #[inline(never)]
    pub(super) fn in_span(&mut self, work: impl FnOnce(&mut Self) -> Next) -> Next {
        let mut span = self.take_span();
        if span.is_none() && matches!(self.state().life, Life::New(_)) {
            span = self.new_span();
        }
        let entered = span.enter();
        let next = work(self);
        drop(entered);
        self.set_span(span);
        next
    }

    fn new_span(&self) -> Span {
        let shared = self.shared();
        let side = match shared.origin() {
            Some(_) => "server",
            None => "client",
        };
        trace::connection_span(side, shared.token().bits(), shared.peer().name())
    }
}
