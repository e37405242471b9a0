//! The response of a service: at once, later, or in pieces.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_net::internal::StreamRoom;
use tidegate_net::{Channel, FileRange};

use super::date::ReadDate;
use super::deferred::{DeferredResponse, ResponseStream};
use super::flow::{FlowEnd, Window};
use super::head_writer::{HeadWriter, ReplyTo};
use super::reply_path::ReplyPath;
use super::shared::ServerShared;
use super::switch::{Switch, SwitchPlan};
use crate::codec::{BodyFraming, EncodeError, FieldLines};

/// The largest body that is copied behind its head. A larger one is sent from its own memory.
pub(crate) const INLINE_BODY: usize = 4 * 1024;

/// Copies a short body behind its head. Returns a larger one as it is.
#[inline]
pub(crate) fn copy_short(body: Bytes, out: &mut BytesMut) -> Bytes {
    if body.len() > INLINE_BODY {
        return body;
    }
    out.extend_from_slice(&body);
    Bytes::new()
}

/// What the service has done with its [`Response`].
#[derive(Debug)]
pub(crate) enum Served {
    /// Dropped it, or has not returned.
    Nothing,
    /// The response is written. A large body follows as bytes of its own.
    Written { body: Bytes, close: bool },
    /// The head is written, a file follows.
    File { range: Box<FileRange>, close: bool },
    /// The service responds later.
    Deferred,
    /// The head is written, the body follows in pieces.
    Streams {
        framing: BodyFraming,
        close: bool,
        flow: FlowEnd,
    },
    /// The response changes the protocol.
    Switches(Box<SwitchPlan>),
    /// The response cannot be sent: the service made a mistake.
    Mistake(EncodeError),
}

impl Served {
    /// Returns `true` if the connection ends with the response.
    pub(crate) fn closes(&self) -> bool {
        match self {
            Self::Written { close, .. }
            | Self::File { close, .. }
            | Self::Streams { close, .. } => *close,
            Self::Nothing | Self::Deferred | Self::Switches(_) | Self::Mistake(_) => false,
        }
    }
}

/// The parts of a connection that a response needs.
pub(crate) struct ResponseParts<'a> {
    pub(crate) out: &'a mut BytesMut,
    pub(crate) served: &'a mut Served,
    pub(crate) status: &'a mut u16,
    /// The length of the response, once it is written.
    pub(crate) written: &'a mut usize,
    pub(crate) to: ReplyTo,
    pub(crate) seq: u64,
    pub(crate) shared: &'a Arc<ServerShared>,
    pub(crate) channel: &'a Channel,
    /// For a response that is deferred or streamed.
    pub(crate) path: &'a mut Option<Arc<ReplyPath>>,
    /// The date of all responses to one read.
    pub(crate) date: &'a mut ReadDate,
    /// No earlier response is outstanding.
    pub(crate) first: bool,
    /// For a response that is streamed.
    pub(crate) window: Window,
    pub(crate) head: HeadWriter,
}

impl ResponseParts<'_> {
    /// Returns the way back to the connection, for a handle.
    fn path(&mut self) -> Arc<ReplyPath> {
        let (channel, shared) = (self.channel, self.shared);
        let path = self
            .path
            .get_or_insert_with(|| ReplyPath::new(channel.clone(), Arc::clone(shared)));
        Arc::clone(path)
    }

    /// Ends the head. Returns how the body is sent, and whether the connection ends with it; `None` if
    /// the response cannot be sent.
    fn finish(&mut self, body: BodyFraming) -> Option<(BodyFraming, bool)> {
        let to = self.shared.decide(self.to);
        let date = self.date.get(&self.shared.wall);
        match self.head.finish(self.out, body, to, date) {
            Ok(finished) => {
                *self.status = self.head.status_code();
                Some(finished)
            }
            Err(mistake) => {
                self.head.undo(self.out);
                *self.served = Served::Mistake(mistake);
                None
            }
        }
    }
}

/// The response to one request. It is written directly into the memory that is sent.
///
/// End it with [`body`](Response::body), [`stream`](Response::stream) or
/// [`defer`](Response::defer). If a service drops it instead, or panics, the client gets status 500
/// and the connection is closed.
///
/// The server adds `Content-Length` or `Transfer-Encoding`, `Date` and `Connection`. A field name
/// or value that cannot be sent (a line break in it, for example) turns the whole response into
/// status 500.
///
/// ```
/// use tidegate_http::{Request, Response};
///
/// fn respond(request: Request<'_>, response: Response<'_>) {
///     let response = response.field("Content-Type", "text/plain");
///     match request.path() {
///         "/whole" => response.body("hello\n"),
///         "/pieces" => {
///             let mut stream = response.stream();
///             stream.write("hello ");
///             stream.write("in pieces\n");
///             stream.finish();
///         }
///         _ => response.status(404).body("not here\n"),
///     }
/// }
/// # let group = tidegate_net::pinned("web", 1)?;
/// # let server = tidegate_http::serve(&group, "127.0.0.1:0", respond).wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a response that is dropped becomes status 500"]
pub struct Response<'a> {
    /// On the stack of the connection, so that the methods pass on a pointer.
    parts: &'a mut ResponseParts<'a>,
}

impl<'a> Response<'a> {
    #[inline]
    pub(crate) fn new(parts: &'a mut ResponseParts<'a>) -> Self {
        Self { parts }
    }

    /// Sets the status, from 200 to 999. It is 200 unless it is set.
    #[inline]
    pub fn status(self, status: u16) -> Self {
        self.parts.head.status(self.parts.out, status);
        self
    }

    /// Adds a field. Fields are sent in the order of the calls.
    #[inline]
    pub fn field(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.parts.head.field(self.parts.out, name, value.as_ref());
        self
    }

    /// Adds fields that were checked before, which costs one copy. A service that sends the same
    /// fields with every response makes the lines once.
    ///
    /// ```
    /// use tidegate_http::codec::FieldLines;
    /// use tidegate_http::serve;
    ///
    /// # let group = tidegate_net::pinned("web", 1)?;
    /// let json = FieldLines::new("Content-Type", b"application/json")?;
    /// let server = serve(&group, "127.0.0.1:0", move |_, response| {
    ///     response.field_lines(&json).body("{}");
    /// });
    /// # server.wait()?.drain(std::time::Duration::from_secs(1)).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn field_lines(self, lines: &FieldLines) -> Self {
        self.parts.head.field_lines(self.parts.out, lines);
        self
    }

    /// Adds a field that was checked before, with `value` in place of its own, which is as long: see
    /// [`DeferredResponse::field_with`].
    #[inline]
    pub fn field_with<const N: usize>(self, line: &FieldLines, value: &[u8; N]) -> Self {
        self.parts.head.field_with(self.parts.out, line, value);
        self
    }

    /// Ends the response with `body`. For a `HEAD` request only its length is sent, and so for status
    /// 304, unless it is zero. The statuses 204 and 205 have no body.
    #[inline]
    pub fn body(self, body: impl Into<Bytes>) {
        let (body, parts) = (body.into(), self.parts);
        let framing = BodyFraming::Length(body.len() as u64);
        let Some((sent, close)) = parts.finish(framing) else {
            return;
        };
        let body = match sent.is_empty() {
            true => Bytes::new(),
            false => copy_short(body, parts.out),
        };
        *parts.written = parts.head.length(parts.out) + body.len();
        *parts.served = Served::Written { body, close };
    }

    /// Ends the response with a range of a file, which is sent without being read into memory: see
    /// [`FileRange`]. For a `HEAD` request only its length is sent. [`Files`](crate::Files) finds and
    /// opens files.
    pub fn file(self, range: FileRange) {
        let parts = self.parts;
        if let Some((sent, close)) = parts.finish(BodyFraming::Length(range.len())) {
            let (range, body) = (Box::new(range), Bytes::new());
            *parts.written = parts.head.length(parts.out);
            *parts.served = match sent.is_empty() {
                true => Served::Written { body, close },
                false => Served::File { range, close },
            };
        }
    }

    /// Sends the head, and returns a handle that sends the body in pieces, from any thread. The
    /// length of the body need not be known.
    pub fn stream(self) -> ResponseStream {
        self.stream_with(BodyFraming::Chunked)
    }

    /// Sends the head with a `Content-Length` of `length`, and returns a handle that sends the body
    /// in pieces. If the pieces do not add up to `length`, the connection is closed.
    pub fn stream_with_length(self, length: u64) -> ResponseStream {
        self.stream_with(BodyFraming::Length(length))
    }

    fn stream_with(self, framing: BodyFraming) -> ResponseStream {
        let parts = self.parts;
        let (flow, end) = FlowEnd::new();
        if parts.first {
            end.take_turn(parts.window.at_start(StreamRoom::of(parts.channel)));
        }
        if let Some((framing, close)) = parts.finish(framing) {
            *parts.served = Served::Streams {
                framing,
                close,
                flow: end,
            };
        }
        ResponseStream::new(parts.path(), parts.seq, flow)
    }

    /// Returns a handle that can respond later, from any thread, loop or future. Later responses of
    /// this connection wait for it. Status and fields that were set so far are not used.
    pub fn defer(self) -> DeferredResponse {
        let parts = self.parts;
        parts.head.undo(parts.out);
        *parts.served = Served::Deferred;
        DeferredResponse::new(parts.path(), parts.seq, parts.to)
    }

    /// Does the same, and keeps the fields that were set so far, but not the status.
    pub(crate) fn defer_with_fields(self) -> DeferredResponse {
        let parts = self.parts;
        let (head, written) = parts.head.move_out(parts.out);
        *parts.served = Served::Deferred;
        DeferredResponse::begun(parts.path(), parts.seq, parts.to, head, written).status(200)
    }

    /// Accepts the client's wish to change the protocol, and passes the connection on: to a request
    /// with a field `Upgrade` (see [`Request::upgrade`](super::Request::upgrade)) with status 101, to
    /// a `CONNECT` with status 200 or another 2xx. `handlers` runs on the connection's thread; what it
    /// adds takes the place of the HTTP handler after the head was written. See [`Switch`].
    ///
    /// The response to an upgrade needs a field `Upgrade` with the protocol that was chosen; the
    /// server adds `Connection: Upgrade`. If the request does not allow a change of the protocol, if
    /// the handlers do not fit each other, or if `handlers` panics, the client gets status 500 and the
    /// connection is closed.
    pub fn switch(self, handlers: impl FnOnce(Switch) -> Switch + Send + 'static) {
        let parts = self.parts;
        let (out, to, head) = (&mut *parts.out, parts.to, &mut parts.head);
        let date = parts.date.get(&parts.shared.wall);
        *parts.served = match head.finish_switch(out, to, date) {
            Ok(()) => Served::Switches(Box::new(SwitchPlan {
                head: head.split_off(out),
                status: head.status_code(),
                to,
                make: Box::new(handlers),
            })),
            Err(mistake) => {
                head.undo(out);
                Served::Mistake(mistake)
            }
        };
    }
}

tidegate_core::debug_fields!(Response<'_>, this => status: this.parts.head.status_code());
