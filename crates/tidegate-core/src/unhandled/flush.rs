//! Waiting for a hook. This is a blocking wait and is checked like every other.

use super::hook::OnUnhandled;
use crate::wait::{WaitRefusedError, check_may_block};

impl OnUnhandled {
    /// Waits, without a time limit, until the hook has received all reports made so far. For tests
    /// and for the end of a program.
    ///
    /// # Errors
    ///
    /// A [`WaitRefusedError`] on a thread that must not block. On the hook's own thread this
    /// returns at once.
    pub fn flush(&self) -> Result<(), WaitRefusedError> {
        check_may_block(None)?;
        self.wait_until_delivered();
        Ok(())
    }
}
