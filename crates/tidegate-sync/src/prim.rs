//! The primitives everything else is built from: std's, or loom's under `--cfg tidegate_loom`.
//!
//! Only this file knows that there are two sets. A protocol written against it is the same
//! text in a program and in a model.

#[cfg(tidegate_loom)]
pub(crate) use self::model::*;
#[cfg(not(tidegate_loom))]
pub(crate) use self::real::*;

#[cfg(not(tidegate_loom))]
mod real {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;

    /// `std::cell::UnsafeCell` with the access methods of loom's.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        /// Gives `read` a pointer for reading.
        #[inline(always)]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        /// Gives `write` a pointer for writing.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Orders a claim (a `SeqCst` read-modify-write just made) before a later `SeqCst` load.
    ///
    /// Nothing to do: both operations are `SeqCst`, so they already lie in one total order, and
    /// on x86-64 the locked instruction of the claim is the fence. Loom does not model that
    /// order for plain accesses, so its variant of this function is a real fence.
    #[inline(always)]
    pub(crate) fn claim_fence() {}
}

#[cfg(tidegate_loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    /// See the real one: loom treats `SeqCst` accesses as `AcqRel` and models only the fence.
    pub(crate) fn claim_fence() {
        // ORDERING: SeqCst fence between the claim and the look that follows it.
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
