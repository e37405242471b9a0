//! A stream of a channel as hyper's I/O.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_io::AsyncWrite;
use hyper::rt::{Read, ReadBufCursor, Write};
use tidegate_net::LocalStream;

/// The bytes with which a client begins HTTP/2 without an upgrade.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A [`LocalStream`] as hyper's [`Read`] and [`Write`], for connections that a program drives
/// itself. [`Http`](crate::Http) uses it for its own.
///
/// ```
/// use std::convert::Infallible;
/// use http_body_util::Full;
/// use hyper::server::conn::http1;
/// use hyper::service::service_fn;
/// use hyper::{Request, Response, body::{Bytes, Incoming}};
/// use tidegate_hyper::LoopIo;
/// use tidegate_net::{EmbeddedChannel, StreamHandler};
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
///     Ok(Response::new(Full::from("hello")))
/// }
///
/// let handler = StreamHandler::local(|stream| async {
///     let http1 = http1::Builder::new();
///     let _ = http1.serve_connection(LoopIo::new(stream), service_fn(hello)).await;
/// });
/// let mut channel = EmbeddedChannel::new(|p| p.add("http", handler))?;
/// channel.receive("GET / HTTP/1.0\r\n\r\n");
/// assert!(channel.sent().ends_with(b"hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LoopIo {
    stream: LocalStream,
    /// Received bytes that hyper has not taken yet.
    rest: Bytes,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// The client has closed its half before it sent anything.
    Nothing,
}

impl LoopIo {
    /// Creates the I/O of a stream.
    pub fn new(stream: LocalStream) -> Self {
        let rest = Bytes::new();
        Self { stream, rest }
    }

    /// Reads until it is known what the client speaks. The bytes stay to be read.
    pub(crate) fn poll_protocol(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Protocol>> {
        loop {
            let known = self.rest.len().min(PREFACE.len());
            if self.rest[..known] != PREFACE[..known] {
                return Poll::Ready(Ok(Protocol::Http1));
            }
            if known == PREFACE.len() {
                return Poll::Ready(Ok(Protocol::Http2));
            }
            let more = ready!(self.stream.poll_read_bytes(cx))?;
            if more.is_empty() {
                let nothing = self.rest.is_empty();
                let protocol = if nothing {
                    Protocol::Nothing
                } else {
                    Protocol::Http1
                };
                return Poll::Ready(Ok(protocol));
            }
            if self.rest.is_empty() {
                self.rest = more;
            } else {
                // Less than a preface came before: this is rare and short.
                let mut both = BytesMut::with_capacity(self.rest.len() + more.len());
                both.extend_from_slice(&self.rest);
                both.extend_from_slice(&more);
                self.rest = both.freeze();
            }
        }
    }

    /// Returns `true` if the client has sent something that was not handled yet.
    pub(crate) fn has_unread(&self) -> bool {
        !self.rest.is_empty()
    }
}

impl Read for LoopIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            self.rest = ready!(self.stream.poll_read_bytes(cx))?;
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        if self.rest.is_empty() {
            // The memory goes back to the loop.
            self.rest = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for LoopIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}

tidegate_core::debug_fields!(LoopIo, this => stream: this.stream);
