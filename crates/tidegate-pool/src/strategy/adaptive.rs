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
//! With a [`Monitor`] it hands over late: for a task that may block or adapts, it lends the
//! producer to the cell, asks for nobody, and runs the task. It does so only with a stand-in in
//! reserve, a thread that takes the producer over if nobody else can; without one it goes by the
//! table. See `README.md` beside this file.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::{Blocking, Refusal, Rejected, Task, discard};

use crate::strategy::raw::{Asked, Held, Lookout, Rung, Standby};

use super::counts::raise;
use super::engine::{Engine, Helper, Options, Rule};
use super::handle;
use super::learned::Learned;
use super::monitor::{Monitor, Watch, Watched};
use super::on_call::StandIn;
use super::producer::Producer;
use super::rescue::relieved;
use super::stand_in::{give_back, reserve, stands_in};
use crate::pool::TryExecutor;
use crate::pool::{Lease, OverBudget};

/// Chooses for each task between running it here, running it here without blocking, giving it
/// away, and running it here while another thread produces.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::{Adaptive, Monitor, Strategy, WorkerPool};
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
/// use tidegate_pool::{Adaptive, Options, Strategy, WorkerPool};
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
    interrupt: Option<Interrupt>,
}

/// Makes a producer that waits inside `produce` return with a task soon.
pub type Interrupt = Box<dyn Fn() + Send + Sync>;

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
            interrupt: None,
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

    /// How a producer that waits inside is made to return with a task that does not insist on never
    /// blocking, so that its thread can be had for tasks that wait for one.
    #[doc(hidden)]
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = Some(interrupt);
        self
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
            standby: Standby::new(),
            relief: AtomicBool::new(false),
            duty: Standby::new(),
            on_pool: AtomicBool::new(false),
            interrupt: self.interrupt,
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
    /// The thread that takes the producer over if a lent task blocks and nobody else comes.
    pub(super) standby: Standby<StandIn>,
    /// The monitor asks the thread that produces to leave that to the stand-in.
    pub(super) relief: AtomicBool,
    /// The stand-in that produces now.
    pub(super) duty: Standby<StandIn>,
    /// Whether the thread that produces, or did last, is one of the pool's.
    pub(super) on_pool: AtomicBool,
    pub(super) interrupt: Option<Interrupt>,
    /// The class of the task that runs with the producer lent.
    pub(super) class: AtomicUsize,
    /// What the monitor saw of the pool, and which loans it has promised a thread.
    pub(super) lookout: Lookout,
    /// Tasks that had been given away at the monitor's last look.
    pub(super) given: AtomicU64,
    pub(super) learned: Learned,
}

impl Choice {
    /// The monitor, if this strategy hands over late now.
    #[inline]
    pub(super) fn watch(&self) -> Option<&Watch> {
        let watch = self.watch.as_deref()?;
        (self.late_on.load(Ordering::Relaxed) && watch.is_running()).then_some(watch)
    }

    /// The monitor, whether it runs or not, for what only exists with one.
    pub(super) fn own_watch(&self) -> &Arc<Watch> {
        let watch = self.watch.as_ref();
        watch.expect("stand-ins come from a monitor")
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        if let (Some(watch), Some(one)) = (&self.watch, self.standby.take()) {
            watch.on_call.release(one);
        }
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
        let Some(watch) = rule.watch() else {
            return hand_over(engine, None, held, task);
        };
        let (held, task) = match rule.relief.load(Ordering::Relaxed) {
            false => (held, task),
            true => match relieved(engine, held, task) {
                Ok(()) => return None,
                Err(back) => back,
            },
        };
        // Somebody must be able to take over if the task turns out to block.
        if !rule.standby.is_ready() && !reserve(engine, watch) {
            return unwatched(engine, watch, held, task);
        }
        if wants_thread(rule, watch, &*held, &task) {
            hand_over(engine, Some(watch), held, task)
        } else {
            lend(engine, watch, held, task)
        }
    }

    fn dispatch(engine: &Arc<Engine<P, Self>>) -> Result<(), Rejected<()>> {
        match engine.cell.ask() {
            Asked::Enough => Ok(()),
            Asked::Closed => Err(Rejected::new((), Refusal::Closed)),
            Asked::BringHelper => {
                let helper = Helper::task(engine);
                engine
                    .rule
                    .pool
                    .execute_internal(helper)
                    .map_err(|refused| {
                        raise(&engine.counters.helpers_refused);
                        // Its drop takes back that one is on its way.
                        refused.map(discard)
                    })
            }
        }
    }

    fn driving(&self, begins: bool) {
        if let Some(watch) = &self.watch {
            watch.driving(begins);
            if begins {
                self.produces_here();
            }
        }
        if let Some(lease) = &self.lease
            && (self.pool.is_current() || stands_in())
        {
            lease.uses(begins);
        }
    }
}

impl Choice {
    /// Notes what kind of thread produces from here on.
    fn produces_here(&self) {
        let on_pool = self.pool.is_current() && !stands_in();
        self.on_pool.store(on_pool, Ordering::Relaxed);
    }
}

/// Whether the task should have a thread at once, although short ones need none: it is known to
/// be long, by word or by experience, or work waits that an idle processor could do.
fn wants_thread<P: Producer>(rule: &Choice, watch: &Watch, held: &P, task: &Task) -> bool {
    task.is_long()
        || rule.learned.is_long(task.class())
        || (watch.has_idle_cpu() && held.backlog() > 0 && rule.pool.room().idle > 0)
}

/// Eager: brings a helper if one can be had now, and runs the task. With none, and a monitor: late.
fn hand_over<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    watch: Option<&Watch>,
    held: Held<'a, P>,
    task: Task,
) -> Option<Held<'a, P>> {
    let rule = &engine.rule;
    let class = task.class();
    let loan = held.lend(true);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    // One that may wait in a queue is no helper: it may wait there for the end of this task.
    if loan.bring_helper
        && let Err(refused) = rule.pool.try_execute(Helper::task(engine))
    {
        drop(refused);
        // Back, unless somebody has it by now, who then produces.
        if let Some(held) = engine.cell.arrive() {
            return match watch {
                Some(watch) => lend(engine, watch, held, task),
                None => Some(without_a_thread(engine, held, task)),
            };
        }
    }
    let back = engine.execute_produce_consume(task);
    came_back(engine, class, loan.number, back.is_some());
    back
}

/// No stand-in can be had: nothing is lent, and the task gets a thread now or does not run here.
#[cold]
fn unwatched<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    watch: &Watch,
    held: Held<'a, P>,
    task: Task,
) -> Option<Held<'a, P>> {
    raise(&engine.counters.unwatched);
    // Its next look asks the system again.
    if watch.lent() == Rung::Woken {
        raise(&engine.counters.monitor_wakes);
    }
    hand_over(engine, None, held, task)
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
    let rung = watch.lent();
    if rung != Rung::Awake
        && !is_answered_for(engine, watch, rung)
        && let Some(held) = engine.cell.resume()
    {
        // It is counted as what becomes of it.
        engine.counters.lent.add(u64::MAX);
        return hand_over(engine, None, held, task);
    }
    late_execute_produce_consume(engine, task);
    let back = engine.cell.resume();
    came_back(engine, class, loan.number, back.is_some());
    back
}

/// Whether a loan that found the monitor asleep or stopped has a monitor and a stand-in.
#[cold]
fn is_answered_for<P: Producer>(engine: &Engine<P, Choice>, watch: &Watch, rung: Rung) -> bool {
    if rung == Rung::Over {
        return false;
    }
    raise(&engine.counters.monitor_wakes);
    // It may have sent the stand-in away when it fell asleep.
    engine.rule.standby.is_surely_ready() || reserve(engine, watch)
}

/// A task is over that ran with its producer lent; `back` if its thread goes on producing.
#[inline(always)]
fn came_back<P: Producer>(engine: &Engine<P, Choice>, class: usize, loan: u64, back: bool) {
    if !back {
        return;
    }
    if engine.cell.glance().loans == loan {
        engine.rule.learned.was_short(class);
    } else {
        // Somebody else has produced meanwhile.
        engine.rule.produces_here();
    }
}

/// Runs a task while its producer is lent: one frame in a profile.
#[inline(never)]
pub(super) fn late_execute_produce_consume<P: Producer>(engine: &Engine<P, Choice>, task: Task) {
    engine.run(task);
}
