//! Threads that sleep on the block of a task that some executor owes, to be found when that executor
//! ends without beginning it.
//!
//! Each thread has one record, made with its first such wait: two words that it writes before it
//! sleeps and clears afterwards. Nobody else writes them, so a wait costs no lock and no shared line;
//! an executor that ends looks at the records of all threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate_core::prim::{AtomicU32, yield_now};
use tidegate_core::{Executor, ExecutorId};

use super::bell::Bell;

/// One thread's record.
#[derive(Default)]
struct Sleeper {
    /// The executor that owes what the thread sleeps for; 0 while it does not.
    home: AtomicU64,
    /// The address of the word that it sleeps on.
    word: AtomicUsize,
    /// It was told to look at its executor again, and has not yet.
    asked: AtomicBool,
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
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread that is about to sleep; cleared when dropped.
pub(super) struct Noted(Arc<Sleeper>);

impl Noted {
    /// Notes that this thread sleeps on `word` for something that `home` owes. `None` on a thread
    /// that is ending, and in models, whose threads share this one.
    pub(super) fn new(home: &dyn Executor, word: *const AtomicU32) -> Option<Self> {
        if cfg!(any(tidegate_loom, tidegate_shuttle)) {
            return None;
        }
        let mine = MINE.try_with(Arc::clone).ok()?;
        mine.word.store(word.addr(), Ordering::Relaxed);
        mine.home.store(home.id().get(), Ordering::Relaxed);
        Some(Self(mine))
    }

    /// Called before each look at the executor: after this, who asks again rings until it is heard.
    pub(super) fn hear(&self) {
        self.0.asked.store(false, Ordering::Relaxed);
        // ORDERING: SeqCst fence between the record and the look at the executor; pairs with the
        // one in `wake`: the executor that this look finds alive finds the record.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.home.store(0, Ordering::Relaxed);
    }
}

/// Wakes every thread that sleeps for something that `home` owes, to look at it again. Called by
/// an executor that ends, after it has said so; returns when each of them has heard.
pub fn wake_sleepers(home: ExecutorId) {
    // ORDERING: SeqCst fence between what the caller said and the look at the records; pairs with
    // the one in `Noted::hear`.
    fence(Ordering::SeqCst);
    let all: Vec<_> = lock().iter().filter_map(Weak::upgrade).collect();
    let sleeps = |one: &Sleeper| one.home.load(Ordering::Relaxed) == home.get();
    for one in all.iter().filter(|one| sleeps(one)) {
        one.asked.store(true, Ordering::Relaxed);
        // It may have looked and not fallen asleep yet: a ring then meets nobody.
        while sleeps(one) && one.asked.load(Ordering::Relaxed) {
            let word = one.word.load(Ordering::Relaxed);
            Bell::new().ring(std::ptr::without_provenance(word));
            yield_now();
        }
    }
}
