//! [`TimerMetrics`], and its description for an exporter.

use std::fmt;
use std::time::Duration;

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::wheel_timer::WheelTimer;

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

/// The metrics of the timer. The label `timer` is its name.
impl Collect for WheelTimer {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metrics = self.metrics();
        let labels = [("timer", self.name())];
        for (name, help, value) in [
            (
                "tidegate_timer_fired",
                "Timeouts that expired.",
                metrics.fired,
            ),
            (
                "tidegate_timer_cancelled",
                "Timeouts that were cancelled before they expired.",
                metrics.cancelled,
            ),
            (
                "tidegate_timer_refused",
                "Timeouts refused because too many were pending.",
                metrics.refused,
            ),
            (
                "tidegate_timer_panics",
                "Tasks and hooks that panicked.",
                metrics.panicked,
            ),
            (
                "tidegate_timer_tasks_moved",
                "Tasks that ran on the timer's thread because their executor refused them.",
                metrics.fell_back,
            ),
            (
                "tidegate_timer_wakeups",
                "Times that the timer's thread woke up.",
                metrics.wakeups,
            ),
        ] {
            visitor.counter(Metric::new(name, help), &labels, value as f64);
        }
        let help = "Timeouts that have neither expired nor been cancelled.";
        let pending = Metric::new("tidegate_timer_pending", help);
        visitor.gauge(pending, &labels, metrics.pending as f64);
        let help = "Longest run of a task on the timer's thread.";
        let longest = Metric::new("tidegate_timer_task_max", help).seconds();
        visitor.gauge(longest, &labels, metrics.longest_task.as_secs_f64());
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
