//! A channel as a byte stream that stays on the channel's event loop.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};

use super::gather;
use super::link::Link;
use crate::channel::Channel;

/// A channel as a duplex byte stream for a future on the channel's own event loop. Created by
/// [`LocalStreamHandler`](crate::LocalStreamHandler).
///
/// Received [`Bytes`] are handed out as they are, and written `Bytes` are queued as they are. The
/// stream takes no lock. Besides that it is like a [`ByteStream`](crate::ByteStream): it implements
/// [`AsyncRead`] and [`AsyncWrite`], both directions are bounded, it reads an end when the peer
/// closes its sending half, and dropping it closes the channel once everything written is sent.
///
/// ```
/// use std::future::poll_fn;
/// use tidegate_net::{EmbeddedChannel, LocalStream, LocalStreamHandler};
///
/// async fn greet(mut stream: LocalStream) {
///     let mut name = poll_fn(|cx| stream.poll_read_bytes(cx)).await.unwrap_or_default();
///     let _ = poll_fn(|cx| stream.poll_write_bytes(cx, &mut name)).await;
/// }
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("greet", LocalStreamHandler::new(greet)))?;
/// channel.receive("Ada");
/// assert_eq!(channel.sent(), "Ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What is written is queued when the future returns from its poll. A flush and a close of the
/// sending half are ready at once and are carried out then. A write waits above the high-water mark.
///
/// # Threads
///
/// Stays on the thread of its event loop. It may move to another local future of that loop.
pub struct LocalStream {
    link: Rc<Link>,
}

impl LocalStream {
    pub(super) fn new(link: Rc<Link>) -> Self {
        Self { link }
    }

    /// Returns the channel that was taken over.
    pub fn channel(&self) -> Channel {
        self.link.channel.clone()
    }

    /// Returns a signal that the server of this channel drains.
    pub fn drain_signal(&self) -> DrainSignal {
        DrainSignal {
            link: Rc::clone(&self.link),
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
        self.link.write(bytes.split_to(most));
        Poll::Ready(Ok(most))
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.link.poll_read(cx, buffer)
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buffer)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let most = ready!(self.link.poll_room(cx, offered))?;
        self.link.write(gather(slices, most));
        Poll::Ready(Ok(most))
    }

    /// Sends everything written so far when the future returns from its poll. Ready at once.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.link.flush())
    }

    /// Closes the sending half when the future returns from its poll. Ready at once. The peer reads
    /// an end of stream after everything written.
    fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.shut();
        Poll::Ready(Ok(()))
    }
}

impl Drop for LocalStream {
    fn drop(&mut self) {
        self.link.leave();
    }
}

impl fmt::Debug for LocalStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalStream")
            .field(&self.link.channel)
            .finish()
    }
}

/// A future that is ready when the server of a channel [drains](crate::Server::drain). The future
/// that serves the channel should then finish its work and drop the stream. Created by
/// [`LocalStream::drain_signal`].
///
/// ```
/// use tidegate_net::{Draining, EmbeddedChannel, LocalStreamHandler};
///
/// let idle = LocalStreamHandler::new(|stream| async move {
///     stream.drain_signal().await;
///     drop(stream); // closes the channel
/// });
/// let mut channel = EmbeddedChannel::new(|p| p.add("idle", idle))?;
/// channel.channel().fire_event(Draining);
/// channel.run();
/// assert!(!channel.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DrainSignal {
    link: Rc<Link>,
}

impl DrainSignal {
    /// Returns `true` if the server drains.
    pub fn is_draining(&self) -> bool {
        self.link.is_draining()
    }
}

impl Future for DrainSignal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.link.poll_draining(cx)
    }
}

impl fmt::Debug for DrainSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let draining = self.is_draining();
        f.debug_tuple("DrainSignal").field(&draining).finish()
    }
}
