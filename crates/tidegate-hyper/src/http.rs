//! The settings of an HTTP server, and its start.

use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper::{Request, Response};
use tidegate_net::{
    Address, Channel, LocalStream, LocalStreamHandler, NetGroup, Server, StreamHandler,
};
use tidegate_promise::Completion;

use crate::connection::{BoxError, HttpConnection};
use crate::executor::LoopExecutor;
use crate::timer::LoopTimer;
use crate::tower::TowerService;

/// The settings of an HTTP server on event loops, and its start. [`serve`] uses the defaults.
///
/// One port serves HTTP/1 and HTTP/2; a client of HTTP/2 begins with its preface ("prior
/// knowledge"). The timer of hyper is always set, so that its timeouts work.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use http_body_util::Full;
/// use hyper::service::service_fn;
/// use hyper::{Request, Response, body::{Bytes, Incoming}};
/// use tidegate_hyper::Http;
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
///     Ok(Response::new(Full::from("hello")))
/// }
///
/// let group = tidegate_net::pinned("http", 1)?;
/// let server = Http::new()
///     .head_timeout(Duration::from_secs(5))
///     .http1(|http1| { http1.max_buf_size(64 * 1024); })
///     .serve_with(&group, "127.0.0.1:0", |_channel| service_fn(hello))
///     .wait()?;
/// server.drain(Duration::from_secs(10)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Http {
    http1: http1::Builder,
    http2: http2::Builder<LoopExecutor>,
    head_timeout: Option<Duration>,
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Http {
    /// The default time limit for the head of a request.
    pub const DEFAULT_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns the default settings.
    pub fn new() -> Self {
        Self {
            http1: http1::Builder::new(),
            http2: http2::Builder::new(LoopExecutor),
            head_timeout: Some(Self::DEFAULT_HEAD_TIMEOUT),
        }
    }

    /// Sets the time limit for the first bytes of a connection, and for the head of each request of
    /// HTTP/1, which includes the wait for it. `None` means no limit.
    pub fn head_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.head_timeout = limit.into();
        self
    }

    /// Changes hyper's settings for HTTP/1. Its timer and its head timeout are set by this crate.
    pub fn http1(mut self, change: impl FnOnce(&mut http1::Builder)) -> Self {
        change(&mut self.http1);
        self
    }

    /// Changes hyper's settings for HTTP/2. Its timer is set by this crate.
    pub fn http2(mut self, change: impl FnOnce(&mut http2::Builder<LoopExecutor>)) -> Self {
        change(&mut self.http2);
        self
    }

    /// Serves `service` on `address`, like [`serve`].
    pub fn serve<S, B>(
        self,
        group: &NetGroup,
        address: impl Into<Address>,
        service: S,
    ) -> Completion<Server>
    where
        S: tower_service::Service<Request<Incoming>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: 'static,
        S::Error: Into<BoxError> + 'static,
        B: Body<Error: Into<BoxError>> + 'static,
    {
        let make = move |_: &Channel| TowerService::new(service.clone());
        self.serve_with(group, address, make)
    }

    /// Serves on `address` with a hyper service for each connection. `make` creates it on the event
    /// loop of the connection, so neither the service nor its futures need be `Send`.
    pub fn serve_with<M, S>(
        self,
        group: &NetGroup,
        address: impl Into<Address>,
        make: M,
    ) -> Completion<Server>
    where
        M: Fn(&Channel) -> S + Send + Sync + 'static,
        S: HttpService<Incoming, Error: Into<BoxError>, Future: 'static> + 'static,
        S::ResBody: Body<Error: Into<BoxError>> + 'static,
    {
        let handler = self.handlers(make);
        Server::builder(group)
            .pipeline(move |p| p.add("http", handler()))
            .bind(address)
    }

    /// Returns a closure that creates the last handler of an HTTP connection, for a server whose
    /// pipeline has handlers before it, for example TLS.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use http_body_util::Full;
    /// use hyper::service::service_fn;
    /// use hyper::{Request, Response, body::{Bytes, Incoming}};
    /// use tidegate_hyper::Http;
    /// use tidegate_net::EmbeddedChannel;
    ///
    /// async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    ///     Ok(Response::new(Full::from("hello")))
    /// }
    ///
    /// let handler = Http::new().handlers(|_channel| service_fn(hello));
    /// let mut channel = EmbeddedChannel::new(|p| p.add("http", handler()))?;
    /// channel.receive("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    /// assert!(channel.sent().ends_with(b"hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handlers<M, S>(self, make: M) -> impl Fn() -> HttpHandler<S> + Send + Sync + 'static
    where
        M: Fn(&Channel) -> S + Send + Sync + 'static,
        S: HttpService<Incoming, Error: Into<BoxError>, Future: 'static> + 'static,
        S::ResBody: Body<Error: Into<BoxError>> + 'static,
    {
        let (make, http) = (Arc::new(make), Arc::new(self));
        move || {
            let (make, http) = (Arc::clone(&make), Arc::clone(&http));
            StreamHandler::local(Box::new(move |stream: LocalStream| {
                let service = make(&stream.channel());
                HttpConnection::new(stream, service, http)
            }))
        }
    }

    /// Returns the settings of one connection of HTTP/1.
    pub(crate) fn http1_by(&self, timer: LoopTimer) -> http1::Builder {
        let mut http1 = self.http1.clone();
        http1.timer(timer).header_read_timeout(self.head_timeout);
        http1
    }

    /// Returns the settings of one connection of HTTP/2.
    pub(crate) fn http2_by(&self, timer: LoopTimer) -> http2::Builder<LoopExecutor> {
        let mut http2 = self.http2.clone();
        http2.timer(timer);
        http2
    }

    pub(crate) fn first_bytes(&self) -> Option<Duration> {
        self.head_timeout
    }
}

/// The last handler of a pipeline that serves HTTP. Created by [`Http::handlers`].
pub type HttpHandler<S> = LocalStreamHandler<Begin<S>, HttpConnection<S>>;

/// Begins to serve a connection.
type Begin<S> = Box<dyn FnOnce(LocalStream) -> HttpConnection<S>>;

/// Serves `service` on `address`, on the event loops of `group`. `service` is a service of tower: an
/// `axum::Router`, the routes of tonic, or a stack of layers. Each request gets a clone.
///
/// The completion succeeds with the [`Server`] when it listens. [`Server::drain`] ends its
/// connections: those without a request at once, the others after their responses, and the rest at
/// the deadline.
///
/// ```
/// use std::convert::Infallible;
/// use std::time::Duration;
/// use http_body_util::Full;
/// use hyper::{Request, Response, body::{Bytes, Incoming}};
/// use tower::service_fn;
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
///     Ok(Response::new(Full::from("hello")))
/// }
///
/// let group = tidegate_net::pinned("http", 2)?;
/// let server = tidegate_hyper::serve(&group, "127.0.0.1:0", service_fn(hello)).wait()?;
/// println!("listening on {}", server.local_addr());
/// server.drain(Duration::from_secs(10)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve<S, B>(group: &NetGroup, address: impl Into<Address>, service: S) -> Completion<Server>
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>>,
    S: Clone + Send + Sync + 'static,
    S::Future: 'static,
    S::Error: Into<BoxError> + 'static,
    B: Body<Error: Into<BoxError>> + 'static,
{
    Http::new().serve(group, address, service)
}
