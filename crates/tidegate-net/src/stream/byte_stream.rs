//! A channel as a byte stream.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
use tidegate_promise::Completion;

use super::gather;
use super::kind::{AnyThread, OwnLoop, StreamKind};
use super::link::Link;
use crate::channel::Channel;

/// A channel as a duplex byte stream. It implements [`AsyncRead`] and [`AsyncWrite`] of
/// `futures-io`, so the extension traits of `futures` and `futures-lite` apply to it, and
/// `tokio_util::compat` converts it to a tokio stream. Created by
/// [`StreamHandler`](crate::StreamHandler).
///
/// Both directions are bounded: the channel stops reading while the stream holds more than its
/// limit, and a write waits above the high-water mark. When the peer closes its sending half, the
/// stream reads an end and can still write. Dropping the stream closes the channel once everything
/// written is sent. Received [`Bytes`] are handed out as they are, and written `Bytes` are queued as
/// they are.
///
/// # Threads
///
/// The stream is `Send`: it can be moved to another thread and polled there. A [`LocalStream`] stays
/// on the thread of its event loop.
pub struct ByteStream<K: StreamKind = AnyThread> {
    link: Arc<Link<K>>,
    /// What a flush or a close waits for, if the stream waits for them.
    flushing: Option<Completion<()>>,
    closing: Option<Completion<()>>,
    /// `true` if something was written that no completed flush covers.
    unsent: bool,
}

/// A [`ByteStream`] for a future on the channel's own event loop. It takes no lock. Created by
/// [`StreamHandler::local`](crate::StreamHandler::local).
///
/// ```
/// use std::future::poll_fn;
/// use tidegate_net::{EmbeddedChannel, LocalStream, StreamHandler};
///
/// async fn greet(mut stream: LocalStream) {
///     let mut name = poll_fn(|cx| stream.poll_read_bytes(cx)).await.unwrap_or_default();
///     let _ = poll_fn(|cx| stream.poll_write_bytes(cx, &mut name)).await;
/// }
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("greet", StreamHandler::local(greet)))?;
/// channel.receive("Ada");
/// assert_eq!(channel.sent(), "Ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A flush and a close of the sending half are ready at once and are carried out when the future
/// returns from its poll.
///
/// # Threads
///
/// Stays on the thread of its event loop. It may move to another local future of that loop.
pub type LocalStream = ByteStream<OwnLoop>;

impl<K: StreamKind> ByteStream<K> {
    pub(super) fn new(link: Arc<Link<K>>) -> Self {
        Self {
            link,
            flushing: None,
            closing: None,
            unsent: false,
        }
    }

    /// Returns the channel that was taken over.
    pub fn channel(&self) -> Channel {
        self.link.channel.clone()
    }

    /// Returns a signal that the server of this channel drains.
    pub fn drain_signal(&self) -> DrainSignal<K> {
        DrainSignal {
            link: Arc::clone(&self.link),
        }
    }

    /// Returns the next received bytes as they are, without a copy; no bytes at the end.
    ///
    /// # Errors
    ///
    /// The error that closed the channel.
    pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.link.poll_read_bytes(cx)
    }

    /// Writes from the front of `bytes` without a copy, and removes what was written. Returns the
    /// number of bytes written. Waits while more than the high-water mark is pending.
    ///
    /// # Errors
    ///
    /// The error that closed the channel, or [`io::ErrorKind::BrokenPipe`].
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        let most = ready!(self.link.poll_room(cx, bytes.len()))?;
        self.write(bytes.split_to(most));
        Poll::Ready(Ok(most))
    }

    fn write(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            // A flush in progress does not cover these bytes.
            self.flushing = None;
            self.unsent = true;
            self.link.write(bytes);
        }
    }
}

impl<K: StreamKind> AsyncRead for ByteStream<K> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.link.poll_read(cx, buffer)
    }
}

impl<K: StreamKind> AsyncWrite for ByteStream<K> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let most = ready!(self.link.poll_room(cx, offered))?;
        self.write(gather(slices, most));
        Poll::Ready(Ok(most))
    }

    /// Ready when the operating system has accepted everything written; does not wait for the peer.
    /// Ready at once for a [`LocalStream`].
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !K::WAITS {
            return Poll::Ready(self.link.flush());
        }
        if !self.unsent {
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        let channel = &this.link.channel;
        let flushing = this.flushing.get_or_insert_with(|| channel.flush_with());
        let flushed = ready!(Pin::new(flushing).poll(cx));
        this.flushing = None;
        if flushed.is_err() {
            return Poll::Ready(Err(this.link.closed()));
        }
        this.unsent = false;
        Poll::Ready(Ok(()))
    }

    /// Closes the sending half. The peer reads an end of stream after everything written. Ready
    /// when that half is closed; at once for a [`LocalStream`].
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let first = this.link.shut(!K::WAITS);
        if K::WAITS && first {
            this.closing = Some(this.link.channel.shutdown_output());
        }
        if let Some(closing) = &mut this.closing {
            let closed = ready!(Pin::new(closing).poll(cx));
            this.closing = None;
            // If everything was sent before, a closed channel is not an error.
            if closed.is_err() && this.unsent {
                return Poll::Ready(Err(this.link.closed()));
            }
            this.unsent = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<K: StreamKind> Drop for ByteStream<K> {
    fn drop(&mut self) {
        self.link.leave();
    }
}

impl<K: StreamKind> fmt::Debug for ByteStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByteStream")
            .field(&self.link.channel)
            .finish()
    }
}

/// A future that is ready when the server of a channel [drains](crate::Server::drain). The future
/// that serves the channel should then finish its work and drop the stream. Created by
/// [`ByteStream::drain_signal`].
///
/// ```
/// use tidegate_net::{Draining, EmbeddedChannel, StreamHandler};
///
/// let idle = StreamHandler::local(|stream| async move {
///     stream.drain_signal().await;
///     drop(stream); // closes the channel
/// });
/// let mut channel = EmbeddedChannel::new(|p| p.add("idle", idle))?;
/// channel.channel().fire_event(Draining);
/// channel.run();
/// assert!(!channel.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DrainSignal<K: StreamKind = OwnLoop> {
    link: Arc<Link<K>>,
}

impl<K: StreamKind> DrainSignal<K> {
    /// Returns `true` if the server drains.
    pub fn is_draining(&self) -> bool {
        self.link.is_draining()
    }
}

impl<K: StreamKind> Future for DrainSignal<K> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_draining(cx)
    }
}

impl<K: StreamKind> fmt::Debug for DrainSignal<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let draining = self.is_draining();
        f.debug_tuple("DrainSignal").field(&draining).finish()
    }
}
