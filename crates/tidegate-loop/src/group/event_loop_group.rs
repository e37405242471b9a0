//! Several loops and a way to choose one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{CancelToken, Rejected, Task};
use tidegate_pool::{Quiet, ShutdownError};
use tidegate_promise::{Completion, WaitError};

use super::chooser::Chooser;
use super::scaler::Scaler;
use super::termination::gather;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::{Pinned, Placement};
use crate::shutdown::termination::{Terminated, failed};
use crate::state::lifecycle::Lifecycle;

/// Several event loops. Clones are handles to the same group.
///
/// The loops are made at once, their threads with their first work. `next` chooses a loop; what
/// the group is given goes to the next one.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoopGroup, Quiet};
///
/// let group = EventLoopGroup::builder("io").loops(2).build()?;
/// let squares: Vec<_> = (1..=4).map(|n| group.submit(move || n * n)).collect::<Result<_, _>>()?;
/// let sum: i32 = squares.into_iter().map(|square| square.wait().unwrap()).sum();
/// assert_eq!(sum, 30);
/// group.shutdown_gracefully(Quiet::none(Duration::from_secs(1))).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoopGroup<P: Placement = Pinned> {
    inner: Arc<Inner<P>>,
}

struct Inner<P: Placement> {
    loops: Arc<[EventLoop<P>]>,
    /// Which of them get new work: all, unless the group scales.
    active: Arc<ArcSwap<Vec<usize>>>,
    chooser: Chooser,
    scaler: Option<Scaler>,
    terminated: Mutex<Option<Terminated>>,
}

impl<P: Placement> EventLoopGroup<P> {
    pub(super) fn new(
        loops: Arc<[EventLoop<P>]>,
        active: Arc<ArcSwap<Vec<usize>>>,
        chooser: Chooser,
        scaler: Option<Scaler>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                loops,
                active,
                chooser,
                scaler,
                terminated: Mutex::default(),
            }),
        }
    }

    /// The loop for the next piece of work. Never blocks.
    pub fn next(&self) -> &EventLoop<P> {
        let active = self.inner.active.load();
        if active.is_empty() {
            // Scaled down to nothing: the first one wakes up for this.
            return &self.inner.loops[0];
        }
        let at = self
            .inner
            .chooser
            .choose(active.len(), |at| self.inner.loops[active[at]].load());
        &self.inner.loops[active[at]]
    }

    /// The loops, in the order in which they were made.
    pub fn iter(&self) -> std::slice::Iter<'_, EventLoop<P>> {
        self.inner.loops.iter()
    }

    /// How many loops there are.
    pub fn len(&self) -> usize {
        self.inner.loops.len()
    }

    /// Never: a group has at least one loop.
    pub fn is_empty(&self) -> bool {
        self.inner.loops.is_empty()
    }

    /// How many loops get new work now; all, unless the group scales.
    pub fn active_count(&self) -> usize {
        self.inner.active.load().len()
    }

    /// How busy each loop was in the last window of a scaling group, from 0 to 1; empty for one
    /// that does not scale.
    pub fn utilisation(&self) -> Vec<f64> {
        self.inner
            .scaler
            .as_ref()
            .map(Scaler::utilisation)
            .unwrap_or_default()
    }

    /// Runs `run` on the next loop; see [`EventLoop::execute`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.next().execute(run)
    }

    /// Runs `run` on the next loop and answers with what it returns; see
    /// [`EventLoop::submit`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn submit<T, F>(&self, run: F) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.next().submit(run)
    }

    /// Runs a future on the next loop; see [`EventLoop::spawn`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn spawn<F>(&self, future: F) -> Result<Completion<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.next().spawn(future)
    }

    /// Runs `run` once on the next loop, `after` from now; see [`EventLoop::schedule`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.next().schedule(after, run)
    }

    /// Asks every loop to end; see [`EventLoop::shutdown_gracefully`]. The answer completes when
    /// the last one is over: with the sum of their reports, or with the first failure.
    pub fn shutdown_gracefully(&self, quiet: Quiet) -> Terminated {
        if let Some(scaler) = &self.inner.scaler {
            scaler.stop();
        }
        let ends: Vec<_> = self
            .iter()
            .map(|one| one.shutdown_gracefully(quiet))
            .collect();
        if quiet.period > quiet.timeout {
            return failed(ShutdownError::BadQuiet(quiet));
        }
        drop(ends);
        self.termination()
    }

    /// Completes when the last loop is over.
    pub fn termination(&self) -> Terminated {
        let mut terminated = lock(&self.inner.terminated);
        terminated
            .get_or_insert_with(|| gather(self.iter().map(EventLoop::termination).collect()))
            .clone()
    }

    /// Whether every loop was asked to end.
    pub fn is_shutting_down(&self) -> bool {
        self.iter().all(EventLoop::is_shutting_down)
    }

    /// Whether no loop takes tasks any more.
    pub fn is_shutdown(&self) -> bool {
        self.iter().all(EventLoop::is_shutdown)
    }

    /// Whether every loop is over.
    pub fn is_terminated(&self) -> bool {
        self.iter().all(EventLoop::is_terminated)
    }

    /// Waits until every loop is over, at most for `timeout` in all.
    ///
    /// # Errors
    ///
    /// A refusal on the thread of a loop.
    pub fn await_termination(&self, timeout: Duration) -> Result<bool, WaitError<ShutdownError>> {
        self.await_ends(timeout, None)
    }

    /// [`EventLoopGroup::await_termination`] until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As there, and [`WaitError::Interrupted`].
    pub fn await_termination_with(
        &self,
        timeout: Duration,
        token: &CancelToken,
    ) -> Result<bool, WaitError<ShutdownError>> {
        self.await_ends(timeout, Some(token))
    }

    fn await_ends(
        &self,
        timeout: Duration,
        token: Option<&CancelToken>,
    ) -> Result<bool, WaitError<ShutdownError>> {
        let clock = self.inner.loops[0].clock();
        let deadline = clock.deadline(timeout);
        for one in self.iter() {
            let left = Duration::from_nanos(deadline.saturating_sub(clock.nanos()));
            if !one.shared.await_termination(left, token)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<P: Placement> EventLoop<P> {
    /// How much waits for this loop; `None` if it is no place for new work.
    fn load(&self) -> Option<u64> {
        let shared = &self.shared;
        let ends = shared.state.get() >= Lifecycle::ShuttingDown;
        if ends || shared.is_stalled() || shared.health.is_ailing(&shared.clock) {
            return None;
        }
        let waiting = self.shared.mailbox.lane.len() as u64;
        let awake = u64::from(!self.shared.mailbox.bell.is_armed());
        Some(waiting * 2 + awake)
    }
}

impl<P: Placement> Clone for EventLoopGroup<P> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<'a, P: Placement> IntoIterator for &'a EventLoopGroup<P> {
    type Item = &'a EventLoop<P>;
    type IntoIter = std::slice::Iter<'a, EventLoop<P>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<P: Placement> fmt::Debug for EventLoopGroup<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
