//! What the handles of a loop and its thread share.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::prim::{AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering, fence, lock};
use tidegate_core::{
    CachePadded, CancelToken, Clock, Doorbell, Executor, ExecutorId, OnUnhandled, OwnerCell,
    Parker, Rejected, Running, Signal, SignalLane, Sleeper, Task, TaskLane, ThreadBuilder,
    Unhandled, contain, is_current,
};
use tidegate_pool::internal::Left;
use tidegate_pool::{HandedBack, ShutdownError};
use tidegate_promise::{Promise, SharedCompletion};

use crate::core::budget::Spans;
use crate::core::hand_out::Out;
use crate::core::turn::Drive;
use crate::global::default_loop::Presence;
use crate::state::health::Health;
use crate::state::lifecycle::{Lifecycle, Plan, ShutdownReport, State};
use crate::state::metrics::{Counters, LoopMetrics};
use crate::submit::reject::RejectPolicy;
use crate::thread::local;
use crate::thread::slot::ThreadSlot;

/// Signals pushed without waking a loop that wake it after all.
const SILENT: u32 = 1024;

/// The shared side of one loop.
pub(crate) struct Shared {
    /// This value in its `Arc`, for what has to keep it alive.
    me: Weak<Self>,
    pub(crate) id: ExecutorId,
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) state: State,
    pub(crate) lane: Arc<TaskLane>,
    pub(crate) signals: SignalLane,
    pub(crate) bell: Doorbell,
    /// Signals pushed without waking the loop since it last took them.
    pub(crate) silent: AtomicU32,
    /// Wakes the driver; called by whoever the doorbell says has to.
    pub(crate) waker: Arc<dyn Sleeper>,
    /// How the driver fares.
    pub(crate) health: Health,
    pub(crate) running: Arc<Running>,
    /// On lines of their own: the loop writes them every turn, producers read what lies around.
    pub(crate) counters: CachePadded<Counters>,
    pub(crate) longest_task: Mutex<Option<&'static str>>,
    pub(crate) reject: RejectPolicy,
    pub(crate) on_unhandled: OnUnhandled,
    pub(crate) settings: Settings,
    /// What the loop's thread drives, while no thread does.
    pub(crate) core: OwnerCell<Box<dyn Drive>>,
    /// What a strategy was given to run and is not over.
    pub(crate) out: Out,
    /// Handles alive; the last one to go asks for shutdown.
    pub(crate) handles: AtomicUsize,
    /// A watchdog has found the loop stuck.
    pub(crate) stalled: AtomicBool,
    /// The loop cannot be shut down: the global one.
    pub(crate) endless: AtomicBool,
    /// Whether the loop has a thread, for whoever waits until it has none.
    pub(crate) presence: Arc<Presence>,
    /// Starting a thread, and what is known of the one that runs.
    pub(crate) thread: Mutex<ThreadSlot>,
    /// What was asked of the loop at its end.
    pub(crate) plan: Mutex<Option<Plan>>,
    pub(crate) hooks: Mutex<Vec<Hook>>,
    /// The shutdown hook that runs.
    pub(crate) in_hook: Mutex<Option<String>>,
    /// How the loop ended, between its last turn and its announcement.
    pub(crate) last_report: Mutex<Option<Result<ShutdownReport, ShutdownError>>>,
    /// Where the thread that watches the loop's end sleeps.
    pub(crate) reaper: Mutex<Option<Parker>>,
    /// What was accepted and has not begun.
    pub(crate) left: Left,
    termination: Mutex<Option<Promise<ShutdownReport, ShutdownError>>>,
    /// What is left to see of the loop; gone once it is over and nobody has a handle: tasks
    /// that were handed back hold on to their loop, and would keep it and themselves alive.
    ending: Mutex<Option<Ending>>,
}

struct Ending {
    terminated: Terminated,
    handed_back: HandedBack,
}

/// The end of a loop, for whoever wants to know.
pub type Terminated = SharedCompletion<ShutdownReport, ShutdownError>;

/// What a loop was built with and its thread needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether each task is timed.
    pub(crate) time_tasks: bool,
    /// How fine the wheel for coarse timeouts is.
    pub(crate) timeout_tick: Duration,
    /// How long a turn may spend on each kind of work.
    pub(crate) spans: Spans,
    /// Whether an idle thread may look a while before it sleeps.
    pub(crate) spin: bool,
    /// The loop's thread must not block.
    pub(crate) pinned: bool,
    /// A strategy drives the loop: what the loop itself runs must not block.
    pub(crate) driven: bool,
    /// Nanoseconds of idleness after which the loop gives its thread back; 0 means never.
    pub(crate) idle_stop: u64,
}

/// A named shutdown hook.
pub(crate) struct Hook {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

/// What a new loop is made of.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) lane: Arc<TaskLane>,
    pub(crate) waker: Arc<dyn Sleeper>,
    pub(crate) health: Health,
    pub(crate) reject: RejectPolicy,
    pub(crate) on_unhandled: OnUnhandled,
    pub(crate) settings: Settings,
    /// `None`: driven by hand, never by a thread of its own.
    pub(crate) threads: Option<ThreadBuilder>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let (promise, completion) = tidegate_promise::promise_of();
        // An end is shared by all who wait for it: none of them can cancel it.
        promise.set_uncancellable();
        let terminated = completion
            .share()
            .unwrap_or_else(|_| unreachable!("a new completion was not taken"));
        let handed_back = HandedBack::default();
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id: ExecutorId::next(),
            name: parts.name,
            clock: parts.clock,
            state: State::new(),
            lane: parts.lane,
            signals: SignalLane::new(),
            bell: Doorbell::new(),
            silent: AtomicU32::new(0),
            waker: parts.waker,
            health: parts.health,
            running: Arc::default(),
            counters: CachePadded::new(Counters::default()),
            longest_task: Mutex::default(),
            reject: parts.reject,
            on_unhandled: parts.on_unhandled,
            settings: parts.settings,
            core: OwnerCell::empty(),
            out: Out::default(),
            handles: AtomicUsize::new(1),
            stalled: AtomicBool::new(false),
            endless: AtomicBool::new(false),
            presence: Arc::default(),
            thread: Mutex::new(ThreadSlot::of(parts.threads)),
            plan: Mutex::default(),
            hooks: Mutex::default(),
            in_hook: Mutex::default(),
            last_report: Mutex::default(),
            reaper: Mutex::default(),
            left: Left::of(&handed_back),
            termination: Mutex::new(Some(promise)),
            ending: Mutex::new(Some(Ending {
                terminated,
                handed_back,
            })),
        })
    }

    pub(crate) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }

    /// Accepts a task from wherever it comes, or answers with the refusal.
    #[inline]
    pub(crate) fn submit(&self, task: Task) -> Result<(), Rejected<Task>> {
        if is_current(self.id) {
            return local::push(task).or_else(|refused| self.refuse(refused));
        }
        if self.state.needs_thread()
            && let Err(refusal) = self.start()
        {
            return Err(Rejected::new(task, refusal));
        }
        match self.lane.push(task) {
            Ok(_) => {
                self.ring();
                Ok(())
            }
            Err(refused) => self.refuse(refused),
        }
    }

    /// The same; a pause of the reject policy ends when `token` is tripped. A function of its own,
    /// so that the other one stays as lean as it is.
    pub(crate) fn submit_with(
        &self,
        task: Task,
        token: &CancelToken,
    ) -> Result<(), Rejected<Task>> {
        if is_current(self.id) {
            // On its own thread a loop never pauses.
            return self.submit(task);
        }
        if self.state.needs_thread()
            && let Err(refusal) = self.start()
        {
            return Err(Rejected::new(task, refusal));
        }
        match self.lane.push(task) {
            Ok(_) => {
                self.ring();
                Ok(())
            }
            Err(refused) => self.refuse_with(refused, Some(token)),
        }
    }

    /// Like [`Shared::submit`], without waking a sleeping loop unless the lane is half full.
    pub(crate) fn submit_lazy(&self, task: Task) -> Result<(), Rejected<Task>> {
        if is_current(self.id) {
            return local::push(task).or_else(|refused| self.refuse(refused));
        }
        match self.lane.push(task) {
            Ok(waiting) => {
                if waiting * 2 >= self.lane.bound() {
                    self.ensure_thread();
                    self.ring();
                }
                Ok(())
            }
            Err(refused) => self.refuse(refused),
        }
    }

    /// Says that something was pushed.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.bell.ring() {
            self.wake();
        }
    }

    /// Counts a signal that was pushed without waking the loop, and wakes it when many wait: a
    /// loop that sleeps for an hour must not collect an hour's worth of cancelled timers.
    pub(crate) fn note_silent(&self) {
        // Relaxed: a rough count. The loop sets it back whenever it looks.
        let silent = self.silent.fetch_add(1, Ordering::Relaxed) + 1;
        if silent >= SILENT || self.may_be_last(silent) {
            self.silent.store(0, Ordering::Relaxed);
            self.ensure_thread();
            self.ring();
        }
    }

    /// Whether a loop that wants to leave may have waited only for what was just cancelled:
    /// `silent` of its timers at most are there no more.
    fn may_be_last(&self, silent: u32) -> bool {
        // ORDERING: SeqCst fence between the push of the signal and this look at the state; pairs
        // with the one in `Doorbell::arm`: a loop that was asked to leave after this look and then
        // falls asleep has seen the signal.
        fence(Ordering::SeqCst);
        let asked = self.state.get() == Lifecycle::Suspending;
        (asked || self.settings.idle_stop > 0) && u64::from(silent) >= self.counters.timers.get()
    }

    /// Wakes the loop's driver, or, if it has given its thread back, starts a new one.
    #[cold]
    pub(crate) fn wake(&self) {
        // ORDERING: SeqCst fence between the caller's push and this look at the state; pairs
        // with the fence in `suspend_or_drive_on`.
        fence(Ordering::SeqCst);
        if self.state.needs_thread() {
            return self.ensure_thread();
        }
        self.counters.wakeups.fetch_add(1, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Called by a leaving thread that has put the core back: makes the loop suspended, or, if
    /// work came or the loop was asked for something else, answers true: drive on.
    ///
    /// The bell is armed first, so that a submitter either finds it armed, and starts a thread,
    /// or has pushed before this looks at the lanes. Nobody starts a thread before this has
    /// decided: that needs the same lock. The bell stays armed; whoever drives disarms it.
    pub(crate) fn suspend_or_drive_on(&self) -> bool {
        let _slot = self.thread_slot();
        self.bell.arm(u64::MAX);
        let before = self.state.get();
        let leaves = matches!(before, Lifecycle::Started | Lifecycle::Suspending)
            && self.state.advance(before, Lifecycle::Suspended);
        // ORDERING: SeqCst fence between the new state and the look at the lanes; pairs with
        // the fence in `wake`: a submitter whose push this misses sees the loop suspended.
        fence(Ordering::SeqCst);
        if leaves && self.lane.is_empty() && self.signals.is_empty() {
            return false;
        }
        !leaves || self.state.advance(Lifecycle::Suspended, Lifecycle::Started)
    }

    /// Asks the loop to give its thread back when it is idle.
    pub(crate) fn try_suspend(&self) -> bool {
        loop {
            match self.state.get() {
                Lifecycle::Suspending | Lifecycle::Suspended => return true,
                Lifecycle::NotStarted => {
                    if self
                        .state
                        .advance(Lifecycle::NotStarted, Lifecycle::Suspended)
                    {
                        return true;
                    }
                }
                Lifecycle::Started => {
                    if self
                        .state
                        .advance(Lifecycle::Started, Lifecycle::Suspending)
                    {
                        let _ = self.bell.ring();
                        self.waker.wake();
                        return true;
                    }
                }
                _ => return false,
            }
        }
    }

    pub(crate) fn is_wound_down(&self) -> bool {
        lock(&self.last_report).is_some()
    }

    /// Whether a watchdog has found the loop stuck.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Nanoseconds that the loop was awake, this moment included.
    pub(crate) fn busy_nanos(&self) -> u64 {
        let awake_since = self.counters.awake_since.get();
        let now = if awake_since == 0 {
            0
        } else {
            self.clock.nanos().saturating_sub(awake_since)
        };
        self.counters.busy.get() + now
    }

    /// Tasks accepted and not started. The lane counts what the loop has reserved or taken and
    /// not told yet; of a loop that stands still in a task this is exact.
    pub(crate) fn pending(&self) -> usize {
        let started = self.running.started() + 1;
        let taken = match self.counters.told_at.get() {
            0 => 0,
            told_at => started.saturating_sub(told_at),
        };
        let not_waiting = taken.saturating_add(self.counters.spare.get());
        let not_waiting = usize::try_from(not_waiting).unwrap_or(usize::MAX);
        self.lane.len().saturating_sub(not_waiting)
    }

    pub(crate) fn metrics(&self) -> LoopMetrics {
        let counters = &self.counters;
        let now = self.clock.nanos();
        let since = counters.since.get();
        let alive = if since == 0 {
            0
        } else {
            now.saturating_sub(since)
        };
        let busy = self.busy_nanos();
        let timers_run = counters.timers_run.get();
        let lateness = counters.lateness_sum.get().checked_div(timers_run);
        LoopMetrics {
            tasks_run: self.running.started(),
            tasks_pending: self.pending(),
            high_water: counters.high_water.get(),
            refused: counters.refused.load(Ordering::Relaxed),
            panics: counters.panics.get(),
            listener_panics: counters.listener_panics.load(Ordering::Relaxed),
            fell_back: counters.fell_back.load(Ordering::Relaxed),
            timers_pending: counters.timers.get(),
            timers_run,
            lateness_max: Duration::from_nanos(counters.lateness_max.get()),
            lateness_mean: Duration::from_nanos(lateness.unwrap_or(0)),
            futures: counters.futures.get(),
            busy_ratio: if alive == 0 {
                0.0
            } else {
                (busy as f64 / alive as f64).min(1.0)
            },
            busy: Duration::from_nanos(busy),
            turns: counters.turns.get(),
            sleeps: counters.sleeps.get(),
            wakeups: counters.wakeups.load(Ordering::Relaxed),
            heartbeat_age: Duration::from_nanos(now.saturating_sub(counters.heartbeat.get())),
            longest: Duration::from_nanos(counters.longest.get()),
            longest_task: *lock(&self.longest_task),
            running: self.running.now(),
        }
    }

    /// Ends the loop's life: the state says so, then whoever waits hears.
    pub(crate) fn terminate(&self, how: Result<ShutdownReport, ShutdownError>) {
        self.state.raise(Lifecycle::Terminated);
        self.report(how);
        self.left.leave(self.id);
        self.let_go();
    }

    /// Forgets what is left to see of a loop that is over and has no handle.
    pub(crate) fn let_go(&self) {
        // ORDERING: SeqCst fence: of the end and the last handle's drop, each of which has just
        // written one of the two words and now reads both, at least one sees the other.
        fence(Ordering::SeqCst);
        let over = self.state.get() == Lifecycle::Terminated;
        if over && self.handles.load(Ordering::Relaxed) == 0 {
            let ending = lock(&self.ending).take();
            drop(ending);
        }
    }

    /// The end of the loop, for whoever wants to know.
    pub(crate) fn termination(&self) -> Terminated {
        let ending = lock(&self.ending);
        let terminated = ending.as_ref().map(|ending| ending.terminated.clone());
        drop(ending);
        terminated.unwrap_or_else(|| crate::shutdown::steps::failed(ShutdownError::Lost))
    }

    /// Where tasks go that were accepted and will not be started.
    pub(crate) fn handed_back(&self) -> HandedBack {
        let ending = lock(&self.ending);
        let handed_back = ending.as_ref().map(|ending| ending.handed_back.clone());
        drop(ending);
        handed_back.unwrap_or_default()
    }

    /// Tells whoever waits for the end how it came; only the first report counts.
    pub(crate) fn report(&self, how: Result<ShutdownReport, ShutdownError>) {
        let promise = lock(&self.termination).take();
        if let Some(promise) = promise {
            // Nobody can cancel a termination.
            let _ = promise.complete(how);
        }
    }
}

/// Drops something of the user's; a panic in that is reported and goes no further.
pub(crate) fn drop_contained<T>(shared: &Shared, what: T) {
    if let Err(panic) = contain(|| drop(what)) {
        shared.unhandled(&Unhandled::TaskPanic {
            task: "a drop",
            message: panic.message(),
        });
    }
}

/// A loop as an executor: what promises and other crates know of it. Holding one does not keep
/// the loop running.
impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit(task)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.signals.push(signal)?;
        self.ensure_thread();
        self.ring();
        Ok(())
    }

    fn is_current(&self) -> bool {
        is_current(self.id)
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn has_left_tasks(&self) -> bool {
        self.left.is_left()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match what {
            Unhandled::ListenerPanic { .. } => {
                self.counters
                    .listener_panics
                    .fetch_add(1, Ordering::Relaxed);
            }
            Unhandled::ListenerFellBack => {
                self.counters.fell_back.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.on_unhandled.tell(&self.name, what);
    }
}
