//! Roaming loops: what drives them is a strategy over a pool.
//!
//! The loop's core is a [`Producer`]: it lies in the strategy's cell, and whichever thread of the pool
//! takes it out is the loop's until it lends it or has to end. See `core/hand_out.rs` for what
//! runs where.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{
    Blocking, Clock, Executor, ExecutorId, Refusal, Rejected, Signal, Task, Unhandled, non_blocking,
};
use tidegate_pool::internal::Interrupt;
use tidegate_pool::{
    Adaptive, Headroom, Lease, Monitor, Options, OverBudget, ProduceExecuteConsume, Producer, Room,
    Strategy, TryExecutor,
};
use tidegate_promise::Completion;

use crate::core::hand_out::Produced;
use crate::core::turn::Drive;
use crate::handle::event_loop::EventLoop;
use crate::handle::placement::{Placement, Roaming};
use crate::schedule::scheduled_task as schedule;
use crate::shutdown::steps::announce;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

/// The threads that drive roaming loops: a pool, and a monitor if the loops hand over late.
///
/// A loop keeps one thread of the pool for as long as it has something to wait for: have as many
/// more threads as tasks may block at a time. With a monitor, tasks run as long as one thread of the
/// pool is not blocked, and loops go on when all of them are.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_loop::{Crew, EventLoop, ParkDriver};
/// use tidegate_pool::{Monitor, WorkerPool};
///
/// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
/// let crew = Crew::of(pool).late(&Monitor::start("io")?);
/// let home = EventLoop::builder("home").build_over(ParkDriver::new(), &crew)?;
/// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Crew {
    pool: Arc<dyn TryExecutor>,
    monitor: Option<Monitor>,
    only_produce: bool,
    by_hand: bool,
}

impl Crew {
    /// The threads of `pool`; loops hand over eagerly.
    pub fn of(pool: Arc<dyn TryExecutor>) -> Self {
        Self {
            pool,
            monitor: None,
            only_produce: false,
            by_hand: false,
        }
    }

    /// Lets loops hand over late, with `monitor` watching.
    pub fn late(mut self, monitor: &Monitor) -> Self {
        self.monitor = Some(monitor.clone());
        self
    }

    /// Lets a loop's thread only produce: each task that may block goes to the pool, whatever the
    /// monitor says. The strategy is [`ProduceExecuteConsume`] instead of [`Adaptive`]: nothing is
    /// ever held up by the task before it, and every task costs a hand-over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_loop::{Crew, EventLoop, ParkDriver};
    /// use tidegate_pool::WorkerPool;
    ///
    /// let pool = Arc::new(WorkerPool::builder("workers").max(4).build()?);
    /// let crew = Crew::of(pool).only_produce();
    /// let home = EventLoop::builder("home").build_over(ParkDriver::new(), &crew)?;
    /// assert_eq!(home.submit(|| 1 + 1)?.wait()?, 2);
    /// assert_eq!(home.strategy().unwrap().name(), "ProduceExecuteConsume");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_produce(mut self) -> Self {
        self.only_produce = true;
        self
    }

    /// Never waits in a loop: whoever calls [`Strategy::produce`] of
    /// [`EventLoop::strategy`](crate::EventLoop::strategy) gets its thread back when there is
    /// nothing to do. For tests.
    pub fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// A strategy that drives the loop of `shared`.
    pub(crate) fn drive(&self, shared: &Arc<Shared>) -> Result<Arc<dyn Strategy>, OverBudget> {
        let producer = Roamer {
            shared: Arc::downgrade(shared),
            driving: None,
            by_hand: self.by_hand,
        };
        // It waits inside, and so keeps a thread. The adaptive strategy says when it does.
        let leased = self.only_produce && !self.by_hand;
        let lease = match leased {
            true => self.pool.lease_threads(&shared.name, 1)?,
            false => None,
        };
        let pool = Arc::new(OfLoop {
            pool: Arc::clone(&self.pool),
            shared: Arc::downgrade(shared),
            _lease: lease,
        });
        let weak = Arc::downgrade(shared);
        let options = Options::new().on_refused(move |refused| {
            let driver = |shared: Arc<Shared>| {
                let of_driver = &shared.out.driver;
                of_driver.load(std::sync::atomic::Ordering::Relaxed)
            };
            // The driver's comes back to it. A submitted one was accepted and is not lost: it
            // runs here, where it must not block, unless nothing runs any more.
            if refused.why() == Refusal::Closed || weak.upgrade().is_none_or(driver) {
                drop(refused);
            } else {
                non_blocking(|| refused.into_inner().run());
            }
        });
        if self.only_produce {
            let strategy = ProduceExecuteConsume::with(producer, pool, options);
            return Ok(Arc::new(strategy));
        }
        let builder = Adaptive::builder(producer, pool).options(options);
        let builder = match &self.monitor {
            Some(monitor) => builder.late(monitor),
            None => builder,
        };
        let builder = match self.by_hand {
            true => builder,
            false => builder.lease(&shared.name)?,
        };
        Ok(Arc::new(builder.interrupt(interrupt(shared)).build()))
    }
}

/// Brings a loop's thread out of its wait, with a task that does nothing.
fn interrupt(shared: &Arc<Shared>) -> Interrupt {
    let weak = Arc::downgrade(shared);
    Box::new(move || {
        let Some(shared) = weak.upgrade() else {
            return;
        };
        let task = Task::of(Blocking::Adapts, || ());
        // With a full lane it has something to come out for.
        if shared.state.get() < Lifecycle::ShuttingDown && shared.lane.push(task).is_ok() {
            shared.ring();
        }
    })
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew")
            .field("pool", &self.pool.name())
            .field("late", &self.monitor.is_some())
            .field("only_produce", &self.only_produce)
            .finish()
    }
}

impl EventLoop<Roaming> {
    /// The strategy that drives this loop; `None` if it has a thread of its own.
    pub fn strategy(&self) -> Option<Arc<dyn Strategy>> {
        self.shared.strategy()
    }
}

impl<P: Placement> EventLoop<P> {
    /// The loop's timers, for whoever must not keep the loop running.
    pub fn timers(&self) -> LoopTimers {
        LoopTimers {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// The timers of a loop. Unlike a handle it does not keep the loop running.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// let timers = home.timers();
/// assert_eq!(timers.schedule(Duration::from_millis(1), || 7)?.wait()?, 7);
/// drop(home);
/// assert!(timers.schedule(Duration::ZERO, || 7).is_err(), "it is on its way out");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LoopTimers {
    shared: Arc<Shared>,
}

impl LoopTimers {
    /// Runs `run` once on the loop, `after` from now; see [`EventLoop::schedule`].
    ///
    /// # Errors
    ///
    /// The closure, when the loop is shutting down.
    pub fn schedule<T, F>(&self, after: Duration, run: F) -> Result<Completion<T>, Rejected<F>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let shared = &self.shared;
        if shared.state.get() >= Lifecycle::ShuttingDown {
            return Err(Rejected::new(run, Refusal::Closed));
        }
        if shared.state.needs_thread()
            && let Err(why) = shared.start()
        {
            return Err(Rejected::new(run, why));
        }
        Ok(schedule::once(shared, after, run))
    }
}

impl fmt::Debug for LoopTimers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoopTimers")
            .field(&self.shared.name)
            .finish()
    }
}

/// A loop as a producer. Between two threads, and before the first, it has only the way to it.
struct Roamer {
    shared: Weak<Shared>,
    driving: Option<(Arc<Shared>, Box<dyn Drive>)>,
    by_hand: bool,
}

impl Roamer {
    fn begin(&mut self) -> Option<()> {
        let shared = self.shared.upgrade()?;
        shared.arrive(None);
        let mut core = *shared.core.take()?;
        core.begin_producing(&shared, self.by_hand);
        self.driving = Some((shared, core));
        Some(())
    }
}

impl Producer for Roamer {
    fn produce(&mut self) -> Option<Task> {
        loop {
            let Some((shared, core)) = &mut self.driving else {
                self.begin()?;
                continue;
            };
            match core.produce(shared) {
                Produced::Task(task) => return Some(task),
                Produced::Nothing => return None,
                Produced::Leave => {
                    let (shared, core) = self.driving.take()?;
                    drop(shared.core.put(Box::new(core)));
                    if !shared.suspend_or_drive_on() {
                        return None;
                    }
                }
                Produced::Over => {
                    let (shared, core) = self.driving.take()?;
                    drop(core);
                    announce(&shared);
                    return None;
                }
            }
        }
    }

    fn backlog(&self) -> usize {
        self.driving.as_ref().map_or(0, |(_, core)| core.backlog())
    }
}

/// The pool, as a loop's strategy sees it: what nobody handles is the loop's to hear.
struct OfLoop {
    pool: Arc<dyn TryExecutor>,
    shared: Weak<Shared>,
    /// For the thread that the loop keeps, unless its strategy has it.
    _lease: Option<Lease>,
}

impl Executor for OfLoop {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.pool.execute(task)
    }

    fn execute_internal(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.pool.execute_internal(task)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.pool.signal(signal)
    }

    fn is_current(&self) -> bool {
        self.pool.is_current()
    }

    fn id(&self) -> ExecutorId {
        self.pool.id()
    }

    fn name(&self) -> &str {
        self.pool.name()
    }

    fn clock(&self) -> &Clock {
        self.pool.clock()
    }

    fn width(&self) -> usize {
        self.pool.width()
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        match self.shared.upgrade() {
            Some(shared) => {
                if let Unhandled::TaskPanic { .. } = what {
                    shared.counters.panics.add(1);
                }
                shared.unhandled(what);
            }
            None => self.pool.unhandled(what),
        }
    }
}

impl Headroom for OfLoop {
    fn room(&self) -> Room {
        self.pool.room()
    }

    fn has_thread(&self) -> bool {
        self.pool.has_thread()
    }

    fn moves(&self) -> u64 {
        self.pool.moves()
    }

    fn waiting(&self) -> usize {
        self.pool.waiting()
    }
}

impl TryExecutor for OfLoop {
    fn try_execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.pool.try_execute(task)
    }

    fn lease_threads(&self, who: &str, threads: usize) -> Result<Option<Lease>, OverBudget> {
        self.pool.lease_threads(who, threads)
    }
}
