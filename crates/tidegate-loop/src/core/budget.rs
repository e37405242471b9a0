//! The limits of a turn, by number of tasks and by time.
//!
//! The budget needs one clock read per stride of tasks, not one per task. A stride is at most
//! [`LOOK`] tasks. It is halved if it took more than a quarter of the time, down to `LEAST`, and
//! doubled again if it took less than a sixteenth. So a turn exceeds its time by only a fraction of
//! it, unless a few tasks alone take longer.

use std::time::Duration;

use tidegate_core::internal::as_nanos;

/// The maximum number of tasks of one kind in one turn.
pub(super) const BUDGET: usize = 256;
/// The maximum number of tasks between two clock reads.
pub(super) const LOOK: u32 = 64;
/// The minimum number of tasks between two clock reads.
const LEAST: u32 = 4;

/// How long one turn of an event loop may spend on timers, on tasks and on I/O before the other
/// kinds of work run. Work that is left waits for the next turn.
///
/// The clock is read once per stride of 4 to 64 tasks, so a turn may take somewhat longer. A turn
/// runs at least one stride of each kind, if so many tasks wait, however small the budget is.
///
/// ```
/// use std::time::Duration;
/// use tidegate_loop::{EventLoop, TurnBudget};
///
/// let budget = TurnBudget { tasks: Duration::from_millis(2), ..TurnBudget::default() };
/// let home = EventLoop::builder("home").turn_budget(budget).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnBudget {
    /// The time for timers and timeouts that are due.
    pub timers: Duration,
    /// The time for submitted tasks.
    pub tasks: Duration,
    /// The time for the driver's tasks: sockets that are ready.
    pub io: Duration,
}

impl TurnBudget {
    /// The default: 10 ms for each kind of work.
    pub const DEFAULT: Self = Self {
        timers: Duration::from_millis(10),
        tasks: Duration::from_millis(10),
        io: Duration::from_millis(10),
    };
}

impl Default for TurnBudget {
    /// Returns [`TurnBudget::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A [`TurnBudget`] in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(super) timers: u64,
    pub(super) tasks: u64,
    pub(super) io: u64,
}

impl From<TurnBudget> for Spans {
    fn from(budget: TurnBudget) -> Self {
        Self {
            timers: as_nanos(budget.timers),
            tasks: as_nanos(budget.tasks),
            io: as_nanos(budget.io),
        }
    }
}

/// The progress of one kind of work within its time.
#[derive(Debug)]
pub(super) struct BudgetTimer {
    /// Tasks until the next clock read.
    left: u32,
    /// Tasks between two clock reads. The value is kept for the next kind of work and the next
    /// turn.
    stride: u32,
    checked_at: u64,
    began: u64,
    budget: u64,
}

impl BudgetTimer {
    pub(super) fn new() -> Self {
        Self {
            left: LOOK,
            stride: LOOK,
            checked_at: 0,
            began: 0,
            budget: 0,
        }
    }

    /// Begins a kind of work that may take `budget` nanoseconds from `now`.
    #[inline]
    pub(super) fn begin(&mut self, now: u64, budget: u64) {
        self.began = now;
        self.checked_at = now;
        self.budget = budget;
        self.left = self.stride;
    }

    /// Returns how many tasks may run until the next clock read. `anew` is `true` if `begin` was
    /// not yet called for the next kind of work, which then starts with a whole stride.
    #[inline]
    pub(super) fn left(&self, anew: bool) -> usize {
        (if anew { self.stride } else { self.left }) as usize
    }

    /// Counts one task that has run. Returns `true` if the clock has to be read.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        self.steps(1)
    }

    /// Counts `several` tasks that have run. Returns `true` if the clock has to be read.
    #[inline]
    pub(super) fn steps(&mut self, several: usize) -> bool {
        self.left = self.left.saturating_sub(several as u32);
        self.left == 0
    }

    /// Takes a clock reading. Returns `true` if the time is used up. If the last stride took much
    /// of the time, halves the stride; if it took little, doubles it.
    pub(super) fn check(&mut self, now: u64) -> bool {
        let took = now.saturating_sub(self.checked_at);
        self.checked_at = now;
        if took > self.budget / 4 {
            self.stride = (self.stride / 2).max(LEAST);
        } else if took < self.budget / 16 {
            self.stride = (self.stride * 2).min(LOOK);
        }
        self.left = self.stride;
        now.saturating_sub(self.began) >= self.budget
    }
}
