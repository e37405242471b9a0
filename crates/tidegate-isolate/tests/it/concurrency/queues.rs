//! A queue of the program: its order, and every way to break its contract.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_isolate::{
    CallQueue, Cause, ConcurrencyStrategy, Criticality, Event, Interrupt, Rejection, WaitingCall,
};
use tidegate_testkit::{Gate, Log, until};

use super::{Plain, others_go_on, queue_up, with_parts};
use crate::support::{SECOND, builder, cause, hold, pool, pool_of};

/// The newest call first, but critical ones before.
#[derive(Default)]
pub(super) struct Ranked(Vec<WaitingCall>);

impl CallQueue for Ranked {
    fn push(&mut self, call: WaitingCall) {
        self.0.push(call);
        self.0.sort_by_key(|call| (call.criticality(), call.id()));
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        self.0.pop()
    }

    fn remove(&mut self, call: &WaitingCall) {
        self.0.retain(|one| one != call);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn the_queue_of_the_program_decides_the_order() {
    let (_clock, isolation, _told) =
        with_parts(|| ConcurrencyStrategy::default().queue(Ranked::default()));
    let command = builder("a").threads(pool_of(1, 9)).no_timeout();
    let command = command.build(&isolation).unwrap();
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
    let command = builder("a").threads(pool_of(1, 2)).no_timeout();
    let command = command.build(&isolation).unwrap();
    let (go_on, log) = (Gate::new(), Log::new());
    let held = hold(&command, &go_on);
    for _ in 0..3 {
        let mut call = command.call();
        let handle = call.handle();
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
        let command = builder("a").threads(pool_of(1, 3)).no_timeout();
        let command = command.build(&isolation).unwrap();
        let go_on = Gate::new();
        let held = hold(&command, &go_on);
        let first = command.queue(|_| Ok(1));
        let waiting = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for leaves in [true, false, true, false] {
                let (command, waiting) = (&command, &waiting);
                scope.spawn(move || {
                    for _ in 0..6 {
                        let mut call = command.call();
                        let handle = call.handle();
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
    Repeats,
    Invents,
    CountsTooMany,
    CountsTooFew,
    PanicsInPush,
    PanicsInPop,
    PanicsInRemove,
    PanicsInLen,
    KeepsWhatLeaves,
    PanicsInDrop,
}

/// A queue that works until it is told to break its contract.
struct Bad {
    calls: VecDeque<WaitingCall>,
    breach: Breach,
    is_bad: Arc<AtomicBool>,
    seen: Option<WaitingCall>,
}

impl Bad {
    fn breaks(&self, how: Breach) -> bool {
        self.breach == how && self.is_bad.load(Ordering::Relaxed)
    }
}

impl CallQueue for Bad {
    fn push(&mut self, call: WaitingCall) {
        assert!(!self.breaks(Breach::PanicsInPush), "on purpose");
        self.seen.get_or_insert_with(|| call.clone());
        if !self.breaks(Breach::Loses) {
            self.calls.push_back(call);
        }
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        assert!(!self.breaks(Breach::PanicsInPop), "on purpose");
        if self.breaks(Breach::Invents) {
            return self.seen.clone();
        }
        if self.breaks(Breach::Repeats) {
            let next = self.calls.front().cloned();
            return next;
        }
        self.calls.pop_front()
    }

    fn remove(&mut self, call: &WaitingCall) {
        assert!(!self.breaks(Breach::PanicsInRemove), "on purpose");
        if !self.breaks(Breach::KeepsWhatLeaves) {
            self.calls.retain(|one| one != call);
        }
    }

    fn len(&self) -> usize {
        assert!(!self.breaks(Breach::PanicsInLen), "on purpose");
        let more = usize::from(self.breaks(Breach::CountsTooMany));
        let less = usize::from(self.breaks(Breach::CountsTooFew));
        (self.calls.len() + more).saturating_sub(less)
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        let panics = self.breaks(Breach::PanicsInDrop) && !std::thread::panicking();
        assert!(!panics, "on purpose");
    }
}

#[test]
fn a_queue_that_breaks_its_contract_is_named_and_no_call_is_lost() {
    for (breach, named) in [
        (Breach::Loses, "its length is "),
        (Breach::Repeats, "its length is "),
        (Breach::Invents, "it returned a call that it does not have"),
        (Breach::CountsTooMany, "its length is "),
        (Breach::CountsTooFew, "its length is "),
        (Breach::PanicsInPush, "its `push` panicked: on purpose"),
        (Breach::PanicsInPop, "its `pop` panicked: on purpose"),
        (Breach::PanicsInRemove, "its `remove` panicked: on purpose"),
        (Breach::PanicsInLen, "its `len` panicked: on purpose"),
        (Breach::KeepsWhatLeaves, "its length is "),
    ] {
        let is_bad = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&is_bad);
        let (_clock, isolation, told) = with_parts(move || {
            ConcurrencyStrategy::default().queue(Bad {
                calls: VecDeque::new(),
                breach,
                is_bad: Arc::clone(&switch),
                seen: None,
            })
        });
        let command = builder("a").threads(pool_of(1, 9)).no_timeout();
        let command = command.build(&isolation).unwrap();
        assert_eq!(command.run(|_| Ok(1)), Ok(1), "it works at first");
        let (go_on, log) = (Gate::new(), Log::new());
        let held = hold(&command, &go_on);
        let mut answers = queue_up(&command, &log, 0..4);
        let leaves = command.queue(|_| panic!("must not run"));
        assert!(leaves.cancel());
        // What has left is told, and then the queue turns bad.
        is_bad.store(true, Ordering::Relaxed);
        let (knows, ended) = (command.queue(|_| Ok(7)), command.queue(|_| Ok(8)));
        go_on.open();
        held.wait().unwrap();
        for answer in answers.drain(..).chain([knows, ended]) {
            answer
                .wait()
                .unwrap_or_else(|error| panic!("{breach:?}: {error}"));
        }
        if breach == Breach::PanicsInRemove || breach == Breach::KeepsWhatLeaves {
            // The queue has to know of a call before it is told that it left.
            let go_on = Gate::new();
            let held = [hold(&command, &go_on)];
            let first = command.queue(|_| Ok(1));
            let gate = Gate::new();
            let until = gate.clone();
            let inside = Gate::new();
            let open = inside.clone();
            let second = command.queue(move |_| {
                open.open();
                until.wait();
                Ok(2)
            });
            let leaves = command.queue(|_| panic!("must not run"));
            go_on.open();
            inside.wait();
            assert!(leaves.cancel());
            gate.open();
            for answer in held.into_iter().chain([first, second]) {
                answer.wait().unwrap();
            }
            command.queue(|_| Ok(1)).wait().unwrap();
        }
        let message = told.recv().unwrap();
        let part = format!("the queue of pool `a` failed: {named}");
        assert!(message.starts_with(&part), "{breach:?}: {message}");
        assert!(
            message.ends_with("in the order of their arrival now"),
            "{message}"
        );
        log.assert_order(&[0, 1, 2, 3]);
        let failed = pool(&isolation).failed_part.unwrap_or_default();
        assert!(failed.starts_with(named), "{breach:?}: {failed}");
        assert!(told.try_recv().is_err(), "it is said once");
        assert_eq!(command.run(|_| Ok(5)), Ok(5), "{breach:?}");
        others_go_on(&isolation);
    }
}

#[test]
fn a_queue_that_panics_when_it_is_dropped_harms_nobody() {
    let is_bad = Arc::new(AtomicBool::new(true));
    let (_clock, isolation, _told) = with_parts(move || {
        ConcurrencyStrategy::default().queue(Bad {
            calls: VecDeque::new(),
            breach: Breach::PanicsInDrop,
            is_bad: Arc::clone(&is_bad),
            seen: None,
        })
    });
    let command = builder("a").threads(pool_of(1, 2)).build(&isolation);
    assert_eq!(command.unwrap().run(|_| Ok(1)), Ok(1));
    assert!(isolation.remove("a"));
    others_go_on(&isolation);
}

/// A queue whose `pop` blocks until a gate opens.
struct Blocks {
    plain: Plain,
    inside: Gate,
    go_on: Gate,
}

impl CallQueue for Blocks {
    fn push(&mut self, call: WaitingCall) {
        self.plain.push(call);
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        self.inside.open();
        self.go_on.wait();
        self.plain.pop()
    }

    fn remove(&mut self, call: &WaitingCall) {
        self.plain.remove(call);
    }

    fn len(&self) -> usize {
        self.plain.len()
    }
}

#[test]
fn a_queue_that_blocks_is_left_behind() {
    let (inside, go_on) = (Gate::new(), Gate::new());
    let gates = (inside.clone(), go_on.clone());
    let (clock, isolation, told) = with_parts(move || {
        ConcurrencyStrategy::default().queue(Blocks {
            plain: Plain::default(),
            inside: gates.0.clone(),
            go_on: gates.1.clone(),
        })
    });
    let command = builder("a").threads(pool_of(2, 2)).no_timeout();
    let command = command.build(&isolation).unwrap();
    let first = command.queue(|_| Ok(1));
    inside.wait();
    // The second thread waits for its turn, and submitters do not wait at all.
    let second = command.queue(|_| Ok(2));
    others_go_on(&isolation);
    until("the queue is given up", || {
        clock.jump(SECOND / 10);
        second.is_done() && first.is_done()
    });
    let message = told.recv().unwrap();
    let part = "the queue of pool `a` failed: a method of it has not returned for 1s";
    assert!(message.starts_with(part), "{message}");
    assert_eq!(command.run(|_| Ok(3)), Ok(3), "one thread is enough");
    until("one thread is held by the queue", || {
        pool(&isolation).active == 1
    });
    go_on.open();
    assert_eq!((first.wait().unwrap(), second.wait().unwrap()), (1, 2));
    until("its thread is free", || pool(&isolation).active == 0);
}

#[test]
fn a_queue_that_blocks_the_only_thread_is_named_when_calls_time_out() {
    let (inside, go_on) = (Gate::new(), Gate::new());
    let gates = (inside.clone(), go_on.clone());
    let (clock, isolation, told) = with_parts(move || {
        ConcurrencyStrategy::default().queue(Blocks {
            plain: Plain::default(),
            inside: gates.0.clone(),
            go_on: gates.1.clone(),
        })
    });
    let command = builder("a").threads(pool_of(1, 2)).timeout(SECOND);
    let command = command.build(&isolation).unwrap();
    let late = command.queue(|_| panic!("must not run"));
    inside.wait();
    clock.jump(SECOND);
    assert_eq!(cause(late), Cause::TimedOut(SECOND));
    assert!(
        told.recv()
            .unwrap()
            .starts_with("the queue of pool `a` failed: ")
    );
    go_on.open();
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
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
                    let mut call = command.call().criticality(criticality);
                    let handle = call.handle();
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
    // The clock jumps while a method of the queue may be running, which then seems to block.
    let failed_part = pool(&isolation).failed_part;
    if let Some(why) = &failed_part {
        assert_eq!(why, "a method of it has not returned for 1s");
    }
    assert_eq!(told.try_recv().is_ok(), failed_part.is_some());
    assert_eq!(command.run(|_| Ok(1)), Ok(1));
}
