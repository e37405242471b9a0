//! The primitives everything else is built from: std's, loom's under `--cfg tidegate_loom`, or
//! shuttle's under `--cfg tidegate_shuttle`.
//!
//! Only this folder knows that there are three sets. A protocol written against it is the same
//! text in a program and in a model. Unstable; see "Hidden items" in the documentation of the crate.
//!
//! Under shuttle every thread is a coroutine of one real thread. So whatever a thread may sleep in,
//! hold across a call, or keep to itself has to come from here: locks, channels, threads and
//! thread-locals. A lock that is held only around plain memory may stay std's, and so may a
//! counter in a `static`.

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
        pub const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Gives `read` a pointer for reading.
        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Gives `write` a pointer for writing.
        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Orders a claim (a `SeqCst` read-modify-write just made) before a later `SeqCst` load.
    ///
    /// Nothing to do: both operations are `SeqCst`, so they already lie in one total order, and
    /// on x86-64 the locked instruction of the claim is the fence. Loom does not model that
    /// order for plain accesses, so its variant of this function is a real fence.
    #[inline(always)]
    pub fn claim_fence() {}
}

/// Locks a mutex whose content is whole even if a holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
