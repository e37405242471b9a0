//! The check of a watchdog: is an event loop stuck, and in what?
//!
//! The watchdog checks each event loop once per tick. An event loop that shows the same task, or
//! the same unfinished turn, at two checks has been in it for at least the time between them. When
//! these times add up to the threshold, the event loop is stalled. A sleeping event loop is never
//! stuck. The ticks are the watchdog's only clock, so a test can step it by hand.
//!
//! The event loops do nothing for this: the watchdog reads what they write for their metrics
//! anyway.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate_core::Ticker;
use tidegate_core::internal::prim::{Mutex, lock, try_lock};
use tidegate_core::internal::{contain, trace};

use super::report::{Recovered, Stall};
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

/// The reported name if a stuck event loop is not in a task.
const NO_TASK: &str = "a listener, a hook or the driver";
/// The reported name if an event loop has work and its strategy does not ask for it.
const NOT_DRIVEN: &str = "its strategy, which does not ask for work";

/// The callback for an event loop that is stuck.
pub(super) type OnStall = Box<dyn Fn(&Stall) + Send + Sync>;
/// The callback for an event loop that is no longer stuck.
pub(super) type OnRecover = Box<dyn Fn(&Recovered) + Send + Sync>;

/// The state that the watchdog's handle and its thread share.
pub(super) struct Watching {
    pub(super) threshold: Duration,
    backtrace: bool,
    callbacks: Callbacks,
    /// Locked only briefly, never while a callback runs.
    loops: Mutex<Vec<Watched>>,
    /// Held during each check of all event loops, including the callbacks.
    checking: Mutex<()>,
    /// The id of the watchdog's thread.
    thread: OnceLock<ThreadId>,
    shutdown: AtomicBool,
    stalls: AtomicU64,
}

/// An event loop, and what the last check saw of it.
pub(super) struct Watched {
    shared: Weak<Shared>,
    seen: Option<RepeatedObservation>,
}

/// An observation that has been the same at every check since the first.
#[derive(Clone, Copy)]
struct RepeatedObservation {
    what: Observation,
    age: Duration,
    /// The age at which it is reported next.
    due: Duration,
    reported: bool,
}

/// What an event loop was in at a check.
#[derive(Clone, Copy)]
struct Observation {
    task: &'static str,
    /// `true` if it was in a task.
    is_task: bool,
    sequence: u64,
    turn: u64,
}

/// The user's callbacks.
pub(super) struct Callbacks {
    pub(super) on_stall: Option<OnStall>,
    pub(super) on_recover: Option<OnRecover>,
}

impl Watching {
    pub(super) fn new(
        threshold: Duration,
        backtrace: bool,
        callbacks: Callbacks,
        loops: Vec<Watched>,
    ) -> Self {
        Self {
            threshold,
            backtrace,
            callbacks,
            loops: Mutex::new(loops),
            checking: Mutex::default(),
            thread: OnceLock::new(),
            shutdown: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
        }
    }

    /// Watches another event loop, from the next tick on.
    pub(super) fn add(&self, one: Watched) {
        lock(&self.loops).push(one);
    }

    /// Returns the number of stalls so far.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Returns the names of the event loops that were stuck at the last check.
    pub(super) fn stalled(&self) -> Vec<String> {
        let loops = lock(&self.loops);
        let stalled = loops.iter().filter_map(|one| one.shared.upgrade());
        stalled
            .filter(|shared| shared.is_stalled())
            .map(|shared| shared.name.clone())
            .collect()
    }

    pub(super) fn set_stopped(&self) {
        self.shutdown.store(true, Ordering::Relaxed);
    }

    /// Waits until no callback runs any more. Inside a callback it does not wait.
    pub(super) fn await_check(&self) {
        if self.thread.get() != Some(&thread::current().id()) {
            drop(lock(&self.checking));
        }
    }

    pub(super) fn run(&self, ticker: &mut Ticker) {
        // Only this thread sets it, and only once, so this cannot fail.
        let _ = self.thread.set(thread::current().id());
        while let Some(passed) = ticker.wait() {
            if self.is_shutdown() {
                return;
            }
            let checking = lock(&self.checking);
            self.check(passed);
            drop(checking);
            self.forget_if_stopped();
        }
    }

    fn check(&self, passed: Duration) {
        let count = lock(&self.loops).len();
        for at in 0..count {
            if self.is_shutdown() {
                return;
            }
            self.check_loop(at, passed);
        }
        lock(&self.loops).retain(|one| {
            let shared = one.shared.upgrade();
            shared.is_some_and(|shared| shared.state.get() != Lifecycle::Terminated)
        });
    }

    /// Checks one event loop. Called with `look` locked. The list is shortened only with `look`
    /// locked, so the index `at` stays valid.
    fn check_loop(&self, at: usize, passed: Duration) {
        let (shared, before) = match lock(&self.loops).get(at) {
            Some(one) => (one.shared.upgrade(), one.seen),
            None => return,
        };
        let Some(shared) = shared else { return };
        let sight = Observation::of(&shared);
        let mut seen = match (before, sight) {
            (Some(before), Some(what)) if before.what.is_same(what) => Some(RepeatedObservation {
                what,
                age: before.age.saturating_add(passed),
                ..before
            }),
            (before, sight) => {
                self.recover(&shared, before);
                sight.map(|what| RepeatedObservation::first(what, self.threshold))
            }
        };
        if let Some(seen) = seen.as_mut().filter(|seen| seen.age >= seen.due) {
            self.report(&shared, seen);
        }
        if let Some(one) = lock(&self.loops).get_mut(at) {
            one.seen = seen;
        }
    }

    fn report(&self, shared: &Shared, seen: &mut RepeatedObservation) {
        while seen.due <= seen.age {
            seen.due = seen.due.saturating_mul(2);
            if seen.due == Duration::MAX {
                break;
            }
        }
        if !seen.reported {
            seen.reported = true;
            self.stalls.fetch_add(1, Ordering::Relaxed);
            shared.stalled.store(true, Ordering::Relaxed);
        }
        trace::loop_stalled(&shared.name, seen.what.task, seen.age);
        let Some(hook) = &self.callbacks.on_stall else {
            return;
        };
        let thread = self.backtrace.then(|| shared.thread.watch()).flatten();
        let stall = Stall {
            name: shared.name.clone(),
            task: seen.what.task,
            sequence: seen.what.sequence,
            age: seen.age,
            backtrace: thread.and_then(|thread| thread.info().backtrace()),
        };
        contained(|| hook(&stall));
    }

    fn recover(&self, shared: &Shared, before: Option<RepeatedObservation>) {
        let Some(seen) = before.filter(|seen| seen.reported) else {
            return;
        };
        shared.stalled.store(false, Ordering::Relaxed);
        trace::loop_recovered(&shared.name, seen.what.task, seen.age);
        let Some(hook) = &self.callbacks.on_recover else {
            return;
        };
        let recovered = Recovered {
            name: shared.name.clone(),
            task: seen.what.task,
            sequence: seen.what.sequence,
            lasted: seen.age,
        };
        contained(|| hook(&recovered));
    }

    fn is_shutdown(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed)
    }

    /// If the watchdog was stopped, clears the `stalled` flags that it has set, and its list.
    /// Called after each check and after the stop. The later of the two calls finds `shutdown` set
    /// and `look` free.
    pub(super) fn forget_if_stopped(&self) {
        // ORDERING: SeqCst fence, on both sides: the stopping thread has just set `shutdown` and
        // will try to lock `look`. The watchdog's thread has just released `look` and will read
        // `shutdown`.
        fence(Ordering::SeqCst);
        if !self.is_shutdown() {
            return;
        }
        let Some(checking) = try_lock(&self.checking) else {
            return;
        };
        let loops = std::mem::take(&mut *lock(&self.loops));
        for one in loops.iter().filter(|one| one.is_reported()) {
            if let Some(shared) = one.shared.upgrade() {
                shared.stalled.store(false, Ordering::Relaxed);
            }
        }
        drop(checking);
    }
}

impl Watched {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            seen: None,
        }
    }

    fn is_reported(&self) -> bool {
        self.seen.is_some_and(|seen| seen.reported)
    }
}

impl RepeatedObservation {
    fn first(what: Observation, threshold: Duration) -> Self {
        Self {
            what,
            age: Duration::ZERO,
            due: threshold,
            reported: false,
        }
    }
}

impl Observation {
    /// Returns what the event loop is in; `None` if it sleeps or has no thread.
    fn of(shared: &Shared) -> Option<Self> {
        let turn = shared.meter.counters.turns.get();
        if shared.is_left_by_strategy() {
            return Self::of_strategy(shared, turn);
        }
        if let Some(running) = shared.meter.running.now() {
            // A task that was handed out does not show its name on the thread that runs it.
            let of_driver = shared.handed_out.is_of_driver();
            let handed_out = shared.handed_out.any().filter(|_| !of_driver);
            return Some(Self {
                task: handed_out.unwrap_or(running.name),
                is_task: true,
                sequence: running.sequence,
                turn,
            });
        }
        // Awake and in no task: in a listener, a hook or the driver, or about to continue.
        let state = shared.state.get();
        let lives = state > Lifecycle::Suspended && state < Lifecycle::Terminated;
        if !lives || shared.mailbox.bell.is_armed() {
            return None;
        }
        // An event loop that is driven by hand has no thread to check.
        let thread = shared.thread.watch()?;
        thread.info().is_alive().then(|| Self {
            task: NO_TASK,
            is_task: false,
            sequence: shared.meter.running.started(),
            turn,
        })
    }

    /// Returns what an event loop is in that has work and is between two calls of its strategy. If
    /// the strategy asks for work, the next check sees another turn.
    fn of_strategy(shared: &Shared, turn: u64) -> Option<Self> {
        let state = shared.state.get();
        let lives = state > Lifecycle::Suspended && state < Lifecycle::Terminated;
        (lives && !shared.mailbox.is_empty()).then(|| Self {
            task: NOT_DRIVEN,
            is_task: false,
            sequence: shared.meter.running.started(),
            turn,
        })
    }

    /// Returns `true` if the event loop is still in the same task, or still outside a task, of the
    /// same turn. Names are not compared: while a task's name is being written, a reader gets the
    /// type of its closure instead.
    fn is_same(self, other: Self) -> bool {
        (self.is_task, self.sequence, self.turn) == (other.is_task, other.sequence, other.turn)
    }
}

/// Runs a callback of the user and ignores its panic.
fn contained(run: impl FnOnce()) {
    let _ = contain(run);
}
