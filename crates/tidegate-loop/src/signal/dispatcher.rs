//! The dispatcher of the process: it completes what waits for signals.
//!
//! Its thread starts with the first call and only reads counters. Each completion is completed on a
//! thread of its own, because a listener of it is user code and may block. Signals are rare.

use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Mutex, MutexGuard};

use tidegate_core::ThreadBuilder;
use tidegate_core::internal::unpoisoned;
use tidegate_promise::{Completion, Failure, Promise, promise};

use super::received::{Received, name};
use crate::sys::signal::{Arrivals, KINDS, Kind};

static DISPATCHER: Mutex<Dispatcher> = Mutex::new(Dispatcher {
    started: false,
    registered: [false; KINDS],
    waiters: Vec::new(),
});

struct Dispatcher {
    /// `true` if the thread runs.
    started: bool,
    registered: [bool; KINDS],
    waiters: Vec<Waiter>,
}

/// A completion that waits for a signal.
struct Waiter {
    kind: Kind,
    /// The number of signals of this kind that do not complete it.
    seen: u64,
    promise: Promise<Received>,
}

/// A signal could not be registered.
#[derive(Clone)]
struct RegisterError {
    name: &'static str,
    why: String,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        write!(
            f,
            "{name} cannot be awaited: {why}; handle the signal outside this process"
        )
    }
}

impl Error for RegisterError {}

tidegate_core::debug_as_display!(RegisterError);

/// Returns a completion for the next signal of this kind.
pub(super) fn next(kind: Kind) -> Completion<Received> {
    wait_for(kind, None)
}

/// Returns a completion for the first signal of this kind after the first `seen` ones.
pub(super) fn after(kind: Kind, seen: u64) -> Completion<Received> {
    wait_for(kind, Some(seen))
}

fn wait_for(kind: Kind, seen: Option<u64>) -> Completion<Received> {
    let (promise, completion) = promise();
    let mut dispatcher = lock();
    // Read before the registration, so that a signal right after it counts.
    let seen = seen.unwrap_or_else(|| kind.count());
    let registered = dispatcher.register(kind);
    // A future that awaits "the signal or something else" in a cycle drops one of these each time.
    let given_up = dispatcher.take(|waiter| {
        let promise = &waiter.promise;
        promise.is_cancelled() || !promise.is_observed()
    });
    let count = kind.count();
    let promise = if registered.is_ok() && count <= seen {
        dispatcher.waiters.push(Waiter {
            kind,
            seen,
            promise,
        });
        None
    } else {
        Some(promise)
    };
    drop(dispatcher);
    drop(given_up);
    match (promise, registered) {
        (Some(promise), Ok(())) => {
            let _ = promise.succeed(Received { kind, count });
        }
        (Some(promise), Err(why)) => {
            let (name, why) = (name(kind), why.to_string());
            let _ = promise.fail(Failure::new(RegisterError { name, why }));
        }
        (None, _) => {}
    }
    completion
}

fn lock() -> MutexGuard<'static, Dispatcher> {
    unpoisoned(DISPATCHER.lock())
}

impl Dispatcher {
    /// Starts the thread and installs the handler of `kind`, each of them once.
    fn register(&mut self, kind: Kind) -> io::Result<()> {
        if !self.started {
            let arrivals = Arrivals::open()?;
            let threads = ThreadBuilder::new("tidegate-signals").detached();
            threads.spawn(move || dispatch(arrivals))?;
            self.started = true;
        }
        if !self.registered[kind.index()] {
            kind.register()?;
            self.registered[kind.index()] = true;
        }
        Ok(())
    }

    /// Removes and returns the waiters that `which` selects. The caller drops or completes them
    /// after it has released the lock.
    fn take(&mut self, which: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let (taken, rest) = mem::take(&mut self.waiters).into_iter().partition(which);
        self.waiters = rest;
        taken
    }
}

/// The main function of the dispatcher's thread.
fn dispatch(mut arrivals: Arrivals) {
    while arrivals.wait().is_ok() {
        let due = lock().take(|waiter| waiter.kind.count() > waiter.seen);
        for waiter in due {
            complete(waiter);
        }
    }
}

/// Completes `waiter` on a thread of its own, or on this one if none can be started.
fn complete(waiter: Waiter) {
    let received = Received {
        kind: waiter.kind,
        count: waiter.kind.count(),
    };
    let promise = waiter.promise.share();
    let (to_complete, value) = (promise.clone(), received.clone());
    let threads = ThreadBuilder::new("tidegate-signal").detached();
    let started = threads.spawn(move || drop(to_complete.try_succeed(value)));
    if started.is_err() {
        let _ = promise.try_succeed(received);
    }
}
