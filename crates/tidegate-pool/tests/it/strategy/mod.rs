//! Strategies: one suite for all of them, then the rules of each.

mod adaptive;
mod busy_pool;
mod conformance;
mod dump;
mod ended_pool;
mod late;
#[path = "../../../../tidegate-testkit/shared/manual_executor.rs"]
mod manual_executor;
mod reserved;
mod rules;
mod stand_in;
mod stress;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tidegate_core::{ManualTicker, Rejected, Task, Ticker};
use tidegate_pool::strategy::{
    Adaptive, EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceConsume,
    ProduceExecuteConsume, Producer, Strategy,
};
use tidegate_pool::{TryExecutor, WorkerPool};
use tidegate_testkit::{Counter, DropCount, until};

pub(crate) use self::manual_executor::{ManualExecutor, elsewhere};

/// A producer type that all strategies can use.
pub(crate) type AnyProducer = Box<dyn FnMut() -> Option<Task> + Send>;

/// The strategies, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pc,
    Pec,
    Epc,
    Ewyk,
    Eager,
    Late,
}

pub(crate) const KINDS: [Kind; 6] = [
    Kind::Pc,
    Kind::Pec,
    Kind::Epc,
    Kind::Ewyk,
    Kind::Eager,
    Kind::Late,
];

/// A strategy of any kind, with the parts that the trait does not offer.
pub(crate) struct Made {
    pub(crate) strategy: Arc<dyn Strategy>,
    restart: Box<dyn Fn(AnyProducer) -> bool + Send + Sync>,
    /// The manual ticker of the monitor, if the strategy has one.
    pub(crate) steps: Option<ManualTicker>,
}

impl Made {
    pub(crate) fn restart(&self, producer: AnyProducer) -> bool {
        (self.restart)(producer)
    }
}

/// A producer that passes the tasks that the executor refused to a function.
struct WithHook(AnyProducer, Arc<dyn Fn(Rejected<Task>) + Send + Sync>);

impl Producer for WithHook {
    fn produce(&mut self) -> Option<Task> {
        self.0.produce()
    }

    fn refused(&mut self, refused: Rejected<Task>) {
        (self.1)(refused);
    }
}

/// Creates a strategy of any kind.
pub(crate) fn make(
    kind: Kind,
    producer: AnyProducer,
    pool: Arc<dyn TryExecutor>,
    on_refused: impl Fn(Rejected<Task>) + Send + Sync + 'static,
) -> Made {
    let hook: Arc<dyn Fn(Rejected<Task>) + Send + Sync> = Arc::new(on_refused);
    let producer = WithHook(producer, Arc::clone(&hook));
    macro_rules! made {
        ($strategy:expr, $steps:expr) => {{
            let strategy = $strategy;
            let again = strategy.clone();
            let restart = move |producer| again.restart(WithHook(producer, Arc::clone(&hook)));
            Made {
                strategy: Arc::new(strategy),
                restart: Box::new(move |producer| restart(producer).is_ok()),
                steps: $steps,
            }
        }};
    }
    match kind {
        Kind::Pc => made!(ProduceConsume::new(producer, pool), None),
        Kind::Pec => made!(ProduceExecuteConsume::new(producer, pool), None),
        Kind::Epc => made!(ExecuteProduceConsume::new(producer, pool), None),
        Kind::Ewyk => made!(EatWhatYouKill::new(producer, pool), None),
        Kind::Eager => made!(Adaptive::new(producer, pool), None),
        Kind::Late => {
            let (ticker, steps) = Ticker::manual();
            let monitor = Monitor::builder("test").ticker(ticker).build().unwrap();
            let builder = Adaptive::builder(producer, pool);
            made!(builder.late(&monitor).build(), Some(steps))
        }
    }
}

/// The executor on which a suite runs its strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A hand-driven executor that never has a thread at once.
    NoReserve,
    /// A hand-driven executor that has three threads at once.
    ReservedWorkers,
    /// The same, but the calling thread is tagged as non-blocking.
    Tagged,
    /// A worker pool of three threads.
    Pool,
}

/// The places in which the test itself drives the executor.
pub(crate) const BY_HAND: [Place; 3] = [Place::NoReserve, Place::ReservedWorkers, Place::Tagged];
pub(crate) const PLACES: [Place; 4] = [
    Place::NoReserve,
    Place::ReservedWorkers,
    Place::Tagged,
    Place::Pool,
];

/// One cell of the matrix: a strategy in a place, with a source of tasks.
pub(crate) struct Stage {
    /// The first field, so that it is dropped while the strategy still exists.
    _undo: Undo,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// The executor, except in a pool, where it only keeps the log.
    pub(crate) executor: Arc<ManualExecutor>,
    pool: Option<WorkerPool>,
    pub(crate) source: Source,
    pub(crate) made: Made,
    /// Tasks that `on_refused` received.
    pub(crate) refused: Counter,
}

impl Stage {
    pub(crate) fn new(kind: Kind, place: Place) -> Self {
        let source = Source::new();
        Self::over(kind, place, &source, source.producer())
    }

    /// Like `new`, with a producer that the test provides.
    pub(crate) fn over(kind: Kind, place: Place, source: &Source, producer: AnyProducer) -> Self {
        let executor = match place {
            Place::NoReserve => ManualExecutor::new(0),
            Place::ReservedWorkers | Place::Tagged | Place::Pool => ManualExecutor::new(3),
        };
        let pool = (place == Place::Pool).then(|| pool_of_three(&executor));
        let target: Arc<dyn TryExecutor> = match &pool {
            Some(pool) => Arc::new(pool.clone()),
            None => executor.clone(),
        };
        let (refused, counter) = Counter::pair();
        let on_refused = move |task| {
            drop(task);
            counter.hit();
        };
        let made = make(kind, producer, target, on_refused);
        Self {
            _undo: Undo(Arc::downgrade(&made.strategy), Arc::clone(&executor)),
            kind,
            place,
            made,
            executor,
            pool,
            source: source.clone(),
            refused,
        }
    }

    /// Waits until the executor has no work.
    pub(crate) fn settle(&self) {
        self.executor.settle();
        let is_busy = |pool: &WorkerPool| {
            let now = pool.metrics();
            now.busy + now.queued > 0
        };
        until("the pool is idle", || {
            !self.pool.as_ref().is_some_and(is_busy)
        });
    }

    pub(crate) fn strategy(&self) -> Arc<dyn Strategy> {
        Arc::clone(&self.made.strategy)
    }

    /// Calls `produce`, on a thread that is tagged if the place says so.
    pub(crate) fn produce(&self) {
        match self.place {
            Place::Tagged => tidegate_core::Blocking::forbid(|| self.made.strategy.produce()),
            _ => self.made.strategy.produce(),
        }
    }

    /// Calls `produce`, then waits until the executor has no work.
    pub(crate) fn produce_and_settle(&self) {
        self.produce();
        self.settle();
        // A stand-in is not a thread of the executor and may still be about to finish.
        until("no stand-in is left", || {
            let idle = self.kind != Kind::Late || self.made.strategy.is_idle();
            if !idle {
                self.settle();
            }
            idle
        });
        assert!(self.made.strategy.is_idle(), "{self}");
        assert_eq!(self.source.overlaps.count(), 0, "{self}");
    }
}

/// A queued helper holds the strategy, which holds the executor with the queue. A producer may hold
/// its strategy too. Dropping this value breaks both reference cycles.
struct Undo(Weak<dyn Strategy>, Arc<ManualExecutor>);

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(strategy) = self.0.upgrade() {
            strategy.shutdown();
        }
        self.1.drop_all();
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.made.strategy.metrics();
        write!(f, "{:?} at {:?}: {counts}", self.kind, self.place)
    }
}

/// Creates a pool that reports unhandled errors to the log of `executor`.
fn pool_of_three(executor: &Arc<ManualExecutor>) -> WorkerPool {
    let log = executor.unhandled.clone();
    let pool = WorkerPool::builder("workers")
        .core(3)
        .max(3)
        .reserved(3)
        .on_unhandled(move |_, what| log.push(what.to_string()))
        .build()
        .unwrap();
    pool.prestart();
    pool
}

/// Runs `test` for every strategy in every place.
#[track_caller]
pub(crate) fn everywhere(test: impl Fn(Stage)) {
    for kind in KINDS {
        for place in PLACES {
            test(Stage::new(kind, place));
        }
    }
}

/// Runs `test` for every strategy in every place that the test drives by hand.
#[track_caller]
pub(crate) fn by_hand(test: impl Fn(Stage)) {
    for kind in KINDS {
        for place in BY_HAND {
            test(Stage::new(kind, place));
        }
    }
}

/// A queue from which a producer takes tasks. It records which threads produce, and when.
#[derive(Clone)]
pub(crate) struct Source {
    queue: Arc<Mutex<VecDeque<Task>>>,
    inside: Arc<AtomicUsize>,
    /// Calls of `produce` that overlapped with another one.
    pub(crate) overlaps: Counter,
    /// Calls of `produce`.
    pub(crate) polls: Arc<AtomicUsize>,
    /// Tasks that have run.
    pub(crate) ran: Counter,
    /// Tasks that were dropped, after a run or without one.
    pub(crate) gone: Counter,
}

impl Source {
    pub(crate) fn new() -> Self {
        Self {
            queue: Arc::default(),
            inside: Arc::default(),
            overlaps: Counter::new(),
            polls: Arc::default(),
            ran: Counter::new(),
            gone: Counter::new(),
        }
    }

    pub(crate) fn push(&self, task: Task) {
        self.queue.lock().unwrap().push_back(task);
    }

    /// Adds a task of this kind that counts its run and its drop.
    pub(crate) fn add(&self, kind: tidegate_core::Blocking, run: impl FnOnce() + Send + 'static) {
        let (ran, end) = (self.ran.clone(), DropCount::new(&self.gone));
        self.push(Task::of(kind, move || {
            let _end = end;
            ran.hit();
            run();
        }));
    }

    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn next(&self) -> Option<Task> {
        if self.inside.fetch_add(1, Ordering::Relaxed) != 0 {
            // Recorded, not asserted: the strategy would catch the panic.
            self.overlaps.hit();
        }
        self.polls.fetch_add(1, Ordering::Relaxed);
        let task = self.queue.lock().unwrap().pop_front();
        self.inside.fetch_sub(1, Ordering::Relaxed);
        task
    }

    pub(crate) fn producer(&self) -> AnyProducer {
        let source = self.clone();
        Box::new(move || source.next())
    }
}
