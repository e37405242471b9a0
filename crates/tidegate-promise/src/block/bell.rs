//! Sleeping on a word that lies in somebody else's memory, and ringing it by its address.
//!
//! A parker outlives whoever wakes it; a promise block does not: its reader may see the outcome
//! and free the block before the writer has come to wake it. So the writer only names the
//! address. The kernel looks nothing up there, it compares addresses: if another thread sleeps on
//! new memory at the same place it wakes for nothing, which every sleeper on a futex must bear.

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
pub(crate) use self::linux::Bell;
#[cfg(any(tidegate_loom, tidegate_shuttle))]
pub(crate) use self::model::Bell;
#[cfg(not(any(target_os = "linux", tidegate_loom, tidegate_shuttle)))]
pub(crate) use self::none::Bell;

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
mod linux {
    use std::sync::atomic::AtomicU32;

    use rustix::thread::futex::{Flags, wait};

    /// Nothing: the kernel keys the sleepers by the word's address.
    #[derive(Clone)]
    pub(crate) struct Bell;

    impl Bell {
        /// Whether a thread can sleep on a word here.
        pub(crate) const WORKS: bool = true;

        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self
        }

        /// Sleeps while `word` holds `value`; may return early.
        pub(crate) fn sleep_while(&self, word: &AtomicU32, value: u32) {
            // Woken, changed before sleeping, or interrupted by a signal: the caller looks.
            let _ = wait(word, Flags::PRIVATE, value, None);
        }

        /// Wakes one sleeper of the word that is, or was, at `word`.
        pub(crate) fn ring(&self, word: *const AtomicU32) {
            let (wake, one) = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
            // SAFETY: the kernel takes the address as a key and neither reads nor writes there;
            // an address that is no longer mapped is answered with an error.
            unsafe { libc::syscall(libc::SYS_futex, word, wake, one) };
        }
    }
}

#[cfg(any(tidegate_loom, tidegate_shuttle))]
mod model {
    use std::sync::Arc;

    use tidegate_core::internal::Futex;
    use tidegate_core::prim::AtomicU32;

    /// A condition variable that outlives the word, as the kernel's table does.
    #[derive(Clone)]
    pub(crate) struct Bell(Arc<Futex>);

    impl Bell {
        pub(crate) const WORKS: bool = true;

        pub(crate) fn new() -> Self {
            Self(Arc::new(Futex::new()))
        }

        pub(crate) fn sleep_while(&self, word: &AtomicU32, value: u32) {
            self.0.wait_while(word, value, None);
        }

        pub(crate) fn ring(&self, _word: *const AtomicU32) {
            self.0.ring();
        }
    }
}

#[cfg(not(any(target_os = "linux", tidegate_loom, tidegate_shuttle)))]
mod none {
    use std::sync::atomic::AtomicU32;

    /// Nothing: threads sleep in their parkers here.
    #[derive(Clone)]
    pub(crate) struct Bell;

    impl Bell {
        pub(crate) const WORKS: bool = false;

        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn sleep_while(&self, _word: &AtomicU32, _value: u32) {}

        pub(crate) fn ring(&self, _word: *const AtomicU32) {}
    }
}
