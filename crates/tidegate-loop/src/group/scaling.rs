//! Auto-scaling: how many loops of a group get new work, by how busy they are.
//!
//! [`Scaling`] is the policy. Once a window a monitor looks at how busy each loop was and gives
//! the figures to [`Decide`], which is pure data and says which loops to add and which to give
//! up. A loop that is given up gets no new work and gives its thread back when it is idle.

use std::time::Duration;

use tidegate_core::Ticker;

use crate::errors::BuildError;

/// When a group adds loops and when it gives them up.
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
    patience: u32,
    pub(super) ticker: Option<Ticker>,
}

impl Scaling {
    /// Between `min` and `max` active loops; the group must have `max` loops.
    pub fn between(min: usize, max: usize) -> Self {
        Self {
            min,
            max,
            window: Duration::from_secs(1),
            low: 0.3,
            high: 0.75,
            step_down: 1,
            step_up: 1,
            patience: 2,
            ticker: None,
        }
    }

    /// How long the monitor watches before it decides.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// A loop busier than `high` asks for help, one less busy than `low` may go; from 0 to 1.
    pub fn thresholds(mut self, low: f64, high: f64) -> Self {
        (self.low, self.high) = (low, high);
        self
    }

    /// The most loops that are given up and added in one window.
    pub fn steps(mut self, down: usize, up: usize) -> Self {
        (self.step_down, self.step_up) = (down, up);
        self
    }

    /// For how many windows in a row a loop must be beyond a threshold before that counts.
    pub fn patience(mut self, windows: u32) -> Self {
        self.patience = windows;
        self
    }

    /// Looks at each tick of `ticker` instead of once a window: for tests.
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

/// One loop in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Share of the window in which it was busy.
    pub(crate) busy: f64,
    /// It has nothing that keeps it from giving its thread back.
    pub(crate) idle: bool,
}

/// What a window came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) add: Vec<usize>,
    pub(crate) give_up: Vec<usize>,
}

/// The decision, as pure data.
#[derive(Debug)]
pub(crate) struct Decide {
    min: usize,
    low: f64,
    high: f64,
    step_down: usize,
    step_up: usize,
    patience: u32,
    pub(super) active: Vec<bool>,
    /// Windows in a row below the low threshold, and above the high one.
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
            patience: scaling.patience,
            active: vec![true; scaling.max],
            streaks: vec![(0, 0); scaling.max],
        }
    }

    /// Looks at one window. Adding takes precedence over giving up.
    pub(crate) fn window(&mut self, samples: &[Sample]) -> Change {
        for (at, sample) in samples.iter().enumerate() {
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
        let pressed = |at: &usize| self.active[*at] && self.streaks[*at].1 > self.patience;
        let pressed = (0..samples.len()).filter(pressed).count();
        let mut change = Change::default();
        if pressed > 0 {
            let asleep = (0..samples.len()).filter(|&at| !self.active[at]);
            change.add = asleep.take(pressed.min(self.step_up)).collect();
        }
        if change.add.is_empty() && pressed == 0 {
            let spare = self.count().saturating_sub(self.min).min(self.step_down);
            let bored = |at: &usize| {
                self.active[*at] && self.streaks[*at].0 > self.patience && samples[*at].idle
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
        self.active.iter().filter(|&&active| active).count()
    }

    pub(super) fn snapshot(&self) -> Vec<usize> {
        let active = self.active.iter().enumerate();
        active
            .filter(|(_, active)| **active)
            .map(|(at, _)| at)
            .collect()
    }

    /// A loop that got work although it was given up is active again.
    pub(super) fn revive(&mut self, at: usize) {
        self.active[at] = true;
        self.streaks[at] = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    //! Whom a window adds and whom it gives up.

    use super::*;

    fn decide(min: usize, max: usize, patience: u32) -> Decide {
        Decide::new(&Scaling::between(min, max).patience(patience))
    }

    fn samples(busy: &[f64]) -> Vec<Sample> {
        busy.iter()
            .map(|&busy| Sample { busy, idle: true })
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
        }];
        assert_eq!(decide.window(&held), Change::default());
    }

    #[test]
    fn steps_bound_a_window() {
        let mut decide = Decide::new(&Scaling::between(0, 4).patience(0).steps(3, 2));
        assert_eq!(decide.window(&samples(&[0.0; 4])).give_up, [3, 2, 1]);
        let change = decide.window(&samples(&[0.9, 0.0, 0.0, 0.0]));
        assert_eq!(change.add, [1], "one pressed loop asks for one");
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
