//! The state of one loop that its handles and its thread share.
//!
//! [`Shared`] only puts together what the files below it define, each of which owns its data and its
//! operations and does not know the whole. What needs several of these parts stands above it: how a
//! loop starts and ends in `transitions.rs`, how it is woken in `wake.rs`, how tasks come in
//! `submit/execute.rs`.

use std::sync::{Arc, Weak};

use tidegate_core::prim::{AtomicBool, AtomicUsize, Ordering, fence};
use tidegate_core::{
    Clock, ExecutorId, OnUnhandled, OwnerCell, Sleeper, Task, TaskLane, ThreadBuilder, Unhandled,
    contain,
};

use super::handed_out::HandedOut;
use super::health::Health;
use super::lifecycle::{Lifecycle, State};
use super::mailbox::Mailbox;
use super::metrics::Meter;
use super::settings::Settings;
use crate::shutdown::hooks::ShutdownHooks;
use crate::shutdown::plan::ShutdownPlan;
use crate::shutdown::termination::{Outcome, Termination};
use crate::spawn::slots::LocalFutures;
use crate::submit::reject::RejectPolicy;
use crate::thread::slot::ThreadSlot;

/// The shared side of one loop.
pub(crate) struct Shared {
    /// This value in its `Arc`, for what has to keep it alive.
    me: Weak<Self>,
    pub(crate) id: ExecutorId,
    pub(crate) name: String,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) reject: RejectPolicy,
    on_unhandled: OnUnhandled,
    pub(crate) state: State,
    /// What others leave for the loop, and how they wake it.
    pub(crate) mailbox: Mailbox,
    /// What it has done, and what it is doing.
    pub(crate) meter: Meter,
    /// How the driver fares.
    pub(crate) health: Health,
    /// A watchdog has found the loop stuck.
    pub(crate) stalled: AtomicBool,
    /// What the loop's thread drives, while no thread does.
    pub(crate) core: OwnerCell<Box<dyn Drive>>,
    /// What a strategy was given to run and is not over.
    pub(crate) out: HandedOut,
    /// Starting a thread, and what is known of the one that runs.
    pub(crate) thread: ThreadSlot,
    /// Handles alive; the last one to go asks for shutdown.
    pub(crate) handles: AtomicUsize,
    /// What was asked of the loop at its end.
    pub(crate) plan: ShutdownPlan,
    pub(crate) hooks: ShutdownHooks,
    /// How it ended.
    pub(crate) termination: Termination,
}

/// What can be driven by a thread: the core of a loop, whichever driver it waits on.
pub(crate) trait Drive: Send {
    /// Drives until the loop ends, or gives its thread back; then returns itself.
    fn drive(self: Box<Self>, shared: &Arc<Shared>) -> Option<Box<dyn Drive>>;
    /// Takes out the tasks of a loop that ends without ever running again.
    fn dissolve(self: Box<Self>) -> Vec<Task>;
    /// Runs what is there to run now, without waiting; true if anything ran. `pinned` are the
    /// futures that the caller keeps for the loop between two turns.
    fn turn_by_hand(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures) -> bool;
    /// Runs `work` as the loop.
    fn run_by_hand(
        &mut self,
        shared: &Arc<Shared>,
        pinned: &mut LocalFutures,
        work: &mut dyn FnMut(),
    );
    /// Ends a loop that will not be turned again.
    fn abandon_by_hand(&mut self, shared: &Arc<Shared>, pinned: &mut LocalFutures);
    /// A strategy begins to drive it; `by_hand` says that it must never wait.
    fn begin_producing(&mut self, shared: &Arc<Shared>, by_hand: bool);
    /// The next task for a strategy to have run; waits for one.
    fn produce(&mut self, shared: &Arc<Shared>) -> Produced;
    /// How many more could be had at once, as far as is known.
    fn backlog(&self) -> usize;
}

/// What a look for a task came to.
pub(crate) enum Produced {
    /// Here is one.
    Task(Task),
    /// Nothing now, and it must not wait: it is driven by hand.
    Nothing,
    /// The loop gives its thread back.
    Leave,
    /// The loop is over.
    Over,
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
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id: ExecutorId::next(),
            name: parts.name,
            clock: parts.clock,
            settings: parts.settings,
            reject: parts.reject,
            on_unhandled: parts.on_unhandled,
            state: State::new(),
            mailbox: Mailbox::new(parts.lane, parts.waker),
            meter: Meter::default(),
            health: parts.health,
            stalled: AtomicBool::new(false),
            core: OwnerCell::empty(),
            out: HandedOut::default(),
            thread: ThreadSlot::new(parts.threads),
            handles: AtomicUsize::new(1),
            plan: ShutdownPlan::default(),
            hooks: ShutdownHooks::default(),
            termination: Termination::new(),
        })
    }

    pub(crate) fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }

    /// Returns `true` if a watchdog has found the loop stuck.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// Tasks accepted and not started.
    pub(crate) fn pending(&self) -> usize {
        self.meter.pending(self.mailbox.lane.len())
    }

    /// Returns `true` if the loop was asked to end and its deadline has passed: what has not started
    /// by then does not start. Asked after each task, so a loop that lives on pays one look.
    #[inline]
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.state.get() >= Lifecycle::ShuttingDown && self.plan.is_past_deadline(&self.clock)
    }

    /// Wakes the driver of a loop that has a thread.
    pub(crate) fn wake_driver(&self) {
        let wakeups = &self.meter.counters.wakeups;
        wakeups.fetch_add(1, Ordering::Relaxed);
        self.mailbox.waker.wake();
    }

    /// Counts an error that has no other receiver, and reports it to the hook.
    pub(crate) fn unhandled(&self, what: &Unhandled<'_>) {
        self.meter.count_unhandled(what);
        self.on_unhandled.tell(&self.name, what);
    }

    /// Announces the end of the loop, as its last turn left it. The last thing that its thread does.
    pub(crate) fn announce_end(&self) {
        let how = self.termination.take_outcome();
        self.terminate(how.unwrap_or_else(|| Ok(Default::default())));
    }

    /// Ends the loop's life: sets the state, then completes the termination.
    pub(crate) fn terminate(&self, how: Outcome) {
        self.state.raise(Lifecycle::Terminated);
        self.termination.report(how);
        self.termination.leave_tasks(self.id);
        self.let_go();
    }

    /// Forgets what is left to see of a loop that is over and has no handle.
    pub(crate) fn let_go(&self) {
        // ORDERING: SeqCst fence: of the end and the last handle's drop, each of which has just
        // written one of the two words and now reads both, at least one sees the other.
        fence(Ordering::SeqCst);
        let over = self.state.get() == Lifecycle::Terminated;
        if over && self.handles.load(Ordering::Relaxed) == 0 {
            self.termination.forget();
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
