//! The shared state of an ordered view: its queue, and the turns that run the queued tasks.
//!
//! Each view has a bounded queue of tasks (the task lane) and a queue of signals (the signal lane).
//! A *turn* is one task of the underlying executor. It takes the task lane's read end out of its
//! cell and runs what is queued. The view's state says whether a turn exists:
//!
//! ```text
//!             a submitter                  the turn begins
//!     None ----------------> Submitted ------------------------> Running
//!      ^ ^                    |     ^                             |   |
//!      | '--------------------'     '-----------------------------'   |
//!      |    the turn is refused        the turn has run its share     |
//!      '--------------------------------------------------------------'
//!            nothing is left; then look once more, since a task may have come
//! ```
//!
//! # Invariants
//!
//! * The thread that changed the state to `Submitted` or `Running` owns the next change. In
//!   `Running` it also owns the task lane's read end.
//! * After `None` is stored, both lanes are checked again. After a push, the state is checked. So
//!   at least one side sees the other, and no task is stranded.
//! * A turn is submitted before a task is pushed, so an executor that is full or closed gives the
//!   caller its own task back. Other submitters may have pushed tasks meanwhile because they saw
//!   that turn. Those tasks are already accepted, so a signal to the executor runs them. If the
//!   executor has ended, it refuses the signal and the tasks are handed back. If it has no thread,
//!   the submitter runs them.
//! * A pool closes the task lane when it takes no more jobs, so the view accepts nothing that the
//!   pool would refuse. A claim in the lane decides each race between a submission and that close.
//! * A turn that runs when the pool ends begins no further task: it hands back the rest. So does one
//!   that begins later on a thread of the pool. A turn that the pool hands back is run, or dropped,
//!   by whoever takes it. The view then no longer has a handle of the pool, since the pool keeps the
//!   turn and the turn keeps the view.
//! * A turn that is dropped by a pool that has not ended, for example to make room for another job,
//!   takes the waiting tasks with it. The view stays open.

use std::sync::{Arc, Weak};

use tidegate_core::executor::{ExecutorId, Need, Signal, Work, enter, is_current, wait_policy};
use tidegate_core::internal::prim::{
    AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Mutex, Ordering, fence,
};
use tidegate_core::internal::{
    Deliver, Delivery, OwnerCell, PlainTask, SignalBlock, SignalLane, TaskLane, TaskLaneReceiver,
    WatchList, contain,
};
use tidegate_core::{Clock, Executor, RejectReason, Rejected, Task, Unhandled};

use crate::executor::{HandedBack, UnstartedTasks, WeakHandedBack, is_displacing, mark_view};
use crate::schedule::{ScheduleTarget, TaskTimer};

/// No turn exists.
const NONE: u8 = 0;
/// A turn was submitted to the executor, or is about to be.
pub(super) const SUBMITTED: u8 = 1;
/// A turn is running.
pub(super) const RUNNING: u8 = 2;

/// State shared by the handles of a view and its turns.
pub(super) struct Shared {
    me: Weak<Self>,
    pub(super) id: ExecutorId,
    name: String,
    /// The underlying executor.
    over: Arc<dyn Executor>,
    /// The handle that keeps the executor running, if `over` does not. `None` once it has ended.
    pub(super) handle: Mutex<Option<Arc<dyn Executor>>>,
    tasks_per_turn: usize,
    pub(super) lane: Arc<TaskLane>,
    pub(super) signals: SignalLane,
    /// Present unless the state is `RUNNING`.
    end: OwnerCell<TaskLaneReceiver>,
    pub(super) state: AtomicU8,
    /// Tasks that the turn has started, and that the lane still counts as waiting.
    started: StartedTasks,
    panics: AtomicU64,
    /// Scheduled tasks that were refused when they were due.
    refused: AtomicU64,
    /// The number of live handles.
    pub(super) handles: AtomicUsize,
    /// The tasks that were accepted and will not run.
    back: WeakHandedBack,
    /// Keeps them, until the pool does or the view is closed and has no handle. A task may hold its
    /// view, so the two would keep each other alive.
    pub(super) keeps_back: Mutex<Option<HandedBack>>,
    /// What the pool hands back, if the view runs on one.
    pub(super) back_of_pool: Option<WeakHandedBack>,
    /// Whether tasks are in `back`, or will be when the running turn stops.
    pub(super) left: UnstartedTasks,
    /// `true` once the executor has ended.
    pub(super) ended: AtomicBool,
    /// `true` if a turn ran when the executor ended.
    pub(super) ended_in_turn: AtomicBool,
    /// `true` once tasks were handed back.
    pub(super) has_handed_back: AtomicBool,
    /// `true` once the ended pool has cancelled what was not due: the other tasks are unstarted.
    pub(super) may_leave: AtomicBool,
    /// The timer of the underlying executor, or one of the view's own.
    timer: Arc<TaskTimer>,
    pub(super) owns_timer: bool,
}

/// Where a view runs.
pub(super) struct Place {
    /// The underlying executor.
    pub(super) over: Arc<dyn Executor>,
    /// A handle that keeps the executor running, if `over` does not.
    pub(super) handle: Option<Arc<dyn Executor>>,
    /// The timer of the executor; `None` if the view needs one of its own.
    pub(super) timer: Option<Arc<TaskTimer>>,
    /// What the executor hands back, if it is a pool.
    pub(super) handed_back: Option<WeakHandedBack>,
}

/// A counter in a cache line of its own: the turn writes it for each task, and submitters write the
/// fields beside it.
#[repr(align(64))]
struct StartedTasks(AtomicUsize);

/// How a turn is submitted to the underlying executor.
#[derive(Clone, Copy)]
enum Submission {
    /// The executor may wait, or apply another policy to a turn for which it has no room.
    Execute,
    /// The executor accepts the turn or refuses it at once.
    Offer,
}

/// Why a turn's share has ended.
enum ShareEnd {
    /// Nothing is left to run.
    Empty,
    /// The turn has run as many tasks as it may.
    Spent,
    /// The executor has ended.
    Ended,
}

/// The view as promises see it. Holding it keeps no handle alive.
impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit(task)
    }

    fn offer_task(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit_by(task, Submission::Offer)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.signals.push(signal)?;
        self.ensure_turn();
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
        self.over.clock()
    }

    /// The turn that runs the work needs the view, and what a task of the executor under it needs.
    fn needs(&self, _work: Work) -> Vec<Need> {
        let mut needs = self.over.needs(Work::Submitted);
        needs.push(Need::thread_of(self.id));
        needs
    }

    fn has_abandoned_tasks(&self) -> bool {
        match self.left.has_left() {
            true => self.left.is_left(),
            // The turn may be among the tasks of the executor.
            false => self.over.has_abandoned_tasks(),
        }
    }

    fn watch_list(&self) -> Option<&Arc<WatchList>> {
        Some(self.left.watch_list())
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.over.unhandled(what);
    }
}

impl ScheduleTarget for Shared {
    fn timer(&self) -> &Arc<TaskTimer> {
        &self.timer
    }

    fn submit_due(&self, task: Task) -> Result<(), Rejected<Task>> {
        let submitted = self.submit_by(task, Submission::Offer);
        if submitted.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        submitted
    }

    fn submit_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.over.execute_internal(task)
    }
}

impl Shared {
    pub(super) fn new(
        place: Place,
        name: String,
        bound: usize,
        tasks_per_turn: usize,
    ) -> Arc<Self> {
        let (lane, end) = TaskLane::new(bound);
        let owns_timer = place.timer.is_none();
        let over = place.over;
        let timer = place.timer;
        let timer = timer.unwrap_or_else(|| TaskTimer::new(&name, over.clock()));
        let handed_back = HandedBack::default();
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id: ExecutorId::next(),
            name,
            over,
            handle: Mutex::new(place.handle),
            tasks_per_turn,
            lane,
            signals: SignalLane::new(),
            end: OwnerCell::new(Box::new(end)),
            state: AtomicU8::new(NONE),
            started: StartedTasks(AtomicUsize::new(0)),
            panics: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            handles: AtomicUsize::new(1),
            left: UnstartedTasks::of(&handed_back),
            back: handed_back.downgrade(),
            keeps_back: Mutex::new(Some(handed_back)),
            back_of_pool: place.handed_back,
            ended: AtomicBool::new(false),
            ended_in_turn: AtomicBool::new(false),
            has_handed_back: AtomicBool::new(false),
            may_leave: AtomicBool::new(false),
            timer,
            owns_timer,
        })
    }

    /// Returns how many tasks were accepted and have not started.
    pub(super) fn pending_tasks(&self) -> usize {
        let started = self.started.0.load(Ordering::Relaxed);
        self.lane.len().saturating_sub(started)
    }

    /// Returns how many tasks and signals have panicked.
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Returns how many scheduled tasks were refused when they were due.
    pub(super) fn refused_tasks(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the tasks that were accepted and will not run.
    pub(super) fn handed_back(&self) -> HandedBack {
        self.back.upgrade().unwrap_or_default()
    }

    /// Counts one more handle.
    pub(super) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one handle less.
    pub(super) fn drop_handle(&self) {
        // ORDERING: AcqRel, as in `Arc`: the last handle's drop happens after every other's.
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.forget_if_unreachable();
        }
    }

    pub(super) fn submit(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit_by(task, Submission::Execute)
    }

    fn submit_by(&self, task: Task, how: Submission) -> Result<(), Rejected<Task>> {
        if self.lane.is_closed() {
            return Err(Rejected::new(task, RejectReason::Closed));
        }
        if let Err(why) = self.secure_turn(how) {
            return Err(Rejected::new(task, why));
        }
        self.lane.push(task)?;
        self.ensure_turn_by(how);
        Ok(())
    }

    /// Makes sure that a turn exists before a task is pushed.
    fn secure_turn(&self, how: Submission) -> Result<(), RejectReason> {
        if !self.advance(NONE, SUBMITTED) {
            return Ok(());
        }
        let secured = self.submit_turn(how);
        if secured.is_err() && self.rest() {
            // Other threads have pushed meanwhile because they saw this turn.
            self.signal_turn();
        }
        secured
    }

    /// Makes sure that a turn exists for a task that was pushed: as a task, else as a signal.
    fn ensure_turn(&self) {
        self.ensure_turn_by(Submission::Execute);
    }

    fn ensure_turn_by(&self, how: Submission) {
        if self.advance(NONE, SUBMITTED) && self.submit_turn(how).is_err() {
            self.signal_turn();
        }
    }

    /// Submits a turn to the underlying executor as a signal. Called by the owner of `RUNNING`.
    pub(super) fn signal_turn(&self) {
        let block = SignalBlock::new(Wake(self.arc()));
        let Some(signal) = block.raise() else { return };
        // ORDERING: as in `advance`. This thread owns the state and passes it on to the signal.
        self.state.store(SUBMITTED, Ordering::SeqCst);
        match self.over.signal(signal) {
            // Dropping the signal delivers it to `Wake` as orphaned.
            Err(refused) if refused.why() == RejectReason::Closed => drop(refused),
            // No thread is available, and accepted tasks must run: run them on this thread.
            Err(refused) => refused.into_inner().deliver(),
            Ok(()) => {}
        }
    }

    /// Submits a turn to the underlying executor. If it is refused, this thread owns the state,
    /// which is then `RUNNING`.
    fn submit_turn(&self, how: Submission) -> Result<(), RejectReason> {
        let turn = ViewTurn {
            view: Some(self.arc()),
        };
        let task = PlainTask::labelled::<ViewTurn, _>(move || turn.run());
        let submitted = match how {
            Submission::Execute => self.over.execute(task),
            Submission::Offer => self.over.offer_task(task),
        };
        match submitted {
            Ok(()) => Ok(()),
            Err(refused) => {
                let why = refused.why();
                // Stored before the refused turn is dropped, so that its `Drop` does not close the
                // view.
                // ORDERING: as in `advance`: this thread has owned the state since `SUBMITTED`.
                self.state.store(RUNNING, Ordering::SeqCst);
                drop(refused);
                Err(why)
            }
        }
    }

    /// Runs the queued tasks, at most `tasks_per_turn` at a time. Called by the owner of
    /// `SUBMITTED`.
    pub(super) fn run_turn(&self) {
        if !self.advance(SUBMITTED, RUNNING) {
            return;
        }
        // A turn that was handed back runs everything. One that a thread of the executor had taken
        // when the executor ended runs nothing.
        // ORDERING: SeqCst, see `end`.
        let stops = !self.ended.load(Ordering::SeqCst) || self.over.is_current();
        let _mark = enter(self.arc(), wait_policy());
        let _view = mark_view(self.id, self.over.id());
        let mut ran = 0;
        loop {
            let mut end = self.take_end();
            let why = self.run_share(&mut end, &mut ran, stops);
            self.publish(&mut end);
            if matches!(why, ShareEnd::Ended) {
                return self.hand_back(end);
            }
            self.put_end(end);
            if matches!(why, ShareEnd::Spent) {
                // ORDERING: as in `advance`; this thread owns the state.
                self.state.store(SUBMITTED, Ordering::SeqCst);
                // No policy applies: one that runs the turn here would nest a turn in this one.
                if self.submit_turn(Submission::Offer).is_ok() {
                    return;
                }
                // Refused: no other thread would run the rest.
                ran = 0;
            } else if !self.rest() {
                return;
            }
        }
    }

    /// Runs tasks and signals until none are left, or until `tasks_per_turn` is reached. If `stops`
    /// is set, the end of the executor ends the share too.
    fn run_share(&self, end: &mut TaskLaneReceiver, ran: &mut usize, stops: bool) -> ShareEnd {
        let mut started = 0;
        loop {
            if stops && self.ended.load(Ordering::Relaxed) {
                return ShareEnd::Ended;
            }
            for signal in self.signals.take() {
                self.run("a signal", || signal.deliver());
                *ran += 1;
            }
            match end.pop() {
                Some(task) => {
                    started += 1;
                    self.started.0.store(started, Ordering::Relaxed);
                    self.run(task.name(), || task.run());
                    *ran += 1;
                }
                // A producer may have claimed a slot and be about to write its task.
                None => tidegate_core::internal::prim::yield_now(),
            }
            if end.take_head_request() {
                self.publish(end);
                started = 0;
            }
            if end.is_empty() && self.signals.is_empty() {
                return ShareEnd::Empty;
            }
            if *ran >= self.tasks_per_turn {
                return ShareEnd::Spent;
            }
        }
    }

    /// Shows submitters how many tasks were taken from the lane.
    pub(super) fn publish(&self, end: &mut TaskLaneReceiver) {
        end.publish();
        self.started.0.store(0, Ordering::Relaxed);
    }

    pub(super) fn run(&self, name: &str, run: impl FnOnce()) {
        let Err(panic) = contain(run) else { return };
        self.panics.fetch_add(1, Ordering::Relaxed);
        let what = Unhandled::TaskPanic {
            task: name,
            message: panic.message(),
        };
        let _ = contain(|| self.over.unhandled(&what));
    }

    /// Stores `NONE`, then checks again for tasks that arrived meanwhile. Returns `true` if there
    /// are some and the caller, which owned the state, owns it again.
    pub(super) fn rest(&self) -> bool {
        // ORDERING: SeqCst, with the fence, is this side of the store-buffer pattern: a push that
        // saw the state before this store is seen by the checks after the fence. The other side is
        // the claim in `TaskLane::push` or `SignalLane::push` and then `advance`.
        self.state.store(NONE, Ordering::SeqCst);
        // ORDERING: SeqCst, see above.
        fence(Ordering::SeqCst);
        !(self.lane.is_empty() && self.signals.is_empty()) && self.advance(NONE, RUNNING)
    }

    pub(super) fn advance(&self, from: u8, to: u8) -> bool {
        // ORDERING: SeqCst. AcqRel passes on the ownership of the state; the total order is for a
        // submitter's check after its push, see `rest`. The failing load is part of it.
        self.state
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    pub(super) fn take_end(&self) -> Box<TaskLaneReceiver> {
        self.end
            .take()
            .expect("the lane's end is in its place until the state says RUNNING")
    }

    pub(super) fn put_end(&self, end: Box<TaskLaneReceiver>) {
        let put = self.end.put(end);
        debug_assert!(put.is_ok(), "a lane has one end");
    }

    fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A pending task keeps its view alive, so nothing is pending now.
        if self.owns_timer {
            self.timer.close(|| ());
        }
    }
}

/// A view's turn while it is submitted to the underlying executor.
struct ViewTurn {
    view: Option<Arc<Shared>>,
}

impl ViewTurn {
    fn run(mut self) {
        if let Some(view) = self.view.take() {
            view.run_turn();
        }
    }
}

impl Drop for ViewTurn {
    fn drop(&mut self) {
        let Some(view) = self.view.take() else { return };
        match view.has_open_pool() {
            true => view.displace(),
            // Dropped without having run: the executor has ended, so the view ends too.
            false => view.close(),
        }
    }
}

/// A view's turn as a signal, for an executor that refused the turn as a task.
struct Wake(Arc<Shared>);

impl Deliver for Wake {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        match how {
            Delivery::Home => block.0.run_turn(),
            Delivery::Orphaned if !block.0.has_open_pool() => block.0.close(),
            Delivery::Orphaned if is_displacing() => block.0.displace_signals(),
            // No thread could be started, and accepted tasks must run: run them on this thread.
            Delivery::Orphaned => block.0.run_turn(),
        }
    }
}
