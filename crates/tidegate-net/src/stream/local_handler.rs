//! The handler that runs a future in the turns of its channel.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tidegate_core::Blocking;
use tidegate_core::internal::contain;
use tidegate_loop::EventLoop;
use tidegate_promise::Failure;

use super::LEAST_TAKEN;
use super::link::{Alarm, Link};
use super::local_stream::LocalStream;
use super::taken::{CODE, drop_future};
use crate::channel::{InputShutdown, UserEvent};
use crate::message::Nothing;
use crate::pipeline::{Inbound, InboundContext};
use crate::server::Draining;

/// How often a future is polled in one turn if only room for its writes was missing.
const ROUNDS: usize = 16;

/// The last handler of a pipeline. It lets a future take over the channel, like
/// [`StreamHandler`](crate::StreamHandler), with a [`LocalStream`]. The future is polled in the turns
/// of the channel: bytes that arrive reach it without a queue, and what it writes is sent at the end
/// of the turn.
///
/// ```
/// use std::future::poll_fn;
/// use std::pin::Pin;
/// use futures_io::AsyncWrite;
/// use tidegate_net::{EmbeddedChannel, LocalStreamHandler};
///
/// let echo = LocalStreamHandler::new(|mut stream| async move {
///     while let Ok(mut bytes) = poll_fn(|cx| stream.poll_read_bytes(cx)).await {
///         if bytes.is_empty() {
///             return; // the peer has closed its half
///         }
///         while !bytes.is_empty() {
///             let wrote = poll_fn(|cx| stream.poll_write_bytes(cx, &mut bytes)).await;
///             if wrote.is_err() { return }
///         }
///         let _ = poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await;
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
/// future runs on as a local future of the loop.
pub struct LocalStreamHandler<F, T> {
    begin: Option<F>,
    future: Option<Pin<Box<T>>>,
    /// Present from the moment at which the future takes the channel over.
    link: Option<Rc<Link>>,
    /// `true` if the server drained before that moment.
    drained: bool,
}

impl<F, T> LocalStreamHandler<F, T>
where
    F: FnOnce(LocalStream) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    /// Creates a handler that calls `begin` with the stream of the channel when the channel is
    /// open, and runs the future that `begin` returns.
    pub fn new(begin: F) -> Self {
        Self {
            begin: Some(begin),
            future: None,
            link: None,
            drained: false,
        }
    }

    fn take_over(&mut self, ctx: &mut InboundContext<'_, Self>) {
        let Some(begin) = self.begin.take() else {
            return;
        };
        let (channel, id) = ctx.ring_target();
        let link = Rc::new(Link::new(ctx.channel(), Alarm::new(channel, id)));
        self.link = Some(Rc::clone(&link));
        if self.drained {
            link.drain();
        }
        // The end of input must not close the channel, because the future may still write.
        ctx.set_half_closure(true);
        if !ctx.is_auto_read() {
            ctx.set_auto_read(true);
        }
        self.future = Some(Box::pin(begin(LocalStream::new(link))));
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

    fn poll(&mut self, link: &Link, ctx: &mut InboundContext<'_, Self>) {
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

    /// Lets a future that is not ready run on without its channel.
    fn let_go(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        link.detach();
        // Wakes the parts of the future, or of another one, that wait for the stream.
        link.begin_poll(0);
        link.end_poll();
        let Some(future) = self.future.take() else {
            return;
        };
        let rest = Rest {
            future: Some(future),
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
fn carry_out<H: Inbound<Write = Bytes>>(link: &Rc<Link>, ctx: &mut InboundContext<'_, H>) -> bool {
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

impl<F, T> Inbound for LocalStreamHandler<F, T>
where
    F: FnOnce(LocalStream) -> T + 'static,
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

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.let_go();
    }

    fn removed(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.let_go();
    }
}

impl<F, T> Drop for LocalStreamHandler<F, T> {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            drop_future(&link.channel, self.future.take());
        }
    }
}

impl<F, T> fmt::Debug for LocalStreamHandler<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalStreamHandler")
    }
}

/// A future that has lost its channel. A panic, also of its drop, goes to the hook for unhandled errors.
struct Rest<T> {
    future: Option<Pin<Box<T>>>,
    link: Rc<Link>,
}

impl<T: Future<Output = ()>> Future for Rest<T> {
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
                self.link.channel.shared().report(&why);
            }
        }
        let future = self.future.take();
        drop_future(&self.link.channel, future);
        Poll::Ready(())
    }
}

impl<T> Drop for Rest<T> {
    fn drop(&mut self) {
        drop_future(&self.link.channel, self.future.take());
    }
}
