//! The parker: where one thread sleeps until another wakes it.
//!
//! Like std's `park` and `unpark`, but a value. It can be handed to another thread before that
//! thread sleeps in it, it reports whether a wakeup is pending, and it counts wakeups. The count is
//! how a [`ManualClock`](crate::ManualClock) knows which threads are really asleep.
//!
//! | state | meaning |
//! |---|---|
//! | `EMPTY` | no thread sleeps, no wakeup is pending |
//! | `PARKED` | the owning thread sleeps or is about to |
//! | `NOTIFIED` | a wakeup is pending; the next park returns at once |

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::sys::futex::Futex;
use crate::sys::prim::{AtomicU32, AtomicU64, Ordering};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// A place in which one thread at a time can sleep. Clones are handles to the same parker.
///
/// ```
/// use tidegate_core::Parker;
///
/// let parker = Parker::new();
/// parker.unpark();
/// parker.park(None); // returns at once: a wakeup was pending
/// ```
#[derive(Clone)]
pub struct Parker {
    shared: Arc<Shared>,
}

struct Shared {
    state: AtomicU32,
    futex: Futex,
    /// Number of calls of `unpark` so far.
    wakes: AtomicU64,
}

impl Parker {
    /// Creates a parker with no wakeup pending.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                state: AtomicU32::new(EMPTY),
                futex: Futex::new(),
                wakes: AtomicU64::new(0),
            }),
        }
    }

    /// Sleeps until [`Parker::unpark`] is called or `timeout` has passed. Returns `true` if the
    /// thread was woken. A wakeup that is already pending is consumed without sleeping.
    pub fn park(&self, timeout: Option<Duration>) -> bool {
        if self.take_wakeup() {
            return true;
        }
        let state = &self.shared.state;
        if state
            .compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            // ORDERING: Acquire, as above: `unpark` came in between. A swap, not a store: a second
            // `unpark` may have come since, and the swap reads and consumes it too.
            state.swap(EMPTY, Ordering::Acquire);
            return true;
        }
        self.shared.futex.wait_while(state, PARKED, timeout);
        // ORDERING: Acquire pairs with the Release in `unpark`.
        state.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }

    /// Consumes a pending wakeup without sleeping. Returns `true` if there was one.
    #[doc(hidden)]
    pub fn take_wakeup(&self) -> bool {
        let state = &self.shared.state;
        // ORDERING: Acquire pairs with the Release in `unpark`.
        state
            .compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Wakes the sleeping thread, or makes the next `park` return at once.
    pub fn unpark(&self) {
        // Relaxed: incremented before the state changes, and read by a clock under the clock's own
        // lock.
        self.shared.wakes.fetch_add(1, Ordering::Relaxed);
        // ORDERING: Release publishes what the waker did to the woken thread, in `park`.
        if self.shared.state.swap(NOTIFIED, Ordering::Release) == PARKED {
            self.shared.futex.wake(&self.shared.state);
        }
    }

    /// Returns `true` if a wakeup is pending.
    pub fn is_notified(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) == NOTIFIED
    }

    /// Returns `true` if both are handles to the same parker.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the number of calls of [`Parker::unpark`] so far.
    #[doc(hidden)]
    pub fn wakes(&self) -> u64 {
        self.shared.wakes.load(Ordering::Relaxed)
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl std::task::Wake for Shared {
    fn wake(self: Arc<Self>) {
        Parker { shared: self }.unpark();
    }
}

impl From<&Parker> for std::task::Waker {
    /// Creates a waker that unparks, for futures polled by a thread that sleeps in this parker.
    fn from(parker: &Parker) -> Self {
        Arc::clone(&parker.shared).into()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker")
            .field("notified", &self.is_notified())
            .finish()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! No wakeup is lost, and none is delivered twice.

    use super::*;

    #[test]
    fn a_pending_wakeup_is_consumed_once() {
        let parker = Parker::new();
        parker.unpark();
        parker.unpark();
        assert!(parker.is_notified());
        assert!(parker.park(None));
        assert!(!parker.is_notified());
        assert!(!parker.park(Some(Duration::ZERO)));
        assert_eq!(parker.wakes(), 2);
    }

    #[test]
    fn wakes_a_sleeping_thread_every_time() {
        let (ping, pong) = (Parker::new(), Parker::new());
        let (ping2, pong2) = (ping.clone(), pong.clone());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..2_000 {
                    while !ping2.park(None) {}
                    pong2.unpark();
                }
            });
            for _ in 0..2_000 {
                ping.unpark();
                while !pong.park(None) {}
            }
        });
    }

    #[test]
    fn works_as_a_waker() {
        let parker = Parker::new();
        let waker = std::task::Waker::from(&parker);
        waker.wake_by_ref();
        assert!(parker.park(None));
    }
}
