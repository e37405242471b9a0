//! Decides when a pool is low on threads, and calls the user's hook.
//!
//! The hook is called without the lock, one call at a time and in the order of the changes.

use std::sync::Arc;

use tidegate_core::internal::contain;
use tidegate_core::{ThreadBuilder, Unhandled};

use super::shared::{OnLow, PoolDispatchGuard, Shared};

impl Shared {
    pub(super) fn is_low(&self, turn: &PoolDispatchGuard<'_>) -> bool {
        let limits = turn.limits;
        let queued = turn.user_len() + turn.internal_len();
        let free = (limits.max + turn.ready()).saturating_sub(turn.threads() + queued);
        free <= limits.low
    }

    /// Returns the value that this thread has to call the hook with, if it has changed. Returns
    /// `None` while another thread is calling the hook, because that thread checks again
    /// afterwards.
    pub(super) fn low_change(&self, turn: &mut PoolDispatchGuard<'_>) -> Option<bool> {
        let low = self.is_low(turn);
        if low == turn.low || turn.telling {
            return None;
        }
        turn.telling = true;
        turn.low = low;
        Some(low)
    }

    /// Calls the hook with `low`, and then once more if the value has changed meanwhile: one call
    /// at a time, in the order of the changes. The calling thread has other work to do, so further
    /// changes are reported by a separate thread.
    #[cold]
    pub(super) fn call_low_hook(&self, hear: &OnLow, low: bool) {
        let Some(next) = self.tell_low_once(hear, low) else {
            return;
        };
        let Some(next) = self.tell_low_once(hear, next) else {
            return;
        };
        let (shared, told_there) = (self.arc(), Arc::clone(hear));
        let teller = ThreadBuilder::new("tidegate-low")
            .spawn(move || shared.tell_low_to_the_end(&told_there, next));
        if teller.is_err() {
            self.tell_low_to_the_end(hear, next);
        }
    }

    fn tell_low_to_the_end(&self, hear: &OnLow, low: bool) {
        let mut news = Some(low);
        while let Some(low) = news {
            news = self.tell_low_once(hear, low);
        }
    }

    /// Calls the hook and returns the value of the next call, if one is needed.
    fn tell_low_once(&self, hear: &OnLow, low: bool) -> Option<bool> {
        if let Err(panic) = contain(|| hear(low)) {
            let message = panic.message();
            self.report_unhandled(&Unhandled::HookPanic { message });
        }
        let mut turn = self.dispatcher.turn();
        turn.telling = false;
        self.low_change(&mut turn)
    }

    /// Returns `true` if few or no threads are left for new jobs.
    pub(crate) fn is_low_on_threads(&self) -> bool {
        self.is_low(&self.dispatcher.turn())
    }
}
