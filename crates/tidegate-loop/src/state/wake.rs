//! How an event loop is woken, or gets a thread, after a push into one of its lanes.

use tidegate_core::internal::prim::{Ordering, fence};

use super::lifecycle::Lifecycle;
use super::mailbox::SILENT;
use super::shared::Shared;

impl Shared {
    /// Rings the doorbell after a push, and wakes the event loop if it sleeps.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.mailbox.bell.ring() {
            self.wake();
        }
    }

    /// Rings the doorbell after the push of a signal whose work is due at `deadline`. Wakes the
    /// event loop only if it would sleep past `deadline`.
    pub(crate) fn ring_before(&self, deadline: u64) {
        self.ensure_thread();
        if self.mailbox.bell.ring_before(deadline) {
            self.wake();
        } else {
            self.note_silent();
        }
    }

    /// Counts a signal that was pushed without a wake-up, and wakes the event loop if many are
    /// waiting: an event loop that sleeps for an hour must not collect an hour's worth of cancelled
    /// timers.
    pub(crate) fn note_silent(&self) {
        let silent = self.mailbox.count_silent();
        if silent >= SILENT || self.may_be_last(silent) {
            self.mailbox.reset_silent();
            self.ensure_thread();
            self.ring();
        }
    }

    /// Returns `true` if the event loop wants to give its thread back and may have stayed only
    /// because of timers that were just cancelled, of which there are at most `silent`.
    fn may_be_last(&self, silent: u32) -> bool {
        // ORDERING: SeqCst fence between the push of the signal and this read of the state; pairs
        // with the one in `Doorbell::arm`: an event loop that is asked to leave after this read and
        // then falls asleep has seen the signal.
        fence(Ordering::SeqCst);
        let requested = self.state.get() == Lifecycle::Suspending;
        let timers = self.meter.counters.timers.get();
        (requested || self.settings.idle_stop > 0) && u64::from(silent) >= timers
    }

    /// Wakes the event loop's driver, or starts a new thread if the event loop has given its thread
    /// back.
    #[cold]
    pub(crate) fn wake(&self) {
        // ORDERING: SeqCst fence between the caller's push and this read of the state; pairs with
        // the fence in `suspend_or_drive_on`.
        fence(Ordering::SeqCst);
        if self.state.needs_thread() {
            return self.ensure_thread();
        }
        self.wake_driver();
    }
}
