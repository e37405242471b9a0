//! Models of the promise block: every interleaving within a bound (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most three listeners, a sweep after every removal, at most
//! `LOOM_MAX_PREEMPTIONS` preemptions per execution (two by default in `xtask`, three with
//! `--long`). The blocks have no home, or one whose lane the model drains by hand.
//!
//! What loom itself watches in every model: two threads in one cell without an order between them
//! (the outcome, the inline slot, the queue, a node's listener), and a loom `Arc` dropped too
//! often or never: every value and every listener holds one.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_sync::{
    Clock, Executor, ExecutorId, Outcome, Parker, Reader, Rejected, SharedReader, Signal,
    SignalLane, Task, Writer, block,
};

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

#[path = "models/block_listen.rs"]
mod listen;

#[path = "models/block_ends.rs"]
mod ends_of_life;

#[path = "models/block_remove.rs"]
mod remove;
