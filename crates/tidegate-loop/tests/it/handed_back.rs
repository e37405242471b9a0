//! Tasks that are handed back can be taken from the report, the loop or the group, each once; a task
//! that is taken can run and complete, the completions of the others fail.

use tidegate_core::{ManualClock, Task};
use tidegate_loop::{EventLoop, EventLoopGroup, Quiet, ShutdownError};
use tidegate_pool::NotStartedError;
use tidegate_promise::{Completion, Failure, Outcome, WaitError};
use tidegate_testkit::{Counter, Gate, Log, until};

use crate::{SECOND, hold, home};

/// Returns `true` if the completion failed because its task never started.
fn never_began<T: std::fmt::Debug>(waited: Result<T, WaitError<Failure>>) -> bool {
    let why = waited.unwrap_err().failure().unwrap();
    why.downcast_ref::<NotStartedError>().is_some()
}

fn group_of(clock: &ManualClock, loops: usize) -> EventLoopGroup {
    let builder = EventLoopGroup::builder("io").loops(loops).clock(clock);
    builder.build().unwrap()
}

/// Submits a task to each event loop of the group.
fn one_each(group: &EventLoopGroup) -> Vec<Completion<u32>> {
    group.iter().map(|one| one.submit(|| 7).unwrap()).collect()
}

/// Shuts the event loop down while a task holds it, and lets the deadline pass.
fn be_late(home: &EventLoop, clock: &ManualClock, gate: &Gate) {
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    gate.open();
    ended.wait().unwrap();
}

#[test]
fn the_loop_has_them_when_nobody_kept_the_report() {
    let (home, clock) = home();
    assert!(home.handed_back().is_empty(), "it runs");
    let gate = hold(&home);
    let answer = home.submit(|| 7).unwrap();
    be_late(&home, &clock, &gate);
    assert_eq!(home.handed_back().len(), 1);
    home.handed_back().take().into_iter().for_each(Task::run);
    assert_eq!(answer.wait().unwrap(), 7);
    assert!(home.handed_back().is_empty());
}

#[test]
fn report_loop_and_group_hand_back_the_same_tasks() {
    for from in 0..3 {
        let clock = ManualClock::new();
        let group = group_of(&clock, 2);
        let held: Vec<_> = group.iter().map(hold).collect();
        let answers = one_each(&group);
        let ended = group.shutdown(Quiet::none(SECOND));
        clock.jump(SECOND);
        held.iter().for_each(Gate::open);
        let report = ended.wait().unwrap();
        let lens = || {
            let loops = group.iter().map(|one| one.handed_back().len()).sum();
            [report.handed_back.len(), group.handed_back().len(), loops]
        };
        assert_eq!(lens(), [2; 3]);
        let tasks = match from {
            0 => report.handed_back.take(),
            1 => group.handed_back().take(),
            _ => group
                .iter()
                .flat_map(|one| one.handed_back().take())
                .collect(),
        };
        assert_eq!((tasks.len(), lens()), (2, [0; 3]));
        tasks.into_iter().for_each(Task::run);
        for answer in answers {
            assert_eq!(answer.wait().unwrap(), 7);
        }
    }
}

#[test]
fn a_look_at_them_takes_none() {
    let (home, clock) = home();
    let gate = hold(&home);
    let ran = Counter::new();
    home.execute(ran.hits()).unwrap();
    be_late(&home, &clock, &gate);
    for _ in 0..3 {
        assert_eq!(home.handed_back().len(), 1);
        drop(home.handed_back());
    }
    home.handed_back().take().into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 1);
}

#[test]
fn those_of_one_loop_can_be_taken_and_the_others_fail() {
    let clock = ManualClock::new();
    let group = group_of(&clock, 3);
    let held: Vec<_> = group.iter().map(hold).collect();
    let answers = one_each(&group);
    let ended = group.shutdown(Quiet::none(SECOND));
    clock.jump(SECOND);
    held.iter().for_each(Gate::open);
    ended.wait().unwrap();
    let second = group.iter().nth(1).unwrap();
    let tasks = second.handed_back().take();
    drop((group, ended));
    tasks.into_iter().for_each(Task::run);
    let ends: Vec<_> = answers.into_iter().map(Completion::wait).collect();
    let [first, second, third] = ends.try_into().unwrap();
    assert_eq!(second.unwrap(), 7);
    assert!(never_began(first) && never_began(third));
}

#[test]
fn listeners_of_those_that_are_not_taken_hear_of_it_with_the_last_handle() {
    let (home, clock) = home();
    let gate = hold(&home);
    let (log, told) = Log::pair();
    let answer = home.submit(|| 7).unwrap();
    answer.finally(move |outcome: Outcome<&i32, &Failure>| {
        let cause = outcome.failure().unwrap();
        told.push(cause.downcast_ref::<NotStartedError>().is_some());
    });
    be_late(&home, &clock, &gate);
    assert!(log.is_empty(), "it could still be taken");
    drop(home);
    log.wait_for(1);
    assert_eq!(log.take(), [true]);
}

#[test]
fn a_task_that_an_untaken_one_captured_ends_as_what_it_is() {
    let [(first, clock), (second, later)] = [(); 2].map(|()| home());
    let gate = hold(&first);
    let taken = first.submit(|| 7).unwrap();
    be_late(&first, &clock, &gate);
    let tasks = first.handed_back().take();
    let gate = hold(&second);
    let untaken = second.submit(move || drop(tasks)).unwrap();
    be_late(&second, &later, &gate);
    drop(second);
    assert!(never_began(untaken.wait()));
    assert!(taken.wait().unwrap_err().is_cancelled(), "it was taken");
}

#[test]
fn every_look_at_a_task_that_never_began_says_so() {
    let (home, clock) = home();
    let gate = hold(&home);
    let mut answer = home.submit(|| 7).unwrap();
    let shared = home.submit(|| 8).unwrap().share().unwrap();
    be_late(&home, &clock, &gate);
    let not_started = |outcome: Option<Outcome<&i32, &Failure>>| {
        let why = outcome.unwrap().failure().unwrap().clone();
        why.downcast_ref::<NotStartedError>().is_some()
    };
    assert!(never_began(answer.wait_timeout(SECOND)) && never_began(shared.wait()));
    assert!(not_started(answer.peek()) && not_started(shared.peek()));
    assert!(answer.is_done() && !answer.is_cancelled());
    assert!(never_began(answer.wait()) && never_began(shared.wait()));
}

#[test]
fn a_stuck_loop_hands_back_when_its_task_returns() {
    let (home, clock) = home();
    let gate = hold(&home);
    let answer = home.submit(|| 7).unwrap();
    let waited_for = home.submit(|| 8).unwrap();
    let ended = home.shutdown(Quiet::none(SECOND));
    clock.await_sleepers(1);
    clock.jump(SECOND * 20);
    let why = ended.wait().unwrap_err().failure().unwrap();
    assert!(matches!(why, ShutdownError::Stuck { .. }));
    drop((ended, why));
    assert!(never_began(waited_for.wait()), "its waiter gave it up");
    assert!(home.handed_back().take().is_empty(), "the loop has them");
    gate.open();
    until("the loop has ended", || home.is_terminated());
    let tasks = home.handed_back().take();
    assert_eq!(tasks.len(), 2);
    tasks.into_iter().for_each(Task::run);
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn tasks_behind_two_stuck_loops_come_back_to_the_group() {
    for from_group in [false, true] {
        let clock = ManualClock::new();
        let group = group_of(&clock, 2);
        let held: Vec<_> = group.iter().map(hold).collect();
        let answers = one_each(&group);
        let ended = group.shutdown(Quiet::none(SECOND));
        clock.await_sleepers(1);
        clock.jump(SECOND * 20);
        let why = ended.wait().unwrap_err().failure().unwrap();
        held.iter().for_each(Gate::open);
        until("the loops have ended", || group.is_terminated());
        let tasks = match from_group {
            true => group.handed_back().take(),
            false => why.handed_back().unwrap().take(),
        };
        assert_eq!(tasks.len(), 2);
        tasks.into_iter().for_each(Task::run);
        for answer in answers {
            assert_eq!(answer.wait().unwrap(), 7);
        }
    }
}
