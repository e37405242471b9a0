//! Tests of a server's connection over an embedded channel, with a clock set by hand.

mod bodies;
mod deferred;
mod drains;
mod early;
mod exchanges;
mod interim;
mod late;
mod limits;
mod metrics;
mod mistakes;
mod splits;
mod streams;
mod switching;
mod turns;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_net::{EmbeddedChannel, PipelineBuilder};

use super::body::Body;
use super::connection::Connection;
use super::date::WallClock;
use super::handler::HttpHandler;
use super::limits::Limits;
use super::metrics::{Counters, HttpMetrics};
use super::request::Request;
use super::response::Response;
use super::serve::channel_options;
use super::service::{Service, Shared};
use super::shared::ServerShared;
use crate::server::DeferredResponse;

/// A client of one connection.
pub(crate) struct Client {
    pub(crate) socket: EmbeddedChannel,
    /// The clock of the server; that of the socket shows the same time.
    clock: ManualClock,
    shared: Arc<ServerShared>,
}

impl Client {
    pub(crate) fn new(respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static) -> Self {
        Self::with_limits(Limits::default(), respond)
    }

    pub(crate) fn with_limits(
        limits: Limits,
        respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self::with_service(limits, Shared(Arc::new(respond)))
    }

    /// A client of a service that keeps for its test what `keep` returns.
    pub(crate) fn keeping<T: Send + 'static>(
        limits: Limits,
        keep: impl Fn(Request<'_>, Response<'_>) -> Option<T> + Send + Sync + 'static,
    ) -> (Self, Kept<T>) {
        let kept = Arc::<Mutex<Vec<T>>>::default();
        let own = Arc::clone(&kept);
        let client = Self::with_limits(limits, move |request, response| {
            let one = keep(request, response);
            own.lock().unwrap().extend(one);
        });
        (client, Kept(kept))
    }

    /// A client of a service that defers all responses but those to `/now`.
    pub(crate) fn deferring() -> (Self, Kept<(String, DeferredResponse)>) {
        Self::deferring_within(Limits::default())
    }

    pub(crate) fn deferring_within(limits: Limits) -> (Self, Kept<(String, DeferredResponse)>) {
        Self::keeping(limits, |request, response| match request.path() {
            "/now" => {
                response.body("now");
                None
            }
            path => Some((path.to_owned(), response.defer())),
        })
    }

    /// A client of a service that keeps bodies and responses.
    pub(crate) fn reading() -> (Self, Kept<(Body, DeferredResponse)>) {
        Self::reading_within(Limits::default())
    }

    pub(crate) fn reading_within(limits: Limits) -> (Self, Kept<(Body, DeferredResponse)>) {
        Self::keeping(limits, |request, response| {
            Some((request.into_body(), response.defer()))
        })
    }

    pub(crate) fn with_service(limits: Limits, service: impl Service) -> Self {
        Self::behind(|pipeline| pipeline, limits, service)
    }

    /// Creates a client of a server with handlers in front of it.
    pub(crate) fn behind(
        front: impl FnOnce(PipelineBuilder) -> PipelineBuilder,
        limits: Limits,
        service: impl Service,
    ) -> Self {
        let clock = ManualClock::new();
        let wall = WallClock::new(&(&clock).into());
        let counters = Counters::new(["embedded"].into_iter(), true);
        let shared = ServerShared::new(limits, wall, counters);
        let connection = Connection::new(service, Arc::clone(&shared));
        let handler = HttpHandler::<_, false>(connection);
        let socket = EmbeddedChannel::with_options(channel_options(), |p| {
            front(p).add_duplex("http", handler)
        });
        let socket = socket.unwrap();
        Self {
            socket,
            clock,
            shared,
        }
    }

    /// Sends bytes and returns what came back.
    pub(crate) fn send(&mut self, bytes: impl Into<Bytes>) -> String {
        self.socket.receive(bytes);
        self.socket.run();
        self.responses()
    }

    /// Returns what was sent to the client, without the `Date` fields.
    pub(crate) fn responses(&mut self) -> String {
        self.socket.run();
        let sent = String::from_utf8(self.socket.sent().to_vec()).unwrap();
        let mut kept = String::new();
        for line in sent.split_inclusive("\r\n") {
            if line.starts_with("date: ") || line.starts_with("Date: ") {
                assert!(line.ends_with(" GMT\r\n") && line.len() == 37, "{line:?}");
            } else {
                kept.push_str(line);
            }
        }
        kept
    }

    pub(crate) fn pass(&mut self, time: Duration) -> String {
        self.advance(time);
        self.responses()
    }

    /// Advances time.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.clock.advance(time);
        self.socket.advance(time);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Returns `true` if the server has ended its half, and waits for the client to end the other
    /// one. The connection ends when the client does so, or when the time for it is over.
    pub(crate) fn is_lingering(&self) -> bool {
        self.is_open() && self.socket.is_output_shut()
    }

    pub(crate) fn fire(&mut self, event: impl Send + 'static) {
        self.socket.channel().fire_event(event);
        self.socket.run();
    }

    pub(crate) fn close(&mut self) {
        self.socket.close();
        self.socket.run();
    }

    pub(crate) fn end_input(&mut self) {
        self.socket.end_input();
        self.socket.run();
    }

    /// Returns `true` if the server has ended its half, or the connection.
    pub(crate) fn is_ending(&self) -> bool {
        self.socket.is_output_shut() || !self.is_open()
    }

    pub(crate) fn metrics(&self) -> HttpMetrics {
        self.shared.counters.snapshot()
    }
}

/// What a service keeps for its test, in the order of its requests.
pub(crate) struct Kept<T>(Arc<Mutex<Vec<T>>>);

impl<T> Kept<T> {
    pub(crate) fn first(&self) -> T {
        self.0.lock().unwrap().remove(0)
    }

    pub(crate) fn last(&self) -> T {
        self.0.lock().unwrap().pop().unwrap()
    }

    pub(crate) fn all(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl<T> Kept<(String, T)> {
    /// Takes the one with this name.
    pub(crate) fn take(&self, name: &str) -> T {
        let mut kept = self.0.lock().unwrap();
        let at = kept.iter().position(|(own, _)| own == name).unwrap();
        kept.remove(at).1
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let kept = self.0.lock().unwrap();
        kept.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// The service of most tests: responds with the method and the path.
pub(crate) fn echo(request: Request<'_>, response: Response<'_>) {
    let text = format!("{} {}", request.method(), request.path());
    response.body(text);
}

/// A response with status 200 and `body`.
pub(crate) fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// A response without a body, after which the connection is closed.
pub(crate) fn closing(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// A request without a body.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}
