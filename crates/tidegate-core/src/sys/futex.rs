//! Sleeping on a word: a futex on Linux, a condition variable elsewhere and in models.

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
pub use self::linux::Futex;
#[cfg(not(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle)))))]
pub use self::portable::Futex;

#[cfg(all(target_os = "linux", not(any(tidegate_loom, tidegate_shuttle))))]
mod linux {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use rustix::thread::futex::{Flags, Timespec, wait, wake};

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
            let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            loop {
                // ORDERING: Acquire pairs with the Release store of the thread that changed the
                // word.
                if word.load(Ordering::Acquire) != value {
                    return;
                }
                match wait(word, Flags::PRIVATE, value, timeout.as_ref()) {
                    Err(rustix::io::Errno::TIMEDOUT) => return,
                    // Woken, changed before sleeping, or interrupted by a signal. With a timeout
                    // the caller checks its clock and decides; without one, check the word again.
                    _ if timeout.is_some() => return,
                    _ => {}
                }
            }
        }

        /// Wakes one thread that sleeps on `word`.
        pub fn wake(&self, word: &AtomicU32) {
            // It fails only for a bad address, and the word is borrowed.
            let _ = wake(word, Flags::PRIVATE, 1);
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
