//! Waiting until an event loop has no thread.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Parker;
use tidegate_core::internal::check_wait;

use super::event_loop::EventLoop;
use super::placement::Placement;
use crate::thread::presence::InactivityError;

impl<P: Placement> EventLoop<P> {
    /// Waits until the event loop has no thread, for at most `timeout` on its clock. Returns `true`
    /// if it has none. An event loop loses its thread when it terminates, and when it gives the
    /// thread back because it is idle ([`EventLoop::global`], [`EventLoop::try_suspend`]).
    ///
    /// # Errors
    ///
    /// [`InactivityError::NeverStarted`] if the event loop never had a thread, and
    /// [`InactivityError::Refused`] on a thread that must not block, such as the event loop's own.
    pub fn await_inactivity(&self, timeout: Duration) -> Result<bool, InactivityError> {
        let presence = &self.shared.thread.presence;
        if presence.is_gone()? {
            return Ok(true);
        }
        let _recorded = check_wait(None).map_err(InactivityError::Refused)?;
        let clock = &self.shared.clock;
        let deadline = clock.deadline(timeout);
        let parker = Arc::new(Parker::new());
        presence.wake_when_gone(&parker);
        while !presence.is_gone()? {
            if clock.nanos() >= deadline {
                return Ok(false);
            }
            clock.park_until(&parker, Some(deadline));
        }
        Ok(true)
    }
}
