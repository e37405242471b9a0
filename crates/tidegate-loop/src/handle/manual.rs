//! An event loop that its owner drives, turn by turn.

use std::fmt;
use std::sync::Arc;

use tidegate_pool::ShutdownError;

use crate::spawn::slots::LocalFutures;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::{Drive, Shared};

/// The owner of an event loop that is driven by hand.
///
/// ```
/// use tidegate_loop::EventLoop;
///
/// let (home, mut hand) = EventLoop::builder("home").build_manual()?;
/// let answer = home.submit(|| 7)?;
/// assert!(!answer.is_done());
/// hand.run_until_idle();
/// assert_eq!(answer.wait()?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It cannot leave the thread that created it, because it keeps the futures of `spawn_local`.
/// Dropping it ends the event loop: the termination fails with
/// [`ShutdownError::ManualLoopDropped`](tidegate_pool::ShutdownError::ManualLoopDropped), which
/// contains the tasks that had not started.
pub struct ManualLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) core: Box<dyn Drive>,
    /// Futures that are not `Send`, kept here between two turns.
    pub(super) pinned: LocalFutures,
}

impl ManualLoop {
    pub(super) fn new(shared: Arc<Shared>, core: Box<dyn Drive>) -> Self {
        Self {
            shared,
            core,
            pinned: LocalFutures::default(),
        }
    }

    /// Runs one turn on the calling thread, which is the event loop's thread during the call.
    /// Returns `true` if anything ran. If a shutdown was requested, the turn also advances the
    /// shutdown, without sleeping.
    pub fn turn(&mut self) -> bool {
        if self.shared.state.get() == Lifecycle::Terminated {
            return false;
        }
        self.shared.ensure_thread();
        let ran = self.core.manual_turn(&self.shared, &mut self.pinned);
        if self.shared.termination.has_outcome() {
            self.shared.announce_end();
        }
        ran
    }

    /// Runs `work` now, on the calling thread, which is the event loop's thread during the call.
    /// Unlike a task, `work` need not be `Send`. A panic in `work` propagates to the caller.
    ///
    /// ```
    /// use tidegate_loop::EventLoop;
    ///
    /// let (home, mut hand) = EventLoop::builder("home").build_manual()?;
    /// assert!(!home.is_current());
    /// assert!(hand.run(|| home.is_current()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.shared.ensure_thread();
        let mut work = Some(work);
        let mut done = None;
        self.core
            .manual_run(&self.shared, &mut self.pinned, &mut || {
                done = work.take().map(|work| work());
            });
        done.expect("work was run once")
    }

    /// Runs turns until a turn finds nothing to run.
    pub fn run_until_idle(&mut self) {
        while self.turn() {}
    }
}

impl Drop for ManualLoop {
    fn drop(&mut self) {
        if self.shared.state.get() < Lifecycle::Terminated {
            let dropped = |handed_back| ShutdownError::ManualLoopDropped { handed_back };
            self.core.abandon(&self.shared, &mut self.pinned, &dropped);
            self.shared.announce_end();
        }
    }
}

impl fmt::Debug for ManualLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualLoop")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}
