//! Models of the promise block: every interleaving within a bound (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most three listeners, a sweep after every removal, at most
//! `LOOM_MAX_PREEMPTIONS` preemptions per execution (two by default in `xtask`, three with
//! `--long`). The blocks have no home, or one whose lane the model drains by hand.
//!
//! What loom itself watches in every model: two threads in one cell without an order between them
//! (the outcome, the inline slot, the queue, a node's listener), and a loom `Arc` dropped too
//! often or never: every value and every listener holds one. What it does not see is a look into
//! a block that was freed (blocks are not loom's); the races under AddressSanitizer are for that.
//!
//! # Do they bite?
//!
//! The table was made before `start` called the inline listener directly. Of that path one fault
//! was seen: releasing without a look at the inbox failed
//! `a_completion_against_listeners_tells_each_once` and `a_waiting_thread_is_never_left_asleep`.
//!
//! Each of these changes, made by hand, fails the model named after it (and mostly others):
//!
//! | changed | fails |
//! |---|---|
//! | `decide`, `announce`, `release`: Release or Acquire dropped (each of six) | `a_completion_against_listeners_tells_each_once` |
//! | `decide`, `sweep`: the right to notify taken though it is held | `a_sweep_against_an_addition_and_a_completion_loses_nothing`, `sweeps_against_each_other_lose_nothing` |
//! | `announce`: never starts, or starts though the right is held; `release`: does not look for `LISTENER` | `a_completion_against_listeners_tells_each_once` |
//! | `cancel`: ignores `CLAIMED`; ignores `UNCANCELLABLE` | `shared_writers_against_a_cancellation_have_one_winner`; `a_mark_against_a_cancellation_has_one_winner` |
//! | `try_complete`: ignores `CLAIMED` | `two_shared_writers_have_one_winner` |
//! | `cancel`, `on_cancel`: no fence; `take_hook`: relaxed | `a_hook_against_a_cancellation_runs_once` |
//! | `try_complete`: no fence; `on_cancel`: looks for `CANCELLED` only | `a_hook_against_a_decision_is_not_kept` |
//! | `give_up`: load or clearing relaxed | `a_completion_against_a_dropped_reader_frees_once` |
//! | `try_take`: load relaxed; `DONE` suffices | `a_completion_against_a_poll_wakes_the_last_waker`; `a_waiting_thread_is_never_left_asleep` |
//! | `poll`: content with the same waker though `DONE` | the program, at `a_waker_that_was_called_too_early_is_registered_again` |
//! | `outcome`: load relaxed | the program: loom panics while it unwinds |
//! | inbox: push or take relaxed | `a_completion_against_two_shared_readers_tells_each_once` |
//! | `release`: first load relaxed; load after a failure relaxed | `a_notifier_that_frees_comes_after_every_look`; `a_reader_that_leaves_during_the_notification_is_waited_for` |
//! | `unsweep`: forgets what waits, does not tell when decided, Release dropped; node taken without a swap | `a_removal_against_a_notification_has_one_winner` |
//! | `tell`: does not ring; `release`: does not ring | `a_sleeper_is_woken_by_a_decision`; `a_sleeper_is_woken_after_the_listeners` |
//!
//! Not caught, and right so: waking before the right is given up (the woken task registers
//! again, which only costs time); the Acquire of a success in `release` (said there). Not caught,
//! and a gap: an owner that leaves before it has dropped its hook, which only AddressSanitizer
//! can see.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::cell::Cell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_core::{Clock, Executor, ExecutorId, Parker, Rejected, Signal, SignalLane, Task};
use tidegate_promise::Outcome;
use tidegate_promise::block::{Reader, SharedReader, Writer, block};

/// A value whose leak or second drop loom reports.
type Value = Arc<u32>;
type Ends = (Writer<Value, u32>, Reader<Value, u32>);

const ABANDONED: u32 = 99;

fn ends() -> Ends {
    block(None, || ABANDONED)
}

fn value(n: u32) -> Value {
    Arc::new(n)
}

/// Counts calls; each listener holds a handle, so loom sees whether it was dropped.
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

    /// A listener that counts and looks at the value.
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

/// A waker that counts.
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

/// A home whose lane the model drains on the thread that it calls the home.
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
