//! Late hand-over: each scenario of the README beside the code has a test of its name.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tidegate_core::{Blocking, ManualTicker, Task, Ticker};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{Adaptive, Monitor, MonitorBuilder, Producer, Strategy};
use tidegate_testkit::{Gate, Log};

use super::{AnyProducer, ManualExecutor, Source};

pub(super) const TICK: Duration = Duration::from_micros(60);
pub(super) const QUIET: Duration = Duration::from_millis(100);

/// A strategy with late hand-over, its hand-driven pool, and its monitor's manual ticker.
pub(super) struct Late {
    pub(super) executor: Arc<ManualExecutor>,
    pub(super) source: Source,
    pub(super) strategy: Adaptive<AnyProducer>,
    pub(super) monitor: Monitor,
    pub(super) steps: ManualTicker,
}

pub(super) fn late(reserve: usize) -> Late {
    late_by(reserve, Monitor::builder("test"))
}

/// Like `late`, with a monitor that the test configures.
pub(super) fn late_by(reserve: usize, monitor: MonitorBuilder) -> Late {
    let (ticker, steps) = Ticker::manual();
    let monitor = monitor.quiet(QUIET).ticker(ticker).build().unwrap();
    let (executor, source) = (ManualExecutor::new(reserve), Source::new());
    let strategy = Adaptive::builder(source.producer(), executor.clone())
        .late(&monitor)
        .build();
    Late {
        executor,
        source,
        strategy,
        monitor,
        steps,
    }
}

impl Late {
    /// Adds a task that may block and runs `act`.
    pub(super) fn add(&self, act: impl FnOnce() + Send + 'static) {
        self.source.add(Blocking::May, act);
    }
}

#[test]
fn a_short_task_wakes_no_thread() {
    let late = late(3);
    (0..50).for_each(|_| late.add(|| ()));
    late.strategy.produce();
    let counts = late.strategy.metrics();
    assert_eq!((counts.lent, counts.tasks()), (50, 50));
    assert_eq!((late.executor.tried(), late.executor.queued()), (0, 0));
    assert_eq!((counts.helpers, counts.late_epc), (0, 0));
    assert!(late.strategy.is_idle());
}

#[test]
fn a_stuck_task_loses_the_producer_at_the_second_look() {
    let late = late(2);
    let (here, log) = (thread::current().id(), Log::new());
    let (steps, executor, source) = (
        late.steps.clone(),
        late.executor.clone(),
        late.source.clone(),
    );
    late.add(move || {
        steps.tick(TICK);
        assert_eq!(executor.reserved_jobs(), 0, "one look proves nothing");
        steps.tick(TICK);
        assert_eq!(executor.reserved_jobs(), 1);
        steps.tick(TICK);
        assert_eq!(executor.reserved_jobs(), 1, "one helper is enough");
        assert!(executor.run_reserved());
        assert_eq!(source.ran.count(), 3, "the others ran meanwhile");
    });
    for _ in 0..2 {
        let log = log.clone();
        late.add(move || log.push(thread::current().id() == here));
    }
    late.strategy.produce();
    assert_eq!(log.take(), [false, false]);
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    let counts = late.strategy.metrics();
    assert_eq!((counts.lent, counts.late_epc), (3, 1));
    assert!(late.strategy.is_idle());
}

#[test]
fn a_producer_that_moves_between_two_looks_is_left_alone() {
    let late = late(3);
    for _ in 0..20 {
        let steps = late.steps.clone();
        late.add(move || steps.tick(TICK));
    }
    late.strategy.produce();
    assert_eq!(
        (late.executor.tried(), late.strategy.metrics().late_epc),
        (0, 0)
    );
    assert_eq!(late.strategy.metrics().lent, 20);
}

#[test]
fn with_no_thread_of_the_pool_a_stand_in_takes_the_producer() {
    let late = late(1);
    let (steps, executor, went_on) = (late.steps.clone(), late.executor.clone(), Gate::new());
    let until = went_on.clone();
    late.add(move || {
        executor.set_reserve(0); // lost since the producer was lent
        steps.tick(TICK);
        assert!(!until.is_open(), "one look proves nothing");
        steps.tick(TICK);
        until.wait();
    });
    late.source.add(Blocking::Never, move || went_on.open());
    late.strategy.produce();
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    let counts = late.strategy.metrics();
    assert_eq!((counts.no_pool_thread, counts.late_epc), (1, 1), "{counts}");
    assert_eq!(counts.stand_ins, 1, "{counts}");
    assert_eq!(late.source.ran.count(), 2);
}

#[test]
fn a_helper_that_finds_the_producer_taken_ends() {
    let late = late(1);
    let steps = late.steps.clone();
    late.add(move || {
        steps.tick(TICK);
        steps.tick(TICK);
    });
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(
        late.executor.reserved_jobs(),
        1,
        "it was sent, and the task ended first"
    );
    late.executor.settle();
    let counts = late.strategy.metrics();
    assert_eq!((counts.idle_helpers, counts.late_epc), (1, 0));
    assert_eq!(late.source.ran.count(), 2);
}

#[test]
fn the_first_such_task_after_a_quiet_time_wakes_the_monitor() {
    let late = late(1);
    late.steps.tick(QUIET / 2);
    assert!(!late.monitor.is_asleep());
    late.steps.tick(QUIET / 2);
    assert!(late.monitor.is_asleep());
    late.steps.tick(TICK);
    late.steps.tick(TICK);
    let scans = late.monitor.scans();

    let (monitor, steps, executor) = (
        late.monitor.clone(),
        late.steps.clone(),
        late.executor.clone(),
    );
    late.add(move || {
        assert!(!monitor.is_asleep(), "no such task runs with it asleep");
        steps.tick(TICK);
        steps.tick(TICK);
        assert_eq!(monitor.scans(), scans + 2);
        assert!(executor.run_reserved());
    });
    (0..5).for_each(|_| late.add(|| ()));
    late.strategy.produce();
    assert!(late.executor.unhandled.is_empty());
    let counts = late.strategy.metrics();
    assert_eq!((counts.monitor_wakes, counts.late_epc), (1, 1));
    assert_eq!(late.monitor.sleeps(), 1);
}

#[test]
fn the_monitor_stays_awake_while_such_tasks_run() {
    let late = late(1);
    for _ in 0..10 {
        late.add(|| ());
        late.strategy.produce();
        late.steps.tick(QUIET / 2);
    }
    assert_eq!(
        (late.monitor.sleeps(), late.strategy.metrics().monitor_wakes),
        (0, 0)
    );
    late.steps.tick(QUIET / 2);
    late.steps.tick(QUIET / 2);
    assert!(late.monitor.is_asleep());
}

#[test]
fn tasks_that_never_block_do_not_keep_the_monitor_awake() {
    let late = late(1);
    late.steps.tick(QUIET);
    assert!(late.monitor.is_asleep());
    late.source.add(Blocking::Never, || ());
    late.strategy.produce();
    assert!(late.monitor.is_asleep());
    assert_eq!(late.strategy.metrics().monitor_wakes, 0);
}

#[test]
fn a_task_known_to_be_long_gets_a_thread_at_once() {
    let late = late(2);
    let (executor, log) = (late.executor.clone(), Log::new());
    late.source
        .push(Task::long(move || assert!(executor.run_reserved())));
    late.add(log.pushes("meanwhile"));
    late.strategy.produce();
    let counts = late.strategy.metrics();
    assert_eq!((counts.epc, counts.lent, log.len()), (1, 1, 1));
    assert!(late.executor.unhandled.is_empty());
}

/// Runs one task of a class: it is taken over while it runs (`slow`), or it is short.
fn visit(late: &Late, slow: bool) {
    let (steps, executor) = (late.steps.clone(), late.executor.clone());
    late.source.push(Task::new(move || {
        if slow {
            steps.tick(TICK);
            steps.tick(TICK);
            executor.run_reserved();
        }
    }));
    late.strategy.produce();
    late.executor.settle();
}

#[test]
fn a_class_that_was_taken_over_twice_gets_a_thread_at_once_until_it_is_short_again() {
    let late = late(1);
    visit(&late, true);
    visit(&late, true);
    let counts = late.strategy.metrics();
    assert_eq!((counts.lent, counts.late_epc, counts.epc), (2, 2, 0));
    visit(&late, true);
    assert_eq!(late.strategy.metrics().epc, 1, "known by now");
    visit(&late, false);
    visit(&late, false);
    visit(&late, false);
    let counts = late.strategy.metrics();
    assert!(counts.lent > 2, "short again: {counts}");
}

struct Backlog(Source, usize);

impl Producer for Backlog {
    fn produce(&mut self) -> Option<Task> {
        self.0.next()
    }

    fn backlog(&self) -> usize {
        self.1
    }
}

#[test]
fn work_that_waits_while_a_processor_is_idle_brings_a_thread() {
    for waiting in [0, 1] {
        let (ticker, _steps) = Ticker::manual();
        let monitor = Monitor::builder("test").ticker(ticker).build().unwrap();
        let (executor, source) = (ManualExecutor::new(1), Source::new());
        let producer = Backlog(source.clone(), waiting);
        let strategy = Adaptive::builder(producer, executor.clone())
            .late(&monitor)
            .build();
        source.add(Blocking::May, || ());
        strategy.produce();
        let counts = strategy.metrics();
        let brought = waiting as u64 * u64::from(tidegate_core::internal::usable_cpus() > 1);
        assert_eq!((counts.epc, counts.lent), (brought, 1 - brought));
        assert_eq!(executor.reserved_jobs() as u64, brought);
        executor.drop_all();
    }
}

#[test]
fn with_its_monitor_stopped_it_hands_over_eagerly() {
    let late = late(1);
    late.monitor.shutdown();
    late.add(|| ());
    late.strategy.produce();
    let counts = late.strategy.metrics();
    assert_eq!((counts.epc, counts.lent), (1, 0));
    late.executor.drop_all();
}

#[test]
fn a_stopped_monitor_submits_a_lent_producer() {
    let late = late(1);
    let (monitor, executor) = (late.monitor.clone(), late.executor.clone());
    late.add(move || {
        monitor.shutdown();
        assert!(executor.run_reserved());
    });
    late.add(|| ());
    late.strategy.produce();
    assert_eq!(late.strategy.metrics().late_epc, 1);
    assert!(late.executor.unhandled.is_empty());
}

#[test]
fn a_monitor_watches_any_number_of_strategies_and_forgets_them() {
    let late = late(2);
    let (source, executor) = (Source::new(), ManualExecutor::new(1));
    let second = Adaptive::builder(source.producer(), executor.clone())
        .late(&late.monitor)
        .build();
    let (steps, own) = (late.steps.clone(), executor.clone());
    source.add(Blocking::May, move || {
        steps.tick(TICK);
        steps.tick(TICK);
        assert!(own.run_reserved());
    });
    second.produce();
    assert_eq!(second.metrics().late_epc, 1);
    assert_eq!(
        late.executor.tried(),
        0,
        "the other strategy's pool is not used"
    );
    assert!(second.shutdown());
    drop(second);
    late.steps.tick(TICK);
    assert_eq!(
        Arc::strong_count(&executor),
        1,
        "nothing keeps the second one's pool"
    );
}

#[test]
fn a_dispatch_without_a_helper_is_found_by_the_monitor() {
    let late = late(1);
    // Even if the last loan was given away once: that helper has arrived and left.
    let (steps, executor) = (late.steps.clone(), late.executor.clone());
    late.add(move || {
        steps.tick(TICK);
        steps.tick(TICK);
        assert!(executor.run_reserved());
    });
    late.strategy.produce();
    assert_eq!(late.strategy.metrics().late_epc, 1);
    late.executor.refuse(true);
    late.source.add(Blocking::Never, || ());
    assert!(late.strategy.dispatch().is_err());
    late.executor.refuse(false);
    late.steps.tick(TICK);
    late.steps.tick(TICK);
    late.executor.settle();
    assert_eq!(late.source.ran.count(), 2);
}

#[test]
fn a_task_taken_over_twice_is_still_run_by_one() {
    // Two threads run lent tasks at once. The producer moves from the first to the second, and from
    // the second to a third.
    let late = late(3);
    let (gate, steps, executor) = (Gate::new(), late.steps.clone(), late.executor.clone());
    let opened = gate.clone();
    late.add(move || {
        steps.tick(TICK);
        steps.tick(TICK);
        assert!(executor.run_reserved());
        opened.wait();
    });
    let (steps, executor) = (late.steps.clone(), late.executor.clone());
    late.add(move || {
        steps.tick(TICK);
        steps.tick(TICK);
        assert!(executor.run_reserved());
    });
    late.add(move || gate.open());
    late.strategy.produce();
    assert_eq!(late.source.ran.count(), 3);
    assert_eq!(late.strategy.metrics().late_epc, 2);
    assert!(late.executor.unhandled.is_empty());
    // The first task may have asked for one more thread while it waited.
    late.executor.drop_all();
}

/// Real threads and a real monitor. A task waits for a later one, so it ends only if production
/// continues without the thread that it blocks.
#[test]
fn a_task_that_waits_for_a_later_one_ends() {
    let pool = WorkerPool::builder("workers")
        .core(4)
        .max(4)
        .reserved(4)
        .build()
        .unwrap();
    let monitor = Monitor::start("test").unwrap();
    for round in 0..20 {
        let source = Source::new();
        let builder = Adaptive::builder(source.producer(), Arc::new(pool.clone()));
        let strategy = match round % 2 {
            0 => builder.late(&monitor).build(),
            _ => builder.build(),
        };
        let gate = Gate::new();
        source.add(Blocking::May, gate.waits());
        (0..10).for_each(|_| source.add(Blocking::May, || ()));
        source.add(Blocking::May, move || gate.open());
        strategy.dispatch().unwrap();
        source.gone.wait_for(12);
        assert_eq!(source.ran.count(), 12, "{}", strategy.metrics());
    }
}
