//! The handler that runs a future in the turns of its channel.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_core::internal::contain;
use tidegate_loop::{EventLoop, sleep};
use tidegate_promise::Failure;

use super::LEAST_TAKEN;
use super::byte_stream::{ByteStream, LocalStream};
use super::kind::{AnyThread, OwnLoop, StreamKind};
use super::link::{Alarm, Link};
use crate::channel::{Channel, InputShutdown, UserEvent};
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext};
use crate::server::Draining;

/// How often a future is polled in one turn if only room for its writes was missing.
const ROUNDS: usize = 16;

/// The name of the future in a report.
const CODE: &str = "the future that took the channel over";

/// Drops the future, if it still exists. Its `Drop` is user code: a panic goes to the hook for
/// unhandled errors.
fn drop_future<T>(channel: &Channel, future: Option<Pin<Box<T>>>) {
    if let Err(panic) = contain(|| drop(future)) {
        channel
            .shared()
            .report(&Failure::from_panic_of(CODE, panic));
    }
}

/// The last handler of a pipeline. A future takes the channel over as a [`ByteStream`]: when the
/// channel opens, or when the handler is added to an open channel. From then on the channel reads on
/// its own. It stays open for writing when the peer closes its sending half, whatever its
/// [options](crate::ChannelOptions) are.
///
/// The future is polled in the turns of the channel: bytes that arrive reach it without a queue, and
/// what it writes is sent at the end of the turn. If it panics, the panic goes to the hook for
/// unhandled errors and becomes the close cause of the channel, which closes when the stream is
/// dropped.
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
/// Its waker may be used by any thread. If the channel is closed, or the handler is removed, the
/// future runs on as a local future of the loop, and its stream has ended. A future that is not ready
/// [`close_timeout`](crate::ChannelOptions::close_timeout) after its channel was closed is dropped.
pub struct StreamHandler<F, T, K: StreamKind = AnyThread> {
    begin: Option<F>,
    future: Option<Pin<Box<T>>>,
    /// Present from the moment at which the future takes the channel over.
    link: Option<Arc<Link<K>>>,
    /// `true` if the server drained before that moment.
    drained: bool,
    /// Makes the handler not `Send`, because its future stays on the loop's thread.
    stays: PhantomData<*const ()>,
}

/// A [`StreamHandler`] of a [`LocalStream`](crate::LocalStream).
pub type LocalStreamHandler<F, T> = StreamHandler<F, T, OwnLoop>;

impl<F, T> StreamHandler<F, T>
where
    F: FnOnce(ByteStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    /// Creates a handler that calls `begin` with the stream of the channel when the channel is
    /// open, and runs the future that `begin` returns. The stream reads an end when the handler is
    /// removed.
    pub fn new(begin: F) -> Self {
        Self::of(begin)
    }
}

impl<F, T> LocalStreamHandler<F, T>
where
    F: FnOnce(LocalStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    /// Like [`StreamHandler::new`], with a [`LocalStream`](crate::LocalStream).
    pub fn local(begin: F) -> Self {
        Self::of(begin)
    }
}

impl<F, T, K: StreamKind> StreamHandler<F, T, K>
where
    F: FnOnce(ByteStream<K>) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    fn of(begin: F) -> Self {
        Self {
            begin: Some(begin),
            future: None,
            link: None,
            drained: false,
            stays: PhantomData,
        }
    }

    fn take_over(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some(begin) = self.begin.take() else {
            return;
        };
        let (channel, id) = ctx.ring_target();
        let link = Arc::new(Link::new(ctx.channel(), Alarm::new(channel, id)));
        self.link = Some(Arc::clone(&link));
        if self.drained {
            link.drain();
        }
        // The end of input must not close the channel, because the future may still write.
        ctx.set_half_closure(true);
        if !ctx.is_auto_read() {
            ctx.set_auto_read(true);
        }
        self.future = Some(Box::pin(begin(ByteStream::new(link))));
        self.turn(ctx);
    }

    /// Polls the future and carries out what it did with its stream.
    fn turn(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some(link) = self.link.clone() else {
            return;
        };
        for _ in 0..ROUNDS {
            link.begin_poll(ctx.write_room(LEAST_TAKEN));
            self.poll(&link, ctx);
            if !carry_out(&link, ctx) {
                return;
            }
        }
        // Other channels get their turn first.
        link.ring();
    }

    fn poll(&mut self, link: &Link<K>, ctx: &mut InboundContext<'_, Self>) {
        let Some(future) = &mut self.future else {
            return;
        };
        let mut cx = Context::from_waker(&link.waker);
        match contain(|| future.as_mut().poll(&mut cx)) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(())) => {}
            Err(panic) => {
                let why = Failure::from_panic_of(CODE, panic);
                link.channel.shared().report(&why);
                ctx.set_close_cause(why);
            }
        }
        drop_future(&link.channel, self.future.take());
    }

    /// Runs a future that is not ready on without its channel.
    fn let_go(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some(link) = self.link.take() else {
            return;
        };
        link.detach();
        // Wakes the parts of the future, or of another one, that wait for the stream.
        link.begin_poll(0);
        carry_out(&link, ctx);
        let Some(future) = self.future.take() else {
            return;
        };
        let limit = Box::pin(limit_of(link.channel.clone(), ctx.options().close_timeout));
        let rest = Rest {
            future: Some(future),
            limit,
            link,
        };
        if let Some(home) = EventLoop::current() {
            // An event loop that is shutting down drops the future.
            let _ = home.spawn_local(rest);
        }
    }
}

/// Carries out what the future did with its stream. Returns `true` if the future can write more at
/// once.
fn carry_out<H: Inbound<Write = Bytes>, K: StreamKind>(
    link: &Link<K>,
    ctx: &mut InboundContext<'_, H>,
) -> bool {
    let mut wishes = link.end_poll();
    for bytes in wishes.out.drain(..) {
        ctx.write(bytes);
    }
    link.reuse(wishes.out);
    if wishes.resume {
        ctx.set_auto_read(true);
    }
    if wishes.flush || wishes.room {
        ctx.flush();
    }
    if wishes.close {
        ctx.close_when_flushed();
        return false;
    }
    if wishes.shut {
        ctx.shutdown_output();
        return false;
    }
    if !wishes.room || !ctx.is_writable() {
        // A channel that is not writable reports when it is.
        return false;
    }
    if ctx.write_room(LEAST_TAKEN) > 0 {
        return true;
    }
    // The waiting bytes leave no room below the cap, although the channel is writable.
    let waker = link.waker.clone();
    ctx.flush_with().finally(move |_| waker.wake());
    false
}

impl<F, T, K: StreamKind> Inbound for StreamHandler<F, T, K>
where
    F: FnOnce(ByteStream<K>) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
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
        let Some(link) = &self.link else { return };
        if link.receive(bytes) {
            ctx.set_auto_read(false);
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.turn(ctx);
    }

    fn writability(&mut self, writable: bool, ctx: &mut InboundContext<'_, Self>) {
        if writable {
            self.turn(ctx);
        }
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        let drains = event.downcast_ref::<Draining>().is_some();
        self.drained |= drains;
        let Some(link) = &self.link else {
            return ctx.fire_event(event);
        };
        if event.downcast_ref::<InputShutdown>().is_some() {
            link.end();
            return self.turn(ctx);
        }
        ctx.fire_event(event);
        if drains {
            link.drain();
            self.turn(ctx);
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        match &self.link {
            Some(link) if link.fail(&why) => {
                self.turn(ctx);
                ctx.close();
            }
            // There is no stream that could return the error.
            _ => ctx.fire_error(why),
        }
    }

    fn timer(&mut self, _key: u64, ctx: &mut InboundContext<'_, Self>) {
        self.turn(ctx);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.let_go(ctx);
    }

    fn removed(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.let_go(ctx);
    }
}

impl<F, T, K: StreamKind> Drop for StreamHandler<F, T, K> {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            drop_future(&link.channel, self.future.take());
        }
    }
}

impl<F, T, K: StreamKind> fmt::Debug for StreamHandler<F, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamHandler")
    }
}

/// Waits until `channel` is closed, and for `after` from then; for ever if `after` is zero.
async fn limit_of(channel: Channel, after: Duration) {
    let _ = channel.closed().await;
    if after.is_zero() || sleep(after).await.is_err() {
        // Without timers the event loop is shutting down, and drops the future at its end.
        std::future::pending().await
    }
}

/// A future that has lost its channel. A panic, also of its drop, goes to the hook for unhandled errors.
struct Rest<T, K: StreamKind> {
    future: Option<Pin<Box<T>>>,
    /// Is ready when the future has to end.
    limit: Pin<Box<dyn Future<Output = ()>>>,
    link: Arc<Link<K>>,
}

impl<T: Future<Output = ()>, K: StreamKind> Future for Rest<T, K> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        match contain(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) if self.limit.as_mut().poll(cx).is_pending() => {
                return Poll::Pending;
            }
            Ok(_) => {}
            Err(panic) => {
                let why = Failure::from_panic_of(CODE, panic);
                self.link.channel.shared().report(&why);
            }
        }
        let future = self.future.take();
        drop_future(&self.link.channel, future);
        Poll::Ready(())
    }
}

impl<T, K: StreamKind> Drop for Rest<T, K> {
    fn drop(&mut self) {
        drop_future(&self.link.channel, self.future.take());
    }
}
