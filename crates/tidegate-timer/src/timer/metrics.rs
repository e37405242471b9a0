//! [`TimerMetrics`], the counters of a timer.

use std::fmt;
use std::time::Duration;

/// The counters of a [`WheelTimer`](crate::WheelTimer).
///
/// # Examples
///
/// ```
/// let metrics = tidegate_timer::WheelTimer::new().metrics();
/// assert_eq!((metrics.pending, metrics.fired), (0, 0));
/// assert!(metrics.to_string().starts_with("timeouts  0 pending"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerMetrics {
    /// Timeouts that have neither expired nor been cancelled.
    pub pending: usize,
    /// Timeouts that expired.
    pub fired: u64,
    /// Timeouts that were cancelled before they expired.
    pub cancelled: u64,
    /// Timeouts that were rejected because too many were pending.
    pub refused: u64,
    /// Tasks and hooks that panicked.
    pub panicked: u64,
    /// Tasks that ran on the timer's thread because their executor rejected them.
    pub fell_back: u64,
    /// How often the timer's thread woke up.
    pub wakeups: u64,
    /// The longest run time of a task on the timer's thread.
    pub longest_task: Duration,
}

/// One line for each subject.
impl fmt::Display for TimerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "timeouts  {} pending, {} expired, {} cancelled, {} refused",
            self.pending, self.fired, self.cancelled, self.refused,
        )?;
        writeln!(
            f,
            "tasks     {} panicked, {} ran on the timer's thread instead, longest {:?}",
            self.panicked, self.fell_back, self.longest_task,
        )?;
        write!(f, "thread    {} wake-ups", self.wakeups)
    }
}

#[cfg(test)]
mod tests {
    //! The text of a snapshot.

    use super::*;

    #[test]
    fn prints_one_aligned_line_for_each_subject() {
        let metrics = TimerMetrics {
            pending: 1,
            fired: 3,
            cancelled: 4,
            refused: 5,
            panicked: 6,
            fell_back: 7,
            wakeups: 8,
            longest_task: Duration::from_micros(1_500),
        };
        let expected = "\
timeouts  1 pending, 3 expired, 4 cancelled, 5 refused
tasks     6 panicked, 7 ran on the timer's thread instead, longest 1.5ms
thread    8 wake-ups";
        assert_eq!(metrics.to_string(), expected);
    }
}
