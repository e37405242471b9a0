//! Hyper's executor on the current event loop.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tidegate_core::internal::{contain, discard};
use tidegate_core::{CaughtPanic, Unhandled};
use tidegate_loop::EventLoop;

/// Hyper's [`Executor`] on the event loop of the calling thread. Futures need not be `Send`. HTTP/2
/// uses one for each request. A panic of a future goes to the loop's hook for unhandled errors. A
/// future is dropped if the thread is not that of a pinned event loop, or the loop is shut down.
///
/// ```
/// use hyper::rt::Executor;
/// use tidegate_hyper::LoopExecutor;
/// use tidegate_loop::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// let (promise, ran) = home.promise::<&str>();
/// home.execute(|| LoopExecutor.execute(async move { drop(promise.succeed("ran")) }))?;
/// assert_eq!(ran.wait()?, "ran");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopExecutor;

impl<F> Executor<F> for LoopExecutor
where
    F: Future<Output = ()> + 'static,
{
    fn execute(&self, future: F) {
        match EventLoop::current() {
            Some(home) => discard(home.spawn_local(Reported { future })),
            None => discard(future),
        }
    }
}

pin_project! {
    /// A future whose end is not awaited.
    struct Reported<F> {
        #[pin]
        future: F,
    }
}

impl<F: Future<Output = ()>> Future for Reported<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let future = self.project().future;
        contain(|| future.poll(cx)).unwrap_or_else(|panic| {
            report(&panic);
            Poll::Ready(())
        })
    }
}

#[cold]
fn report(panic: &CaughtPanic) {
    if let Some(home) = EventLoop::current() {
        let task = "a future of hyper";
        let message = panic.message();
        let what = Unhandled::TaskPanic { task, message };
        home.executor().unhandled(&what);
    }
}
