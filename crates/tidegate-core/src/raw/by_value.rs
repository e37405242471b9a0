//! A value that can be shared between threads because no thread can look at it.

use std::fmt;

/// Holds a value that can only be moved out. It is `Sync` if the value is `Send`.
///
/// Errors that return a refused value need this: an error that a program passes on as
/// `Box<dyn Error + Send + Sync>` must be `Sync`, but a refused closure often is not.
///
/// ```
/// use std::cell::Cell;
/// use tidegate_core::internal::ByValue;
///
/// fn share<T: Sync>(value: T) -> T {
///     value
/// }
/// assert_eq!(share(ByValue::new(Cell::new(7))).into_inner().get(), 7);
/// ```
///
/// A value that is not `Send` stays on its thread:
///
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// share(tidegate_core::internal::ByValue::new(std::rc::Rc::new(7)));
/// ```
#[repr(transparent)]
pub struct ByValue<T> {
    value: T,
}

// SAFETY: a `&ByValue<T>` gives no access to the value: the field is private, and every function of
// this module that touches it takes the `ByValue` by value. The thread that moves the value out or
// drops it owns the `ByValue`, so it got the value by a move, which `T: Send` allows.
unsafe impl<T: Send> Sync for ByValue<T> {}

impl<T> ByValue<T> {
    /// Stores `value`.
    #[inline]
    pub fn new(value: T) -> Self {
        Self { value }
    }

    /// Returns the value.
    #[inline]
    pub fn into_inner(self) -> T {
        self.value
    }
}

/// Does not show the value, which may be in use by no thread but its owner.
impl<T> fmt::Debug for ByValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByValue").finish_non_exhaustive()
    }
}
