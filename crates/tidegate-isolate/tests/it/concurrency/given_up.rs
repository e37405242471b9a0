//! A queue of the program that is given up at each of its steps: before, while and after the thread
//! that calls it puts it back. Each call runs once, in whichever order, and the queue is dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{CallQueue, ConcurrencyStrategy, Isolation, WaitingCall};
use tidegate_promise::Completion;
use tidegate_testkit::{Counter, DropCount, Gate, Log, until, yield_times};

use super::{Plain, others_go_on, queue_up, with_parts};
use crate::support::{Answer, Numbers, SECOND, builder, pool_of};

/// A queue that waits for the gate at one of its steps.
struct Stops {
    calls: Plain,
    steps: Arc<AtomicUsize>,
    at: usize,
    arrived: Gate,
    go_on: Gate,
    _dropped: DropCount,
}

impl Stops {
    fn step(&self) {
        if self.steps.fetch_add(1, Ordering::Relaxed) == self.at {
            self.arrived.open();
            self.go_on.wait();
        }
    }
}

impl CallQueue for Stops {
    fn push(&mut self, call: WaitingCall) {
        self.step();
        self.calls.push(call);
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        let popped = self.calls.pop();
        self.step();
        popped
    }

    fn remove(&mut self, call: &WaitingCall) {
        self.calls.remove(call);
        self.step();
    }

    fn len(&self) -> usize {
        self.step();
        self.calls.len()
    }
}

/// What happens while the queue stands at a step.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It is given up, then goes on.
    GivenUp,
    /// It goes on, and is given up if it has not been put back.
    GoesOn,
    /// Both at once, after so many yields.
    Both(u64),
    /// A call is cancelled, it is given up, then goes on.
    CancelledAndGivenUp,
    /// The isolation ends, then it goes on.
    Ended,
}

const THENS: [Then; 8] = [
    Then::GivenUp,
    Then::GoesOn,
    Then::Both(0),
    Then::Both(1),
    Then::Both(2),
    Then::Both(4),
    Then::CancelledAndGivenUp,
    Then::Ended,
];

/// Gives the queue up if it has been called for too long: a call that arrives notices that.
fn give_up(clock: &ManualClock, command: &Numbers, log: &Log<u32>) -> Vec<Answer> {
    clock.jump(SECOND);
    queue_up(command, log, 100..101)
}

/// Does what is to happen while the queue stands at its step, and returns the calls that it makes.
fn act(
    then: Then,
    world: (&ManualClock, &Isolation, &Numbers),
    log: &Log<u32>,
    go_on: &Gate,
) -> Vec<Answer> {
    let (clock, isolation, command) = world;
    let mut answers = Vec::new();
    match then {
        Then::GivenUp => answers = give_up(clock, command, log),
        Then::GoesOn => {
            go_on.open();
            answers = give_up(clock, command, log);
        }
        Then::Both(yields) => std::thread::scope(|scope| {
            scope.spawn(|| {
                yield_times(yields);
                go_on.open();
            });
            answers = give_up(clock, command, log);
        }),
        Then::CancelledAndGivenUp => {
            let leaves = command.queue(|_| panic!("must not run"));
            // Another thread may have begun it only if the queue is put back, and it is not.
            assert!(leaves.cancel());
            answers = give_up(clock, command, log);
        }
        Then::Ended => drop(isolation.shutdown(Duration::ZERO)),
    }
    go_on.open();
    answers
}

/// Returns `false` if the queue has fewer steps.
fn stop_at(at: usize, then: Then) -> bool {
    let (drops, steps) = (Counter::new(), Arc::<AtomicUsize>::default());
    let (arrived, go_on) = (Gate::new(), Gate::new());
    let queue = {
        let (drops, here, gate) = (drops.clone(), arrived.clone(), go_on.clone());
        move || {
            ConcurrencyStrategy::default().queue(Stops {
                calls: Plain::default(),
                steps: Arc::clone(&steps),
                at,
                arrived: here.clone(),
                go_on: gate.clone(),
                _dropped: DropCount::new(&drops),
            })
        }
    };
    let (clock, isolation, _told) = with_parts(queue);
    let command = builder("a").threads(pool_of(2, 16)).no_timeout();
    let command = command.build(&isolation).unwrap();
    let log = Log::new();
    let mut answers = queue_up(&command, &log, 0..4);
    until("the queue stops or all have run", || {
        arrived.is_open() || log.len() == 4
    });
    let stops = arrived.is_open();
    if stops {
        answers.extend(act(then, (&clock, &isolation, &command), &log, &go_on));
    }
    // It stops no later call.
    go_on.open();
    let made = answers.len();
    until("each call has ended", || {
        answers.iter().all(Completion::is_done)
    });
    let good = answers.into_iter().filter_map(|answer| answer.wait().ok());
    let mut good: Vec<_> = good.collect();
    good.sort_unstable();
    let mut ran = log.take();
    ran.sort_unstable();
    if !matches!(then, Then::Ended) {
        assert_eq!((good.len(), &good), (made, &ran), "{then:?} at step {at}");
        assert_eq!(command.run(|_| Ok(5)), Ok(5), "{then:?} at step {at}");
        others_go_on(&isolation);
    }
    ran.dedup();
    assert!(good.iter().all(|one| ran.contains(one)));
    drop((command, isolation));
    drops.wait_for(1);
    assert_eq!(drops.count(), 1, "{then:?} at step {at}");
    stops
}

#[test]
fn a_queue_that_is_given_up_at_any_step_loses_no_call() {
    for then in THENS {
        let mut at = 0;
        while stop_at(at, then) {
            at += 1;
        }
        assert!(at > 8, "a queue of four calls has more steps than {at}");
    }
}
