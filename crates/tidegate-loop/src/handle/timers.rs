//! A handle to the timers of an event loop that does not keep the event loop running.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::executor::ExecutorId;
use tidegate_core::{Clock, Rejected, Task};
use tidegate_promise::Completion;

use super::event_loop::EventLoop;
use super::placement::Placement;
use crate::schedule::coarse_timer::{self, CoarseTimer};
use crate::schedule::scheduled_task::{self, TimerLink};
use crate::state::shared::Shared;

impl<P: Placement> EventLoop<P> {
    /// Returns a handle to the timers that does not keep the event loop running.
    #[doc(hidden)]
    pub fn timers(&self) -> LoopScheduler {
        LoopScheduler {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// A handle to the timers of an event loop. Unlike [`EventLoop`] it does not keep the event loop
/// running.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// let timers = home.timers();
/// assert_eq!(timers.schedule(Duration::from_millis(1), || 7)?.wait()?, 7);
/// drop(home);
/// assert!(timers.schedule(Duration::ZERO, || 7).is_err(), "it is on its way out");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LoopScheduler {
    shared: Arc<Shared>,
}

impl LoopScheduler {
    /// Returns the identity of the event loop.
    pub fn id(&self) -> ExecutorId {
        self.shared.id
    }

    /// Returns the clock of the event loop.
    #[doc(hidden)]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Runs `run` once on the event loop, `after` from now; see [`EventLoop::schedule`].
    ///
    /// # Errors
    ///
    /// The closure, if the event loop is shutting down.
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(scheduled_task::once(&self.shared, after, run))
    }

    /// Runs `run` like [`LoopScheduler::schedule`]. The link cancels it, so that the owner of many
    /// such tasks can end them without their completions.
    ///
    /// # Errors
    ///
    /// The closure, if the event loop is shutting down.
    pub fn schedule_linked<T, F>(
        &self,
        after: Duration,
        run: F,
    ) -> Result<(Completion<T>, TimerLink), Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(scheduled_task::once_linked(&self.shared, after, run))
    }

    /// Runs `run` once on the event loop, `after` from now and up to one tick late; see
    /// [`EventLoop::schedule_coarse`].
    ///
    /// # Errors
    ///
    /// The closure, if the event loop is shutting down.
    pub fn schedule_coarse<F>(&self, after: Duration, run: F) -> Result<CoarseTimer, Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(coarse_timer::add(&self.shared, after, Task::new(run)))
    }
}

impl fmt::Debug for LoopScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoopScheduler")
            .field(&self.shared.name)
            .finish()
    }
}
