//! A request that is being built.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tidegate_promise::{Completion, Failure};

use super::Client;
use super::call::Prepared;
use super::error::{ClientError, Kind, Phase};
use super::response::Response;
use super::url::Url;
use crate::codec::{BodyFraming, EncodeError, Method, encode};

/// Fields that belong to the connection, and `Expect`, which the client does not wait for.
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
pub struct RequestBuilder {
    client: Client,
    label: String,
    url: Result<Url, Kind>,
    method: String,
    fields: BytesMut,
    has_host: bool,
    body: Option<Bytes>,
    timeout: Option<Duration>,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Method<'_>, url: &str) -> Self {
        let parsed = Url::parse(url).map_err(Kind::Url);
        let parsed = match method {
            Method::Connect => Err(Kind::Unsupported("the client makes no tunnels")),
            _ => parsed,
        };
        let timeout = client.timeout();
        let label = match &parsed {
            Ok(parsed) => parsed.label(method),
            // It may contain a password.
            Err(_) if url.contains('@') => format!("{method} of a URL"),
            Err(_) => format!("{method} {url}"),
        };
        Self {
            client,
            label,
            url: parsed,
            method: method.as_str().to_owned(),
            fields: BytesMut::new(),
            has_host: false,
            body: None,
            timeout,
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
    /// Cancelling the completion ends the call: a call that waits leaves the queue at once, and a
    /// connection that is in use is closed. Dropping the completion does not; use
    /// [`cancel_on_drop`](Completion::cancel_on_drop) for that.
    ///
    /// # Threads
    ///
    /// Can be called from any thread and does not block. On a loop of the client's group, it prefers
    /// a connection of that loop. Listeners of the completion run on the loop of the call.
    pub fn send(self) -> Completion<Response> {
        let (client, timeout) = (self.client.clone(), self.timeout);
        let label = self.label.clone();
        let refused = |kind| {
            let why = ClientError::new(&label, kind, Phase::Request, false, false);
            Completion::failed(Failure::new(why))
        };
        let prepared = self.prepare();
        match prepared.and_then(|(url, request)| Ok((client.host(&url)?, request))) {
            Ok((host, request)) => client.call(host, request, timeout),
            Err(kind) => refused(kind),
        }
    }

    fn prepare(self) -> Result<(Url, Prepared), Kind> {
        let url = self.url?;
        let method = Method::from(self.method.as_str());
        let mut head = BytesMut::with_capacity(128 + url.target.len() + self.fields.len());
        let takes_body = matches!(method, Method::Post | Method::Put | Method::Patch);
        let body = self.body.unwrap_or_default();
        let write = |head: &mut BytesMut| -> Result<(), EncodeError> {
            encode::request_line(head, method, &url.target)?;
            if !self.has_host {
                encode::field(head, "Host", url.authority.as_bytes())?;
            }
            head.extend_from_slice(&self.fields);
            if takes_body || !body.is_empty() {
                encode::framing(head, BodyFraming::Length(body.len() as u64))?;
            }
            encode::head_end(head)
        };
        write(&mut head).map_err(Kind::Encode)?;
        use Method::{Delete, Get, Head, Options, Put, Trace};
        let request = Prepared {
            label: self.label,
            head: head.freeze(),
            body,
            is_head: method == Head,
            idempotent: matches!(method, Get | Head | Put | Delete | Options | Trace),
        };
        Ok((url, request))
    }
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestBuilder").field(&self.label).finish()
    }
}
