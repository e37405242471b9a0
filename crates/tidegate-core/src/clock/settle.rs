//! Settling a manual clock until a token is tripped.

use super::manual::ManualClock;
use crate::cancel::{CancelToken, Interrupted};

impl ManualClock {
    /// [`ManualClock::settle`] until `token` is tripped.
    ///
    /// # Errors
    ///
    /// [`Interrupted`] when the token was tripped first.
    pub fn settle_with(&self, token: &CancelToken) -> Result<(), Interrupted> {
        let clock = self.clone();
        let _hook = token.on_cancel(move || clock.nudge());
        if self.settle_unless(|| token.is_cancelled()) {
            Ok(())
        } else {
            Err(Interrupted)
        }
    }
}
