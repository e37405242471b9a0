//! The future that `block_on` runs.
//!
//! It stays on the stack of the thread that drives the event loop, so it need be neither `Send` nor
//! `'static`. Only its waker's block moves between threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::CaughtPanic;
use tidegate_core::internal::prim::{AtomicBool, Ordering};
use tidegate_core::internal::{Deliver, Delivery, SignalBlock, contain};
use tidegate_pool::Quiet;

use crate::state::metrics::{IN_DROPS, IN_SIGNALS};
use crate::state::shared::{RootFuture, Shared, drop_contained};

/// How long the tasks that were submitted to the event loop may run after the root is ready.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The root future, and its output.
pub(crate) struct Root<'a, F: Future> {
    shared: &'a Arc<Shared>,
    /// `None` after the future was ready, and after the event loop has ended.
    future: Option<Pin<Box<F>>>,
    block: Arc<SignalBlock<RootBlock>>,
    waker: Waker,
    output: Option<Result<F::Output, CaughtPanic>>,
}

impl<'a, F: Future> Root<'a, F> {
    pub(crate) fn new(shared: &'a Arc<Shared>, future: F) -> Self {
        let block = SignalBlock::new(RootBlock {
            home: Arc::downgrade(shared),
            woken: AtomicBool::new(true),
        });
        Self {
            shared,
            future: Some(Box::pin(future)),
            waker: Arc::new(RootWaker(Arc::clone(&block))).into(),
            block,
            output: None,
        }
    }

    /// Returns the output of the future or its panic; `None` if the future was not ready.
    pub(crate) fn into_output(self) -> Option<Result<F::Output, CaughtPanic>> {
        self.output
    }
}

impl<F: Future> RootFuture for Root<'_, F> {
    fn is_woken(&self) -> bool {
        self.future.is_some() && self.block.woken.load(Ordering::Relaxed)
    }

    fn poll_if_woken(&mut self) {
        let Some(future) = self.future.as_mut().filter(|_| {
            // Only this thread writes it after the first poll.
            self.block.woken.load(Ordering::Relaxed)
        }) else {
            return;
        };
        self.block.woken.store(false, Ordering::Relaxed);
        let activity = &self.shared.meter.counters.activity;
        activity.set(IN_SIGNALS);
        let mut context = Context::from_waker(&self.waker);
        let polled = contain(|| future.as_mut().poll(&mut context));
        match polled {
            Ok(Poll::Pending) => return activity.set(0),
            Ok(Poll::Ready(output)) => self.output = Some(Ok(output)),
            Err(panic) => self.output = Some(Err(panic)),
        }
        self.end();
        drop(self.shared.shut_down(Quiet::none(END_TIMEOUT)));
    }

    fn end(&mut self) {
        let Some(future) = self.future.take() else {
            return;
        };
        let activity = &self.shared.meter.counters.activity;
        activity.set(IN_DROPS);
        if let Err(panic) = contain(|| drop(future)) {
            // The output is not returned: it is user code as well when it is dropped.
            let output = self.output.replace(Err(panic));
            drop_contained(self.shared, output);
        }
        activity.set(0);
    }
}

/// The block of the root's waker. As a signal it wakes the event loop, whose thread then polls the
/// root.
struct RootBlock {
    home: Weak<Shared>,
    /// Read and written on the event loop's thread only.
    woken: AtomicBool,
}

impl Deliver for RootBlock {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        if how == Delivery::Home {
            block.woken.store(true, Ordering::Relaxed);
        }
    }
}

struct RootWaker(Arc<SignalBlock<RootBlock>>);

impl Wake for RootWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(shared) = self.0.home.upgrade() else {
            return;
        };
        if let Some(signal) = self.0.raise() {
            // A refusal means that the event loop has terminated.
            drop(tidegate_core::Executor::signal(&*shared, signal));
        }
    }
}
