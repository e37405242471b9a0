//! Responses that end after the service has returned: handles for other threads.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_net::FileRange;
use tidegate_net::internal::StreamRoom;
use tidegate_promise::Completion;

use super::flow::{FlowEnd, StreamFlow};
use super::head_writer::{HeadWriter, ReplyTo};
use super::interim::interim_head;
#[cfg(feature = "async")]
use super::part::ServiceFault;
use super::part::{PartKind, StreamHead, Whole};
use super::reply_path::ReplyPath;
use super::response::{INLINE_BODY, copy_short};
use super::spare_output;
use super::switch::{Switch, SwitchPlan};
use crate::codec::{BodyFraming, EncodeError, FieldLines, ResponseHead, Version};

/// A response that is completed later, by any thread. Made by
/// [`Response::defer`](super::Response::defer).
///
/// If it is dropped instead, the client gets status 500 and the connection is closed. If it is not
/// begun within [`Limits::response_time`](super::Limits::response_time), the client gets status 503.
/// If the connection ends first, or the response is late, it is dropped;
/// [`DeferredResponse::is_closed`] tells.
///
/// ```
/// use tidegate_pool::WorkerPool;
///
/// let group = tidegate_net::pinned("web", 1)?;
/// let workers = WorkerPool::builder("workers").max(8).build()?;
/// let server = tidegate_http::serve(&group, "127.0.0.1:0", move |request, response| {
///     let (path, response) = (request.path().to_owned(), response.defer());
///     // If the pool refuses the task, the task and the response in it are dropped: status 500.
///     let _ = workers.submit(move || response.body(format!("{path}, from a thread that may block")));
/// })
/// .wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a deferred response that is dropped becomes status 500"]
pub struct DeferredResponse {
    to: ReplyTo,
    out: BytesMut,
    head: HeadWriter,
    end: Sender,
}

impl DeferredResponse {
    pub(crate) fn new(path: Arc<ReplyPath>, seq: u64, to: ReplyTo) -> Self {
        let out = BytesMut::new();
        Self {
            to,
            head: HeadWriter::new(&out),
            out,
            end: Sender::new(path, seq),
        }
    }

    /// Continues a response of which some fields are written.
    pub(crate) fn begun(
        path: Arc<ReplyPath>,
        seq: u64,
        to: ReplyTo,
        head: HeadWriter,
        out: BytesMut,
    ) -> Self {
        let end = Sender::new(path, seq);
        Self { to, out, head, end }
    }

    /// Sets the status, from 200 to 999. It is 200 unless it is set.
    #[inline]
    pub fn status(mut self, status: u16) -> Self {
        self.head.status(&mut self.out, status);
        self
    }

    /// Adds a field. Fields are sent in the order of the calls.
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.begin();
        self.head.field(&mut self.out, name, value.as_ref());
        self
    }

    /// Adds a field that was checked before, with `value` in place of its own, which is as long. This
    /// costs less than [`field`](Self::field).
    ///
    /// A value of another length or with bytes that are not visible ASCII is a mistake, and so are
    /// several lines, and the fields `Connection`, `Date` and `Upgrade`.
    ///
    /// ```
    /// use tidegate_http::codec::FieldLines;
    /// use tidegate_http::serve;
    ///
    /// # let group = tidegate_net::pinned("web", 1)?;
    /// let id = FieldLines::new("X-Id", b"0000")?; // once
    /// let server = serve(&group, "127.0.0.1:0", move |_, response| {
    ///     response.defer().field_with(&id, b"1234").body("");
    /// });
    /// # server.wait()?.drain(std::time::Duration::from_secs(1)).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn field_with<const N: usize>(mut self, line: &FieldLines, value: &[u8; N]) -> Self {
        self.begin();
        self.head.field_with(&mut self.out, line, value);
        self
    }

    /// Adds the fields of a received head whose names are wanted, in their order. They were checked
    /// when they were received, so this costs less than [`field`](Self::field).
    pub fn received_fields(
        mut self,
        head: &ResponseHead<'_>,
        is_wanted: impl FnMut(&[u8]) -> bool,
    ) -> Self {
        self.begin();
        self.head
            .received_fields(&mut self.out, head.fields(), is_wanted);
        self
    }

    /// Sends an interim response, which the client gets before the response itself: a status from 102
    /// to 199 with some fields, for example the hints of status 103 (RFC 8297). It says nothing about the
    /// response, which can still have any status, and does not prolong the time for it.
    ///
    /// An interim response may be dropped: if the client speaks HTTP/1.0, which has none, if the client
    /// does not take what was sent before, or if too many wait for the responses of earlier requests.
    /// Statuses 100 and 101 are the server's own.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Status`] for another status, or what is wrong with a field. Nothing is sent then,
    /// and the response can go on.
    ///
    /// ```
    /// use tidegate_http::serve;
    ///
    /// # let group = tidegate_net::pinned("web", 1)?;
    /// let server = serve(&group, "127.0.0.1:0", |_, response| {
    ///     let response = response.defer();
    ///     let style = ("Link", "</style.css>; rel=preload; as=style");
    ///     // The client loads the style while the page is made, which may be later.
    ///     let _ = response.interim(103, [style]);
    ///     response.body("<link rel=\"stylesheet\" href=\"/style.css\">\n");
    /// });
    /// # server.wait()?.drain(std::time::Duration::from_secs(1)).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn interim<N: AsRef<str>, V: AsRef<[u8]>>(
        &self,
        status: u16,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), EncodeError> {
        let head = interim_head(status, fields)?;
        if self.to.version != Version::Http10 {
            self.end.send(PartKind::Interim(head));
        }
        Ok(())
    }

    /// Ends the response with `body`.
    pub fn body(self, body: impl Into<Bytes>) {
        let body = body.into();
        self.end_with(body.len() as u64, |out| (copy_short(body, out), None));
    }

    /// Ends the response with a part of received bytes, as [`body`](Self::body) does. A short one is
    /// copied, and takes no part of their memory.
    pub fn received_body(self, received: &Bytes, body: Range<usize>) {
        self.end_with(body.len() as u64, |out| {
            if body.len() > INLINE_BODY {
                return (received.slice(body), None);
            }
            out.extend_from_slice(&received[body]);
            (Bytes::new(), None)
        });
    }

    /// Ends the response with a range of a file, as [`Response::file`](super::Response::file) does.
    pub fn file(self, range: FileRange) {
        self.end_with(range.len(), |_| (Bytes::new(), Some(Box::new(range))));
    }

    /// Ends the response with a body of this length, unless the client gets none: a short one that is
    /// written behind the head, one in memory of its own, or a file.
    fn end_with(
        mut self,
        length: u64,
        body: impl FnOnce(&mut BytesMut) -> (Bytes, Option<Box<FileRange>>),
    ) {
        match self.finish(BodyFraming::Length(length)) {
            Ok((sent, close)) => {
                let (body, file) = match sent.is_empty() {
                    // The response to a `HEAD`, for example.
                    true => (Bytes::new(), None),
                    false => body(&mut self.out),
                };
                self.end.last(PartKind::Whole(Whole {
                    head: std::mem::take(&mut self.out),
                    body,
                    file,
                    close,
                    status: self.head.status_code(),
                }));
            }
            Err(mistake) => self.fail(mistake),
        }
    }

    /// Sends the head, and returns a handle that sends the body in pieces.
    pub fn stream(self) -> ResponseStream {
        self.stream_with(BodyFraming::Chunked)
    }

    /// Sends the head with a `Content-Length` of `length`, and returns a handle that sends the body
    /// in pieces.
    pub fn stream_with_length(self, length: u64) -> ResponseStream {
        self.stream_with(BodyFraming::Length(length))
    }

    /// Accepts the client's wish to change the protocol, as
    /// [`Response::switch`](super::Response::switch) does. Until the response is decided, the server
    /// reads no further request from this connection.
    pub fn switch(mut self, handlers: impl FnOnce(Switch) -> Switch + Send + 'static) {
        let date = self.end.path.server.date();
        match self.head.finish_switch(&mut self.out, self.to, &date) {
            Ok(()) => {
                let plan = SwitchPlan {
                    head: std::mem::take(&mut self.out),
                    status: self.head.status_code(),
                    to: self.to,
                    make: Box::new(handlers),
                };
                self.end.last(PartKind::Switch(Box::new(plan)));
            }
            Err(mistake) => self.fail(mistake),
        }
    }

    /// Returns `true` if nothing can be sent: the connection has ended, or it ends without this
    /// response, for example because the response is late.
    pub fn is_closed(&self) -> bool {
        self.end.path.is_closed_for(self.end.seq)
    }

    /// Returns a completion that ends when the connection has ended, to stop work that no client
    /// waits for.
    pub fn closed(&self) -> Completion<()> {
        let (promise, closed) = tidegate_promise::promise();
        self.end.path.channel.closed().on_complete(move |_| {
            let _ = promise.succeed(());
        });
        closed
    }

    fn stream_with(mut self, framing: BodyFraming) -> ResponseStream {
        let (flow, end) = FlowEnd::new();
        match self.finish(framing) {
            Ok((framing, close)) => {
                let head = StreamHead {
                    head: std::mem::take(&mut self.out),
                    framing,
                    close,
                    status: self.head.status_code(),
                    flow: end,
                };
                self.end.send(PartKind::Head(head));
            }
            Err(mistake) => self.fail(mistake),
        }
        let stream = ResponseStream {
            end: Sender {
                path: Arc::clone(&self.end.path),
                seq: self.end.seq,
                open: self.end.open,
            },
            flow,
        };
        self.end.open = false;
        stream
    }

    /// Takes memory for the head, unless it has some.
    #[inline]
    fn begin(&mut self) {
        if self.out.capacity() == 0 {
            self.out = spare_output::take();
        }
    }

    fn finish(&mut self, body: BodyFraming) -> Result<(BodyFraming, bool), EncodeError> {
        self.begin();
        // Whether a drain ends the connection with this response, the connection decides: others may
        // be outstanding behind it.
        let date = self.end.path.server.date();
        self.head.finish(&mut self.out, body, self.to, &date)
    }

    /// Responds with status 500, and ends the connection.
    #[cfg(feature = "async")]
    pub(crate) fn fail_with(mut self, why: ServiceFault) {
        self.end.last(PartKind::Failed(why));
    }

    /// Replaces a response that cannot be sent by status 500.
    fn fail(&mut self, mistake: EncodeError) {
        self.head.undo(&mut self.out);
        self.end.last(PartKind::Mistake(mistake));
    }
}

tidegate_core::debug_fields!(DeferredResponse, this => status: this.head.status_code());

/// Sends the body of a response in pieces, from any thread. Made by `stream` of
/// [`Response`](super::Response) and [`DeferredResponse`].
///
/// If it is dropped before [`finish`](ResponseStream::finish), the connection is closed, so that
/// the client does not take the part for the whole. If the response still waits for an earlier one, its
/// head and what was written are sent when its turn comes, and then the connection is closed.
///
/// ```
/// use tidegate_http::ResponseStream;
///
/// /// Sends as much as the client takes at the moment; returns the rest.
/// fn send(stream: &mut ResponseStream, mut lines: Vec<String>) -> Vec<String> {
///     while stream.is_writable() && !lines.is_empty() {
///         stream.write(lines.remove(0));
///     }
///     lines
/// }
/// ```
#[must_use = "a stream that is dropped before `finish` closes the connection"]
pub struct ResponseStream {
    end: Sender,
    flow: Arc<StreamFlow>,
}

impl ResponseStream {
    pub(crate) fn new(path: Arc<ReplyPath>, seq: u64, flow: Arc<StreamFlow>) -> Self {
        let end = Sender::new(path, seq);
        Self { end, flow }
    }

    /// Sends a piece. Check [`is_writable`](ResponseStream::is_writable) or wait for
    /// [`writable`](ResponseStream::writable) first: pieces that the client does not take stay in
    /// memory.
    pub fn write(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.flow.add(bytes.len());
        self.end.send(PartKind::Data(bytes));
    }

    /// Returns `true` if the client takes the data fast enough. A response that waits for an earlier
    /// one of its connection becomes unwritable, too.
    pub fn is_writable(&self) -> bool {
        StreamRoom::is_writable(&self.end.path.channel) && !self.flow.is_full()
    }

    /// Returns a completion that succeeds when the client has taken some of the data, and fails when
    /// the connection has ended. Check [`is_writable`](ResponseStream::is_writable) again then.
    pub fn writable(&self) -> Completion<()> {
        if let Some(room) = self.flow.room() {
            return room;
        }
        let channel = &self.end.path.channel;
        match StreamRoom::is_writable(channel) {
            true => Completion::succeeded(()),
            false => channel.writable(),
        }
    }

    /// Returns `true` if nothing can be sent: the connection has ended, or it ends without this
    /// response.
    pub fn is_closed(&self) -> bool {
        !self.end.path.channel.is_active() || self.flow.has_ended()
    }

    /// Ends the connection, because the rest of the body cannot be sent.
    #[cfg(feature = "async")]
    pub(crate) fn fail_with(mut self, why: ServiceFault) {
        self.end.last(PartKind::Failed(why));
    }

    /// Ends the body.
    pub fn finish(self) {
        self.finish_with_trailers(std::iter::empty::<(String, Vec<u8>)>());
    }

    /// Ends the body with trailer fields. They are sent only with a chunked body.
    pub fn finish_with_trailers<N: Into<String>, V: Into<Vec<u8>>>(
        mut self,
        trailers: impl IntoIterator<Item = (N, V)>,
    ) {
        let trailers = trailers.into_iter();
        let trailers = trailers.map(|(name, value)| (name.into(), value.into()));
        self.end.last(PartKind::End {
            trailers: trailers.collect(),
        });
    }
}

tidegate_core::debug_fields!(ResponseStream);

/// Sends parts of one response to its connection. Dropping it before the last part says so.
struct Sender {
    path: Arc<ReplyPath>,
    seq: u64,
    open: bool,
}

impl Sender {
    fn new(path: Arc<ReplyPath>, seq: u64) -> Self {
        let open = true;
        Self { path, seq, open }
    }

    fn send(&self, what: PartKind) {
        self.path.send(self.seq, what);
    }

    fn last(&mut self, what: PartKind) {
        if std::mem::take(&mut self.open) {
            self.send(what);
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.last(PartKind::Dropped);
    }
}
