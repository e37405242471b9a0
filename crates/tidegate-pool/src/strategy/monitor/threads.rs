//! The stand-in pool: threads of a monitor, each reserved for one strategy at a time.
//!
//! A strategy lends its producer only while it has reserved one of them (see
//! [`StandInSlot`](crate::strategy::raw::StandInSlot)). That thread exists and waits, so it can
//! take the producer over even if the pool has no thread and the system cannot start one. The
//! threads are started when they are first needed, and wait in a list while no strategy needs them.
//!
//! # Invariants
//!
//! * For each thread there is at most one [`StandIn`]: in a strategy's stand-in slot, in the list,
//!   or with the thread itself while it runs a task. Only the owner of the `StandIn` may give the
//!   thread a task.
//! * Dropping a [`StandIn`] ends its thread. None is kept after the monitor has stopped.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::{contain, unpoisoned};
use tidegate_core::{Clock, ThreadBuilder};

use crate::pool::raw::{SlotWait, WorkerSlot};

/// The task of a stand-in. It receives the stand-in, and returns it to its slot or to the list.
type StandInTask = Box<dyn FnOnce(StandIn) + Send>;

/// The stand-ins of one monitor.
pub(crate) struct StandInPool {
    threads: ThreadBuilder,
    /// The maximum number of threads.
    most: usize,
    list: Mutex<List>,
    /// Set if the system could not start a thread since the monitor's last scan.
    refused: AtomicBool,
    /// The number of stand-ins that are producing.
    on_duty: AtomicUsize,
}

#[derive(Default)]
struct List {
    free: Vec<StandIn>,
    /// Threads that have not ended.
    threads: usize,
    over: bool,
}

/// A waiting stand-in thread. Dropping it ends the thread.
pub(crate) struct StandIn {
    /// `None` only after `send` or `drop` has used it.
    worker_slot: Option<Arc<WorkerSlot<Option<StandInTask>>>>,
}

impl StandInPool {
    /// Creates a pool of at most `most` threads, which are started with `threads`.
    pub(crate) fn new(threads: ThreadBuilder, most: usize) -> Self {
        Self {
            threads,
            most,
            list: Mutex::default(),
            refused: AtomicBool::new(false),
            on_duty: AtomicUsize::new(0),
        }
    }

    /// Returns an idle stand-in, or starts a new one. Returns `None` if the monitor has stopped,
    /// the maximum is reached, or the system cannot start a thread.
    #[cold]
    pub(crate) fn acquire(self: &Arc<Self>) -> Option<StandIn> {
        let mut list = self.lock();
        if list.over {
            return None;
        }
        if let Some(one) = list.free.pop() {
            return Some(one);
        }
        // After a refusal, do not start a thread again before the monitor's next scan: it takes
        // time.
        if list.threads >= self.most || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        list.threads += 1;
        // The spawner is user code, so it runs without the lock.
        drop(list);
        let worker_slot = Arc::new(WorkerSlot::new());
        let (own, place) = (Arc::clone(self), Arc::clone(&worker_slot));
        let one = StandIn {
            worker_slot: Some(worker_slot),
        };
        if self.threads.spawn(move || serve(&own, &place)).is_ok() {
            return Some(one);
        }
        self.refused.store(true, Ordering::Relaxed);
        self.lock().threads -= 1;
        None
    }

    /// Puts a stand-in back into the list, or ends it if the monitor has stopped.
    pub(crate) fn release(&self, one: StandIn) {
        let mut list = self.lock();
        if !list.over {
            list.free.push(one);
            return;
        }
        drop(list);
        drop(one);
    }

    /// Ends the idle stand-ins. Every other one ends when it is released.
    pub(crate) fn close(&self) {
        let mut list = self.lock();
        list.over = true;
        let free = std::mem::take(&mut list.free);
        drop(list);
        drop(free);
    }

    /// Allows new threads to be requested from the system. Called at each scan of the monitor.
    pub(crate) fn scan(&self) {
        if self.refused.load(Ordering::Relaxed) {
            self.refused.store(false, Ordering::Relaxed);
        }
    }

    /// Counts one more, or one less, stand-in that is producing.
    pub(crate) fn on_duty(&self, begins: bool) {
        if begins {
            self.on_duty.fetch_add(1, Ordering::Relaxed);
        } else {
            self.on_duty.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of stand-ins that are producing.
    pub(crate) fn producing(&self) -> usize {
        self.on_duty.load(Ordering::Relaxed)
    }

    /// Returns the number of threads that have not ended.
    pub(crate) fn threads(&self) -> usize {
        self.lock().threads
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        unpoisoned(self.list.lock())
    }
}

impl StandIn {
    /// Wakes the thread and makes it run `task`. The thread passes a new `StandIn` for itself to
    /// `task`.
    pub(crate) fn send(mut self, task: impl FnOnce(StandIn) + Send + 'static) {
        if let Some(worker_slot) = self.worker_slot.take() {
            give(&worker_slot, Some(Box::new(task)));
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Some(worker_slot) = self.worker_slot.take() {
            give(&worker_slot, None);
        }
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn").finish_non_exhaustive()
    }
}

fn give(worker_slot: &WorkerSlot<Option<StandInTask>>, task: Option<StandInTask>) {
    match worker_slot.give(task) {
        Ok(true) => worker_slot.wake(),
        Ok(false) => {}
        Err(_) => unreachable!("only the owner of a stand-in sends it"),
    }
}

/// The main function of a stand-in thread.
fn serve(own: &StandInPool, worker_slot: &Arc<WorkerSlot<Option<StandInTask>>>) {
    let clock = Clock::system();
    loop {
        match worker_slot.sleep(&clock, None) {
            SlotWait::Woken => {}
            SlotWait::Given { job: None, .. } | SlotWait::Closed => break,
            SlotWait::Given {
                job: Some(task), ..
            } => {
                let one = StandIn {
                    worker_slot: Some(Arc::clone(worker_slot)),
                };
                // User code in the task has its own containment. A panic here ends this task, and
                // the thread too if the task still owns the stand-in.
                let _ = contain(|| task(one));
            }
        }
    }
    own.lock().threads -= 1;
}
