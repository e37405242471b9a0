//! How an idle event loop gives its thread back.

use tidegate_core::internal::prim::{Ordering, fence};

use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

impl Shared {
    /// Suspends the event loop, or returns `true` if the thread has to drive on because work
    /// arrived or the state changed. Called by a leaving thread that has put the core back.
    ///
    /// The doorbell is armed first, so that a submitter either finds it armed and starts a thread,
    /// or has pushed before this function checks the lanes. No thread is started before this
    /// function has decided, since a start needs the same lock. The doorbell stays armed; the next
    /// thread that drives the event loop disarms it.
    pub(crate) fn suspend_or_drive_on(&self) -> bool {
        let _slot = self.thread.lock();
        self.mailbox.bell.arm(u64::MAX);
        let before = self.state.get();
        let leaves = matches!(before, Lifecycle::Started | Lifecycle::Suspending)
            && self.state.advance(before, Lifecycle::Suspended);
        // ORDERING: SeqCst fence between the new state and the check of the lanes; pairs with the
        // fence in `wake`: a submitter whose push this check misses sees the event loop suspended.
        fence(Ordering::SeqCst);
        if leaves && self.mailbox.is_empty() {
            return false;
        }
        !leaves || self.state.advance(Lifecycle::Suspended, Lifecycle::Started)
    }

    /// Asks the event loop to give its thread back when it is idle.
    pub(crate) fn try_suspend(&self) -> bool {
        loop {
            match self.state.get() {
                Lifecycle::Suspending | Lifecycle::Suspended => return true,
                Lifecycle::NotStarted => {
                    if self
                        .state
                        .advance(Lifecycle::NotStarted, Lifecycle::Suspended)
                    {
                        return true;
                    }
                }
                Lifecycle::Started => {
                    if self
                        .state
                        .advance(Lifecycle::Started, Lifecycle::Suspending)
                    {
                        let _ = self.mailbox.bell.ring();
                        self.mailbox.waker.wake();
                        return true;
                    }
                }
                _ => return false,
            }
        }
    }
}
