//! Requests that do not run beside others: those whose method is not safe.
//!
//! Pipelined requests may be handled at the same time only if all of them have safe methods (RFC 9112,
//! section 9.3.2). Another one begins when the responses of all earlier requests are complete, and the
//! next request begins when its own response is. Until then the connection does not read, as if too
//! many responses were outstanding: the limit is one.
//!
//! ```text
//!   GET /a   GET /b   PUT /c           GET /d
//!   ├──────────┤        held back: the queue is not empty
//!      ├───────────┤
//!                  ├───────────────┤   alone: the limit is one
//!                                  ├───────── the usual limit
//! ```

use super::Connection;
use crate::codec::RequestHead;
use crate::server::service::Service;

impl<S: Service> Connection<S> {
    /// Returns `true` if the request may not begin now.
    #[inline]
    pub(super) fn is_early(&self, head: &RequestHead<'_>) -> bool {
        !self.queue.is_empty() && !head.method().is_safe()
    }

    /// Leaves a request among the received bytes that are kept, until the queue is empty. Its head is
    /// parsed again then.
    #[cold]
    pub(super) fn hold_back(&mut self) {
        self.decoder.put_back();
        self.outstanding = 1;
    }

    /// Sets how many responses may be outstanding, now that one of a request is: after one that is not
    /// `safe`, no further one.
    pub(super) fn take_turn(&mut self, safe: bool) {
        self.outstanding = match safe {
            true => self.shared.limits.outstanding,
            false => 1,
        };
    }
}
