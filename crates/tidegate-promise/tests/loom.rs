//! Loom models of the promise block: every interleaving within a bound (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most three listeners, a sweep after every removal, at most
//! `LOOM_MAX_PREEMPTIONS` preemptions per execution (two by default in `xtask`, three with
//! `--long`). The blocks have no home, or one whose lane the model drains by hand.
//!
//! In every model, loom itself detects two threads that access one cell without a happens-before
//! relation (the outcome, the inline slot, the queue, a node's listener), and a loom `Arc` that is
//! dropped too often or never. Every value and every listener holds such an `Arc`. Loom does not
//! detect an access to a freed block, because blocks are not loom objects; the race tests under
//! AddressSanitizer cover that.
//!
//! # Which faults the models detect
//!
//! The list was made before `start` called the inline listener directly. For that path one fault
//! was tried: releasing without checking the inbox failed
//! `a_completion_against_listeners_notifies_each_once` and `a_waiting_thread_is_never_left_asleep`.
//!
//! Each of these changes, made by hand, fails the model named after it (and mostly others):
//!
//! - `decide`, `announce`, `release`: Release or Acquire dropped (each of six):
//!   `a_completion_against_listeners_notifies_each_once`.
//! - `decide`, `sweep`: the right to notify taken although it is held:
//!   `a_sweep_against_an_addition_and_a_completion_loses_nothing`,
//!   `sweeps_against_each_other_lose_nothing`.
//! - `announce`: never starts, or starts although the right is held; `release`: does not check
//!   `LISTENER`: `a_completion_against_listeners_notifies_each_once`.
//! - `cancel`: ignores `CLAIMED`: `shared_writers_against_a_cancellation_have_one_winner`.
//! - `cancel`: ignores `UNCANCELLABLE`: `a_mark_against_a_cancellation_has_one_winner`.
//! - `try_complete`: ignores `CLAIMED`: `two_shared_writers_have_one_winner`.
//! - `cancel`, `on_cancel`: no fence; `take_hook`: relaxed:
//!   `a_hook_against_a_cancellation_runs_once`.
//! - `try_complete`: no fence; `on_cancel`: checks only `CANCELLED`:
//!   `a_hook_against_a_decision_is_not_kept`.
//! - `give_up`: load or clearing relaxed: `a_completion_against_a_dropped_reader_frees_once`.
//! - `try_take`: load relaxed: `a_completion_against_a_poll_wakes_the_last_waker`.
//! - `try_take`: takes as soon as `DONE` is set: `a_waiting_thread_is_never_left_asleep`.
//! - `poll`: does not register the same waker again although `DONE` is set: the program fails, at
//!   `a_waker_that_was_called_too_early_is_registered_again`.
//! - `outcome`: load relaxed: the program fails, because loom panics while it unwinds.
//! - inbox: push or take relaxed: `a_completion_against_two_shared_readers_notifies_each_once`.
//! - `release`: first load relaxed: `a_notifier_that_frees_comes_after_every_look`.
//! - `release`: load after a failure relaxed:
//!   `a_reader_that_leaves_during_the_notification_is_waited_for`.
//! - `finish_sweep`: does not mark pending listeners, does not notify when decided, or Release
//!   dropped; node taken without a swap: `a_removal_against_a_notification_has_one_winner`.
//! - `notify`: does not wake the sleeper: `a_sleeper_is_woken_by_a_decision`.
//! - `release`: does not wake the sleeper: `a_sleeper_is_woken_after_the_listeners`.
//!
//! Two changes are not detected because they are harmless: waking before the right to notify is
//! released (the woken task registers again, which only costs time), and dropping the Acquire on
//! success in `release` (explained there). One gap remains: an owner that clears its bit before it
//! has dropped its hook, which only AddressSanitizer can detect.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::cell::Cell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_core::executor::{ExecutorId, Signal};
use tidegate_core::internal::SignalLane;
use tidegate_core::{Clock, Executor, Parker, Rejected, Task};
use tidegate_promise::Outcome;
use tidegate_promise::internal::{Reader, SharedReader, Writer, block};

/// A value for which loom reports a leak or a double drop.
type Value = Arc<u32>;
type Ends = (Writer<Value, u32>, Reader<Value, u32>);

const ABANDONED: u32 = 99;

fn ends() -> Ends {
    block(None, || ABANDONED)
}

fn value(n: u32) -> Value {
    Arc::new(n)
}

/// Counts calls. Each listener holds a clone, so that loom reports a listener that was not
/// dropped.
#[derive(Clone)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn hit(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Returns a listener that counts its call and reads the value.
    fn listener(&self) -> impl FnOnce(Outcome<&Value, &u32>) + Send + 'static {
        let calls = self.clone();
        move |outcome| {
            if let Outcome::Success(value) = outcome {
                assert!(**value > 0);
            }
            calls.hit();
        }
    }
}

/// A waker that counts its calls.
struct Woken(Arc<AtomicUsize>);

impl Wake for Woken {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn waker() -> (Waker, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    (Waker::from(StdArc::new(Woken(Arc::clone(&count)))), count)
}

/// A home executor whose signal lane is drained explicitly by a thread of the model.
struct Home {
    id: ExecutorId,
    lane: SignalLane,
    clock: Clock,
}

impl Home {
    fn new() -> StdArc<Self> {
        StdArc::new(Self {
            id: ExecutorId::next(),
            lane: SignalLane::new(),
            clock: Clock::system(),
        })
    }

    fn drain(&self) {
        self.lane.take().for_each(Signal::deliver);
    }
}

impl Executor for Home {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        task.run();
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.lane.push(signal)
    }

    fn is_current(&self) -> bool {
        false
    }

    fn id(&self) -> ExecutorId {
        self.id
    }

    fn name(&self) -> &str {
        "home"
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

#[path = "models/listen.rs"]
mod listen;

#[path = "models/ends.rs"]
mod ends_of_life;

#[path = "models/remove.rs"]
mod remove;

#[path = "models/sleep.rs"]
mod sleep;
