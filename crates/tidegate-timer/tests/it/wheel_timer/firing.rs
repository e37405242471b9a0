//! When and where timeouts fire, and how a task can affect other timeouts.

use super::*;
use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::thread::ThreadPerTask;
use tidegate_core::{Clock, Executor, Rejected, Task, ThreadBuilder};

#[test]
fn fires_at_the_end_of_its_tick_never_early() {
    let (timer, clock) = timer();
    let log = Log::new();
    for after in [1, 9, 10, 11, 640, 641, 12_345] {
        let (log, clock) = (log.clone(), clock.clone());
        timer
            .schedule(after * MS, move || {
                log.push((after, clock.nanos() / 1_000_000))
            })
            .expect("it runs");
    }
    clock.advance(60 * SECOND);
    let late: Vec<_> = log.take();
    assert_eq!(late.len(), 7);
    for (after, at) in late {
        let after = u64::from(after);
        assert!(at >= after && at < after + 10, "{after} fired at {at}");
    }
}

#[test]
fn a_delay_of_zero_fires_at_the_next_tick_and_one_without_end_never() {
    let (timer, clock) = timer();
    let zero = timer.schedule(Duration::ZERO, || ()).expect("it runs");
    let never = timer.schedule(Duration::MAX, || ()).expect("it runs");
    clock.advance(9 * MS);
    assert!(!zero.is_expired());
    clock.advance(MS);
    assert!(zero.is_expired());
    clock.advance(100 * 365 * 24 * 3600 * SECOND);
    assert!(!never.is_expired());
    assert_eq!(
        timer
            .shutdown()
            .wait()
            .expect("not its own thread")
            .unfired
            .len(),
        1
    );
}

#[test]
fn missed_ticks_are_made_up_in_order() {
    let (timer, clock) = timer();
    let log = Log::new();
    for after in [7_000, 20, 900_000, 640] {
        let log = log.clone();
        timer
            .schedule(after * MS, move || log.push(after))
            .expect("it runs");
    }
    clock.settle();
    clock.jump(1000 * SECOND);
    log.wait_for(4);
    assert_eq!(log.take(), [20, 640, 7_000, 900_000]);
}

#[test]
fn timeouts_of_one_tick_fire_in_the_order_they_came() {
    let (timer, clock) = timer();
    let log = Log::new();
    for number in 0..100 {
        let log = log.clone();
        timer
            .schedule(SECOND, move || log.push(number))
            .expect("it runs");
    }
    clock.advance(SECOND);
    assert_eq!(log.take(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_panic_is_reported_and_the_rest_of_the_tick_fires() {
    let clock = ManualClock::new();
    let received = Log::new();
    let notified = received.clone();
    let timer = WheelTimer::builder("test")
        .clock(&clock)
        .on_unhandled(move |timer, what| notified.push(format!("{timer}: {what}")))
        .build()
        .expect("a sound geometry");
    let before = timer.schedule(SECOND, || ()).expect("it runs");
    let task = Task::named("bad", || panic!("on purpose"));
    timer.schedule_task(SECOND, task.into()).expect("it runs");
    let after = timer.schedule(SECOND, || ()).expect("it runs");
    clock.advance(SECOND);
    assert!(before.is_expired() && after.is_expired());
    received.wait_for(1);
    received.assert_order(&["test: task `bad` panicked: on purpose".to_owned()]);
    assert_eq!((timer.metrics().panicked, timer.pending()), (1, 0));
    timer.schedule(SECOND, || ()).expect("it still runs");
}

#[test]
fn a_slow_task_on_an_executor_delays_no_timeout() {
    let clock = ManualClock::new();
    let threads = Arc::new(ThreadPerTask::new(ThreadBuilder::new("slow")));
    let timer = WheelTimer::builder("test").clock(&clock).executor(threads);
    let timer = timer.build().expect("a sound geometry");
    let (gate, done) = (Gate::new(), Counter::new());
    let (held, slow_done) = (gate.clone(), done.clone());
    timer
        .schedule(SECOND, move || {
            held.wait();
            slow_done.hit();
        })
        .expect("it runs");
    let quick = done.clone();
    timer
        .schedule(2 * SECOND, move || {
            quick.hit();
        })
        .expect("it runs");
    clock.advance(2 * SECOND);
    done.wait_for(1);
    assert_eq!(timer.metrics().fired, 2);
    gate.open();
    done.wait_for(2);
}

#[test]
fn a_timeout_can_choose_its_own_executor() {
    let (timer, clock) = timer();
    let threads = Arc::new(ThreadPerTask::new(ThreadBuilder::new("own")));
    let names = Log::new();
    for own in [false, true] {
        let names = names.clone();
        let task = TimerTask::new(move || {
            let thread = std::thread::current();
            names.push(thread.name().unwrap_or_default().starts_with("own"));
        });
        let task = if own { task.on(threads.clone()) } else { task };
        timer.schedule_task(SECOND, task).expect("it runs");
    }
    clock.advance(SECOND);
    names.wait_for(2);
    let mut own = names.take();
    own.sort_unstable();
    assert_eq!(own, [false, true]);
}

/// An executor that rejects every task.
struct Full(Clock, ExecutorId);

impl Executor for Full {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Full))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Closed))
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.1
    }

    fn name(&self) -> &str {
        "full"
    }

    fn clock(&self) -> &Clock {
        &self.0
    }
}

#[test]
fn what_its_executor_refuses_runs_on_the_timer_and_is_counted() {
    let (timer, clock) = timer();
    let full: Arc<dyn Executor> = Arc::new(Full(Clock::system(), ExecutorId::next()));
    let ran = Counter::new();
    for _ in 0..3 {
        let count = ran.clone();
        let task = TimerTask::new(move || {
            count.hit();
        })
        .on(Arc::clone(&full));
        timer.schedule_task(SECOND, task).expect("it runs");
    }
    clock.advance(SECOND);
    assert_eq!((ran.count(), timer.metrics().fell_back), (3, 3));
}

#[test]
fn a_task_that_keeps_the_timer_waiting_shows_in_its_metrics() {
    let (timer, clock) = timer();
    let turned = clock.clone();
    timer
        .schedule(SECOND, move || turned.jump(3 * SECOND))
        .expect("it runs");
    clock.advance(SECOND);
    assert_eq!(timer.metrics().longest_task, 3 * SECOND);
}

#[test]
fn a_task_may_add_reset_and_cancel_on_its_own_timer() {
    let (timer, clock) = timer();
    let victim = timer.schedule(SECOND + 50 * MS, || ()).expect("it runs");
    let moved = timer.schedule(SECOND + 50 * MS, || ()).expect("it runs");
    let again = Counter::new();
    let (inner, count) = (timer.clone(), again.clone());
    let (cancel, reset) = (victim.clone(), moved.clone());
    timer
        .schedule(SECOND, move || {
            assert!(cancel.cancel() && reset.reset(SECOND));
            let added = inner.schedule(Duration::ZERO, move || {
                count.hit();
            });
            added.expect("it runs");
        })
        .expect("it runs");
    clock.advance(SECOND + 100 * MS);
    assert!(victim.is_cancelled() && !moved.is_expired());
    assert_eq!(again.count(), 1);
    clock.advance(SECOND);
    assert!(moved.is_expired());
    assert_eq!((timer.pending(), timer.metrics().panicked), (0, 0));
}
