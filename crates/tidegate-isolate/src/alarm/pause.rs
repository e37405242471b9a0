//! A pause that a future makes.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tidegate_sync::Task;

use super::{AlarmId, Alarms};

/// Ready at its time, or when the timer ends before. Dropping it takes the alarm back.
pub(crate) struct Pause {
    alarms: Alarms,
    at: u64,
    alarm: Option<AlarmId>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Pause {
    pub(crate) fn until(alarms: &Alarms, at: u64) -> Self {
        Self {
            alarms: alarms.clone(),
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
        let mine = Some(context.waker().clone());
        *this.waker.lock().unwrap_or_else(PoisonError::into_inner) = mine;
        if this.alarms.clock().nanos() >= this.at || this.alarms.is_closed() {
            return Poll::Ready(());
        }
        if this.alarm.is_none() {
            let wakes = Wakes(Arc::clone(&this.waker));
            let wake = Task::new(move || drop(wakes));
            this.alarm = Some(this.alarms.call_at(this.at, wake));
        }
        Poll::Pending
    }
}

/// Wakes when it is called, and when it is dropped uncalled.
struct Wakes(Arc<Mutex<Option<Waker>>>);

impl Drop for Wakes {
    fn drop(&mut self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.alarms.cancel(alarm);
        }
    }
}
