//! A channel as a byte stream that can move to another thread.
//!
//! A [`StreamHandler`] handler at the end of a pipeline passes the received bytes to a
//! [`ByteStream`]. Both directions are bounded: the channel stops reading while the stream holds
//! more than its limit, and the stream accepts bytes up to the high-water mark and waits above it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use futures_io::{AsyncRead, AsyncWrite};
use tidegate_core::Blocking;
use tidegate_core::internal::contain;
use tidegate_loop::EventLoop;
use tidegate_promise::{Completion, Failure};

use super::taken::{CODE, drop_future};
use super::{LEAST_TAKEN, MOST_HELD, error_of, gather};
use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::channel::{Channel, InputShutdown, UserEvent};
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext};

/// The state that a handler and its stream share.
struct Shared {
    channel: Channel,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    received: VecDeque<Bytes>,
    held: usize,
    /// `true` if the channel does not read because the stream holds too much.
    paused: bool,
    ended: bool,
    /// `true` if the stream was dropped.
    gone: bool,
    failure: Option<Failure>,
    reader: Option<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// A channel as a duplex byte stream. It implements [`AsyncRead`] and [`AsyncWrite`] of
/// `futures-io`, so the extension traits of `futures` and `futures-lite` apply to it, and
/// `tokio_util::compat` converts it to a tokio stream.
///
/// When the peer closes its sending half, the stream reads an end and can still write. Dropping the
/// stream closes the channel once everything written is sent. Created by [`StreamHandler`].
///
/// # Threads
///
/// The stream is `Send`: it can be moved to another thread and polled there.
pub struct ByteStream {
    shared: Arc<Shared>,
    /// What a write, a flush or a close waits for.
    room: Option<Completion<()>>,
    flushing: Option<Completion<()>>,
    closing: Option<Completion<()>>,
    /// `true` if something was written that no completed flush covers.
    unsent: bool,
    shut: bool,
}

impl ByteStream {
    fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            room: None,
            flushing: None,
            closing: None,
            unsent: false,
            shut: false,
        }
    }

    /// Returns the channel that was taken over.
    pub fn channel(&self) -> Channel {
        self.shared.channel.clone()
    }

    /// Returns the next received bytes as they are, without a copy; no bytes at the end.
    ///
    /// # Errors
    ///
    /// The error that closed the channel.
    pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut state = self.shared.lock();
        let Some(bytes) = state.received.pop_front() else {
            return poll_nothing(state, cx).map_ok(|()| Bytes::new());
        };
        state.held -= bytes.len();
        self.resume(state);
        Poll::Ready(Ok(bytes))
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
        let most = ready!(self.poll_most(cx, bytes.len()))?;
        if most > 0 {
            self.write(bytes.split_to(most));
        }
        Poll::Ready(Ok(most))
    }

    /// Returns how many of `offered` bytes may be written now.
    fn poll_most(&mut self, cx: &mut Context<'_>, offered: usize) -> Poll<io::Result<usize>> {
        if self.shut || !self.shared.channel.is_active() {
            return Poll::Ready(Err(self.closed()));
        }
        if offered == 0 {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(cx))?;
        let mut most = self.room();
        if most == 0 {
            // The waiting bytes leave no room below the cap.
            ready!(Pin::new(&mut *self).poll_flush(cx))?;
            most = self.room().max(1);
        }
        Poll::Ready(Ok(offered.min(most)))
    }

    fn write(&mut self, bytes: Bytes) {
        // A flush in progress does not cover these bytes.
        self.flushing = None;
        self.unsent = true;
        self.shared.channel.write(bytes);
    }

    /// Lets the channel read on if it had stopped and the stream now holds little.
    fn resume(&self, mut state: MutexGuard<'_, State>) {
        let resume = state.paused && state.held < MOST_HELD / 2;
        state.paused &= !resume;
        drop(state);
        if resume {
            self.shared.channel.set_auto_read(true);
        }
    }

    fn closed(&self) -> io::Error {
        let failure = self.shared.lock().failure.clone();
        match failure.or_else(|| self.shared.channel.close_cause()) {
            Some(why) => error_of(why, io::ErrorKind::BrokenPipe),
            None => io::ErrorKind::BrokenPipe.into(),
        }
    }

    /// Waits until the channel is writable.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(room) = &mut self.room {
                let done = ready!(Pin::new(room).poll(cx));
                self.room = None;
                if done.is_err() {
                    return Poll::Ready(Err(self.closed()));
                }
            }
            if self.shared.channel.is_writable() {
                return Poll::Ready(Ok(()));
            }
            self.room = Some(self.shared.channel.writable());
        }
    }

    /// Returns how many bytes may be written now: up to the high-water mark or slightly more, never
    /// above the cap.
    fn room(&self) -> usize {
        let (pending, marks) = self.shared.channel.waiting();
        let below_mark = marks.high().saturating_sub(pending).max(LEAST_TAKEN);
        below_mark.min(marks.cap().saturating_sub(pending + ENTRY_OVERHEAD))
    }
}

/// Polls a stream that has received nothing: an error, the end, or a wait.
fn poll_nothing(mut state: MutexGuard<'_, State>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    if let Some(why) = state.failure.clone() {
        return Poll::Ready(Err(error_of(why, io::ErrorKind::ConnectionAborted)));
    }
    if state.ended {
        return Poll::Ready(Ok(()));
    }
    state.reader = Some(cx.waker().clone());
    Poll::Pending
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
            return poll_nothing(state, cx).map_ok(|()| 0);
        }
        state.held -= count;
        self.resume(state);
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        let most = ready!(self.poll_most(cx, offered))?;
        if most > 0 {
            self.write(gather(slices, most));
        }
        Poll::Ready(Ok(most))
    }

    /// Ready when the operating system has accepted everything written; does not wait for the peer.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.unsent {
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        let channel = &this.shared.channel;
        let flushing = this.flushing.get_or_insert_with(|| channel.flush_with());
        let flushed = ready!(Pin::new(flushing).poll(cx));
        this.flushing = None;
        if flushed.is_err() {
            return Poll::Ready(Err(this.closed()));
        }
        this.unsent = false;
        Poll::Ready(Ok(()))
    }

    /// Closes the sending half. The peer reads an end of stream after everything written. Ready
    /// when that half is closed.
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closing.is_none() {
            if this.shut {
                return Poll::Ready(Ok(()));
            }
            this.shut = true;
            this.closing = Some(this.shared.channel.shutdown_output());
        }
        if let Some(closing) = &mut this.closing {
            let closed = ready!(Pin::new(closing).poll(cx));
            this.closing = None;
            // If everything was sent before, a closed channel is not an error.
            if closed.is_err() && this.unsent {
                return Poll::Ready(Err(this.closed()));
            }
            this.unsent = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        self.shared.lock().gone = true;
        drop(self.shared.channel.close_when_flushed());
    }
}

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = &self.shared.channel;
        f.debug_tuple("ByteStream").field(channel).finish()
    }
}

/// The future of a stream. If it panics, the panic goes to the hook for unhandled errors and
/// becomes the close cause of the channel, which closes when the stream is dropped.
struct Taken<T> {
    future: Option<Pin<Box<T>>>,
    shared: Arc<Shared>,
}

impl<T: Future<Output = ()>> Future for Taken<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        match contain(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            Err(panic) => {
                let why = Failure::from_panic_of(CODE, panic);
                let channel = &self.shared.channel;
                channel.shared().report(&why);
                channel.set_close_cause(why);
            }
        }
        let future = self.future.take();
        drop_future(&self.shared.channel, future);
        Poll::Ready(())
    }
}

/// The last handler of a pipeline. It lets a future take over the channel: when the channel opens,
/// or when the handler is added to an open channel. From then on the channel reads on its own. It
/// stays open for writing when the peer closes its sending half, whatever its
/// [options](crate::ChannelOptions) are.
///
/// ```
/// use std::pin::Pin;
/// use std::future::poll_fn;
/// use futures_io::{AsyncRead, AsyncWrite};
/// use tidegate_net::{EmbeddedChannel, StreamHandler};
///
/// let echo = StreamHandler::new(|mut stream| async move {
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
/// The future runs on the channel's event loop and need not be `Send`, so the loop must be pinned.
pub struct StreamHandler<F> {
    begin: Option<F>,
    shared: Option<Arc<Shared>>,
    /// Makes the handler not `Send`, because its future stays on the loop's thread.
    stays: PhantomData<*const ()>,
}

impl<F, T> StreamHandler<F>
where
    F: FnOnce(ByteStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    /// Creates a handler that calls `begin` with the stream of the channel when the channel is
    /// open. The future that `begin` returns runs on the event loop. The stream reads an end when
    /// the handler is removed.
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
        // The end of input must not close the channel, because the future may still write.
        ctx.set_half_closure(true);
        if !ctx.is_auto_read() {
            ctx.set_auto_read(true);
        }
        let future = Box::pin(begin(ByteStream::new(Arc::clone(&shared))));
        let future = Some(future);
        if home.spawn_local(Taken { future, shared }).is_err() {
            // The event loop accepts no more futures: it is shutting down.
            ctx.close();
        }
    }

    /// Notifies the stream that no more data will come.
    fn end(&self) {
        if let Some(shared) = &self.shared {
            shared.wake(|state| state.ended = true);
        }
    }
}

impl<F, T> Inbound for StreamHandler<F>
where
    F: FnOnce(ByteStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;
    const BLOCKING: Blocking = Blocking::Never;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        // In an open channel `active` will not be called again.
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
        });
        if pause {
            ctx.set_auto_read(false);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        match &self.shared {
            Some(shared) if event.downcast_ref::<InputShutdown>().is_some() => {
                shared.wake(|state| state.ended = true);
            }
            _ => ctx.fire_event(event),
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        match &self.shared {
            Some(shared) if !shared.lock().gone => {
                shared.wake(|state| state.failure = Some(why));
                ctx.close();
            }
            // There is no stream that could return the error.
            _ => ctx.fire_error(why),
        }
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.end();
    }

    fn removed(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.end();
    }
}

impl<F> fmt::Debug for StreamHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeOver")
    }
}
