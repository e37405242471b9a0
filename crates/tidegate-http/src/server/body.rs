//! The body of a request, as a service receives it: collected, or in pieces on demand.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_net::Channel;
use tidegate_net::internal::HeldInput;
use tidegate_promise::{Failure, Promise};

use super::part::{BodyNotice, BodyNoticeKind};
use crate::codec::RefusalReason;
use crate::gathered::Gathered;
use crate::pieces::{Pieces, Pushed, cost};

/// Why the body of a request cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is larger than the service allows.
    #[error(
        "the body of the request is larger than {max} bytes; respond with status 413, or raise the limit"
    )]
    TooLarge {
        /// The limit of the service.
        max: usize,
    },
    /// The client sent something that is not a body, too much of it, or nothing for too long.
    #[error("the body of the request was refused: {0}; the client got status {status}", status = .0.status())]
    Refused(RefusalReason),
    /// The connection ended before the body.
    #[error("the connection ended before the body of the request did; no response can be sent")]
    Closed,
}

/// Whether the connection should go on reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    Pause,
    /// The sink needs no more: the rest of the body is discarded.
    Enough,
}

/// Receives the body of a request on the connection's loop.
pub(crate) trait BodySink: Send {
    /// Returns `true` if the client gets `100 Continue` only when the service begins to read.
    fn asks_first(&self) -> bool {
        false
    }
    /// Returns `true` if it takes the whole body, also after the response.
    fn takes_all(&self) -> bool {
        false
    }
    fn data(&mut self, bytes: Bytes) -> Flow;
    fn trailers(&mut self, lines: Bytes);
    fn end(self: Box<Self>);
    fn fail(self: Box<Self>, why: BodyError);
}

/// Collects a body of at most `max` bytes. They count against the memory limit of the server until
/// the service has them.
pub(crate) struct Collector {
    gathered: Gathered,
    promise: Option<Promise<Bytes>>,
    held: HeldInput,
    counted: usize,
}

impl Collector {
    pub(crate) fn new(max: usize, promise: Promise<Bytes>, channel: &Channel) -> Self {
        Self {
            gathered: Gathered::new(max),
            promise: Some(promise),
            held: HeldInput::of(channel),
            counted: 0,
        }
    }

    fn uncount(&mut self) {
        self.held.remove(std::mem::take(&mut self.counted));
    }

    /// Returns what was gathered.
    fn take(&mut self) -> Gathered {
        self.uncount();
        std::mem::replace(&mut self.gathered, Gathered::new(0))
    }
}

impl BodySink for Collector {
    fn takes_all(&self) -> bool {
        self.promise.is_some()
    }

    fn data(&mut self, bytes: Bytes) -> Flow {
        if self.promise.is_none() {
            return Flow::Enough;
        }
        if !self.gathered.add(&bytes) {
            let max = self.take().max();
            if let Some(promise) = self.promise.take() {
                let _ = promise.fail(Failure::new(BodyError::TooLarge { max }));
            }
            return Flow::Enough;
        }
        self.counted += bytes.len();
        self.held.add(bytes.len());
        Flow::More
    }

    fn trailers(&mut self, _: Bytes) {}

    fn end(mut self: Box<Self>) {
        let whole = self.take().into_bytes();
        if let Some(promise) = self.promise.take() {
            let _ = promise.succeed(whole);
        }
    }

    fn fail(mut self: Box<Self>, why: BodyError) {
        if let Some(promise) = self.promise.take() {
            let _ = promise.fail(Failure::new(why));
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.uncount();
    }
}

/// The body of a request, in pieces, for any thread or future. Made by
/// [`Request::into_body`](super::Request::into_body).
///
/// The connection reads ahead by 64 KiB at most, where each piece counts as 128 bytes more than it has.
/// Small chunks that were received together are one piece. A service that does not read stops its client. What
/// was read ahead counts against the server's
/// [`max_memory`](tidegate_net::ServerBuilder::max_memory).
/// Dropping the body discards what is left of it; if that is much, the connection ends with the
/// response. A client that waits for `100 Continue` gets it when the service begins to read.
///
/// ```
/// use tidegate_http::{Body, BodyError};
///
/// async fn count_lines(mut body: Body) -> Result<usize, BodyError> {
///     let mut lines = 0;
///     while let Some(piece) = body.next().await {
///         lines += piece?.iter().filter(|byte| **byte == b'\n').count();
///     }
///     Ok(lines)
/// }
///
/// let group = tidegate_net::pinned("web", 1)?;
/// let loops = group.loops().clone();
/// let server = tidegate_http::serve(&group, "127.0.0.1:0", move |request, response| {
///     let (body, response) = (request.into_body(), response.defer());
///     // If the loop refuses the future, the response in it is dropped: status 500.
///     let _ = loops.next().spawn(async move {
///         match count_lines(body).await {
///             Ok(lines) => response.body(format!("{lines} lines\n")),
///             Err(_) => response.status(400).body(""),
///         }
///     });
/// })
/// .wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Body {
    pieces: Arc<Pieces<BodyError>>,
    /// Counts the pieces against the memory limit of the server.
    held: HeldInput,
    channel: Channel,
    seq: u64,
    /// How many bytes are left, if the client declared the length.
    remaining: Option<u64>,
    /// The client waits for `100 Continue`, which it gets when the service begins to read.
    asks: bool,
}

impl Body {
    /// Creates a body and the sink that fills it.
    pub(crate) fn new(
        channel: Channel,
        seq: u64,
        length: Option<u64>,
        expects_continue: bool,
    ) -> (Self, Box<dyn BodySink>) {
        let pieces = Arc::new(Pieces::default());
        let held = HeldInput::of(&channel);
        let sink = Box::new(BodyFeed {
            pieces: Arc::clone(&pieces),
            held: held.clone(),
            asks_first: expects_continue,
        });
        let body = Self {
            held,
            pieces,
            channel,
            seq,
            remaining: length,
            asks: expects_continue,
        };
        (body, sink)
    }

    /// Creates the body of a request that has none.
    pub(crate) fn empty(channel: Channel, seq: u64) -> Self {
        Self {
            held: HeldInput::of(&channel),
            pieces: Arc::new(Pieces::ended()),
            channel,
            seq,
            remaining: Some(0),
            asks: false,
        }
    }

    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`BodyError`] if the body cannot be read to its end.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next piece, as [`Body::next`] does.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if std::mem::take(&mut self.asks) {
            self.tell(BodyNoticeKind::ReadMore);
        }
        self.pieces.poll_next(cx).map(|next| {
            next.map(|taken| {
                let taken = taken?;
                let length = taken.piece.len();
                self.held.remove(cost(length));
                self.remaining = self
                    .remaining
                    .map(|left| left.saturating_sub(length as u64));
                if taken.resumes {
                    self.tell(BodyNoticeKind::ReadMore);
                }
                Ok(taken.piece)
            })
        })
    }

    /// Returns the trailer fields as they were received, once the body has ended and if it has any.
    /// [`Trailers`](crate::codec::Trailers) reads them.
    pub fn trailers(&self) -> Option<Bytes> {
        self.pieces.trailers()
    }

    /// Returns and removes the trailers of a body that has ended.
    #[cfg(feature = "async")]
    pub(crate) fn take_trailers(&mut self) -> Option<Bytes> {
        self.pieces.take_trailers()
    }

    /// Returns `true` if nothing is left to read: no data and no trailers.
    #[cfg(feature = "async")]
    pub(crate) fn is_at_end(&self) -> bool {
        self.pieces.is_at_end()
    }

    /// Returns how many bytes are left, if the client declared the length.
    #[cfg(feature = "async")]
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    fn tell(&self, what: BodyNoticeKind) {
        let seq = self.seq;
        self.channel.fire_event(BodyNotice { seq, what });
    }
}

tidegate_core::debug_fields!(Body);

impl Drop for Body {
    fn drop(&mut self) {
        let leaving = self.pieces.leave();
        self.held.remove(leaving.held);
        if leaving.early {
            self.tell(BodyNoticeKind::Dropped);
        }
    }
}

/// The connection's end of a [`Body`].
struct BodyFeed {
    pieces: Arc<Pieces<BodyError>>,
    held: HeldInput,
    asks_first: bool,
}

impl BodySink for BodyFeed {
    fn asks_first(&self) -> bool {
        self.asks_first
    }

    fn data(&mut self, bytes: Bytes) -> Flow {
        // First, so that the reader never releases what is not counted.
        let counted = cost(bytes.len());
        self.held.add(counted);
        match self.pieces.push(bytes) {
            Pushed::More => Flow::More,
            Pushed::Full => Flow::Pause,
            Pushed::Left => {
                self.held.remove(counted);
                Flow::Enough
            }
        }
    }

    fn trailers(&mut self, lines: Bytes) {
        self.pieces.set_trailers(lines);
    }

    fn end(self: Box<Self>) {
        self.pieces.finish(Ok(()));
    }

    fn fail(self: Box<Self>, why: BodyError) {
        self.pieces.finish(Err(why));
    }
}

/// A feed that is dropped without an end: the connection is gone.
impl Drop for BodyFeed {
    fn drop(&mut self) {
        self.pieces.finish(Err(BodyError::Closed));
    }
}
