//! Roaming loops: what runs on which thread, what may wait, and how they end.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::{Task, Ticker};
use tidegate_loop::{
    BuildError, EventLoop, EventLoopGroup, Quiet, Roaming, RoamingConfig, ShutdownError,
};
use tidegate_pool::TryExecutor;
use tidegate_pool::strategy::{Monitor, Strategy};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Log, Stop, block_on, until};

use crate::manual_executor::ManualExecutor;
use crate::strategies::{HAND_OVER, KINDS, Kind, pool};

fn on(pool: Arc<dyn TryExecutor>, kind: Kind) -> EventLoop<Roaming> {
    let builder = EventLoop::builder("roams");
    builder.build_roaming(&kind.config(pool)).unwrap()
}

/// Returns an event loop that the test drives by hand, on an executor that runs nothing by itself.
fn manual(reserve: usize) -> (EventLoop<Roaming>, Arc<dyn Strategy>, Arc<ManualExecutor>) {
    manual_with(Kind::Eager, reserve)
}

fn manual_with(
    kind: Kind,
    reserve: usize,
) -> (EventLoop<Roaming>, Arc<dyn Strategy>, Arc<ManualExecutor>) {
    let executor = ManualExecutor::new(reserve);
    let config = kind.config(executor.clone()).manual();
    let home = EventLoop::builder("roams").build_roaming(&config);
    let home = home.unwrap();
    let strategy = home.strategy();
    (home, strategy, executor)
}

/// Ends such an event loop. Its last task waits in the executor that the event loop holds; without
/// this it would wait there for ever.
fn end(home: EventLoop<Roaming>, strategy: &Arc<dyn Strategy>, executor: &Arc<ManualExecutor>) {
    drop(home);
    executor.settle();
    strategy.shutdown();
    executor.drop_all();
}

#[test]
fn tasks_timers_timeouts_and_futures_run() {
    for kind in KINDS {
        let home = on(pool(3), kind);
        assert_eq!(home.submit(|| 1).unwrap().wait().unwrap(), 1);
        let later = home.schedule(Duration::from_millis(1), || 2).unwrap();
        assert_eq!(later.wait().unwrap(), 2);
        assert_eq!(home.spawn(async { 3 }).unwrap().wait().unwrap(), 3);
        let gate = Gate::new();
        let timeout = home.schedule_coarse(Duration::from_millis(1), gate.opens());
        gate.wait();
        drop(timeout);
        let over = home.shutdown(Quiet::none(Duration::from_secs(60)));
        over.wait().unwrap();
    }
}

#[test]
fn a_task_that_blocks_does_not_hold_up_the_next() {
    for kind in HAND_OVER {
        let home = on(pool(3), kind);
        let stop = Stop::new();
        let blocked = home.submit(stop.closure());
        stop.reached();
        for number in 0..10 {
            assert_eq!(home.submit(move || number).unwrap().wait().unwrap(), number);
        }
        stop.go_on();
        blocked.unwrap().wait().unwrap();
        let counts = home.strategy().metrics();
        assert!(counts.tasks() >= 11, "{counts}");
    }
}

/// Two event loops share three threads, and two tasks of the first one block. The third thread
/// waits inside the second event loop, and must be made available for the first one's next tasks.
/// Each look of the monitor comes after a quiet period: a relief that needs several looks must not
/// stop after the first.
#[test]
fn a_thread_that_waits_for_another_loop_runs_what_waits_for_a_thread() {
    let quiet = Duration::from_millis(4);
    let (ticker, steps) = Ticker::manual();
    let monitor = Monitor::builder("io").quiet(quiet).ticker(ticker);
    let config = RoamingConfig::new(pool(3)).late(&monitor.build().unwrap());
    let build = |name: &str| {
        let builder = EventLoop::builder(name);
        builder.build_roaming(&config).unwrap()
    };
    let (busy, idle) = (build("busy"), build("idle"));
    let look_until = |gate: &Gate| {
        until("the task has run", || {
            if !gate.is_open() {
                steps.tick(quiet);
            }
            gate.is_open()
        });
    };
    let runs_on = |home: &EventLoop<Roaming>| {
        let gate = Gate::new();
        home.execute(gate.opens()).unwrap();
        look_until(&gate);
    };
    runs_on(&busy);
    runs_on(&idle);
    let go_on = Gate::new();
    for _ in 0..2 {
        let (arrived, until) = (Gate::new(), go_on.clone());
        let here = arrived.clone();
        let block = move || {
            here.open();
            until.wait();
        };
        busy.execute(block).unwrap();
        look_until(&arrived);
    }
    for _ in 0..10 {
        runs_on(&busy);
        runs_on(&idle);
    }
    // A stand-in of the monitor drives the second event loop: the thread left it to one, or the
    // monitor took it for a stuck task.
    let counts = idle.strategy().metrics();
    assert!(counts.stand_ins > 0, "{counts}");
    go_on.open();
    for home in [&busy, &idle] {
        let over = home.shutdown(Quiet::none(Duration::from_secs(60)));
        over.wait().unwrap();
    }
}

#[test]
fn a_loop_that_only_produces_gives_every_task_away_and_keeps_its_thread() {
    let config = Kind::Pec.config(pool(1));
    let builder = EventLoop::builder("roams");
    let none_left = builder.build_roaming(&config);
    assert!(matches!(none_left, Err(BuildError::NoThreads(_))));

    let home = on(pool(2), Kind::Pec);
    let producing = home.submit(|| ()).unwrap();
    producing.wait().unwrap();
    // One of the two threads produces. If it ran a task itself, the next task would not run.
    let stop = Stop::new();
    let blocked = home.submit(stop.closure());
    stop.reached();
    let own = home.schedule(Duration::ZERO, || 7).unwrap();
    assert_eq!(own.wait().unwrap(), 7, "the loop goes on");
    stop.go_on();
    blocked.unwrap().wait().unwrap();
    let counts = home.strategy().metrics();
    assert_eq!((counts.pec, counts.tasks()), (2, 2), "{counts}");
    let over = home.shutdown(Quiet::none(Duration::from_secs(60)));
    over.wait().unwrap();
}

#[test]
fn a_task_may_wait_for_its_own_loop_and_the_loops_own_work_may_not() {
    for kind in HAND_OVER {
        let home = on(pool(3), kind);
        let handle = home.clone();
        let waits = home.submit(move || handle.submit(|| 7).unwrap().wait().unwrap());
        assert_eq!(waits.unwrap().wait().unwrap(), 7);
        let (_promise, never) = home.promise::<u32>();
        let timer = home.schedule(Duration::ZERO, move || never.wait());
        assert!(matches!(
            timer.unwrap().wait().unwrap(),
            Err(WaitError::Refused(_))
        ));
    }
}

/// Fills the pool of two threads under a loop with jobs that wait for the loop: for a task, or for a
/// timer. A loop that was started has one of the threads. Returns how many jobs may not wait.
fn refused_of_a_full_pool(kind: Kind, is_started: bool, is_timer: bool) -> usize {
    let workers = pool(2);
    let home = on(Arc::clone(&workers) as _, kind);
    if is_started {
        home.submit(|| ()).unwrap().wait().unwrap();
    }
    let (arrived, count) = (Counter::new(), if is_started { 1 } else { 2 });
    let job = || {
        let (home, arrived) = (home.clone(), arrived.clone());
        workers.submit(move || {
            arrived.hit();
            arrived.wait_for(count);
            let answer = match is_timer {
                true => home.schedule(Duration::ZERO, || ()).unwrap(),
                false => home.submit(|| ()).unwrap(),
            };
            answer.wait().is_err_and(|error| error.is_refused())
        })
    };
    let jobs: Vec<_> = (0..count).map(|_| job().unwrap()).collect();
    let refused = jobs.into_iter().map(|job| block_on("the wait ends", job));
    refused.filter(|refused| *refused.as_ref().unwrap()).count()
}

#[test]
fn a_job_waits_for_a_loop_over_its_full_pool_only_if_a_thread_can_run_the_work() {
    for kind in KINDS {
        // Under these, the thread of the loop gives the task to the pool, which has no thread.
        let gives = matches!(kind, Kind::Pec | Kind::Ewyk | Kind::Eager);
        let cases = [
            ((false, false), if gives { 2 } else { 1 }),
            ((false, true), 1),
            ((true, false), usize::from(gives)),
            ((true, true), 0),
        ];
        for ((is_started, is_timer), expected) in cases {
            let refused = refused_of_a_full_pool(kind, is_started, is_timer);
            let case = format!("{kind:?}, started {is_started}, timer {is_timer}");
            assert_eq!(refused, expected, "{case}");
        }
    }
}

#[test]
fn work_that_never_blocks_is_the_loops_own_and_other_work_the_pools() {
    let (home, strategy, executor) = manual(1);
    let log = Log::new();
    let (own, other) = (log.clone(), log.clone());
    let (one, two) = (home.clone(), home.clone());
    home.execute(move || own.push((one.is_current(), wait_policy())))
        .unwrap();
    let task = Task::non_blocking(move || other.push((two.is_current(), wait_policy())));
    home.execute_task(task).unwrap();
    strategy.produce();
    executor.settle();
    log.assert_order(&[(false, WaitPolicy::Free), (true, WaitPolicy::Loop)]);
    end(home, &strategy, &executor);
}

#[test]
fn nothing_is_produced_while_there_is_nothing_and_a_submission_sends_for_a_thread() {
    let (home, strategy, executor) = manual(0);
    assert_eq!(executor.queued(), 0, "a loop without work has no thread");
    let answer = home.submit(|| 7).unwrap();
    assert_eq!(executor.queued(), 1, "a thread to drive it");
    executor.settle();
    assert!(strategy.is_idle());
    assert_eq!(answer.wait().unwrap(), 7);
    end(home, &strategy, &executor);
}

#[test]
fn a_task_for_which_there_is_no_thread_waits_in_the_executor() {
    let (home, strategy, executor) = manual(0);
    let ran = Counter::new();
    for _ in 0..3 {
        let ran = ran.clone();
        home.execute(move || assert!(ran.hit() > 0)).unwrap();
    }
    strategy.produce();
    assert_eq!((ran.count(), strategy.metrics().pec), (0, 3));
    executor.settle();
    assert_eq!(ran.count(), 3);
    end(home, &strategy, &executor);
}

#[test]
fn a_task_that_the_executor_refuses_runs_without_blocking() {
    for kind in [Kind::Pec, Kind::Ewyk, Kind::Eager] {
        let (home, strategy, executor) = manual_with(kind, 0);
        let (log, own) = Log::pair();
        home.execute(move || own.push(wait_policy())).unwrap();
        executor.drop_all();
        executor.refuse(true);
        strategy.produce();
        log.assert_order(&[WaitPolicy::Tagged]);
        assert_eq!(strategy.metrics().refused, 1);
        end(home, &strategy, &executor);
    }
}

#[test]
fn a_panic_is_the_loops_to_report() {
    let (log, received) = Log::pair();
    let builder = EventLoop::builder("roams");
    let builder = builder.on_unhandled(move |name, what| received.push(format!("{name}: {what}")));
    for kind in KINDS {
        let home = kind.build(builder.clone(), 3);
        home.execute(|| panic!("on purpose")).unwrap();
        log.wait_for(1);
        assert!(log.take()[0].starts_with("roams: ") && home.metrics().panics == 1);
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    }
}

#[test]
fn the_end_waits_for_a_task_that_is_out() {
    for kind in KINDS {
        let home = on(pool(3), kind);
        let (stop, log) = (Stop::new(), Log::new());
        home.add_shutdown_hook("hook", log.pushes("hook")).unwrap();
        let (stops, ended) = (stop.closure(), log.pushes("task"));
        home.execute(move || {
            stops();
            ended();
        })
        .unwrap();
        stop.reached();
        let over = home.shutdown(Quiet::none(Duration::from_secs(60)));
        // Under `ProduceConsume` the loop does nothing while the task blocks.
        if kind != Kind::Pc {
            let meanwhile = home.submit(|| 7).map(|answer| answer.wait().unwrap());
            assert_eq!(meanwhile.unwrap_or(7), 7);
        }
        assert!(!over.is_done(), "{kind:?}");
        stop.go_on();
        over.wait().unwrap();
        assert_eq!(log.take(), ["task", "hook"], "{kind:?}");
    }
}

#[test]
fn the_end_does_not_wait_longer_than_its_timeout() {
    for kind in HAND_OVER {
        let home = on(pool(3), kind);
        let stop = Stop::new();
        home.execute(stop.closure()).unwrap();
        stop.reached();
        let over = home.shutdown(Quiet::none(Duration::ZERO)).wait();
        assert!(
            matches!(over, Err(WaitError::Failed(ShutdownError::Stuck { .. }))),
            "{kind:?}: {over:?}"
        );
        stop.go_on();
    }
}

#[test]
fn an_idle_loop_can_give_its_thread_back_to_the_pool() {
    for kind in KINDS {
        gives_its_thread_back(kind);
    }
}

fn gives_its_thread_back(kind: Kind) {
    let pool = pool(2);
    let home = on(Arc::clone(&pool) as _, kind);
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert!(home.try_suspend());
    // Both threads of the pool are free again, so these two jobs can run at the same time.
    let stop = Stop::new();
    let both = stop.gate();
    pool.execute(stop.closure()).unwrap();
    pool.execute(move || {
        stop.reached();
        stop.go_on();
    })
    .unwrap();
    // Waits before it submits: a task that arrives earlier would keep the event loop on its thread.
    both.wait();
    assert_eq!(home.submit(|| 8).unwrap().wait().unwrap(), 8);
}

#[test]
fn the_last_handle_ends_the_loop() {
    for kind in KINDS {
        let home = on(pool(2), kind);
        let over = home.termination();
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
        drop(home);
        over.wait().unwrap();
    }
}

#[test]
fn a_pool_that_is_over_refuses_the_start() {
    for kind in KINDS {
        let pool = pool(2);
        let home = on(Arc::clone(&pool) as _, kind);
        pool.shutdown(Duration::ZERO).wait().unwrap();
        assert!(home.execute(|| ()).is_err());
    }
}

#[test]
fn a_task_does_not_wait_for_the_end_of_its_own_event_loop() {
    for kind in KINDS {
        let home = on(pool(3), kind);
        let mine = home.clone();
        let refused = home.submit(move || mine.shutdown(Quiet::none(Duration::MAX)).wait());
        let error = refused.unwrap().wait().unwrap().unwrap_err();
        assert!(error.is_refused(), "{kind:?}: {error}");
        home.termination().wait().unwrap();
    }
}

#[test]
fn a_task_does_not_wait_for_the_end_of_its_own_group() {
    let group = EventLoopGroup::builder("roam").loops(2);
    let group = group.build_roaming(&Kind::Eager.config(pool(4))).unwrap();
    let mine = group.clone();
    let refused = group.submit(move || mine.shutdown(Quiet::none(Duration::MAX)).wait());
    let error = refused.unwrap().wait().unwrap().unwrap_err();
    assert!(error.is_refused(), "{error}");
    assert!(!group.termination().cancel(), "it belongs to all waiters");
    group.termination().wait().unwrap();
}
