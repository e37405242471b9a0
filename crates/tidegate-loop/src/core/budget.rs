//! How long a turn may take: by number, and by time looked at now and then.
//!
//! A clock is read once for a stretch of tasks, never for each of them. A stretch is [`LOOK`] tasks,
//! and less where tasks turn out to be slow, so that a turn goes over its time by a part of it.

use std::time::Duration;

use tidegate_core::as_nanos;

/// How long a turn spends on each kind of work when nothing is said.
pub const DEFAULT_TURN_BUDGET: Duration = Duration::from_millis(10);
/// Tasks of one kind in one turn.
pub(super) const BUDGET: usize = 256;
/// Tasks between two looks at the clock.
pub(super) const LOOK: u32 = 64;
/// Tasks between two looks at the clock at least.
const LEAST: u32 = 4;

/// How long one turn of a loop may spend on timers, on tasks and on I/O before the others have their
/// turn. What is left over waits for the next turn.
///
/// The clock is looked at once in many tasks, so a turn may take somewhat longer; and it runs a few
/// of each kind however small the budget.
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
    /// For timers and timeouts that are due.
    pub timers: Duration,
    /// For submitted tasks.
    pub tasks: Duration,
    /// For what the driver has found: sockets that are ready.
    pub io: Duration,
}

impl Default for TurnBudget {
    /// [`DEFAULT_TURN_BUDGET`] for each.
    fn default() -> Self {
        Self {
            timers: DEFAULT_TURN_BUDGET,
            tasks: DEFAULT_TURN_BUDGET,
            io: DEFAULT_TURN_BUDGET,
        }
    }
}

/// A budget in nanoseconds, as turns use it.
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

/// Where one kind of work stands within its time.
#[derive(Debug)]
pub(super) struct Pace {
    /// Tasks until the next look at the clock.
    left: u32,
    /// Tasks between two of them.
    stride: u32,
    looked: u64,
    began: u64,
    budget: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            left: LOOK,
            stride: LOOK,
            looked: 0,
            began: 0,
            budget: 0,
        }
    }

    /// A kind of work begins that may take `budget` from `now`.
    #[inline]
    pub(super) fn begin(&mut self, now: u64, budget: u64) {
        self.began = now;
        self.looked = now;
        self.budget = budget;
        self.left = self.stride;
    }

    /// How many may run until then; `anew` if a kind of work is about to begin.
    #[inline]
    pub(super) fn left(&self, anew: bool) -> usize {
        (if anew { self.stride } else { self.left }) as usize
    }

    /// One more has run; true if the clock has to be looked at.
    #[inline]
    pub(super) fn step(&mut self) -> bool {
        self.steps(1)
    }

    /// So many more have run.
    #[inline]
    pub(super) fn steps(&mut self, several: usize) -> bool {
        self.left = self.left.saturating_sub(several as u32);
        self.left == 0
    }

    /// Looks: true if the time is over. A stretch that takes much of it makes the next ones shorter.
    pub(super) fn look(&mut self, now: u64) -> bool {
        let took = now.saturating_sub(self.looked);
        self.looked = now;
        if took > self.budget / 4 {
            self.stride = (self.stride / 2).max(LEAST);
        } else if took < self.budget / 16 {
            self.stride = (self.stride * 2).min(LOOK);
        }
        self.left = self.stride;
        now.saturating_sub(self.began) >= self.budget
    }
}
