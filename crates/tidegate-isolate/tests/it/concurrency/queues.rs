//! A queue of the program: its order, and what happens if it breaks its contract.

use std::sync::Mutex;

use tidegate_core::Task;
use tidegate_isolate::{Cause, ConcurrencyStrategy, Criticality, Event, Interrupt, Rejection};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_testkit::{Gate, Log, until};

use super::{Plain, others_go_on, queue_up, with_parts};
use crate::support::{SECOND, builder, cause, hold, made, pool, pool_of, with_handle};

/// The newest call first, but critical ones before.
#[derive(Default)]
pub(super) struct Ranked(Vec<(u8, u64, Job)>, u64);

impl JobQueue for Ranked {
    fn push(&mut self, call: Job) -> JobKey {
        self.1 += 1;
        self.0.push((call.criticality(), self.1, call));
        self.0
            .sort_by_key(|(criticality, key, _)| (*criticality, *key));
        JobKey(self.1)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.0.pop().map(|(.., call)| Popped::Run(call))
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        let at = self.0.iter().position(|(_, one, _)| *one == key.0)?;
        Some(self.0.remove(at).2)
    }
}

#[test]
fn the_queue_of_the_program_decides_the_order() {
    let (_clock, isolation, _told) =
        with_parts(|| ConcurrencyStrategy::default().queue(Ranked::default()));
    let command = made(builder("a").threads(pool_of(1, 9)).no_timeout(), &isolation);
    let (go_on, log) = (Gate::new(), Log::new());
    let held = hold(&command, &go_on);
    let mut answers = queue_up(&command, &log, 0..3);
    let note = log.clone();
    let critical = command.call().criticality(Criticality::Critical);
    answers.push(critical.queue(move |_| {
        note.push(9);
        Ok(9)
    }));
    answers.extend(queue_up(&command, &log, 3..5));
    assert_eq!(pool(&isolation).queued, 6);
    go_on.open();
    held.wait().unwrap();
    for answer in answers {
        answer.wait().unwrap();
    }
    log.assert_order(&[9, 4, 3, 2, 1, 0]);
    let pool = pool(&isolation);
    assert_eq!((pool.executed_total, pool.failed_part), (7, None));
}

#[test]
fn calls_that_leave_are_taken_out_and_free_their_place() {
    let (clock, isolation, told) =
        with_parts(|| ConcurrencyStrategy::default().queue(Plain::default()));
    let command = made(builder("a").threads(pool_of(1, 2)).no_timeout(), &isolation);
    let (go_on, log) = (Gate::new(), Log::new());
    let held = hold(&command, &go_on);
    for _ in 0..3 {
        let (call, handle) = with_handle(command.call());
        let cancelled = call.queue(|_| panic!("must not run"));
        let expires = command.call().timeout(SECOND);
        let expires = expires.queue(|_| panic!("must not run"));
        assert!(command.run(|_| Ok(1)).unwrap_err().is_rejected(), "full");
        handle.cancel(Interrupt::Yes);
        assert!(cancelled.is_cancelled());
        clock.jump(SECOND);
        assert_eq!(cause(expires), Cause::TimedOut(SECOND));
        assert_eq!(pool(&isolation).queued, 0, "at once");
    }
    let answers = queue_up(&command, &log, 0..2);
    go_on.open();
    held.wait().unwrap();
    for answer in answers {
        answer.wait().unwrap();
    }
    log.assert_order(&[0, 1]);
    assert_eq!(pool(&isolation).failed_part, None);
    assert!(told.try_recv().is_err());
}

#[test]
fn a_call_that_waits_keeps_its_place_while_others_are_refused_or_leave() {
    for round in 0..100 {
        let (_clock, isolation, _told) =
            with_parts(|| ConcurrencyStrategy::default().queue(Plain::default()));
        let command = made(builder("a").threads(pool_of(1, 3)).no_timeout(), &isolation);
        let go_on = Gate::new();
        let held = hold(&command, &go_on);
        let first = command.queue(|_| Ok(1));
        let waiting = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for leaves in [true, false, true, false] {
                let (command, waiting) = (&command, &waiting);
                scope.spawn(move || {
                    for _ in 0..6 {
                        let (call, handle) = with_handle(command.call());
                        let answer = call.queue(|_| Ok(1));
                        if answer.is_done() {
                            assert_eq!(cause(answer), Cause::Rejected(Rejection::Pool));
                        } else if leaves {
                            handle.cancel(Interrupt::Yes);
                            assert!(answer.is_cancelled(), "round {round}: it was ended before");
                        } else {
                            waiting.lock().unwrap().push(answer);
                        }
                    }
                });
            }
        });
        let waiting = waiting.into_inner().unwrap();
        assert_eq!(pool(&isolation).queued, 1 + waiting.len(), "round {round}");
        go_on.open();
        held.wait().unwrap();
        for answer in waiting.into_iter().chain([first]) {
            assert_eq!(answer.wait(), Ok(1), "round {round}");
        }
    }
}

/// How a queue of the program breaks its contract.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breach {
    Loses,
    Invents,
    Panics,
    PanicsInDrop,
}

/// A queue that breaks its contract when it has two calls.
struct Bad(JobList, Breach);

impl JobQueue for Bad {
    fn push(&mut self, call: Job) -> JobKey {
        self.0.push_back(call)
    }

    fn pop(&mut self) -> Option<Popped> {
        if self.0.len() < 2 || self.1 == Breach::PanicsInDrop {
            return self.0.pop_front().map(Popped::Run);
        }
        match self.1 {
            Breach::Invents => Some(Popped::Run(Job::new(Task::new(|| panic!("must not run"))))),
            Breach::Panics => panic!("on purpose"),
            _ => None,
        }
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.0.remove(key)
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        assert!(self.1 != Breach::PanicsInDrop, "on purpose");
    }
}

#[test]
fn a_queue_that_breaks_its_contract_is_named_and_the_calls_of_its_pool_are_rejected() {
    for (breach, named) in [
        (Breach::Loses, "it lost 3 of its jobs"),
        (Breach::Invents, "it returned a job that it does not have"),
        (Breach::Panics, "its `pop` panicked: on purpose"),
    ] {
        let (_clock, isolation, told) = with_parts(move || {
            ConcurrencyStrategy::default().queue(Bad(JobList::default(), breach))
        });
        let command = made(builder("a").threads(pool_of(2, 9)).no_timeout(), &isolation);
        let (go_on, still) = (Gate::new(), Gate::new());
        let (held, runs) = (hold(&command, &go_on), hold(&command, &still));
        let one = command.queue(|_| Ok(1));
        go_on.open();
        assert_eq!(
            (held.wait(), one.wait()),
            (Ok(0), Ok(1)),
            "it works at first"
        );
        let (go_on, log) = (Gate::new(), Log::new());
        let held = hold(&command, &go_on);
        let answers = queue_up(&command, &log, 0..3);
        go_on.open();
        held.wait().unwrap();
        for answer in answers {
            assert_eq!(
                cause(answer),
                Cause::Rejected(Rejection::Closed),
                "{breach:?}"
            );
        }
        let message = told.recv().unwrap();
        let part = format!("the queue of pool `tidegate-a` failed: {named}");
        assert!(message.starts_with(&part), "{breach:?}: {message}");
        assert!(message.ends_with("; the pool is closed"), "{message}");
        let refused = command.run(|_| Ok(5)).unwrap_err();
        assert_eq!(refused.cause(), &Cause::Rejected(Rejection::Closed));
        let failed = pool(&isolation).failed_part.unwrap_or_default();
        let named = format!("the queue: {named}");
        assert!(failed.starts_with(&named), "{breach:?}: {failed}");
        assert!(
            told.try_recv().is_err() && log.is_empty(),
            "it is said once"
        );
        others_go_on(&isolation);
        still.open();
        runs.wait().expect("what runs goes on");
    }
}

#[test]
fn a_queue_that_panics_when_it_is_dropped_harms_nobody() {
    let (_clock, isolation, _told) = with_parts(|| {
        ConcurrencyStrategy::default().queue(Bad(JobList::default(), Breach::PanicsInDrop))
    });
    let command = builder("a").threads(pool_of(1, 2)).build(&isolation);
    assert_eq!(command.unwrap().run(|_| Ok(1)), Ok(1));
    assert!(isolation.remove("a"));
    others_go_on(&isolation);
}

#[test]
fn calls_come_and_go_in_a_queue_of_the_program_and_each_ends_once() {
    let (clock, isolation, told) =
        with_parts(|| ConcurrencyStrategy::default().queue(Plain::default()));
    let command = builder("a").threads(pool_of(3, 6)).timeout(SECOND);
    let command = command.configure(|c| c.breaker.mode = tidegate_isolate::BreakerMode::Disabled);
    let command = command.build(&isolation).unwrap();
    let calls = 400_u64;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (command, clock) = (&command, &clock);
            scope.spawn(move || {
                for n in 0..calls / 4 {
                    let criticality = match n % 3 {
                        0 => Criticality::Sheddable,
                        1 => Criticality::Normal,
                        _ => Criticality::High,
                    };
                    let (call, handle) = with_handle(command.call().criticality(criticality));
                    let answer = call.queue(move |_| Ok(n as u32));
                    match (n + thread) % 5 {
                        0 => drop(handle.cancel(Interrupt::No)),
                        1 => clock.jump(SECOND / 4),
                        2 => drop(answer.wait()),
                        _ => {}
                    }
                }
            });
        }
    });
    let ended = || {
        let totals = command.snapshot().totals;
        let ends = [Event::Success, Event::Timeout, Event::PoolRejected];
        ends.map(|end| totals[end]).iter().sum::<u64>() + totals[Event::Cancelled]
    };
    // A timeout is counted on the timer's thread, which may come after the call has left the pool.
    until("no call waits or runs, and each is counted", || {
        clock.jump(SECOND);
        let pool = pool(&isolation);
        (pool.queued, pool.active, pool.overstaying) == (0, 0, 0) && ended() >= calls
    });
    assert_eq!(ended(), calls);
    assert_eq!(pool(&isolation).failed_part, None);
    assert!(told.try_recv().is_err());
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}
