//! The request that a service gets: its head, and access to its body.

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use matchit::Params;
use tidegate_net::Channel;
use tidegate_promise::{Completion, Failure, promise};

use super::body::{Body, BodyError, BodySink, Collector};
use crate::codec::{BodyFraming, Fields, Method, RequestHead, Version};
use crate::percent;

/// What the service has done with the body of its request.
#[derive(Default)]
pub(crate) enum Intake {
    /// There is no body, or all of it was received.
    #[default]
    None,
    /// The service has not asked for the body.
    Unasked,
    /// The service receives the body.
    Sink(Box<dyn BodySink>, Pace),
    /// The rest of the body is discarded, at most so many bytes.
    Discard(u64),
    /// The rest of the body is dropped: no request follows.
    Dropped,
}

/// Whether a service goes on receiving a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Reads,
    /// It has enough for the moment, or has not begun.
    Holds,
}

impl Intake {
    /// Returns what receives the body for the service.
    pub(crate) fn into_sink(self) -> Option<Box<dyn BodySink>> {
        match self {
            Self::Sink(sink, _) => Some(sink),
            Self::None | Self::Unasked | Self::Discard(_) | Self::Dropped => None,
        }
    }
}

/// A request. Its head borrows from the received bytes: nothing was copied.
///
/// A service that needs the body takes it with [`collect`](Request::collect) or
/// [`into_body`](Request::into_body), and defers its response. Otherwise the server discards the
/// body.
///
/// ```
/// use tidegate_http::{Method, Request, Response};
///
/// fn respond(request: Request<'_>, response: Response<'_>) {
///     match (request.method(), request.field("Accept-Language")) {
///         (Method::Get, Some(language)) if language.starts_with(b"de") => response.body("hallo\n"),
///         (Method::Get, _) => response.body(format!("hello from {}\n", request.path())),
///         _ => response.status(405).field("Allow", "GET").body(""),
///     }
/// }
/// # let group = tidegate_net::pinned("web", 1)?;
/// # let server = tidegate_http::serve(&group, "127.0.0.1:0", respond).wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Request<'a> {
    head: RequestHead<'a>,
    intake: &'a mut Intake,
    channel: &'a Channel,
    seq: u64,
    /// The parameters of the route, if a router calls the service.
    params: Option<&'a Params<'a, 'a>>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        head: RequestHead<'a>,
        intake: &'a mut Intake,
        channel: &'a Channel,
        seq: u64,
    ) -> Self {
        Self {
            head,
            intake,
            channel,
            seq,
            params: None,
        }
    }

    /// Returns the request with the parameters of its route.
    pub(crate) fn with_params<'b>(self, params: &'b Params<'b, 'b>) -> Request<'b>
    where
        'a: 'b,
    {
        Request {
            params: Some(params),
            ..self
        }
    }

    /// Returns the whole head.
    pub fn head(&self) -> RequestHead<'a> {
        self.head
    }

    /// Returns the method.
    pub fn method(&self) -> Method<'a> {
        self.head.method()
    }

    /// Returns the path of the target, without the query, as it was sent.
    pub fn path(&self) -> &'a str {
        self.head.path()
    }

    /// Returns the query of the target, without the question mark.
    pub fn query(&self) -> Option<&'a str> {
        self.head.query()
    }

    /// Returns a parameter of the route of a [`Router`](crate::Router), percent-decoded. Text without
    /// encoded bytes is borrowed. Returns `None` if the route has no parameter of that name.
    pub fn param(&self, name: &str) -> Option<Cow<'a, str>> {
        percent::decode(self.params?.get(name)?)
    }

    /// Returns the version of the protocol.
    pub fn version(&self) -> Version {
        self.head.version()
    }

    /// Returns the first field of that name, in any spelling.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.head.get(name)
    }

    /// Returns all fields, in their original order and spelling.
    pub fn fields(&self) -> Fields<'a> {
        self.head.fields()
    }

    /// Returns the address of the client. A Unix socket has none.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.channel.peer_addr()
    }

    /// Returns the handle of the connection.
    pub fn channel(&self) -> &'a Channel {
        self.channel
    }

    /// Returns the protocols to which the client wants to change, from its field `Upgrade`.
    /// [`Response::switch`](super::Response::switch) accepts. In HTTP/1.0 the field is ignored, and
    /// so it is in a request with a body. A `CONNECT` has none: its method says it.
    pub fn upgrade(&self) -> Option<&'a [u8]> {
        let framing = self.head.framing();
        self.head.upgrade().filter(|_| framing.is_empty())
    }

    /// Returns the length of the body, if the client declared it.
    pub fn content_length(&self) -> Option<u64> {
        self.head.framing().length()
    }

    /// Collects the body, if it has at most `max` bytes. The completion runs its listeners on the
    /// connection's thread. It fails with a [`BodyError`] if the body is larger or cannot be read to
    /// its end.
    pub fn collect(self, max: usize) -> Completion<Bytes> {
        if self.is_bodiless() {
            return Completion::succeeded(Bytes::new());
        }
        if self
            .content_length()
            .is_some_and(|length| length > max as u64)
        {
            return Completion::failed(Failure::new(BodyError::TooLarge { max }));
        }
        let (promise, collected) = promise();
        let collector = Collector::new(max, promise, self.channel);
        *self.intake = Intake::Sink(Box::new(collector), Pace::Reads);
        collected
    }

    /// Returns the body as a handle that any thread or future can read, piece by piece.
    pub fn into_body(self) -> Body {
        if self.is_bodiless() {
            return Body::empty(self.channel.clone(), self.seq);
        }
        let length = self.content_length();
        let expects = self.head.expects_continue();
        let (body, sink) = Body::new(self.channel.clone(), self.seq, length, expects);
        *self.intake = Intake::Sink(sink, Pace::Reads);
        body
    }

    fn is_bodiless(&self) -> bool {
        let framing = self.head.framing();
        framing.is_empty() || framing == BodyFraming::Tunnel
    }
}

tidegate_core::debug_fields!(Request<'_>, this => method: this.method().as_str(), target: this.head.target());
