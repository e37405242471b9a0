//! Which methods of its driver an event loop calls, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::internal::{Running, Sleeper};
use tidegate_core::{Clock, ManualClock, Parker, Task};
use tidegate_loop::internal::Driver;
use tidegate_loop::{EventLoop, Placement, Quiet};
use tidegate_testkit::Log;

use crate::manual_executor::ManualExecutor;
use crate::strategies::Kind;
use crate::{SECOND, builder};

/// A driver that logs its calls, and finds `work` tasks when it is polled.
struct FoundEvents {
    log: Log<&'static str>,
    parker: Parker,
    work: Arc<AtomicUsize>,
    found: usize,
    busy: Arc<AtomicBool>,
}

impl Driver for FoundEvents {
    const SPINS: bool = false;

    fn enter(&mut self) {
        self.log.push("enter");
    }

    fn leave(&mut self) {
        self.log.push("leave");
    }

    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        clock.park_until(&self.parker, deadline);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.parker.clone())
    }

    fn next_tasks(&mut self, _most: usize) -> Option<(Task, usize)> {
        self.found = self.found.checked_sub(1)?;
        Some((Task::non_blocking(self.log.pushes("found")), 1))
    }

    fn poll(&mut self) {
        self.log.push("look");
        self.found += self.work.swap(0, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        !self.busy.load(Ordering::Relaxed)
    }

    fn close(&mut self) {
        self.log.push("close");
    }
}

fn found_events(log: &Log<&'static str>) -> FoundEvents {
    FoundEvents {
        log: log.clone(),
        parker: Parker::new(),
        work: Arc::default(),
        found: 0,
        busy: Arc::default(),
    }
}

#[test]
fn a_turn_by_hand_looks_and_runs_what_the_look_found() {
    let log = Log::new();
    let driver = found_events(&log);
    let work = Arc::clone(&driver.work);
    let (home, mut manual_loop) = EventLoop::builder("driver")
        .build_manual_with_driver(driver)
        .unwrap();
    home.execute(log.pushes("task")).unwrap();
    work.store(2, Ordering::Relaxed);
    assert!(manual_loop.turn());
    log.assert_order(&["enter", "task", "look", "found", "found", "leave"]);
    assert!(!manual_loop.turn(), "nothing was found");
}

#[test]
fn a_loop_that_never_sleeps_lets_its_driver_look() {
    let log = Log::new();
    let driver = found_events(&log);
    let work = Arc::clone(&driver.work);
    let home = EventLoop::builder("driver")
        .build_with_driver(driver)
        .unwrap();
    work.store(1, Ordering::Relaxed);
    // Each task submits the next one, until the driver's own task has run.
    fn go_on(home: EventLoop, log: Log<&'static str>) {
        let seen = log.clone();
        let _ = home.clone().execute(move || {
            if !seen.take().contains(&"found") {
                go_on(home, log);
            }
        });
    }
    go_on(home.clone(), log);
    home.settle();
    home.shutdown(Quiet::none(Duration::from_secs(60)))
        .wait()
        .unwrap();
    assert_eq!(work.load(Ordering::Relaxed), 0);
}

#[test]
fn the_driver_closes_after_the_last_task_and_before_the_hooks_that_are_left() {
    let log = Log::new();
    let home = EventLoop::builder("driver")
        .build_with_driver(found_events(&log))
        .unwrap();
    home.execute(log.pushes("task")).unwrap();
    home.settle();
    home.shutdown(Quiet::none(SECOND)).wait().unwrap();
    let seen = log.take();
    let seen: Vec<_> = seen.into_iter().filter(|what| *what != "look").collect();
    assert_eq!(seen, ["enter", "task", "close", "leave"]);
}

/// Returns after how many seconds a loop ends that has I/O in each of them. `turns` lets it run.
fn seconds_until_the_end<P: Placement>(
    (home, clock, work): (&EventLoop<P>, &ManualClock, &AtomicUsize),
    mut turns: impl FnMut(),
) -> u32 {
    home.execute_task(Task::non_blocking(|| ())).unwrap();
    turns();
    let ended = home.shutdown(Quiet {
        period: SECOND * 2,
        timeout: SECOND * 15,
    });
    for seconds in 0.. {
        work.store(1, Ordering::Relaxed);
        turns();
        if ended.is_done() {
            return seconds;
        }
        clock.jump(SECOND);
    }
    unreachable!("it ends at the timeout")
}

#[test]
fn work_of_the_driver_alone_does_not_prolong_the_quiet_period() {
    let (clock, driver) = (ManualClock::new(), found_events(&Log::new()));
    let work = Arc::clone(&driver.work);
    let (home, mut manual_loop) = builder(&clock, "pinned")
        .build_manual_with_driver(driver)
        .unwrap();
    let ended = seconds_until_the_end((&home, &clock, &work), || manual_loop.run_until_idle());
    assert_eq!(ended, 2);

    let (clock, driver) = (ManualClock::new(), found_events(&Log::new()));
    let work = Arc::clone(&driver.work);
    let executor = ManualExecutor::new(1);
    let config = Kind::Eager.config(executor.clone()).manual();
    let home = builder(&clock, "roams").build_roaming_with_driver(driver, &config);
    let home = home.unwrap();
    let strategy = home.strategy();
    let ended = seconds_until_the_end((&home, &clock, &work), || strategy.produce());
    assert_eq!(ended, 2);
    drop((home, strategy));
    executor.drop_all();
}

#[test]
fn a_loop_whose_driver_has_something_to_keep_stays_on_its_thread() {
    let log = Log::new();
    let driver = found_events(&log);
    let busy = Arc::clone(&driver.busy);
    busy.store(true, Ordering::Relaxed);
    let home = EventLoop::builder("driver")
        .build_with_driver(driver)
        .unwrap();
    let before = home.submit(|| std::thread::current().id()).unwrap().wait();
    assert!(home.try_suspend());
    let after = home.submit(|| std::thread::current().id()).unwrap().wait();
    assert_eq!(before.unwrap(), after.unwrap());
    assert!(!log.take().contains(&"leave"));
    busy.store(false, Ordering::Relaxed);
    home.shutdown(Quiet::none(Duration::from_secs(5)))
        .wait()
        .unwrap();
    assert_eq!(log.take().last(), Some(&"leave"));
}

/// A driver with `found` work items. It does as many at a time as it is asked for, but at most ten.
struct Several {
    asked: Log<usize>,
    parker: Parker,
    found: usize,
    /// The loop hands its tasks out, and counts the items itself.
    handed_out: bool,
}

impl Driver for Several {
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        clock.park_until(&self.parker, deadline);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.parker.clone())
    }

    fn next_tasks(&mut self, most: usize) -> Option<(Task, usize)> {
        self.asked.push(most);
        let several = self.found.min(most).min(10);
        self.found -= several;
        let handed_out = self.handed_out;
        let work = move || {
            if !handed_out {
                let running = Running::of_thread().expect("a loop runs this");
                (1..several).for_each(|_| running.next_step());
            }
        };
        (several > 0).then(|| (Task::non_blocking(work), several))
    }
}

fn several(found: usize) -> (Log<usize>, Several) {
    let asked = Log::new();
    let driver = Several {
        asked: asked.clone(),
        parker: Parker::new(),
        found,
        handed_out: false,
    };
    (asked, driver)
}

#[test]
fn a_task_that_does_several_counts_for_all_of_them_and_for_no_more_than_a_turn_may_do() {
    let (asked, driver) = several(300);
    let (home, mut manual_loop) = EventLoop::builder("several")
        .clock(ManualClock::new())
        .build_manual_with_driver(driver)
        .unwrap();
    manual_loop.turn();
    assert_eq!(home.metrics().tasks_run, 256, "a turn's worth");
    let stretches: Vec<_> = asked.take();
    // The clock is read after 64 items: six times ten, and four.
    assert_eq!(stretches[..8], [64, 54, 44, 34, 24, 14, 4, 64]);
    manual_loop.turn();
    assert_eq!(home.metrics().tasks_run, 300);
}

#[test]
fn a_loop_that_times_its_tasks_has_them_one_by_one() {
    let (asked, driver) = several(3);
    let (home, mut manual_loop) = EventLoop::builder("several")
        .time_tasks(true)
        .build_manual_with_driver(driver)
        .unwrap();
    manual_loop.turn();
    assert_eq!(home.metrics().tasks_run, 3);
    assert_eq!(asked.take(), [1; 4]);
}

#[test]
fn a_task_that_is_handed_out_counts_for_all_of_its_items() {
    let (asked, mut driver) = several(300);
    driver.handed_out = true;
    let config = Kind::Eager.config(ManualExecutor::new(1)).manual();
    let builder = EventLoop::builder("several").clock(ManualClock::new());
    let home = builder.build_roaming_with_driver(driver, &config).unwrap();
    home.strategy().produce();
    assert_eq!(home.metrics().tasks_run, 300);
    let stretches: Vec<_> = asked.take();
    assert_eq!(stretches[..8], [64, 54, 44, 34, 24, 14, 4, 64]);
    // The first turn ends after 256 items; the second finds the rest, and the third nothing.
    let mut items = stretches.iter().map(|most| (*most).min(10));
    assert_eq!(items.by_ref().take(28).sum::<usize>(), 256);
    assert_eq!(stretches[28..], [64, 54, 44, 34, 24, 20, 64]);
}
