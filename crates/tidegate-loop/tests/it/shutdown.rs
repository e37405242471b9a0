//! Shutdown: quiet period, deadline, hooks, handed-back tasks, and the report.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::internal::Sleeper;
use tidegate_core::{Clock, ManualClock, RejectReason, Task, ThreadBuilder};
use tidegate_loop::internal::Driver;
use tidegate_loop::{EventLoop, Lifecycle, Quiet, ShutdownError, ShutdownReport};
use tidegate_pool::NotStartedError;
use tidegate_promise::{Outcome, SharedCompletion, WaitError};
use tidegate_testkit::{Counter, DropCount, Gate, Log, Stop, until};

use crate::{SECOND, builder, end, hold, home, on, watched};

fn quiet(period: u32, timeout: u32) -> Quiet {
    Quiet {
        period: SECOND * period,
        timeout: SECOND * timeout,
    }
}

fn failure(ended: &SharedCompletion<ShutdownReport, ShutdownError>) -> ShutdownError {
    ended.wait().unwrap_err().failure().unwrap()
}

#[test]
fn the_default_is_two_seconds_of_quiet_and_fifteen_in_all() {
    assert_eq!(Quiet::default(), quiet(2, 15));
}

#[test]
fn states_come_in_order_and_say_what_they_mean() {
    let (home, clock) = home();
    let states = |home: &EventLoop| {
        (
            home.is_shutting_down(),
            home.is_shutdown(),
            home.is_terminated(),
        )
    };
    assert_eq!(home.lifecycle(), Lifecycle::NotStarted);
    home.submit(|| ()).unwrap().wait().unwrap();
    assert_eq!(states(&home), (false, false, false));
    let (at_end, log) = (home.clone(), Log::new());
    let seen = log.clone();
    home.add_shutdown_hook("look", move || seen.push(at_end.lifecycle()))
        .unwrap();
    let ended = home.shutdown(quiet(2, 15));
    assert_eq!(states(&home), (true, false, false));
    clock.advance(SECOND * 2);
    ended.wait().unwrap();
    assert_eq!(states(&home), (true, true, true));
    assert_eq!(log.take(), [Lifecycle::ShuttingDown]);
}

#[test]
fn a_loop_that_never_started_ends_without_a_thread() {
    let spawner = |_| Err(io::Error::other("a thread was requested"));
    let threads = ThreadBuilder::new("none").spawner(spawner);
    let home = EventLoop::builder("home").threads(threads).build().unwrap();
    let ended = home.shutdown(Quiet::default());
    assert!(ended.is_done() && home.is_terminated());
    assert_eq!(ended.wait().unwrap(), ended.wait().unwrap());
    assert!(home.execute(|| ()).is_err());
}

#[test]
fn a_loop_without_a_thread_runs_its_hooks_before_it_ends() {
    let (home, _clock) = home();
    let log = Log::new();
    home.add_shutdown_hook("hook", log.pushes("hook")).unwrap();
    let report = end(&home);
    assert_eq!((report.ran, report.hooks), (0, 1));
    assert_eq!(log.take(), ["hook"]);
}

#[test]
fn without_a_thread_for_its_hooks_termination_fails() {
    let threads = ThreadBuilder::new("none").spawner(|_| Err(io::Error::other("none today")));
    let home = EventLoop::builder("home").threads(threads).build().unwrap();
    home.add_shutdown_hook("hook", || ()).unwrap();
    let why = failure(&home.shutdown(Quiet::default()));
    assert!(matches!(why, ShutdownError::NoThread { .. }), "{why}");
    assert!(home.is_terminated());
}

#[test]
fn what_was_accepted_still_runs() {
    let (home, _clock) = home();
    let (gate, ran) = (hold(&home), Counter::new());
    for _ in 0..1000 {
        home.execute(ran.hits()).unwrap();
    }
    let ended = home.shutdown(Quiet::none(SECOND));
    gate.open();
    let report = ended.wait().unwrap();
    assert_eq!((ran.count(), report.handed_back.len()), (1000, 0));
}

#[test]
fn a_task_in_the_quiet_period_is_accepted_and_starts_it_anew() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let ended = home.shutdown(quiet(2, 15));
    for _ in 0..3 {
        clock.advance(SECOND + SECOND / 2);
        assert!(!ended.is_done());
        assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    }
    clock.advance(SECOND * 2 - Duration::from_nanos(1));
    assert!(!ended.is_done());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(ended.wait().unwrap().ran, 3);
}

#[test]
fn the_quiet_period_is_waited_for_and_not_polled() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let ended = home.shutdown(quiet(2, 15));
    home.settle();
    let turns = home.metrics().turns;
    clock.advance(SECOND * 2 - Duration::from_nanos(1));
    assert_eq!(home.metrics().turns, turns);
    clock.advance(Duration::from_nanos(1));
    ended.wait().unwrap();
}

#[test]
fn a_quiet_period_of_zero_ends_as_soon_as_nothing_is_left() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    end(&home);
    assert_eq!(clock.nanos(), 0);
}

/// Submits a task that submits itself again without end. Each run advances the clock by a
/// millisecond.
fn keep_busy(home: &EventLoop, clock: &ManualClock, drops: &Counter) {
    fn again(home: EventLoop, clock: ManualClock, held: Vec<DropCount>) {
        clock.jump(Duration::from_millis(1));
        let (next, held) = (home.clone(), held.into_iter().collect());
        let _ = home.execute(move || again(next, clock, held));
    }
    let (next, clock, held) = (home.clone(), clock.clone(), vec![DropCount::new(drops)]);
    home.execute(move || again(next, clock, held)).unwrap();
}

#[test]
fn steady_work_cannot_outrun_the_timeout() {
    let (home, clock) = home();
    let drops = Counter::new();
    keep_busy(&home, &clock, &drops);
    let ended = home.shutdown(quiet(2, 15));
    // The tasks advanced the clock before the request as well.
    let requested = clock.nanos();
    let report = ended.wait().unwrap();
    assert!(report.ran > 1000, "{report}");
    assert!(clock.nanos() - requested < 16_000_000_000, "{report}");
    assert_eq!(report.handed_back.len() as u64 + drops.count(), 1);
    // The task holds a handle to its event loop: taking the task breaks this reference cycle.
    drop(report.handed_back.take());
}

#[test]
fn steady_work_from_outside_cannot_outrun_the_timeout() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let ended = home.shutdown(quiet(2, 15));
    let mut accepted = 0;
    while home.execute(|| ()).is_ok() {
        accepted += 1;
        home.settle();
        clock.jump(SECOND);
        assert!(accepted < 20);
    }
    assert!((14..=16).contains(&accepted), "{accepted}");
    ended.wait().unwrap();
}

#[test]
fn at_the_deadline_what_has_not_started_is_handed_back() {
    let (home, clock) = home();
    let (gate, log) = (hold(&home), Log::new());
    for number in 0..5 {
        home.execute(log.pushes(number)).unwrap();
    }
    let answer = home.submit(|| 7).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    let report = ended.wait().unwrap();
    assert_eq!((report.handed_back.len(), log.len()), (6, 0));
    assert_eq!(home.pending_tasks(), 0);
    for task in report.handed_back.take() {
        task.run();
    }
    assert_eq!(log.take(), [0, 1, 2, 3, 4]);
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn what_the_loop_gave_itself_is_handed_back_too() {
    let (home, clock) = home();
    let (handle, turn, ran) = (home.clone(), clock.clone(), Counter::new());
    let (count, stop) = (ran.clone(), Stop::new());
    let inside = stop.closure();
    home.execute(move || {
        for _ in 0..3 {
            handle.execute(count.hits()).unwrap();
        }
        inside();
        turn.jump(SECOND);
    })
    .unwrap();
    stop.reached();
    let ended = home.shutdown(Quiet::none(SECOND));
    stop.go_on();
    let report = ended.wait().unwrap();
    assert_eq!((report.handed_back.len(), ran.count()), (3, 0));
    assert_eq!(home.pending_tasks(), 0);
}

#[test]
fn completions_of_handed_back_tasks_end_with_the_last_possible_runner() {
    let (home, clock) = home();
    let gate = hold(&home);
    let answer = home.submit(|| 7).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    let report = ended.wait().unwrap();
    drop((home, ended));
    assert!(!answer.is_done(), "the report could still run it");
    drop(report);
    let why = answer.wait().unwrap_err().failure().unwrap();
    assert!(why.downcast_ref::<NotStartedError>().is_some(), "{why}");
}

#[test]
fn a_report_outlives_the_loop() {
    let (home, clock) = home();
    let gate = hold(&home);
    let answer = home.submit(|| 7).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    drop(home);
    clock.jump(SECOND);
    gate.open();
    let report: ShutdownReport = ended.wait().unwrap();
    drop(ended);
    report.handed_back.take().remove(0).run();
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn a_second_stricter_call_escalates_and_a_laxer_one_does_not() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let first = home.shutdown(quiet(20, 60));
    home.settle();
    let second = home.shutdown(quiet(5, 30));
    let third = home.shutdown(quiet(25, 90));
    clock.advance(SECOND * 4);
    assert!(!first.is_done());
    clock.advance(SECOND);
    assert!(first.is_done() && second.is_done() && third.is_done());
    assert_eq!(first.wait().unwrap(), third.wait().unwrap());
}

#[test]
fn escalation_reaches_a_loop_that_is_busy() {
    let (home, clock) = home();
    let drops = Counter::new();
    keep_busy(&home, &clock, &drops);
    let lax = home.shutdown(Quiet {
        period: SECOND,
        timeout: Duration::MAX,
    });
    let report = home.shutdown(Quiet::none(SECOND)).wait().unwrap();
    assert_eq!(lax.wait().unwrap(), report);
    drop(report.handed_back.take());
}

#[test]
fn a_stuck_task_fails_termination_and_what_was_behind_it_comes_back() {
    let (home, clock) = home();
    let stop = Stop::new();
    let task = Task::named("compact", stop.closure());
    home.execute_task(task).unwrap();
    stop.reached();
    let ran = Counter::new();
    for _ in 0..3 {
        home.execute(ran.hits()).unwrap();
    }
    let ended = home.shutdown(quiet(1, 10));
    // The thread that watches the shutdown also sleeps on the clock.
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    let why = failure(&ended);
    let ShutdownError::Stuck {
        name,
        task,
        age,
        behind,
        cut,
        handed_back,
    } = &why
    else {
        panic!("{why}");
    };
    assert_eq!((&**name, &**task, *behind), ("home", "compact", 3));
    assert!(cut.is_empty(), "the loop has no driver that could have any");
    assert!(*age >= SECOND * 19, "{age:?}");
    assert!(why.to_string().contains("task `compact` has not returned"));
    assert!(handed_back.is_empty() && home.is_shutdown() && !home.is_terminated());
    assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
    stop.go_on();
    until("the loop has terminated", || home.is_terminated());
    for task in handed_back.take() {
        task.run();
    }
    assert_eq!(ran.count(), 3);
}

#[test]
fn dropping_the_last_handle_ends_the_loop_and_never_blocks() {
    let (home, _clock) = home();
    let (gate, ran) = (hold(&home), Counter::new());
    let count = ran.clone();
    home.execute(move || count.note()).unwrap();
    let timer = home.schedule(SECOND, || ()).unwrap();
    let future = home.spawn(std::future::pending::<()>()).unwrap();
    let (other, ended) = (home.clone(), home.termination());
    drop(home);
    assert!(!other.is_shutting_down());
    drop(other);
    gate.open();
    let report = ended.wait().unwrap();
    assert_eq!((ran.count(), report.cancelled, report.dropped), (1, 1, 1));
    assert!(timer.is_cancelled() && future.is_cancelled());
}

#[test]
fn dropping_the_last_handle_on_the_loop_itself_is_fine() {
    let (home, _clock) = home();
    let ended = home.termination();
    let go_on = Gate::new();
    let (gate, last) = (go_on.clone(), home.clone());
    home.execute(move || {
        gate.wait();
        drop(last);
    })
    .unwrap();
    drop(home);
    go_on.open();
    ended.wait().unwrap();
}

#[test]
fn hooks_run_in_order_after_the_last_task() {
    let (home, _clock) = home();
    let (log, gate) = (Log::new(), hold(&home));
    for name in ["first", "second", "third"] {
        home.add_shutdown_hook(name, log.pushes(name)).unwrap();
    }
    assert!(home.remove_shutdown_hook("second") && !home.remove_shutdown_hook("second"));
    home.execute(log.pushes("task")).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    gate.open();
    assert_eq!(ended.wait().unwrap().hooks, 2);
    assert_eq!(log.take(), ["task", "first", "third"]);
}

#[test]
fn a_task_of_the_quiet_period_runs_before_the_hooks() {
    let (home, clock) = home();
    let log = Log::new();
    let (handle, hook) = (home.clone(), log.clone());
    home.add_shutdown_hook("hook", move || {
        hook.push("hook");
        handle.execute(hook.pushes("task of the hook")).unwrap();
    })
    .unwrap();
    home.submit(|| ()).unwrap().wait().unwrap();
    let ended = home.shutdown(quiet(2, 15));
    clock.advance(SECOND);
    home.execute(log.pushes("task")).unwrap();
    clock.advance(SECOND * 2);
    assert_eq!(ended.wait().unwrap().hooks, 1);
    assert_eq!(log.take(), ["task", "hook", "task of the hook"]);
}

#[test]
fn hooks_may_add_hooks_and_tasks_and_panic() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let (log, handle) = (Log::new(), home.clone());
    let outer = log.clone();
    home.add_shutdown_hook("outer", move || {
        outer.push("outer");
        let (inner, task) = (outer.clone(), outer.clone());
        handle.execute(move || task.push("task")).unwrap();
        handle
            .add_shutdown_hook("inner", move || inner.push("inner"))
            .unwrap();
        assert!(handle.remove_shutdown_hook("removed"));
        panic!("on purpose");
    })
    .unwrap();
    let handle = home.clone();
    home.execute(move || handle.add_shutdown_hook("removed", || ()).unwrap())
        .unwrap();
    home.settle();
    let report = end(&home);
    log.assert_order(&["outer", "inner"]);
    log.assert_order(&["outer", "task"]);
    assert_eq!(report.hooks, 2);
    assert_eq!(received.take(), ["a hook panicked: on purpose"]);
}

#[test]
fn a_hook_that_adds_itself_for_ever_ends_at_the_deadline() {
    fn add(home: &EventLoop, clock: &ManualClock) {
        let (handle, turn) = (home.clone(), clock.clone());
        let hook = move || {
            turn.jump(SECOND / 10);
            add(&handle, &turn);
        };
        home.add_shutdown_hook("again", hook).unwrap();
    }
    let (home, clock) = home();
    add(&home, &clock);
    let report = end(&home);
    assert!((10..=12).contains(&report.hooks), "{report}");
}

#[test]
fn await_termination_waits_by_the_loops_clock() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    home.settle();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| home.await_termination(SECOND * 5));
        clock.await_sleepers(2);
        clock.advance(SECOND * 5);
        assert!(!waiting.join().unwrap().unwrap(), "not over");
    });
    end(&home);
    assert!(home.await_termination(Duration::ZERO).unwrap());
}

#[test]
fn await_termination_on_the_own_loop_is_refused() {
    let (home, _clock) = home();
    let handle = home.clone();
    let refused = home.submit(move || {
        let plain = handle.await_termination(SECOND);
        let allowed = tidegate_core::Blocking::allow(|| handle.await_termination(SECOND));
        (plain, allowed)
    });
    let (plain, allowed) = refused.unwrap().wait().unwrap();
    assert!(plain.is_err_and(|error| error.is_refused()));
    assert!(allowed.is_err_and(|error| error.is_refused()));
}

#[test]
fn termination_listeners_are_called_after_the_state_has_changed() {
    let (home, clock) = home();
    let (ended, log) = (home.termination(), Log::new());
    let (handle, seen) = (home.clone(), log.clone());
    ended.on_complete(move |outcome| {
        let success = matches!(outcome, Outcome::Success(_));
        seen.push((handle.is_terminated(), handle.is_current(), success));
    });
    let _ = ended.cancel();
    home.execute(|| ()).unwrap();
    let other = on(&clock, "other");
    let watch = home.termination();
    let seen_there = other.spawn(async move { watch.await.is_ok() });
    end(&home);
    log.wait_for(1);
    assert_eq!(log.take(), [(true, false, true)]);
    assert!(seen_there.unwrap().wait().unwrap());
}

#[test]
fn a_termination_cannot_be_cancelled() {
    let (home, _clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    let ended = home.shutdown(quiet(2, 15));
    assert!(!ended.cancel(), "a waiter cannot cancel it");
    assert!(!ended.is_done());
    assert!(home.shutdown(Quiet::none(SECOND)).wait().is_ok());
}

#[test]
fn a_promise_of_an_ended_loop_calls_its_listeners_on_the_completing_thread() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let (promise, answer) = home.promise::<u32>();
    let (log, seen) = Log::pair();
    answer.on_complete(move |_| seen.push("notified"));
    home.submit(|| ()).unwrap().wait().unwrap();
    end(&home);
    promise.succeed(7).unwrap();
    assert_eq!(log.take(), ["notified"]);
    assert_eq!((received.len(), home.metrics().fell_back), (1, 1));
    assert_eq!(answer.wait().unwrap(), 7);
}

/// A driver that panics instead of waiting, once `breaks` is set.
struct Brittle {
    parker: tidegate_core::Parker,
    breaks: Arc<AtomicBool>,
}

impl Driver for Brittle {
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        assert!(!self.breaks.load(Ordering::SeqCst), "on purpose");
        clock.park_until(&self.parker, deadline);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.parker.clone())
    }
}

#[test]
fn a_driver_that_panics_ends_the_loop_in_order() {
    let clock = ManualClock::new();
    let breaks = Arc::new(AtomicBool::new(false));
    let driver = Brittle {
        parker: tidegate_core::Parker::new(),
        breaks: Arc::clone(&breaks),
    };
    let home = builder(&clock, "home").build_with_driver(driver).unwrap();
    let log = Log::new();
    home.add_shutdown_hook("hook", log.pushes("hook")).unwrap();
    let timer = home.schedule(SECOND, || ()).unwrap();
    let future = home.spawn(std::future::pending::<()>()).unwrap();
    home.settle();
    breaks.store(true, Ordering::SeqCst);
    home.execute(|| ()).unwrap();
    let why = failure(&home.termination());
    assert!(matches!(&why, ShutdownError::Panicked { message, .. } if message == "on purpose"));
    assert!(home.is_terminated());
    assert!(timer.is_cancelled() && future.is_cancelled());
    assert_eq!(log.take(), ["hook"]);
    assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
}

#[test]
fn a_thousand_ends_against_first_submissions_lose_nothing() {
    for round in 0..1000 {
        let home = EventLoop::builder("home").build().unwrap();
        let (ran, ended) = (Counter::new(), home.termination());
        let accepted = thread::scope(|scope| {
            let submits = scope.spawn(|| home.execute(ran.hits()).is_ok());
            if round % 2 == 0 {
                home.try_suspend();
            }
            drop(home.shutdown(Quiet::none(SECOND * 60)));
            submits.join().unwrap()
        });
        let report = ended.wait().unwrap();
        let seen = ran.count() + report.handed_back.len() as u64;
        assert_eq!(seen, u64::from(accepted));
        assert!(home.is_terminated());
    }
}

#[test]
fn waiting_for_an_end_that_failed_returns_the_failure() {
    let (home, _clock) = home();
    let why = home.shutdown(quiet(3, 2)).wait();
    assert_eq!(
        why,
        Err(WaitError::Failed(ShutdownError::BadQuiet(quiet(3, 2))))
    );
    assert!(!home.is_shutting_down());
    end(&home);
}
