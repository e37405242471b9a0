//! Futures on a loop.
//!
//! A future lives in a slab on its loop's thread and never leaves it while it is polled; what
//! travels is its name: a small block that wakers hold and raise as a signal. So a future that
//! is not `Send` can be spawned by code that runs on a pinned loop, and a waker may be used
//! from any thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::prim::{AtomicBool, Mutex, Ordering};
use tidegate_core::{
    CaughtPanic, Deliver, Delivery, Rejected, SignalBlock, Task, contain, is_current,
};
use tidegate_pool::internal::Answer;
use tidegate_promise::Completion;

use super::slots::{LocalFuture, Place, SendFuture, Slots};
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local::{self, Local};

/// A future's name, by which it is woken and dropped.
pub(crate) struct Spawned {
    home: Weak<Shared>,
    /// Set once, on the loop, when the future has its place.
    place: std::sync::OnceLock<(Place, bool)>,
    /// The reader has cancelled: drop the future instead of polling it.
    cancelled: AtomicBool,
}

/// Spawns a future that may be sent to its loop.
pub(crate) fn spawn<F>(
    shared: &Arc<Shared>,
    future: F,
) -> Result<Completion<F::Output>, Rejected<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (answer, completion) = Answer::of(shared);
    let name = new_block(shared, &answer);
    // The future stays whole and unboxed until the loop has accepted it.
    let cell = Arc::new(Mutex::new(Some((future, answer))));
    let taken = Arc::clone(&cell);
    let home = shared.id;
    let settle = move || {
        let parts = tidegate_core::prim::lock(&taken).take();
        // Whoever was handed the task back may run it elsewhere, where nothing could wake the
        // future: it is dropped there, which cancels its completion.
        if let Some((future, answer)) = parts.filter(|_| is_current(home)) {
            let future: SendFuture = Box::pin(answering(future, answer));
            settle_in(&name, false, |local| local.kept.futures.insert(future));
        }
    };
    // A loop that a strategy drives would have it run elsewhere if it might block.
    let task = if shared.settings.driven {
        Task::non_blocking(settle)
    } else {
        Task::labelled::<F, _>(settle)
    };
    match shared.submit(task) {
        Ok(()) => Ok(completion),
        Err(refused) => {
            let why = refused.why();
            // With the future's name, so that giving it back sends the loop no signal.
            drop(refused);
            let parts = tidegate_core::prim::lock(&cell).take();
            match parts {
                Some((future, _answer)) => Err(Rejected::new(future, why)),
                None => Ok(completion),
            }
        }
    }
}

/// Spawns a future on the loop that this thread drives, which must be `shared`.
pub(crate) fn spawn_local<F>(shared: &Arc<Shared>, future: F) -> Completion<F::Output>
where
    F: Future + 'static,
    F::Output: Send + 'static,
{
    let (answer, completion) = Answer::of(shared);
    let block = new_block(shared, &answer);
    let future: LocalFuture = Box::pin(answering(future, answer));
    settle_in(&block, true, |local| local.pinned.insert(future));
    completion
}

fn new_block<T: Send + 'static>(
    shared: &Arc<Shared>,
    answer: &Answer<T>,
) -> Arc<SignalBlock<Spawned>> {
    let block = SignalBlock::new(Spawned {
        home: Arc::downgrade(shared),
        place: std::sync::OnceLock::new(),
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

/// Runs the future and answers with its output, or with its panic.
async fn answering<F: Future>(future: F, answer: Answer<F::Output>)
where
    F::Output: Send + 'static,
{
    match Contained(Some(Box::pin(future))).await {
        Ok(output) => answer.succeed(output),
        Err(panic) => answer.fail_panic(std::any::type_name::<F>(), panic),
    }
}

/// A future whose panic is a value, also the panic of dropping it when it is ready.
struct Contained<F>(Option<Pin<Box<F>>>);

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, CaughtPanic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.0.as_mut().expect("not polled after it was ready");
        let polled = contain(|| inner.as_mut().poll(cx));
        let output = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        let inner = self.0.take();
        let dropped = contain(|| drop(inner));
        Poll::Ready(dropped.and(output))
    }
}

/// Gives the future its place and polls it for the first time. On the loop's thread.
fn settle_in(
    block: &Arc<SignalBlock<Spawned>>,
    pinned: bool,
    insert: impl FnOnce(&mut Local) -> Place,
) {
    let Some(place) = local::with(insert) else {
        return;
    };
    let _ = block.place.set((place, pinned));
    let waker: Waker = Arc::new(Name(Arc::clone(block))).into();
    local::with(|local| {
        if pinned {
            local.pinned.set_waker(place, waker);
        } else {
            local.kept.futures.set_waker(place, waker);
        }
    });
    poll(block);
}

/// What wakers hold.
struct Name(Arc<SignalBlock<Spawned>>);

impl Wake for Name {
    fn wake(self: Arc<Self>) {
        raise(&self.0);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        raise(&self.0);
    }
}

fn raise(block: &Arc<SignalBlock<Spawned>>) {
    let Some(shared) = block.home.upgrade() else {
        return;
    };
    if let Some(signal) = block.raise() {
        // Refused means that the loop has terminated and dropped its futures.
        drop(tidegate_core::Executor::signal(&*shared, signal));
    }
}

impl Deliver for Spawned {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        if how == Delivery::Home {
            poll(&block);
        }
    }
}

/// Polls the future once, or drops it if its reader has cancelled. On the loop's thread.
fn poll(block: &Arc<SignalBlock<Spawned>>) {
    // A wake before the future has its place: its first poll is still to come.
    let Some(&(place, pinned)) = block.place.get() else {
        return;
    };
    if pinned {
        poll_in(block, place, |local| &mut local.pinned);
    } else {
        poll_in(block, place, |local| &mut local.kept.futures);
    }
}

fn poll_in<F>(
    block: &Arc<SignalBlock<Spawned>>,
    place: Place,
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
        // What the future holds is dropped before its place is given away.
        match block.home.upgrade() {
            Some(shared) => drop_contained(&shared, future),
            None => drop(future),
        }
        local::with(|local| slots(local).free(place));
    }
}
