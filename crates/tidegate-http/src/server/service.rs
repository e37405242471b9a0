//! The service of a server: the user's code that responds to requests.

use std::sync::Arc;

use super::request::Request;
use super::response::Response;

/// Responds to the requests of one connection. A closure of a request and a response is one, too.
///
/// ```
/// use tidegate_http::{Request, Response, Service};
///
/// /// Counts the requests of its connection.
/// struct Counter(u32);
///
/// impl Service for Counter {
///     fn call(&mut self, _: Request<'_>, response: Response<'_>) {
///         self.0 += 1;
///         response.body(self.0.to_string());
///     }
/// }
/// ```
///
/// # Threads
///
/// Runs on the thread of the connection. On a pinned group it must not block: other connections of
/// the loop wait for it. On a roaming group it may block.
pub trait Service: Send + 'static {
    /// Responds to a request: at once, or later by [`Response::defer`]. If it panics, the client
    /// gets status 500 and the connection is closed.
    fn call(&mut self, request: Request<'_>, response: Response<'_>);
}

/// A closure that all connections share.
pub(crate) struct Shared<F>(pub(crate) Arc<F>);

impl<F> Service for Shared<F>
where
    F: Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
{
    #[inline]
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        (self.0)(request, response);
    }
}
