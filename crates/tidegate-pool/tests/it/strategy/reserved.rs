//! Late hand-over with a reserved stand-in for each loan, and what happens if none is available;
//! with a hand-driven executor and on real pools.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{Blocking, Task, ThreadBuilder, Ticker};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{Adaptive, Monitor, Producer, Strategy};
use tidegate_testkit::{DropCount, Gate, Log, until};

use super::late::{Late, QUIET, TICK, late, late_by};
use super::{ManualExecutor, Source, elsewhere};

/// Adds a task that runs `act` and then blocks until a later one, which never blocks, has run.
fn block_until_it_goes_on(late: &Late, act: impl FnOnce() + Send + 'static) {
    let (went_on, until) = Gate::pair();
    late.add(move || {
        act();
        until.wait();
    });
    late.source.add(Blocking::Never, move || went_on.open());
}

/// Returns a spawner that fails while `broken` is set, and counts the attempts.
fn refused(broken: &Arc<AtomicBool>, asked: &Arc<AtomicUsize>) -> ThreadBuilder {
    let (broken, asked) = (Arc::clone(broken), Arc::clone(asked));
    ThreadBuilder::new("stand-in").spawner(move |job: ThreadJob| {
        asked.fetch_add(1, Ordering::Relaxed);
        if broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("no more threads"));
        }
        let name = job.name().to_owned();
        let thread = thread::Builder::new().name(name);
        thread.spawn(move || job.run()).map(drop)
    })
}

#[test]
fn strategies_that_counted_on_the_same_thread_all_go_on() {
    let one = late(1);
    let (executor, source) = (one.executor.clone(), Source::new());
    let other = Adaptive::builder(source.producer(), executor.clone());
    let other = other.late(&one.monitor).build();
    // Both tasks run, and see one idle thread, before the monitor's scan.
    let (both, go_on) = (Gate::new(), Gate::new());
    let (opens, until, went_on) = (both.clone(), go_on.clone(), Log::new());
    source.add(Blocking::May, move || {
        opens.open();
        until.wait();
    });
    let (notified, opens) = (went_on.clone(), go_on.clone());
    source.add(Blocking::Never, move || {
        notified.push("other");
        opens.open();
    });
    let (steps, own) = (one.steps.clone(), executor.clone());
    block_until_it_goes_on(&one, move || {
        both.wait();
        steps.tick(TICK);
        steps.tick(TICK);
        while own.run_reserved() {}
    });
    one.source.add(Blocking::Never, went_on.pushes("one"));
    let driver = {
        let other = other.clone();
        ThreadBuilder::new("driver").spawn(move || other.produce())
    };
    one.strategy.produce();
    assert!(driver.unwrap().join().unwrap());
    went_on.wait_for(2);
    assert!(executor.unhandled.is_empty(), "{:?}", executor.unhandled);
    let (one, other) = (one.strategy.metrics(), other.metrics());
    assert_eq!(one.late_epc + other.late_epc, 2, "{one}; {other}");
    assert_eq!(one.stand_ins + other.stand_ins, 1, "{one}; {other}");
}

#[test]
fn a_stand_in_is_reserved_once_and_kept_while_it_is_not_needed() {
    let late = late(1);
    let second = Adaptive::builder(late.source.producer(), late.executor.clone());
    let second = second.late(&late.monitor).build();
    assert_eq!(late.monitor.stand_ins(), 0, "none before the first loan");
    for _ in 0..5 {
        late.add(|| ());
        late.strategy.produce();
        late.add(|| ());
        second.produce();
    }
    assert_eq!(late.monitor.stand_ins(), 2, "one each");
    // While the monitor sleeps, it keeps them for any strategy.
    late.steps.tick(TICK);
    late.steps.tick(QUIET);
    assert!(late.monitor.is_asleep());
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.strategy.metrics().monitor_wakes, 1);
    assert_eq!(late.monitor.stand_ins(), 2);
    late.monitor.shutdown();
    until("no stand-in is left", || late.monitor.stand_ins() == 0);
}

#[test]
fn without_a_stand_in_a_task_that_may_block_does_not_run_here() {
    let (broken, asked) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let monitor = Monitor::builder("test").threads(refused(&broken, &asked));
    let late = late_by(0, monitor);
    // Run here, the task would wait for ever: no thread could take over.
    block_until_it_goes_on(&late, || ());
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.source.ran.count(), 1, "the one that never blocks");
    let counts = late.strategy.metrics();
    assert_eq!((counts.pec, counts.without_stand_in), (2, 2), "{counts}");
    assert_eq!(counts.lent, 0, "{counts}");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "once between two scans");
    // With an idle thread, the producer goes there at once, as without a monitor.
    late.executor.settle();
    late.executor.set_reserve(1);
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.strategy.metrics().epc, 1);
    late.executor.settle();
    // And late again, after the system has threads again and the monitor has scanned.
    broken.store(false, Ordering::Relaxed);
    late.steps.tick(TICK);
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.strategy.metrics().lent, 1);
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
}

/// Stops its monitor between the check whether the monitor runs and the loan.
struct StopsIt {
    source: Source,
    monitor: Monitor,
}

impl Producer for StopsIt {
    fn produce(&mut self) -> Option<Task> {
        self.source.next()
    }

    fn backlog(&self) -> usize {
        self.monitor.shutdown();
        0
    }
}

#[test]
fn a_monitor_that_stops_before_a_loan_is_not_counted_on() {
    if tidegate_core::internal::usable_cpus() == 1 {
        // The strategy does not read the backlog then, which is the moment that this test needs.
        return;
    }
    for threads in [0, 1] {
        let (ticker, _steps) = Ticker::manual();
        let monitor = Monitor::builder("test").ticker(ticker).build().unwrap();
        let (executor, source) = (ManualExecutor::new(threads), Source::new());
        let producer = StopsIt {
            source: source.clone(),
            monitor: monitor.clone(),
        };
        let strategy = Adaptive::builder(producer, executor.clone());
        let strategy = strategy.late(&monitor).build();
        let went_on = Gate::new();
        let (until, own) = (went_on.clone(), executor.clone());
        source.add(Blocking::May, move || {
            own.run_reserved();
            until.wait();
        });
        source.add(Blocking::Never, move || went_on.open());
        strategy.produce();
        executor.settle();
        assert_eq!(source.ran.count(), 2);
        assert!(executor.unhandled.is_empty(), "{:?}", executor.unhandled);
        let counts = strategy.metrics();
        assert!(!monitor.is_running());
        let expected = (0, threads as u64, 1 - threads as u64);
        assert_eq!((counts.lent, counts.epc, counts.pec), expected);
    }
}

#[test]
fn a_monitor_that_stops_in_a_task_leaves_it_a_stand_in() {
    let late = late(1);
    let (monitor, executor) = (late.monitor.clone(), late.executor.clone());
    block_until_it_goes_on(&late, move || {
        executor.set_reserve(0);
        monitor.shutdown();
    });
    late.strategy.produce();
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    assert_eq!(late.source.ran.count(), 2);
    assert_eq!(late.strategy.metrics().stand_ins, 1);
    until("no stand-in is left", || late.monitor.stand_ins() == 0);
}

/// A pool whose reserve stays empty, or for which the system cannot start threads: the first task
/// that blocks does not stop production.
#[test]
fn a_pool_that_gives_no_thread_at_once_does_not_stop_production() {
    for system_refuses in [false, true] {
        let (broken, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let pool = WorkerPool::builder("workers").core(1).max(4).reserved(0);
        let pool = pool.threads(refused(&broken, &asked)).build().unwrap();
        pool.prestart();
        broken.store(system_refuses, Ordering::Relaxed);
        let (ticker, steps) = Ticker::manual();
        let monitor = Monitor::builder("test").ticker(ticker).build().unwrap();
        let source = Source::new();
        let strategy = Adaptive::builder(source.producer(), Arc::new(pool.clone()));
        let strategy = strategy.late(&monitor).build();
        let (blocked, went_on) = (Gate::new(), Gate::new());
        let (here, until) = (blocked.clone(), went_on.clone());
        source.add(Blocking::May, move || {
            here.open();
            until.wait();
        });
        source.add(Blocking::Never, move || went_on.open());
        strategy.dispatch().unwrap();
        blocked.wait();
        steps.tick(TICK);
        steps.tick(TICK);
        source.gone.wait_for(2);
        assert_eq!(source.ran.count(), 2);
        let counts = strategy.metrics();
        assert_eq!((counts.lent, counts.stand_ins), (1, 1), "{counts}");
    }
}

#[test]
fn a_program_with_few_tasks_is_not_polled_for() {
    let (ticker, steps) = Ticker::manual();
    let monitor = Monitor::builder("test").ticker(ticker).build().unwrap();
    let (executor, source) = (ManualExecutor::new(1), Source::new());
    let strategy = Adaptive::builder(source.producer(), executor.clone());
    let strategy = strategy.late(&monitor).build();
    let tick = TICK * 2;
    for _ in 0..10 {
        source.add(Blocking::May, || ());
        strategy.produce();
        // A tenth of a second.
        (0..800).for_each(|_| steps.tick(tick));
    }
    assert_eq!(strategy.metrics().lent, 10);
    assert!(monitor.scans() < 500, "{}", monitor.scans());
}

#[test]
fn a_producer_that_no_thread_can_take_is_not_polled_for() {
    let late = late_by(0, Monitor::builder("test").stand_ins(0));
    late.executor.refuse(true);
    late.source.add(Blocking::Never, || ());
    assert!(late.strategy.dispatch().is_err());
    // Three seconds.
    let tick = TICK * 2;
    (0..25_000).for_each(|_| late.steps.tick(tick));
    let scans = late.monitor.scans();
    assert!(scans < 1_000, "{scans}");
    // The monitor still scans it, and gives it a thread once there is one.
    late.executor.refuse(false);
    late.executor.set_reserve(1);
    (0..2_000).for_each(|_| late.steps.tick(tick));
    late.executor.settle();
    assert_eq!(late.source.ran.count(), 1);
}

/// A user's producer that blocks when it is dropped.
struct BlocksInDrop {
    dropping: Gate,
    go_on: Gate,
    _gone: DropCount,
}

impl Drop for BlocksInDrop {
    fn drop(&mut self) {
        self.dropping.open();
        self.go_on.wait();
    }
}

#[test]
fn a_strategy_that_ends_during_a_look_does_not_hold_the_monitor() {
    let late = late(1);
    let (dropping, go_on) = (Gate::new(), Gate::new());
    let gone = tidegate_testkit::Counter::new();
    let own = BlocksInDrop {
        dropping: dropping.clone(),
        go_on: go_on.clone(),
        _gone: DropCount::new(&gone),
    };
    let producer = move || {
        let _own = &own;
        None
    };
    // The monitor calls this strategy's pool at each scan while it holds a reference to the
    // strategy. The handle is dropped meanwhile, so the monitor has the last reference.
    let (asked, handle) = (Gate::new(), Arc::new(std::sync::Mutex::new(None)));
    let drops = Arc::clone(&handle);
    let pool = Arc::new(DropsIt {
        executor: ManualExecutor::new(1),
        drop_it: Box::new(move || {
            drop(drops.lock().unwrap().take());
            asked.open();
        }),
    });
    let strategy = Adaptive::builder(producer, pool.clone());
    *handle.lock().unwrap() = Some(strategy.late(&late.monitor).build());
    late.steps.tick(TICK);
    dropping.wait();
    // The monitor continues scanning.
    let scans = late.monitor.scans();
    late.steps.tick(TICK);
    assert_eq!(late.monitor.scans(), scans + 1);
    go_on.open();
    gone.wait_for(1);
}

/// A pool that runs `drop_it` when its `finished_jobs` is read.
struct DropsIt {
    executor: Arc<ManualExecutor>,
    drop_it: Box<dyn Fn() + Send + Sync>,
}

impl tidegate_core::Executor for DropsIt {
    fn execute(&self, task: Task) -> Result<(), tidegate_core::Rejected<Task>> {
        self.executor.execute(task)
    }

    fn signal(
        &self,
        signal: tidegate_core::executor::Signal,
    ) -> Result<(), tidegate_core::Rejected<tidegate_core::executor::Signal>> {
        self.executor.signal(signal)
    }

    fn is_current(&self) -> bool {
        self.executor.is_current()
    }

    fn id(&self) -> tidegate_core::executor::ExecutorId {
        self.executor.id()
    }

    fn name(&self) -> &str {
        "drops"
    }

    fn clock(&self) -> &tidegate_core::Clock {
        self.executor.clock()
    }

    fn unhandled(&self, what: &tidegate_core::Unhandled<'_>) {
        self.executor.unhandled(what);
    }
}

impl tidegate_pool::Headroom for DropsIt {
    fn free_threads(&self) -> tidegate_pool::FreeThreads {
        self.executor.free_threads()
    }

    fn finished_jobs(&self) -> u64 {
        (self.drop_it)();
        self.executor.finished_jobs()
    }
}

impl tidegate_pool::TryExecutor for DropsIt {
    fn try_execute(&self, task: Task) -> Result<(), tidegate_core::Rejected<Task>> {
        self.executor.try_execute(task)
    }
}

/// A task whose helper has found nothing and left requests a round, and waits for it.
#[test]
fn demand_from_inside_a_task_brings_a_thread_when_no_thread_produces() {
    use super::{KINDS, Kind, Place, Stage};
    for kind in KINDS {
        let stage = Stage::new(kind, Place::ReservedWorkers);
        let (executor, source, strategy) = (
            stage.executor.clone(),
            stage.source.clone(),
            stage.strategy(),
        );
        let steps = stage.made.steps.clone();
        let (log, notified) = Log::pair();
        stage.source.add(Blocking::May, move || {
            // The helper arrives, finds nothing, and leaves.
            for steps in std::iter::repeat_n(steps.iter(), 2).flatten() {
                steps.tick(TICK);
            }
            executor.settle();
            let ran = source.ran.count();
            source.add(Blocking::Never, || ());
            strategy.produce();
            elsewhere(|| executor.settle());
            notified.push(source.ran.count() - ran);
        });
        stage.produce_and_settle();
        // A strategy that runs tasks on the producing thread checks again after the task.
        let expected = u64::from(kind != Kind::Pc);
        assert_eq!(log.take(), [expected], "{stage}");
        assert_eq!(stage.source.ran.count(), 2, "{stage}");
        assert!(stage.executor.unhandled.is_empty(), "{stage}");
    }
}
