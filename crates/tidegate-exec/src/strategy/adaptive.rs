//! Adaptive: chooses for each task, by its kind, its thread and the threads that can be had.
//!
//! | task | thread free | thread tagged as non-blocking |
//! |---|---|---|
//! | never blocks | PC | PC |
//! | adapts | a thread to be had: EPC; none: PIC | PC |
//! | may block | a thread to be had: EPC; none: PEC | PEC |
//!
//! "To be had" means that a helper is on its way, or that `try_execute` gives one now. This is
//! what Jetty's EatWhatYouKill became. The last thread able to produce therefore runs nothing
//! that could hold it.
//!
//! With a [`Monitor`] it hands over late: where the table says EPC, it first lends the producer
//! to the cell, asks for nobody, and runs the task. See `README.md` beside this file.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tidegate_sync::{Asked, Blocking, Glance, Held, Lookout, Refusal, Rejected, Task, discard};

use super::counts::raise;
use super::engine::{Engine, Helper, Options, Rule};
use super::handle;
use super::learned::Learned;
use super::monitor::{Monitor, Watch, Watched};
use super::producer::Producer;
use super::stand_in::{give_back, send_stand_in, stands_in};
use crate::headroom::TryExecutor;
use crate::pool::{Lease, OverBudget};

/// Chooses for each task between running it here, running it here without blocking, giving it
/// away, and running it here while another thread produces.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_exec::{Adaptive, Monitor, Strategy, WorkerPool};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let monitor = Monitor::start("io")?;
/// let strategy = Adaptive::builder(|| None, pool).late(&monitor).build();
/// strategy.produce();
/// println!("{}", strategy.counts());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Adaptive<P> {
    engine: Arc<Engine<P, Choice>>,
}

/// Describes an [`Adaptive`] strategy.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_exec::{Adaptive, Options, Strategy, WorkerPool};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let options = Options::new().on_refused(|refused| eprintln!("{refused}"));
/// let eager = Adaptive::builder(|| None, pool).options(options).build();
/// eager.produce();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdaptiveBuilder<P> {
    producer: P,
    pool: Arc<dyn TryExecutor>,
    options: Options,
    watch: Option<Arc<Watch>>,
    monitor: Option<Monitor>,
    lease: Option<Lease>,
}

impl<P: Producer> Adaptive<P> {
    /// A strategy over `producer` whose threads come from `pool`, handing over eagerly.
    pub fn new(producer: P, pool: Arc<dyn TryExecutor>) -> Self {
        Self::builder(producer, pool).build()
    }

    /// Describes a strategy over `producer` whose threads come from `pool`.
    pub fn builder(producer: P, pool: Arc<dyn TryExecutor>) -> AdaptiveBuilder<P> {
        AdaptiveBuilder {
            producer,
            pool,
            options: Options::new(),
            watch: None,
            monitor: None,
            lease: None,
        }
    }

    /// Switches late hand-over off or on again, from the next task on. Without a monitor it is
    /// always off.
    pub fn set_late(&self, on: bool) {
        self.engine.rule.late_on.store(on, Ordering::Relaxed);
    }

    /// Whether it hands over late.
    pub fn is_late(&self) -> bool {
        self.engine.rule.watch().is_some()
    }
}

impl<P: Producer> AdaptiveBuilder<P> {
    /// Hands over late, with `monitor` watching. The strategy keeps the monitor running.
    pub fn late(mut self, monitor: &Monitor) -> Self {
        self.watch = Some(Arc::clone(monitor.watch()));
        self.monitor = Some(monitor.clone());
        self
    }

    /// What else it is told.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// For a producer that waits inside [`Producer::produce`] and so keeps a thread of the pool as
    /// long as it has something to wait for: leases that thread in the name of `who`, so that a
    /// pool with too few threads says so now, and its room is true. The lease ends with the
    /// strategy.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when no thread would be left for tasks.
    pub fn lease(mut self, who: &str) -> Result<Self, OverBudget> {
        self.lease = self.pool.lease_threads(who, 1)?;
        Ok(self)
    }

    /// Makes the strategy.
    pub fn build(self) -> Adaptive<P> {
        if let Some(lease) = &self.lease {
            lease.uses(false);
        }
        let rule = Choice {
            lease: self.lease,
            pool: Arc::clone(&self.pool),
            watch: self.watch,
            _monitor: self.monitor,
            late_on: AtomicBool::new(true),
            queued: AtomicBool::new(false),
            class: AtomicUsize::new(0),
            lookout: Lookout::new(),
            given: AtomicU64::new(0),
            learned: Learned::default(),
        };
        let engine = Engine::new(self.producer, rule, self.pool, self.options);
        if let Some(watch) = &engine.rule.watch {
            let weak = Arc::downgrade(&engine);
            let weak: Weak<dyn Watched> = weak;
            watch.add(weak);
        }
        Adaptive { engine }
    }
}

impl<P> fmt::Debug for AdaptiveBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveBuilder")
            .field("late", &self.watch.is_some())
            .finish_non_exhaustive()
    }
}

handle!(Adaptive, "Adaptive");

/// What the choice goes by.
pub(super) struct Choice {
    /// For the thread that the producer keeps.
    lease: Option<Lease>,
    pub(super) pool: Arc<dyn TryExecutor>,
    watch: Option<Arc<Watch>>,
    /// Keeps it running.
    _monitor: Option<Monitor>,
    late_on: AtomicBool,
    /// The pending helper is in the executor's queue, not yet on a thread.
    pub(super) queued: AtomicBool,
    /// The class of the task that runs with the producer lent.
    pub(super) class: AtomicUsize,
    /// What the monitor saw of the pool, and the loans that it answers for.
    pub(super) lookout: Lookout,
    /// Tasks that had been given away at the monitor's last look.
    given: AtomicU64,
    pub(super) learned: Learned,
}

impl Choice {
    /// The monitor, if this strategy hands over late now.
    #[inline]
    pub(super) fn watch(&self) -> Option<&Watch> {
        let watch = self.watch.as_deref()?;
        (self.late_on.load(Ordering::Relaxed) && watch.is_running()).then_some(watch)
    }
}

impl<P: Producer> Rule<P> for Choice {
    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: Held<'a, P>,
        task: Task,
        tagged: bool,
    ) -> Option<Held<'a, P>> {
        match (task.blocking(), tagged) {
            (Blocking::Never, _) | (Blocking::Adapts, true) => {
                let held = engine.produce_consume(held, task);
                return if tagged {
                    give_back(engine, held)
                } else {
                    Some(held)
                };
            }
            (Blocking::May, true) => {
                return give_back(engine, engine.produce_execute_consume(held, task));
            }
            (Blocking::Adapts | Blocking::May, false) => {}
        }
        let rule = &engine.rule;
        match rule.watch() {
            Some(watch) if !wants_thread(rule, watch, &*held, &task) => {
                // Somebody must be able to take over if the task turns out to block.
                if rule.pool.has_thread() {
                    lend(engine, watch, held, task)
                } else if rule.lookout.is_brisk() {
                    engine.counters.lent_busy.add(1);
                    // If that turns out wrong, the monitor has a thread for it.
                    rule.lookout.mark(held.next_loan());
                    lend(engine, watch, held, task)
                } else {
                    // It sees when the pool has a thread to spare again.
                    if watch.lent() {
                        raise(&engine.counters.monitor_wakes);
                    }
                    Some(without_a_thread(engine, held, task))
                }
            }
            _ => hand_over(engine, held, task),
        }
    }

    fn dispatch(engine: &Arc<Engine<P, Self>>) -> Result<(), Rejected<()>> {
        match engine.cell.ask() {
            Asked::Enough => Ok(()),
            Asked::Closed => Err(Rejected::new((), Refusal::Closed)),
            Asked::BringHelper => {
                let rule = &engine.rule;
                rule.queued.store(true, Ordering::Relaxed);
                let helper = Helper::task(engine);
                rule.pool.execute_internal(helper).map_err(|refused| {
                    raise(&engine.counters.helpers_refused);
                    // Its drop takes back that one is on its way.
                    refused.map(discard)
                })
            }
        }
    }

    fn helper_came(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }

    fn driving(&self, begins: bool) {
        if let Some(watch) = &self.watch {
            watch.driving(begins);
        }
        if let Some(lease) = &self.lease
            && (self.pool.is_current() || stands_in())
        {
            lease.uses(begins);
        }
    }
}

/// Whether the task should have a thread at once, although short ones need none: it is known to
/// be long, by word or by experience, or work waits that an idle processor could do.
fn wants_thread<P: Producer>(rule: &Choice, watch: &Watch, held: &P, task: &Task) -> bool {
    task.is_long()
        || rule.learned.is_long(task.class())
        || (watch.has_idle_cpu() && held.backlog() > 0 && rule.pool.room().idle > 0)
}

/// Eager: brings a helper if one can be had now, and runs the task.
fn hand_over<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: Held<'a, P>,
    task: Task,
) -> Option<Held<'a, P>> {
    let rule = &engine.rule;
    if rule.queued.load(Ordering::Relaxed) && !rule.pool.has_thread() {
        // The helper on its way has no thread to arrive on.
        return Some(without_a_thread(engine, held, task));
    }
    let class = task.class();
    let loan = held.lend(true);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    if loan.bring_helper
        && let Err(refused) = rule.pool.try_execute(Helper::task(engine))
    {
        drop(refused);
        // Back, unless somebody has it by now, who then produces.
        if let Some(held) = engine.cell.arrive() {
            return Some(without_a_thread(engine, held, task));
        }
    }
    let back = engine.execute_produce_consume(task);
    if back.is_some() && engine.cell.glance().loans == loan.number {
        rule.learned.was_short(class);
    }
    back
}

/// Nobody else could produce: the task must not hold this thread.
fn without_a_thread<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: Held<'a, P>,
    task: Task,
) -> Held<'a, P> {
    match task.blocking() {
        Blocking::May => engine.produce_execute_consume(held, task),
        Blocking::Never | Blocking::Adapts => engine.produce_invoke_consume(held, task),
    }
}

/// Late: lends the producer, asks for nobody, runs the task.
#[inline]
fn lend<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    watch: &Watch,
    held: Held<'a, P>,
    task: Task,
) -> Option<Held<'a, P>> {
    engine.counters.lent.add(1);
    let class = task.class();
    engine.rule.class.store(class, Ordering::Relaxed);
    let loan = held.lend(false);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    if watch.lent() {
        raise(&engine.counters.monitor_wakes);
    }
    late_execute_produce_consume(engine, task);
    let back = engine.cell.resume();
    if back.is_some() && engine.cell.glance().loans == loan.number {
        engine.rule.learned.was_short(class);
    }
    back
}

/// Runs a task while its producer is lent: one frame in a profile.
#[inline(never)]
fn late_execute_produce_consume<P: Producer>(engine: &Engine<P, Choice>, task: Task) {
    engine.run(task);
}

impl<P: Producer> Watched for Engine<P, Choice> {
    fn glance(&self) -> Glance {
        self.cell.glance()
    }

    fn look(&self) -> bool {
        let rule = &self.rule;
        rule.lookout.saw(rule.pool.moves());
        let given = self.counters.pec.get();
        rule.given.swap(given, Ordering::Relaxed) != given
    }

    fn rest(&self) {
        self.rule.lookout.forget();
    }

    fn offer(self: Arc<Self>, loan: u64, watch: &Watch) {
        let rule = &self.rule;
        if rule.lookout.send(loan) {
            let Err(refused) = rule.pool.try_execute(LateHelper::task(&self, loan)) else {
                rule.lookout.unmark(loan);
                return raise(&self.counters.helpers);
            };
            raise(&self.counters.no_spare);
            // Its drop takes back that one is on its way.
            drop(refused);
            // The next thread that is done with a short job comes here first.
            if rule.lookout.is_brisk() && watch.is_running() {
                rule.lookout.send(loan);
                let helper = LateHelper::task(&self, loan);
                if rule.pool.execute_internal(helper).is_ok() {
                    return raise(&self.counters.helpers);
                }
            }
        }
        // With the last look nobody will see what becomes of the pool.
        if rule.lookout.is_held(loan) || (!watch.is_running() && rule.lookout.is_marked(loan)) {
            send_stand_in(&self, loan, watch);
        }
    }

    fn is_over(&self) -> bool {
        self.cell.is_over()
    }
}

/// A helper that the monitor sent for one loan; shows up in metrics by this name.
struct LateHelper<P: Producer> {
    engine: Arc<Engine<P, Choice>>,
    loan: u64,
    class: usize,
}

impl<P: Producer> LateHelper<P> {
    fn task(engine: &Arc<Engine<P, Choice>>, loan: u64) -> Task {
        let helper = Self {
            engine: Arc::clone(engine),
            loan,
            class: engine.rule.class.load(Ordering::Relaxed),
        };
        Task::labelled::<Self, _>(move || helper.arrive())
    }

    fn arrive(self) {
        let engine = Arc::clone(&self.engine);
        let (loan, class) = (self.loan, self.class);
        // It has come: what lies there from now on needs another one.
        drop(self);
        match engine.cell.take_loan(loan) {
            Some(held) => {
                raise(&engine.counters.late_epc);
                engine.rule.learned.was_long(class);
                engine.drive(held);
            }
            None => raise(&engine.counters.idle_helpers),
        }
    }
}

impl<P: Producer> Drop for LateHelper<P> {
    fn drop(&mut self) {
        // Arrived, refused, or dropped with its queue: it is not on its way any more.
        self.engine.rule.lookout.came(self.loan);
    }
}
