//! A request that is being built.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_promise::{CancelOnDrop, Completion, Failure, Promise};

use super::Client;
use super::call::{Call, Place, Prepared};
use super::error::{ClientError, Kind, Phase};
use super::method::{is_idempotent, method_of_response};
use super::redirect::{self, MOST_REDIRECTS};
use super::request_body::RequestBody;
use super::response::Response;
use super::url::Url;
use crate::codec::{BodyFraming, EncodeError, Method, encode};

/// How long a body may be to be sent in one piece with its head.
const INLINE_BODY: usize = 4096;

/// Fields that belong to the connection, and those that methods of the builder set.
const OWN_FIELDS: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
];

/// A request that is being built. Made by [`Client::get`] and the like.
///
/// A mistake in the URL or in a field is reported by [`send`](RequestBuilder::send), and nothing is
/// sent then.
#[must_use = "nothing is sent before `send`"]
#[derive(Clone)]
pub struct RequestBuilder {
    pub(super) client: Client,
    label: Arc<str>,
    pub(super) url: Result<Url, Kind>,
    pub(super) method: String,
    pub(super) fields: BytesMut,
    pub(super) has_host: bool,
    pub(super) body: Option<Bytes>,
    pub(super) timeout: Option<Duration>,
    pub(super) redirects: u8,
    /// How long the body waits for the server to ask for it, if it does.
    pub(super) expects: Option<Duration>,
    /// The protocol to which the server may change.
    pub(super) upgrade: Option<String>,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Method<'_>, url: &str) -> Self {
        let parsed = Url::parse(url).map_err(Kind::Url);
        let parsed = match method {
            Method::Connect => Err(Kind::Unsupported(
                "`CONNECT` has no URL; make a tunnel with `Client::tunnel`",
            )),
            _ => parsed,
        };
        let label = match &parsed {
            Ok(parsed) => parsed.label(method),
            // It may contain a password.
            Err(_) if url.contains('@') => format!("{method} of a URL"),
            Err(_) => format!("{method} {url}"),
        };
        Self::with(client, method, parsed, label)
    }

    /// Begins a request for a tunnel to `to`, through a proxy.
    pub(super) fn tunnel(client: Client, proxy: &str, to: &str) -> Self {
        let parsed = Url::tunnel(proxy, to).map_err(Kind::Url);
        let label = match &parsed {
            Ok(parsed) => format!("{}, a tunnel to {}", parsed.proxy(), parsed.target),
            Err(_) => "a tunnel".to_owned(),
        };
        Self::with(client, Method::Connect, parsed, label)
    }

    fn with(client: Client, method: Method<'_>, url: Result<Url, Kind>, label: String) -> Self {
        let timeout = client.timeout();
        Self {
            client,
            label: Arc::from(label),
            url,
            method: method.as_str().to_owned(),
            fields: BytesMut::new(),
            has_host: false,
            body: None,
            timeout,
            redirects: 0,
            expects: None,
            upgrade: None,
        }
    }

    /// Adds a field. Fields are sent in the order of the calls. `Host` and `Content-Length` are set
    /// by the client; a `Host` that is added here replaces that of the client.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let own = OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own));
        let is_host = name.eq_ignore_ascii_case("host");
        let written = match own || (is_host && self.has_host) {
            true => Err(Kind::OwnField(name.to_owned())),
            false => encode::field(&mut self.fields, name, value.as_ref()).map_err(Kind::Encode),
        };
        self.has_host |= is_host;
        if let (Err(why), Ok(_)) = (written, &self.url) {
            self.url = Err(why);
        }
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends the body only when the server asks for it (`Expect: 100-continue`), or after `wait`,
    /// because a server may not know that field. If the response comes before, the body is not sent,
    /// and the connection is closed after the response. A request without a body ignores it.
    pub fn expect_continue(mut self, wait: Duration) -> Self {
        self.expects = Some(wait);
        self
    }

    /// Offers the server to change the protocol, for example to `websocket`. If it does, the status
    /// of the response is 101, and [`Response::into_upgraded`] returns the connection. Otherwise the
    /// response is an ordinary one.
    pub fn upgrade(mut self, protocol: &str) -> Self {
        self.upgrade = Some(protocol.to_owned());
        self
    }

    /// Follows up to so many redirects, at most 10 (none by default). Credentials (`Authorization`,
    /// `Cookie`, `Proxy-Authorization`) and a `Host` are not sent to another origin. After a `POST`,
    /// the statuses 301, 302 and 303 lead to a `GET` without a body. A redirect above the number, or
    /// one that cannot be followed, is the response of the call. The body of a
    /// [streamed](Self::send_stream) request cannot be sent again, so its redirects are not followed.
    pub fn redirects(mut self, most: u8) -> Self {
        self.redirects = most.min(MOST_REDIRECTS);
        self
    }

    /// Limits the time of the whole call, from now to the end of the response's body. Replaces the
    /// setting of the client.
    pub fn timeout(mut self, after: Duration) -> Self {
        self.timeout = Some(after);
        self
    }

    /// Sends the request. The completion succeeds with the head of the response, and fails with a
    /// [`ClientError`]. A status such as 404 or 500 is a success.
    ///
    /// If a connection ends before a byte of the response, the client makes one new attempt on a new
    /// connection, provided that the server cannot have carried the request out: see
    /// [`ClientError::is_safe_to_retry`].
    ///
    /// # Cancellation
    ///
    /// Cancelling or dropping the result ends the call: a call that waits leaves the queue at once,
    /// and a connection that is in use is closed. [`on_complete`](CancelOnDrop::on_complete),
    /// [`finally`](CancelOnDrop::finally) and [`disarm`](CancelOnDrop::disarm) detach it: then the
    /// call goes on without the result.
    ///
    /// # Threads
    ///
    /// Can be called from any thread and does not block. On a loop of the client's group, it prefers
    /// a connection of that loop. Listeners of the completion run on the loop of the call.
    pub fn send(self) -> CancelOnDrop<Response> {
        self.start(None).1.cancel_on_drop()
    }

    /// Sends the request with a body that follows in pieces: of this length, or without a length
    /// as chunks. A body that was set before is replaced.
    ///
    /// A server may respond before it has read everything. Then the rest of the body is not sent,
    /// and the connection is closed after the response. Once a piece was written, there is no second
    /// attempt.
    pub fn send_stream(self, length: Option<u64>) -> (RequestBody, CancelOnDrop<Response>) {
        let framing = match length {
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::Chunked,
        };
        let (call, response) = self.start(Some(framing));
        (RequestBody::new(call, framing), response.cancel_on_drop())
    }

    fn start(self, streamed: Option<BodyFraming>) -> (Option<Arc<Call>>, Completion<Response>) {
        let place = self.client.place();
        let (promise, response) = self.client.promise(place);
        (self.send_to(place, promise, streamed), response)
    }

    /// Sends the request; the result arrives at `promise`. Returns the call, if the request is valid.
    pub(super) fn send_to(
        self,
        place: Place,
        promise: Promise<Response>,
        streamed: Option<BodyFraming>,
    ) -> Option<Arc<Call>> {
        let (client, label, timeout) = (self.client.clone(), self.label.clone(), self.timeout);
        let prepared = self.prepare(streamed);
        match prepared.and_then(|(url, request)| Ok((client.host(&url)?, request))) {
            Ok((host, request)) => Some(Call::start(host, request, place, timeout, promise)),
            Err(kind) => {
                let why = ClientError::new(&label, kind, Phase::Request, false, false);
                drop(promise.fail(Failure::new(why)));
                None
            }
        }
    }

    fn prepare(self, streamed: Option<BodyFraming>) -> Result<(Url, Prepared), Kind> {
        let follows = self.redirects > 0 && streamed.is_none();
        let redirect = follows.then(|| redirect::follow(self.clone()));
        let url = self.url?;
        let method = Method::from(self.method.as_str());
        if method == Method::Connect && (streamed.is_some() || self.body.is_some()) {
            return Err(Kind::Unsupported(
                "a request for a tunnel has no body; write to the connection instead",
            ));
        }
        let mut head = BytesMut::with_capacity(128 + url.target.len() + self.fields.len());
        let takes_body = matches!(method, Method::Post | Method::Put | Method::Patch);
        let body = match streamed {
            Some(_) => Bytes::new(),
            None => self.body.unwrap_or_default(),
        };
        let expects = self
            .expects
            .filter(|_| streamed.is_some_and(|framing| !framing.is_empty()) || !body.is_empty());
        let write = |head: &mut BytesMut| -> Result<(), EncodeError> {
            encode::request_line(head, method, &url.target)?;
            if !self.has_host {
                encode::field(head, "Host", url.authority.as_bytes())?;
            }
            if let Some(protocol) = &self.upgrade {
                encode::field(head, "Connection", b"upgrade")?;
                encode::field(head, "Upgrade", protocol.as_bytes())?;
            }
            if expects.is_some() {
                encode::field(head, "Expect", b"100-continue")?;
            }
            head.extend_from_slice(&self.fields);
            if let Some(framing) = streamed {
                encode::framing(head, framing);
            } else if takes_body || !body.is_empty() {
                encode::framing(head, BodyFraming::Length(body.len() as u64));
            }
            encode::head_end(head);
            Ok(())
        };
        write(&mut head).map_err(Kind::Encode)?;
        let apart = body.len() > INLINE_BODY || (expects.is_some() && streamed.is_none());
        if !apart {
            head.extend_from_slice(&body);
        }
        let request = Prepared {
            label: self.label,
            head: head.freeze(),
            body: apart.then_some(body),
            method: method_of_response(method),
            idempotent: is_idempotent(method),
            switches: method == Method::Connect || self.upgrade.is_some(),
            expects,
            streams: streamed.is_some(),
            redirect,
        };
        Ok((url, request))
    }
}

tidegate_core::debug_fields!(RequestBuilder, this => label: this.label);
