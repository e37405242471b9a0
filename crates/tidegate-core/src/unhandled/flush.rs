//! Waiting for a hook: a blocking wait, checked like every other.

use super::hook::OnUnhandled;
use crate::wait::{WaitRefused, check_stance};

impl OnUnhandled {
    /// Waits until the hook has heard what was told so far, however long that takes: for tests, and
    /// for the end of a program.
    ///
    /// # Errors
    ///
    /// A [`WaitRefused`] on a thread that must not block. On the hook's own thread it returns at
    /// once.
    pub fn flush(&self) -> Result<(), WaitRefused> {
        check_stance(None)?;
        self.wait_until_heard();
        Ok(())
    }
}
