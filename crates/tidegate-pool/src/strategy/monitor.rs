//! The monitor: gives a producer that lies in its cell to a thread that has none.
//!
//! One per group of strategies. While tasks that may block run, it looks at every cell once a
//! tick; a loan that it has seen at the tick before belongs to a task that is stuck, or at
//! least slow, and goes to a thread of the pool, or to the stand-in that is reserved for it. After
//! a quiet time it sleeps, and the next producer that lends wakes it. See `README.md` beside this
//! file.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::{
    CachePadded, ExecutorId, JoinPolicy, ThreadBuilder, Ticker, TickerStop, as_nanos,
    thread_cpu_time, usable_cpus,
};

use crate::strategy::raw::{Coming, Glance, Rung, Vigil};

use super::on_call::{OnCall, StandIn};

/// Between two looks, when nothing else is said. With the system's own lateness a look comes
/// every 75 to 130 µs.
pub const DEFAULT_MONITOR_INTERVAL: Duration = Duration::from_micros(75);
/// How long after the last task that may block it stays awake, when nothing else is said: some
/// thirty looks. A task that comes later costs a wakeup; a longer time costs a program with ten
/// such tasks a second seven thousand looks a second.
pub const DEFAULT_MONITOR_QUIET: Duration = Duration::from_millis(4);
/// The most stand-ins of a monitor, when nothing else is said.
pub const DEFAULT_STAND_INS: usize = 64;

/// Looks between two readings of the monitor's own CPU time.
const LOOKS_PER_ACCOUNT: u64 = 64;
/// Looks at a producer whose helper may wait in a queue, before another one is sent.
const QUEUED_LOOKS: u32 = 16;
/// The longest time between two looks at a producer that nobody comes for.
const LONGEST_DOZE: Duration = Duration::from_millis(100);

/// Watches over the producers that [`Adaptive`](crate::Adaptive) strategies have lent.
///
/// It has one thread for any number of strategies. Dropping the last handle stops it; strategies
/// that were built with it then hand over eagerly, as without one. Clones are the same monitor.
///
/// ```
/// use tidegate_pool::Monitor;
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
/// use tidegate_pool::Monitor;
/// use tidegate_core::Ticker;
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
    threads: Option<ThreadBuilder>,
    stand_ins: usize,
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
            threads: None,
            stand_ins: DEFAULT_STAND_INS,
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
        self.watch().vigil.is_asleep()
    }

    /// Threads that stand in for strategies, or wait for that.
    pub fn stand_ins(&self) -> usize {
        self.watch().on_call.threads()
    }

    /// Times that no stand-in could be had: the monitor has as many as it may, or the system refused
    /// a thread. See [`Counts::unwatched`](crate::Counts::unwatched).
    pub fn failed_stand_ins(&self) -> u64 {
        self.watch().on_call.failed()
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
            .field("stand_ins", &self.stand_ins())
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

    /// How its stand-ins are started. They are detached, whatever the builder says.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The most stand-ins; [`DEFAULT_STAND_INS`] if nothing is said. A strategy has one in reserve
    /// while it runs tasks that may block. One that cannot have any hands over eagerly.
    pub fn stand_ins(mut self, most: usize) -> Self {
        self.stand_ins = most;
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
        let threads = self.threads;
        let threads = threads.unwrap_or_else(|| {
            let name = format!("{}-stand-in", self.name);
            ThreadBuilder::new(name)
        });
        let threads = threads.join_policy(JoinPolicy::Detached);
        let watch = Arc::new(Watch {
            vigil: Vigil::new(),
            waker: ticker.stop_handle(),
            drivers: CachePadded::new(AtomicUsize::new(0)),
            cpus: usable_cpus(),
            quiet: self.quiet,
            on_call: Arc::new(OnCall::new(threads, self.stand_ins)),
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
        if self.watch.vigil.end() {
            self.watch.waker.stop();
            // Whoever stops it has the last look: what lies there is given away.
            self.watch.give_away();
        }
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
    /// since the last one, or may be about to starve.
    fn look(&self) -> bool;

    /// There will be no look for a while: what the last ones saw holds no more, and the stand-in
    /// may go.
    fn rest(&self) -> Option<StandIn>;

    /// Reserves a stand-in for it.
    fn reserve(&self, one: StandIn);

    /// Gives the producer of loan number `loan` to a thread, if none was sent; whether one has it
    /// now that had not. If `watch` does not run any more, this is the last time.
    fn offer(self: Arc<Self>, loan: u64, watch: &Watch) -> bool;

    fn is_over(&self) -> bool;

    /// The pool, if a stand-in produces and what it gives to the pool does not run.
    fn starves(&self) -> Option<ExecutorId>;

    /// Asks a thread of this pool that waits inside the producer to leave that to a stand-in; whether
    /// there is one.
    fn relieve(&self, pool: ExecutorId) -> bool;

    /// The monitor needs it no more for now.
    fn let_go(self: Arc<Self>, watch: &Watch);
}

/// What the strategies and the monitor's thread share.
pub(crate) struct Watch {
    vigil: Vigil,
    waker: TickerStop,
    /// Threads that drive a strategy of this group now.
    drivers: CachePadded<AtomicUsize>,
    cpus: usize,
    quiet: Duration,
    pub(super) on_call: Arc<OnCall>,
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
    /// Looks in a row that have seen the same before this one.
    same: u32,
}

/// The cells of one look. Kept from look to look, for its memory.
type Cells = Vec<Arc<dyn Watched>>;

impl Watch {
    pub(crate) fn add(&self, cell: Weak<dyn Watched>) {
        let last = Glance {
            lent: false,
            coming: Coming::Nobody,
            loans: 0,
        };
        self.lock().push(Seen {
            cell,
            last,
            same: 0,
        });
    }

    /// A producer was lent: wakes the monitor if it sleeps. Must follow the loan.
    #[inline]
    pub(crate) fn lent(&self) -> Rung {
        let rung = self.vigil.ring();
        if rung == Rung::Woken {
            self.waker.wake();
        }
        rung
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        !self.vigil.is_over()
    }

    /// The same as of the total order of loans and stops; for the one look that nobody repeats.
    pub(crate) fn is_surely_over(&self) -> bool {
        self.vigil.is_surely_over()
    }

    pub(crate) fn driving(&self, begins: bool) {
        if begins {
            self.drivers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.drivers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Threads that a pool must be able to spare before one of them gets a producer: with other
    /// stand-ins about (`own` does not count) one has to stay for what those give to the pool.
    pub(crate) fn spare_needed(&self, own: bool) -> usize {
        1 + usize::from(self.on_call.duties() > usize::from(own))
    }

    /// Whether fewer threads drive this group than there are processors.
    pub(crate) fn has_idle_cpu(&self) -> bool {
        self.drivers.load(Ordering::Relaxed) < self.cpus
    }

    fn run(&self, ticker: &mut Ticker) {
        let mut cells = Cells::new();
        let mut quiet_for = Duration::ZERO;
        // Asleep although somebody is still to be helped: how long, and for how long.
        let mut doze: Option<(Duration, Duration)> = None;
        while let Some(passed) = ticker.wait() {
            if !self.is_running() {
                return;
            }
            let dozed = doze.take().filter(|_| self.vigil.is_asleep());
            if self.vigil.is_asleep() {
                // Nobody has rung: not our tick, unless it has slept long enough.
                let slept = dozed.map(|(slept, limit)| (slept.saturating_add(passed), limit));
                match slept {
                    Some((slept, limit)) if slept >= limit => self.vigil.wake(),
                    Some((slept, limit)) => {
                        let rested = ticker.rest_at_most(Some(limit - slept));
                        doze = Some((slept.saturating_add(rested), limit));
                        continue;
                    }
                    None => {
                        ticker.rest();
                        continue;
                    }
                }
            }
            if self.look(&mut cells) {
                quiet_for = Duration::ZERO;
                continue;
            }
            quiet_for = quiet_for.saturating_add(passed);
            // Woken by itself, it has been quiet all the time.
            if quiet_for < self.quiet && dozed.is_none() {
                continue;
            }
            quiet_for = Duration::ZERO;
            match self.fall_asleep(&mut cells) {
                Slept::No => {}
                Slept::Yes => ticker.rest(),
                Slept::WithALoan => {
                    let before = dozed.map_or(Duration::ZERO, |(_, limit)| limit * 2);
                    let limit = before.max(self.quiet).min(LONGEST_DOZE.max(self.quiet));
                    doze = Some((ticker.rest_at_most(Some(limit)), limit));
                }
            }
        }
    }

    /// Looks at every cell once; whether anything has moved.
    fn look(&self, cells: &mut Cells) -> bool {
        if self
            .own
            .looks
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(LOOKS_PER_ACCOUNT)
        {
            self.account();
        }
        self.on_call.look();
        let mut moved = false;
        let mut stuck = Vec::new();
        self.lock().retain_mut(|seen| {
            let Some(cell) = seen.cell.upgrade() else {
                return false;
            };
            let stays = !cell.is_over();
            let now = cell.glance();
            moved |= cell.look();
            moved |= now != seen.last;
            seen.same = if now == seen.last { seen.same + 1 } else { 0 };
            seen.last = now;
            let looks = match now.coming {
                Coming::Nobody => 1,
                Coming::Queued => QUEUED_LOOKS,
                Coming::Given => u32::MAX,
            };
            if stays && now.lent && seen.same >= looks {
                stuck.push((Arc::clone(&cell), now.loans));
            }
            cells.push(cell);
            stays
        });
        // Not under the lock: the executor is the user's.
        for (cell, loan) in stuck {
            moved |= cell.offer(loan, self);
        }
        for cell in cells.iter() {
            if let Some(pool) = cell.starves() {
                moved |= cells.iter().any(|other| other.relieve(pool));
            }
        }
        self.let_go(cells);
        moved
    }

    /// Announces sleep and looks once more: it stays awake if anything has moved since the last look.
    /// A producer that lends afterwards finds the monitor asleep and wakes it.
    fn fall_asleep(&self, cells: &mut Cells) -> Slept {
        if !self.vigil.sleep() {
            return Slept::No;
        }
        let (mut moved, mut lent) = (false, false);
        for seen in self.lock().iter() {
            let Some(cell) = seen.cell.upgrade() else {
                continue;
            };
            // Before the look: a producer that lends after it finds that it has none.
            let one = cell.rest();
            let now = cell.glance();
            moved |= now != seen.last;
            // A thread that could be relieved may turn up.
            lent |= now.lent || cell.starves().is_some();
            match one {
                Some(one) if now.lent || now != seen.last => cell.reserve(one),
                Some(one) => self.on_call.release(one),
                None => {}
            }
            cells.push(cell);
        }
        self.let_go(cells);
        if moved {
            self.vigil.wake();
            return Slept::No;
        }
        self.account();
        self.own.sleeps.fetch_add(1, Ordering::Relaxed);
        if lent { Slept::WithALoan } else { Slept::Yes }
    }

    /// Forgets the cells of a look. Not under the lock: the last one to know of a strategy drops it.
    fn let_go(&self, cells: &mut Cells) {
        for cell in cells.drain(..) {
            cell.let_go(self);
        }
    }

    fn account(&self) {
        let nanos = as_nanos(thread_cpu_time());
        self.own.cpu_nanos.store(nanos, Ordering::Relaxed);
    }

    /// The last look, of whoever stops the monitor.
    fn give_away(&self) {
        self.on_call.close();
        let cells: Vec<_> = self.lock().iter().map(|seen| seen.cell.clone()).collect();
        for cell in cells.iter().filter_map(Weak::upgrade) {
            let now = cell.glance();
            if now.lent && now.coming != Coming::Given {
                Arc::clone(&cell).offer(now.loans, self);
            } else if let Some(one) = cell.rest() {
                self.on_call.release(one);
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

/// How a monitor fell asleep.
enum Slept {
    No,
    Yes,
    /// A producer lies in its cell and nobody comes for it, or its tasks do not run.
    WithALoan,
}
