//! Timers run in passes: a timer that is always due does not keep the others from running.

use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_core::internal::as_nanos;
use tidegate_loop::{EventLoop, ManualLoop, Quiet, TurnBudget};
use tidegate_testkit::{Counter, DropCount, Log};

use crate::{SECOND, builder};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns an event loop that is driven by hand, with `laggards` fixed-rate tasks that cannot keep
/// up: the period is 10 ms and each run takes 15 ms, on a clock that the runs themselves advance.
/// The counter counts the runs.
fn laggards(laggards: usize, budget: TurnBudget) -> (EventLoop, ManualLoop, ManualClock, Counter) {
    let clock = ManualClock::new();
    let home = builder(&clock, "home").turn_budget(budget);
    let (home, manual_loop) = home.build_manual().unwrap();
    let runs = Counter::new();
    for _ in 0..laggards {
        let (clock, runs) = (clock.clone(), runs.clone());
        let every = 10 * MILLISECOND;
        let task = home.schedule_at_fixed_rate(every, every, move || {
            runs.hit();
            clock.jump(15 * MILLISECOND);
        });
        drop(task.unwrap());
    }
    (home, manual_loop, clock, runs)
}

#[test]
fn a_rate_that_cannot_keep_up_lets_the_other_timers_run() {
    let (home, mut manual_loop, clock, runs) = laggards(1, TurnBudget::default());
    clock.jump(10 * MILLISECOND);
    while clock.nanos() < as_nanos(4 * SECOND) {
        assert!(manual_loop.turn(), "it has fallen behind");
    }
    let (asked, before) = (clock.nanos(), runs.count());
    let (time, log) = (clock.clone(), Log::new());
    let notified = log.clone();
    drop(home.schedule(MILLISECOND, move || notified.push(time.nanos())));
    while log.is_empty() {
        assert!(manual_loop.turn(), "it has fallen behind");
    }
    let late = Duration::from_nanos(log.take()[0] - asked) - MILLISECOND;
    assert!(late < 30 * MILLISECOND, "{late:?} late");
    assert!(runs.count() - before <= 2);
    assert!(
        manual_loop.turn(),
        "and what was missed is still made up for"
    );
}

#[test]
fn a_pass_that_is_cut_by_its_budget_goes_on_where_it_was() {
    // The clock is read once in four runs: a turn runs four of the tasks, and never all of them.
    let budget = TurnBudget {
        timers: Duration::from_nanos(1),
        ..TurnBudget::default()
    };
    let (home, mut manual_loop, clock, runs) = laggards(20, budget);
    clock.jump(10 * MILLISECOND);
    while clock.nanos() < as_nanos(4 * SECOND) {
        assert!(manual_loop.turn(), "they have fallen behind");
    }
    let ran = Counter::new();
    drop(home.schedule(MILLISECOND, ran.hits()));
    let before = runs.count();
    while ran.count() == 0 {
        assert!(manual_loop.turn(), "they have fallen behind");
    }
    // At most the rest of the pass in which the timer was not due yet, and its own pass.
    let between = runs.count() - before;
    assert!(between <= 40, "{between} runs before it");
}

#[test]
fn what_lies_aside_is_cancelled_with_its_loop_and_by_its_completion() {
    let budget = TurnBudget {
        timers: Duration::from_nanos(1),
        ..TurnBudget::default()
    };
    let (home, mut manual_loop, clock, runs) = laggards(20, budget);
    let drops = Counter::new();
    let (time, value) = (clock.clone(), DropCount::new(&drops));
    let every = 10 * MILLISECOND;
    let task = home.schedule_at_fixed_rate(every, every, move || {
        let _value = &value;
        time.jump(15 * MILLISECOND);
    });
    clock.jump(10 * MILLISECOND);
    while clock.nanos() < as_nanos(2 * SECOND) {
        assert!(manual_loop.turn(), "they have fallen behind");
    }
    assert_eq!(home.metrics().timers_pending, 21);
    assert!(task.unwrap().cancel());
    assert_eq!(drops.count(), 1);
    let before = runs.count();
    let end = home.shutdown(Quiet::none(SECOND));
    manual_loop.run_until_idle();
    // A task that runs during the shutdown is not re-inserted; all others are cancelled.
    let ran = runs.count() - before;
    assert_eq!(end.wait().unwrap().cancelled + ran, 20);
}
