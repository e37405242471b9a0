//! The body of a request that is streamed.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tidegate_promise::Completion;

use super::call::{Call, CallReceiver, Writing};
use super::error::ClientError;
use super::slot::Link;
use crate::codec::{BodyEncoder, BodyFraming};

/// The body of a request, written in pieces. Made by
/// [`RequestBuilder::send_stream`](super::RequestBuilder::send_stream).
///
/// A piece waits while the connection is being made, and while the server takes nothing. Dropping
/// the body before [`finish`](RequestBody::finish) ends the call and closes its connection.
///
/// ```no_run
/// # async fn example(client: tidegate_http::client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (mut body, response) = client.post("http://example.org/upload").send_stream(None);
/// for piece in ["one", "two"] {
///     if !body.write(piece).await? {
///         break; // the server has responded already
///     }
/// }
/// body.finish().await?;
/// println!("{}", response.await?.status());
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it ends the call"]
pub struct RequestBody {
    /// `None` after the end, and if the request could not be sent.
    call: Option<Arc<Call>>,
    encoder: BodyEncoder,
}

impl RequestBody {
    pub(super) fn new(call: Option<Arc<Call>>, framing: BodyFraming) -> Self {
        Self {
            call,
            encoder: BodyEncoder::new(framing),
        }
    }

    /// Writes a piece. Returns `false` if the server has responded already or the call has ended:
    /// nothing more is sent then, and the response says why.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the body becomes longer than declared. The piece is not sent.
    pub async fn write(&mut self, piece: impl Into<Bytes>) -> Result<bool, ClientError> {
        let piece = piece.into();
        let Some((call, link)) = self.connection().await else {
            return Ok(false);
        };
        let written = link.write_part(&mut self.encoder, piece);
        written.map_err(|why| call.bad_body(why))?;
        Ok(true)
    }

    /// Ends the body.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the body is shorter than declared. The call ends then.
    pub async fn finish(mut self) -> Result<(), ClientError> {
        let Some((call, link)) = self.connection().await else {
            self.call = None;
            return Ok(());
        };
        let mut end = BytesMut::new();
        let finished = self.encoder.finish(&mut end);
        // In case of an error, dropping this value ends the call.
        finished.map_err(|why| call.bad_body(why))?;
        self.call = None;
        if !end.is_empty() {
            link.write_and_flush(end.freeze());
        }
        call.note_complete(&link);
        Ok(())
    }

    /// Waits for a connection that takes a piece, and binds the call to it. Returns `None` if there
    /// will be none.
    async fn connection(&self) -> Option<(Arc<Call>, Link<CallReceiver>)> {
        let call = self.call.clone()?;
        loop {
            let mut writable = None;
            let link = poll_fn(|cx| poll_link(&call, &mut writable, cx)).await?;
            // Otherwise the call has just lost this connection, and may have another one.
            if call.note_streamed(&link) {
                return Some((call, link));
            }
        }
    }
}

/// Polls for a connection that is writable. `writable` is the wait for that, once it has begun.
fn poll_link(
    call: &Call,
    writable: &mut Option<Completion<()>>,
    cx: &mut Context<'_>,
) -> Poll<Option<Link<CallReceiver>>> {
    let link = match call.poll_writing(cx.waker()) {
        Writing::Now(link) => link,
        Writing::Over => return Poll::Ready(None),
        Writing::Later => return Poll::Pending,
    };
    if link.channel.is_writable() {
        return Poll::Ready(Some(link));
    }
    let wait = writable.get_or_insert_with(|| link.channel.writable());
    // A connection that has ended is noticed when it is used.
    Pin::new(wait).poll(cx).map(|_| Some(link))
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call.give_up_body();
        }
    }
}

tidegate_core::debug_fields!(RequestBody);
