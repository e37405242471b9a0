//! Code that all strategies share: the cell with the producer, the loop that produces and consumes,
//! the ways to run a task, and the handling of panics and refusals.
//!
//! # Invariants
//!
//! * Only the thread with the producer guard ([`ProducerGuard`]) can produce.
//! * Each task is run, given to the executor, or closed: exactly one of them.
//! * User code (producer, task, hooks, drops) runs inside `contain`, so a panic ends a task or a
//!   call of the producer, never the strategy.
//! * Each way to run a task is a function that is never inlined, so that a profile shows the way by
//!   name.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tidegate_core::Blocking;
use tidegate_core::executor::{Need, WaitPolicy, Work, wait_policy};
use tidegate_core::internal::{PlainTask, contain, discard};
use tidegate_core::{CaughtPanic, Dump, Executor, RejectReason, Rejected, Task, Unhandled};

use crate::strategy::raw::{CloseResult, ProducerCell, ProducerGuard, RestResult};

use super::metrics::{Counters, raise};
use super::producer::Producer;

/// Consecutive panics of a producer, without a task in between, that count as "no task now".
const PANICS_IN_A_ROW: u32 = 2;

thread_local! {
    /// The strategies that are running on this thread, innermost last.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The rule of a strategy: decides which thread consumes a task.
pub(crate) trait Rule<P: Producer>: Sized + Send + Sync + 'static {
    /// `true` if the producing thread runs every task and keeps the producer meanwhile.
    const KEEPS_PRODUCER: bool = false;

    /// Consumes `task`, or passes it to another thread. Returns the producer guard if this thread
    /// still has it or has it again. `tagged` is `true` if the thread must not block; it is read
    /// when the thread starts producing.
    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: ProducerGuard<'a, P>,
        task: Task,
        tagged: bool,
    ) -> Option<ProducerGuard<'a, P>>;

    /// Makes another thread produce.
    fn dispatch(engine: &Arc<Engine<P, Self>>) -> Result<(), Rejected<()>> {
        let job = PlainTask::internal::<Dispatched, _>({
            let engine = Arc::clone(engine);
            move || engine.produce()
        });
        let dispatched = engine.executor.execute_internal(job);
        dispatched.map_err(|no| no.map(discard))
    }

    /// Called with `true` when a thread starts to produce, and with `false` when it ends.
    fn driving(&self, begins: bool) {
        let _ = begins;
    }

    /// Returns what a task that may block needs of `executor` while no thread is free. The default
    /// is nothing: the thread that produced the task runs it.
    fn task_needs(&self, executor: &dyn Executor) -> Vec<Need> {
        let _ = executor;
        Vec::new()
    }

    /// Adds the rule's own state to a dump of the strategy.
    fn describe(&self, dump: Dump) -> Dump {
        dump
    }
}

/// Names a dispatched round in metrics.
struct Dispatched;

/// One strategy with one producer.
pub(crate) struct Engine<P, R> {
    pub(crate) cell: ProducerCell<P>,
    pub(crate) rule: R,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) counters: Counters,
}

impl<P: Producer, R: Rule<P>> Engine<P, R> {
    pub(crate) fn new(producer: P, rule: R, executor: Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            cell: ProducerCell::new(Box::new(producer)),
            rule,
            executor,
            counters: Counters::default(),
        })
    }

    pub(crate) fn produce(self: &Arc<Self>) {
        if is_inside(self.key()) {
            // Called from inside a task: only request a round, so that the stack does not grow. The
            // thread that runs the task checks again afterwards. If no thread produces, the task
            // may be waiting for what it requests, so another thread is needed.
            if self.cell.request_from_task() {
                // If refused, the round is still requested, and that thread finds the request.
                let _ = R::dispatch(self);
            }
        } else if let Some(held) = self.cell.claim() {
            self.drive(held);
        }
    }

    pub(crate) fn dispatch(self: &Arc<Self>) -> Result<(), Rejected<()>> {
        if self.cell.is_closed() {
            return Err(Rejected::new((), RejectReason::Closed));
        }
        R::dispatch(self)
    }

    /// Returns `true` if this call shut the strategy down.
    pub(crate) fn shutdown(&self) -> bool {
        match self.cell.close() {
            CloseResult::Already => false,
            CloseResult::Out => true,
            CloseResult::Home(producer) => {
                discard(producer);
                true
            }
        }
    }

    pub(crate) fn restart(&self, producer: P) -> Result<(), P> {
        self.cell.reopen(Box::new(producer)).map_err(|back| *back)
    }

    /// Produces and consumes until there is no task, or until another thread has the right to
    /// produce.
    pub(crate) fn drive<'a>(self: &'a Arc<Self>, mut held: ProducerGuard<'a, P>) {
        let _inside = RoundGuard::enter(self);
        let tagged = wait_policy() != WaitPolicy::Free;
        let mut panics = 0;
        loop {
            if held.is_closed() {
                return discard(held.give_up());
            }
            let rest = match contain(|| held.produce()) {
                Ok(Some(task)) => {
                    panics = 0;
                    match R::consume(self, held, task, tagged) {
                        Some(still) => held = still,
                        None => return,
                    }
                    continue;
                }
                Ok(None) => held.finish_round(),
                Err(panic) => {
                    panics += 1;
                    self.producer_panicked(&panic);
                    drop(panic);
                    if panics < PANICS_IN_A_ROW {
                        continue;
                    }
                    held.finish_round()
                }
            };
            panics = 0;
            match rest {
                RestResult::Again(again) => held = again,
                RestResult::Idle => return,
                RestResult::GivenUp(producer) => return discard(producer),
            }
        }
    }

    /// Runs a task on this thread. A panic ends the task only.
    #[inline(always)]
    pub(crate) fn run(&self, task: Task) {
        let name = task.name();
        if let Err(panic) = contain(|| task.run()) {
            raise(&self.counters.task_panics);
            contained(|| {
                self.executor.unhandled(&Unhandled::TaskPanic {
                    task: name,
                    message: panic.message(),
                });
            });
        }
    }

    #[cold]
    fn producer_panicked(&self, panic: &CaughtPanic) {
        raise(&self.counters.producer_panics);
        let message = panic.message();
        contained(|| {
            self.executor
                .unhandled(&Unhandled::ProducerPanic { message })
        });
    }

    /// Gives a task that the executor refused back to its producer.
    #[cold]
    fn refused(&self, held: &mut ProducerGuard<'_, P>, refused: Rejected<Task>) {
        raise(&self.counters.refused);
        contained(|| held.refused(refused));
    }

    /// Returns `true` if the calling thread runs a task of a strategy that produces nothing until
    /// the task ends.
    pub(crate) fn holds_production(self: &Arc<Self>) -> bool {
        R::KEEPS_PRODUCER && is_inside(self.key())
    }

    /// See [`Strategy::needs`](super::handle::Strategy::needs). Any thread of the executor can start
    /// production.
    pub(crate) fn needs(&self, submitted: bool, drivers: &Arc<AtomicUsize>) -> Vec<Need> {
        let needs = self.executor.needs(Work::Own).into_iter();
        let mut needs: Vec<_> = needs
            .map(|need| need.of_any_thread().unless(drivers))
            .collect();
        if submitted {
            needs.extend(self.rule.task_needs(&*self.executor));
        }
        needs
    }

    /// Adds the state of the producer's cell and of the rule to a dump of the strategy.
    pub(crate) fn describe(&self, dump: Dump) -> Dump {
        let dump = dump
            .fact("executor", self.executor.name())
            .fact("producer_lent", self.cell.snapshot().lent)
            .fact("helper_pending", self.cell.is_helper_pending());
        self.rule.describe(dump)
    }

    pub(crate) fn key(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}

/// The ways to run a task. Each one is a frame in a profile.
impl<P: Producer, R: Rule<P>> Engine<P, R> {
    /// PC: runs the task and continues producing.
    #[inline(never)]
    pub(crate) fn produce_consume<'a>(
        &self,
        held: ProducerGuard<'a, P>,
        task: Task,
    ) -> ProducerGuard<'a, P> {
        self.counters.pc.add(1);
        self.run(task);
        held
    }

    /// PIC: runs the task with the thread tagged as non-blocking and continues producing.
    #[inline(never)]
    pub(crate) fn produce_invoke_consume<'a>(
        &self,
        held: ProducerGuard<'a, P>,
        task: Task,
    ) -> ProducerGuard<'a, P> {
        self.counters.pic.add(1);
        Blocking::forbid(|| self.run(task));
        held
    }

    /// PEC: gives the task to the executor and continues producing.
    #[inline(never)]
    pub(crate) fn produce_execute_consume<'a>(
        &self,
        mut held: ProducerGuard<'a, P>,
        task: Task,
    ) -> ProducerGuard<'a, P> {
        self.counters.pec.add(1);
        if let Err(refused) = self.executor.execute(task) {
            self.refused(&mut held, refused);
        }
        held
    }

    /// EPC: runs the task while the producer is in the cell, then races the helper for it.
    #[inline(never)]
    pub(crate) fn execute_produce_consume(&self, task: Task) -> Option<ProducerGuard<'_, P>> {
        raise(&self.counters.epc);
        self.run(task);
        self.cell.resume()
    }
}

/// A helper on its way to the cell. It either arrives or is dropped without having run.
pub(crate) struct Helper<P: Producer, R: Rule<P>> {
    engine: Arc<Engine<P, R>>,
    arrived: bool,
}

impl<P: Producer, R: Rule<P>> Helper<P, R> {
    /// Creates the task of a helper. The cell must already be marked as having a pending helper.
    pub(crate) fn task(engine: &Arc<Engine<P, R>>) -> Task {
        raise(&engine.counters.helpers);
        let helper = Self {
            engine: Arc::clone(engine),
            arrived: false,
        };
        PlainTask::internal::<HelperJob, _>(move || helper.arrive())
    }

    fn arrive(mut self) {
        self.arrived = true;
        match self.engine.cell.arrive() {
            Some(held) => self.engine.drive(held),
            None => raise(&self.engine.counters.idle_helpers),
        }
    }
}

impl<P: Producer, R: Rule<P>> Drop for Helper<P, R> {
    fn drop(&mut self) {
        // Refused, or dropped with the queue that it was in: the cell must not count on it any
        // more.
        if !self.arrived {
            self.engine.cell.no_helper();
        }
    }
}

/// Names a helper in metrics.
struct HelperJob;

/// Marks this thread as running a strategy, until it is dropped.
struct RoundGuard<'a, P: Producer, R: Rule<P>>(&'a Arc<Engine<P, R>>);

impl<'a, P: Producer, R: Rule<P>> RoundGuard<'a, P, R> {
    fn enter(engine: &'a Arc<Engine<P, R>>) -> Self {
        INSIDE.with_borrow_mut(|inside| inside.push(engine.key()));
        engine.rule.driving(true);
        Self(engine)
    }
}

impl<P: Producer, R: Rule<P>> Drop for RoundGuard<'_, P, R> {
    fn drop(&mut self) {
        self.0.rule.driving(false);
        INSIDE.with_borrow_mut(Vec::pop);
    }
}

fn is_inside(key: usize) -> bool {
    INSIDE.with_borrow(|inside| inside.contains(&key))
}

/// Runs user code and catches its panic.
pub(crate) fn contained(run: impl FnOnce()) {
    let _ = contain(run);
}
