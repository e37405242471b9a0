//! The shared side of an ordered view: its lane, and the turns that run what is in it.
//!
//! Tasks lie in a lane of the view's own. A *turn* is one task of the executor below, which
//! takes the lane's end out of its cell and runs what is there; the view's state says whether
//! there is one:
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
//! * Whoever changed the state to `Submitted` or `Running` owns the next change, and in `Running`
//!   the lane's end.
//! * After `None` is stored both lanes are looked at again, and after a push the state is, so
//!   one of the two sees the other and no task is stranded.
//! * A turn is secured before a task is pushed, so an executor that is full or closed gives the
//!   caller its own task back. What others pushed meanwhile, trusting that turn, is news of
//!   something accepted: it goes by the executor's signals, which are refused only at its end,
//!   and then it is handed back.

use std::sync::{Arc, Weak};

use tidegate_core::prim::{AtomicU8, AtomicU64, Ordering, fence};
use tidegate_core::{
    Clock, Deliver, Delivery, Executor, ExecutorId, OwnerCell, Refusal, Rejected, Signal,
    SignalBlock, SignalLane, Task, TaskLane, TaskLaneEnd, Unhandled, contain, discard_all, enter,
    is_current, stance,
};

use crate::executor::HandedBack;

/// No turn is under way.
const NONE: u8 = 0;
/// A turn was given to the executor, or is about to be.
const SUBMITTED: u8 = 1;
/// A turn runs.
const RUNNING: u8 = 2;

/// What the handles of a view and its turns share.
pub(super) struct Shared {
    me: Weak<Self>,
    id: ExecutorId,
    name: String,
    over: Arc<dyn Executor>,
    tasks_per_turn: usize,
    lane: Arc<TaskLane>,
    signals: SignalLane,
    /// In its place unless the state is `RUNNING`.
    end: OwnerCell<TaskLaneEnd>,
    state: AtomicU8,
    panics: AtomicU64,
    handed_back: HandedBack,
}

/// What promises know of a view: holding it keeps no handle alive.
impl Executor for Shared {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.submit(task)
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

    fn has_left_tasks(&self) -> bool {
        self.over.has_left_tasks()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.over.unhandled(what);
    }
}

impl Shared {
    pub(super) fn new(
        over: Arc<dyn Executor>,
        name: String,
        bound: usize,
        tasks_per_turn: usize,
    ) -> Arc<Self> {
        let (lane, end) = TaskLane::new(bound);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            id: ExecutorId::next(),
            name,
            over,
            tasks_per_turn,
            lane,
            signals: SignalLane::new(),
            end: OwnerCell::new(Box::new(end)),
            state: AtomicU8::new(NONE),
            panics: AtomicU64::new(0),
            handed_back: HandedBack::default(),
        })
    }

    /// Returns how many tasks were accepted and have not started.
    pub(super) fn pending_tasks(&self) -> usize {
        self.lane.len()
    }

    /// Returns how many tasks and signals have panicked.
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Returns the tasks that were accepted and will not run.
    pub(super) fn handed_back(&self) -> HandedBack {
        self.handed_back.clone()
    }

    pub(super) fn submit(&self, task: Task) -> Result<(), Rejected<Task>> {
        if self.lane.is_closed() {
            return Err(Rejected::new(task, Refusal::Closed));
        }
        if let Err(why) = self.secure_turn() {
            return Err(Rejected::new(task, why));
        }
        self.lane.push(task)?;
        self.ensure_turn();
        Ok(())
    }

    /// Sees to it that there is a turn, before anything is pushed for it.
    fn secure_turn(&self) -> Result<(), Refusal> {
        if !self.advance(NONE, SUBMITTED) {
            return Ok(());
        }
        let secured = self.submit_turn();
        if secured.is_err() && self.rest() {
            // Others have pushed meanwhile, trusting this turn.
            self.signal_turn();
        }
        secured
    }

    /// Sees to it that what was pushed has a turn: by a task, else by a signal.
    fn ensure_turn(&self) {
        if self.advance(NONE, SUBMITTED) && self.submit_turn().is_err() {
            self.signal_turn();
        }
    }

    /// Gives the executor below a turn as a signal. Called by the owner of `RUNNING`.
    fn signal_turn(&self) {
        let block = SignalBlock::new(Wake(self.arc()));
        let Some(signal) = block.raise() else { return };
        // ORDERING: as in `advance`. This thread owns the state; now the signal does.
        self.state.store(SUBMITTED, Ordering::SeqCst);
        match self.over.signal(signal) {
            // Dropping the signal tells `Wake` that it is an orphan.
            Err(refused) if refused.why() == Refusal::Closed => drop(refused),
            // No thread can be had, and what was accepted must run: here.
            Err(refused) => refused.into_inner().deliver(),
            Ok(()) => {}
        }
    }

    /// Gives the executor below a turn. If it is refused, this thread owns the state, which
    /// says `RUNNING`.
    fn submit_turn(&self) -> Result<(), Refusal> {
        let turn = Turn {
            view: Some(self.arc()),
        };
        let task = Task::labelled::<Turn, _>(move || turn.run());
        match self.over.execute(task) {
            Ok(()) => Ok(()),
            Err(refused) => {
                let why = refused.why();
                // Before the refused turn is dropped, so that it does not take that for its end.
                // ORDERING: as in `advance`: this thread has owned the state since `SUBMITTED`.
                self.state.store(RUNNING, Ordering::SeqCst);
                drop(refused);
                Err(why)
            }
        }
    }

    /// Runs what is there, at most one turn's share at a time. Called by the owner of
    /// `SUBMITTED`.
    fn run_turn(&self) {
        if !self.advance(SUBMITTED, RUNNING) {
            return;
        }
        let _mark = enter(self.arc(), stance());
        let mut ran = 0;
        loop {
            let mut end = self.take_end();
            let spent = self.run_share(&mut end, &mut ran);
            end.publish();
            self.put_end(end);
            if spent {
                // ORDERING: as in `advance`; this thread owns the state.
                self.state.store(SUBMITTED, Ordering::SeqCst);
                if self.submit_turn().is_ok() {
                    return;
                }
                // Refused: nobody else would run the rest.
                ran = 0;
            } else if !self.rest() {
                return;
            }
        }
    }

    /// Runs tasks and signals until nothing is left; true if the turn's share was spent first.
    fn run_share(&self, end: &mut TaskLaneEnd, ran: &mut usize) -> bool {
        loop {
            for signal in self.signals.take() {
                self.run("a signal", || signal.deliver());
                *ran += 1;
            }
            match end.pop() {
                Some(task) => {
                    self.run(task.name(), || task.run());
                    *ran += 1;
                }
                // A producer may have claimed a place and be about to write its task.
                None => tidegate_core::prim::yield_now(),
            }
            if end.is_wanted() {
                end.publish();
            }
            if end.is_empty() && self.signals.is_empty() {
                return false;
            }
            if *ran >= self.tasks_per_turn {
                return true;
            }
        }
    }

    fn run(&self, name: &str, run: impl FnOnce()) {
        let Err(panic) = contain(run) else { return };
        self.panics.fetch_add(1, Ordering::Relaxed);
        let what = Unhandled::TaskPanic {
            task: name,
            message: panic.message(),
        };
        let _ = contain(|| self.over.unhandled(&what));
    }

    /// Says that there is no turn, and looks again for what came meanwhile. True if there is
    /// something and the caller, who owned the state, owns it again.
    fn rest(&self) -> bool {
        // ORDERING: SeqCst, with the fence, is this side of the store-buffer pattern: a push that
        // saw the state before this store is seen by the looks after the fence. The other side
        // is the claim in `TaskLane::push` or `SignalLane::push` and then `advance`.
        self.state.store(NONE, Ordering::SeqCst);
        // ORDERING: SeqCst, see above.
        fence(Ordering::SeqCst);
        !(self.lane.is_empty() && self.signals.is_empty()) && self.advance(NONE, RUNNING)
    }

    /// Ends the view: gives back what has not run. Called by the owner of `SUBMITTED`.
    fn close(&self) {
        if !self.advance(SUBMITTED, RUNNING) {
            return;
        }
        self.lane.close();
        let mut end = self.take_end();
        self.handed_back.add(end.drain());
        self.put_end(end);
        let orphans = self.signals.close();
        discard_all(orphans);
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        // ORDERING: SeqCst. AcqRel hands the ownership of the state on; the total order is for
        // a submitter's look after its push, see `rest`. The failing load is part of it.
        self.state
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    fn take_end(&self) -> Box<TaskLaneEnd> {
        self.end
            .take()
            .expect("the lane's end is in its place until the state says RUNNING")
    }

    fn put_end(&self, end: Box<TaskLaneEnd>) {
        let put = self.end.put(end);
        debug_assert!(put.is_ok(), "a lane has one end");
    }

    fn arc(&self) -> Arc<Self> {
        self.me.upgrade().expect("a borrowed value is alive")
    }
}

/// A view's turn, on its way through the executor below.
struct Turn {
    view: Option<Arc<Shared>>,
}

impl Turn {
    fn run(mut self) {
        if let Some(view) = self.view.take() {
            view.run_turn();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Dropped without having run: the executor is gone, and with it the view.
        if let Some(view) = self.view.take() {
            view.close();
        }
    }
}

/// A view's turn as a signal, for an executor that has no room for tasks.
struct Wake(Arc<Shared>);

impl Deliver for Wake {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        match how {
            Delivery::Home => block.0.run_turn(),
            Delivery::Orphaned => block.0.close(),
        }
    }
}
