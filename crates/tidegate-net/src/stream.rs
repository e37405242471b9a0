//! A channel as a byte stream, for futures.
//!
//! A [`TakeOver`] handler at the end of a pipeline gives what it reads to a [`ByteStream`], and
//! wakes it when there is room to write. What waits is bounded both ways: the channel stops
//! reading while the stream holds more than its limit, and the stream takes no more than up to the
//! high water mark and waits above it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use futures_io::{AsyncRead, AsyncWrite};
use tidegate_exec::EventLoop;
use tidegate_promise::Failure;
use tidegate_sync::Blocking;

use crate::channel::Channel;
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext, InputShutdown, UserEvent};

/// Bytes that a stream holds before its channel stops reading.
const MOST_HELD: usize = 64 * 1024;

/// What a handler and its stream share.
struct Shared {
    channel: Channel,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    received: VecDeque<Bytes>,
    held: usize,
    /// The channel does not read because the stream holds too much.
    paused: bool,
    ended: bool,
    failure: Option<Failure>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.lock();
        let everybody = change(&mut state);
        let reader = state.reader.take();
        let writer = if everybody { state.writer.take() } else { None };
        drop(state);
        for waker in [reader, writer].into_iter().flatten() {
            waker.wake();
        }
    }
}

/// A channel as a duplex byte stream: [`AsyncRead`] and [`AsyncWrite`] of `futures-io`, so that the
/// extension traits of `futures` and `futures-lite` are its methods, and `tokio_util::compat` makes
/// it a stream of tokio's.
///
/// When the peer writes no more it reads an end, and can still write. Dropping it closes the channel
/// as soon as everything written is sent. Made by [`TakeOver`].
///
/// # Threads
///
/// It is `Send`: a future may give it to another thread, whose waker is woken there.
pub struct ByteStream {
    shared: Arc<Shared>,
    /// Its sending half was closed.
    shut: bool,
}

impl ByteStream {
    /// The channel that was taken over.
    pub fn channel(&self) -> Channel {
        self.shared.channel.clone()
    }

    fn closed(&self, state: &State) -> io::Error {
        let cause = || self.shared.channel.close_cause();
        match state.failure.clone().or_else(cause) {
            Some(why) => error_of(why, io::ErrorKind::BrokenPipe),
            None => io::ErrorKind::BrokenPipe.into(),
        }
    }

    /// How much may be written before the channel is not writable any more; at least a byte, which
    /// is what makes it so.
    fn room(&self) -> usize {
        let channel = &self.shared.channel;
        let room = (channel.shared().high() + 1).saturating_sub(channel.pending_bytes());
        room.max(1)
    }
}

/// A failure as an error of its own kind, if the operating system gave it one.
fn error_of(why: Failure, otherwise: io::ErrorKind) -> io::Error {
    let kind = why.downcast_ref::<io::Error>().map(io::Error::kind);
    io::Error::new(kind.unwrap_or(otherwise), why)
}

impl AsyncRead for ByteStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.shared.lock();
        let mut count = 0;
        while count < buffer.len()
            && let Some(chunk) = state.received.front_mut()
        {
            let part = chunk.len().min(buffer.len() - count);
            chunk.copy_to_slice(&mut buffer[count..count + part]);
            count += part;
            if chunk.is_empty() {
                state.received.pop_front();
            }
        }
        if count == 0 && !buffer.is_empty() {
            if let Some(why) = state.failure.clone() {
                return Poll::Ready(Err(error_of(why, io::ErrorKind::ConnectionAborted)));
            }
            if state.ended {
                return Poll::Ready(Ok(0));
            }
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.held -= count;
        let resume = state.paused && state.held < MOST_HELD / 2;
        state.paused &= !resume;
        drop(state);
        if resume {
            self.shared.channel.set_auto_read(true);
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for ByteStream {
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
        let channel = &self.shared.channel;
        let mut state = self.shared.lock();
        if self.shut || !channel.is_active() {
            return Poll::Ready(Err(self.closed(&state)));
        }
        if !channel.is_writable() {
            state.writer = Some(cx.waker().clone());
            drop(state);
            // What waits must be on its way, or nobody would ever be told.
            channel.flush();
            return Poll::Pending;
        }
        drop(state);
        let room = self.room();
        let mut count = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let part = slice.len().min(room - count);
            if part == 0 {
                break;
            }
            channel.write(Bytes::copy_from_slice(&slice[..part]));
            count += part;
        }
        Poll::Ready(Ok(count))
    }

    /// Sends what was written; does not wait for the peer.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.channel.flush();
        Poll::Ready(Ok(()))
    }

    /// Closes the sending half; the peer reads an end after what was written.
    fn poll_close(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut = true;
        self.shared.channel.flush();
        drop(self.shared.channel.shutdown_output());
        Poll::Ready(Ok(()))
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        drop(self.shared.channel.close_when_flushed());
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = &self.shared.channel;
        f.debug_tuple("ByteStream").field(channel).finish()
    }
}

/// The last handler of a pipeline whose channel is taken over by a future: from the start, or when
/// it is added to the pipeline of an open channel. The channel then reads on its own, and stays open
/// for what the future writes when the peer writes no more, whatever its
/// [options](crate::ChannelOptions) say.
///
/// ```
/// use std::pin::Pin;
/// use std::future::poll_fn;
/// use futures_io::{AsyncRead, AsyncWrite};
/// use tidegate_net::{EmbeddedChannel, TakeOver};
///
/// let echo = TakeOver::new(|mut stream| async move {
///     let mut buffer = [0; 1024];
///     loop {
///         let read = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buffer)).await;
///         let Ok(count @ 1..) = read else { return };
///         let wrote = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, &buffer[..count])).await;
///         let flushed = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await;
///         if wrote.is_err() || flushed.is_err() { return }
///     }
/// });
/// let mut channel = EmbeddedChannel::new(|p| p.add("echo", echo))?;
/// channel.receive("hello");
/// assert_eq!(channel.sent(), "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Threads
///
/// The future runs on the channel's loop and need not be `Send`; so the loop must be a pinned
/// one.
pub struct TakeOver<F> {
    begin: Option<F>,
    shared: Option<Arc<Shared>>,
    /// Its future stays on the loop's thread, so it does not fit a roaming loop.
    stays: PhantomData<*const ()>,
}

impl<F, T> TakeOver<F>
where
    F: FnOnce(ByteStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    /// When the channel is open, `begin` makes a future of its stream, which runs on the loop.
    pub fn new(begin: F) -> Self {
        Self {
            begin: Some(begin),
            shared: None,
            stays: PhantomData,
        }
    }

    fn take_over(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let (Some(begin), Some(home)) = (self.begin.take(), EventLoop::current()) else {
            return;
        };
        let shared = Arc::new(Shared {
            channel: ctx.channel(),
            state: Mutex::default(),
        });
        self.shared = Some(Arc::clone(&shared));
        // The end of what can be read is not the end of what can be written.
        ctx.set_half_closure(true);
        if !ctx.is_auto_read() {
            ctx.set_auto_read(true);
        }
        if home
            .spawn_local(begin(ByteStream {
                shared,
                shut: false,
            }))
            .is_err()
        {
            // The loop takes no more futures: it is on its way out.
            ctx.close();
        }
    }
}

impl<F, T> Inbound for TakeOver<F>
where
    F: FnOnce(ByteStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // Into an open channel: nobody will say so again.
        if ctx.channel().is_active() {
            self.take_over(ctx);
        }
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.take_over(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let Some(shared) = &self.shared else { return };
        let mut pause = false;
        shared.wake(|state| {
            state.held += bytes.len();
            state.received.push_back(bytes);
            pause = state.held >= MOST_HELD && !state.paused;
            state.paused |= pause;
            false
        });
        if pause {
            ctx.set_auto_read(false);
        }
    }

    fn writability(&mut self, writable: bool, _ctx: &mut InboundContext<'_, Self>) {
        if let Some(shared) = self.shared.as_ref().filter(|_| writable) {
            shared.wake(|_| true);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        match &self.shared {
            Some(shared) if event.is::<InputShutdown>().is_some() => {
                shared.wake(|state| {
                    state.ended = true;
                    false
                });
            }
            _ => ctx.fire_event(event),
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if let Some(shared) = &self.shared {
            shared.wake(|state| {
                state.failure = Some(why);
                true
            });
        }
        ctx.close();
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        if let Some(shared) = &self.shared {
            shared.wake(|state| {
                state.ended = true;
                true
            });
        }
    }
}

impl<F> fmt::Debug for TakeOver<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeOver")
    }
}
