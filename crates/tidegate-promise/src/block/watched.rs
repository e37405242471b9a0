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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::prim::fence;
use tidegate_core::{CachePadded, Executor, ExecutorId, Task};

use super::listener::Listener;
use super::state::{CANCELLED, CLAIMED, DONE, LEFT, OWED, UNCANCELLABLE};
use super::{BlockPtr, Decided, Outcome, depth};

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
struct Listening {
    block: NonNull<()>,
    give_up: unsafe fn(NonNull<()>) -> Option<GivenUp>,
}

// SAFETY: only pointers to blocks whose values are `Send` are put in; what is done with the block
// is what any thread may do that keeps it alive.
unsafe impl Send for Listening {}

/// A block that was decided, and what comes after that.
struct GivenUp {
    block: NonNull<()>,
    decided: Decided,
    hook: Option<Box<Task>>,
    home: Option<Arc<dyn Executor>>,
    tell: unsafe fn(NonNull<()>, &Decided),
}

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

impl<T: Send + 'static, E: Send + 'static> BlockPtr<T, E> {
    /// Whether the outcome is that of a task which the home has accepted.
    #[inline(always)]
    pub(super) fn is_owed(&self) -> bool {
        // Relaxed: the bit is set when the block is made.
        self.get()
            .state
            .load(tidegate_core::prim::Ordering::Relaxed)
            & OWED
            != 0
    }

    /// The executor that owes the outcome. None in models, whose threads share this one.
    #[inline]
    fn debtor(&self) -> Option<u64> {
        if cfg!(any(tidegate_loom, tidegate_shuttle)) || !self.is_owed() {
            return None;
        }
        self.get().home.as_ref().map(|home| home.id().get())
    }

    /// Has `waker` woken when the executor that owes the outcome ends without beginning the task.
    /// The caller looks after this whether it has.
    pub(super) fn watch_waker(&self, waker: &Waker) -> Option<Watch> {
        let home = self.debtor()?;
        let entry = Entry::Waker(home, waker.clone());
        let list = MINE.try_with(Cell::get).unwrap_or(0);
        let at = lock(list).add(entry);
        Some(Watch::new(list, at))
    }

    /// Has the block given up when the executor that owes the outcome is. The answer goes into the
    /// listener. True if that executor was given up already: the caller gives up on the block.
    fn watch_listener(&self) -> Option<(Watch, bool)> {
        let home = self.debtor()?;
        let entry = Entry::Listener(
            home,
            Listening {
                block: self.0.cast(),
                give_up: give_up::<T, E>,
            },
        );
        let list = MINE.try_with(Cell::get).unwrap_or(0);
        let mut mine = lock(list);
        let at = mine.add(entry);
        let late = mine.given_up.contains(&home);
        drop(mine);
        Some((Watch::new(list, at), late))
    }

    /// A listener that is found when the executor that owes the outcome is given up. True if it was
    /// given up already.
    #[inline(never)]
    pub(super) fn watched<F>(self, listen: F) -> (Listener<T, E>, bool)
    where
        F: FnOnce(Outcome<&T, &E>) + Send + 'static,
    {
        match self.watch_listener() {
            None => (Listener::new(listen), false),
            Some((watch, late)) => {
                let listener = Listener::new(move |outcome: Outcome<&T, &E>| {
                    drop(watch);
                    listen(outcome);
                });
                (listener, late)
            }
        }
    }

    /// Decides that a task was left; `None` if it is decided, or has begun.
    pub(super) fn decide_left(self) -> Option<Decided> {
        let decided = self.decide(|state| {
            let open = state & (DONE | CLAIMED | UNCANCELLABLE) == 0;
            open.then_some(state | DONE | CANCELLED | LEFT)
        })?;
        // ORDERING: SeqCst fence, as in `BlockPtr::cancel`.
        fence(tidegate_core::prim::Ordering::SeqCst);
        Some(decided)
    }
}

/// Gives up on the block of a listener, without running anything of the user's.
///
/// # Safety
///
/// The block is alive and is one of `T` and `E`.
unsafe fn give_up<T: Send + 'static, E: Send + 'static>(block: NonNull<()>) -> Option<GivenUp> {
    let ptr = BlockPtr::<T, E>(block.cast());
    if !ptr.get().is_left() {
        return None;
    }
    let decided = ptr.decide_left()?;
    Some(GivenUp {
        block,
        decided,
        hook: ptr.get().take_hook(),
        home: ptr.get().home.clone(),
        tell: tell::<T, E>,
    })
}

/// # Safety
///
/// The block is one of `T` and `E`, and alive if the decision came with the right to notify.
unsafe fn tell<T: Send + 'static, E: Send + 'static>(block: NonNull<()>, decided: &Decided) {
    decided.tell(BlockPtr::<T, E>(block.cast()));
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
        for one in given_up {
            if let Some(hook) = one.hook {
                depth::run_hook(one.home.as_ref(), hook);
            }
            // SAFETY: stored with the block by `give_up`; the right to notify keeps it alive.
            unsafe { (one.tell)(one.block, &one.decided) };
        }
    }
}
