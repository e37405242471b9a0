//! Waiting for a hook. This is a blocking wait and is checked like every other.

use super::hook::OnUnhandled;
use crate::wait::{WaitRefused, check_stance};

impl OnUnhandled {
    /// Waits, without a time limit, until the hook has received all reports made so far. For tests
    /// and for the end of a program.
    ///
    /// # Errors
    ///
    /// A [`WaitRefused`] on a thread that must not block. On the hook's own thread this returns at
    /// once.
    pub fn flush(&self) -> Result<(), WaitRefused> {
        check_stance(None)?;
        self.wait_until_heard();
        Ok(())
    }
}
