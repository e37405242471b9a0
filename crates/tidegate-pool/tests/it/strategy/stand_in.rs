//! Late hand-over if the prediction that a busy pool is brisk turns out wrong, with a hand-driven
//! executor and on a real pool. No test sleeps: blocking tasks wait for a gate.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::thread::ThreadHandle;
use tidegate_core::{Blocking, ManualTicker, ThreadBuilder, Ticker};
use tidegate_pool::strategy::{Adaptive, Monitor, Strategy};
use tidegate_pool::{Headroom, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, Stop, until};

use super::late::{Late, TICK, late};
use super::{AnyProducer, Source};

/// Makes two scans of a pool whose threads end many jobs.
fn make_brisk(late: &Late) {
    for _ in 0..2 {
        late.executor.ended(50);
        late.steps.tick(TICK);
    }
}

#[test]
fn a_stuck_task_in_a_pool_that_is_held_meanwhile_gets_a_stand_in() {
    let late = late(0);
    make_brisk(&late);
    let (steps, executor, went_on) = (late.steps.clone(), late.executor.clone(), Gate::new());
    let until = went_on.clone();
    late.add(move || {
        for jobs in [50, 50] {
            executor.ended(jobs);
            steps.tick(TICK);
        }
        assert_eq!(
            executor.queued(),
            1,
            "a thread of the pool is requested first"
        );
        assert!(!until.is_open());
        steps.tick(TICK);
        until.wait();
        steps.tick(TICK);
    });
    let log = Log::new();
    late.add(|| ());
    let (on, opens) = (log.clone(), went_on.clone());
    late.source
        .add(Blocking::Adapts, move || on.push(wait_policy()));
    late.source.add(Blocking::Never, move || opens.open());
    late.strategy.produce();
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    log.assert_order(&[WaitPolicy::Tagged]);
    assert_eq!(late.executor.queued(), 2, "what may block is given away");
    let counts = late.strategy.metrics();
    assert_eq!((counts.stand_ins, counts.late_epc), (1, 1));
    assert_eq!((counts.pc, counts.pec, counts.lent), (2, 1, 1));
    late.executor.settle();
    assert_eq!(late.source.ran.count(), 4);
}

#[test]
fn a_stand_in_gives_the_producer_back_when_the_pool_moves_again() {
    let late = late(0);
    make_brisk(&late);
    let (steps, executor, went_on) = (late.steps.clone(), late.executor.clone(), Gate::new());
    let gate = went_on.clone();
    late.add(move || {
        steps.tick(TICK);
        steps.tick(TICK);
        gate.wait();
        drop(executor);
    });
    let (steps, executor) = (late.steps.clone(), late.executor.clone());
    late.source.add(Blocking::Never, move || {
        for _ in 0..2 {
            executor.ended(50);
            steps.tick(TICK);
        }
    });
    let log = Log::new();
    let (on, opens) = (log.clone(), went_on.clone());
    late.add(move || {
        on.push(wait_policy());
        opens.open();
    });
    let driver = {
        let strategy = late.strategy.clone();
        ThreadBuilder::new("driver").spawn(move || strategy.produce())
    };
    // The stand-in has left: the helper that it requested is queued here.
    until("a helper is queued", || late.executor.queued() > 0);
    late.executor.settle();
    assert!(driver.unwrap().join().unwrap());
    log.assert_order(&[WaitPolicy::Free]);
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    let counts = late.strategy.metrics();
    assert_eq!((counts.stand_ins, counts.pc, counts.pec), (1, 1, 0));
    assert_eq!(late.source.ran.count(), 3);
    assert!(late.strategy.is_idle());
}

#[test]
fn a_loan_without_an_idle_thread_gets_a_stand_in_when_its_monitor_stops() {
    let late = late(0);
    make_brisk(&late);
    let (monitor, went_on) = (late.monitor.clone(), Gate::new());
    let until = went_on.clone();
    late.add(move || {
        monitor.shutdown();
        until.wait();
    });
    late.source.add(Blocking::Never, move || went_on.open());
    late.strategy.produce();
    assert_eq!(late.executor.unhandled.take(), [""; 0]);
    assert_eq!(late.strategy.metrics().stand_ins, 1);
    assert_eq!(late.source.ran.count(), 2);
}

/// A pool of one thread that is never idle, and a strategy with late hand-over on it.
struct Busy {
    pool: WorkerPool,
    churn: Churn,
    source: Source,
    strategy: Adaptive<AnyProducer>,
    steps: ManualTicker,
    _monitor: Monitor,
}

/// Short jobs that follow each other without a gap, until the test stops them or makes them block.
#[derive(Clone)]
struct Churn {
    ran: Counter,
    over: Gate,
    block: Gate,
    blocked: Gate,
    release: Gate,
}

impl Churn {
    fn run(self, pool: &WorkerPool) {
        self.ran.hit();
        if self.block.is_open() && !self.release.is_open() {
            self.blocked.open();
            self.release.wait();
        }
        if !self.over.is_open() {
            let again = pool.clone();
            // Submitted before this job ends, so the thread finds the next one queued.
            pool.execute(move || self.run(&again)).unwrap();
        }
    }
}

impl Busy {
    fn new() -> Self {
        let pool = WorkerPool::builder("workers").core(1).max(1).build();
        let pool = pool.unwrap();
        let (ticker, steps) = Ticker::manual();
        let monitor = Monitor::builder("test").ticker(ticker).build().unwrap();
        let source = Source::new();
        let strategy = Adaptive::builder(source.producer(), Arc::new(pool.clone()));
        let strategy = strategy.late(&monitor).build();
        let churn = Churn {
            ran: Counter::new(),
            over: Gate::new(),
            block: Gate::new(),
            blocked: Gate::new(),
            release: Gate::new(),
        };
        let (first, own) = (churn.clone(), pool.clone());
        pool.execute(move || first.run(&own)).unwrap();
        churn.ran.wait_for(1);
        let busy = Self {
            pool,
            churn,
            source,
            strategy,
            steps,
            _monitor: monitor,
        };
        // The first scan only sets the base of the counter.
        for _ in 0..3 {
            busy.look_after_some_jobs();
        }
        busy
    }

    /// Runs until the pool has ended some jobs and the monitor has made one scan.
    fn look_after_some_jobs(&self) {
        let enough = self.pool.finished_jobs() + 8;
        until("the pool has ended eight jobs", || {
            self.pool.finished_jobs() >= enough
        });
        self.steps.tick(TICK);
    }

    /// Starts a thread that produces and runs a task that blocks until the gate opens.
    fn block_a_task(&self) -> (Gate, ThreadHandle) {
        let stop = Stop::new();
        self.source.add(Blocking::May, stop.closure());
        let strategy = self.strategy.clone();
        let driver = ThreadBuilder::new("driver").spawn(move || strategy.produce());
        stop.reached();
        let counts = self.strategy.metrics();
        assert_eq!((counts.lent, counts.pec), (1, 0), "{counts}");
        (stop.gate(), driver.unwrap())
    }

    fn end(self) {
        self.churn.over.open();
        let stopped = self.pool.shutdown(Duration::from_secs(60));
        stopped.wait().unwrap();
        // A stand-in does not belong to the pool and may still be about to finish.
        until("no stand-in is left", || self.strategy.is_idle());
    }
}

#[test]
fn the_thread_of_a_busy_pool_takes_a_stuck_producer_over() {
    let busy = Busy::new();
    let (go_on, driver) = busy.block_a_task();
    let went_on = Gate::new();
    busy.source.add(Blocking::May, went_on.opens());
    // One scan to see the loan, one to see that it is stuck.
    busy.look_after_some_jobs();
    busy.look_after_some_jobs();
    went_on.wait();
    let counts = busy.strategy.metrics();
    assert_eq!((counts.late_epc, counts.stand_ins), (1, 0), "{counts}");
    assert_eq!(counts.no_pool_thread, 1, "no thread was idle: {counts}");
    go_on.open();
    assert!(driver.join().unwrap());
    busy.end();
}

#[test]
fn two_tasks_that_block_in_the_same_tick_do_not_stop_production() {
    let busy = Busy::new();
    let (go_on, driver) = busy.block_a_task();
    busy.churn.block.open();
    busy.churn.blocked.wait();
    let (given, went_on) = (Gate::new(), Gate::new());
    let (later, now) = (given.clone(), went_on.clone());
    busy.source.add(Blocking::May, move || later.open());
    busy.source.add(Blocking::Never, move || now.open());
    // The monitor last saw the pool as brisk, so it uses the pool once more.
    for _ in 0..4 {
        busy.steps.tick(TICK);
    }
    went_on.wait();
    assert!(!given.is_open(), "no thread is left that may block");
    let counts = busy.strategy.metrics();
    assert_eq!((counts.stand_ins, counts.pec), (1, 1), "{counts}");
    busy.churn.release.open();
    given.wait();
    go_on.open();
    assert!(driver.join().unwrap());
    busy.end();
}
