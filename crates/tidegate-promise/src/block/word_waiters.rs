//! Sleeping on a state word, and waking the sleeper by the word's address.
//!
//! A parker lives until its waker has woken it, but a promise block may not: its reader may see
//! the outcome and free the block before the writer wakes it. So the writer passes only the
//! address. The kernel does not access the memory there, it compares addresses. If another thread
//! sleeps on new memory at the same address, it gets a spurious wake-up, which every futex waiter
//! must tolerate.

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) use self::linux::WordWaiters;
#[cfg(any(tidegate_loom, tidegate_shuttle))]
pub(crate) use self::model::WordWaiters;
#[cfg(not(any(target_os = "linux", tidegate_loom, tidegate_shuttle)))]
pub(crate) use self::none::WordWaiters;

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
mod linux {
    use std::ptr;
    use std::sync::atomic::AtomicU32;

    /// An empty type, because the kernel finds the sleepers by the word's address.
    #[derive(Clone)]
    pub(crate) struct WordWaiters;

    impl WordWaiters {
        /// `true` if a thread can sleep on a word on this platform.
        pub(crate) const SUPPORTED: bool = true;

        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self
        }

        /// Sleeps while `word` holds `value`. May return early.
        pub(crate) fn sleep_while(&self, word: &AtomicU32, value: u32) {
            let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            let no_limit = ptr::null::<libc::timespec>();
            // The wait ends by a wake-up, a changed value or an interrupt; the caller re-checks
            // the word.
            // SAFETY: the kernel reads the word, which is borrowed, and nothing else.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wait, value, no_limit) };
        }

        /// Wakes one thread that sleeps on the word that is, or was, at `word`.
        pub(crate) fn wake_one(&self, word: *const AtomicU32) {
            let (wake, one) = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
            // SAFETY: the kernel uses the address as a key and neither reads nor writes there; for
            // an address that is no longer mapped it returns an error.
            unsafe { libc::syscall(libc::SYS_futex, word, wake, one) };
        }
    }
}

#[cfg(any(tidegate_loom, tidegate_shuttle))]
mod model {
    use std::sync::Arc;

    use tidegate_core::internal::Futex;
    use tidegate_core::internal::prim::AtomicU32;

    /// A condition variable that outlives the word, like the kernel's futex table.
    #[derive(Clone)]
    pub(crate) struct WordWaiters(Arc<Futex>);

    impl WordWaiters {
        pub(crate) const SUPPORTED: bool = true;

        pub(crate) fn new() -> Self {
            Self(Arc::new(Futex::new()))
        }

        pub(crate) fn sleep_while(&self, word: &AtomicU32, value: u32) {
            self.0.wait_while(word, value, None);
        }

        pub(crate) fn wake_one(&self, _word: *const AtomicU32) {
            self.0.ring();
        }
    }
}

#[cfg(not(any(target_os = "linux", tidegate_loom, tidegate_shuttle)))]
mod none {
    use std::sync::atomic::AtomicU32;

    /// An empty type: on this platform threads sleep in their parkers.
    #[derive(Clone)]
    pub(crate) struct WordWaiters;

    impl WordWaiters {
        pub(crate) const SUPPORTED: bool = false;

        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn sleep_while(&self, _word: &AtomicU32, _value: u32) {}

        pub(crate) fn wake_one(&self, _word: *const AtomicU32) {}
    }
}
