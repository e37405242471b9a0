//! The settings of adaptive limits: the number of concurrent calls is derived from their latency.
//!
//! The defaults are those of Netflix's concurrency-limits, except that windows are shorter and a limit
//! may fall to one.

use std::time::Duration;

use crate::error::ConfigError;
use crate::key::Key;

/// An adaptive limit: the algorithm, and how its samples are collected. [`vegas`](Self::vegas) is the
/// one to start with.
///
/// Samples are the latencies of calls that succeed, and of calls that time out, which count as
/// dropped. How fast a call fails says nothing about the room of its dependency.
///
/// ```
/// use tidegate_isolate::{AdaptiveLimit, LimitAlgorithm};
///
/// let limit = AdaptiveLimit::vegas();
/// assert!(matches!(limit.algorithm, LimitAlgorithm::Vegas { .. }));
/// assert!(limit.validate(&"prices".into()).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveLimit {
    /// How the next limit is computed from a sample.
    pub algorithm: LimitAlgorithm,
    /// The initial limit.
    pub initial: usize,
    /// The lowest limit.
    pub min: usize,
    /// The highest limit.
    pub max: usize,
    /// How samples are collected; `None` passes each call to the algorithm.
    pub window: Option<SampleWindow>,
}

/// How the next limit is computed from a window.
///
/// Vegas and Gradient2 compare the latency with that of calls that do not queue in the dependency.
/// While the limit is in use, that latency is measured from time to time: for a window or two, half as
/// many calls are let through, and half of the half if that makes them faster.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LimitAlgorithm {
    /// Adds one while calls are fast, and multiplies by `backoff` when a call is dropped or slow. Sees
    /// no queue: for a dependency whose calls time out soon when there are too many.
    Aimd {
        /// The factor that is applied to the limit after a drop.
        backoff: f64,
        /// A call that takes longer counts as dropped.
        timeout: Duration,
    },
    /// Estimates by the latency how many calls queue, and keeps that number between three and six, or
    /// more by the decimal logarithm of the limit.
    Vegas {
        /// The share of a change that is applied at once, from 0 to 1.
        smoothing: f64,
        /// The number of windows per permit after which the latency is measured anew.
        probe_multiplier: u32,
    },
    /// Tolerates a latency that grows by a factor. It settles higher than Vegas, so calls wait longer in the
    /// dependency.
    Gradient2 {
        /// How many times longer the latency may be before the limit falls.
        tolerance: f64,
        /// The number of calls that may queue.
        queue: usize,
        /// The share of a change that is applied at once, from 0 to 1.
        smoothing: f64,
        /// The number of windows after which the latency is measured anew.
        long_window: u32,
    },
}

/// Combines the samples of a time window into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleWindow {
    /// The shortest length of the window. It is longer while calls take longer.
    pub length: Duration,
    /// The smallest number of samples that is evaluated.
    pub min_samples: u64,
    /// Shorter latencies are ignored, such as those of calls that never reach the dependency. If there are
    /// no others, or too few for ten seconds, each of them counts as this latency.
    pub min_latency: Duration,
}

impl SampleWindow {
    /// Each call is a window.
    pub(super) const EACH_CALL: Self = Self {
        length: Duration::ZERO,
        min_samples: 1,
        min_latency: Duration::ZERO,
    };
}

impl Default for SampleWindow {
    fn default() -> Self {
        Self {
            length: Duration::from_millis(250),
            min_samples: 10,
            min_latency: Duration::from_micros(100),
        }
    }
}

impl AdaptiveLimit {
    /// Creates an AIMD limit (additive increase, multiplicative decrease) with the usual settings.
    pub fn aimd() -> Self {
        Self {
            algorithm: LimitAlgorithm::Aimd {
                backoff: 0.9,
                timeout: Duration::from_secs(5),
            },
            initial: 20,
            min: 1,
            max: 200,
            window: Some(SampleWindow::default()),
        }
    }

    /// Creates a limit modelled on TCP Vegas, with the usual settings.
    pub fn vegas() -> Self {
        Self {
            algorithm: LimitAlgorithm::Vegas {
                smoothing: 1.0,
                probe_multiplier: 30,
            },
            initial: 20,
            min: 1,
            max: 1000,
            window: Some(SampleWindow::default()),
        }
    }

    /// Creates a limit that follows the gradient of the latency, with the usual settings.
    pub fn gradient2() -> Self {
        Self {
            algorithm: LimitAlgorithm::Gradient2 {
                tolerance: 1.5,
                queue: 4,
                smoothing: 0.2,
                long_window: 600,
            },
            initial: 20,
            min: 1,
            max: 200,
            window: Some(SampleWindow::default()),
        }
    }

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    ///
    /// Returns which setting is invalid, and why.
    pub fn validate(&self, key: &Key) -> Result<(), ConfigError> {
        let Self {
            initial, min, max, ..
        } = *self;
        if min == 0 {
            return Err(ConfigError::new(
                key,
                "limit.min",
                0,
                "nothing would ever pass",
            ));
        }
        if !(min..=max).contains(&initial) {
            let reason = format!("it must lie between the lowest, {min}, and the highest, {max}");
            return Err(ConfigError::new(key, "limit.initial", initial, reason));
        }
        let share = |property: &str, value: f64| match value {
            0.0..=1.0 => Ok(()),
            _ => Err(ConfigError::new(key, property, value, "give 0 to 1")),
        };
        let positive = |property: &str, value: u32| match value {
            0 => Err(ConfigError::new(key, property, 0, "give 1 or more")),
            _ => Ok(()),
        };
        match self.algorithm {
            LimitAlgorithm::Aimd { backoff, .. } => share("limit.backoff", backoff),
            LimitAlgorithm::Vegas {
                smoothing,
                probe_multiplier,
            } => {
                share("limit.smoothing", smoothing)?;
                positive("limit.probe_multiplier", probe_multiplier)
            }
            LimitAlgorithm::Gradient2 {
                smoothing,
                tolerance,
                long_window,
                ..
            } => {
                share("limit.smoothing", smoothing)?;
                positive("limit.long_window", long_window)?;
                if tolerance >= 1.0 && tolerance.is_finite() {
                    return Ok(());
                }
                let reason = "give 1.0 or more";
                Err(ConfigError::new(key, "limit.tolerance", tolerance, reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Settings that make no sense are refused.

    use super::*;

    #[test]
    fn bounds_that_contradict_each_other_are_refused() {
        let key = Key::from("dep");
        for (limit, property) in [
            (
                AdaptiveLimit {
                    min: 0,
                    ..AdaptiveLimit::aimd()
                },
                "limit.min",
            ),
            (
                AdaptiveLimit {
                    min: 20,
                    initial: 5,
                    ..AdaptiveLimit::aimd()
                },
                "limit.initial",
            ),
            (
                AdaptiveLimit {
                    max: 10,
                    ..AdaptiveLimit::vegas()
                },
                "limit.initial",
            ),
        ] {
            assert_eq!(limit.validate(&key).unwrap_err().property(), property);
        }
        let steep = LimitAlgorithm::Aimd {
            backoff: 1.5,
            timeout: Duration::from_secs(1),
        };
        let never = LimitAlgorithm::Vegas {
            smoothing: 1.0,
            probe_multiplier: 0,
        };
        let forgetful = LimitAlgorithm::Gradient2 {
            tolerance: 1.5,
            queue: 4,
            smoothing: 0.2,
            long_window: 0,
        };
        for (algorithm, property) in [
            (steep, "limit.backoff"),
            (never, "limit.probe_multiplier"),
            (forgetful, "limit.long_window"),
        ] {
            let limit = AdaptiveLimit {
                algorithm,
                ..AdaptiveLimit::aimd()
            };
            assert_eq!(limit.validate(&key).unwrap_err().property(), property);
        }
    }
}
