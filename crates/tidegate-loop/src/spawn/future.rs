//! Futures on an event loop.
//!
//! A future is in a slab on its event loop's thread and never leaves it while it is polled. Only a
//! small block moves between threads: wakers hold it, and raise it as a signal. So code on a pinned
//! loop can spawn a future that is not `Send`, and a waker may be used from any thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::executor::{Work, is_current};
use tidegate_core::internal::prim::{AtomicBool, Mutex, Ordering, lock};
use tidegate_core::internal::trace::Span;
use tidegate_core::internal::{Deliver, Delivery, PlainTask, SignalBlock, contain};
use tidegate_core::{CaughtPanic, RejectReason, Rejected};
use tidegate_pool::internal::TaskPromise;
use tidegate_promise::Completion;

use super::slots::{LocalFuture, SendFuture, SlotKey, Slots};
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local::{self, Local};

/// The block of one future. Wakers hold it; as a signal it makes the event loop poll or drop the
/// future.
pub(crate) struct FutureBlock {
    home: Weak<Shared>,
    /// The slot of the future, and whether it is a pinned one. Set once, on the event loop, when
    /// the future gets its slot.
    key: std::sync::OnceLock<(SlotKey, bool)>,
    /// `true` if the reader has cancelled: the future is dropped instead of polled.
    cancelled: AtomicBool,
}

/// Spawns a future that is `Send`, from any thread.
pub(crate) fn spawn<F>(
    shared: &Arc<Shared>,
    future: F,
) -> Result<Completion<F::Output>, Rejected<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (answer, completion) = TaskPromise::of(shared, Work::Own);
    let name = new_block(shared, &answer);
    // The future stays unboxed until the event loop has accepted it, so that a refusal can return
    // it.
    let mut cell = Arc::new(Mutex::new(Some((answer, future, Span::current()))));
    let taken = Arc::clone(&cell);
    let home = shared.id;
    let settle = move || {
        // Elsewhere nothing could wake the future. A handed-back task that is run there drops it,
        // which cancels its completion.
        let parts = is_current(home).then(|| lock(&taken).take()).flatten();
        if let Some((answer, future, span)) = parts {
            let future: SendFuture = Box::pin(completing(future, answer, span));
            insert_and_poll(&name, false, |local| {
                local.loop_state.futures.insert(future)
            });
        }
    };
    // An event loop that is driven by a strategy runs a task elsewhere if the task may block.
    let task = if shared.settings.driven {
        PlainTask::non_blocking(settle)
    } else {
        PlainTask::labelled::<F, _>(settle)
    };
    let why = match shared.submit(task) {
        Ok(()) => RejectReason::Full,
        // Drops the block as well, so that returning the future sends the event loop no signal.
        Err(refused) => refused.why(),
    };
    // If the task is gone and has left the future here, it was refused, or the reject policy ran it
    // on this thread or dropped it.
    let left = Arc::get_mut(&mut cell).and_then(|cell| lock(cell).take());
    match left {
        Some((_answer, future, _span)) => Err(Rejected::new(future, why)),
        None => Ok(completion),
    }
}

/// Spawns a future on the event loop that this thread drives, which must be `shared`.
pub(crate) fn spawn_local<F>(shared: &Arc<Shared>, future: F) -> Completion<F::Output>
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let (answer, completion) = TaskPromise::of(shared, Work::Own);
    let block = new_block(shared, &answer);
    let future: LocalFuture = Box::pin(completing(future, answer, Span::current()));
    insert_and_poll(&block, true, |local| local.pinned.insert(future));
    completion
}

fn new_block<T: Send + 'static>(
    shared: &Arc<Shared>,
    answer: &TaskPromise<T>,
) -> Arc<SignalBlock<FutureBlock>> {
    let block = SignalBlock::new(FutureBlock {
        home: Arc::downgrade(shared),
        key: std::sync::OnceLock::new(),
        cancelled: AtomicBool::new(false),
    });
    let weak = Arc::downgrade(&block);
    answer.on_cancelled(move || {
        if let Some(block) = weak.upgrade() {
            block.cancelled.store(true, Ordering::Relaxed);
            raise(&block);
        }
    });
    block
}

/// Runs the future in its span and completes the promise with its output, or with its panic.
async fn completing<F: Future>(future: F, answer: TaskPromise<F::Output>, span: Span)
where
    F::Output: Send + 'static,
{
    let future = Contained {
        future: Some(Box::pin(future)),
        span,
    };
    match future.await {
        Ok(output) => answer.succeed(output),
        Err(panic) => answer.fail_panic(std::any::type_name::<F>(), panic),
    }
}

/// A future that catches its panics, including a panic of the drop after it is ready.
struct Contained<F> {
    /// `None` once it is ready.
    future: Option<Pin<Box<F>>>,
    /// The span in which the future was spawned.
    span: Span,
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, CaughtPanic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let inner = this.future.as_mut();
        let inner = inner.expect("not polled after it was ready");
        let entered = this.span.enter();
        let polled = contain(|| inner.as_mut().poll(cx));
        drop(entered);
        let output = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        let inner = this.future.take();
        let dropped = contain(|| drop(inner));
        Poll::Ready(dropped.and(output))
    }
}

/// Puts the future into its slot and polls it for the first time. Called on the event loop's
/// thread.
fn insert_and_poll(
    block: &Arc<SignalBlock<FutureBlock>>,
    pinned: bool,
    insert: impl FnOnce(&mut Local) -> SlotKey,
) {
    let Some(place) = local::with(insert) else {
        return;
    };
    let _ = block.key.set((place, pinned));
    let waker: Waker = Arc::new(FutureWaker(Arc::clone(block))).into();
    local::with(|local| {
        if pinned {
            local.pinned.set_waker(place, waker);
        } else {
            local.loop_state.futures.set_waker(place, waker);
        }
    });
    poll(block);
}

/// The waker of a future.
struct FutureWaker(Arc<SignalBlock<FutureBlock>>);

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        raise(&self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        raise(&self.0);
    }
}

fn raise(block: &Arc<SignalBlock<FutureBlock>>) {
    let Some(shared) = block.home.upgrade() else {
        return;
    };
    if let Some(signal) = block.raise() {
        // A refusal means that the event loop has terminated and dropped its futures.
        drop(tidegate_core::Executor::signal(&*shared, signal));
    }
}

impl Deliver for FutureBlock {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        if how == Delivery::Home {
            poll(&block);
        }
    }
}

/// Polls the future once, or drops it if its reader has cancelled. Called on the event loop's
/// thread.
fn poll(block: &Arc<SignalBlock<FutureBlock>>) {
    // Woken before the future has its slot: its first poll is still to come.
    let Some(&(place, pinned)) = block.key.get() else {
        return;
    };
    if pinned {
        poll_in(block, place, |local| &mut local.pinned);
    } else {
        poll_in(block, place, |local| &mut local.loop_state.futures);
    }
}

fn poll_in<F>(
    block: &Arc<SignalBlock<FutureBlock>>,
    place: SlotKey,
    slots: impl Fn(&mut Local) -> &mut Slots<F>,
) where
    F: Future<Output = ()> + Unpin,
{
    let taken = local::with(|local| slots(local).take(place)).flatten();
    let Some((mut future, waker)) = taken else {
        return;
    };
    let cancelled = block.cancelled.load(Ordering::Relaxed);
    let waker = waker.as_ref().unwrap_or(Waker::noop());
    let pending = !cancelled
        && Pin::new(&mut future)
            .poll(&mut Context::from_waker(waker))
            .is_pending();
    if pending {
        local::with(|local| slots(local).put_back(place, future));
    } else {
        // Drops what the future holds before its slot is freed.
        match block.home.upgrade() {
            Some(shared) => drop_contained(&shared, future),
            None => drop(future),
        }
        local::with(|local| slots(local).free(place));
    }
}
