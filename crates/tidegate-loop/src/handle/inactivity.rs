//! Waiting until a loop has no thread.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{CancelToken, Parker, check_wait};

use super::event_loop::EventLoop;
use super::placement::Placement;
use crate::thread::presence::InactivityError;

impl<P: Placement> EventLoop<P> {
    /// Waits until the loop has no thread, at most for `timeout` of its clock; answers whether
    /// it has none. A loop loses its thread when it ends, and one that gives it back when idle
    /// ([`EventLoop::global`], [`EventLoop::try_suspend`]) loses it then.
    ///
    /// # Errors
    ///
    /// [`InactivityError::NeverStarted`] if it never had one, and
    /// [`InactivityError::Refused`] on a thread that must not block, such as its own.
    pub fn await_inactivity(&self, timeout: Duration) -> Result<bool, InactivityError> {
        self.await_no_thread(timeout, None)
    }

    /// [`EventLoop::await_inactivity`] until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As there, and [`InactivityError::Interrupted`].
    pub fn await_inactivity_with(
        &self,
        timeout: Duration,
        token: &CancelToken,
    ) -> Result<bool, InactivityError> {
        self.await_no_thread(timeout, Some(token))
    }

    fn await_no_thread(
        &self,
        timeout: Duration,
        token: Option<&CancelToken>,
    ) -> Result<bool, InactivityError> {
        if token.is_some_and(CancelToken::is_cancelled) {
            return Err(InactivityError::Interrupted);
        }
        let presence = &self.shared.thread.presence;
        if presence.is_gone()? {
            return Ok(true);
        }
        let _recorded = check_wait(None).map_err(InactivityError::Refused)?;
        let clock = &self.shared.clock;
        let deadline = clock.deadline(timeout);
        let parker = Arc::new(Parker::new());
        presence.wake_when_gone(&parker);
        let _hook = token.map(|token| token.unpark_on_cancel(&parker));
        while !presence.is_gone()? {
            if token.is_some_and(CancelToken::is_cancelled) {
                return Err(InactivityError::Interrupted);
            }
            if clock.nanos() >= deadline {
                return Ok(false);
            }
            clock.park_until(&parker, Some(deadline));
        }
        Ok(true)
    }
}
