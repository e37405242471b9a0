//! An asynchronous service: a function from `http::Request` to a future of `http::Response`.
//!
//! | file | contents |
//! |---|---|
//! | `convert` | heads of this crate as those of the crate `http`, and back |
//! | `incoming` | `http_body::Body` for the body of a request |
//! | `drive` | the future of one request: calls the user's function, and sends the response |
//! | this one | the service that runs these futures on the connection's loop |
//!
//! Imports point from `drive` to `convert`, and from here to both.

mod convert;
mod drive;
mod incoming;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http_body::Body as HttpBody;
use tidegate_loop::{EventLoop, Pinned};
use tidegate_net::{Address, NetGroup};
use tidegate_promise::{CancelOnDrop, Completion};

use self::drive::BoxError;
use crate::server::{Body, HttpServer, HttpServerBuilder, Request, Response, Service};

/// Serves HTTP/1.1 on `address` with an asynchronous function. Its futures run on the loop of the
/// connection, and need not be `Send`.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Full};
/// use tidegate_http::{Body, serve_async};
///
/// async fn shout(request: Request<Body>) -> Response<Full<Bytes>> {
///     match request.into_body().collect().await {
///         Ok(body) => Response::new(Full::from(body.to_bytes().to_ascii_uppercase())),
///         Err(_) => Response::builder().status(400).body(Full::default()).expect("it is valid"),
///     }
/// }
///
/// let group = tidegate_net::pinned("web", 1)?;
/// let server = serve_async(&group, "127.0.0.1:0", shout).wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Bodies are read and sent on demand in both directions: a function that does not read stops its
/// client, and a client that does not read stops its function. The framing follows from the body: a
/// size hint that is exact, or a field `Content-Length`, becomes the length, otherwise the body is
/// chunked. The extensions of a request hold the [`Channel`](tidegate_net::Channel) of the
/// connection.
///
/// Exactly one response is sent. A future that panics is status 500, and ends the connection. A body
/// that fails ends it too, so that the client does not take the part for the whole. If the
/// connection ends first, the futures of its requests are dropped.
///
/// # Costs
///
/// A request is copied into the types of the crate `http`: about ten allocations that
/// [`serve`](crate::serve) does not have. Futures must not block, and are for pinned groups. A client
/// that waits for `100 Continue` gets it at once.
pub fn serve_async<F, B>(
    group: &NetGroup,
    address: impl Into<Address>,
    respond: F,
) -> Completion<HttpServer>
where
    F: AsyncFn(http::Request<Body>) -> http::Response<B> + Send + Sync + 'static,
    B: HttpBody + 'static,
    B::Error: Into<BoxError>,
{
    HttpServer::builder(group).serve_async(address, respond)
}

impl HttpServerBuilder<Pinned> {
    /// Listens on `address` and calls an asynchronous function for each request, as
    /// [`serve_async`] does.
    pub fn serve_async<F, B>(
        self,
        address: impl Into<Address>,
        respond: F,
    ) -> Completion<HttpServer>
    where
        F: AsyncFn(http::Request<Body>) -> http::Response<B> + Send + Sync + 'static,
        B: HttpBody + 'static,
        B::Error: Into<BoxError>,
    {
        let respond = Arc::new(respond);
        self.serve_with(address, move || AsyncService {
            respond: Arc::clone(&respond),
            running: Vec::new(),
        })
    }
}

/// The requests of one connection that the user's function has not responded to.
struct AsyncService<F> {
    respond: Arc<F>,
    /// Dropped with the connection, which drops the futures.
    running: Vec<CancelOnDrop<()>>,
}

impl<F, B> Service for AsyncService<F>
where
    F: AsyncFn(http::Request<Body>) -> http::Response<B> + Send + Sync + 'static,
    B: HttpBody + 'static,
    B::Error: Into<BoxError>,
{
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        // At most as many as responses may be outstanding.
        self.running.retain(|running| !running.is_done());
        let Some(head) = convert::head(&request) else {
            let response = response.status(400).field("Connection", "close");
            return response.body("");
        };
        let is_head = request.method() == crate::Method::Head;
        let request = http::Request::from_parts(head, request.into_body());
        let future = drive::drive(
            Arc::clone(&self.respond),
            request,
            is_head,
            response.defer(),
        );
        // A loop that is shutting down refuses the future, which drops the response: status 500.
        let home = EventLoop::current();
        if let Some(Ok(running)) = home.map(|home| home.spawn_local(future))
            && !running.is_done()
        {
            self.running.push(running.cancel_on_drop());
        }
    }
}
