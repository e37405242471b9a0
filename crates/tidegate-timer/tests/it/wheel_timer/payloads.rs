//! The timer survives panics whose payload panics on drop, and values that panic on drop.

use super::*;
use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::thread::ThreadPerTask;
use tidegate_core::{Clock, Executor, Rejected, Task, ThreadBuilder};

/// An executor whose every submission panics.
struct Explodes(ThreadPerTask);

impl Executor for Explodes {
    fn execute(&self, _task: Task) -> Result<(), Rejected<Task>> {
        explode()
    }

    fn signal(&self, _signal: Signal) -> Result<(), Rejected<Signal>> {
        explode()
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.0.id()
    }

    fn name(&self) -> &str {
        "explodes"
    }

    fn clock(&self) -> &Clock {
        self.0.clock()
    }
}

fn threads() -> ThreadPerTask {
    ThreadPerTask::new(ThreadBuilder::new("each"))
}

/// Checks that the timer still fires due timeouts and returns the others on a stop.
fn assert_lives(timer: WheelTimer, clock: &ManualClock) {
    let fires = timer.schedule(SECOND, || ()).expect("it runs");
    timer.schedule(9 * SECOND, || ()).expect("it runs");
    clock.advance(SECOND);
    assert!(fires.is_expired());
    assert_eq!(
        timer
            .shutdown()
            .wait()
            .expect("not its own thread")
            .unfired
            .len(),
        1
    );
    assert_eq!(timer.pending(), 0);
}

#[test]
fn of_tasks_and_of_the_hook_that_receives_them() {
    let clock = ManualClock::new();
    let timer = WheelTimer::builder("test").clock(&clock);
    let timer = timer.on_unhandled(|_, _| explode()).build().unwrap();
    for _ in 0..3 {
        timer.schedule(SECOND, || explode()).unwrap();
    }
    clock.advance(SECOND);
    assert_eq!((timer.metrics().fired, timer.metrics().panicked), (3, 3));
    assert_lives(timer, &clock);
}

#[test]
fn of_hooks_of_cancelled_timeouts() {
    let (timer, clock) = timer();
    let add = || {
        let task = TimerTask::new(|| ()).on_cancel(|| explode());
        timer.schedule_task(9 * SECOND, task).unwrap()
    };
    assert!(add().cancel());
    add();
    add();
    clock.settle();
    assert_eq!(timer.shutdown().wait().unwrap().unfired.len(), 2);
    assert_eq!(timer.metrics().panicked, 3);
}

#[test]
fn of_what_tasks_and_hooks_have_captured() {
    let (timer, clock) = timer();
    let add = |after: Duration| {
        let (run, hook) = (Bomb::new(), Bomb::new());
        let task = TimerTask::new(move || drop(run)).on_cancel(move || hook.defuse());
        timer.schedule_task(after, task).unwrap()
    };
    add(SECOND);
    let cancelled = add(9 * SECOND);
    clock.advance(SECOND);
    assert_eq!(
        timer.metrics().panicked,
        2,
        "the hook that did not run, and the task"
    );
    assert!(cancelled.cancel());
    assert_eq!(timer.metrics().panicked, 3, "the task that did not run");
    assert_lives(timer, &clock);
}

#[test]
fn of_what_was_captured_by_the_hook_of_a_timeout_that_its_executor_accepts() {
    let (timer, clock) = timer();
    let (hook, ran) = (Bomb::new(), Gate::new());
    let open = ran.clone();
    let task = TimerTask::new(move || open.open()).on_cancel(move || hook.defuse());
    let task = task.on(Arc::new(threads()));
    timer.schedule_task(SECOND, task).unwrap();
    clock.advance(SECOND);
    ran.wait();
    assert_eq!(timer.metrics().panicked, 1);
    assert_lives(timer, &clock);
}

#[test]
fn of_executors() {
    let (timer, clock) = timer();
    let hook = Bomb::new();
    let task = TimerTask::new(|| ()).on_cancel(move || hook.defuse());
    timer
        .schedule_task(SECOND, task.on(Arc::new(Explodes(threads()))))
        .unwrap();
    clock.advance(SECOND);
    assert_eq!(timer.metrics().panicked, 2);
    assert_lives(timer, &clock);
}

#[test]
fn of_values_that_are_dropped_with_the_timer() {
    let (timer, clock) = timer();
    let drops = Counter::new();
    for _ in 0..3 {
        let (bomb, value) = (Bomb::new(), DropCount::new(&drops));
        let run = move || drop((bomb, value));
        timer.schedule(SECOND, run).unwrap();
    }
    clock.settle();
    drop(timer);
    assert_eq!(drops.count(), 3, "each of them, and nothing got out");
}
