//! When a periodic task runs again, and the policies for missed runs.

use std::time::Duration;

use tidegate_core::internal::as_nanos;

/// What a fixed-rate task does about runs that it missed while its event loop was busy.
///
/// ```
/// use tidegate_loop::Missed;
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

/// The rule for when a periodic task runs again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Period {
    Rate { period: u64, missed: Missed },
    Delay { pause: u64 },
}

impl Period {
    /// Returns the next deadline, after a run that was due at `deadline` and ended at `now`.
    pub(super) fn next(self, deadline: u64, now: u64) -> u64 {
        match self {
            Self::Delay { pause } => now.saturating_add(pause),
            Self::Rate { period, missed } => {
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

    pub(crate) fn rate(period: Duration, missed: Missed) -> Self {
        Self::Rate {
            period: as_nanos(period),
            missed,
        }
    }

    pub(crate) fn delay(pause: Duration) -> Self {
        Self::Delay {
            pause: as_nanos(pause),
        }
    }
}
