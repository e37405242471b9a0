//! The home cell: a value that only one thread reads, for state that belongs to an event loop and
//! lies in a structure that others share.
//!
//! A lock in such a place is never contended, but still costs two locked instructions for each use.
//! A use of a home cell costs a load and a comparison. Changes need a `Cell` or a `RefCell` in it.
//!
//! # Invariants
//!
//! * The home of a cell is the thread that made it, if it was made by `here`, or else the first
//!   thread that asks for the value. It never changes while the cell is shared.
//! * Numbers of threads are not used again, so no later thread takes the place of one that has
//!   ended: its cells are out of reach until they are dropped.

use std::cell::Cell;
use std::fmt;

use crate::sys::prim::{self, AtomicU64, Ordering};

/// A value that only its home thread can reach. The value may be `!Sync`: no two threads have a
/// reference to it.
///
/// ```
/// use std::cell::Cell;
/// use tidegate_core::internal::HomeCell;
///
/// let cell = HomeCell::new(Cell::new(7));
/// cell.get().expect("this thread asks first").set(8);
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert!(cell.get().is_none()));
/// });
/// assert_eq!(cell.get().map(Cell::get), Some(8));
/// ```
///
/// The cell, and the value with it, may be dropped on another thread, so a value that must stay on
/// its thread cannot be shared this way:
///
/// ```compile_fail
/// use std::rc::Rc;
/// use tidegate_core::internal::HomeCell;
///
/// fn share(_: impl Sync) {}
/// share(HomeCell::new(Rc::new(7)));
/// ```
pub struct HomeCell<T> {
    /// The number of the home thread; 0 until a thread has asked.
    home: AtomicU64,
    value: T,
}

// SAFETY: through a shared cell, `get` and `at_home` give out `&T` on one thread only. Which one is decided once:
// `home` is made with the number of a thread, or leaves 0 by one successful exchange, nothing else
// writes it through a shared reference, and no two threads have the same number (`number`). A `&T` of a `T` that is not `Sync` cannot leave
// that thread. The home thread sees the value as it was made, because the reference to the cell came
// to it from there. Other threads can only own the value, or drop it, with the cell, for which
// `T: Send` is enough: then no reference to the cell is left.
unsafe impl<T: Send> Sync for HomeCell<T> {}

impl<T> HomeCell<T> {
    /// Creates a cell without a home.
    pub fn new(value: T) -> Self {
        Self {
            home: AtomicU64::new(0),
            value,
        }
    }

    /// Creates a cell whose home is this thread, which costs less than to let the first use decide.
    #[inline]
    pub fn here(value: T) -> Self {
        Self {
            home: AtomicU64::new(number()),
            value,
        }
    }

    /// Returns the value, on the home thread. A cell without a home gets this thread as its home.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        let own = number();
        // Relaxed: only this thread stores this number, and the value is not published by it.
        let is_home = self.home.load(Ordering::Relaxed) == own;
        (is_home || self.settle(own)).then_some(&self.value)
    }

    /// Returns the value, on the home thread. A cell without a home stays without one.
    #[inline]
    pub fn at_home(&self) -> Option<&T> {
        // Relaxed: as in `get`. No thread has the number 0.
        (self.home.load(Ordering::Relaxed) == number()).then_some(&self.value)
    }

    /// Makes this thread the home of a cell without one.
    #[cold]
    fn settle(&self, own: u64) -> bool {
        // Relaxed: as in `get`. The exchange only decides which thread was first.
        let first = self
            .home
            .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
        first.is_ok()
    }
}

impl<T: Default> Default for HomeCell<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for HomeCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_home = self.home.load(Ordering::Relaxed) != 0;
        f.debug_struct("HomeCell")
            .field("has_home", &has_home)
            .finish_non_exhaustive()
    }
}

/// Returns the number of this thread, which is never 0 and that of no other thread, before or after.
#[inline]
fn number() -> u64 {
    prim::thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    // It has no destructor, so it is there until the thread has ended.
    OWN.with(|own| match own.get() {
        0 => {
            let new = next_number();
            own.set(new);
            new
        }
        number => number,
    })
}

#[cold]
fn next_number() -> u64 {
    // A counter of std: under shuttle, too, it only grows.
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    // It would take centuries to count to the end.
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    //! One thread reaches the value, and any thread may drop it.

    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::HomeCell;

    #[test]
    fn only_the_first_thread_reaches_the_value() {
        let cell = HomeCell::new(RefCell::new(1));
        assert!(format!("{cell:?}").contains("has_home: false"));
        let from_there = thread::scope(|scope| {
            let first = scope.spawn(|| cell.get().map(|value| value.replace(2)));
            first.join().expect("it does not panic")
        });
        assert_eq!(from_there, Some(1));
        assert!(cell.get().is_none(), "its home has ended, and stays");
        assert!(format!("{cell:?}").contains("has_home: true"));
        let after = thread::scope(|scope| {
            let other = scope.spawn(|| cell.get().is_some());
            other.join().expect("it does not panic")
        });
        assert!(!after, "a later thread is another one");
    }

    #[test]
    fn a_cell_that_is_made_here_is_at_home_here() {
        let cell = HomeCell::here(RefCell::new(1));
        assert!(format!("{cell:?}").contains("has_home: true"));
        thread::scope(|scope| {
            let other = scope.spawn(|| cell.get().is_some());
            assert!(!other.join().expect("it does not panic"));
        });
        assert_eq!(cell.get().map(|value| value.replace(2)), Some(1));
    }

    #[test]
    fn a_question_that_makes_no_home_leaves_the_cell_to_others() {
        let cell = HomeCell::new(RefCell::new(1));
        assert!(cell.at_home().is_none());
        thread::scope(|scope| {
            let other = scope.spawn(|| cell.get().is_some() && cell.at_home().is_some());
            assert!(other.join().expect("it does not panic"));
        });
        assert!(cell.at_home().is_none());
    }

    #[test]
    fn of_many_threads_that_ask_at_once_one_gets_the_value() {
        for _ in 0..50 {
            let cell = HomeCell::new(RefCell::new(0));
            let (here, got) = (Barrier::new(4), AtomicUsize::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        here.wait();
                        for _ in 0..100 {
                            if let Some(value) = cell.get() {
                                *value.borrow_mut() += 1;
                                got.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(got.into_inner(), 100, "all of one thread, none of another");
        }
    }

    #[test]
    fn a_borrow_is_noticed_and_ends_with_a_panic() {
        let cell = HomeCell::new(RefCell::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let value = cell.get().expect("this thread asks first");
            let _held = value.borrow_mut();
            let again = cell.get().expect("it is at home");
            assert!(again.try_borrow().is_err());
            panic!("with the value borrowed");
        }));
        assert!(panicked.is_err());
        let value = cell.get().expect("it is at home");
        assert_eq!(value.try_borrow().map(|value| *value).ok(), Some(1));
    }

    #[test]
    fn another_thread_may_drop_the_value() {
        let kept = Arc::new(());
        let cell = HomeCell::new(RefCell::new(Arc::clone(&kept)));
        assert!(cell.get().is_some());
        thread::scope(|scope| {
            scope.spawn(move || drop(cell));
        });
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
