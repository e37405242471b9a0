//! How long a turn spends on each kind of work, on a clock that the work itself advances; and which
//! event loops a group avoids while their drivers fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::internal::Sleeper;
use tidegate_core::{Clock, ManualClock, Parker, Task};
use tidegate_loop::internal::{Driver, Health};
use tidegate_loop::{
    Choose, EventLoop, EventLoopBuilder, EventLoopGroup, Roaming, RoamingConfig, TurnBudget,
};
use tidegate_testkit::{Log, until};

use crate::manual_executor::ManualExecutor;

const MILLISECOND: Duration = Duration::from_millis(1);

/// A driver that finds `each` tasks per poll. If `slow` is set, each task takes a millisecond.
struct Sockets {
    log: Log<&'static str>,
    clock: ManualClock,
    parker: Parker,
    each: usize,
    found: usize,
    slow: bool,
    health: Health,
}

impl Driver for Sockets {
    const SPINS: bool = false;

    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        clock.park_until(&self.parker, deadline);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.parker.clone())
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn poll(&mut self) {
        if self.found == 0 {
            self.found = std::mem::take(&mut self.each);
        }
    }

    fn next_tasks(&mut self, _most: usize) -> Option<(Task, usize)> {
        self.found = self.found.checked_sub(1)?;
        let (log, clock, slow) = (self.log.clone(), self.clock.clone(), self.slow);
        let work = move || {
            log.push("io");
            if slow {
                clock.jump(MILLISECOND);
            }
        };
        Some((Task::non_blocking(work), 1))
    }
}

struct Bench {
    clock: ManualClock,
    log: Log<&'static str>,
}

impl Bench {
    fn new() -> Self {
        Self {
            clock: ManualClock::new(),
            log: Log::new(),
        }
    }

    fn builder(&self) -> EventLoopBuilder {
        let budget = TurnBudget {
            timers: 8 * MILLISECOND,
            tasks: 8 * MILLISECOND,
            io: 8 * MILLISECOND,
        };
        EventLoop::builder("home")
            .clock(&self.clock)
            .turn_budget(budget)
    }

    fn sockets(&self, each: usize, slow: bool) -> Sockets {
        Sockets {
            log: self.log.clone(),
            clock: self.clock.clone(),
            parker: Parker::new(),
            each,
            found: 0,
            slow,
            health: Health::new(),
        }
    }

    /// Returns work that takes a millisecond.
    fn slow(&self, name: &'static str) -> impl FnOnce() + Send + use<> {
        let (log, clock) = (self.log.clone(), self.clock.clone());
        move || {
            log.push(name);
            clock.jump(MILLISECOND);
        }
    }

    /// Returns how many tasks called `name` have run since the last call.
    fn ran(&self, name: &str) -> usize {
        self.log.take().iter().filter(|&&ran| ran == name).count()
    }
}

#[test]
fn slow_tasks_give_way_after_their_time_and_are_looked_at_more_often() {
    let bench = Bench::new();
    let (home, mut manual_loop) = bench.builder().build_manual().unwrap();
    for _ in 0..200 {
        home.execute(bench.slow("task")).unwrap();
    }
    let turns: Vec<_> = (0..6)
        .map(|_| {
            manual_loop.turn();
            bench.ran("task")
        })
        .collect();
    assert_eq!(turns, [64, 32, 16, 8, 8, 8]);
}

#[test]
fn quick_tasks_are_bounded_by_number_alone() {
    let bench = Bench::new();
    let (home, mut manual_loop) = bench.builder().build_manual().unwrap();
    for _ in 0..20 {
        home.execute(bench.slow("task")).unwrap();
    }
    manual_loop.run_until_idle();
    drop(bench.log.take());
    for _ in 0..1000 {
        home.execute(bench.log.pushes("task")).unwrap();
    }
    manual_loop.turn();
    assert_eq!(bench.ran("task"), 256);
}

#[test]
fn sockets_have_their_turn_while_slow_tasks_wait_and_tasks_while_slow_sockets_do() {
    let bench = Bench::new();
    let sockets = bench.sockets(1, false);
    let (home, mut manual_loop) = bench.builder().build_manual_with_driver(sockets).unwrap();
    for _ in 0..100 {
        home.execute(bench.slow("task")).unwrap();
    }
    manual_loop.turn();
    let received = bench.log.take();
    assert_eq!((received.len(), received[64]), (65, "io"));
    manual_loop.run_until_idle();

    let bench = Bench::new();
    let sockets = bench.sockets(200, true);
    let (home, mut manual_loop) = bench.builder().build_manual_with_driver(sockets).unwrap();
    manual_loop.turn();
    assert_eq!(bench.ran("io"), 64);
    home.execute(bench.slow("task")).unwrap();
    manual_loop.turn();
    let received = bench.log.take();
    assert_eq!(
        (received[0], received.len()),
        ("task", 33),
        "half as many as before"
    );
    manual_loop.run_until_idle();
    assert_eq!(bench.ran("io"), 200 - 64 - 32, "none is lost");
}

#[test]
fn slow_timers_give_way_to_tasks() {
    let bench = Bench::new();
    let (home, mut manual_loop) = bench.builder().build_manual().unwrap();
    for _ in 0..100 {
        drop(home.schedule(Duration::ZERO, bench.slow("timer")).unwrap());
    }
    manual_loop.run(|| ());
    home.execute(bench.slow("task")).unwrap();
    until("64 tasks and timers have run", || {
        manual_loop.turn();
        bench.log.len() >= 64
    });
    let received = bench.log.take();
    let at = received.iter().position(|&ran| ran == "task");
    assert!(at.is_some_and(|at| at <= 64), "{at:?}");
    manual_loop.run_until_idle();
}

#[test]
fn a_roaming_loop_keeps_its_turns_short_too() {
    let bench = Bench::new();
    let executor = ManualExecutor::new(0);
    let config = RoamingConfig::new(executor.clone()).manual();
    let sockets = bench.sockets(1, false);
    // An event loop that is driven by the test polls its driver in each turn.
    let home = bench
        .builder()
        .build_roaming_with_driver(sockets, &config)
        .unwrap();
    let strategy = home.strategy();
    for _ in 0..100 {
        let task = Task::non_blocking(bench.slow("task"));
        home.execute_task(task).unwrap();
    }
    strategy.produce();
    let received = bench.log.take();
    assert_eq!((received.len(), received[64]), (101, "io"));
    drop(home);
    executor.settle();
    strategy.shutdown();
    executor.drop_all();
}

#[test]
fn slow_tasks_of_a_roaming_loop_that_submit_themselves_give_way_to_its_lane() {
    fn again(home: &EventLoop<Roaming>, slow: impl Fn() + Clone + Send + 'static, left: u32) {
        let (own, task) = (home.clone(), slow.clone());
        let run = move || {
            task();
            if left > 0 {
                again(&own, slow, left - 1);
            }
        };
        home.execute_task(Task::non_blocking(run)).unwrap();
    }
    let bench = Bench::new();
    let executor = ManualExecutor::new(0);
    let config = RoamingConfig::new(executor.clone()).manual();
    let home = bench.builder().build_roaming(&config).unwrap();
    let strategy = home.strategy();
    let (log, clock) = (bench.log.clone(), bench.clock.clone());
    let slow = move || {
        log.push("own");
        clock.jump(MILLISECOND);
    };
    again(&home, slow, 300);
    let lane = Task::non_blocking(bench.log.pushes("lane"));
    home.execute_task(lane).unwrap();
    strategy.produce();
    let ran = bench.log.take();
    assert_eq!((ran.len(), ran[64]), (302, "lane"));
    drop(home);
    executor.settle();
    strategy.shutdown();
    executor.drop_all();
}

#[test]
fn a_group_leaves_loops_alone_whose_drivers_fail() {
    for choose in [Choose::RoundRobin, Choose::LessBusy] {
        let bench = Bench::new();
        let healths = Arc::<Mutex<Vec<Health>>>::default();
        let group = EventLoopGroup::builder("io")
            .loops(3)
            .choose(choose)
            .clock(&bench.clock)
            .build_with_driver(|_| {
                let sockets = bench.sockets(0, false);
                healths.lock().unwrap().push(sockets.health.clone());
                Ok(sockets)
            })
            .unwrap();
        let healths = healths.lock().unwrap().clone();
        let chosen = || -> Vec<bool> {
            let names: Vec<_> = (0..60).map(|_| group.next().name().to_owned()).collect();
            group
                .iter()
                .map(|one| names.iter().any(|name| name == one.name()))
                .collect()
        };
        assert_eq!(chosen(), [true, true, true]);
        healths[1].mark_failing();
        assert_eq!(chosen(), [true, false, true]);
        assert!(group.iter().nth(1).unwrap().is_unhealthy());
        healths[1].recover(&Clock::from(&bench.clock));
        assert_eq!(chosen(), [true, false, true], "it has just recovered");
        bench.clock.advance(Health::RECOVERY_PERIOD);
        assert_eq!(chosen(), [true, true, true]);
        for health in &healths {
            health.mark_failing();
        }
        let any = group.next().submit(|| 7).unwrap();
        assert_eq!(
            any.wait().unwrap(),
            7,
            "an unhealthy loop is better than none"
        );
    }
}
