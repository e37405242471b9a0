//! A channel as a byte stream, for futures.
//!
//! A [`TakeOver`] handler at the end of a pipeline gives what it reads to a [`ByteStream`]. What waits
//! is bounded both ways: the channel stops reading while the stream holds more than its limit, and
//! the stream takes no more than up to the high water mark and waits above it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_io::{AsyncRead, AsyncWrite};
use tidegate_core::{Blocking, contain, discard};
use tidegate_loop::EventLoop;
use tidegate_promise::{Completion, Failure};

use crate::channel::write_queue::ENTRY_OVERHEAD;
use crate::channel::{Channel, InputShutdown, UserEvent};
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext};

/// Bytes that a stream holds before its channel stops reading.
const MOST_HELD: usize = 64 * 1024;
/// Bytes that a write takes at least, where so many are offered: less is not worth the trouble.
const LEAST_TAKEN: usize = 1024;

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
    /// The stream was dropped: nobody reads any more.
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
    /// What a write, a flush or a close waits for.
    room: Option<Completion<()>>,
    flushing: Option<Completion<()>>,
    closing: Option<Completion<()>>,
    /// Something was written that no flush has answered for.
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

    /// The channel that was taken over.
    pub fn channel(&self) -> Channel {
        self.shared.channel.clone()
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

    /// How many bytes may be written now: up to the high mark or a little more, never above the cap.
    fn room(&self) -> usize {
        let (pending, marks) = self.shared.channel.waiting();
        let below_mark = marks.high().saturating_sub(pending).max(LEAST_TAKEN);
        below_mark.min(marks.cap().saturating_sub(pending + ENTRY_OVERHEAD))
    }
}

/// At most `most` bytes of `slices`.
fn gather(slices: &[IoSlice<'_>], most: usize) -> Bytes {
    let mut gathered = BytesMut::with_capacity(most);
    for slice in slices {
        let part = slice.len().min(most - gathered.len());
        gathered.extend_from_slice(&slice[..part]);
    }
    gathered.freeze()
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.shut || !self.shared.channel.is_active() {
            return Poll::Ready(Err(self.closed()));
        }
        if offered == 0 {
            return Poll::Ready(Ok(0));
        }
        ready!(self.poll_room(cx))?;
        let mut most = self.room();
        if most == 0 {
            // The cap leaves no room beside what waits.
            ready!(self.as_mut().poll_flush(cx))?;
            most = self.room().max(1);
        }
        let bytes = gather(slices, offered.min(most));
        let count = bytes.len();
        // A flush that is under way does not answer for these.
        self.flushing = None;
        self.unsent = true;
        self.shared.channel.write(bytes);
        Poll::Ready(Ok(count))
    }

    /// Ready when the operating system has everything that was written; does not wait for the peer.
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

    /// Closes the sending half; the peer reads an end after what was written. Ready when that end is
    /// on its way behind it all.
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
            // Where everything was sent before, it is closed anyway.
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

/// The future of a stream. Its panic goes to the hook for unhandled errors and is the cause of the
/// channel's end, which comes with the end of the stream.
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
                let why = Failure::from_panic(panic);
                let channel = &self.shared.channel;
                channel
                    .shared()
                    .report(&format_args!("the future that took the channel over {why}"));
                channel.set_close_cause(why);
            }
        }
        discard(self.future.take());
        Poll::Ready(())
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
    /// When the channel is open, or this is put into the chain of one that is, `begin` makes a future
    /// of its stream, which runs on the loop. The stream reads an end when this is taken out again.
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
        let future = Box::pin(begin(ByteStream::new(Arc::clone(&shared))));
        let future = Some(future);
        if home.spawn_local(Taken { future, shared }).is_err() {
            // The loop takes no more futures: it is on its way out.
            ctx.close();
        }
    }

    /// Nothing more will come for the stream.
    fn end(&self) {
        if let Some(shared) = &self.shared {
            shared.wake(|state| state.ended = true);
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
        });
        if pause {
            ctx.set_auto_read(false);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        match &self.shared {
            Some(shared) if event.is::<InputShutdown>().is_some() => {
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
            // Nobody reads it from the stream.
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

impl<F> fmt::Debug for TakeOver<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TakeOver")
    }
}
