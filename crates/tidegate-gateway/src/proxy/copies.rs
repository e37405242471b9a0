//! A value that each loop holds, so that its requests take no lock: a configuration, or the servers
//! of an upstream.
//!
//! The value that is in force is behind a lock, with a number that each replacement changes. A loop
//! compares the number with that of its own copy, and takes the lock only if it has changed.
//!
//! # Invariants
//!
//! * A loop that asks after a replacement gets the new value.
//! * No value is dropped while a lock or a copy is held: the last one closes connections.

use std::cell::{Ref, RefCell};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::internal::{HomeCell, lock};

/// A value that each loop holds. It is replaced between two uses.
pub(super) struct Copies<T> {
    in_force: Mutex<Arc<T>>,
    /// Grows with each replacement, under the lock.
    version: AtomicU64,
    /// One for each loop. Empty until the loop has asked.
    own: Vec<HomeCell<RefCell<Own<T>>>>,
}

/// The copy of a loop.
struct Own<T> {
    version: u64,
    value: Option<Arc<T>>,
}

/// The value, as a loop sees it now. Not to be kept longer than one step of a request.
pub(super) enum Current<'a, T> {
    /// The copy of the loop.
    Own(Ref<'a, Arc<T>>),
    /// Another handle, for a thread that is not the loop's.
    Shared(Arc<T>),
}

impl<T> Deref for Current<'_, T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        match self {
            Self::Own(own) => own,
            Self::Shared(shared) => shared,
        }
    }
}

impl<T> Copies<T> {
    pub(super) fn new(loops: usize, value: &Arc<T>) -> Self {
        let own = |_| {
            HomeCell::new(RefCell::new(Own {
                version: 0,
                value: None,
            }))
        };
        Self {
            in_force: Mutex::new(Arc::clone(value)),
            version: AtomicU64::new(1),
            own: (0..loops).map(own).collect(),
        }
    }

    /// Returns the value that is in force, on loop `home`.
    #[inline]
    pub(super) fn get(&self, home: usize) -> Current<'_, T> {
        let own = self.own.get(home).and_then(HomeCell::get);
        match own.and_then(|own| self.fresh(own)) {
            Some(own) => Current::Own(own),
            None => self.get_anew(home),
        }
    }

    /// Returns the value that is in force, on any thread.
    pub(super) fn in_force(&self) -> Arc<T> {
        Arc::clone(&lock(&self.in_force))
    }

    /// Replaces the value. Returns the one before, of which loops may have copies until they ask or
    /// [`refresh`](Self::refresh) runs there.
    pub(super) fn replace(&self, value: &Arc<T>) -> Arc<T> {
        let mut in_force = lock(&self.in_force);
        // ORDERING: Release pairs with the Acquire in `fresh`. The value itself is behind the lock.
        self.version.fetch_add(1, Ordering::Release);
        std::mem::replace(&mut in_force, Arc::clone(value))
    }

    /// Drops the copy of loop `home` if it is old. Has an effect on that loop only.
    pub(super) fn refresh(&self, home: usize) {
        drop(self.get(home));
    }

    /// Returns the copy of a loop, if it is that of the value in force.
    #[inline]
    fn fresh<'a>(&self, own: &'a RefCell<Own<T>>) -> Option<Ref<'a, Arc<T>>> {
        let own = own.try_borrow().ok()?;
        // ORDERING: Acquire pairs with the Release in `replace`.
        let is_fresh = own.version == self.version.load(Ordering::Acquire);
        let value = Ref::filter_map(own, |own| own.value.as_ref()).ok()?;
        is_fresh.then_some(value)
    }

    /// Copies the value in force, and drops the old copy.
    #[cold]
    fn get_anew(&self, home: usize) -> Current<'_, T> {
        let in_force = lock(&self.in_force);
        let value = Arc::clone(&in_force);
        // Relaxed: it changes under the lock.
        let version = self.version.load(Ordering::Relaxed);
        drop(in_force);
        let Some(own) = self.own.get(home).and_then(HomeCell::get) else {
            return Current::Shared(value);
        };
        // A copy that a step further up on the stack uses stays.
        let old = own.try_borrow_mut().map(|mut own| {
            let value = Some(Arc::clone(&value));
            std::mem::replace(&mut *own, Own { version, value })
        });
        drop(old);
        Current::Shared(value)
    }
}

#[cfg(test)]
mod tests {
    //! A loop has the value in force, and lets go of the one before.

    use super::*;

    #[test]
    fn a_loop_has_its_own_copy_and_others_share() {
        let value = Arc::new(1);
        let copies = Copies::new(2, &value);
        assert_eq!(**copies.get(0), 1);
        assert!(matches!(copies.get(0), Current::Own(_)));
        // The value itself, the one in force and the copy: no further one for each use.
        let (one, two) = (copies.get(0), copies.get(0));
        assert_eq!((Arc::strong_count(&value), **one, **two), (3, 1, 1));
        drop((one, two));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| match copies.get(0) {
                Current::Shared(value) => *value,
                Current::Own(_) => unreachable!("it is the copy of another thread"),
            });
            assert_eq!(other.join().unwrap(), 1);
        });
        assert_eq!(**copies.get(7), 1, "a loop that does not exist has no copy");
    }

    #[test]
    fn a_replaced_value_is_seen_at_once_and_dropped_on_refresh() {
        let (old, new) = (Arc::new(1), Arc::new(2));
        let copies = Copies::new(2, &old);
        assert_eq!((**copies.get(0), **copies.get(1)), (1, 1));
        let used = copies.get(1);
        drop(copies.replace(&new));
        assert_eq!(**copies.get(0), 2);
        assert_eq!(**copies.get(1), 2, "also while the old one is in use");
        assert_eq!(**used, 1, "which stays what it is");
        assert_eq!(Arc::strong_count(&old), 2, "the copy in use");
        drop(used);
        copies.refresh(1);
        assert_eq!(Arc::strong_count(&old), 1);
        assert!(matches!(copies.get(1), Current::Own(_)));
    }

    #[test]
    fn each_loop_gets_each_value_that_is_replaced() {
        let copies = Copies::new(2, &Arc::new(0_u32));
        std::thread::scope(|scope| {
            for home in 0..2 {
                let copies = &copies;
                scope.spawn(move || {
                    let mut last = 0;
                    while last < 1000 {
                        let now = **copies.get(home);
                        assert!(now >= last, "{now} after {last}");
                        last = now;
                    }
                });
            }
            for value in 1..=1000 {
                drop(copies.replace(&Arc::new(value)));
            }
        });
        copies.refresh(0);
        assert_eq!(**copies.get(0), 1000);
    }
}
