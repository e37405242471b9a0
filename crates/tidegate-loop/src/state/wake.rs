//! How a loop is woken, or gets a thread, after something was pushed for it.

use tidegate_core::prim::{Ordering, fence};

use super::lifecycle::Lifecycle;
use super::mailbox::SILENT;
use super::shared::Shared;

impl Shared {
    /// Says that something was pushed.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.mailbox.bell.ring() {
            self.wake();
        }
    }

    /// Says that a signal was pushed about something that is due at `deadline`: wakes the loop if it
    /// would sleep past that.
    pub(crate) fn ring_before(&self, deadline: u64) {
        self.ensure_thread();
        if self.mailbox.bell.ring_before(deadline) {
            self.wake();
        } else {
            self.note_silent();
        }
    }

    /// Counts a signal that was pushed without waking the loop, and wakes it when many wait: a
    /// loop that sleeps for an hour must not collect an hour's worth of cancelled timers.
    pub(crate) fn note_silent(&self) {
        let silent = self.mailbox.count_silent();
        if silent >= SILENT || self.may_be_last(silent) {
            self.mailbox.reset_silent();
            self.ensure_thread();
            self.ring();
        }
    }

    /// Whether a loop that wants to leave may have waited only for what was just cancelled:
    /// `silent` of its timers at most are there no more.
    fn may_be_last(&self, silent: u32) -> bool {
        // ORDERING: SeqCst fence between the push of the signal and this look at the state; pairs
        // with the one in `Doorbell::arm`: a loop that was asked to leave after this look and then
        // falls asleep has seen the signal.
        fence(Ordering::SeqCst);
        let asked = self.state.get() == Lifecycle::Suspending;
        let timers = self.meter.counters.timers.get();
        (asked || self.settings.idle_stop > 0) && u64::from(silent) >= timers
    }

    /// Wakes the loop's driver, or, if it has given its thread back, starts a new one.
    #[cold]
    pub(crate) fn wake(&self) {
        // ORDERING: SeqCst fence between the caller's push and this look at the state; pairs
        // with the fence in `suspend_or_drive_on`.
        fence(Ordering::SeqCst);
        if self.state.needs_thread() {
            return self.ensure_thread();
        }
        self.wake_driver();
    }
}
