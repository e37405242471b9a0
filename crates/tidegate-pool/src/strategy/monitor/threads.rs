//! Stand-ins on call: threads of a monitor's own, each reserved for one strategy at a time.
//!
//! A strategy lends its producer only while it has one of them (see
//! [`Standby`](crate::strategy::raw::Standby)): a thread that exists and waits, so that it can take the
//! producer over whatever the pool and the system say by then. They are started when they are first
//! needed, and wait in a list while no strategy needs them.
//!
//! # Invariants
//!
//! * For each thread there is at most one [`StandIn`]: in a strategy's standby, in the list, or
//!   with the thread itself while it is on an errand. Whoever has it may send the thread.
//! * A [`StandIn`] that is dropped ends its thread. None is kept once the monitor has stopped.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Clock, ThreadBuilder, contain};

use crate::pool::raw::{Seat, Slept};

/// What a stand-in is sent for. It is given itself, to be put back where it belongs.
type Errand = Box<dyn FnOnce(StandIn) + Send>;

/// The stand-ins of one monitor.
pub(crate) struct OnCall {
    threads: ThreadBuilder,
    /// The most threads.
    most: usize,
    list: Mutex<List>,
    /// The system refused a thread since the monitor's last look.
    refused: AtomicBool,
    /// Threads that could not be had, for one of the two reasons.
    failed: AtomicU64,
    /// Stand-ins that drive a producer now.
    on_duty: AtomicUsize,
}

#[derive(Default)]
struct List {
    free: Vec<StandIn>,
    /// Threads that have not ended.
    threads: usize,
    over: bool,
}

/// A thread that waits to stand in. Dropped, it ends.
pub(crate) struct StandIn {
    /// `None` only once it was sent.
    seat: Option<Arc<Seat<Option<Errand>>>>,
}

impl OnCall {
    /// At most `most` threads, started as `threads` says.
    pub(crate) fn new(threads: ThreadBuilder, most: usize) -> Self {
        Self {
            threads,
            most,
            list: Mutex::default(),
            refused: AtomicBool::new(false),
            failed: AtomicU64::new(0),
            on_duty: AtomicUsize::new(0),
        }
    }

    /// A stand-in that waits, or a new one. `None` when the monitor has stopped, the limit is
    /// reached, or the system refuses a thread.
    #[cold]
    pub(crate) fn hire(self: &Arc<Self>) -> Option<StandIn> {
        let mut list = self.lock();
        if list.over {
            return None;
        }
        if let Some(one) = list.free.pop() {
            return Some(one);
        }
        // Not asked again until the monitor has looked: a refusal takes its time.
        if list.threads >= self.most || self.refused.load(Ordering::Relaxed) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        list.threads += 1;
        // The spawner is the user's.
        drop(list);
        let seat = Arc::new(Seat::new());
        let (own, place) = (Arc::clone(self), Arc::clone(&seat));
        let one = StandIn { seat: Some(seat) };
        if self.threads.spawn(move || serve(&own, &place)).is_ok() {
            return Some(one);
        }
        self.refused.store(true, Ordering::Relaxed);
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.lock().threads -= 1;
        None
    }

    /// Lets a stand-in wait for another strategy; ends it if the monitor has stopped.
    pub(crate) fn release(&self, one: StandIn) {
        let mut list = self.lock();
        if !list.over {
            list.free.push(one);
            return;
        }
        drop(list);
        drop(one);
    }

    /// Ends those that wait, and every other one when it comes back.
    pub(crate) fn close(&self) {
        let mut list = self.lock();
        list.over = true;
        let free = std::mem::take(&mut list.free);
        drop(list);
        drop(free);
    }

    /// The monitor looks: the system may be asked for threads again.
    pub(crate) fn look(&self) {
        if self.refused.load(Ordering::Relaxed) {
            self.refused.store(false, Ordering::Relaxed);
        }
    }

    /// Counts one more, or one less, that drives a producer.
    pub(crate) fn on_duty(&self, begins: bool) {
        if begins {
            self.on_duty.fetch_add(1, Ordering::Relaxed);
        } else {
            self.on_duty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Stand-ins that drive a producer now.
    pub(crate) fn duties(&self) -> usize {
        self.on_duty.load(Ordering::Relaxed)
    }

    /// Threads that have not ended.
    pub(crate) fn threads(&self) -> usize {
        self.lock().threads
    }

    /// Times that no thread could be had.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StandIn {
    /// Sends the thread.
    pub(crate) fn send(mut self, errand: impl FnOnce(StandIn) + Send + 'static) {
        if let Some(seat) = self.seat.take() {
            give(&seat, Some(Box::new(errand)));
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            give(&seat, None);
        }
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn").finish_non_exhaustive()
    }
}

fn give(seat: &Seat<Option<Errand>>, errand: Option<Errand>) {
    match seat.give(errand) {
        Ok(true) => seat.wake(),
        Ok(false) => {}
        Err(_) => unreachable!("who has the stand-in is the only one to send it"),
    }
}

/// What the thread of a stand-in does.
fn serve(own: &OnCall, seat: &Arc<Seat<Option<Errand>>>) {
    let clock = Clock::system();
    loop {
        match seat.sleep(&clock, None) {
            Slept::Woken => {}
            Slept::Given { job: None, .. } | Slept::Closed => break,
            Slept::Given {
                job: Some(errand), ..
            } => {
                let one = StandIn {
                    seat: Some(Arc::clone(seat)),
                };
                // What is the user's in it was contained; a panic ends this thread's errand only.
                let _ = contain(|| errand(one));
            }
        }
    }
    own.lock().threads -= 1;
}
