//! Threads that sleep on the block of a task of an executor, so that the executor can wake them if
//! it ends without starting the task.
//!
//! Each thread has one record, created by its first such wait. The thread stores the executor and
//! the state word there before it sleeps, and clears the executor afterwards. No other thread
//! writes these two fields, so a wait takes no lock and no contended cache line. An executor that
//! ends checks the records of all threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tidegate_core::Executor;
use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::prim::{AtomicU32, yield_now};
use tidegate_core::internal::unpoisoned;

use super::word_waiters::WordWaiters;

/// The record of one thread.
#[derive(Default)]
struct Sleeper {
    /// The id of the executor whose task the thread sleeps for; 0 if the thread does not sleep.
    home: AtomicU64,
    /// The address of the word on which the thread sleeps.
    word: AtomicUsize,
    /// Set to make the thread check its executor again; cleared by the thread before it does.
    recheck_requested: AtomicBool,
}

static ALL: Mutex<Vec<Weak<Sleeper>>> = Mutex::new(Vec::new());

thread_local! {
    static MINE: Arc<Sleeper> = register();
}

fn register() -> Arc<Sleeper> {
    let mine = Arc::new(Sleeper::default());
    let mut all = lock();
    all.retain(|one| one.strong_count() > 0);
    all.push(Arc::downgrade(&mine));
    mine
}

fn lock() -> MutexGuard<'static, Vec<Weak<Sleeper>>> {
    unpoisoned(ALL.lock())
}

/// The record of a thread that is about to sleep. Cleared on drop.
pub(super) struct SleepRecord(Arc<Sleeper>);

impl SleepRecord {
    /// Records that this thread sleeps on `word` for a task of `home`. Returns `None` on a thread
    /// that is exiting, and in models, whose threads all run on one real thread.
    pub(super) fn new(home: &dyn Executor, word: *const AtomicU32) -> Option<Self> {
        if cfg!(any(tidegate_loom, tidegate_shuttle)) {
            return None;
        }
        let mine = MINE.try_with(Arc::clone).ok()?;
        mine.word.store(word.addr(), Ordering::Relaxed);
        mine.home.store(home.id().get(), Ordering::Relaxed);
        Some(Self(mine))
    }

    /// Acknowledges a wake-up request. Called before each check of the executor. After this call,
    /// `wake_sleepers` repeats a new request until it is acknowledged.
    pub(super) fn acknowledge(&self) {
        self.0.recheck_requested.store(false, Ordering::Relaxed);
        // ORDERING: SeqCst fence between the record and the check of the executor; pairs with the
        // one in `wake_sleepers`: if this check finds the executor alive, the executor finds the
        // record.
        fence(Ordering::SeqCst);
    }
}

impl Drop for SleepRecord {
    fn drop(&mut self) {
        self.0.home.store(0, Ordering::Relaxed);
    }
}

/// Wakes every thread that sleeps for a task of `home`, so that it checks the executor again.
/// Called by an executor that ends, after it has marked itself as ended. Returns when each of the
/// threads has acknowledged.
pub(super) fn wake_sleepers(home: ExecutorId) {
    // ORDERING: SeqCst fence between the caller's mark and the check of the records; pairs with
    // the one in `SleepRecord::acknowledge`.
    fence(Ordering::SeqCst);
    let all: Vec<_> = lock().iter().filter_map(Weak::upgrade).collect();
    let sleeps = |one: &Sleeper| one.home.load(Ordering::Relaxed) == home.get();
    for one in all.iter().filter(|one| sleeps(one)) {
        one.recheck_requested.store(true, Ordering::Relaxed);
        // The thread may have checked already but not be asleep yet. A single wake-up would then
        // be lost, so it is repeated.
        while sleeps(one) && one.recheck_requested.load(Ordering::Relaxed) {
            let word = one.word.load(Ordering::Relaxed);
            WordWaiters::new().wake_one(std::ptr::without_provenance(word));
            yield_now();
        }
    }
}
