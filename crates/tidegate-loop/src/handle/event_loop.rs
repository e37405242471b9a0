//! The handle of an event loop.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::{
    CancelToken, Clock, Executor, ExecutorId, Interrupted, Refusal, Rejected, Task, ThreadInfo,
    is_current,
};
use tidegate_pool::internal::Answer;
use tidegate_pool::{Quiet, ShutdownError};
use tidegate_promise::{Completion, Promise, WaitError, promise_on};

use super::placement::{Pinned, Placement};
use crate::errors::{BadPeriod, HookError, NotOnLoop};
use crate::schedule::period::{Every, Missed};
use crate::schedule::scheduled_task;
use crate::schedule::timeout::{self, TimeoutHandle};
use crate::shutdown::termination::Terminated;
use crate::spawn::future;
use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::LoopMetrics;
use crate::state::shared::Shared;
use crate::thread::local;

/// A handle to an event loop: one thread that runs tasks one at a time, in order.
///
/// Clones are handles to the same loop. The loop's thread starts with the first task. When the
/// last handle is dropped the loop is asked to end, without a quiet period; nothing blocks.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, Quiet};
///
/// let home = EventLoop::builder("home").build()?;
/// let (promise, answer) = home.promise::<u32>();
/// home.schedule(Duration::from_millis(1), move || promise.succeed(123_456))?;
/// assert_eq!(answer.wait()?, 123_456);
/// home.shutdown_gracefully(Quiet::none(Duration::from_secs(1))).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoop<P: Placement = Pinned> {
    pub(crate) shared: Arc<Shared>,
    placement: PhantomData<P>,
}

impl EventLoop {
    /// The loop that the calling thread drives.
    pub fn current() -> Option<Self> {
        let shared = local::current()?;
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Some(Self::from_shared(shared))
    }

    /// Spawns a future that need not be `Send`. Only on the loop's own thread.
    ///
    /// # Errors
    ///
    /// The future, when called on another thread or while the loop is shut down.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use tidegate_loop::EventLoop;
    ///
    /// let home = EventLoop::builder("home").build()?;
    /// let answer = home.submit(|| {
    ///     let here = EventLoop::current().expect("this runs on the loop");
    ///     let local = Rc::new(7);
    ///     here.spawn_local(async move { *local }).expect("on the loop")
    /// })?;
    /// assert_eq!(answer.wait()?.wait()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_local<F>(&self, future: F) -> Result<Completion<F::Output>, NotOnLoop<F>>
    where
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        let here = is_current(self.shared.id) && self.shared.settings.pinned;
        if !here || self.is_shutdown() {
            return Err(NotOnLoop(future));
        }
        Ok(future::spawn_local(&self.shared, future))
    }
}

impl<P: Placement> EventLoop<P> {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            placement: PhantomData,
        }
    }

    /// Runs `run` on the loop.
    ///
    /// # Errors
    ///
    /// The closure's task, when the loop is full (after what its [`RejectPolicy`] tried) or
    /// takes no more work.
    ///
    /// # Threads
    ///
    /// From any thread; `run` runs on the loop, after everything that this thread submitted
    /// before. A panic in it is reported to `on_unhandled` and does not hurt the loop.
    ///
    /// [`RejectPolicy`]: crate::RejectPolicy
    #[inline]
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.submit(Task::new(run))
    }

    /// [`EventLoop::execute`] that waits for room, where the loop's [`RejectPolicy`] says so, only
    /// until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As there, and with [`Refusal::Interrupted`] if it was waiting when the token was tripped.
    ///
    /// [`RejectPolicy`]: crate::RejectPolicy
    pub fn execute_with<F>(&self, run: F, token: &CancelToken) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.submit_with(Task::new(run), token)
    }

    /// Runs `task` on the loop: [`EventLoop::execute`] for a task made before, with a name or
    /// a kind of its own.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute`].
    #[inline]
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.submit(task)
    }

    /// Runs `run` on the loop when it wakes up anyway: does not wake it, unless its lane is
    /// half full.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute`].
    pub fn execute_lazy<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.submit_lazy(Task::new(run))
    }

    /// Runs `run` on the loop and answers with what it returns.
    ///
    /// Cancelling the completion before `run` has started keeps it from running; afterwards it
    /// cannot be cancelled. If a shutdown hands the task back, the completion ends when the task
    /// is run or dropped. As long as nobody has taken the task, a wait for it fails with
    /// [`NeverBegun`](tidegate_pool::NeverBegun), also where the loop is stuck and cannot give it back.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute`]; the completion of a refused closure is never handed out.
    #[inline]
    pub fn submit<T, F>(&self, run: F) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, completion) = Answer::of(&self.shared);
        self.shared
            .submit(Task::labelled::<F, _>(move || answer.run(run)))?;
        Ok(completion)
    }

    /// [`EventLoop::submit`] with the token of [`EventLoop::execute_with`].
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute_with`].
    pub fn submit_with<T, F>(
        &self,
        run: F,
        token: &CancelToken,
    ) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, completion) = Answer::of(&self.shared);
        let task = Task::labelled::<F, _>(move || answer.run(run));
        self.shared.submit_with(task, token)?;
        Ok(completion)
    }

    /// Runs a future on the loop. Dropping the completion detaches; cancelling it drops the
    /// future, on the loop.
    ///
    /// # Errors
    ///
    /// The future, when the loop is full or takes no more work.
    pub fn spawn<F>(&self, future: F) -> Result<Completion<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        future::spawn(&self.shared, future)
    }

    /// Runs `run` once, `after` from now. A delay too long to be counted never ends.
    ///
    /// # Errors
    ///
    /// The closure, when the loop is shutting down.
    ///
    /// # Threads
    ///
    /// From any thread; `run` runs on the loop, never early. Cancelling drops it at once.
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(scheduled_task::once(&self.shared, after, run))
    }

    /// Runs `run` once, `after` from now and up to a tick late: for the many timeouts that almost
    /// never fire. Costs less than [`EventLoop::schedule`], keeps no order among equals and has
    /// no result; the handle cancels it or gives it more time.
    ///
    /// # Errors
    ///
    /// The closure, when the loop is shutting down.
    ///
    /// # Threads
    ///
    /// From any thread; `run` runs on the loop, never early. Cancelling drops it at once. When
    /// the loop ends first, `run` is dropped and the handle says cancelled.
    pub fn timeout<F>(&self, after: Duration, run: F) -> Result<TimeoutHandle, Rejected<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let run = scheduled_task::check(&self.shared, run)?;
        Ok(timeout::add(&self.shared, after, Task::new(run)))
    }

    /// Runs `run` after `first` and then every `period`, counted from begin to begin; missed
    /// runs are made up for. The completion never succeeds: it ends cancelled, or failed if
    /// `run` panics.
    ///
    /// # Errors
    ///
    /// [`BadPeriod`] for a period of zero, or when the loop is shutting down.
    pub fn schedule_at_fixed_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        run: F,
    ) -> Result<Completion<()>, BadPeriod>
    where
        F: FnMut() + Send + 'static,
    {
        self.schedule_at_rate(first, period, Missed::default(), run)
    }

    /// [`EventLoop::schedule_at_fixed_rate`] with a say in what happens to missed runs.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn schedule_at_rate<F>(
        &self,
        first: Duration,
        period: Duration,
        missed: Missed,
        run: F,
    ) -> Result<Completion<()>, BadPeriod>
    where
        F: FnMut() + Send + 'static,
    {
        self.repeat(first, period, Every::rate(period, missed), run)
    }

    /// Runs `run` after `first` and then again `pause` after each run has ended.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::schedule_at_fixed_rate`].
    pub fn schedule_with_fixed_delay<F>(
        &self,
        first: Duration,
        pause: Duration,
        run: F,
    ) -> Result<Completion<()>, BadPeriod>
    where
        F: FnMut() + Send + 'static,
    {
        self.repeat(first, pause, Every::delay(pause), run)
    }

    fn repeat<F>(
        &self,
        first: Duration,
        period: Duration,
        every: Every,
        run: F,
    ) -> Result<Completion<()>, BadPeriod>
    where
        F: FnMut() + Send + 'static,
    {
        if period.is_zero() {
            return Err(BadPeriod::Zero);
        }
        let run = scheduled_task::check(&self.shared, run).map_err(|_| BadPeriod::Closed)?;
        Ok(scheduled_task::repeat(&self.shared, first, every, run))
    }

    /// A promise whose listeners run on this loop.
    #[inline]
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::<Shared>::clone(&self.shared))
    }

    /// This loop as a plain executor. It does not count as a handle: the loop may end while
    /// somebody holds it.
    pub fn executor(&self) -> Arc<dyn Executor> {
        Arc::<Shared>::clone(&self.shared)
    }

    /// Whether the calling thread is this loop's.
    #[inline]
    pub fn is_current(&self) -> bool {
        is_current(self.shared.id)
    }

    /// The loop's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The loop's identity.
    pub fn id(&self) -> ExecutorId {
        self.shared.id
    }

    /// The clock by which the loop waits.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Tasks accepted and not started; scheduled ones do not count. Never blocks.
    pub fn pending_tasks(&self) -> usize {
        self.shared.pending()
    }

    /// Where the loop is in its life.
    pub fn lifecycle(&self) -> Lifecycle {
        self.shared.state.get()
    }

    /// What is known of the loop's thread; starts it if there is none. `None` if none can be
    /// had, or the loop is driven by hand.
    pub fn thread_info(&self) -> Option<ThreadInfo> {
        self.shared.ensure_thread();
        Some(self.shared.thread.watch()?.info())
    }

    /// Whether the loop's driver fails, or has had to begin anew a moment ago. Its group gives new
    /// work to others, if there are any.
    pub fn is_ailing(&self) -> bool {
        self.shared.health.is_ailing(&self.shared.clock)
    }

    /// Whether a [`Watchdog`](crate::Watchdog) sees the loop stuck right now. False if none watches it.
    pub fn is_stalled(&self) -> bool {
        self.shared.is_stalled()
    }

    /// What the loop shows of itself.
    pub fn metrics(&self) -> LoopMetrics {
        self.shared
            .meter
            .metrics(&self.shared.clock, self.shared.mailbox.lane.len())
    }

    /// Waits until everything that is due on the loop's manual clock has run; on the system
    /// clock, until everything submitted so far has. On the system clock, tasks of a roaming loop
    /// that may block can still run on other threads of its pool.
    pub fn settle(&self) {
        if self.shared.clock.is_manual() {
            self.shared.clock.settle();
        } else if let Ok(done) = self.submit(|| ()) {
            let _ = done.wait();
        }
    }

    /// [`EventLoop::settle`] until `token` is tripped.
    ///
    /// # Errors
    ///
    /// [`Interrupted`] when the token was tripped first.
    pub fn settle_with(&self, token: &CancelToken) -> Result<(), Interrupted> {
        if let Some(clock) = self.shared.clock.as_manual() {
            return clock.settle_with(token);
        }
        match self.submit_with(|| (), token) {
            Ok(mut done) => match done.wait_with(token) {
                Err(WaitError::Interrupted) => Err(Interrupted),
                _ => Ok(()),
            },
            Err(refused) if refused.why() == Refusal::Interrupted => Err(Interrupted),
            Err(_) => Ok(()),
        }
    }

    /// Runs `hook` on the loop when it is shut down, after its last task. Hooks run in the
    /// order in which they were added.
    ///
    /// # Errors
    ///
    /// [`HookError`] when there is one of that name, or the loop has closed.
    pub fn add_shutdown_hook<F>(&self, name: impl Into<String>, hook: F) -> Result<(), HookError>
    where
        F: FnOnce() + Send + 'static,
    {
        let hooks = &self.shared.hooks;
        hooks.add(name.into(), Box::new(hook), || self.is_shutdown())
    }

    /// Takes a hook back; false if there is none of that name.
    pub fn remove_shutdown_hook(&self, name: &str) -> bool {
        self.shared.hooks.remove(name)
    }

    /// Asks the loop to end: scheduled tasks are cancelled, tasks still run and are still
    /// accepted until none came for `quiet.period`, but for `quiet.timeout` at most; what has
    /// not started then is handed back in the report. A second, stricter call escalates.
    ///
    /// The answer fails with [`ShutdownError::Stuck`] if a task does not return in time, and
    /// with [`ShutdownError::BadQuiet`] at once if the period is longer than the timeout.
    pub fn shutdown_gracefully(&self, quiet: Quiet) -> Terminated {
        self.shared.shut_down(quiet)
    }

    /// Whether the loop was asked to end.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.get() >= Lifecycle::ShuttingDown
    }

    /// Whether the loop takes no more tasks.
    pub fn is_shutdown(&self) -> bool {
        self.shared.state.get() >= Lifecycle::Shutdown
    }

    /// Whether the loop is over.
    pub fn is_terminated(&self) -> bool {
        self.shared.state.get() == Lifecycle::Terminated
    }

    /// Completes when the loop is over. Its listeners run on the thread that ends: destructors of
    /// its `thread_local!` values come later, so what must be gone by then belongs into
    /// [`at_thread_exit`](tidegate_core::at_thread_exit).
    pub fn termination(&self) -> Terminated {
        self.shared.termination.completion()
    }

    /// Waits until the loop is over, at most for `timeout` of its clock; answers whether it is.
    ///
    /// # Errors
    ///
    /// A refusal on a loop's own thread, which could never see its end.
    pub fn await_termination(&self, timeout: Duration) -> Result<bool, WaitError<ShutdownError>> {
        self.shared.await_termination(timeout, None)
    }

    /// [`EventLoop::await_termination`] until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As there, and [`WaitError::Interrupted`].
    pub fn await_termination_with(
        &self,
        timeout: Duration,
        token: &CancelToken,
    ) -> Result<bool, WaitError<ShutdownError>> {
        self.shared.await_termination(timeout, Some(token))
    }

    /// Asks the loop to give its thread back as soon as it has nothing to do. Work brings a
    /// new thread. True if it will, or has; false once it is shutting down.
    pub fn try_suspend(&self) -> bool {
        self.shared.try_suspend()
    }

    /// Whether the loop has given its thread back, or is about to.
    pub fn is_suspended(&self) -> bool {
        matches!(
            self.shared.state.get(),
            Lifecycle::Suspending | Lifecycle::Suspended
        )
    }
}

impl<P: Placement> Clone for EventLoop<P> {
    fn clone(&self) -> Self {
        self.shared.handles.fetch_add(1, Ordering::Relaxed);
        Self::from_shared(Arc::clone(&self.shared))
    }
}

impl<P: Placement> Drop for EventLoop<P> {
    fn drop(&mut self) {
        // ORDERING: AcqRel, as in `Arc`: the last handle comes after all the others.
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(self.shared.shut_down(Quiet::none(Quiet::default().timeout)));
            self.shared.let_go();
        }
    }
}

impl<P: Placement> PartialEq for EventLoop<P> {
    /// Whether both are handles to the same loop.
    fn eq(&self, other: &Self) -> bool {
        self.shared.id == other.shared.id
    }
}

impl<P: Placement> Eq for EventLoop<P> {}

impl<P: Placement> fmt::Debug for EventLoop<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("name", &self.name())
            .field("lifecycle", &self.lifecycle())
            .field("pending_tasks", &self.pending_tasks())
            .finish_non_exhaustive()
    }
}
