//! The monitor's thread: looks at the cell of each strategy once a tick, gives stuck producers away, and
//! sleeps when nothing moves.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::{
    CachePadded, ExecutorId, ThreadBuilder, Ticker, TickerStop, as_nanos, thread_cpu_time,
    usable_cpus,
};

use crate::strategy::raw::{Coming, Glance, Rung, Vigil};

use super::threads::{OnCall, StandIn};

/// Looks between two readings of the monitor's own CPU time.
const LOOKS_PER_ACCOUNT: u64 = 64;
/// Looks at a producer whose helper may wait in a queue, before another one is sent.
const QUEUED_LOOKS: u32 = 16;
/// The longest time between two looks at a producer that nobody comes for.
const LONGEST_DOZE: Duration = Duration::from_millis(100);

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
    pub(crate) on_call: Arc<OnCall>,
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
    /// What a monitor shares that waits on `ticker`, sleeps after `quiet`, and has at most `stand_ins`
    /// threads, started as `threads` says.
    pub(super) fn new(
        ticker: &Ticker,
        quiet: Duration,
        threads: ThreadBuilder,
        stand_ins: usize,
    ) -> Self {
        Self {
            vigil: Vigil::new(),
            waker: ticker.stop_handle(),
            drivers: CachePadded::new(AtomicUsize::new(0)),
            cpus: usable_cpus(),
            quiet,
            on_call: Arc::new(OnCall::new(threads, stand_ins)),
            own: CachePadded::default(),
        }
    }

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

    /// Returns `true` if the monitor sleeps.
    pub(super) fn is_asleep(&self) -> bool {
        self.vigil.is_asleep()
    }

    /// Returns how often the monitor has looked.
    pub(super) fn looks(&self) -> u64 {
        self.own.looks.load(Ordering::Relaxed)
    }

    /// Returns how often the monitor went to sleep.
    pub(super) fn sleeps(&self) -> u64 {
        self.own.sleeps.load(Ordering::Relaxed)
    }

    /// Returns the CPU time of the monitor's thread, as of one of its last looks.
    pub(super) fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.own.cpu_nanos.load(Ordering::Relaxed))
    }

    /// Stops the monitor. The caller has the last look: what lies in a cell is given away.
    pub(super) fn stop(&self) {
        if self.vigil.end() {
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

    /// Threads that a pool must be able to spare before one of them gets a producer: with other
    /// stand-ins about (`own` does not count) one has to stay for what those give to the pool.
    pub(crate) fn spare_needed(&self, own: bool) -> usize {
        1 + usize::from(self.on_call.duties() > usize::from(own))
    }

    /// Whether fewer threads drive this group than there are processors.
    pub(crate) fn has_idle_cpu(&self) -> bool {
        self.drivers.load(Ordering::Relaxed) < self.cpus
    }

    /// Runs the monitor's thread until it is stopped.
    pub(super) fn run(&self, ticker: &mut Ticker) {
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
