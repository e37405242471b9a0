//! When a periodic task runs again, the policies for missed runs, and why a task is not scheduled
//! periodically.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tidegate_core::internal::as_nanos;
use tidegate_core::{RejectReason, Rejected};

/// What a fixed-rate task does about runs that it missed while its executor was busy.
///
/// ```
/// use tidegate_pool::Missed;
///
/// assert_eq!(Missed::default(), Missed::Burst);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// Makes up for them, back to back. Other timers that are due run in between.
    #[default]
    Burst,
    /// Skips them and keeps the original schedule.
    Skip,
    /// Starts a new schedule from the late run.
    Delay,
}

/// Why a periodic task was not scheduled.
///
/// ```
/// use std::time::Duration;
/// use tidegate_pool::{PeriodError, WorkerPool};
///
/// let pool = WorkerPool::builder("workers").build()?;
/// let refused = pool.schedule_at_fixed_rate(Duration::ZERO, Duration::ZERO, || ());
/// assert_eq!(refused.unwrap_err(), PeriodError::Zero);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeriodError {
    /// The period is zero: the task would run without end.
    Zero,
    /// The executor is shutting down.
    Closed,
    /// No thread could be started for the executor or for its timers.
    NoThread,
}

impl fmt::Display for PeriodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => {
                f.write_str("a period of zero would run without end; give it at least 1 ns")
            }
            Self::Closed => f.write_str("the executor is shutting down; schedule on another one"),
            Self::NoThread => f.write_str(
                "no thread could be started for the timer; try again when the system has \
                 room",
            ),
        }
    }
}

impl Error for PeriodError {}

tidegate_core::debug_as_display!(PeriodError);

impl<F> From<Rejected<F>> for PeriodError {
    /// Converts the refusal of a closure. Drops the closure.
    fn from(refused: Rejected<F>) -> Self {
        match refused.why() {
            RejectReason::NoThread => Self::NoThread,
            _ => Self::Closed,
        }
    }
}

/// The rule for when a periodic task runs again.
#[derive(Clone, Copy, Debug)]
pub struct Period {
    every: Every,
}

#[derive(Clone, Copy, Debug)]
enum Every {
    Rate { period: u64, missed: Missed },
    Delay { pause: u64 },
}

impl Period {
    /// Creates the rule of a task that runs every `period`, measured from start to start.
    ///
    /// # Errors
    ///
    /// [`PeriodError::Zero`] if the period is zero.
    pub fn rate(period: Duration, missed: Missed) -> Result<Self, PeriodError> {
        let period = not_zero(period)?;
        Ok(Self {
            every: Every::Rate { period, missed },
        })
    }

    /// Creates the rule of a task that runs again `pause` after the end of each run.
    ///
    /// # Errors
    ///
    /// [`PeriodError::Zero`] if the pause is zero.
    pub fn delay(pause: Duration) -> Result<Self, PeriodError> {
        let pause = not_zero(pause)?;
        Ok(Self {
            every: Every::Delay { pause },
        })
    }

    /// Returns the next deadline, after a run that was due at `deadline` and ended at `now`.
    pub(super) fn next(self, deadline: u64, now: u64) -> u64 {
        match self.every {
            Every::Delay { pause } => now.saturating_add(pause),
            Every::Rate { period, missed } => {
                let next = deadline.saturating_add(period);
                match missed {
                    Missed::Burst => next,
                    _ if next > now => next,
                    Missed::Skip => {
                        let missed = (now - deadline) / period;
                        deadline.saturating_add(period.saturating_mul(missed + 1))
                    }
                    Missed::Delay => now.saturating_add(period),
                }
            }
        }
    }
}

fn not_zero(period: Duration) -> Result<u64, PeriodError> {
    match as_nanos(period) {
        0 => Err(PeriodError::Zero),
        nanos => Ok(nanos),
    }
}
