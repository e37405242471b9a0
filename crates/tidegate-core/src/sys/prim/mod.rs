//! The primitives everything else is built from: std's, loom's under `--cfg tidegate_loom`, or
//! shuttle's under `--cfg tidegate_shuttle`.
//!
//! Only this folder knows that there are three sets. Code written against it is the same source
//! text in a program and in a model. Unstable; see "Hidden items" in the documentation of the
//! crate.
//!
//! Under shuttle every thread is a coroutine of one real thread. Anything that a thread may block
//! on, hold across a call, or store per thread must therefore come from this module: locks,
//! channels, threads and thread-locals. A lock that only protects plain memory accesses may stay
//! std's, and so may a counter in a `static`.

use std::sync::{LockResult, PoisonError, TryLockError};

#[cfg(tidegate_loom)]
mod model;
#[cfg(not(any(tidegate_loom, tidegate_shuttle)))]
mod real;
#[cfg(tidegate_shuttle)]
mod scheduled;

#[cfg(tidegate_loom)]
pub use self::model::*;
#[cfg(not(any(tidegate_loom, tidegate_shuttle)))]
pub use self::real::*;
#[cfg(tidegate_shuttle)]
pub use self::scheduled::*;

#[cfg(not(tidegate_loom))]
pub use self::cell::{UnsafeCell, claim_fence};

#[cfg(not(tidegate_loom))]
mod cell {
    /// `std::cell::UnsafeCell` with the access methods of loom's.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Creates a cell that holds `value`.
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Calls `read` with a pointer for reading.
        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Calls `write` with a pointer for writing.
        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Orders a claim (the `SeqCst` read-modify-write just before) before a later `SeqCst` load.
    ///
    /// Does nothing here: both operations are `SeqCst`, so they are already in one total order, and
    /// on x86-64 the locked instruction of the claim is the fence. Loom does not model that order
    /// for plain accesses, so its variant of this function is a real fence.
    #[inline(always)]
    pub fn claim_fence() {}
}

/// Locks a mutex whose content is consistent even if a holder panicked.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoisoned(mutex.lock())
}

/// Locks such a mutex if no thread holds it.
pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns what a lock or a wait for a condition returned, even if a holder of the lock panicked.
pub fn unpoisoned<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
