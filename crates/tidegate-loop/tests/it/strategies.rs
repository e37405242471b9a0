//! Every built-in strategy drives a roaming loop: with few threads and many, under load and at its
//! end. What each strategy does to the loop while a task blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::{Blocking, ManualClock, Task, Ticker};
use tidegate_loop::{
    BuildError, EventLoop, EventLoopBuilder, EventLoopGroup, LoopProducer, Quiet, Roaming,
    RoamingConfig, ShutdownError, Watchdog,
};
use tidegate_pool::strategy::{
    Adaptive, EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceConsume,
    ProduceExecuteConsume, Strategy,
};
use tidegate_pool::{TryExecutor, WorkerPool};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Log, Stop, until};

use crate::SECOND;

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

/// The strategies under which a task that blocks does not stop the loop, given enough threads.
pub(crate) const HAND_OVER: [Kind; 5] = [Kind::Pec, Kind::Epc, Kind::Ewyk, Kind::Eager, Kind::Late];

impl Kind {
    pub(crate) fn config(self, pool: Arc<dyn TryExecutor>) -> RoamingConfig {
        let config = RoamingConfig::new(pool);
        match self {
            Kind::Pc => config.strategy(|producer, pool| ProduceConsume::new(producer, pool)),
            Kind::Pec => {
                config.strategy(|producer, pool| ProduceExecuteConsume::new(producer, pool))
            }
            Kind::Epc => {
                config.strategy(|producer, pool| ExecuteProduceConsume::new(producer, pool))
            }
            Kind::Ewyk => config.strategy(EatWhatYouKill::new),
            Kind::Eager => config.strategy(Adaptive::new),
            Kind::Late => config.late(&Monitor::start("io").unwrap()),
        }
    }

    pub(crate) fn build(self, builder: EventLoopBuilder, threads: usize) -> EventLoop<Roaming> {
        builder.build_roaming(&self.config(pool(threads))).unwrap()
    }
}

pub(crate) fn pool(threads: usize) -> Arc<WorkerPool> {
    let pool = WorkerPool::builder("workers").core(threads).max(threads);
    Arc::new(pool.build().unwrap())
}

fn roams(kind: Kind, threads: usize) -> EventLoop<Roaming> {
    kind.build(EventLoop::builder("roams"), threads)
}

/// Keeps a task of the loop blocked until the gate is opened.
fn block(home: &EventLoop<Roaming>) -> Gate {
    let stop = Stop::new();
    let task = Task::named("blocks", stop.closure());
    home.execute_task(task).unwrap();
    stop.reached()
}

fn end(home: &EventLoop<Roaming>) {
    let over = home.shutdown(Quiet::none(60 * SECOND));
    over.wait().unwrap();
}

#[test]
fn the_strategy_is_chosen_where_the_loop_is_built() {
    let names = KINDS.map(|kind| roams(kind, 2).strategy().name());
    let expected = [
        "ProduceConsume",
        "ProduceExecuteConsume",
        "ExecuteProduceConsume",
        "EatWhatYouKill",
        "Adaptive",
        "Adaptive",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_strategy_that_is_chosen_at_run_time_drives_a_loop() {
    let chosen = |name: &'static str| {
        move |producer: LoopProducer, pool: Arc<dyn TryExecutor>| -> Arc<dyn Strategy> {
            match name {
                "pc" => Arc::new(ProduceConsume::new(producer, pool)),
                _ => Arc::new(Adaptive::new(producer, pool)),
            }
        }
    };
    for (name, expected) in [("pc", "ProduceConsume"), ("", "Adaptive")] {
        let config = RoamingConfig::new(pool(2)).strategy(chosen(name));
        let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
        let strategy = home.strategy();
        assert_eq!(strategy.name(), expected);
        assert_eq!(strategy.metrics().tasks(), 1);
        strategy.reset_metrics();
        assert_eq!(strategy.metrics().tasks(), 0);
        end(&home);
        assert!(!strategy.is_shutdown());
    }
}

#[test]
fn a_pool_of_one_thread_is_too_small_for_every_strategy() {
    for kind in KINDS {
        let config = kind.config(pool(1));
        let refused = EventLoop::builder("roams").build_roaming(&config);
        assert!(matches!(refused, Err(BuildError::NoThreads(_))), "{kind:?}");
    }
}

#[test]
fn a_loop_gives_its_lease_back() {
    for kind in KINDS {
        let workers = pool(2);
        for _ in 0..3 {
            let config = kind.config(Arc::clone(&workers) as _);
            let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
            assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
            let over = home.termination();
            drop((home, config));
            over.wait().unwrap();
            until("the lease is free", || workers.lease("probe", 1).is_ok());
        }
    }
}

/// Its handles and its strategy may be kept: the pool has the thread for others.
#[test]
fn an_ended_loop_gives_its_lease_back_although_it_has_handles() {
    for kind in KINDS {
        let workers = pool(2);
        let mut kept = Vec::new();
        for _ in 0..3 {
            let config = kind.config(Arc::clone(&workers) as _);
            let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
            assert!(workers.lease("probe", 1).is_err(), "{kind:?}");
            assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
            end(&home);
            assert!(workers.lease("probe", 1).is_ok(), "{kind:?}");
            kept.push((home.strategy(), home));
        }
        until("no thread is in use", || workers.free_threads().idle == 2);
        let unused =
            EventLoop::builder("unused").build_roaming(&kind.config(Arc::clone(&workers) as _));
        let unused = unused.unwrap();
        end(&unused);
        assert!(workers.lease("probe", 1).is_ok(), "it never had a thread");
        drop(kept);
        assert!(workers.lease("probe", 1).is_ok(), "returned once");
    }
}

/// Tasks of all kinds are submitted by three threads while the loop is shut down. Each accepted task
/// runs once or is handed back.
#[test]
fn every_accepted_task_runs_or_is_handed_back() {
    for kind in KINDS {
        for threads in [2, 3, 16] {
            every_task_is_accounted_for(kind, threads);
        }
    }
}

fn every_task_is_accounted_for(kind: Kind, threads: usize) {
    let home = roams(kind, threads);
    let ran = Arc::new(AtomicU64::new(0));
    let busy = Gate::new();
    let submit = |number: u64| {
        let (ran, busy) = (Arc::clone(&ran), busy.clone());
        let kinds = [Blocking::May, Blocking::Never, Blocking::Adapts];
        let task = Task::of(kinds[number as usize % 3], move || {
            if ran.fetch_add(1, Ordering::Relaxed) == 100 {
                busy.open();
            }
        });
        home.execute_task(task).is_ok()
    };
    let (accepted, report) = std::thread::scope(|scope| {
        let many = || {
            (0..)
                .take_while(|&number| number < 5_000 && submit(number))
                .count()
        };
        let submitters = [scope.spawn(many), scope.spawn(many), scope.spawn(many)];
        busy.wait();
        let report = home.shutdown(Quiet::none(60 * SECOND)).wait().unwrap();
        let accepted: usize = submitters.map(|one| one.join().unwrap()).into_iter().sum();
        (accepted as u64, report)
    });
    let back = report.handed_back.len() as u64;
    assert_eq!(ran.load(Ordering::Relaxed) + back, accepted, "{kind:?}");
}

#[test]
fn a_group_has_a_strategy_for_each_loop() {
    let (made, count) = Counter::pair();
    let config = RoamingConfig::new(pool(6)).strategy(move |producer, pool| {
        count.hit();
        EatWhatYouKill::new(producer, pool)
    });
    let group = EventLoopGroup::builder("io").loops(3);
    let group = group.build_roaming(&config).unwrap();
    assert_eq!(made.count(), 3);
    for home in group.iter() {
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
        assert_eq!(home.strategy().metrics().tasks(), 1);
    }
}

/// The dangerous choice: it is allowed, and it can be seen.
#[test]
fn under_produce_consume_a_task_that_blocks_stops_the_loop_and_a_watchdog_tells() {
    let home = roams(Kind::Pc, 4);
    let (log, told) = Log::pair();
    let (ticker, steps) = Ticker::manual();
    let watchdog = Watchdog::builder().threshold(2 * SECOND).ticker(ticker);
    let watchdog = watchdog.on_stall(move |stall| told.push(stall.task));
    let _watchdog = watchdog.watch(&home).build().unwrap();
    let go_on = block(&home);
    let next = home.submit(|| 7).unwrap();
    (0..4).for_each(|_| steps.tick(SECOND));
    assert!(!next.is_done() && home.is_stalled());
    assert_eq!(log.take(), ["blocks"]);
    go_on.open();
    assert_eq!(next.wait().unwrap(), 7);
    let counts = home.strategy().metrics();
    assert_eq!((counts.pc, counts.tasks()), (2, 2), "{counts}");
}

#[test]
fn under_produce_consume_a_wait_for_the_own_loop_is_refused() {
    let home = roams(Kind::Pc, 4);
    let handle = home.clone();
    let waits = home.submit(move || {
        let own = handle.submit(|| 7).unwrap().wait();
        let (_promise, answer) = handle.promise::<u32>();
        (own.map(drop), answer.wait().map(drop))
    });
    let refused = waits.unwrap().wait().unwrap();
    for waited in [refused.0, refused.1] {
        match waited {
            Err(WaitError::Refused(why)) => assert_eq!(why.names(), ["roams"]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn a_helper_that_waits_for_a_thread_delays_the_loop_until_it_has_one() {
    let workers = pool(2);
    let config = Kind::Epc.config(Arc::clone(&workers) as _);
    let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    // The other thread of the pool is busy, so the helper waits in the queue.
    let stop = Stop::new();
    workers.execute(stop.closure()).unwrap();
    stop.reached();
    let go_on = block(&home);
    let next = home.submit(|| 7).unwrap();
    assert!(home.strategy().metrics().helpers > 0);
    assert!(!next.is_done());
    stop.go_on();
    assert_eq!(next.wait().unwrap(), 7, "the helper has come");
    go_on.open();
    end(&home);
}

/// The loop's thread runs tasks while threads are free, gives them away while they are not, and
/// returns to the first mode.
#[test]
fn a_loop_changes_its_mode_while_it_runs_and_the_changes_are_counted() {
    let workers = pool(4);
    workers.prestart();
    let kept = Arc::new(OnceLock::new());
    let keep = Arc::clone(&kept);
    let config = RoamingConfig::new(Arc::clone(&workers) as _).strategy(move |producer, pool| {
        let strategy = EatWhatYouKill::new(producer, pool);
        assert!(keep.set(strategy.clone()).is_ok());
        strategy
    });
    let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
    let strategy = kept.get().unwrap();
    let modes = || {
        let counts = home.strategy().metrics();
        (counts.low_on_threads, counts.mode_switches)
    };
    let step = || {
        let before = home.strategy().metrics();
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
        let after = home.strategy().metrics();
        (after.epc - before.epc, after.pec - before.pec)
    };
    let ready = |threads| until("so many are idle", || workers.metrics().ready == threads);
    ready(4);
    assert_eq!((step(), modes()), ((1, 0), (false, 0)));
    // The loop keeps one thread.
    ready(3);
    let free = Gate::new();
    let hold = || {
        workers.execute(free.waits()).unwrap();
    };
    (0..2).for_each(|_| hold());
    ready(1);
    assert!(strategy.is_low());
    assert_eq!((step(), modes()), ((0, 1), (true, 1)));
    assert_eq!((step(), modes()), ((0, 1), (true, 1)));
    let shown = home.strategy().metrics().to_string();
    assert!(shown.contains("mode switches 1") && shown.contains("low on threads"));
    free.open();
    ready(3);
    assert!(!strategy.is_low());
    assert_eq!((step(), modes()), ((1, 0), (false, 2)));
    home.strategy().reset_metrics();
    assert_eq!(modes(), (false, 0));
    end(&home);
}

#[test]
fn the_end_of_a_loop_that_stands_still_is_reported_at_the_deadline() {
    let clock = ManualClock::new();
    let home = Kind::Pc.build(EventLoop::builder("roams").clock(&clock), 3);
    let go_on = block(&home);
    let over = home.shutdown(Quiet::none(SECOND));
    clock.await_sleepers(1);
    clock.jump(2 * SECOND);
    let Err(WaitError::Failed(ShutdownError::Stuck { task, .. })) = over.wait() else {
        panic!("it is stuck");
    };
    assert_eq!(task, "blocks");
    go_on.open();
    until("the loop has terminated", || home.is_terminated());
}

/// A roaming loop that has nothing to do is not taken for one that is still in its last task.
#[test]
fn an_idle_loop_is_not_stalled() {
    for kind in KINDS {
        let home = roams(kind, 3);
        let (ticker, steps) = Ticker::manual();
        let watchdog = Watchdog::builder().threshold(SECOND).ticker(ticker);
        let watchdog = watchdog.watch(&home).build().unwrap();
        home.submit(|| ()).unwrap().wait().unwrap();
        // The loop may still be about to end its task. An idle loop does not stay stalled.
        (0..4).for_each(|_| steps.tick(SECOND));
        until("an idle loop is not stalled", || {
            steps.tick(SECOND);
            watchdog.stalled().is_empty()
        });
    }
}

#[test]
fn a_timer_runs_beside_a_task_that_blocks() {
    for kind in HAND_OVER {
        let home = roams(kind, 3);
        let go_on = block(&home);
        let timer = home.schedule(Duration::ZERO, || 7).unwrap();
        assert_eq!(timer.wait().unwrap(), 7, "{kind:?}");
        go_on.open();
        end(&home);
    }
}
