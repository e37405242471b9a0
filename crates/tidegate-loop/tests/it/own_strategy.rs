//! Strategies of users: one that keeps its contract, and those that break it. A broken contract is
//! an error that names the strategy, the other loops continue, and no thread of the pool is kept.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tidegate_core::{Dump, Executor, ManualClock, RejectReason, Rejected, Task, Ticker};
use tidegate_loop::{
    EventLoop, EventLoopGroup, LoopProducer, Quiet, Roaming, RoamingConfig, ShutdownError, Watchdog,
};
use tidegate_pool::strategy::{Producer, Strategy};
use tidegate_pool::{TryExecutor, WorkerPool};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate, Log, has, until};

use crate::strategies::{KINDS, pool};
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
    fn new(does: Does, producer: LoopProducer, pool: Arc<dyn Executor>) -> Self {
        Self(Arc::new(Own {
            does,
            producer: Mutex::new(Some(producer)),
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
    config_on(&pool(4), does)
}

fn config_on(workers: &Arc<WorkerPool>, does: Does) -> RoamingConfig {
    RoamingConfig::new(Arc::clone(workers) as _)
        .strategy(move |producer, pool| Handle::new(does, producer, pool))
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
    has(why.to_string(), ["strategy Own never asked the loop"]);
    assert!(waits.wait().is_err(), "its completion fails");
    let left = home.handed_back().take();
    assert_eq!(left.len(), 1);
    left.into_iter().for_each(Task::run);
    assert_eq!(beside.submit(|| 7).unwrap().wait().unwrap(), 7);
    // The strategy may still be asked, or shut down: there is nothing left.
    home.strategy().produce();
    home.strategy().shutdown();
}

#[test]
fn a_strategy_that_stops_asking_is_named_by_the_watchdog_and_at_the_end() {
    for (does, runs) in [(Does::Nothing, false), (Does::RunsOne, true)] {
        let (home, clock, _heard) = broken(does);
        let (log, notified) = Log::pair();
        let (ticker, steps) = Ticker::manual();
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
fn a_task_that_is_never_run_is_named() {
    let (home, clock, _heard) = broken(Does::Hoards);
    home.execute_task(Task::named("kept", || ())).unwrap();
    until("the strategy has the task", || {
        home.metrics().tasks_pending == 0
    });
    let why = end_at_deadline(&home, &clock);
    let text = "task `kept` has not returned";
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
    let reported = received.take();
    assert!(reported[0].ends_with("as planned"), "{reported:?}");
    let over = home.shutdown(Quiet::none(SECOND));
    assert!(over.wait().is_ok(), "it has no work, so it needs no thread");
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

    let (drops, count) = Counter::pair();
    let workers = pool(4);
    let config = RoamingConfig::new(Arc::clone(&workers) as _);
    let config = config.strategy(move |producer, pool| {
        Bursts(Handle::new(Does::Runs, producer, pool), count.clone())
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

/// Ends the pool, and checks that no loop keeps a thread of it.
fn end_pool(workers: &WorkerPool, what: &str) {
    until(&format!("{what}: no thread is kept"), || {
        workers.metrics().running.is_empty()
    });
    let report = workers.shutdown(60 * SECOND).wait().unwrap();
    assert!(report.stuck.is_empty(), "{what}: {report}");
}

#[test]
fn a_thread_that_comes_without_a_start_is_given_back_at_the_end() {
    for kind in KINDS {
        for works in [false, true] {
            let workers = pool(4);
            let home = EventLoop::builder("roams");
            let home = home
                .build_roaming(&kind.config(Arc::clone(&workers) as _))
                .unwrap();
            // The contract: at any time, on any thread.
            home.strategy().dispatch().unwrap();
            until("a thread has come", || !home.strategy().is_idle());
            if works {
                assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7, "{kind:?}");
            }
            let over = home.shutdown(Quiet::none(60 * SECOND));
            over.wait().unwrap();
            end_pool(&workers, &format!("{kind:?}"));
        }
    }
}

#[test]
fn a_suspended_loop_that_gets_a_thread_without_work_ends() {
    let workers = pool(4);
    let home = EventLoop::builder("suspends").build_roaming(&config_on(&workers, Does::Runs));
    let home = home.unwrap();
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert!(home.try_suspend());
    until("the loop has no thread", || home.strategy().is_idle());
    home.strategy().dispatch().unwrap();
    until("it has one again", || !home.strategy().is_idle());
    assert_eq!(home.submit(|| 8).unwrap().wait().unwrap(), 8);
    let over = home.shutdown(Quiet::none(60 * SECOND));
    over.wait().unwrap();
    end_pool(&workers, "suspended");
}

#[test]
fn a_group_with_one_bad_strategy_ends_and_hands_back_what_is_left() {
    let workers = pool(8);
    let (built, clock) = (AtomicU32::new(0), ManualClock::new());
    let shared = Arc::clone(&workers) as Arc<dyn TryExecutor>;
    let config = RoamingConfig::new(shared).strategy(move |producer, pool| {
        let does = match built.fetch_add(1, Ordering::SeqCst) {
            1 => Does::Nothing,
            _ => Does::Runs,
        };
        Handle::new(does, producer, pool)
    });
    let group = EventLoopGroup::builder("io").loops(3).clock(&clock);
    let group = group
        .on_unhandled(|_, _| ())
        .build_roaming(&config)
        .unwrap();
    let ran = Counter::new();
    for home in group.iter() {
        home.execute(ran.hits()).unwrap();
    }
    ran.wait_for(2);
    let over = group.shutdown(Quiet::none(SECOND));
    // The others end before the deadline, so the group names the bad one.
    until("the good loops have ended", || {
        group.iter().filter(|home| home.is_terminated()).count() == 2
    });
    until("the end is announced", || {
        clock.jump(SECOND);
        over.is_done()
    });
    let why = over.wait().unwrap_err();
    assert!(why.to_string().contains("io-1"), "{why}");
    until("its task is handed back", || {
        !group.handed_back().is_empty()
    });
    let left = group.handed_back().take();
    assert_eq!(left.len(), 1);
    left.into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 3);
    drop(group);
    end_pool(&workers, "group");
}

/// A strategy that uses its loop inside `dispatch`.
struct Reenters {
    inner: Handle,
    home: Weak<OnceLock<EventLoop<Roaming>>>,
    ends: bool,
    ran: Counter,
}

impl Strategy for Reenters {
    fn produce(&self) {
        self.inner.produce();
    }

    fn dispatch(&self) -> Result<(), Rejected<()>> {
        let home = self.home.upgrade();
        if let Some(home) = home.as_ref().and_then(|home| home.get()) {
            home.execute(self.ran.hits()).unwrap();
            let _ = (home.dump(), home.metrics(), home.strategy().name());
            if self.ends {
                drop(home.shutdown(Quiet::none(60 * SECOND)));
            }
        }
        self.inner.dispatch()
    }

    fn shutdown(&self) -> bool {
        self.inner.shutdown()
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }

    fn is_shutdown(&self) -> bool {
        self.inner.is_shutdown()
    }

    fn dump(&self) -> Dump {
        // Far more than a dump shows.
        let children = (0..100_000).map(|n| Dump::new("item", n.to_string()));
        Dump::new("strategy", "Reenters").list("items", 100_000, children)
    }
}

#[test]
fn a_strategy_may_use_its_loop_in_dispatch() {
    for ends in [false, true] {
        let workers = pool(4);
        let (cell, ran) = (Arc::new(OnceLock::new()), Counter::new());
        let (home, count) = (Arc::downgrade(&cell), ran.clone());
        let shared = Arc::clone(&workers) as Arc<dyn TryExecutor>;
        let config = RoamingConfig::new(shared).strategy(move |producer, pool| Reenters {
            inner: Handle::new(Does::Runs, producer, pool),
            home: Weak::clone(&home),
            ends,
            ran: count.clone(),
        });
        let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
        cell.set(home.clone()).unwrap();
        let last = Gate::new();
        let accepted = home.execute(last.opens());
        if accepted.is_ok() {
            last.wait();
        }
        let text = home.dump().to_string();
        assert!(text.lines().count() < 11_000, "bounded");
        home.shutdown(Quiet::none(60 * SECOND)).wait().unwrap();
        assert_eq!(ran.count(), 1, "{ends}: what was accepted has run");
        end_pool(&workers, "dispatch");
    }
}
