//! The handle of an event loop.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::executor::{ExecutorId, Work, is_current};
use tidegate_core::thread::ThreadInfo;
use tidegate_core::{Clock, Executor, Rejected, Task};
use tidegate_pool::internal::TaskPromise;
use tidegate_pool::{HandedBack, Quiet, ShutdownError};
use tidegate_promise::{Completion, Promise, SharedCompletion, WaitError, promise_on};

use super::placement::{Pinned, Placement};
use crate::errors::{NotOnLoop, ShutdownHookError};
use crate::shutdown::report::ShutdownReport;
use crate::spawn::future;
use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::LoopMetrics;
use crate::state::shared::Shared;
use crate::thread::local;

/// A handle to an event loop: one thread that runs tasks one at a time, in order.
///
/// Clones are handles to the same event loop. The thread starts with the first task. Dropping the
/// last handle requests a shutdown without a quiet period; the drop does not block.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, Quiet};
///
/// let home = EventLoop::builder("home").build()?;
/// let (promise, answer) = home.promise::<u32>();
/// home.schedule(Duration::from_millis(1), move || promise.succeed(123_456))?;
/// assert_eq!(answer.wait()?, 123_456);
/// home.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoop<P: Placement = Pinned> {
    pub(crate) shared: Arc<Shared>,
    placement: PhantomData<P>,
}

impl EventLoop {
    /// Returns the event loop that the calling thread drives.
    pub fn current() -> Option<Self> {
        let shared = local::current()?;
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Some(Self::from_shared(shared))
    }

    /// Spawns a future that need not be `Send`. Works only on the event loop's own thread.
    ///
    /// # Errors
    ///
    /// The future, if the caller is on another thread or the event loop is shut down.
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

    /// Runs `run` on the event loop.
    ///
    /// # Errors
    ///
    /// The closure's task, if the queue is full (after the [`RejectPolicy`] was applied) or the
    /// event loop accepts no more work.
    ///
    /// # Threads
    ///
    /// May be called from any thread. `run` runs on the event loop, after everything that the
    /// calling thread submitted before. A panic in `run` is reported to `on_unhandled`; the event
    /// loop continues.
    ///
    /// [`RejectPolicy`]: crate::RejectPolicy
    #[inline]
    pub fn execute<F>(&self, run: F) -> Result<(), Rejected<Task>>
    where
        F: FnOnce() + Send + 'static,
    {
        self.shared.submit(Task::new(run))
    }

    /// Runs `task` on the event loop: [`EventLoop::execute`] for a task that was built before, for
    /// example with a name or a [`Blocking`](tidegate_core::Blocking) kind.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute`].
    #[inline]
    pub fn execute_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.shared.submit(task)
    }

    /// Runs `run` on the event loop and returns a completion with its result.
    ///
    /// Cancelling the completion before `run` has started keeps it from running; afterwards it
    /// cannot be cancelled. If a shutdown hands the task back, the completion ends when the task is
    /// run or dropped. As long as the handed-back task has not been taken, a wait for the
    /// completion fails with [`NotStartedError`](tidegate_pool::NotStartedError). The wait fails in
    /// the same way if the event loop is stuck and cannot hand the task back.
    ///
    /// # Errors
    ///
    /// As for [`EventLoop::execute`]; a refused closure has no completion.
    #[inline]
    pub fn submit<T, F>(&self, run: F) -> Result<Completion<T>, Rejected<Task>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (answer, completion) = TaskPromise::of(&self.shared, Work::Submitted);
        self.shared
            .submit(Task::labelled::<F, _>(move || answer.run(run)))?;
        Ok(completion)
    }

    /// Runs a future on the event loop. Dropping the completion detaches the future. Cancelling the
    /// completion drops the future, on the event loop.
    ///
    /// # Errors
    ///
    /// The future, if the queue is full or the event loop accepts no more work.
    pub fn spawn<F>(&self, future: F) -> Result<Completion<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        future::spawn(&self.shared, future)
    }

    /// Creates a promise whose listeners run on this event loop.
    #[inline]
    pub fn promise<T: Send + 'static>(&self) -> (Promise<T>, Completion<T>) {
        promise_on(Arc::<Shared>::clone(&self.shared))
    }

    /// Returns this event loop as an [`Executor`]. The executor does not count as a handle: it does
    /// not keep the event loop running.
    pub fn executor(&self) -> Arc<dyn Executor> {
        Arc::<Shared>::clone(&self.shared)
    }

    /// Returns `true` if the calling thread is this event loop's thread.
    #[inline]
    pub fn is_current(&self) -> bool {
        is_current(self.shared.id)
    }

    /// Returns the event loop's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the event loop's identity.
    pub fn id(&self) -> ExecutorId {
        self.shared.id
    }

    /// Returns the clock that the event loop uses.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Returns the number of tasks that were accepted and have not started. Scheduled tasks do not
    /// count. Never blocks.
    pub fn pending_tasks(&self) -> usize {
        self.shared.pending()
    }

    /// Returns the state of the event loop's life cycle.
    pub fn lifecycle(&self) -> Lifecycle {
        self.shared.state.get()
    }

    /// Returns information about the event loop's thread; starts the thread if there is none.
    /// Returns `None` if no thread can be started, or if the event loop is driven by hand.
    pub fn thread_info(&self) -> Option<ThreadInfo> {
        self.shared.ensure_thread();
        Some(self.shared.thread.watch()?.info())
    }

    /// Returns `true` if the event loop's driver fails, or has recovered only a moment ago. A group
    /// gives new work to its other event loops meanwhile, if it can.
    pub fn is_unhealthy(&self) -> bool {
        self.shared.health.is_unhealthy(&self.shared.clock)
    }

    /// Returns `true` if a [`Watchdog`](crate::Watchdog) considers the event loop stuck right now.
    /// `false` if no watchdog watches it.
    pub fn is_stalled(&self) -> bool {
        self.shared.is_stalled()
    }

    /// Returns a snapshot of the event loop's metrics.
    pub fn metrics(&self) -> LoopMetrics {
        self.shared
            .meter
            .metrics(&self.shared.clock, self.shared.mailbox.lane.len())
    }

    /// Waits until everything that is due on the event loop's manual clock has run. On the system
    /// clock it waits until everything submitted so far has run; tasks of a roaming loop that may
    /// block can then still run on other threads of its pool.
    pub fn settle(&self) {
        if self.shared.clock.is_manual() {
            self.shared.clock.settle();
        } else if let Ok(done) = self.submit(|| ()) {
            let _ = done.wait();
        }
    }

    /// Adds a hook that runs on the event loop during its shutdown, after the quiet period and after
    /// all tasks that were accepted until its end. Hooks run in the order in which they were added.
    /// The event loop closes when the tasks that came meanwhile, also from hooks, have run.
    ///
    /// # Errors
    ///
    /// [`ShutdownHookError`] if another hook has the same name, or the event loop has closed.
    pub fn add_shutdown_hook<F>(
        &self,
        name: impl Into<String>,
        hook: F,
    ) -> Result<(), ShutdownHookError>
    where
        F: FnOnce() + Send + 'static,
    {
        let hooks = &self.shared.hooks;
        hooks.add(name.into(), Box::new(hook), || self.is_shutdown())
    }

    /// Removes a hook. Returns `false` if there is no hook with that name.
    pub fn remove_shutdown_hook(&self, name: &str) -> bool {
        self.shared.hooks.remove(name)
    }

    /// Requests a shutdown. Scheduled tasks are cancelled. Other tasks still run and are still
    /// accepted until none was submitted for `quiet.period`, but for at most `quiet.timeout`. Tasks
    /// that have not started by then are handed back in the report. A second call can only make the
    /// shutdown stricter.
    ///
    /// The returned completion fails with [`ShutdownError::Stuck`] if a task does not return in
    /// time, and with [`ShutdownError::BadQuiet`] at once if the period is longer than the timeout.
    pub fn shutdown(&self, quiet: Quiet) -> SharedCompletion<ShutdownReport, ShutdownError> {
        self.shared.shut_down(quiet)
    }

    /// Returns the tasks that the event loop accepted and will not start because it has shut down.
    /// They are the same tasks as those of the shutdown's report or error: each can be taken once,
    /// run elsewhere, and then completes its completion. Empty before the event loop has ended.
    ///
    /// An event loop whose shutdown failed with [`ShutdownError::Stuck`] adds its tasks when the
    /// stuck task returns; [`EventLoop::is_terminated`] is `true` from then on.
    ///
    /// ```
    /// use tidegate_core::{ManualClock, Task};
    /// use tidegate_loop::{EventLoop, Quiet};
    ///
    /// let home = EventLoop::builder("home").clock(ManualClock::new()).build()?;
    /// let (arrived, begun) = std::sync::mpsc::channel();
    /// let (go_on, gone_on) = std::sync::mpsc::channel::<()>();
    /// home.execute(move || {
    ///     arrived.send(()).unwrap();
    ///     drop(gone_on.recv());
    /// })?;
    /// begun.recv()?;
    /// let answer = home.submit(|| 42)?;
    /// let ended = home.shutdown(Quiet::none(std::time::Duration::ZERO));
    /// drop(go_on);
    /// ended.wait()?;
    /// home.handed_back().take().into_iter().for_each(Task::run);
    /// assert_eq!(answer.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handed_back(&self) -> HandedBack {
        self.shared.termination.handed_back()
    }

    /// Returns `true` if a shutdown was requested.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.get() >= Lifecycle::ShuttingDown
    }

    /// Returns `true` if the event loop accepts no more tasks.
    pub fn is_shutdown(&self) -> bool {
        self.shared.state.get() >= Lifecycle::Shutdown
    }

    /// Returns `true` if the event loop has terminated.
    pub fn is_terminated(&self) -> bool {
        self.shared.state.get() == Lifecycle::Terminated
    }

    /// Returns a completion of the event loop's termination. Its listeners run on the thread that
    /// ends. Destructors of that thread's `thread_local!` values run later; cleanup that must be
    /// done before the listeners run belongs in
    /// [`at_thread_exit`](tidegate_core::internal::at_thread_exit).
    pub fn termination(&self) -> SharedCompletion<ShutdownReport, ShutdownError> {
        self.shared.termination.completion()
    }

    /// Waits until the event loop has terminated, for at most `timeout` on its clock. Returns
    /// `true` if it has terminated.
    ///
    /// # Errors
    ///
    /// [`WaitError::Refused`] if the calling thread must not block, or if the wait would close a
    /// cycle. The event loop's own thread is refused: it could never see its own end.
    pub fn await_termination(&self, timeout: Duration) -> Result<bool, WaitError<ShutdownError>> {
        self.shared.await_termination(timeout)
    }

    /// Asks the event loop to give its thread back as soon as it is idle. New work starts another
    /// thread. Returns `true` if the request was accepted or the thread is already gone, `false` if
    /// the event loop is shutting down.
    pub fn try_suspend(&self) -> bool {
        self.shared.try_suspend()
    }

    /// Returns `true` if the event loop has given its thread back, or is about to.
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
        // ORDERING: AcqRel, as in `Arc`: the drop of the last handle happens after the drops of all
        // others.
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            drop(self.shared.shut_down(Quiet::none(Quiet::default().timeout)));
            self.shared.forget_if_unreachable();
        }
    }
}

impl<P: Placement> PartialEq for EventLoop<P> {
    /// Returns `true` if both are handles to the same event loop.
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
