//! A watchdog: says when a loop is stuck, and what it is stuck in.
//!
//! It looks at each loop once a tick. A loop that shows the same task, or the same unfinished
//! turn, at two looks has been in it for at least the time between them; when that adds up to
//! the threshold it is stalled. A loop that sleeps is not stuck, however long. The ticks are the
//! watchdog's only clock, so a test steps it by hand.
//!
//! Nothing is asked of the loops: the watchdog reads what they write for their metrics anyway.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, TryLockError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{JoinPolicy, ThreadBuilder, Ticker, TickerStop, contain};

use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Placement;
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;

use super::report::{Recovered, Stall, WatchdogError};

/// How long a loop may be in one task before it counts as stuck, when nothing else is said.
pub const DEFAULT_STALL_THRESHOLD: Duration = Duration::from_secs(1);
/// Looks in one threshold when no ticker is given.
const LOOKS: u32 = 4;
/// The shortest interval of a ticker that was not given.
const SHORTEST: Duration = Duration::from_millis(1);
/// What a stuck loop runs when it is not a task.
const NO_TASK: &str = "a listener, a hook or the driver";

/// Hears of a loop that is stuck.
type OnStall = Box<dyn Fn(&Stall) + Send + Sync>;
/// Hears of a loop that is stuck no longer.
type OnRecover = Box<dyn Fn(&Recovered) + Send + Sync>;

/// Reports loops that are stuck in a task for longer than a threshold.
///
/// It has one thread, however many loops it watches. Dropping it stops it and never blocks;
/// [`Watchdog::stop`] also waits until its last callback has returned.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, Watchdog};
/// use tidegate_core::{Task, Ticker};
///
/// let home = EventLoop::builder("home").build()?;
/// let (ticker, steps) = Ticker::manual(); // a program leaves this out: real time
/// let (tell, told) = mpsc::channel();
/// let watchdog = Watchdog::builder()
///     .threshold(Duration::from_secs(2))
///     .ticker(ticker)
///     .on_stall(move |stall| tell.send(stall.to_string()).unwrap())
///     .watch(&home)
///     .start()?;
///
/// let (begun, has_begun) = mpsc::channel();
/// let (go_on, gone_on) = mpsc::channel::<()>();
/// home.execute_task(Task::named("compact", move || {
///     begun.send(()).unwrap();
///     let _ = gone_on.recv();
/// }))?;
/// has_begun.recv()?;
/// steps.tick(Duration::from_secs(1)); // seen
/// steps.tick(Duration::from_secs(2)); // still there
/// assert_eq!(told.try_recv()?, "loop home has been in task `compact` (number 1) for 2s");
/// assert!(home.is_stalled() && watchdog.stalls() == 1);
/// drop(go_on);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watchdog {
    shared: Arc<Watching>,
    ticker: TickerStop,
}

/// Describes a [`Watchdog`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, Watchdog};
///
/// let home = EventLoop::builder("home").build()?;
/// let watchdog = Watchdog::builder()
///     .threshold(Duration::from_millis(200))
///     .on_stall(|stall| eprintln!("{stall}"))
///     .on_recover(|recovered| eprintln!("{recovered}"))
///     .watch(&home)
///     .start()?;
/// watchdog.stop();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WatchdogBuilder {
    threshold: Duration,
    ticker: Option<Ticker>,
    backtrace: bool,
    on_stall: Option<OnStall>,
    on_recover: Option<OnRecover>,
    loops: Vec<Watched>,
}

impl Watchdog {
    /// Describes a watchdog.
    pub fn builder() -> WatchdogBuilder {
        WatchdogBuilder {
            threshold: DEFAULT_STALL_THRESHOLD,
            ticker: None,
            backtrace: false,
            on_stall: None,
            on_recover: None,
            loops: Vec::new(),
        }
    }

    /// Watches another loop too, from the next tick on. A loop that has ended, or lost its last
    /// handle, is forgotten by itself.
    pub fn watch<P: Placement>(&self, event_loop: &EventLoop<P>) {
        lock(&self.shared.loops).push(Watched::new(event_loop));
    }

    /// Stalls seen so far: a loop that is stuck once counts once, however often it is reported.
    pub fn stalls(&self) -> u64 {
        self.shared.stalls.load(Ordering::Relaxed)
    }

    /// Names of the loops that are stuck right now.
    pub fn stalled(&self) -> Vec<String> {
        let looking = lock(&self.shared.loops);
        let stalled = looking.iter().filter_map(|one| one.shared.upgrade());
        stalled
            .filter(|shared| shared.stalled.load(Ordering::Relaxed))
            .map(|shared| shared.name.clone())
            .collect()
    }

    /// Stops watching, and returns when no callback runs any more. From inside a callback it
    /// does not wait.
    pub fn stop(self) {
        self.ask_to_stop();
        if self.shared.thread.get() != Some(&thread::current().id()) {
            drop(lock(&self.shared.look));
        }
    }

    fn ask_to_stop(&self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.ticker.stop();
        self.shared.forget_if_stopped();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("threshold", &self.shared.threshold)
            .field("stalls", &self.stalls())
            .finish_non_exhaustive()
    }
}

impl WatchdogBuilder {
    /// How long a loop may be in one task; [`DEFAULT_STALL_THRESHOLD`] if nothing is said.
    pub fn threshold(mut self, threshold: Duration) -> Self {
        self.threshold = threshold;
        self
    }

    /// What the watchdog waits on between two looks; a quarter of the threshold of real time if
    /// nothing is said. A stall is noticed at the first tick after it has lasted long enough.
    pub fn ticker(mut self, ticker: Ticker) -> Self {
        self.ticker = Some(ticker);
        self
    }

    /// Says where the stuck thread is, frame by frame, where the system lets us look.
    pub fn with_backtrace(mut self, yes: bool) -> Self {
        self.backtrace = yes;
        self
    }

    /// Hears of a loop that is stuck: when the threshold has passed, then each time the age has
    /// doubled. Runs on the watchdog's thread, which looks at no loop meanwhile. A panic in it
    /// goes no further.
    pub fn on_stall(mut self, hear: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.on_stall = Some(Box::new(hear));
        self
    }

    /// Hears once of a loop that was reported and is stuck no longer. Runs like
    /// [`WatchdogBuilder::on_stall`].
    pub fn on_recover(mut self, hear: impl Fn(&Recovered) + Send + Sync + 'static) -> Self {
        self.on_recover = Some(Box::new(hear));
        self
    }

    /// Watches a loop, without keeping it alive.
    pub fn watch<P: Placement>(mut self, event_loop: &EventLoop<P>) -> Self {
        self.loops.push(Watched::new(event_loop));
        self
    }

    /// Starts the watchdog's thread.
    ///
    /// # Errors
    ///
    /// [`WatchdogError`] for a threshold of zero, or when no thread can be had.
    pub fn start(self) -> Result<Watchdog, WatchdogError> {
        if self.threshold.is_zero() {
            return Err(WatchdogError::ZeroThreshold);
        }
        let every = (self.threshold / LOOKS).max(SHORTEST);
        let mut ticker = self.ticker.unwrap_or_else(|| Ticker::every(every));
        let stop = ticker.stop_handle();
        let shared = Arc::new(Watching {
            threshold: self.threshold,
            backtrace: self.backtrace,
            on_stall: self.on_stall,
            on_recover: self.on_recover,
            loops: Mutex::new(self.loops),
            look: Mutex::default(),
            thread: OnceLock::new(),
            stopped: AtomicBool::new(false),
            stalls: AtomicU64::new(0),
        });
        let watching = Arc::clone(&shared);
        ThreadBuilder::new("tidegate-watchdog")
            .join_policy(JoinPolicy::Detached)
            .spawn(move || watching.run(&mut ticker))
            .map_err(WatchdogError::NoThread)?;
        Ok(Watchdog {
            shared,
            ticker: stop,
        })
    }
}

impl fmt::Debug for WatchdogBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchdogBuilder")
            .field("threshold", &self.threshold)
            .field("backtrace", &self.backtrace)
            .field("loops", &self.loops.len())
            .finish_non_exhaustive()
    }
}

impl<P: Placement> EventLoop<P> {
    /// Whether a [`Watchdog`] sees the loop stuck right now. False if none watches it.
    pub fn is_stalled(&self) -> bool {
        self.shared.stalled.load(Ordering::Relaxed)
    }
}

/// What the watchdog's handle and its thread share.
struct Watching {
    threshold: Duration,
    backtrace: bool,
    on_stall: Option<OnStall>,
    on_recover: Option<OnRecover>,
    /// Locked for a moment only, never while a callback runs.
    loops: Mutex<Vec<Watched>>,
    /// Held during each look, its callbacks included.
    look: Mutex<()>,
    /// The watchdog's own.
    thread: OnceLock<ThreadId>,
    stopped: AtomicBool,
    stalls: AtomicU64,
}

/// One loop, and what the last look saw of it.
struct Watched {
    shared: Weak<Shared>,
    seen: Option<Seen>,
}

/// The same thing, seen at every look since.
#[derive(Clone, Copy)]
struct Seen {
    what: Sight,
    age: Duration,
    /// The age at which it is reported next.
    due: Duration,
    reported: bool,
}

/// What a loop was in when the watchdog looked.
#[derive(Clone, Copy)]
struct Sight {
    task: &'static str,
    /// Whether it was a task at all.
    is_task: bool,
    sequence: u64,
    turn: u64,
}

impl Watching {
    fn run(&self, ticker: &mut Ticker) {
        // Nobody else sets it.
        let _ = self.thread.set(thread::current().id());
        while let Some(passed) = ticker.wait() {
            if self.is_stopped() {
                return;
            }
            let look = lock(&self.look);
            self.look(passed);
            drop(look);
            self.forget_if_stopped();
        }
    }

    fn look(&self, passed: Duration) {
        let count = lock(&self.loops).len();
        for at in 0..count {
            if self.is_stopped() {
                return;
            }
            self.look_at(at, passed);
        }
        lock(&self.loops).retain(|one| {
            let shared = one.shared.upgrade();
            shared.is_some_and(|shared| shared.state.get() != Lifecycle::Terminated)
        });
    }

    /// Looks at one loop. Only this thread shortens the list, so `at` stays what it was.
    fn look_at(&self, at: usize, passed: Duration) {
        let (shared, before) = match lock(&self.loops).get(at) {
            Some(one) => (one.shared.upgrade(), one.seen),
            None => return,
        };
        let Some(shared) = shared else { return };
        let sight = Sight::of(&shared);
        let mut seen = match (before, sight) {
            (Some(before), Some(what)) if before.what.is_same(what) => Some(Seen {
                what,
                age: before.age.saturating_add(passed),
                ..before
            }),
            (before, sight) => {
                self.recover(&shared, before);
                sight.map(|what| Seen::first(what, self.threshold))
            }
        };
        if let Some(seen) = seen.as_mut().filter(|seen| seen.age >= seen.due) {
            self.report(&shared, seen);
        }
        if let Some(one) = lock(&self.loops).get_mut(at) {
            one.seen = seen;
        }
    }

    fn report(&self, shared: &Shared, seen: &mut Seen) {
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
        let Some(hear) = &self.on_stall else { return };
        let thread = self.backtrace.then(|| shared.thread()).flatten();
        let stall = Stall {
            name: shared.name.clone(),
            task: seen.what.task,
            sequence: seen.what.sequence,
            age: seen.age,
            backtrace: thread.and_then(|thread| thread.info().backtrace()),
        };
        contained(|| hear(&stall));
    }

    fn recover(&self, shared: &Shared, before: Option<Seen>) {
        let Some(seen) = before.filter(|seen| seen.reported) else {
            return;
        };
        shared.stalled.store(false, Ordering::Relaxed);
        let Some(hear) = &self.on_recover else { return };
        let recovered = Recovered {
            name: shared.name.clone(),
            task: seen.what.task,
            sequence: seen.what.sequence,
            lasted: seen.age,
        };
        contained(|| hear(&recovered));
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Takes back what a stopped watchdog said of its loops. Called after each look and after
    /// the stop: the later of the two finds the flag set and the lock free.
    fn forget_if_stopped(&self) {
        // ORDERING: SeqCst fence, on both sides: one has just set the flag and will try the
        // lock, the other has just freed the lock and will read the flag.
        fence(Ordering::SeqCst);
        if !self.is_stopped() {
            return;
        }
        let look = match self.look.try_lock() {
            Ok(look) => look,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let loops = std::mem::take(&mut *lock(&self.loops));
        for one in loops.iter().filter(|one| one.is_reported()) {
            if let Some(shared) = one.shared.upgrade() {
                shared.stalled.store(false, Ordering::Relaxed);
            }
        }
        drop(look);
    }
}

impl Watched {
    fn new<P: Placement>(event_loop: &EventLoop<P>) -> Self {
        Self {
            shared: Arc::downgrade(&event_loop.shared),
            seen: None,
        }
    }

    fn is_reported(&self) -> bool {
        self.seen.is_some_and(|seen| seen.reported)
    }
}

impl Seen {
    fn first(what: Sight, threshold: Duration) -> Self {
        Self {
            what,
            age: Duration::ZERO,
            due: threshold,
            reported: false,
        }
    }
}

impl Sight {
    /// What the loop is in; `None` if it sleeps or has no thread.
    fn of(shared: &Shared) -> Option<Self> {
        let turn = shared.counters.turns.get();
        if let Some(running) = shared.running.now() {
            return Some(Self {
                task: running.name,
                is_task: true,
                sequence: running.sequence,
                turn,
            });
        }
        // Awake and in no task: in a listener, a hook or the driver, or about to move on.
        let state = shared.state.get();
        let lives = state > Lifecycle::Suspended && state < Lifecycle::Terminated;
        if !lives || shared.bell.is_armed() {
            return None;
        }
        // Nobody sleeps for a loop that is driven by hand.
        let thread = shared.thread()?;
        thread.info().is_alive().then(|| Self {
            task: NO_TASK,
            is_task: false,
            sequence: shared.running.started(),
            turn,
        })
    }

    /// Whether the loop has not moved. Names are not compared: one that is being written reads
    /// as the type of the closure.
    fn is_same(self, other: Self) -> bool {
        (self.is_task, self.sequence, self.turn) == (other.is_task, other.sequence, other.turn)
    }
}

/// Runs a callback of the user's; its panic goes no further.
fn contained(run: impl FnOnce()) {
    let _ = contain(run);
}
