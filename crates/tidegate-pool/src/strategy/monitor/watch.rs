//! The monitor's thread. It scans the cell of each strategy once per tick, gives stuck producers to
//! other threads, and sleeps when nothing changes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::{
    CachePadded, TickerStop, as_nanos, thread_cpu_time, unpoisoned, usable_cpus,
};
use tidegate_core::{ThreadBuilder, Ticker};

use crate::strategy::raw::{CellSnapshot, MonitorState, NotifyResult, PendingHelper};

use super::threads::{StandIn, StandInPool};

/// Scans between two readings of the monitor's own CPU time.
const LOOKS_PER_ACCOUNT: u64 = 64;
/// Scans of a lent producer whose helper may be in a queue, before another helper is sent.
const QUEUED_SCANS: u32 = 16;
/// The longest time between two scans while a producer is lent that no thread can take.
const LONGEST_DOZE: Duration = Duration::from_millis(100);

/// A cell as the monitor sees it.
pub(crate) trait Watched: Send + Sync {
    fn snapshot(&self) -> CellSnapshot;

    /// Records what the pool's threads did since the last scan. Returns `true` if tasks were given
    /// to the executor since then, or if tasks may be about to starve.
    fn scan(&self) -> bool;

    /// Called before the monitor sleeps: discards what the last scans saw. Returns the reserved
    /// stand-in, if there is one.
    fn rest(&self) -> Option<StandIn>;

    /// Reserves a stand-in for this strategy.
    fn reserve(&self, one: StandIn);

    /// Gives the producer of loan number `loan` to a thread, if none was sent yet. Returns `true`
    /// if a thread was sent now. If `watch` has stopped, this is the last call.
    fn offer(self: Arc<Self>, loan: u64, watch: &Watch) -> bool;

    fn is_over(&self) -> bool;

    /// Returns the pool if a stand-in produces and the tasks that it gives to the pool do not run.
    fn starves(&self) -> Option<ExecutorId>;

    /// Makes a thread of `pool` that waits inside this producer leave it to a stand-in. Returns
    /// `true` if there is such a thread.
    fn send_helper(&self, pool: ExecutorId) -> bool;

    /// Releases the monitor's reference to the strategy after a scan.
    fn release_watch(self: Arc<Self>, watch: &Watch);
}

/// State shared by the strategies and the monitor's thread.
pub(crate) struct Watch {
    monitor_state: MonitorState,
    waker: TickerStop,
    /// Threads that are producing for a strategy of this group.
    drivers: CachePadded<AtomicUsize>,
    cpus: usize,
    quiet: Duration,
    pub(crate) on_call: Arc<StandInPool>,
    /// On its own cache line: the monitor writes it at each scan, while producers read the fields
    /// above for each task.
    own: CachePadded<Own>,
}

/// Data that only the monitor writes, except for new cells.
#[derive(Default)]
struct Own {
    cells: Mutex<Vec<Seen>>,
    scans: AtomicU64,
    sleeps: AtomicU64,
    cpu_nanos: AtomicU64,
}

/// One cell, and what the last scan saw of it.
struct Seen {
    cell: Weak<dyn Watched>,
    last: CellSnapshot,
    /// Number of earlier scans in a row that saw the same.
    same: u32,
}

/// The cells of one scan. Reused to save allocations.
type Cells = Vec<Arc<dyn Watched>>;

impl Watch {
    /// Creates the shared state of a monitor that waits on `ticker`, sleeps after `quiet`, and has
    /// at most `stand_ins` threads, which are started with `threads`.
    pub(super) fn new(
        ticker: &Ticker,
        quiet: Duration,
        threads: ThreadBuilder,
        stand_ins: usize,
    ) -> Self {
        Self {
            monitor_state: MonitorState::new(),
            waker: ticker.stop_handle(),
            drivers: CachePadded::new(AtomicUsize::new(0)),
            cpus: usable_cpus(),
            quiet,
            on_call: Arc::new(StandInPool::new(threads, stand_ins)),
            own: CachePadded::default(),
        }
    }

    pub(crate) fn add(&self, cell: Weak<dyn Watched>) {
        let last = CellSnapshot {
            lent: false,
            coming: PendingHelper::None,
            loans: 0,
        };
        self.lock().push(Seen {
            cell,
            last,
            same: 0,
        });
    }

    /// Wakes the monitor if it sleeps, after a producer was lent. Must be called after the loan.
    #[inline]
    pub(crate) fn lent(&self) -> NotifyResult {
        let rung = self.monitor_state.notify();
        if rung == NotifyResult::Woken {
            self.waker.wake();
        }
        rung
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        !self.monitor_state.is_over()
    }

    /// Like `!is_running`, but in the total order of loans and stops; for a check that is not
    /// repeated.
    pub(crate) fn is_surely_over(&self) -> bool {
        self.monitor_state.is_surely_over()
    }

    /// Returns `true` if the monitor sleeps.
    pub(super) fn is_asleep(&self) -> bool {
        self.monitor_state.is_asleep()
    }

    /// Returns the number of scans.
    pub(super) fn scans(&self) -> u64 {
        self.own.scans.load(Ordering::Relaxed)
    }

    /// Returns how often the monitor has gone to sleep.
    pub(super) fn sleeps(&self) -> u64 {
        self.own.sleeps.load(Ordering::Relaxed)
    }

    /// Returns the CPU time of the monitor's thread, as of one of its last scans.
    pub(super) fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.own.cpu_nanos.load(Ordering::Relaxed))
    }

    /// Stops the monitor. The caller makes the last scan, which gives lent producers to other
    /// threads.
    pub(super) fn shutdown(&self) {
        if self.monitor_state.end() {
            self.waker.stop();
            self.give_away();
        }
    }

    pub(crate) fn driving(&self, begins: bool) {
        if begins {
            self.drivers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.drivers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns how many threads a pool must have free before one of them gets a producer. While
    /// other stand-ins produce (without the caller's, if `own`), one thread has to stay free for
    /// the tasks that they give to the pool.
    pub(crate) fn spare_needed(&self, own: bool) -> usize {
        1 + usize::from(self.on_call.producing() > usize::from(own))
    }

    /// Returns `true` if fewer threads produce in this group than there are processors.
    pub(crate) fn has_idle_cpu(&self) -> bool {
        self.drivers.load(Ordering::Relaxed) < self.cpus
    }

    /// Runs the monitor's thread until it is stopped.
    pub(super) fn run(&self, ticker: &mut Ticker) {
        let mut cells = Cells::new();
        let mut quiet_for = Duration::ZERO;
        // Set while the monitor sleeps although a loan still needs a thread: time slept, and its
        // limit.
        let mut doze: Option<(Duration, Duration)> = None;
        while let Some(passed) = ticker.wait() {
            if !self.is_running() {
                return;
            }
            let dozed = doze.take().filter(|_| self.monitor_state.is_asleep());
            if self.monitor_state.is_asleep() {
                // No producer has woken the monitor: ignore the tick, unless it has slept long
                // enough.
                let slept = dozed.map(|(slept, limit)| (slept.saturating_add(passed), limit));
                match slept {
                    Some((slept, limit)) if slept >= limit => self.monitor_state.wake(),
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
            if self.scan(&mut cells) {
                quiet_for = Duration::ZERO;
                continue;
            }
            quiet_for = quiet_for.saturating_add(passed);
            // If it woke up by its own limit, nothing has changed all the time.
            if quiet_for < self.quiet && dozed.is_none() {
                continue;
            }
            quiet_for = Duration::ZERO;
            match self.fall_asleep(&mut cells) {
                MonitorSleep::No => {}
                MonitorSleep::Yes => ticker.rest(),
                MonitorSleep::WithALoan => {
                    let before = dozed.map_or(Duration::ZERO, |(_, limit)| limit * 2);
                    let limit = before.max(self.quiet).min(LONGEST_DOZE.max(self.quiet));
                    doze = Some((ticker.rest_at_most(Some(limit)), limit));
                }
            }
        }
    }

    /// Scans every cell once. Returns `true` if anything has changed.
    fn scan(&self, cells: &mut Cells) -> bool {
        if self
            .own
            .scans
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(LOOKS_PER_ACCOUNT)
        {
            self.account();
        }
        self.on_call.scan();
        let mut moved = false;
        let mut stuck = Vec::new();
        self.lock().retain_mut(|seen| {
            let Some(cell) = seen.cell.upgrade() else {
                return false;
            };
            let stays = !cell.is_over();
            let now = cell.snapshot();
            moved |= cell.scan();
            moved |= now != seen.last;
            seen.same = if now == seen.last { seen.same + 1 } else { 0 };
            seen.last = now;
            let scans = match now.coming {
                PendingHelper::None => 1,
                PendingHelper::Queued => QUEUED_SCANS,
                PendingHelper::Given => u32::MAX,
            };
            if stays && now.lent && seen.same >= scans {
                stuck.push((Arc::clone(&cell), now.loans));
            }
            cells.push(cell);
            stays
        });
        // Without the lock, because the executor is user code.
        for (cell, loan) in stuck {
            moved |= cell.offer(loan, self);
        }
        for cell in cells.iter() {
            if let Some(pool) = cell.starves() {
                moved |= cells.iter().any(|other| other.send_helper(pool));
            }
        }
        self.release_watch(cells);
        moved
    }

    /// Announces sleep and scans once more; stays awake if anything has changed since the last
    /// scan. A producer that lends later finds the monitor asleep and wakes it.
    fn fall_asleep(&self, cells: &mut Cells) -> MonitorSleep {
        if !self.monitor_state.sleep() {
            return MonitorSleep::No;
        }
        let (mut moved, mut lent) = (false, false);
        for seen in self.lock().iter() {
            let Some(cell) = seen.cell.upgrade() else {
                continue;
            };
            // Before the snapshot: a producer that lends after it finds that it has no stand-in.
            let one = cell.rest();
            let now = cell.snapshot();
            moved |= now != seen.last;
            // A thread that can be relieved may appear later.
            lent |= now.lent || cell.starves().is_some();
            match one {
                Some(one) if now.lent || now != seen.last => cell.reserve(one),
                Some(one) => self.on_call.release(one),
                None => {}
            }
            cells.push(cell);
        }
        self.release_watch(cells);
        if moved {
            self.monitor_state.wake();
            return MonitorSleep::No;
        }
        self.account();
        self.own.sleeps.fetch_add(1, Ordering::Relaxed);
        if lent {
            MonitorSleep::WithALoan
        } else {
            MonitorSleep::Yes
        }
    }

    /// Releases the cells of a scan. Without the lock, because the last reference drops the
    /// strategy.
    fn release_watch(&self, cells: &mut Cells) {
        for cell in cells.drain(..) {
            cell.release_watch(self);
        }
    }

    fn account(&self) {
        let nanos = as_nanos(thread_cpu_time());
        self.own.cpu_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Makes the last scan, on the thread that stops the monitor.
    fn give_away(&self) {
        self.on_call.close();
        let cells: Vec<_> = self.lock().iter().map(|seen| seen.cell.clone()).collect();
        for cell in cells.iter().filter_map(Weak::upgrade) {
            let now = cell.snapshot();
            if now.lent && now.coming != PendingHelper::Given {
                Arc::clone(&cell).offer(now.loans, self);
            } else if let Some(one) = cell.rest() {
                self.on_call.release(one);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        unpoisoned(self.own.cells.lock())
    }
}

/// How an attempt to fall asleep ended.
enum MonitorSleep {
    No,
    Yes,
    /// Asleep, but a producer is lent that no thread takes, or its tasks do not run.
    WithALoan,
}
