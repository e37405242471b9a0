//! Wakers and listeners that wait for a task of an executor, so that the executor can notify them
//! if it ends without starting the task.
//!
//! Each is an entry in one of 64 lists, chosen by the thread that adds it, so that threads rarely
//! contend for a lock. The waker or listener owns a [`Watch`], which removes the entry when the
//! waker or listener is called or dropped. Both happen while its block is alive.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::CachePadded;
use tidegate_core::internal::unpoisoned;

use super::depth;

const LISTS: usize = 64;

static ALL: [CachePadded<Mutex<List>>; LISTS] =
    [const { CachePadded::new(Mutex::new(List::new())) }; LISTS];
/// The number of threads that were assigned a list.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The index of this thread's list, which other threads may share.
    static MINE: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % LISTS);
}

/// Some of the wakers and listeners that wait for tasks of executors.
struct List {
    entries: Vec<Entry>,
    /// The first free entry, or `entries.len()` if there is none.
    free: usize,
    /// Stuck executors that were given up. [`notify_unstarted`] does not run for them again, so the
    /// caller that adds a listener later must fail its block.
    given_up: Vec<u64>,
}

enum Entry {
    /// A free entry, and the index of the next one.
    Free(usize),
    Waker(u64, Waker),
    Listener(u64, ListenedBlock),
    /// The waker was taken out to be woken; its `Watch` still exists.
    Taken,
}

/// A block that has a listener.
#[derive(Clone, Copy)]
pub(super) struct ListenedBlock {
    pub(super) block: NonNull<()>,
    /// Decides the block as never started, if it is still open. Runs no user code. The block is
    /// alive during the call.
    pub(super) give_up: unsafe fn(NonNull<()>) -> Option<AbandonedBlock>,
}

/// The second half of giving up on a block: runs its hook and its listeners. Called without a
/// lock.
pub(super) type AbandonedBlock = Box<dyn FnOnce()>;

// SAFETY: only pointers to blocks whose values are `Send` are stored, and any thread that keeps
// the block alive may do what is done with it here.
unsafe impl Send for ListenedBlock {}

impl List {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: 0,
            given_up: Vec::new(),
        }
    }

    fn add(&mut self, entry: Entry) -> usize {
        let at = self.free;
        match self.entries.get_mut(at) {
            Some(place) => {
                if let Entry::Free(next) = std::mem::replace(place, entry) {
                    self.free = next;
                }
            }
            None => {
                self.entries.push(entry);
                self.free = self.entries.len();
            }
        }
        at
    }

    fn remove(&mut self, at: usize) -> Entry {
        let entry = std::mem::replace(&mut self.entries[at], Entry::Free(self.free));
        self.free = at;
        entry
    }
}

/// Owns one entry and removes it on drop.
pub(super) struct Watch(NonZeroU64);

impl Watch {
    /// Adds `waker`, to be woken when the executor `home` ends without starting a task.
    pub(super) fn waker(home: u64, waker: &Waker) -> Self {
        let entry = Entry::Waker(home, waker.clone());
        let list = MINE.try_with(Cell::get).unwrap_or(0);
        let at = lock(list).add(entry);
        Self::new(list, at)
    }

    /// Adds a block, to be failed when the executor `home` is given up. Returns `true` if that has
    /// already happened; the caller must then fail the block.
    pub(super) fn listener(home: u64, listening: ListenedBlock) -> (Self, bool) {
        let list = MINE.try_with(Cell::get).unwrap_or(0);
        let mut mine = lock(list);
        let at = mine.add(Entry::Listener(home, listening));
        let already_given_up = mine.given_up.contains(&home);
        drop(mine);
        (Self::new(list, at), already_given_up)
    }

    fn new(list: usize, at: usize) -> Self {
        let key = (at as u64) * LISTS as u64 + list as u64;
        Self(NonZeroU64::MIN.saturating_add(key))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let key = (self.0.get() - 1) as usize;
        let entry = lock(key % LISTS).remove(key / LISTS);
        // Dropped without the lock: dropping a waker is user code.
        drop(entry);
    }
}

fn lock(list: usize) -> MutexGuard<'static, List> {
    unpoisoned(ALL[list].lock())
}

/// Wakes every waker that waits for a task of `home`, so that its owner checks the executor again.
/// Called by an executor that ends, after it has marked itself as ended. `give_up` means that
/// the executor is stuck: its tasks cannot be handed back, so their listeners are notified too.
pub fn notify_unstarted(home: ExecutorId, give_up: bool) {
    let home = home.get();
    for list in 0..LISTS {
        let (mut wakers, mut given_up) = (Vec::new(), Vec::new());
        let mut entries = lock(list);
        for entry in &mut entries.entries {
            match entry {
                Entry::Waker(of, _) if *of == home => {
                    wakers.push(std::mem::replace(entry, Entry::Taken));
                }
                Entry::Listener(of, listening) if give_up && *of == home => {
                    // SAFETY: the listener has not been called or dropped, since its watch would
                    // then have removed the entry, so its block is alive while the lock is held;
                    // the function was stored with the block.
                    given_up.extend(unsafe { (listening.give_up)(listening.block) });
                }
                _ => {}
            }
        }
        if give_up {
            entries.given_up.push(home);
        }
        drop(entries);
        for entry in wakers {
            if let Entry::Waker(_, waker) = entry {
                depth::contain(None, || waker.wake());
            }
        }
        for finish in given_up {
            finish();
        }
    }
}
