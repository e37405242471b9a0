//! Settling a manual clock until a token is cancelled.

use super::manual::ManualClock;
use crate::cancel::{CancelToken, InterruptedError};

impl ManualClock {
    /// Does the same as [`ManualClock::settle`], until `token` is cancelled.
    ///
    /// # Errors
    ///
    /// [`InterruptedError`] if the token was cancelled first.
    pub fn settle_with_cancel(&self, token: &CancelToken) -> Result<(), InterruptedError> {
        let clock = self.clone();
        let _hook = token.on_cancel(move || clock.nudge());
        if self.settle_unless(|| token.is_cancelled()) {
            Ok(())
        } else {
            Err(InterruptedError)
        }
    }
}
