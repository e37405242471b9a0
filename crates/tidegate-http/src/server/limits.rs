//! The limits of a server: sizes, times, and numbers of requests.

use std::time::Duration;

use crate::codec::{BodyLimits, HeadLimits};

/// What a server accepts from a client, and how long it waits for it.
///
/// Each limit has a status: a client that exceeds it gets that status once, and its connection is
/// closed.
///
/// ```
/// use std::time::Duration;
/// use tidegate_http::Limits;
///
/// let limits = Limits::default().max_body(1 << 20).idle(Duration::from_secs(15));
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "limits have an effect when they are given to a server"]
pub struct Limits {
    pub(crate) head: HeadLimits,
    pub(crate) body: BodyLimits,
    pub(crate) head_time: Duration,
    pub(crate) body_time: Duration,
    pub(crate) send_time: Duration,
    pub(crate) response_time: Duration,
    pub(crate) idle: Duration,
    /// The time for the first request of a new connection in a drain.
    pub(crate) first_request: Duration,
    pub(crate) outstanding: usize,
    pub(crate) discard: u64,
    pub(crate) half_close: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::DEFAULT,
            body: BodyLimits::default(),
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            send_time: Duration::from_secs(30),
            response_time: Duration::from_secs(300),
            idle: Duration::from_secs(75),
            first_request: Duration::from_secs(2),
            outstanding: 16,
            discard: 64 * 1024,
            half_close: true,
        }
    }
}

impl Limits {
    /// Sets the longest request line (8 KiB by default). A longer one gets status 414.
    pub fn max_request_line(mut self, bytes: u16) -> Self {
        self.head.start_line = bytes;
        self
    }

    /// Sets the largest head (32 KiB by default). A larger one gets status 431.
    pub fn max_head(mut self, bytes: u16) -> Self {
        self.head.head = bytes;
        self
    }

    /// Sets the largest number of fields (100 by default, which is also the maximum). A head with
    /// more gets status 431.
    pub fn max_fields(mut self, fields: u8) -> Self {
        self.head.fields = fields.min(HeadLimits::DEFAULT.fields);
        self
    }

    /// Sets the largest body (unlimited by default). A larger one gets status 413.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.body.body = bytes;
        self
    }

    /// Sets the time for a whole head, from its first byte (10 s by default). A later one gets
    /// status 408.
    pub fn head_time(mut self, after: Duration) -> Self {
        self.head_time = after;
        self
    }

    /// Sets how long a body may make no progress while the service reads it (30 s by default). The
    /// request then gets status 408.
    pub fn body_time(mut self, after: Duration) -> Self {
        self.body_time = after;
        self
    }

    /// Sets how long a client may take no byte of a response (30 s by default). The connection is
    /// then reset. This is looked at in steps of the same time, so the client is cut after at most twice
    /// the time. On Linux, what the client's system acknowledges counts: a full one does so in steps, a
    /// sixteenth of its memory or more. Elsewhere, and for Unix sockets, what the own system takes
    /// counts. Those steps are larger: a client that reads less than some 100 KB/s needs a longer time.
    /// What the own system holds when the connection has ended is left to it;
    /// [`tcp_user_timeout`](tidegate_net::ChannelOptions::tcp_user_timeout) limits that, too.
    pub fn send_time(mut self, after: Duration) -> Self {
        self.send_time = after;
        self
    }

    /// Sets how long the service may take to begin a response (5 minutes by default). The client then
    /// gets status 503, and [`DeferredResponse::is_closed`](super::DeferredResponse::is_closed)
    /// returns `true`. The time runs from the call of the service, or from the end of the request's
    /// body if the service reads it. It is looked at when the client waits for this response and for
    /// no earlier one. [`Duration::MAX`] means that there is no limit.
    ///
    /// A service that blocks its thread and does not return is not covered: only the service can end
    /// that.
    pub fn response_time(mut self, after: Duration) -> Self {
        self.response_time = after;
        self
    }

    /// Sets how long a connection may wait for its next request (75 s by default). It is then
    /// closed without a response.
    pub fn idle(mut self, after: Duration) -> Self {
        self.idle = after;
        self
    }

    /// Sets how many responses of one connection may be outstanding before the server stops reading
    /// from it (16 by default, at least 1). A request whose method is not safe (all but `GET`, `HEAD`,
    /// `OPTIONS` and `TRACE`) runs alone, whatever the limit is.
    pub fn max_outstanding(mut self, responses: usize) -> Self {
        self.outstanding = responses.max(1);
        self
    }

    /// Sets whether a client that has ended its half of the connection gets the responses that are
    /// outstanding (`true` by default). A client that leaves looks the same. A proxy sets `false`, so
    /// that it stops work for clients that have left, and begins none of the requests that they sent
    /// before. It sees the end also while it reads nothing, because a request waits for the one before
    /// it or because its service takes no more of a body, unless the client has sent more than the
    /// system holds.
    pub fn half_close(mut self, yes: bool) -> Self {
        self.half_close = yes;
        self
    }
}
