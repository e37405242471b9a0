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
        if low == turn.low || turn.calling_low_hook {
            return None;
        }
        turn.calling_low_hook = true;
        turn.low = low;
        Some(low)
    }

    /// Calls the hook with `low`, and then once more if the value has changed meanwhile: one call
    /// at a time, in the order of the changes. The calling thread has other work to do, so further
    /// changes are reported by a separate thread.
    #[cold]
    pub(super) fn call_low_hook(&self, hook: &OnLow, low: bool) {
        let Some(next) = self.call_low_hook_once(hook, low) else {
            return;
        };
        let Some(next) = self.call_low_hook_once(hook, next) else {
            return;
        };
        let (shared, hook_there) = (self.arc(), Arc::clone(hook));
        let hook_thread = ThreadBuilder::new("tidegate-low")
            .spawn(move || shared.call_low_hook_until_current(&hook_there, next));
        if hook_thread.is_err() {
            self.call_low_hook_until_current(hook, next);
        }
    }

    fn call_low_hook_until_current(&self, hook: &OnLow, low: bool) {
        let mut news = Some(low);
        while let Some(low) = news {
            news = self.call_low_hook_once(hook, low);
        }
    }

    /// Calls the hook and returns the value of the next call, if one is needed.
    fn call_low_hook_once(&self, hook: &OnLow, low: bool) -> Option<bool> {
        if let Err(panic) = contain(|| hook(low)) {
            let message = panic.message();
            self.report_unhandled(&Unhandled::HookPanic { message });
        }
        let mut turn = self.dispatcher.turn();
        turn.calling_low_hook = false;
        self.low_change(&mut turn)
    }

    /// Returns `true` if few or no threads are left for new jobs.
    pub(crate) fn is_low_on_threads(&self) -> bool {
        self.is_low(&self.dispatcher.turn())
    }
}
