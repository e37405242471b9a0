//! Wakers and listeners of tasks that some executor owes, to be found when that executor ends
//! without beginning them.
//!
//! Each is in one of a few lists, chosen by the thread that adds it, so that threads rarely meet at
//! a lock. The entry goes when the waker or the listener is called or dropped, since the [`Watch`]
//! lies in it, and both happen while its block is alive.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::{CachePadded, ExecutorId};

use super::depth;

const LISTS: usize = 64;

static ALL: [CachePadded<Mutex<List>>; LISTS] =
    [const { CachePadded::new(Mutex::new(List::new())) }; LISTS];
/// Threads that have a list.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The list of this thread, which it may share with others.
    static MINE: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % LISTS);
}

/// Some of the wakers and listeners that wait for what executors owe.
struct List {
    entries: Vec<Entry>,
    /// The first free entry; `entries.len()` for none.
    free: usize,
    /// Executors that were given up: nobody comes by for their listeners again.
    given_up: Vec<u64>,
}

enum Entry {
    /// Names the next free one.
    Free(usize),
    Waker(u64, Waker),
    Listener(u64, Listening),
    /// Told; whoever added it has not taken it back yet.
    Told,
}

/// A block that has a listener.
#[derive(Clone, Copy)]
pub(super) struct Listening {
    pub(super) block: NonNull<()>,
    /// Gives up on the block, if it is still open; runs none of the user's code. The block is
    /// alive during the call.
    pub(super) give_up: unsafe fn(NonNull<()>) -> Option<GivenUp>,
}

/// What is left to do for a block that was given up: runs its hook and tells its listeners. Called
/// with no lock held.
pub(super) type GivenUp = Box<dyn FnOnce()>;

// SAFETY: only pointers to blocks whose values are `Send` are put in; what is done with the block
// is what any thread may do that keeps it alive.
unsafe impl Send for Listening {}

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

/// An entry; dropping it removes the entry.
pub(super) struct Watch(NonZeroU64);

impl Watch {
    /// Adds `waker`, to be woken when the executor `home` ends without beginning a task.
    pub(super) fn waker(home: u64, waker: &Waker) -> Self {
        let entry = Entry::Waker(home, waker.clone());
        let list = MINE.try_with(Cell::get).unwrap_or(0);
        let at = lock(list).add(entry);
        Self::new(list, at)
    }

    /// Adds a block, to be given up when the executor `home` is. Returns `true` if that executor
    /// was given up already: the caller gives up on the block.
    pub(super) fn listener(home: u64, listening: Listening) -> (Self, bool) {
        let list = MINE.try_with(Cell::get).unwrap_or(0);
        let mut mine = lock(list);
        let at = mine.add(Entry::Listener(home, listening));
        let late = mine.given_up.contains(&home);
        drop(mine);
        (Self::new(list, at), late)
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
        // With no lock held: a waker is the user's.
        drop(entry);
    }
}

fn lock(list: usize) -> MutexGuard<'static, List> {
    ALL[list].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes every waker that waits for something that `home` owes, to look at it again. Called by an
/// executor that ends, after it has said so. With `give_up` the listeners are told, too, that the
/// tasks were left: nobody can take them.
pub fn tell_left(home: ExecutorId, give_up: bool) {
    let home = home.get();
    for list in 0..LISTS {
        let (mut wakers, mut given_up) = (Vec::new(), Vec::new());
        let mut entries = lock(list);
        for entry in &mut entries.entries {
            match entry {
                Entry::Waker(of, _) if *of == home => {
                    wakers.push(std::mem::replace(entry, Entry::Told));
                }
                Entry::Listener(of, listening) if give_up && *of == home => {
                    // SAFETY: the listener has not been called or dropped, since its watch would
                    // then have removed the entry, so its block is alive as long as the lock is
                    // held; the function was stored with it.
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
