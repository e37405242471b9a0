//! Several loops and a way to choose one.

use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{
    CancelToken, Clock, OnUnhandled, Rejected, Task, ThreadBuilder, Unhandled, usable_cpus,
};
use tidegate_pool::{Quiet, ShutdownError};
use tidegate_promise::{Completion, WaitError};

use crate::core::budget::TurnBudget;
use crate::core::driver::{Driver, ParkDriver};
use crate::errors::BuildError;
use crate::group::chooser::{Choose, Chooser};
use crate::group::scaling::{Scaler, Scaling};
use crate::handle::builder::EventLoopBuilder;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::{Pinned, Placement, Roaming};
use crate::roam::crew::Crew;
use crate::state::lifecycle::{Lifecycle, ShutdownReport};
use crate::state::shared::Terminated;
use crate::submit::reject::RejectPolicy;

/// The most loops that a group can have.
pub const MAX_LOOPS: usize = 4096;

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

impl EventLoopGroup {
    /// Describes a group whose loops are called `name-0`, `name-1` and so on.
    pub fn builder(name: impl Into<String>) -> EventLoopGroupBuilder {
        EventLoopGroupBuilder {
            proto: EventLoop::builder(name),
            loops: 0,
            choose: Choose::default(),
            scaling: None,
            placement: PhantomData,
        }
    }
}

impl<P: Placement> EventLoopGroup<P> {
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
            return crate::shutdown::steps::failed(ShutdownError::BadQuiet(quiet));
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

/// The reports added up, or the first failure, with what all of the loops handed back.
fn whole_end(
    reports: &[ShutdownReport],
    failures: Vec<ShutdownError>,
) -> Result<ShutdownReport, ShutdownError> {
    let mut whole = ShutdownReport::default();
    let Some(why) = failures.first() else {
        reports.iter().for_each(|report| whole.add(report));
        return Ok(whole);
    };
    // Where the failure has no place for them, the loops' own reports keep theirs.
    if let Some(all) = why.handed_back() {
        let others = failures[1..].iter().filter_map(ShutdownError::handed_back);
        let others = others.chain(reports.iter().map(|report| &report.handed_back));
        others.for_each(|one| all.gather(one));
    }
    failures.into_iter().next().map_or(Ok(whole), Err)
}

/// One end of many: the reports added up, or the first failure.
fn gather(ends: Vec<Terminated>) -> Terminated {
    struct Sum {
        missing: usize,
        reports: Vec<ShutdownReport>,
        failures: Vec<ShutdownError>,
    }
    let (promise, whole) = tidegate_promise::promise_of();
    let promise = promise.share();
    let sum = Arc::new(Mutex::new(Sum {
        missing: ends.len(),
        reports: Vec::new(),
        failures: Vec::new(),
    }));
    for end in ends {
        let (promise, sum) = (promise.clone(), Arc::clone(&sum));
        end.on_complete(move |outcome| {
            let mut sum = lock(&sum);
            match outcome {
                tidegate_promise::Outcome::Success(report) => sum.reports.push(report.clone()),
                tidegate_promise::Outcome::Failure(why) => sum.failures.push(why.clone()),
                tidegate_promise::Outcome::Cancelled => {}
            }
            sum.missing -= 1;
            if sum.missing > 0 {
                return;
            }
            let reports = std::mem::take(&mut sum.reports);
            let failures = std::mem::take(&mut sum.failures);
            drop(sum);
            let _ = promise.try_complete(whole_end(&reports, failures));
        });
    }
    whole
        .share()
        .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
}

impl<P: Placement> EventLoop<P> {
    /// How much waits for this loop; `None` if it is no place for new work.
    fn load(&self) -> Option<u64> {
        let shared = &self.shared;
        let ends = shared.state.get() >= Lifecycle::ShuttingDown;
        if ends || shared.is_stalled() || shared.health.is_ailing(&shared.clock) {
            return None;
        }
        let waiting = self.shared.lane.len() as u64;
        let awake = u64::from(!self.shared.bell.is_armed());
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

/// Describes an [`EventLoopGroup`].
///
/// ```
/// use tidegate_loop::{Choose, EventLoopGroup};
///
/// let group = EventLoopGroup::builder("io").loops(3).choose(Choose::LessBusy).build()?;
/// assert_eq!(group.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventLoopGroupBuilder<P: Placement = Pinned> {
    proto: EventLoopBuilder,
    loops: usize,
    choose: Choose,
    scaling: Option<Scaling>,
    placement: PhantomData<P>,
}

impl EventLoopGroupBuilder {
    /// Makes the loops roaming: what they are given must be `Send`, and tasks may block.
    pub fn roaming(self) -> EventLoopGroupBuilder<Roaming> {
        EventLoopGroupBuilder {
            proto: self.proto,
            loops: self.loops,
            choose: self.choose,
            scaling: self.scaling,
            placement: PhantomData,
        }
    }
}

impl EventLoopGroupBuilder<Roaming> {
    /// Makes loops that strategies drive on the threads of `crew`, each with a driver of its own;
    /// see [`EventLoopBuilder::build_over`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoopGroupBuilder::build_with`].
    pub fn build_over<D: Driver>(
        self,
        crew: &Crew,
        driver: impl FnMut(usize) -> io::Result<D>,
    ) -> Result<EventLoopGroup<Roaming>, BuildError> {
        self.build_each(driver, |one, driver| one.build_over(driver, crew))
    }
}

impl<P: Placement> EventLoopGroupBuilder<P> {
    /// How many loops; 0 means twice the processors.
    pub fn loops(mut self, loops: usize) -> Self {
        self.loops = loops;
        self
    }

    /// How the next loop is chosen.
    pub fn choose(mut self, how: Choose) -> Self {
        self.choose = how;
        self
    }

    /// Lets the number of active loops follow the load.
    pub fn scaling(mut self, scaling: Scaling) -> Self {
        self.scaling = Some(scaling);
        self
    }

    /// See [`EventLoopBuilder::clock`].
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.proto = self.proto.clock(clock);
        self
    }

    /// See [`EventLoopBuilder::bound`]; for each loop.
    pub fn bound(mut self, tasks: usize) -> Self {
        self.proto = self.proto.bound(tasks);
        self
    }

    /// See [`EventLoopBuilder::reject`].
    pub fn reject(mut self, policy: RejectPolicy) -> Self {
        self.proto = self.proto.reject(policy);
        self
    }

    /// See [`EventLoopBuilder::threads`]; the loops' threads are numbered in the order of
    /// their start.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.proto = self.proto.threads(threads);
        self
    }

    /// See [`EventLoopBuilder::on_unhandled`]; one hook for the whole group.
    pub fn on_unhandled(
        mut self,
        hear: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.proto = self.proto.on_unhandled(hear);
        self
    }

    /// See [`EventLoopBuilder::report_to`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.proto = self.proto.report_to(hook);
        self
    }

    /// See [`EventLoopBuilder::time_tasks`].
    pub fn time_tasks(mut self, yes: bool) -> Self {
        self.proto = self.proto.time_tasks(yes);
        self
    }

    /// See [`EventLoopBuilder::turn_budget`].
    pub fn turn_budget(mut self, budget: TurnBudget) -> Self {
        self.proto = self.proto.turn_budget(budget);
        self
    }

    /// Makes the group.
    ///
    /// # Errors
    ///
    /// [`BuildError`] when the description contradicts itself.
    pub fn build(self) -> Result<EventLoopGroup<P>, BuildError> {
        self.build_with(|_| Ok(ParkDriver::new()))
    }

    /// Makes the group, each loop with a driver of its own: `driver` gets the loop's number. If
    /// one cannot be made, the loops made before are shut down and the group is not.
    ///
    /// # Errors
    ///
    /// As for [`EventLoopGroupBuilder::build`], and [`BuildError::Driver`].
    pub fn build_with<D: Driver>(
        self,
        driver: impl FnMut(usize) -> io::Result<D>,
    ) -> Result<EventLoopGroup<P>, BuildError> {
        self.build_each(driver, EventLoopBuilder::assemble::<P, D>)
    }

    fn build_each<D: Driver>(
        self,
        mut driver: impl FnMut(usize) -> io::Result<D>,
        build: impl Fn(EventLoopBuilder, D) -> Result<EventLoop<P>, BuildError>,
    ) -> Result<EventLoopGroup<P>, BuildError> {
        let Self {
            proto,
            loops,
            choose,
            mut scaling,
            ..
        } = self;
        let count = if loops == 0 { default_loops() } else { loops };
        if count > MAX_LOOPS {
            return Err(BuildError::TooManyLoops {
                asked: count,
                most: MAX_LOOPS,
            });
        }
        if let Some(scaling) = &mut scaling {
            scaling.check(count)?;
        }
        let proto = proto.with_threads();
        // Dropping the loops made so far, on an early return, shuts them down.
        let mut made = Vec::with_capacity(count);
        for at in 0..count {
            let driver = driver(at).map_err(BuildError::Driver)?;
            made.push(build(proto.numbered(at), driver)?);
        }
        let loops: Arc<[EventLoop<P>]> = made.into();
        let active = Arc::new(ArcSwap::from_pointee((0..count).collect()));
        let watched = loops
            .iter()
            .map(|one| Arc::downgrade(&one.shared))
            .collect();
        let scaler = scaling.map(|scaling| Scaler::start(scaling, watched, Arc::clone(&active)));
        Ok(EventLoopGroup {
            inner: Arc::new(Inner {
                loops,
                active,
                chooser: Chooser::new(choose),
                scaler: scaler.transpose().map_err(BuildError::Driver)?,
                terminated: Mutex::default(),
            }),
        })
    }
}

/// Twice the processors.
fn default_loops() -> usize {
    (2 * usable_cpus()).clamp(1, MAX_LOOPS)
}
