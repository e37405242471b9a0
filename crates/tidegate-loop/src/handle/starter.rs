//! Starts an event loop for work that a signal announces.

use std::sync::Arc;

use tidegate_core::RejectReason;

use super::event_loop::EventLoop;
use super::placement::Placement;

impl<P: Placement> EventLoop<P> {
    /// Returns a closure that gives the event loop a thread if it has none, and returns the reason if
    /// that fails. A signal does not return it: it then waits for the next start. The closure does
    /// not keep the event loop running.
    ///
    /// ```
    /// use tidegate_loop::EventLoop;
    ///
    /// let home = EventLoop::builder("home").build()?;
    /// let start = home.starter();
    /// assert!(start().is_ok());
    /// drop(home);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(hidden)]
    pub fn starter(&self) -> impl Fn() -> Result<(), RejectReason> + Send + Sync + use<P> {
        let weak = Arc::downgrade(&self.shared);
        move || match weak.upgrade() {
            Some(shared) => shared.start(),
            None => Err(RejectReason::Closed),
        }
    }
}
