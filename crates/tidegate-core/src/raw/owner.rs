//! The owner cell: holds one boxed value, and the thread that takes it out owns it.
//!
//! "Only one thread may drive this" becomes "only one thread holds the box". This needs no lock,
//! and no flag beside the value that could disagree with it.

use std::fmt;
use std::ptr;

use crate::sys::prim::{AtomicPtr, Ordering};

/// A cell for at most one boxed value; `take` and `put` are single atomic operations.
///
/// ```
/// use tidegate_core::internal::OwnerCell;
///
/// let cell = OwnerCell::new(Box::new(7));
/// let mine = cell.take().expect("no other thread took it");
/// assert!(cell.take().is_none());
/// cell.put(mine).expect("the place is empty");
/// ```
pub struct OwnerCell<T> {
    value: AtomicPtr<T>,
}

// SAFETY: the cell only passes whole boxes from thread to thread, which needs `T: Send`.
unsafe impl<T: Send> Send for OwnerCell<T> {}
// SAFETY: as above; no `&T` is ever handed out.
unsafe impl<T: Send> Sync for OwnerCell<T> {}

impl<T> OwnerCell<T> {
    /// Creates a cell that holds `value`.
    pub fn new(value: Box<T>) -> Self {
        Self {
            value: AtomicPtr::new(Box::into_raw(value)),
        }
    }

    /// Creates an empty cell.
    pub fn empty() -> Self {
        Self {
            value: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes the value out; the caller then owns it.
    pub fn take(&self) -> Option<Box<T>> {
        // ORDERING: AcqRel. Acquire pairs with the Release in `put`, so that what the last owner
        // did to the value is visible. Release pairs with the Acquire in `put`, and in a `take`
        // that finds the cell empty: that thread sees what this thread did before this swap.
        let value = self.value.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: non-null pointers in the cell come from `Box::into_raw`, and the swap gave
        // this one to this thread alone.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }

    /// Puts the value back.
    ///
    /// # Errors
    ///
    /// The value, if the cell already holds another one.
    pub fn put(&self, value: Box<T>) -> Result<(), Box<T>> {
        let value = Box::into_raw(value);
        // ORDERING: AcqRel. Release publishes the value to the next `take`. Acquire pairs with the
        // Release in `take`: the caller sees what the thread that emptied the cell did before.
        match self.value.compare_exchange(
            ptr::null_mut(),
            value,
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: the pointer was made from a box above and was not stored.
            Err(_) => Err(unsafe { Box::from_raw(value) }),
        }
    }

    /// Returns `true` if the cell holds its value right now.
    pub fn is_present(&self) -> bool {
        !self.value.load(Ordering::Relaxed).is_null()
    }
}

impl<T> Drop for OwnerCell<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> fmt::Debug for OwnerCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerCell")
            .field("is_home", &self.is_present())
            .finish()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! One owner at a time.

    use tidegate_testkit::until_some;

    use super::OwnerCell;

    #[test]
    fn gives_the_value_to_one_taker() {
        let cell = OwnerCell::new(Box::new(1));
        let mine = cell.take();
        assert!(mine.is_some() && cell.take().is_none() && !cell.is_present());
        assert!(cell.put(mine.expect("taken above")).is_ok());
        assert!(cell.is_present());
    }

    #[test]
    fn gives_a_second_value_back() {
        let cell = OwnerCell::new(Box::new(1));
        assert_eq!(cell.put(Box::new(2)), Err(Box::new(2)));
    }

    #[test]
    fn never_has_two_owners_at_once() {
        let cell = OwnerCell::new(Box::new(0_u64));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let mut value = until_some("the cell has its value", || cell.take());
                        *value += 1;
                        cell.put(value).expect("only the owner puts it back");
                    }
                });
            }
        });
        assert_eq!(cell.take().as_deref(), Some(&8_000));
    }
}
