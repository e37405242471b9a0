//! The state that the handles and the thread of one event loop share.
//!
//! [`Shared`] only combines the parts. Each part owns its data and its operations, and does not use
//! `Shared`. Operations that need several parts are in other files: start and shutdown in
//! `transitions.rs`, wake-ups in `wake.rs`, submission in `submit/execute.rs`.

use std::sync::{Arc, Weak};

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::prim::{AtomicBool, AtomicUsize, Ordering, fence};
use tidegate_core::internal::{OwnerCell, Sleeper, TaskLane, contain};
use tidegate_core::{Clock, Dump, OnUnhandled, Task, ThreadBuilder, Unhandled};
use tidegate_pool::{HandedBack, ShutdownError};

use super::handed_out::HandedOut;
use super::health::Health;
use super::lifecycle::{Lifecycle, State};
use super::mailbox::Mailbox;
use super::metrics::LoopCounters;
use super::settings::Settings;
use crate::dump::requests::DumpRequests;
use crate::shutdown::end_watch::EndWatch;
use crate::shutdown::hooks::ShutdownHooks;
use crate::shutdown::plan::ShutdownPlan;
use crate::shutdown::termination::{Outcome, Termination};
use crate::spawn::slots::LocalFutures;
use crate::submit::reject::RejectPolicy;
use crate::thread::slot::ThreadSlot;

/// The shared state of one event loop.
pub(crate) struct Shared {
    /// A reference to this value in its `Arc`, for code that has to keep it alive.
    me: Weak<Self>,
    pub(crate) id: ExecutorId,
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) reject: RejectPolicy,
    on_unhandled: OnUnhandled,
    pub(crate) state: State,
    /// The queues for work from other threads, and the doorbell.
    pub(crate) mailbox: Mailbox,
    /// What the event loop has done, and what it is doing.
    pub(crate) meter: LoopCounters,
    /// The health of the driver.
    pub(crate) health: Health,
    /// What other threads can read of the driver.
    pub(crate) driver: Option<Arc<dyn DriverView>>,
    pub(crate) dump_requests: DumpRequests,
    /// `true` if a watchdog found the event loop stuck.
    pub(crate) stalled: AtomicBool,
    /// The core of the event loop while no thread drives it.
    pub(crate) core: OwnerCell<Box<dyn Drive>>,
    /// The number of threads that drive a roaming loop: not zero while a thread has the core.
    pub(crate) drivers: Arc<std::sync::atomic::AtomicUsize>,
    /// Tasks that were handed to a strategy and have not ended.
    pub(crate) handed_out: HandedOut,
    /// How a thread is started, and what is known of the current one.
    pub(crate) thread: ThreadSlot,
    /// The number of live handles. Dropping the last one requests a shutdown.
    pub(crate) handles: AtomicUsize,
    /// The requested shutdown: quiet period and deadline.
    pub(crate) plan: ShutdownPlan,
    pub(crate) hooks: ShutdownHooks,
    /// The outcome of the shutdown.
    pub(crate) termination: Termination,
}

/// The core of an event loop, independent of the type of its driver. A thread drives it.
pub(crate) trait Drive: Send {
    /// Drives the event loop until it ends, or gives its thread back; in the latter case returns
    /// itself.
    fn drive(self: Box<Self>, shared: &Arc<Shared>) -> Option<Box<dyn Drive>>;
    /// Drives the event loop until it ends, on the calling thread, and polls `root` there: before
    /// the first turn, and after each turn that woke it. The event loop does not give this thread
    /// back before it ends.
    fn drive_root(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        root: &mut dyn RootFuture,
    );
    /// Removes and returns the tasks of an event loop that ends without ever running again.
    fn dissolve(self: Box<Self>) -> Vec<Task>;
    /// Runs the work that is ready now, without waiting. Returns `true` if anything ran. `pinned`
    /// are the futures that the caller keeps for the event loop between two turns.
    fn manual_turn(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures) -> bool;
    /// Runs `work` as if on the event loop's thread.
    fn manual_run(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: &mut dyn FnMut(),
    );
    /// Ends an event loop that will not be driven again; `why` gets the tasks that were left.
    fn abandon(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        why: &dyn Fn(HandedBack) -> ShutdownError,
    );
    /// Prepares to be driven by a strategy. `manual` is `true` if [`Drive::produce`] must never
    /// wait.
    fn begin_producing(&mut self, shared: &Arc<Shared>, manual: bool);
    /// Returns the next task for a strategy to run; waits until there is one.
    fn produce(&mut self, shared: &Arc<Shared>) -> Produced;
    /// Returns how many more tasks are ready, as far as is known.
    fn backlog(&self) -> usize;
}

/// The future for which a thread drives an event loop in `block_on`.
pub(crate) trait RootFuture {
    /// Returns `true` if the future was woken and has not been polled since.
    fn is_woken(&self) -> bool;
    /// Polls the future if it was woken. When it is ready, requests the shutdown of the event loop.
    /// Contains a panic of the future.
    fn poll_if_woken(&mut self);
    /// Drops the future if it is not ready: the event loop has ended. Contains a panic.
    fn end(&mut self);
}

/// What other threads can read of an event loop's driver.
pub trait DriverView: Send + Sync + 'static {
    /// Returns the state of the driver for a dump. Called on any thread, at any time. Must neither
    /// wait nor call user code. On the event loop's own thread it may show more.
    fn dump(&self) -> Dump;
}

/// The result of [`Drive::produce`].
pub(crate) enum Produced {
    /// The next task.
    Task(Task),
    /// No task is ready, and the event loop is driven by hand and must not wait.
    Nothing,
    /// The event loop gives its thread back.
    Leave,
    /// The event loop has ended.
    Over,
}

/// The arguments of [`Shared::new`].
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) lane: Arc<TaskLane>,
    pub(crate) waker: Arc<dyn Sleeper>,
    pub(crate) health: Health,
    pub(crate) driver: Option<Arc<dyn DriverView>>,
    pub(crate) reject: RejectPolicy,
    pub(crate) on_unhandled: OnUnhandled,
    pub(crate) settings: Settings,
    /// `None` if the event loop has no thread of its own.
    pub(crate) threads: Option<ThreadBuilder>,
    pub(crate) end_watch: Arc<EndWatch>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let id = ExecutorId::next();
        let termination = Termination::new(id, &parts.name, &parts.clock);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id,
            name: parts.name,
            clock: parts.clock,
            settings: parts.settings,
            reject: parts.reject,
            on_unhandled: parts.on_unhandled,
            state: State::new(),
            mailbox: Mailbox::new(parts.lane, parts.waker),
            meter: LoopCounters::default(),
            health: parts.health,
            driver: parts.driver,
            dump_requests: DumpRequests::default(),
            stalled: AtomicBool::new(false),
            core: OwnerCell::empty(),
            drivers: Arc::default(),
            handed_out: HandedOut::default(),
            thread: ThreadSlot::new(parts.threads),
            handles: AtomicUsize::new(1),
            plan: ShutdownPlan::new(parts.end_watch),
            hooks: ShutdownHooks::default(),
            termination,
        })
    }

    pub(crate) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }

    /// Returns `true` if a watchdog has found the loop stuck.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks that were accepted and have not started.
    pub(crate) fn pending(&self) -> usize {
        self.meter.pending(self.mailbox.lane.len())
    }

    /// Returns `true` if a shutdown was requested and its deadline has passed: tasks that have not
    /// started by then do not start. Called after each task; without a shutdown it costs one atomic
    /// load.
    #[inline]
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.state.get() >= Lifecycle::ShuttingDown && self.plan.is_past_deadline(&self.clock)
    }

    /// Returns `true` if a strategy drives the event loop, has no thread inside it at the moment,
    /// and runs none of its tasks.
    pub(crate) fn is_left_by_strategy(&self) -> bool {
        let in_driver_task =
            || self.handed_out.is_of_driver() && self.meter.running.now().is_some();
        self.settings.driven
            && self.meter.counters.producing.get() == 0
            && self.handed_out.any().is_none()
            && !in_driver_task()
    }

    /// Wakes the driver of an event loop that has a thread.
    pub(crate) fn wake_driver(&self) {
        let wakeups = &self.meter.counters.wakeups;
        wakeups.fetch_add(1, Ordering::Relaxed);
        self.mailbox.waker.wake();
    }

    /// Counts an error that has no other receiver, and reports it to the hook.
    pub(crate) fn unhandled(&self, what: &Unhandled<'_>) {
        self.meter.count_unhandled(what);
        self.on_unhandled.report(&self.name, what);
    }

    /// Announces the outcome that the last turn left. This is the last action of the event loop's
    /// thread.
    pub(crate) fn announce_end(&self) {
        let how = self.termination.take_outcome();
        self.terminate(how.unwrap_or_else(|| Ok(Default::default())));
    }

    /// Ends the event loop: sets the state, then completes the termination.
    pub(crate) fn terminate(&self, how: Outcome) {
        self.state.raise(Lifecycle::Terminated);
        self.thread.end_lease();
        self.termination.report(how);
        self.termination.leave_tasks(self.id);
        // A request that arrived with the last signals got no turn.
        self.answer_dumps(None);
        self.forget_if_unreachable();
    }

    /// Drops the termination and the strategy of an event loop that has ended and has no handle.
    pub(crate) fn forget_if_unreachable(&self) {
        // ORDERING: SeqCst fence: the end of the loop and the drop of the last handle each write
        // one of the two words and then read both here; at least one of them sees the other's
        // write.
        fence(Ordering::SeqCst);
        let over = self.state.get() == Lifecycle::Terminated;
        if over && self.handles.load(Ordering::Relaxed) == 0 {
            self.termination.forget();
            // The pool of the strategy may have handed back tasks of this loop.
            self.thread.forget_strategy();
        }
    }
}

/// Drops a value of the user's; a panic in its `Drop` is reported and contained.
pub(crate) fn drop_contained<T>(shared: &Shared, what: T) {
    if let Err(panic) = contain(|| drop(what)) {
        shared.unhandled(&Unhandled::TaskPanic {
            task: "a drop",
            message: panic.message(),
        });
    }
}
