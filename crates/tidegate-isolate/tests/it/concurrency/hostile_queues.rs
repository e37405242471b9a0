//! A queue of the program that blocks, loses, repeats, invents, panics and uses the isolation, under
//! timeouts, cancels, live changes and every end. Each call has one outcome, and nothing waits for
//! the queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    CallHandle, CallQueue, ConcurrencyStrategy, Criticality, Interrupt, Isolation, Properties,
    WaitingCall,
};
use tidegate_testkit::{
    Counter, Gate, Log, Rng, Tally, explode, model, rounds, until, yield_times,
};

use super::{queue_up, with_parts};
use crate::support::{Answer, Numbers, SECOND, builder, hold, pool, pool_of};

/// The part of the queue that blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blocked {
    Push,
    Pop,
    Remove,
    /// The first `len` after a `pop`.
    Len,
    /// The queue panics in `pop`, and then blocks in its `Drop`.
    Drop,
}

#[derive(Clone, Default)]
struct Gates {
    is_armed: Arc<AtomicBool>,
    inside: Gate,
    go_on: Gate,
}

/// First in, first out. One part of it waits for a gate, once it is armed.
struct Gated {
    calls: VecDeque<WaitingCall>,
    has_popped: bool,
    blocked: Blocked,
    gates: Gates,
}

impl Gated {
    fn is_armed(&self, part: Blocked) -> bool {
        self.blocked == part && self.gates.is_armed.load(Ordering::SeqCst)
    }

    fn pass(&self, part: Blocked) {
        if self.is_armed(part) {
            self.gates.inside.open();
            self.gates.go_on.wait();
        }
    }
}

impl CallQueue for Gated {
    fn push(&mut self, call: WaitingCall) {
        self.pass(Blocked::Push);
        self.calls.push_back(call);
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        self.pass(Blocked::Pop);
        assert!(!self.is_armed(Blocked::Drop), "on purpose");
        self.has_popped = self.is_armed(Blocked::Len);
        self.calls.pop_front()
    }

    fn remove(&mut self, call: &WaitingCall) {
        self.pass(Blocked::Remove);
        self.calls.retain(|one| one != call);
    }

    fn len(&self) -> usize {
        if self.has_popped {
            self.pass(Blocked::Len);
        }
        self.calls.len()
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.pass(Blocked::Drop);
    }
}

/// Two threads, of which one is inside the queue for a call and the other is free.
fn call_of_a_blocked_queue(blocked: Blocked) {
    let gates = Gates::default();
    let of_queue = gates.clone();
    let (clock, isolation, told) = with_parts(move || {
        ConcurrencyStrategy::default().queue(Gated {
            calls: VecDeque::new(),
            has_popped: false,
            blocked,
            gates: of_queue.clone(),
        })
    });
    let command = builder("a").threads(pool_of(2, 9)).no_timeout();
    let command = command.build(&isolation).unwrap();
    let (hold_a, hold_b) = (Gate::new(), Gate::new());
    let held = [hold(&command, &hold_a), hold(&command, &hold_b)];
    let log = Log::new();
    // The queue hears of the last call, which then leaves.
    let (begun, go_on) = (Gate::new(), Gate::new());
    let (here, until_told) = (begun.clone(), go_on.clone());
    let first = command.queue(move |_| {
        here.open();
        until_told.wait();
        Ok(0)
    });
    let mut answers = queue_up(&command, &log, 1..2);
    let leaves = command.queue(|_| panic!("must not run"));
    hold_a.open();
    begun.wait();
    assert!(leaves.cancel());
    gates.is_armed.store(true, Ordering::SeqCst);
    if blocked == Blocked::Push {
        answers.push(command.queue(|_| Ok(5)));
    }
    go_on.open();
    gates.inside.wait();
    hold_b.open();
    clock.jump(SECOND);
    // The next call notices that the queue blocks, and neither of the two waits for it.
    let next = command.queue(|_| Ok(2));
    let all = || answers.iter().chain([&next, &first]).chain(&held);
    until(&format!("{blocked:?}: no call waits"), || {
        all().all(|answer| answer.is_done())
    });
    assert!(!gates.go_on.is_open());
    let part = "the queue of pool `a` failed: ";
    let message = told.recv().unwrap();
    assert!(message.starts_with(part), "{blocked:?}: {message}");
    gates.go_on.open();
    for answer in answers.into_iter().chain([next, first]).chain(held) {
        answer.wait().unwrap();
    }
    until("no thread is held", || pool(&isolation).active == 0);
    assert_eq!(pool(&isolation).queued, 0);
    log.assert_order(&[1]);
}

#[test]
fn no_call_waits_for_a_part_of_the_queue_that_blocks() {
    for blocked in [
        Blocked::Push,
        Blocked::Pop,
        Blocked::Remove,
        Blocked::Len,
        Blocked::Drop,
    ] {
        call_of_a_blocked_queue(blocked);
    }
}

/// A pool with two threads. One of them has a call whose work waits for `busy`. The other one is inside a
/// `pop` that waits for a gate, for another call.
struct OneInside {
    gates: Gates,
    clock: ManualClock,
    isolation: Isolation,
    told: Receiver<String>,
    command: Numbers,
    busy: Gate,
    held: Answer,
}

impl OneInside {
    /// Creates a pool with this many places. Returns the call for which the thread is inside, too.
    fn new(places: usize) -> (Self, Answer) {
        let gates = Gates::default();
        let of_queue = gates.clone();
        let (clock, isolation, told) = with_parts(move || {
            ConcurrencyStrategy::default().queue(Gated {
                calls: VecDeque::new(),
                has_popped: false,
                blocked: Blocked::Pop,
                gates: of_queue.clone(),
            })
        });
        let command = builder("a").threads(pool_of(2, places)).no_timeout();
        let command = command.build(&isolation).unwrap();
        let busy = Gate::new();
        let held = hold(&command, &busy);
        gates.is_armed.store(true, Ordering::SeqCst);
        let inside = command.queue(|_| Ok(1));
        gates.inside.wait();
        let this = Self {
            gates,
            clock,
            isolation,
            told,
            command,
            busy,
            held,
        };
        (this, inside)
    }

    fn accepts(&self) -> Answer {
        let answer = self.command.queue(|_| Ok(1));
        assert!(!answer.is_done());
        answer
    }

    fn is_full(&self) -> bool {
        self.command.queue(|_| Ok(1)).is_done()
    }

    /// Releases the busy thread, and waits until both are free.
    fn end(self) {
        self.busy.open();
        self.held.wait().unwrap();
        until("no thread is held", || pool(&self.isolation).active == 0);
        assert_eq!(pool(&self.isolation).queued, 0);
    }
}

#[test]
fn a_call_does_not_rely_on_a_thread_that_is_inside_the_queue_for_one_that_has_left() {
    let (both, leaves) = OneInside::new(9);
    assert!(leaves.cancel());
    let call = both.command.queue(|_| Ok(7));
    both.busy.open();
    both.clock.jump(2 * SECOND);
    until("the call runs", || call.is_done());
    assert!(!both.gates.go_on.is_open());
    assert_eq!(call.wait(), Ok(7));
    let message = both.told.recv().unwrap();
    assert!(message.contains("has not returned"), "{message}");
    both.gates.go_on.open();
    both.end();
}

#[test]
fn the_bound_is_exact_while_a_thread_is_inside_the_queue() {
    let (both, inside) = OneInside::new(1);
    let behind = both.accepts();
    assert!(both.is_full());
    assert!(behind.cancel());
    let behind = both.accepts();
    assert!(both.is_full());
    // The thread is free for another call now.
    assert!(inside.cancel());
    let next = both.accepts();
    assert!(both.is_full());
    both.gates.go_on.open();
    for answer in [behind, next] {
        assert_eq!(answer.wait(), Ok(1));
    }
    both.end();
}

#[test]
fn a_call_that_runs_in_place_of_one_that_has_left_takes_no_place() {
    let (both, leaves) = OneInside::new(1);
    assert!(leaves.cancel());
    let (begun, go_on) = (Gate::new(), Gate::new());
    let (begins, ends) = (begun.clone(), go_on.clone());
    let call = both.command.queue(move |_| {
        begins.open();
        ends.wait();
        Ok(7)
    });
    both.gates.go_on.open();
    begun.wait();
    assert_eq!(pool(&both.isolation).queued, 0);
    let waits = both.accepts();
    assert_eq!(pool(&both.isolation).queued, 1);
    assert!(both.is_full());
    go_on.open();
    assert_eq!((call.wait(), waits.wait()), (Ok(7), Ok(1)));
    both.end();
}

/// What the queue and the test share.
#[derive(Clone, Default)]
struct World {
    isolation: Arc<Mutex<Option<Isolation>>>,
    command: Arc<Mutex<Option<Numbers>>>,
    handles: Arc<Mutex<Vec<CallHandle>>>,
}

/// A queue that keeps no order, uses the isolation, and seldom breaks its contract.
struct Wild {
    calls: Vec<WaitingCall>,
    seen: Option<WaitingCall>,
    rng: Mutex<Rng>,
    /// How often a method breaks the contract.
    faults: f64,
    world: World,
}

impl Wild {
    fn rng(&self) -> Rng {
        self.rng.lock().unwrap().fork()
    }

    fn is_faulty(&self) -> bool {
        let mut rng = self.rng();
        if rng.chance(0.1) {
            self.world.use_some(&mut rng);
        }
        match rng.chance(self.faults) {
            true if rng.chance(0.3) => explode(),
            is_faulty => is_faulty,
        }
    }
}

impl CallQueue for Wild {
    fn push(&mut self, call: WaitingCall) {
        self.seen.get_or_insert_with(|| call.clone());
        if !self.is_faulty() {
            self.calls.push(call);
        }
    }

    fn pop(&mut self) -> Option<WaitingCall> {
        let mut rng = self.rng();
        match self.is_faulty() {
            true => match rng.below(3) {
                0 => self.seen.clone(),
                1 => self.calls.first().cloned(),
                _ => None,
            },
            false if self.calls.is_empty() => None,
            false => Some(self.calls.swap_remove(rng.index(self.calls.len()))),
        }
    }

    fn remove(&mut self, call: &WaitingCall) {
        if !self.is_faulty() {
            self.calls.retain(|one| one != call);
        }
    }

    fn len(&self) -> usize {
        self.calls.len() + usize::from(self.is_faulty())
    }
}

impl Drop for Wild {
    fn drop(&mut self) {
        let mut rng = self.rng();
        self.world.use_some(&mut rng);
        if rng.chance(0.5) && !std::thread::panicking() {
            explode();
        }
    }
}

impl World {
    fn command(&self) -> Option<Numbers> {
        self.command.lock().unwrap().clone()
    }

    /// Does something that does not wait for a call.
    fn use_some(&self, rng: &mut Rng) {
        let isolation = self.isolation.lock().unwrap().clone();
        let (Some(isolation), Some(command)) = (isolation, self.command()) else {
            return;
        };
        match rng.below(5) {
            0 => drop(isolation.dump().to_string()),
            1 => drop(isolation.pool_snapshots()),
            2 => drop(command.queue(|_| Ok(1))),
            3 => change(rng, &command),
            _ => self.cancel_one(rng),
        }
    }

    fn cancel_one(&self, rng: &mut Rng) {
        let handle = {
            let mut handles = self.handles.lock().unwrap();
            let len = handles.len();
            (len > 0).then(|| handles.swap_remove(rng.index(len)))
        };
        if let Some(handle) = handle {
            let _ = match rng.chance(0.5) {
                true => handle.cancel(Interrupt::Yes),
                false => handle.cancel(Interrupt::No),
            };
        }
    }
}

/// Changes a limit of the pool, or whether work is interrupted.
fn change(rng: &mut Rng, command: &Numbers) {
    let (core, threshold) = (1 + rng.index(3), rng.index(7));
    let (on_cancel, on_timeout) = (rng.chance(0.5), rng.chance(0.5));
    // Refused after the end of the isolation.
    let _ = command.configure(|c| {
        (c.pool.core, c.pool.rejection_threshold) = (core, Some(threshold));
        (c.interrupt_on_cancel, c.interrupt_on_timeout) = (on_cancel, on_timeout);
    });
}

/// What one caller does.
fn call(rng: &mut Rng, command: &Numbers, world: &World, (tally, good): (&Tally, &Counter)) {
    let ranks = [
        Criticality::Sheddable,
        Criticality::Normal,
        Criticality::Critical,
    ];
    for n in 0..40 {
        let (counted, steps) = (tally.closure(0), rng.below(4));
        let mut call = command.call().criticality(ranks[rng.index(3)]);
        if rng.chance(0.5) {
            call = call.timeout(SECOND / 2);
        }
        if rng.chance(0.5) {
            world.handles.lock().unwrap().push(call.handle());
        }
        let answer = call.queue(move |token| {
            for _ in 0..steps {
                if token.is_cancelled() {
                    break;
                }
                yield_times(1);
            }
            counted();
            Ok(n)
        });
        let (listener, good) = (tally.listener(), good.clone());
        answer.on_complete(move |outcome| {
            if outcome.is_success() {
                good.hit();
            }
            listener();
        });
        if rng.chance(0.2) {
            world.cancel_one(rng);
        }
    }
}

fn wild_isolation(rng: &mut Rng, world: &World) -> (ManualClock, Properties, Isolation) {
    let (clock, properties) = (ManualClock::new(), Properties::new());
    let isolation = Isolation::builder().clock(&clock).on_unhandled(|_, _| ());
    let isolation = isolation.properties(properties.clone());
    let (parts, of_queue) = (Mutex::new(rng.fork()), world.clone());
    let faults = [0.0, 0.002, 0.05][rng.index(3)];
    let isolation = isolation.concurrency_strategy(move |_| {
        let mut rng = parts.lock().unwrap().fork();
        ConcurrencyStrategy::default().queue(Wild {
            calls: Vec::new(),
            seen: None,
            rng: Mutex::new(rng.fork()),
            faults,
            world: of_queue.clone(),
        })
    });
    (clock, properties, isolation.build().unwrap())
}

#[test]
fn whatever_the_queue_does_each_call_has_one_outcome() {
    model(0..rounds(16) as u64, |rng| {
        let world = World::default();
        let (clock, properties, isolation) = wild_isolation(rng, &world);
        let command = builder("a").threads(pool_of(2, 6)).no_timeout();
        let command =
            command.configure(|c| c.breaker.mode = tidegate_isolate::BreakerMode::Disabled);
        let command = command.build(&isolation).unwrap();
        *world.isolation.lock().unwrap() = Some(isolation.clone());
        *world.command.lock().unwrap() = Some(command.clone());
        let (tally, good, way) = (Tally::new(), Counter::new(), rng.below(4));
        let (early, pause) = (rng.chance(0.5), rng.below(300));
        let end = |isolation: &Isolation| match way {
            0 => drop(isolation.shutdown(Duration::ZERO)),
            1 => drop(isolation.shutdown(60 * SECOND)),
            2 => assert!(isolation.remove("a")),
            _ => isolation.shutdown_now(),
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (mut mine, command, world) = (rng.fork(), &command, &world);
                let counts = (&tally, &good);
                scope.spawn(move || call(&mut mine, command, world, counts));
            }
            for n in 0..20 {
                let core = (1 + rng.below(3)).to_string();
                let _ = properties.set("hystrix.threadpool.a.coreSize", &core);
                clock.jump(Duration::from_millis(rng.below(300)));
                yield_times(pause / 20);
                if early && n == 10 {
                    end(&isolation);
                }
            }
        });
        if !early {
            end(&isolation);
        }
        drop(world.isolation.lock().unwrap().take());
        drop(world.command.lock().unwrap().take());
        let over = isolation.shutdown(60 * SECOND);
        until("each call has ended", || {
            clock.jump(SECOND);
            if over.is_done() {
                for (_, report) in &over.wait().unwrap().pools {
                    drop(report.as_ref().unwrap().handed_back.take());
                }
            }
            tally.has_heard_all() && tally.has_dropped_all()
        });
        tally.wait_until_heard();
        assert!(good.count() <= tally.ran());
        until("no call is active", || command.snapshot().active == 0);
    });
}
