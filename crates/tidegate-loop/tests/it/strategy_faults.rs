//! Strategies of users that do not ask, or ask at the wrong moment, against the end of their loop:
//! each accepted task runs or is handed back once, the other loops go on, and no thread of the pool
//! is kept.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tidegate_core::{Dump, Executor, ManualClock, Rejected, Task};
use tidegate_loop::{
    EventLoop, EventLoopGroup, LoopProducer, Quiet, Roaming, RoamingConfig, ShutdownError,
};
use tidegate_pool::strategy::{Producer, Strategy, StrategyMetrics};
use tidegate_pool::{TryExecutor, WorkerPool};
use tidegate_testkit::{Counter, Gate, explode, until};

use crate::strategies::{KINDS, pool};
use crate::{SECOND, hits};

/// Where a strategy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Nowhere.
    Never,
    /// In `produce`, before it takes the producer.
    Produce,
}

/// A strategy that runs tasks where they were produced, and fails at one place.
struct Fails {
    at: At,
    /// How often it still fails.
    left: AtomicU32,
    producer: Mutex<Option<LoopProducer>>,
    wanted: AtomicBool,
    closed: AtomicBool,
    pool: Arc<dyn Executor>,
}

struct Handle(Arc<Fails>);

impl Fails {
    fn fail(&self, at: At) {
        let fails = self.at == at
            && self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok();
        if fails {
            explode();
        }
    }

    fn drive(&self) {
        while self.wanted.load(Ordering::SeqCst) {
            self.fail(At::Produce);
            let Some(mut producer) = self.producer.lock().unwrap().take() else {
                return;
            };
            self.wanted.store(false, Ordering::SeqCst);
            while !self.closed.load(Ordering::SeqCst)
                && let Some(task) = producer.produce()
            {
                task.run();
            }
            if !self.closed.load(Ordering::SeqCst) {
                *self.producer.lock().unwrap() = Some(producer);
            }
        }
    }

    fn send(self: &Arc<Self>) -> Result<(), Rejected<()>> {
        let own = Arc::clone(self);
        let task = Task::new(move || {
            own.wanted.store(true, Ordering::SeqCst);
            own.drive();
        });
        let sent = self.pool.execute_internal(task);
        sent.map_err(|refused| refused.map(drop))
    }
}

impl Strategy for Handle {
    fn produce(&self) {
        self.0.wanted.store(true, Ordering::SeqCst);
        self.0.drive();
    }

    fn dispatch(&self) -> Result<(), Rejected<()>> {
        self.0.send()
    }

    fn shutdown(&self) -> bool {
        let first = !self.0.closed.swap(true, Ordering::SeqCst);
        let producer = self.0.producer.lock().unwrap().take();
        drop(producer);
        first
    }

    fn is_idle(&self) -> bool {
        self.0.producer.lock().unwrap().is_some()
    }

    fn is_shutdown(&self) -> bool {
        self.0.closed.load(Ordering::SeqCst) && self.0.producer.lock().unwrap().is_none()
    }

    fn metrics(&self) -> StrategyMetrics {
        StrategyMetrics::default()
    }

    fn name(&self) -> &'static str {
        "Fails"
    }

    fn dump(&self) -> Dump {
        Dump::new("strategy", "Fails")
    }
}

fn config(at: At, times: u32, workers: &Arc<WorkerPool>) -> RoamingConfig {
    let workers = Arc::clone(workers) as Arc<dyn TryExecutor>;
    RoamingConfig::new(workers).strategy(move |producer, pool| {
        Handle(Arc::new(Fails {
            at,
            left: AtomicU32::new(times),
            producer: Mutex::new(Some(producer)),
            wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            pool,
        }))
    })
}

fn fails(at: At, times: u32, workers: &Arc<WorkerPool>) -> EventLoop<Roaming> {
    fails_on(&ManualClock::new(), at, times, workers)
}

fn fails_on(
    clock: &ManualClock,
    at: At,
    times: u32,
    workers: &Arc<WorkerPool>,
) -> EventLoop<Roaming> {
    let home = EventLoop::builder("fails").clock(clock);
    let home = home.on_unhandled(|_, _| ());
    home.build_roaming(&config(at, times, workers)).unwrap()
}

/// Advances time past the deadline until the end is announced.
fn pass_deadline<T>(clock: &ManualClock, over: T, is_done: impl Fn(&T) -> bool) -> T {
    until("the end is announced", || {
        clock.jump(SECOND);
        is_done(&over)
    });
    over
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
    let home = fails(At::Never, 0, &workers);
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
fn the_tasks_of_a_loop_that_its_strategy_left_are_handed_back() {
    let workers = pool(4);
    // Its only `produce` panics: no thread asks the loop again.
    let clock = ManualClock::new();
    let home = fails_on(&clock, At::Produce, 1, &workers);
    let ran = Counter::new();
    let runs = ran.clone();
    let answer = home.submit(move || runs.hit()).unwrap();
    until("its `produce` has panicked", || workers.metrics().done == 1);
    let over = home.shutdown(Quiet::none(SECOND));
    let over = pass_deadline(&clock, over, |over| over.is_done());
    let why = over.wait().unwrap_err().failure().unwrap();
    let ShutdownError::BadStrategy { fault, .. } = &why else {
        panic!("{why}");
    };
    assert!(fault.starts_with("never asked"), "{fault}");
    until("its task is handed back", || !home.handed_back().is_empty());
    let left = home.handed_back().take();
    assert_eq!(left.len(), 1);
    left.into_iter().for_each(Task::run);
    assert!(answer.wait().is_err() || ran.count() == 1);
    // The strategy may still be shut down, or asked: there is nothing left.
    home.strategy().produce();
    home.strategy().shutdown();
    drop(home);
    end_pool(&workers, "left");
}

#[test]
fn a_group_with_one_bad_strategy_ends_and_hands_back_what_is_left() {
    let workers = pool(8);
    let (built, clock) = (AtomicU32::new(0), ManualClock::new());
    let shared = Arc::clone(&workers) as Arc<dyn TryExecutor>;
    let config = RoamingConfig::new(shared).strategy(move |producer, pool| {
        let at = match built.fetch_add(1, Ordering::SeqCst) {
            1 => At::Produce,
            _ => At::Never,
        };
        Handle(Arc::new(Fails {
            at,
            left: AtomicU32::new(u32::MAX),
            producer: Mutex::new(Some(producer)),
            wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            pool,
        }))
    });
    let group = EventLoopGroup::builder("io").loops(3).clock(&clock);
    let group = group
        .on_unhandled(|_, _| ())
        .build_roaming(&config)
        .unwrap();
    let ran = Counter::new();
    for home in group.iter() {
        let runs = ran.clone();
        home.execute(hits(runs)).unwrap();
    }
    ran.wait_for(2);
    let over = group.shutdown(Quiet::none(SECOND));
    // The others end before the deadline, so the group names the bad one.
    until("the good loops have ended", || {
        group.iter().filter(|home| home.is_terminated()).count() == 2
    });
    let over = pass_deadline(&clock, over, |over| over.is_done());
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
            let ran = self.ran.clone();
            home.execute(hits(ran)).unwrap();
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
            inner: Handle(Arc::new(Fails {
                at: At::Never,
                left: AtomicU32::new(0),
                producer: Mutex::new(Some(producer)),
                wanted: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                pool,
            })),
            home: Weak::clone(&home),
            ends,
            ran: count.clone(),
        });
        let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
        cell.set(home.clone()).unwrap();
        let last = Gate::new();
        let opens = last.clone();
        let accepted = home.execute(move || opens.open());
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
