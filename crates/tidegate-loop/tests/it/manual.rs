//! Event loops that a thread of the user drives, turn by turn.

use std::future::pending;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::{ManualClock, RejectReason};
use tidegate_loop::{EventLoop, Lifecycle, ManualLoop, Quiet, ShutdownError, SleepError};
use tidegate_testkit::{Counter, Log, block_on};

use crate::{SECOND, builder, home};

fn manual() -> (EventLoop, ManualLoop, ManualClock) {
    let clock = ManualClock::new();
    let (home, manual_loop) = builder(&clock, "by hand").build_manual().unwrap();
    (home, manual_loop, clock)
}

#[test]
fn runs_only_when_it_is_turned() {
    let (home, mut manual_loop, _clock) = manual();
    let answer = home.submit(|| 7).unwrap();
    assert_eq!((answer.is_done(), home.pending_tasks()), (false, 1));
    assert!(manual_loop.turn());
    assert_eq!((answer.wait().unwrap(), home.pending_tasks()), (7, 0));
    assert!(!manual_loop.turn(), "nothing left");
    assert!(home.thread_info().is_none(), "it has no thread of its own");
}

#[test]
fn the_turning_thread_is_the_loops_meanwhile() {
    let (home, mut manual_loop, _clock) = manual();
    let handle = home.clone();
    let seen = home.submit(move || (handle.is_current(), wait_policy()));
    let seen = seen.unwrap();
    assert!(!home.is_current());
    manual_loop.run_until_idle();
    assert_eq!(seen.wait().unwrap(), (true, WaitPolicy::Loop));
    assert!(!home.is_current() && EventLoop::current().is_none());
    assert_eq!(wait_policy(), WaitPolicy::Free);
}

#[test]
fn a_loop_turned_inside_another_ones_task_restores_it() {
    let (outer, _clock) = home();
    let handle = outer.clone();
    let seen = outer.submit(move || {
        let (inner, mut manual_loop) = EventLoop::builder("inner").build_manual().unwrap();
        let (me, outer) = (inner.clone(), handle.clone());
        let inside = inner.submit(move || {
            // For the outer event loop this is a submission from another thread.
            outer.execute(|| ()).unwrap();
            (
                EventLoop::current() == Some(me.clone()),
                me.is_current(),
                outer.is_current(),
            )
        });
        manual_loop.run_until_idle();
        let inside = inside.unwrap().wait().unwrap();
        let after = EventLoop::current() == Some(handle.clone());
        // The state of the outer event loop is still there.
        let own = handle.execute(|| ()).is_ok();
        (inside, after, handle.is_current() && own)
    });
    assert_eq!(
        seen.unwrap().wait().unwrap(),
        ((true, true, false), true, true)
    );
}

#[test]
fn timers_run_when_the_clock_says_so() {
    let (home, mut manual_loop, clock) = manual();
    let log = Log::new();
    for (name, after) in [("b", 2), ("a", 1)] {
        drop(home.schedule(SECOND * after, log.pushes(name)));
    }
    manual_loop.run_until_idle();
    clock.advance(SECOND);
    manual_loop.run_until_idle();
    assert_eq!(log.take(), ["a"]);
    clock.advance(SECOND);
    manual_loop.run_until_idle();
    assert_eq!(log.take(), ["b"]);
}

#[test]
fn local_futures_live_from_turn_to_turn() {
    let (home, mut manual_loop, _clock) = manual();
    let (promise, there) = home.promise::<u32>();
    let handle = home.clone();
    let answer = home.submit(move || {
        let local = Rc::new(1);
        let sum = async move { there.await.unwrap() + *local };
        handle.spawn_local(sum).unwrap()
    });
    manual_loop.run_until_idle();
    let answer = answer.unwrap().wait().unwrap();
    manual_loop.run_until_idle();
    assert!(!answer.is_done());
    promise.succeed(6).unwrap();
    manual_loop.run_until_idle();
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn a_quiet_period_does_not_block_the_turning_thread() {
    let (home, mut manual_loop, clock) = manual();
    home.execute(|| ()).unwrap();
    manual_loop.run_until_idle();
    let ended = home.shutdown(Quiet {
        period: SECOND,
        timeout: SECOND * 10,
    });
    manual_loop.run_until_idle();
    assert!(!ended.is_done());
    let late = home.submit(|| 7).unwrap();
    manual_loop.run_until_idle();
    assert_eq!(late.wait().unwrap(), 7);
    clock.jump(SECOND);
    manual_loop.run_until_idle();
    assert_eq!(ended.wait().unwrap().ran, 1);
    assert!(!manual_loop.turn() && home.is_terminated());
}

#[test]
fn turning_runs_hooks_and_comes_to_the_end() {
    let (home, mut manual_loop, _clock) = manual();
    let log = Log::new();
    let (hook, task) = (log.clone(), log.clone());
    home.add_shutdown_hook("hook", move || hook.push("hook"))
        .unwrap();
    let timer = home.schedule(SECOND, || ()).unwrap();
    let future = home.spawn(pending::<()>()).unwrap();
    manual_loop.run_until_idle();
    home.execute(move || task.push("task")).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    manual_loop.run_until_idle();
    let report = ended.wait().unwrap();
    assert_eq!(log.take(), ["task", "hook"]);
    assert_eq!((report.hooks, report.cancelled, report.dropped), (1, 1, 1));
    assert!(timer.is_cancelled() && future.is_cancelled());
}

#[test]
fn a_loop_with_live_timers_is_not_over_before_it_was_turned() {
    let (home, mut manual_loop, _clock) = manual();
    let timer = home.schedule(SECOND, || ()).unwrap();
    manual_loop.run_until_idle();
    let ended = home.shutdown(Quiet::none(SECOND));
    assert!(!ended.is_done());
    manual_loop.run_until_idle();
    assert_eq!(ended.wait().unwrap().cancelled, 1);
    assert!(timer.is_cancelled());
}

#[test]
fn a_sleep_in_a_loop_that_has_ended_is_refused() {
    let (home, mut manual_loop, _clock) = manual();
    home.execute(|| ()).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    manual_loop.run_until_idle();
    assert!(ended.is_done());
    let slept = manual_loop.run(|| tidegate_loop::sleep(SECOND));
    assert_eq!(block_on("the sleep has ended", slept), Err(SleepError));
}

#[test]
fn shutdown_of_one_that_was_never_used_is_done_at_once() {
    let (home, mut manual_loop, _clock) = manual();
    let ended = home.shutdown(Quiet::default());
    assert!(home.is_terminated(), "{:?}", home.lifecycle());
    assert!(ended.is_done() && !manual_loop.turn());
}

#[test]
fn dropping_the_hand_ends_the_loop_and_hands_back() {
    let (home, mut manual_loop, _clock) = manual();
    let timer = home.schedule(SECOND, || ()).unwrap();
    let future = home.spawn(pending::<()>()).unwrap();
    manual_loop.run_until_idle();
    let never = home.submit(|| 7).unwrap();
    let ended = home.termination();
    drop(manual_loop);
    let why = ended.wait().unwrap_err().failure().unwrap();
    assert!(
        matches!(&why, ShutdownError::ManualLoopDropped { handed_back } if handed_back.len() == 1)
    );
    assert!(timer.is_cancelled() && future.is_cancelled());
    assert_eq!(home.lifecycle(), Lifecycle::Terminated);
    assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
    drop((home, ended, why));
    assert!(never.is_done(), "with the last handle it is dropped");
    assert!(never.wait().unwrap_err().failure().is_some());
}

#[test]
fn a_panicking_task_leaves_the_turning_thread_as_it_was() {
    let (home, mut manual_loop, _clock) = manual();
    let timer = home.schedule(SECOND, || ()).unwrap();
    home.execute(|| panic!("on purpose")).unwrap();
    manual_loop.run_until_idle();
    assert!(EventLoop::current().is_none() && !timer.is_done());
    assert_eq!(home.metrics().panics, 1);
}

#[test]
fn a_turn_is_bounded() {
    let (home, mut manual_loop, _clock) = manual();
    let (polls, count) = Counter::pair();
    let _forever = home.spawn(std::future::poll_fn(move |cx| {
        count.hit();
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let _often = home.schedule_at_fixed_rate(Duration::ZERO, Duration::from_nanos(1), || ());
    for _ in 0..10 {
        assert!(manual_loop.turn());
    }
    assert!(polls.count() <= 11);
}
