//! Strategies of users: one that keeps its contract, and those that break it. A broken contract is
//! an error that names the strategy, and the other loops continue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::{Executor, ManualClock, RejectReason, Rejected, Task, Ticker};
use tidegate_loop::{
    BuildError, EventLoop, EventLoopGroup, LoopProducer, Quiet, Roaming, RoamingConfig,
    ShutdownError, Watchdog,
};
use tidegate_pool::strategy::{Producer, Strategy};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Log, until};

use crate::strategies::pool;
use crate::{SECOND, UnhandledLog};

/// What a strategy does with the tasks of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Runs each task where it was produced.
    Runs,
    /// Ignores every call.
    Nothing,
    /// Runs the first task, and never asks for another one.
    RunsOne,
    /// Drops tasks called `bad` and runs the others.
    Drops,
    /// Keeps each task for ever.
    Hoards,
    /// Panics when it has a task called `bad`, with the producer on its stack.
    Panics,
    /// Panics in `dispatch`.
    PanicsInDispatch,
}

/// A strategy of a user.
struct Own {
    does: Does,
    producer: Mutex<Option<LoopProducer>>,
    hoard: Mutex<Vec<Task>>,
    wanted: AtomicBool,
    closed: AtomicBool,
    pool: Arc<dyn Executor>,
}

struct Handle(Arc<Own>);

impl Handle {
    fn new(does: Does, producer: Option<LoopProducer>, pool: Arc<dyn Executor>) -> Self {
        Self(Arc::new(Own {
            does,
            producer: Mutex::new(producer),
            hoard: Mutex::default(),
            wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            pool,
        }))
    }
}

impl Own {
    fn drive(&self) {
        while self.wanted.load(Ordering::SeqCst) {
            let Some(mut producer) = self.producer.lock().unwrap().take() else {
                return;
            };
            self.wanted.store(false, Ordering::SeqCst);
            while !self.closed.load(Ordering::SeqCst)
                && let Some(task) = producer.produce()
            {
                match self.does {
                    Does::RunsOne => {
                        task.run();
                        break;
                    }
                    Does::Drops if task.name() == "bad" => drop(task),
                    Does::Panics if task.name() == "bad" => panic!("as planned"),
                    Does::Hoards => self.hoard.lock().unwrap().push(task),
                    _ => task.run(),
                }
            }
            if !self.closed.load(Ordering::SeqCst) {
                *self.producer.lock().unwrap() = Some(producer);
            }
        }
    }
}

impl Strategy for Handle {
    fn produce(&self) {
        self.0.wanted.store(true, Ordering::SeqCst);
        self.0.drive();
    }

    fn dispatch(&self) -> Result<(), Rejected<()>> {
        match self.0.does {
            Does::Nothing => return Ok(()),
            Does::PanicsInDispatch => panic!("as planned"),
            _ => {}
        }
        let own = Self(Arc::clone(&self.0));
        let task = Task::new(move || own.produce());
        self.0
            .pool
            .execute_internal(task)
            .map_err(|no| no.map(drop))
    }

    fn shutdown(&self) -> bool {
        let first = !self.0.closed.swap(true, Ordering::SeqCst);
        let producer = self.0.producer.lock().unwrap().take();
        drop(producer);
        let hoard = std::mem::take(&mut *self.0.hoard.lock().unwrap());
        drop(hoard);
        first
    }

    fn is_idle(&self) -> bool {
        self.0.producer.lock().unwrap().is_some()
    }

    fn is_shutdown(&self) -> bool {
        self.0.closed.load(Ordering::SeqCst) && self.0.producer.lock().unwrap().is_none()
    }

    fn name(&self) -> &'static str {
        "Own"
    }
}

/// Returns the configuration of loops that such a strategy drives.
fn config(does: Does) -> RoamingConfig {
    RoamingConfig::new(pool(4))
        .strategy(move |producer, pool| Handle::new(does, Some(producer), pool))
}

/// Returns a loop on a manual clock with a strategy that breaks its contract.
fn broken(does: Does) -> (EventLoop<Roaming>, ManualClock, UnhandledLog) {
    let (clock, received) = (ManualClock::new(), UnhandledLog::new());
    let home = EventLoop::builder("broken").clock(&clock);
    let home = home.report_to(received.hook.clone());
    (home.build_roaming(&config(does)).unwrap(), clock, received)
}

/// Requests a shutdown, and lets its deadline pass.
fn end_at_deadline(home: &EventLoop<Roaming>, clock: &ManualClock) -> ShutdownError {
    let over = home.shutdown(Quiet::none(SECOND));
    until("the deadline is watched", || {
        clock.jump(SECOND);
        over.is_done()
    });
    over.wait().unwrap_err().failure().unwrap()
}

fn fault(why: &ShutdownError) -> (&str, &str, &str) {
    match why {
        ShutdownError::BadStrategy {
            name,
            strategy,
            fault,
            ..
        } => (name, strategy, fault),
        other => panic!("{other}"),
    }
}

#[test]
fn a_strategy_of_a_user_drives_a_group() {
    let group = EventLoopGroup::builder("io").loops(2);
    let group = group.build_roaming(&config(Does::Runs)).unwrap();
    for home in group.iter() {
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
        let timer = home.schedule(std::time::Duration::ZERO, || 8).unwrap();
        assert_eq!(timer.wait().unwrap(), 8);
        assert_eq!(home.strategy().name(), "Own");
        assert_eq!(home.strategy().metrics().tasks(), 0, "it counts nothing");
        home.strategy().reset_metrics();
    }
    let over = group.shutdown(Quiet::none(60 * SECOND));
    over.wait().unwrap();
}

#[test]
fn a_strategy_that_never_asks_is_named_when_the_loop_does_not_end() {
    let (home, clock, _heard) = broken(Does::Nothing);
    let beside = EventLoop::builder("beside").build_roaming(&config(Does::Runs));
    let beside = beside.unwrap();
    let waits = home.submit(|| 7).unwrap();
    let why = end_at_deadline(&home, &clock);
    let (name, strategy, fault) = fault(&why);
    assert_eq!((name, strategy), ("broken", "Own"));
    assert!(fault.starts_with("never asked"), "{fault}");
    assert!(
        why.to_string()
            .contains("strategy Own never asked the loop")
    );
    assert!(waits.wait().is_err(), "its completion fails");
    assert_eq!(beside.submit(|| 7).unwrap().wait().unwrap(), 7);
    home.strategy().shutdown();
}

#[test]
fn a_strategy_that_stops_asking_is_named_by_the_watchdog_and_at_the_end() {
    for (does, runs) in [(Does::Nothing, false), (Does::RunsOne, true)] {
        let (home, clock, _heard) = broken(does);
        let log = Log::new();
        let (ticker, steps) = Ticker::manual();
        let notified = log.clone();
        let watchdog = Watchdog::builder().threshold(2 * SECOND).ticker(ticker);
        let watchdog = watchdog.on_stall(move |stall| notified.push(stall.task));
        let _watchdog = watchdog.watch(&home).build().unwrap();
        let first = home.submit(|| 7).unwrap();
        if runs {
            assert_eq!(first.wait().unwrap(), 7);
            until("the strategy has left", || home.strategy().is_idle());
        }
        let _waits = home.submit(|| 8).unwrap();
        (0..4).for_each(|_| steps.tick(SECOND));
        assert_eq!(log.take(), ["its strategy, which does not ask for work"]);
        let why = end_at_deadline(&home, &clock);
        let begins = if runs {
            "stopped asking"
        } else {
            "never asked"
        };
        assert!(fault(&why).2.starts_with(begins), "{why}");
        // A strategy that has left in the middle of a turn still has the loop, and its tasks.
        let left = home.handed_back();
        assert_eq!(left.len(), if runs { 0 } else { 2 });
        home.strategy().shutdown();
        assert_eq!(left.len(), if runs { 1 } else { 2 });
    }
}

#[test]
fn a_dropped_task_is_reported_and_its_completion_fails() {
    let (home, _clock, received) = broken(Does::Drops);
    let (promise, answer) = home.promise::<u32>();
    let task = Task::named("bad", move || promise.succeed(7).unwrap());
    home.execute_task(task).unwrap();
    assert!(answer.wait().is_err());
    let notified = received.take().remove(0);
    assert_eq!(
        notified,
        "a strategy broke its contract: Own or its executor dropped task `bad` before it ran"
    );
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    let over = home.shutdown(Quiet::none(60 * SECOND));
    over.wait().unwrap();
}

#[test]
fn a_task_that_is_never_run_is_named_with_its_strategy() {
    let (home, clock, _heard) = broken(Does::Hoards);
    home.execute_task(Task::named("kept", || ())).unwrap();
    until("the strategy has the task", || {
        home.metrics().tasks_pending == 0
    });
    let why = end_at_deadline(&home, &clock);
    let text = "task `kept, which strategy Own or its pool has not started` has not returned";
    assert!(why.to_string().contains(text), "{why}");
    home.strategy().shutdown();
}

#[test]
fn a_panic_with_the_producer_ends_the_loop_and_hands_its_tasks_back() {
    let (home, _clock, received) = broken(Does::Panics);
    let beside = EventLoop::builder("beside").build_roaming(&config(Does::Runs));
    let beside = beside.unwrap();
    let over = home.termination();
    let handle = home.clone();
    // Both are in the lane when the strategy takes the first one.
    home.schedule(std::time::Duration::ZERO, move || {
        handle.execute_task(Task::named("bad", || ())).unwrap();
        handle.execute_task(Task::named("left", || ())).unwrap();
    })
    .unwrap();
    let why = over.wait().unwrap_err().failure().unwrap();
    let (name, strategy, fault) = fault(&why);
    assert_eq!((name, strategy), ("broken", "Own"));
    assert!(fault.starts_with("dropped the loop's producer"), "{fault}");
    let handed_back = why.handed_back().unwrap().take();
    let names: Vec<_> = handed_back.iter().map(Task::name).collect();
    assert_eq!(names, ["left"]);
    until("the report has come", || received.len() >= 2);
    let notified = received.take();
    assert!(
        notified
            .iter()
            .any(|one| one.contains("dropped task `bad`"))
    );
    assert!(
        notified
            .iter()
            .any(|one| one.contains("Own dropped the producer"))
    );
    assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
    assert_eq!(beside.submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn a_strategy_that_is_shut_down_ends_its_loop() {
    for does in [Does::Runs, Does::Nothing] {
        let (home, _clock, received) = broken(does);
        let over = home.termination();
        if does == Does::Runs {
            assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
            assert!(home.try_suspend());
            until("the loop has no thread", || home.strategy().is_idle());
        }
        assert!(home.strategy().shutdown());
        let why = over.wait().unwrap_err().failure().unwrap();
        assert_eq!(fault(&why).1, "Own");
        assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
        assert!(received.take()[0].contains("Own dropped the producer"));
    }
}

#[test]
fn a_panic_in_dispatch_refuses_the_task_and_names_the_strategy() {
    let (home, _clock, received) = broken(Does::PanicsInDispatch);
    let refused = home.execute(|| ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::NoThread);
    assert_eq!(
        received.take(),
        ["a strategy broke its contract: Own panicked in `dispatch`: as planned"]
    );
    let over = home.shutdown(Quiet::none(SECOND));
    assert!(over.wait().is_ok(), "it has no work, so it needs no thread");
}

#[test]
fn a_strategy_that_cannot_be_built_is_an_error_of_the_builder() {
    let panics = RoamingConfig::new(pool(4)).strategy(|_, _| -> Handle { panic!("as planned") });
    let drops = RoamingConfig::new(pool(4)).strategy(|producer, pool| {
        drop(producer);
        Handle::new(Does::Runs, None, pool)
    });
    for (config, says) in [(panics, "as planned"), (drops, "Own dropped the loop's")] {
        let group = EventLoopGroup::builder("io").loops(2);
        let refused = group.build_roaming(&config).unwrap_err();
        assert!(matches!(refused, BuildError::Strategy { .. }), "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
}

#[test]
fn a_strategy_whose_drop_panics_is_contained() {
    struct Bursts(Handle, Counter);

    impl Drop for Bursts {
        fn drop(&mut self) {
            self.1.hit();
            panic!("as planned");
        }
    }

    impl Strategy for Bursts {
        fn produce(&self) {
            self.0.produce();
        }

        fn dispatch(&self) -> Result<(), Rejected<()>> {
            self.0.dispatch()
        }

        fn shutdown(&self) -> bool {
            self.0.shutdown()
        }

        fn is_idle(&self) -> bool {
            self.0.is_idle()
        }

        fn is_shutdown(&self) -> bool {
            self.0.is_shutdown()
        }
    }

    let drops = Counter::new();
    let count = drops.clone();
    let workers = pool(4);
    let config = RoamingConfig::new(Arc::clone(&workers) as _);
    let config = config.strategy(move |producer, pool| {
        Bursts(Handle::new(Does::Runs, Some(producer), pool), count.clone())
    });
    let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
    assert!(home.strategy().name().contains("Bursts"));
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    let over = home.shutdown(Quiet::none(60 * SECOND));
    over.wait().unwrap();
    drop(home);
    drops.wait_for(1);
    assert_eq!(workers.submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn a_wait_for_a_loop_that_lost_its_strategy_ends() {
    let (home, _clock, _heard) = broken(Does::Panics);
    let waits = home.promise::<u32>();
    let (promise, answer) = waits;
    home.execute_task(Task::named("bad", move || drop(promise)))
        .unwrap();
    assert!(matches!(answer.wait(), Err(WaitError::Failed(_))));
}
