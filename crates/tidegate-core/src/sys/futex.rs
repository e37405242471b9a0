//! Sleeping on a word: a futex on Linux, a condition variable elsewhere and in models.

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
pub use self::linux::Futex;
#[cfg(not(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle)))))]
pub use self::portable::Futex;

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
mod linux {
    use std::ptr;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use libc::{FUTEX_PRIVATE_FLAG, FUTEX_WAIT, FUTEX_WAKE, SYS_futex, c_long};

    const WAIT: libc::c_int = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
    const WAKE: libc::c_int = FUTEX_WAKE | FUTEX_PRIVATE_FLAG;

    /// Empty: the kernel finds the sleeping threads by the word's address.
    #[derive(Debug, Default)]
    pub struct Futex;

    impl Futex {
        /// Creates a place to sleep.
        pub fn new() -> Self {
            Self
        }

        /// Sleeps while `word` holds `value`, at most for `timeout`.
        pub fn wait_while(&self, word: &AtomicU32, value: u32, timeout: Option<Duration>) {
            // Seconds and nanoseconds, as two words of the kernel. Without them it sleeps for ever,
            // as it does for more seconds than a word can hold.
            let timeout = timeout.and_then(|timeout| {
                let seconds = c_long::try_from(timeout.as_secs()).ok()?;
                Some([seconds, timeout.subsec_nanos() as c_long])
            });
            let limit = timeout.as_ref().map_or(ptr::null(), |limit| limit.as_ptr());
            // ORDERING: Acquire pairs with the Release store of the thread that changed the word.
            while word.load(Ordering::Acquire) == value {
                // SAFETY: the kernel reads the word, which is borrowed, and the two words at
                // `limit` unless it is null; `timeout` lives until the end of this function.
                unsafe { libc::syscall(SYS_futex, word.as_ptr(), WAIT, value, limit) };
                // Woken, changed before sleeping, too late, or interrupted by a signal. With a
                // timeout the caller checks its clock and decides; without one, check the word
                // again.
                if timeout.is_some() {
                    return;
                }
            }
        }

        /// Wakes one thread that sleeps on `word`.
        pub fn wake(&self, word: &AtomicU32) {
            // SAFETY: the kernel uses the address as a key and neither reads nor writes there.
            unsafe { libc::syscall(SYS_futex, word.as_ptr(), WAKE, 1) };
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle)))))]
mod portable {
    use std::time::Duration;

    #[cfg(tidegate_loom)]
    use loom::sync::{Condvar, Mutex};

    use crate::sys::prim::{AtomicU32, Ordering};
    #[cfg(not(tidegate_loom))]
    use crate::sys::prim::{Condvar, Mutex};

    /// A condition variable that accompanies the word.
    #[derive(Debug, Default)]
    pub struct Futex {
        lock: Mutex<()>,
        changed: Condvar,
    }

    impl Futex {
        /// Creates a place to sleep.
        pub fn new() -> Self {
            Self {
                lock: Mutex::new(()),
                changed: Condvar::new(),
            }
        }

        /// Sleeps while `word` holds `value`, at most for `timeout`.
        pub fn wait_while(&self, word: &AtomicU32, value: u32, timeout: Option<Duration>) {
            let mut held = self.lock.lock().expect("no code panics under this lock");
            // ORDERING: Acquire pairs with the Release store of the thread that changed the word.
            while word.load(Ordering::Acquire) == value {
                match timeout {
                    Some(timeout) => {
                        let _ = self
                            .changed
                            .wait_timeout(held, timeout)
                            .expect("no code panics under this lock");
                        return;
                    }
                    None => {
                        held = self
                            .changed
                            .wait(held)
                            .expect("no code panics under this lock");
                    }
                }
            }
        }

        /// Wakes one sleeping thread.
        pub fn wake(&self, _word: &AtomicU32) {
            self.ring();
        }

        /// Wakes one sleeping thread, even if the word no longer exists.
        pub fn ring(&self) {
            drop(self.lock.lock().expect("no code panics under this lock"));
            self.changed.notify_one();
        }
    }
}
