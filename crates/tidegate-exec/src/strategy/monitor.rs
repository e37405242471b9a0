//! The monitor: gives a producer that lies in its cell to a thread that has none.
//!
//! One per group of strategies. While tasks that may block run, it looks at every cell once a
//! tick; a loan that it has seen at the tick before belongs to a task that is stuck, or at
//! least slow, and goes to a reserved thread. After a quiet time it sleeps, and the next
//! producer that lends wakes it. See `README.md` beside this file.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_sync::{
    CachePadded, Doorbell, Glance, JoinPolicy, ThreadBuilder, Ticker, TickerStop, as_nanos,
    thread_cpu_time, usable_cpus,
};

/// Between two looks, when nothing else is said. With the system's own lateness a look comes
/// every 75 to 130 µs.
pub const DEFAULT_MONITOR_INTERVAL: Duration = Duration::from_micros(75);
/// How long after the last task that may block it stays awake, when nothing else is said.
pub const DEFAULT_MONITOR_QUIET: Duration = Duration::from_millis(100);

/// Looks between two readings of the monitor's own CPU time.
const LOOKS_PER_ACCOUNT: u64 = 64;

/// Watches over the producers that [`Adaptive`](crate::Adaptive) strategies have lent.
///
/// It has one thread for any number of strategies. Dropping the last handle stops it; strategies
/// that were built with it then hand over eagerly, as without one. Clones are the same monitor.
///
/// ```
/// use tidegate_exec::Monitor;
///
/// let monitor = Monitor::start("io")?;
/// assert!(monitor.is_running());
/// monitor.stop();
/// assert!(!monitor.is_running());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Monitor {
    handle: Arc<Handle>,
}

/// Describes a [`Monitor`].
///
/// ```
/// use std::time::Duration;
/// use tidegate_exec::Monitor;
/// use tidegate_sync::Ticker;
///
/// let (ticker, steps) = Ticker::manual(); // a program leaves this out: real time
/// let monitor = Monitor::builder("io")
///     .quiet(Duration::from_millis(10))
///     .ticker(ticker)
///     .start()?;
/// steps.tick(Duration::from_millis(10));
/// assert!(monitor.is_asleep());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MonitorBuilder {
    name: String,
    interval: Duration,
    quiet: Duration,
    ticker: Option<Ticker>,
}

impl Monitor {
    /// Starts a monitor with everything as usual. `name` shows in the name of its thread.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn start(name: &str) -> io::Result<Self> {
        Self::builder(name).start()
    }

    /// Describes a monitor.
    pub fn builder(name: &str) -> MonitorBuilder {
        MonitorBuilder {
            name: name.to_owned(),
            interval: DEFAULT_MONITOR_INTERVAL,
            quiet: DEFAULT_MONITOR_QUIET,
            ticker: None,
        }
    }

    /// Stops it. Producers that lie in their cells at this moment are still given away.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Whether it watches.
    pub fn is_running(&self) -> bool {
        self.watch().is_running()
    }

    /// Whether it sleeps, because no task that may block has run for a while.
    pub fn is_asleep(&self) -> bool {
        self.watch().bell.is_armed()
    }

    /// Looks so far.
    pub fn looks(&self) -> u64 {
        self.watch().own.looks.load(Ordering::Relaxed)
    }

    /// Times it went to sleep.
    pub fn sleeps(&self) -> u64 {
        self.watch().own.sleeps.load(Ordering::Relaxed)
    }

    /// CPU time that it has used, as of one of its last looks: what late hand-over costs beside
    /// the tasks.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.watch().own.cpu_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.handle.watch
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("running", &self.is_running())
            .field("asleep", &self.is_asleep())
            .field("looks", &self.looks())
            .finish()
    }
}

impl MonitorBuilder {
    /// Between two looks; [`DEFAULT_MONITOR_INTERVAL`] if nothing is said.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How long after the last task that may block it stays awake; [`DEFAULT_MONITOR_QUIET`] if
    /// nothing is said.
    pub fn quiet(mut self, quiet: Duration) -> Self {
        self.quiet = quiet;
        self
    }

    /// What it waits on between two looks, instead of the interval. While it sleeps it lets
    /// ticks pass.
    pub fn ticker(mut self, ticker: Ticker) -> Self {
        self.ticker = Some(ticker);
        self
    }

    /// Starts the monitor's thread.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn start(self) -> io::Result<Monitor> {
        let mut ticker = self.ticker.unwrap_or_else(|| Ticker::every(self.interval));
        let name = format!("{}-monitor", self.name);
        let watch = Arc::new(Watch {
            name: self.name,
            bell: Doorbell::new(),
            waker: ticker.stop_handle(),
            running: AtomicBool::new(true),
            drivers: CachePadded::new(AtomicUsize::new(0)),
            cpus: usable_cpus(),
            quiet: self.quiet,
            own: CachePadded::default(),
        });
        let watching = Arc::clone(&watch);
        ThreadBuilder::new(name)
            .join_policy(JoinPolicy::Detached)
            .spawn(move || watching.run(&mut ticker))?;
        Ok(Monitor {
            handle: Arc::new(Handle { watch }),
        })
    }
}

/// What the monitor's user holds; the last one to go stops it.
struct Handle {
    watch: Arc<Watch>,
}

impl Handle {
    fn stop(&self) {
        self.watch.running.store(false, Ordering::Relaxed);
        self.watch.waker.stop();
        // A manual ticker cannot be woken: whoever stops gives away what lies there.
        self.watch.give_away();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A cell as the monitor sees it.
pub(crate) trait Watched: Send + Sync {
    fn glance(&self) -> Glance;

    /// Another look has come: sees what its pool's threads do. Whether tasks were given away
    /// since the last one, for want of a thread that could take over.
    fn look(&self) -> bool;

    /// There will be no look for a while: what the last ones saw holds no more.
    fn rest(&self);

    /// Gives the producer of loan number `loan` to a thread, if there is one and none was sent. If
    /// `watch` does not run any more, this is the last time.
    fn offer(self: Arc<Self>, loan: u64, watch: &Watch);

    fn is_over(&self) -> bool;
}

/// What the strategies and the monitor's thread share.
pub(crate) struct Watch {
    name: String,
    bell: Doorbell,
    waker: TickerStop,
    running: AtomicBool,
    /// Threads that drive a strategy of this group now.
    drivers: CachePadded<AtomicUsize>,
    cpus: usize,
    quiet: Duration,
    /// Apart from the above, which producers read for each task: this the monitor writes at
    /// each look.
    own: CachePadded<Own>,
}

/// What the monitor alone writes, but for new cells.
#[derive(Default)]
struct Own {
    cells: Mutex<Vec<Seen>>,
    looks: AtomicU64,
    sleeps: AtomicU64,
    cpu_nanos: AtomicU64,
}

/// One cell, and what the last look saw of it.
struct Seen {
    cell: Weak<dyn Watched>,
    last: Glance,
}

impl Watch {
    pub(crate) fn add(&self, cell: Weak<dyn Watched>) {
        let last = Glance {
            lent: false,
            loans: 0,
        };
        self.lock().push(Seen { cell, last });
    }

    /// A producer was lent: true if this woke the monitor. Must follow the loan.
    #[inline]
    pub(crate) fn lent(&self) -> bool {
        let asleep = self.bell.ring();
        if asleep {
            self.waker.wake();
        }
        asleep
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    pub(crate) fn driving(&self, begins: bool) {
        if begins {
            self.drivers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.drivers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Runs `run` on a thread of the monitor's own; false if none can be had.
    pub(crate) fn start_stand_in(&self, run: impl FnOnce() + Send + 'static) -> bool {
        let thread = ThreadBuilder::new(format!("{}-stand-in", self.name));
        thread.join_policy(JoinPolicy::Detached).spawn(run).is_ok()
    }

    /// Whether fewer threads drive this group than there are processors.
    pub(crate) fn has_idle_cpu(&self) -> bool {
        self.drivers.load(Ordering::Relaxed) < self.cpus
    }

    fn run(&self, ticker: &mut Ticker) {
        let mut quiet_for = Duration::ZERO;
        while let Some(passed) = ticker.wait() {
            if !self.is_running() {
                return;
            }
            if self.bell.is_armed() {
                // Asleep, and nobody has rung: not our tick.
                ticker.rest();
                continue;
            }
            if self.look() {
                quiet_for = Duration::ZERO;
                continue;
            }
            quiet_for = quiet_for.saturating_add(passed);
            if quiet_for >= self.quiet {
                quiet_for = Duration::ZERO;
                if self.fall_asleep() {
                    ticker.rest();
                }
            }
        }
    }

    /// Looks at every cell once; whether anything has moved or lies there.
    fn look(&self) -> bool {
        if self
            .own
            .looks
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(LOOKS_PER_ACCOUNT)
        {
            self.account();
        }
        let mut moved = false;
        let mut stuck = Vec::new();
        self.lock().retain_mut(|seen| {
            let Some(cell) = seen.cell.upgrade().filter(|cell| !cell.is_over()) else {
                return false;
            };
            let now = cell.glance();
            moved |= cell.look();
            moved |= now.lent || now.loans != seen.last.loans;
            let is_stuck = now.lent && now == seen.last;
            seen.last = now;
            if is_stuck {
                stuck.push((cell, now.loans));
            }
            true
        });
        // Not under the lock: the executor is the user's.
        for (cell, loan) in stuck {
            cell.offer(loan, self);
        }
        moved
    }

    /// Announces sleep and looks once more; whether nothing has moved since the last look. A
    /// producer that lends afterwards finds the bell armed and rings.
    fn fall_asleep(&self) -> bool {
        self.bell.arm(u64::MAX);
        let quiet = self.lock().iter().all(|seen| {
            let Some(cell) = seen.cell.upgrade() else {
                return true;
            };
            cell.rest();
            let now = cell.glance();
            !now.lent && now.loans == seen.last.loans
        });
        if quiet {
            self.account();
            self.own.sleeps.fetch_add(1, Ordering::Relaxed);
        } else {
            self.bell.disarm();
        }
        quiet
    }

    fn account(&self) {
        let nanos = as_nanos(thread_cpu_time());
        self.own.cpu_nanos.store(nanos, Ordering::Relaxed);
    }

    fn give_away(&self) {
        let cells: Vec<_> = self.lock().iter().map(|seen| seen.cell.clone()).collect();
        for cell in cells.iter().filter_map(Weak::upgrade) {
            let now = cell.glance();
            if now.lent {
                cell.offer(now.loans, self);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.own
            .cells
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
