//! The body of a request as an `http_body::Body`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::convert;
use crate::server::{Body, BodyError};

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = match ready!(self.poll_next(cx)) {
            Some(piece) => Some(piece.map(Frame::data)),
            None => {
                let trailers = self.take_trailers();
                trailers.map(|lines| Ok(Frame::trailers(convert::trailers(&lines))))
            }
        };
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.is_at_end()
    }

    fn size_hint(&self) -> SizeHint {
        match self.remaining() {
            Some(length) => SizeHint::with_exact(length),
            None => SizeHint::default(),
        }
    }
}
