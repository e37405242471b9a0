//! Automatic scaling: the number of event loops that get new work follows how busy they are.
//!
//! [`Scaling`] is the policy. Once per window a monitor measures how busy each event loop was. It
//! gives the figures to [`Decide`], which is pure data and returns which event loops to add and
//! which to give up. An event loop that is given up gets no new work, and gives its thread back
//! when it is idle.

use std::time::Duration;

use tidegate_core::Ticker;

use crate::errors::BuildError;

/// When a group adds event loops, and when it gives them up.
///
/// ```
/// use tidegate_loop::{EventLoopGroup, Scaling};
///
/// let group = EventLoopGroup::builder("io").loops(4).scaling(Scaling::between(1, 4)).build()?;
/// assert_eq!(group.active_count(), 4, "all are active until the first window is over");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scaling {
    min: usize,
    pub(super) max: usize,
    pub(super) window: Duration,
    low: f64,
    high: f64,
    step_down: usize,
    step_up: usize,
    consecutive_windows: u32,
    pub(super) ticker: Option<Ticker>,
}

impl Scaling {
    /// Creates a policy with `min` to `max` active event loops; the group must have `max` event
    /// loops.
    pub fn between(min: usize, max: usize) -> Self {
        Self {
            min,
            max,
            window: Duration::from_secs(1),
            low: 0.3,
            high: 0.75,
            step_down: 1,
            step_up: 1,
            consecutive_windows: 2,
            ticker: None,
        }
    }

    /// Sets how long the monitor measures before it decides.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the thresholds, from 0 to 1: an event loop busier than `high` causes another one to be
    /// added, and one less busy than `low` may be given up.
    pub fn thresholds(mut self, low: f64, high: f64) -> Self {
        (self.low, self.high) = (low, high);
        self
    }

    /// Sets the maximum number of event loops that are given up and added in one window.
    pub fn steps(mut self, down: usize, up: usize) -> Self {
        (self.step_down, self.step_up) = (down, up);
        self
    }

    /// Sets for how many windows in a row an event loop may be beyond a threshold before that
    /// counts.
    pub fn consecutive_windows(mut self, windows: u32) -> Self {
        self.consecutive_windows = windows;
        self
    }

    /// Samples at each tick of `ticker` instead of once per window. For tests.
    pub fn ticker(mut self, ticker: Ticker) -> Self {
        self.ticker = Some(ticker);
        self
    }

    pub(crate) fn check(&self, loops: usize) -> Result<(), BuildError> {
        let wrong = if self.max == 0 || self.min > self.max {
            "scaling needs a maximum of at least one loop and a minimum not above it"
        } else if self.max != loops {
            "scaling's maximum must be the number of loops of the group"
        } else if !(0.0..=1.0).contains(&self.low)
            || !(0.0..=1.0).contains(&self.high)
            || self.low >= self.high
        {
            "scaling's thresholds must lie between 0 and 1, the low one below the high one"
        } else if self.window.is_zero() {
            "scaling's window must be longer than zero"
        } else if self.step_down == 0 || self.step_up == 0 {
            "scaling's steps must be at least one loop"
        } else {
            return Ok(());
        };
        Err(BuildError::BadScaling(wrong))
    }
}

/// The sample of one event loop in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The fraction of the window in which the event loop was busy.
    pub(crate) busy: f64,
    /// `true` if nothing keeps the event loop from giving its thread back.
    pub(crate) idle: bool,
    /// `true` if the event loop shuts down or has ended: it cannot be active.
    pub(crate) ended: bool,
}

/// The decision of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) add: Vec<usize>,
    pub(crate) give_up: Vec<usize>,
}

/// Decides which event loops to add and to give up. Pure data, without threads or clocks.
#[derive(Debug)]
pub(crate) struct Decide {
    min: usize,
    low: f64,
    high: f64,
    step_down: usize,
    step_up: usize,
    consecutive_windows: u32,
    pub(super) active: Vec<bool>,
    /// For each event loop: windows in a row below the low threshold, and above the high threshold.
    streaks: Vec<(u32, u32)>,
}

impl Decide {
    pub(crate) fn new(scaling: &Scaling) -> Self {
        Self {
            min: scaling.min,
            low: scaling.low,
            high: scaling.high,
            step_down: scaling.step_down,
            step_up: scaling.step_up,
            consecutive_windows: scaling.consecutive_windows,
            active: vec![true; scaling.max],
            streaks: vec![(0, 0); scaling.max],
        }
    }

    /// Decides for one window. Adding takes precedence over giving up.
    pub(crate) fn window(&mut self, samples: &[Sample]) -> Change {
        for (at, sample) in samples.iter().enumerate() {
            self.active[at] &= !sample.ended;
            let streak = &mut self.streaks[at];
            *streak = if !self.active[at] {
                (0, 0)
            } else if sample.busy < self.low {
                (streak.0 + 1, 0)
            } else if sample.busy > self.high {
                (0, streak.1 + 1)
            } else {
                (0, 0)
            };
        }
        let is_overloaded =
            |at: &usize| self.active[*at] && self.streaks[*at].1 > self.consecutive_windows;
        let overloaded = (0..samples.len()).filter(is_overloaded).count();
        let mut change = Change::default();
        // Fewer than the minimum are active if others have ended.
        let missing = self.min.saturating_sub(self.count());
        let wanted = overloaded.min(self.step_up).max(missing);
        if wanted > 0 {
            let asleep = (0..samples.len()).filter(|&at| !self.active[at] && !samples[at].ended);
            change.add = asleep.take(wanted).collect();
        }
        if change.add.is_empty() && overloaded == 0 {
            let spare = self.count().saturating_sub(self.min).min(self.step_down);
            let bored = |at: &usize| {
                self.active[*at]
                    && self.streaks[*at].0 > self.consecutive_windows
                    && samples[*at].idle
            };
            change.give_up = (0..samples.len()).rev().filter(bored).take(spare).collect();
        }
        for &at in &change.add {
            self.active[at] = true;
            self.streaks[at] = (0, 0);
        }
        for &at in &change.give_up {
            self.active[at] = false;
            self.streaks[at] = (0, 0);
        }
        change
    }

    pub(crate) fn count(&self) -> usize {
        self.snapshot().len()
    }

    pub(super) fn snapshot(&self) -> Vec<usize> {
        let mut all = Vec::new();
        for (at, active) in self.active.iter().enumerate() {
            if *active {
                all.push(at);
            }
        }
        all
    }

    /// Marks an event loop as active again, because it got work although it was given up.
    pub(super) fn revive(&mut self, at: usize) {
        self.active[at] = true;
        self.streaks[at] = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    //! Which event loops a window adds, and which it gives up.

    use super::*;

    fn decide(min: usize, max: usize, consecutive_windows: u32) -> Decide {
        Decide::new(&Scaling::between(min, max).consecutive_windows(consecutive_windows))
    }

    fn samples(busy: &[f64]) -> Vec<Sample> {
        busy.iter()
            .map(|&busy| Sample {
                busy,
                idle: true,
                ended: false,
            })
            .collect()
    }

    #[test]
    fn idle_loops_are_given_up_one_a_window_down_to_the_minimum() {
        let mut decide = decide(1, 3, 0);
        let idle = samples(&[0.0; 3]);
        assert_eq!(decide.window(&idle).give_up, [2]);
        assert_eq!(decide.window(&idle).give_up, [1]);
        assert_eq!(decide.window(&idle), Change::default());
        assert_eq!(decide.count(), 1);
    }

    #[test]
    fn patience_wants_a_streak_and_a_middling_window_breaks_it() {
        let mut decide = decide(0, 2, 2);
        let (idle, middling) = (samples(&[0.0; 2]), samples(&[0.5; 2]));
        assert_eq!(decide.window(&idle), Change::default());
        assert_eq!(decide.window(&idle), Change::default());
        assert_eq!(decide.window(&middling), Change::default());
        assert_eq!(decide.window(&idle), Change::default());
        assert_eq!(decide.window(&idle), Change::default());
        assert_eq!(decide.window(&idle).give_up, [1]);
    }

    #[test]
    fn busy_loops_bring_others_back_and_that_comes_first() {
        let mut decide = decide(1, 3, 0);
        let idle = samples(&[0.0; 3]);
        decide.window(&idle);
        decide.window(&idle);
        let change = decide.window(&samples(&[0.9, 0.0, 0.0]));
        assert_eq!((change.add, change.give_up), (vec![1], vec![]));
        assert_eq!(decide.snapshot(), [0, 1]);
    }

    #[test]
    fn a_loop_with_something_to_keep_is_not_given_up() {
        let mut decide = decide(0, 1, 0);
        let held = [Sample {
            busy: 0.0,
            idle: false,
            ended: false,
        }];
        assert_eq!(decide.window(&held), Change::default());
    }

    #[test]
    fn a_loop_that_has_ended_is_not_active_and_not_added() {
        let mut decide = decide(1, 3, 0);
        let mut samples = samples(&[0.9, 0.5, 0.5]);
        samples[1].ended = true;
        assert_eq!(decide.window(&samples), Change::default());
        assert_eq!(decide.snapshot(), [0, 2]);
        // A loop that was given up takes the place of one that has ended.
        let mut decide = Decide::new(&Scaling::between(2, 3).consecutive_windows(0));
        samples[0].busy = 0.5;
        samples[1] = samples[2];
        (samples[2].busy, samples[2].idle) = (0.0, true);
        assert_eq!(decide.window(&samples).give_up, [2]);
        samples[0].ended = true;
        assert_eq!(decide.window(&samples).add, [2]);
        assert_eq!(decide.snapshot(), [1, 2]);
    }

    #[test]
    fn steps_bound_a_window() {
        let mut decide = Decide::new(&Scaling::between(0, 4).consecutive_windows(0).steps(3, 2));
        assert_eq!(decide.window(&samples(&[0.0; 4])).give_up, [3, 2, 1]);
        let change = decide.window(&samples(&[0.9, 0.0, 0.0, 0.0]));
        assert_eq!(change.add, [1], "one busy loop requests one more");
    }

    #[test]
    fn contradictions_are_errors() {
        for bad in [
            Scaling::between(2, 1),
            Scaling::between(0, 0),
            Scaling::between(0, 2).thresholds(0.8, 0.2),
            Scaling::between(0, 2).thresholds(0.1, 1.5),
            Scaling::between(0, 2).window(Duration::ZERO),
            Scaling::between(0, 2).steps(0, 1),
        ] {
            let loops = bad.max.max(1);
            assert!(bad.check(loops).is_err());
        }
        assert!(Scaling::between(0, 2).check(3).is_err());
        assert!(Scaling::between(0, 2).check(2).is_ok());
    }
}
