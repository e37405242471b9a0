//! The future of one request: calls the user's function, and sends the response as the client takes
//! it.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame};
use tidegate_core::CaughtPanic;
use tidegate_core::internal::contain;

use super::convert::{self, Declared};
use crate::codec::EncodeError;
use crate::server::{Body, DeferredResponse, ResponseStream, ServiceFault, Trouble};

/// An error of the body of a response.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Serves one request.
pub(super) async fn drive<F, B>(
    respond: Arc<F>,
    request: http::Request<Body>,
    is_head: bool,
    later: DeferredResponse,
) where
    F: AsyncFn(http::Request<Body>) -> http::Response<B>,
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    let future = pin!(async { respond(request).await });
    let (parts, body) = match caught(future).await {
        Ok(response) => response.into_parts(),
        Err(panic) => return later.fail_with(panicked(&panic)),
    };
    let declared = match convert::declared(&parts.headers) {
        Declared::Nothing => None,
        Declared::Length(length) => Some(length),
        Declared::Invalid => {
            return later.fail_with(ServiceFault {
                what: Trouble::Mistake(EncodeError::FramingField),
                detail: "its field Content-Length is no number, or there are two".to_owned(),
            });
        }
    };
    let later = convert::write_head(&parts, later);
    let body = pin!(body);
    if is_head {
        // The client gets the length and no body, so the body is not even asked for.
        return open(later, declared.or(body.size_hint().exact())).finish();
    }
    send(body, declared, later).await;
}

/// Sends the body behind the head in `later`.
async fn send<B>(mut body: Pin<&mut B>, declared: Option<u64>, later: DeferredResponse)
where
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    if declared.is_none() && body.is_end_stream() {
        return later.body(Bytes::new());
    }
    let length = declared.or(body.size_hint().exact());
    // A body in one piece is sent together with its head. A body that is not ready is sent after it.
    let first = match poll_fn(|cx| Poll::Ready(poll_piece(body.as_mut(), cx))).await {
        Poll::Ready(Piece::Data(data)) if length == Some(data.len() as u64) => {
            return later.body(data);
        }
        Poll::Ready(Piece::Failed(why)) => return later.fail_with(why),
        Poll::Ready(piece) => Some(piece),
        Poll::Pending => None,
    };
    let mut stream = open(later, length);
    let mut next = first;
    loop {
        let piece = match next.take() {
            Some(piece) => piece,
            None => poll_fn(|cx| poll_piece(body.as_mut(), cx)).await,
        };
        match piece {
            Piece::Data(data) => stream.write(data),
            Piece::Trailers(trailers) => return stream.finish_with_trailers(trailers),
            Piece::End => return stream.finish(),
            // This ends the connection: the client must not take the part for the whole.
            Piece::Failed(why) => return stream.fail_with(why),
        }
        while !stream.is_writable() {
            if stream.writable().await.is_err() {
                return;
            }
        }
    }
}

fn open(later: DeferredResponse, length: Option<u64>) -> ResponseStream {
    match length {
        Some(length) => later.stream_with_length(length),
        None => later.stream(),
    }
}

/// A piece of a response.
enum Piece {
    Data(Bytes),
    Trailers(Vec<(String, Vec<u8>)>),
    End,
    /// The body failed or panicked.
    Failed(ServiceFault),
}

fn poll_piece<B>(body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<Piece>
where
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    let polled = contain(|| {
        body.poll_frame(cx)
            .map(|frame| frame.map(|frame| frame.map(piece)))
    });
    match polled {
        Ok(polled) => polled.map(|piece| match piece {
            Some(Ok(piece)) => piece,
            Some(Err(why)) => Piece::Failed(failed(&why.into())),
            None => Piece::End,
        }),
        Err(panic) => Poll::Ready(Piece::Failed(panicked(&panic))),
    }
}

fn piece<D: Buf>(frame: Frame<D>) -> Piece {
    let frame = match frame.into_data() {
        Ok(mut data) => return Piece::Data(data.copy_to_bytes(data.remaining())),
        Err(frame) => frame,
    };
    let Ok(trailers) = frame.into_trailers() else {
        // A kind of frame that HTTP/1.1 does not have.
        return Piece::Data(Bytes::new());
    };
    let lines = trailers.iter();
    let lines = lines.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Piece::Trailers(lines.collect())
}

/// Polls a future, and catches its panic.
async fn caught<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Result<T, CaughtPanic> {
    poll_fn(|cx| match contain(|| future.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[cold]
fn panicked(panic: &CaughtPanic) -> ServiceFault {
    ServiceFault {
        what: Trouble::Panic,
        detail: panic.message().to_owned(),
    }
}

#[cold]
fn failed(why: &BoxError) -> ServiceFault {
    let mut detail = format!("the body of the response failed: {why}");
    let mut source = why.source();
    while let Some(deeper) = source {
        detail.push_str(": ");
        detail.push_str(&deeper.to_string());
        source = deeper.source();
    }
    ServiceFault {
        what: Trouble::Dropped,
        detail,
    }
}
