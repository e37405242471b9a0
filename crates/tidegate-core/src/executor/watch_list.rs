//! Wakers and listeners that wait for tasks of an executor, so that the executor can notify them if
//! it ends without starting a task.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use crate::sys::prim::unpoisoned;

/// The wakers and listeners that wait for tasks of one executor.
#[derive(Default)]
pub struct WatchList(Mutex<Entries>);

crate::debug_fields!(WatchList);

#[derive(Default)]
struct Entries {
    /// `None` if the entry is free.
    all: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// The executor is stuck, and [`WatchList::end`] does not run again.
    given_up: bool,
}

/// Notifies the listeners of a block that was decided.
type Notify = Box<dyn FnOnce()>;

enum Entry {
    Waker(Waker),
    /// Decides the block of a listener.
    Listener(Box<dyn FnMut() -> Option<Notify> + Send>),
}

impl WatchList {
    /// Adds a waker, to be woken when the executor ends.
    pub fn add_waker(self: &Arc<Self>, waker: Waker) -> Watch {
        self.add(Entry::Waker(waker)).0
    }

    /// Adds the block of a listener. `decide` decides it as never started, if it is still open, and
    /// returns what notifies the listener. It is called under the lock and runs no user code. The
    /// flag is `true` if the executor was already given up; the caller must then fail the block.
    pub fn add_listener(
        self: &Arc<Self>,
        decide: impl FnMut() -> Option<Notify> + Send + 'static,
    ) -> (Watch, bool) {
        self.add(Entry::Listener(Box::new(decide)))
    }

    fn add(self: &Arc<Self>, entry: Entry) -> (Watch, bool) {
        let mut entries = self.lock();
        let at = entries.free.pop().unwrap_or(entries.all.len());
        if at == entries.all.len() {
            entries.all.push(None);
        }
        entries.all[at] = Some(entry);
        (Watch(Arc::clone(self), at), entries.given_up)
    }

    /// Takes the wakers out and, if the executor is stuck (`give_up`), decides the blocks of the
    /// listeners. Returns what wakes and notifies them, to be called without the lock.
    pub fn end(&self, give_up: bool) -> (Vec<Waker>, Vec<Notify>) {
        let (mut wakers, mut notify) = (Vec::new(), Vec::new());
        let mut entries = self.lock();
        entries.given_up |= give_up;
        for entry in &mut entries.all {
            match entry {
                Some(Entry::Waker(waker)) => {
                    wakers.push(mem::replace(waker, Waker::noop().clone()));
                }
                Some(Entry::Listener(decide)) if give_up => notify.extend(decide()),
                _ => {}
            }
        }
        (wakers, notify)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        unpoisoned(self.0.lock())
    }
}

/// Owns one entry and removes it on drop.
#[derive(Debug)]
pub struct Watch(Arc<WatchList>, usize);

impl Drop for Watch {
    fn drop(&mut self) {
        let mut entries = self.0.lock();
        entries.free.push(self.1);
        let gone = entries.all[self.1].take();
        drop(entries);
        // Without the lock: dropping a waker is user code.
        drop(gone);
    }
}
