//! Locks of memory that no other thread can see half changed.

use std::sync::{Mutex, MutexGuard};

use tidegate_core::internal::unpoisoned;

/// Locks a mutex of std, also in a model, whose content is consistent even if a holder panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}
