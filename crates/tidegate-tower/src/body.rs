//! The body of a response: holds the permit of its call until it ends.
//!
//! The permit comes back in each of these cases; the verdict is given with the head, or at the end
//! (`held`):
//!
//! | what happens to the body | verdict given with the head | verdict given at the end |
//! |---|---|---|
//! | it is read to its end, or has none | stands | by the trailers, or else by the head |
//! | it fails or panics | stands; the reader gets the error | a failure |
//! | the dependency does not deliver within the timeout | stands; the reader gets an error | timed out |
//! | the reader takes longer than the timeout | stands | timed out; the reader gets an error |
//! | it is dropped before its end | stands | by the head |
//!
//! A body that is kept and not read holds its permit. If its verdict was not given yet, it counts as
//! timed out at the deadline, and overstays.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tidegate_core::Blocking;
use tidegate_core::internal::contain;
use tidegate_isolate::{Cause, CommandError, Verdict};

use crate::BoxError;
use crate::held::HeldCall;

/// Returns the verdict that trailers contain.
pub(crate) type OfTrailers = fn(&HeaderMap) -> Option<Verdict>;

pin_project! {
    /// The body of a response behind a command. It holds the permit of its call until it has ended
    /// or is dropped.
    ///
    /// Frames, trailers and the size hint are those of the inner body. Its error is boxed: it is the
    /// error of the inner body, or a [`CommandError`] if the body panicked, or if the dependency did
    /// not deliver its next part within the timeout of the command. A reader may take its time.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use tidegate_tower::CommandBody;
    ///
    /// struct Page {
    ///     body: CommandBody<Full<Bytes>>,
    /// }
    /// # fn _size(page: &Page) -> u64 { http_body::Body::size_hint(&page.body).lower() }
    /// ```
    pub struct CommandBody<B> {
        // `None` for an empty body, and once the body has failed.
        #[pin]
        body: Option<B>,
        // `None` once the call has ended. After `body`, so that it is dropped later.
        call: Option<HeldCall>,
        of_trailers: OfTrailers,
    }
}

impl<B> CommandBody<B> {
    /// Creates a body that ends the call.
    pub(crate) fn held(body: B, call: HeldCall, of_trailers: OfTrailers) -> Self {
        Self {
            body: Some(body),
            call: Some(call),
            of_trailers,
        }
    }

    /// Creates a body whose call has ended, or an empty one.
    pub(crate) fn free(body: Option<B>) -> Self {
        Self {
            body,
            call: None,
            of_trailers: |_| None,
        }
    }
}

impl<B> Body for CommandBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let mut this = self.project();
        let Some(mut body) = this.body.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let Some(call) = this.call.as_mut() else {
            // The call has ended. A panic of the body is contained all the same.
            let polled = contain(|| Blocking::forbid(|| body.poll_frame(context)));
            return match polled {
                Ok(polled) => polled.map(|frame| frame.map(|frame| frame.map_err(Into::into))),
                Err(panic) => {
                    let error = format!("the body panicked: {}", panic.message());
                    let _ = contain(|| this.body.set(None));
                    Poll::Ready(Some(Err(error.into())))
                }
            };
        };
        // A body that always has a frame is never pending, so this is checked first.
        let polled = if call.is_expired() {
            Ok(Err(Cause::Cancelled))
        } else {
            match contain(|| Blocking::forbid(|| body.as_mut().poll_frame(context))) {
                Ok(Poll::Ready(frame)) => Ok(Ok(frame)),
                Ok(Poll::Pending) => Ok(Err(ready!(call.poll_stalled(context)))),
                Err(panic) => Err(panic),
            }
        };
        call.delivered();
        let call = this.call;
        let cause = match polled {
            Ok(Ok(None)) => {
                end(call);
                return Poll::Ready(None);
            }
            Ok(Ok(Some(Ok(frame)))) => {
                pass(&frame, &*body, call, *this.of_trailers);
                return Poll::Ready(Some(Ok(frame)));
            }
            Ok(Ok(Some(Err(error)))) => {
                if let Some(call) = call {
                    call.judge(Verdict::Failure);
                }
                end(call);
                return Poll::Ready(Some(Err(error.into())));
            }
            Ok(Err(cause)) => cause,
            Err(panic) => Cause::Panicked(panic.message().to_owned()),
        };
        // The body is dropped before the permit is given back. Its `Drop` is user code.
        let _ = contain(|| this.body.set(None));
        let error = call.take().and_then(|call| call.fail(cause));
        Poll::Ready(error.map(|error| Err(error.into())))
    }

    fn is_end_stream(&self) -> bool {
        let body = self.body.as_ref();
        body.is_none_or(|body| contain(|| body.is_end_stream()).unwrap_or(false))
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        let hint = |body: &B| contain(|| body.size_hint()).unwrap_or_default();
        body.map_or_else(|| SizeHint::with_exact(0), hint)
    }
}

/// Ends the call. If its verdict was not given yet and it was too late, it counts as timed out; the
/// reader has the whole body nevertheless.
fn end(call: &mut Option<HeldCall>) {
    if let Some(call) = call.take() {
        let _: Result<(), CommandError<Infallible>> = call.end();
    }
}

/// Ends the call if this is the last frame of the body: a reader does not have to ask for another.
fn pass<B: Body>(
    frame: &Frame<B::Data>,
    body: &B,
    call: &mut Option<HeldCall>,
    of_trailers: OfTrailers,
) {
    let trailers = frame.trailers_ref();
    if let (Some(call), Some(verdict)) = (call.as_mut(), trailers.and_then(of_trailers)) {
        call.judge(verdict);
    }
    if trailers.is_some() || contain(|| body.is_end_stream()).unwrap_or(false) {
        end(call);
    }
}

tidegate_core::debug_fields!([B] CommandBody<B>, this => is_held: this.call.is_some());

impl<B> Default for CommandBody<B> {
    /// Returns an empty body.
    fn default() -> Self {
        Self::free(None)
    }
}
