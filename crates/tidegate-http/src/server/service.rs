//! The service of a server: the user's code that responds to requests.

use std::sync::Arc;

use tidegate_net::Channel;

use super::request::Request;
use super::response::Response;
use crate::codec::{Method, RefusalReason, RequestHead};

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

    /// Is told that the server itself has refused a request: its head is malformed, too large or too
    /// late, or declares a body that is too large. The client gets the status of the reason, and the
    /// connection ends. Use it for a log. Unless it is implemented, it does nothing.
    ///
    /// The head is known only if it is complete and well-formed: if its body is too large, or its
    /// `Expect` is unknown. The method is known if the head begins with one. A request whose body is refused was passed to
    /// [`call`](Service::call), and its body fails with
    /// [`BodyError::Refused`](super::BodyError::Refused).
    ///
    /// ```
    /// use tidegate_http::codec::{Method, RefusalReason, RequestHead};
    /// use tidegate_http::{Request, Response, Service};
    /// use tidegate_net::Channel;
    ///
    /// struct Logged;
    ///
    /// impl Service for Logged {
    ///     fn call(&mut self, request: Request<'_>, response: Response<'_>) {
    ///         println!("{} 200", request.path());
    ///         response.body("hello");
    ///     }
    ///
    ///     fn refused(
    ///         &mut self,
    ///         reason: RefusalReason,
    ///         method: Option<Method<'_>>,
    ///         _: Option<&RequestHead<'_>>,
    ///         _: &Channel,
    ///     ) {
    ///         let method = method.map_or("?", Method::as_str);
    ///         println!("{method} {} {reason}", reason.status());
    ///     }
    /// }
    /// ```
    fn refused(
        &mut self,
        reason: RefusalReason,
        method: Option<Method<'_>>,
        head: Option<&RequestHead<'_>>,
        channel: &Channel,
    ) {
        let _ = (reason, method, head, channel);
    }

    /// Is told that the server resets the connection because its client took no byte of a response for
    /// [`Limits::send_time`](super::Limits::send_time). The service is dropped next. Use it for a log.
    /// Unless it is implemented, it does nothing.
    fn slow_reader(&mut self) {}
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
