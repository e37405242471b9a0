//! The keys that were removed and are still in use.
//!
//! A key leaves the list when its state is dropped, so that a removed key holds no memory. A weak
//! reference alone would keep the memory of the state.

use crate::lock::lock;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

/// Weak references to the states of removed keys.
#[derive(Debug)]
pub(super) struct RemovedKeys<S> {
    list: Mutex<List<S>>,
}

#[derive(Debug)]
struct List<S> {
    /// By number, in order.
    states: Vec<(u64, Weak<S>)>,
    next: u64,
}

/// A state's place in the list; leaves the list when it is dropped.
#[derive(Debug)]
pub(super) struct RemovedEntry<S> {
    keys: Arc<RemovedKeys<S>>,
    number: u64,
}

impl<S> RemovedKeys<S> {
    pub(super) fn new() -> Arc<Self> {
        let (states, next) = (Vec::new(), 0);
        let list = Mutex::new(List { states, next });
        Arc::new(Self { list })
    }

    /// Adds `state`, which owns its `entry`. A state is added once.
    pub(super) fn add(
        self: &Arc<Self>,
        state: &Arc<S>,
        entry: impl Fn(&S) -> &OnceLock<RemovedEntry<S>>,
    ) {
        let mut list = self.lock();
        let number = list.next;
        list.next += 1;
        list.states.push((number, Arc::downgrade(state)));
        drop(list);
        let keys = Arc::clone(self);
        // A second entry would be dropped here and leave the list.
        let _ = entry(state).set(RemovedEntry { keys, number });
    }

    /// Returns the states that are still in use.
    pub(super) fn states(&self) -> Vec<Arc<S>> {
        // The last reference to a state may be among them: dropped by the caller, without the lock.
        let list = self.lock();
        let mut states = Vec::with_capacity(list.states.len());
        for (_, state) in &list.states {
            states.extend(state.upgrade());
        }
        states
    }

    fn lock(&self) -> MutexGuard<'_, List<S>> {
        lock(&self.list)
    }
}

impl<S> Drop for RemovedEntry<S> {
    fn drop(&mut self) {
        let mut list = self.keys.lock();
        let at = list.states.partition_point(|one| one.0 < self.number);
        if list.states.get(at).is_some_and(|one| one.0 == self.number) {
            list.states.remove(at);
        }
    }
}
