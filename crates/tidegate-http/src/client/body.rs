//! The body of a response: collected, or in pieces on demand.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tidegate_promise::{Completion, Failure, Promise, promise};

use super::connection::Flow;
use super::error::ClientError;

/// How many bytes a body holds before the connection stops reading.
const HIGH: usize = 64 * 1024;
/// How many bytes are left in a body when the connection reads again.
const LOW: usize = 16 * 1024;

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
/// The connection reads ahead by 64 KiB at most, so a caller that does not read stops the server.
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
    shared: Arc<BodyShared>,
    source: Arc<dyn BodySource>,
}

/// The state that a body and its connection share.
#[derive(Default)]
pub(super) struct BodyShared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Bytes>,
    held: usize,
    trailers: Option<Bytes>,
    /// How the body ended, if it did.
    end: Option<Result<(), ClientError>>,
    /// The connection has stopped reading because of this body.
    paused: bool,
    /// The reader is gone.
    dropped: bool,
    waker: Option<Waker>,
    collector: Option<Collector>,
}

/// Collects the whole body.
struct Collector {
    max: usize,
    bytes: BytesMut,
    promise: Promise<Bytes>,
}

impl BodyShared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No user code runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds received bytes.
    pub(super) fn data(&self, bytes: Bytes, source: &dyn BodySource) -> Flow {
        let mut state = self.lock();
        if state.dropped {
            return Flow::Gone;
        }
        if let Some(collector) = &mut state.collector {
            if collector.bytes.len() + bytes.len() <= collector.max {
                collector.bytes.extend_from_slice(&bytes);
                return Flow::More;
            }
            state.dropped = true;
            let collector = state.collector.take();
            drop(state);
            if let Some(collector) = collector {
                let why = source.too_large(collector.max);
                let _ = collector.promise.fail(Failure::new(why));
            }
            return Flow::Gone;
        }
        state.held += bytes.len();
        state.pieces.push_back(bytes);
        state.paused = state.held >= HIGH;
        let flow = match state.paused {
            true => Flow::Pause,
            false => Flow::More,
        };
        let waker = state.waker.take();
        drop(state);
        wake(waker);
        flow
    }

    pub(super) fn trailers(&self, lines: Bytes) {
        self.lock().trailers = Some(lines);
    }

    /// Ends the body. Returns `false` if it has ended before.
    pub(super) fn finish(&self, end: Result<(), ClientError>) -> bool {
        let mut state = self.lock();
        if state.end.is_some() {
            return false;
        }
        state.end = Some(end.clone());
        let (waker, collector) = (state.waker.take(), state.collector.take());
        drop(state);
        wake(waker);
        if let Some(collector) = collector {
            collector.complete(end);
        }
        true
    }
}

impl Collector {
    fn complete(self, end: Result<(), ClientError>) {
        let end = end.map(|()| self.bytes.freeze()).map_err(Failure::new);
        // The caller may have cancelled.
        let _ = self.promise.complete(end);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl ResponseBody {
    pub(super) fn new(shared: Arc<BodyShared>, source: Arc<dyn BodySource>) -> Self {
        Self { shared, source }
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
        let mut state = self.shared.lock();
        if let Some(piece) = state.pieces.pop_front() {
            state.held -= piece.len();
            let resume = state.paused && state.held <= LOW;
            state.paused &= !resume;
            drop(state);
            if resume {
                self.source.resume();
            }
            return Poll::Ready(Some(Ok(piece)));
        }
        match &state.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(why)) => Poll::Ready(Some(Err(why.clone()))),
            None => {
                let old = state.waker.replace(cx.waker().clone());
                drop(state);
                // Dropping a waker is user code.
                drop(old);
                Poll::Pending
            }
        }
    }

    /// Collects the rest of the body, of at most `max` bytes. The completion fails with a
    /// [`ClientError`] if the body is larger, which closes the connection, or cannot be read to its
    /// end. Cancelling the completion closes the connection.
    pub fn collect(self, max: usize) -> Completion<Bytes> {
        let (promise, collected) = promise();
        let source = Arc::clone(&self.source);
        promise.on_cancel(move || source.abandon());
        let mut state = self.shared.lock();
        let mut bytes = BytesMut::new();
        let pieces = std::mem::take(&mut state.pieces);
        let held = std::mem::take(&mut state.held);
        if held <= max {
            pieces
                .iter()
                .for_each(|piece| bytes.extend_from_slice(piece));
            let collector = Collector {
                max,
                bytes,
                promise,
            };
            match state.end.clone() {
                Some(end) => {
                    drop(state);
                    collector.complete(end);
                }
                None => {
                    let resume = std::mem::take(&mut state.paused);
                    state.collector = Some(collector);
                    drop(state);
                    if resume {
                        self.source.resume();
                    }
                }
            }
        } else {
            state.dropped = true;
            drop(state);
            self.source.abandon();
            let _ = promise.fail(Failure::new(self.source.too_large(max)));
        }
        // Dropping the pieces is user code at most.
        drop(pieces);
        collected
    }

    /// Returns the trailer fields as they were received, once the body has ended and if it has any.
    /// [`Trailers`](crate::codec::Trailers) reads them.
    pub fn trailers(&self) -> Option<Bytes> {
        self.shared.lock().trailers.clone()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.collector.is_some() || state.end.is_some() || state.dropped {
            return;
        }
        state.dropped = true;
        let (waker, pieces) = (state.waker.take(), std::mem::take(&mut state.pieces));
        drop(state);
        drop((waker, pieces));
        self.source.abandon();
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
