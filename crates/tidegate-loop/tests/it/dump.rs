//! Dumps of event loops and groups: what they show, when loops answer, and that nothing waits for
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate_core::internal::Sleeper;
use tidegate_core::{Clock, Dump, ManualClock, Parker, Rejected, Task};
use tidegate_loop::internal::{Driver, DriverView};
use tidegate_loop::{EventLoop, EventLoopGroup, Lifecycle, Quiet, RoamingConfig};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{Adaptive, Monitor, Strategy};
use tidegate_testkit::{Log, Stop, explode, rounds, until};

use crate::{SECOND, builder, end, hold, home, on, watched};

fn count(dump: &Dump, key: &str) -> u64 {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_count().unwrap()
}

fn text<'a>(dump: &'a Dump, key: &str) -> &'a str {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_text().unwrap()
}

/// Asserts that a dump of a quiet event loop agrees with its metrics.
fn assert_agrees(home: &EventLoop) {
    let (dump, metrics) = (home.dump(), home.metrics());
    let pairs = [
        ("queued", metrics.tasks_pending as u64),
        ("timers", metrics.timers_pending),
        ("futures", metrics.futures),
        ("tasks_run", metrics.tasks_run),
        ("refused", metrics.refused),
        ("panics", metrics.panics),
    ];
    for (key, figure) in pairs {
        assert_eq!(count(&dump, key), figure, "{key} in {dump}");
    }
}

#[test]
fn a_dump_shows_the_thread_the_queue_and_the_timers() {
    let clock = ManualClock::new();
    let home = builder(&clock, "home").bound(64).build().unwrap();
    let _never = home.schedule(SECOND * 60, || ()).unwrap();
    let _pending = home.spawn(std::future::pending::<()>()).unwrap();
    home.settle();
    let dump = home.dump_within(SECOND);
    assert_eq!((dump.kind(), dump.name()), ("loop", "home"));
    assert_eq!(text(&dump, "state"), "started");
    assert!(text(&dump, "thread").starts_with("home"), "{dump}");
    assert_eq!((count(&dump, "timers"), count(&dump, "futures")), (1, 1));
    assert_eq!(count(&dump, "queue_limit"), 64);
    assert_eq!(dump.get("next_timer_in"), Some(&(SECOND * 60).into()));
    home.settle();
    assert_eq!(text(&home.dump(), "thread_state"), "waiting");
    assert_eq!(text(&home.dump(), "runs"), "nothing");
    assert_agrees(&home);
}

#[test]
fn a_stuck_loop_is_described_with_its_task_and_its_age() {
    let (home, clock) = home();
    clock.jump(SECOND);
    let stop = Stop::new();
    let task = Task::named("compact", stop.closure());
    home.execute_task(task).unwrap();
    stop.reached();
    for _ in 0..10 {
        home.execute(|| ()).unwrap();
    }
    clock.jump(SECOND * 3);
    let dump = home.dump();
    assert_eq!(
        (text(&dump, "runs"), count(&dump, "queued")),
        ("compact", 10)
    );
    assert_eq!(dump.get("for_at_most"), Some(&(SECOND * 3).into()));
    let asked = home.dump_within(std::time::Duration::ZERO);
    assert!(text(&asked, "not_listed").contains("it runs compact for up to 3.0s"));
    thread::scope(|scope| {
        let asked = scope.spawn(|| home.dump_within(SECOND));
        clock.await_sleepers(1);
        clock.jump(SECOND);
        let asked = asked.join().unwrap();
        assert!(text(&asked, "not_listed").contains("did not answer within 1s"));
        assert_eq!(text(&asked, "runs"), "compact");
    });
    stop.go_on();
    home.settle();
    assert_agrees(&home);
}

#[test]
fn requests_to_a_stuck_loop_are_answered_when_it_goes_on() {
    let (home, _clock) = home();
    let gate = hold(&home);
    for _ in 0..1_000 {
        drop(home.dump_async());
    }
    let (first, second) = (home.dump_async(), home.dump_async());
    for _ in 0..10_000 {
        home.execute(|| ()).unwrap();
    }
    assert!(!first.is_done());
    gate.open();
    for asked in [first, second] {
        let dump = asked.wait().unwrap();
        assert_eq!(text(&dump, "state"), "started");
        assert!(count(&dump, "tasks_run") <= 65, "before most tasks: {dump}");
    }
}

#[test]
fn a_task_can_dump_its_own_loop() {
    let (home, _clock) = home();
    let (handle, log) = (home.clone(), Log::new());
    let told = log.clone();
    let task = Task::named("look", move || {
        handle.execute_task(Task::named("later", || ())).unwrap();
        told.push(handle.dump());
        told.push(handle.dump_within(SECOND));
    });
    home.execute_task(task).unwrap();
    home.settle();
    let [dump, asked] = <[Dump; 2]>::try_from(log.take()).unwrap();
    assert_eq!(text(&dump, "runs"), "look");
    let own = dump.find("own_tasks").unwrap();
    assert_eq!(own.children()[0].name(), "later");
    assert!(text(&asked, "not_listed").contains("this thread is the loop's"));
}

#[test]
fn a_thread_that_must_not_block_does_not_wait_for_another_loop() {
    let clock = ManualClock::new();
    let (home, other) = (on(&clock, "home"), on(&clock, "other"));
    let gate = hold(&other);
    let asked = other.clone();
    let dump = home.submit(move || asked.dump_within(SECOND)).unwrap();
    let dump = dump.wait().unwrap();
    assert!(dump.get("not_listed").is_some(), "{dump}");
    assert_eq!(dump.name(), "other");
    gate.open();
}

#[test]
fn a_dump_starts_no_thread() {
    let (home, _clock) = home();
    assert_eq!(text(&home.dump(), "state"), "not started");
    let dump = home.dump_within(SECOND);
    assert!(dump.get("not_listed").is_none() && dump.get("thread").is_none());
    assert_eq!(home.lifecycle(), Lifecycle::NotStarted);
    home.submit(|| ()).unwrap().wait().unwrap();
    home.try_suspend();
    until("it is suspended", || {
        home.lifecycle() == Lifecycle::Suspended
    });
    drop(home.dump_within(SECOND));
    assert_eq!(home.lifecycle(), Lifecycle::Suspended);
}

#[test]
fn a_dump_after_the_end_shows_the_end() {
    let (home, _clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    end(&home);
    for dump in [home.dump(), home.dump_within(SECOND)] {
        assert_eq!(
            (text(&dump, "state"), text(&dump, "runs")),
            ("terminated", "nothing")
        );
        assert!(dump.get("not_listed").is_none());
    }
}

#[test]
fn a_dump_during_a_shutdown_does_not_make_it_longer() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let ended = home.shutdown(Quiet {
        period: SECOND * 2,
        timeout: SECOND * 15,
    });
    for _ in 0..3 {
        clock.advance(SECOND / 2);
        let dump = home.dump_within(SECOND);
        assert_eq!(text(&dump, "state"), "shutting down");
        assert!(dump.get("not_listed").is_none(), "{dump}");
    }
    assert!(!ended.is_done());
    clock.advance(SECOND / 2);
    assert!(ended.is_done());
}

#[test]
fn a_panicking_task_leaves_a_loop_that_can_be_dumped() {
    let clock = ManualClock::new();
    let (home, heard) = watched(&clock);
    let handle = home.clone();
    home.execute(move || {
        assert_eq!(text(&handle.dump(), "state"), "started");
        explode();
    })
    .unwrap();
    home.settle();
    assert_eq!(heard.len(), 1);
    assert_eq!(count(&home.dump_within(SECOND), "panics"), 1);
    assert_agrees(&home);
}

#[test]
fn the_size_of_a_dump_does_not_grow_with_the_queue() {
    let (home, _clock) = home();
    let (handle, log) = (home.clone(), Log::new());
    let told = log.clone();
    home.execute(move || {
        for _ in 0..10_000 {
            handle.execute(|| ()).unwrap();
        }
        told.push(handle.dump());
    })
    .unwrap();
    home.settle();
    let dump = log.take().pop().unwrap();
    assert_eq!(count(&dump, "queued"), 10_000);
    let own = dump.find("own_tasks").unwrap();
    assert_eq!((own.children().len(), own.left_out()), (100, 9_900));
    let shown = dump.to_string();
    assert!(shown.contains("and 9,900 more") && shown.len() < 32 * 1024);
}

#[test]
fn a_roaming_loop_shows_its_strategy_and_the_tasks_that_run_elsewhere() {
    let pool = WorkerPool::builder("workers").core(3).max(3).build();
    let config = RoamingConfig::new(Arc::new(pool.unwrap()));
    let config = config.late(&Monitor::start("io").unwrap());
    let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
    let stop = Stop::new();
    let task = Task::named("blocks", stop.closure());
    home.execute_task(task).unwrap();
    stop.reached();
    // Another thread drives the loop meanwhile, and answers.
    let dump = home.dump_async().wait().unwrap();
    assert_eq!(count(&dump, "tasks_elsewhere"), 1);
    assert_eq!(text(&dump, "last_of_them"), "blocks");
    let strategy = dump.find("strategy").unwrap();
    assert_eq!(
        (strategy.name(), text(strategy, "executor")),
        ("Adaptive", "workers")
    );
    stop.go_on();
    home.shutdown(Quiet::none(SECOND * 60)).wait().unwrap();
    let dump = home.dump();
    assert_eq!(text(&dump, "state"), "terminated");
    assert_eq!(dump.find("strategy").unwrap().name(), "Adaptive");
}

#[test]
fn a_group_lists_its_loops_and_marks_the_stuck_one() {
    let clock = ManualClock::new();
    let group = EventLoopGroup::builder("io").clock(&clock).loops(3);
    let group = group.build().unwrap();
    for one in &group {
        one.submit(|| ()).unwrap().wait().unwrap();
    }
    let gate = hold(group.iter().nth(1).unwrap());
    let dump = thread::scope(|scope| {
        let asked = scope.spawn(|| group.dump_within(SECOND));
        // The caller waits for the stuck loop only: the others have answered or will.
        clock.await_sleepers(3);
        until("the caller gave up", || {
            clock.jump(SECOND);
            asked.is_finished()
        });
        asked.join().unwrap()
    });
    assert_eq!((dump.kind(), dump.name()), ("group", "io"));
    let loops = dump.find("loops").unwrap().children();
    let names: Vec<_> = loops.iter().map(Dump::name).collect();
    assert_eq!(names, ["io-0", "io-1", "io-2"]);
    assert!(loops[1].get("not_listed").is_some(), "{dump}");
    assert_eq!(count(&group.dump(), "active"), 3);
    gate.open();
    let ended = group.shutdown(Quiet::none(SECOND));
    ended.wait().unwrap();
}

/// A driver that shows a number, and panics if it is asked on its loop with number 13.
struct Shown {
    parker: Parker,
    number: Arc<AtomicU64>,
}

struct View(Arc<AtomicU64>);

impl DriverView for View {
    fn dump(&self) -> Dump {
        Dump::new("reactor", "").fact("number", self.0.load(Ordering::Relaxed))
    }
}

impl Driver for Shown {
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        clock.park_until(&self.parker, deadline);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.parker.clone())
    }

    fn view(&self) -> Option<Arc<dyn DriverView>> {
        Some(Arc::new(View(Arc::clone(&self.number))))
    }

    fn dump(&mut self) -> Option<Dump> {
        assert_ne!(self.number.load(Ordering::Relaxed), 13, "bad luck");
        Some(Dump::new("reactor", "").fact("asked", true))
    }
}

#[test]
fn a_driver_shows_what_it_publishes_and_more_when_its_loop_is_asked() {
    let (clock, number) = (ManualClock::new(), Arc::new(AtomicU64::new(7)));
    let driver = Shown {
        parker: Parker::new(),
        number: Arc::clone(&number),
    };
    let builder = builder(&clock, "home").on_unhandled(|_, _| ());
    let home = builder.build_with_driver(driver).unwrap();
    home.submit(|| ()).unwrap().wait().unwrap();
    let reactor = |dump: &Dump| dump.find("reactor").unwrap().clone();
    assert_eq!(count(&reactor(&home.dump()), "number"), 7);
    let asked = reactor(&home.dump_async().wait().unwrap());
    assert_eq!(asked.get("asked"), Some(&true.into()));
    number.store(13, Ordering::Relaxed);
    let published = reactor(&home.dump_async().wait().unwrap());
    assert_eq!(count(&published, "number"), 13, "its panic is contained");
    assert_eq!(home.metrics().panics, 1);
}

/// Tasks, timers and futures come and go, tasks panic, and the loop ends, while others dump.
#[test]
fn dumps_under_load_disturb_nothing_and_the_last_agrees_with_the_metrics() {
    let home = EventLoop::builder("home").on_unhandled(|_, _| ());
    let home = home.build().unwrap();
    let rounds = rounds(300);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..rounds {
                    let task = move || {
                        if round % 16 == 0 {
                            explode();
                        }
                    };
                    home.execute(task).unwrap();
                    let timer = home.schedule(SECOND * 60, || ()).unwrap();
                    home.spawn(async {}).unwrap().wait().unwrap();
                    timer.cancel();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                assert!(home.dump().to_string().len() < 8 * 1024);
            }
        });
        scope.spawn(|| {
            for _ in 0..rounds {
                let dump = home.dump_async().wait().unwrap();
                assert!(dump.get("not_listed").is_none());
            }
        });
    });
    home.settle();
    let dump = home.dump_async().wait().unwrap();
    let metrics = home.metrics();
    assert_eq!(count(&dump, "panics"), metrics.panics);
    assert_eq!(count(&dump, "tasks_run"), metrics.tasks_run);
    assert_eq!(count(&dump, "timers"), metrics.timers_pending);
    assert_agrees(&home);
}

/// The end of a loop races against requests: each of them is answered.
#[test]
fn every_request_is_answered_although_the_loop_ends() {
    for _ in 0..rounds(100) {
        let home = EventLoop::builder("home").build().unwrap();
        home.execute(|| ()).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        drop(home.dump_async().wait().unwrap());
                    }
                });
            }
            drop(home.shutdown(Quiet::none(SECOND * 60)));
        });
    }
}

/// A strategy of the user's own whose `dump` panics.
struct BadDump<S>(S);

impl<S: Strategy> Strategy for BadDump<S> {
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

    fn dump(&self) -> Dump {
        explode()
    }
}

#[test]
fn a_panic_of_the_users_strategy_does_not_reach_the_caller_of_a_dump() {
    let pool = WorkerPool::builder("workers").core(3).max(3).build();
    let config = RoamingConfig::new(Arc::new(pool.unwrap()));
    let config = config.strategy(|producer, pool| BadDump(Adaptive::new(producer, pool)));
    let home = EventLoop::builder("roams").build_roaming(&config).unwrap();
    home.submit(|| ()).unwrap().wait().unwrap();
    for dump in [home.dump(), home.dump_async().wait().unwrap()] {
        assert!(dump.find("strategy").unwrap().get("panicked").is_some());
    }
    home.shutdown(Quiet::none(SECOND * 60)).wait().unwrap();
}
