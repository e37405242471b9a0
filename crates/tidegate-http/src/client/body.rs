//! The body of a response: collected, or in pieces on demand.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_promise::{Completion, Failure, Promise, promise};

use super::error::ClientError;
use crate::gathered::Gathered;
use crate::pieces::{Collect, Pieces};

/// What a body needs from its call.
pub(super) trait BodySource: Send + Sync {
    /// The reader takes more.
    fn resume(&self);
    /// The reader is gone before the end.
    fn abandon(&self);
    /// Returns the error for a body of more than `max` bytes.
    fn too_large(&self, max: usize) -> ClientError;
}

/// The body of a response, in pieces, for any thread or future.
///
/// The connection reads ahead by 64 KiB at most, so a caller that does not read stops the server. Each
/// piece counts as 128 bytes more than it has. Small chunks that were received together are one piece.
/// Dropping the body before its end closes the connection.
///
/// ```no_run
/// # async fn example(client: tidegate_http::client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let response = client.get("http://example.org/large").send().await?;
/// let mut body = response.into_body();
/// while let Some(piece) = body.next().await {
///     println!("{} bytes", piece?.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct ResponseBody {
    pieces: Arc<BodyPieces>,
    source: Arc<dyn BodySource>,
}

/// The pieces of a response on their way to the caller.
pub(super) type BodyPieces = Pieces<ClientError, Collector>;

/// Collects the whole body.
pub(super) struct Collector {
    gathered: Gathered,
    promise: Promise<Bytes>,
    source: Arc<dyn BodySource>,
}

impl Collect<ClientError> for Collector {
    fn add(&mut self, piece: &Bytes) -> bool {
        self.gathered.add(piece)
    }

    fn end(self, end: Result<(), ClientError>) {
        let end = end.map(|()| self.gathered.into_bytes());
        // The caller may have cancelled.
        let _ = self.promise.complete(end.map_err(Failure::new));
    }

    fn refused(self) {
        let why = self.source.too_large(self.gathered.max());
        let _ = self.promise.fail(Failure::new(why));
    }
}

impl ResponseBody {
    pub(super) fn new(pieces: Arc<BodyPieces>, source: Arc<dyn BodySource>) -> Self {
        Self { pieces, source }
    }

    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the body cannot be read to its end.
    pub async fn next(&mut self) -> Option<Result<Bytes, ClientError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next piece, as [`ResponseBody::next`] does.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ClientError>>> {
        self.pieces.poll_next(cx).map(|next| {
            next.map(|taken| {
                let taken = taken?;
                if taken.resumes {
                    self.source.resume();
                }
                Ok(taken.piece)
            })
        })
    }

    /// Collects the rest of the body, of at most `max` bytes. The completion fails with a
    /// [`ClientError`] if the body is larger, which closes the connection, or cannot be read to its
    /// end. Cancelling the completion closes the connection.
    pub fn collect(self, max: usize) -> Completion<Bytes> {
        let (promise, collected) = promise();
        let source = Arc::clone(&self.source);
        promise.on_cancel(move || source.abandon());
        let collector = Collector {
            gathered: Gathered::new(max),
            promise,
            source: Arc::clone(&self.source),
        };
        match self.pieces.collect(collector) {
            Ok(true) => self.source.resume(),
            Ok(false) => {}
            Err(collector) => {
                self.source.abandon();
                collector.refused();
            }
        }
        collected
    }

    /// Returns the trailer fields as they were received, once the body has ended and if it has any.
    /// [`Trailers`](crate::codec::Trailers) reads them.
    pub fn trailers(&self) -> Option<Bytes> {
        self.pieces.trailers()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if self.pieces.leave().early {
            self.source.abandon();
        }
    }
}

tidegate_core::debug_fields!(ResponseBody);
