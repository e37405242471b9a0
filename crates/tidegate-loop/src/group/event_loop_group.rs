//! A group of event loops, and a way to choose one.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Rejected, Task};
use tidegate_pool::internal::EndHome;
use tidegate_pool::{HandedBack, PeriodError, Quiet, ShutdownError};
use tidegate_promise::{Completion, SharedCompletion, WaitError};

use super::active::ActiveLoops;
use super::chooser::Chooser;
use super::scaler::Scaler;
use super::termination::gather;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::{Pinned, Placement};
use crate::shutdown::report::ShutdownReport;
use crate::shutdown::termination::failed;
use crate::state::lifecycle::Lifecycle;

/// Several event loops. Clones are handles to the same group.
///
/// The event loops are built at once; their threads start with their first work. `next` chooses an
/// event loop, and work that is submitted to the group goes to that one.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoopGroup, Quiet};
///
/// let group = EventLoopGroup::builder("io").loops(2).build()?;
/// let squares: Vec<_> = (1..=4).map(|n| group.submit(move || n * n)).collect::<Result<_, _>>()?;
/// let sum: i32 = squares.into_iter().map(|square| square.wait().unwrap()).sum();
/// assert_eq!(sum, 30);
/// group.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoopGroup<P: Placement = Pinned> {
    inner: Arc<Inner<P>>,
}

struct Inner<P: Placement> {
    name: String,
    loops: Arc<[EventLoop<P>]>,
    /// The indices of the event loops that get new work: all, unless the group scales.
    active: ActiveLoops,
    chooser: Chooser,
    scaler: Option<Scaler>,
    terminated: Mutex<Option<SharedCompletion<ShutdownReport, ShutdownError>>>,
}

impl<P: Placement> EventLoopGroup<P> {
    pub(super) fn new(
        name: String,
        loops: Arc<[EventLoop<P>]>,
        active: ActiveLoops,
        chooser: Chooser,
        scaler: Option<Scaler>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                name,
                loops,
                active,
                chooser,
                scaler,
                terminated: Mutex::default(),
            }),
        }
    }

    /// Returns the event loop for the next piece of work. Never blocks.
    pub fn next(&self) -> &EventLoop<P> {
        let Inner {
            active,
            loops,
            chooser,
            ..
        } = &*self.inner;
        let turn = match active.len() {
            0 => 0,
            count => match chooser.choose(count, |at| loops[active.get(at)].load()) {
                Ok(at) => return &loops[active.get(at)],
                Err(at) => active.get(at),
            },
        };
        // The group is scaled down to zero, or no active event loop accepts work. The first one that
        // does gets it, and is active again from the next window on.
        let accepts = |one: &&EventLoop<P>| one.load().is_some();
        loops.iter().find(accepts).unwrap_or(&loops[turn])
    }

    /// Returns the name of the group.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the event loops, in the order in which they were built.
    pub fn iter(&self) -> std::slice::Iter<'_, EventLoop<P>> {
        self.inner.loops.iter()
    }

    /// Returns the number of event loops.
    pub fn len(&self) -> usize {
        self.inner.loops.len()
    }

    /// Always returns `false`: a group has at least one event loop.
    pub fn is_empty(&self) -> bool {
        self.inner.loops.is_empty()
    }

    /// Returns how many event loops get new work now: all, unless the group scales.
    pub fn active_count(&self) -> usize {
        self.inner.active.len()
    }

    /// Returns the fraction of time in which each event loop was busy, from 0 to 1, in the last
    /// measuring window of the scaler. Empty if the group does not scale.
    pub fn utilisation(&self) -> Vec<f64> {
        self.inner
            .scaler
            .as_ref()
            .map(Scaler::utilisation)
            .unwrap_or_default()
    }

    /// Runs `run` on the next event loop; see [`EventLoop::execute`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute`].
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.next().execute(run)
    }

    /// Runs `run` on the next event loop and returns a completion with its result; see
    /// [`EventLoop::submit`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::submit`].
    pub fn submit<T, F>(&self, run: F) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.next().submit(run)
    }

    /// Runs a future on the next event loop; see [`EventLoop::spawn`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::spawn`].
    pub fn spawn<F>(&self, future: F) -> Result<Completion<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.next().spawn(future)
    }

    /// Runs `run` once on the next event loop, `after` from now; see [`EventLoop::schedule`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::schedule`].
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.next().schedule(after, run)
    }

    /// Runs `run` on the next event loop after `first` and then every `period`; see
    /// [`EventLoop::schedule_at_fixed_rate`]. All runs are on the same event loop.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::schedule_at_fixed_rate`].
    pub fn schedule_at_fixed_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        self.next().schedule_at_fixed_rate(first, period, run)
    }

    /// Runs `run` on the next event loop after `first`, and then again `pause` after the end of
    /// each run; see [`EventLoop::schedule_with_fixed_delay`]. All runs are on the same event loop.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::schedule_with_fixed_delay`].
    pub fn schedule_with_fixed_delay<F>(
        &self,
        first: Duration,
        pause: Duration,
        run: F,
    ) -> Result<Completion<()>, PeriodError>
    where
        F: FnMut() + Send + 'static,
    {
        self.next().schedule_with_fixed_delay(first, pause, run)
    }

    /// Requests a shutdown of every event loop; see [`EventLoop::shutdown`]. The returned
    /// completion ends when the last event loop has terminated or failed to: with the sum of the
    /// reports, or with the first failure. If the period is longer than the timeout, it fails at
    /// once with [`ShutdownError::BadQuiet`], and this call shuts no event loop down.
    pub fn shutdown(&self, quiet: Quiet) -> SharedCompletion<ShutdownReport, ShutdownError> {
        if quiet.period > quiet.timeout {
            return failed(ShutdownError::BadQuiet(quiet));
        }
        if let Some(scaler) = &self.inner.scaler {
            scaler.shutdown();
        }
        for event_loop in self.iter() {
            drop(event_loop.shutdown(quiet));
        }
        self.termination()
    }

    /// Returns a completion that ends when the last event loop has terminated or failed to, with
    /// the same result as that of [`EventLoopGroup::shutdown`]. Does not request a shutdown.
    pub fn termination(&self) -> SharedCompletion<ShutdownReport, ShutdownError> {
        let mut terminated = lock(&self.inner.terminated);
        let gather = || {
            let first = &self.inner.loops[0];
            let name = format!("the group of {}", first.name());
            let ids = self.iter().map(EventLoop::id).collect();
            let home = EndHome::of_all(ids, &name, first.clock());
            gather(home, self.iter().map(EventLoop::termination).collect())
        };
        terminated.get_or_insert_with(gather).clone()
    }

    /// Returns the tasks that the event loops accepted and will not start because they have shut
    /// down; see [`EventLoop::handed_back`]. They are the same tasks as those of the report or the
    /// error of the shutdown and of the single event loops: each task can be taken once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::Task;
    /// use tidegate_loop::{EventLoopGroup, Quiet};
    ///
    /// let group = EventLoopGroup::builder("io").loops(2).build()?;
    /// group.execute(|| ())?;
    /// group.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
    /// // Nothing is left here. Tasks that are left can run anywhere.
    /// group.handed_back().take().into_iter().for_each(Task::run);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handed_back(&self) -> HandedBack {
        let lists: Vec<_> = self.iter().map(EventLoop::handed_back).collect();
        HandedBack::of_all(&lists)
    }

    /// Returns `true` if every event loop was asked to shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.iter().all(EventLoop::is_shutting_down)
    }

    /// Returns `true` if no event loop accepts tasks any more.
    pub fn is_shutdown(&self) -> bool {
        self.iter().all(EventLoop::is_shutdown)
    }

    /// Returns `true` if every event loop has terminated.
    pub fn is_terminated(&self) -> bool {
        self.iter().all(EventLoop::is_terminated)
    }

    /// Waits until every event loop has terminated, for at most `timeout` in total. Returns `true`
    /// if all have. An event loop whose termination has failed, because it is stuck, counts too,
    /// although [`EventLoop::is_terminated`] may still return `false`.
    ///
    /// # Errors
    ///
    /// [`WaitError::Refused`] if the calling thread must not block, such as the thread of an event
    /// loop, or if the wait would close a cycle.
    pub fn await_termination(&self, timeout: Duration) -> Result<bool, WaitError<ShutdownError>> {
        let clock = self.inner.loops[0].clock();
        let deadline = clock.deadline(timeout);
        for one in self.iter() {
            let left = Duration::from_nanos(deadline.saturating_sub(clock.nanos()));
            if !one.shared.await_termination(left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<P: Placement> EventLoop<P> {
    /// Returns the load of this event loop for the chooser: twice the number of tasks in its lane,
    /// plus one if it is awake. Returns `None` if it should get no new work, because it shuts down,
    /// is stalled or is unhealthy.
    fn load(&self) -> Option<u64> {
        let shared = &self.shared;
        let ends = shared.state.get() >= Lifecycle::ShuttingDown;
        if ends || shared.is_stalled() || shared.health.is_unhealthy(&shared.clock) {
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
