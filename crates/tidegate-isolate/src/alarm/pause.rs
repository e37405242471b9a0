//! A future that waits until a set time.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tidegate_core::internal::PlainTask;

use super::aside::CallbackThreads;
use super::handle::CallTimer;
use super::tasks::TimerTaskId;
use crate::lock::lock;

/// A future that is ready at its time, or earlier if the timer ends. Dropping it cancels the timer
/// task.
pub(crate) struct Pause {
    alarms: CallTimer,
    aside: Arc<CallbackThreads>,
    at: u64,
    alarm: Option<TimerTaskId>,
    waker: Arc<WakerSlot>,
}

impl Pause {
    /// Creates a delay for a command, whose callback threads wake the future.
    pub(crate) fn until(alarms: &CallTimer, aside: &Arc<CallbackThreads>, at: u64) -> Self {
        Self {
            alarms: alarms.clone(),
            aside: Arc::clone(aside),
            at,
            alarm: None,
            waker: Arc::default(),
        }
    }
}

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.waker.set(context.waker());
        if this.alarms.clock().nanos() >= this.at || this.alarms.is_closed() {
            return Poll::Ready(());
        }
        if this.alarm.is_none() {
            let wakes = Wakes(Arc::clone(&this.waker));
            let wake = PlainTask::new(move || drop(wakes));
            this.alarm = Some(this.alarms.run_at(this.at, &this.aside, wake));
        }
        Poll::Pending
    }
}

/// Wakes the future when dropped, so also when its task is dropped without running.
struct Wakes(Arc<WakerSlot>);

impl Drop for Wakes {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.alarms.cancel(alarm);
        }
    }
}

/// The waker of a future that a timer task wakes. Wakers are user code: they are cloned, called and
/// dropped with the lock released.
#[derive(Debug, Default)]
struct WakerSlot(Mutex<Option<Waker>>);

impl WakerSlot {
    fn set(&self, waker: &Waker) {
        let old = self.put(Some(waker.clone()));
        drop(old);
    }

    fn wake(&self) {
        let waker = self.put(None);
        waker.into_iter().for_each(Waker::wake);
    }

    fn put(&self, waker: Option<Waker>) -> Option<Waker> {
        let mut mine = lock(&self.0);
        std::mem::replace(&mut *mine, waker)
    }
}
