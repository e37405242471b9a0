//! Whether a wake-up has to send a message.
//!
//! A receiver polls what its wakers announce. One message is enough for all wake-ups between two
//! polls, so the first of them sends it, and the others rely on it.

use crate::sys::prim::{AtomicBool, Ordering};

/// The flag that the wakers of one receiver share with it.
///
/// ```
/// use tidegate_core::internal::WakeFlag;
///
/// let flag = WakeFlag::new();
/// assert!(flag.raise(), "this wake-up sends the message");
/// assert!(!flag.raise(), "this one relies on it");
/// flag.clear(); // the receiver polls
/// assert!(flag.raise());
/// ```
#[derive(Debug)]
pub struct WakeFlag {
    raised: AtomicBool,
}

impl Default for WakeFlag {
    fn default() -> Self {
        Self::new()
    }
}

impl WakeFlag {
    /// Creates a flag that is not raised.
    pub fn new() -> Self {
        let raised = AtomicBool::new(false);
        Self { raised }
    }

    /// Wakes the receiver. Returns `true` if the caller has to send the message. Otherwise the poll
    /// after the next [`WakeFlag::clear`] sees what the caller did before. Any thread may call this.
    #[inline]
    pub fn raise(&self) -> bool {
        // ORDERING: AcqRel pairs with the swaps in `clear` and `hold`. Release publishes what the
        // caller did before to the `clear` that takes the flag away.
        !self.raised.swap(true, Ordering::AcqRel)
    }

    /// Makes wake-ups send nothing until [`WakeFlag::clear`]. Called by the receiver, which polls
    /// afterwards in any case.
    pub fn hold(&self) {
        // ORDERING: AcqRel pairs with `raise`. A swap and not a store, so that the swap in `clear` also
        // sees the wake-ups before this one.
        self.raised.swap(true, Ordering::AcqRel);
    }

    /// Makes the next wake-up send its message. Called by the receiver before each poll.
    #[inline]
    pub fn clear(&self) {
        // If this load misses a wake-up that raised the flag, that wake-up sends its message, and
        // the later ones rely on it.
        if self.raised.load(Ordering::Relaxed) {
            // ORDERING: AcqRel pairs with `raise`: the poll that follows sees what was done before each
            // wake-up that found the flag raised.
            self.raised.swap(false, Ordering::AcqRel);
        }
    }
}
