//! Adaptive limits: the number of concurrent calls is derived from their latency.
//!
//! The algorithms are pure data: they take a sample and return a limit. Formulas and defaults are
//! those of Netflix's concurrency-limits.

use std::time::Duration;

use tidegate_core::internal::as_nanos;

use crate::error::ConfigError;
use crate::key::Key;

/// An adaptive limit: the algorithm, and how its samples are collected.
///
/// ```
/// use tidegate_isolate::{AdaptiveLimit, LimitAlgorithm};
///
/// let limit = AdaptiveLimit::gradient2();
/// assert!(matches!(limit.algorithm, LimitAlgorithm::Gradient2 { .. }));
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

/// How the next limit is computed from a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LimitAlgorithm {
    /// Adds one while calls are fast, and multiplies by `backoff` when a call is dropped or slow.
    Aimd {
        /// The factor that is applied to the limit after a drop.
        backoff: f64,
        /// A call that takes longer counts as dropped.
        timeout: Duration,
    },
    /// Estimates the queue from the shortest latency seen.
    Vegas {
        /// The share of a change that is applied at once, from 0 to 1.
        smoothing: f64,
        /// The number of samples per permit after which the shortest latency is measured anew.
        probe_multiplier: u32,
    },
    /// Compares the latest latency with the long-term average.
    Gradient2 {
        /// How many times longer the latest latency may be before the limit falls.
        tolerance: f64,
        /// The number of calls that may queue.
        queue: usize,
        /// The share of a change that is applied at once, from 0 to 1.
        smoothing: f64,
        /// The number of samples over which the long-term latency is averaged.
        long_window: u32,
    },
}

/// Combines the samples of a time window into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleWindow {
    /// The length of the window.
    pub length: Duration,
    /// The smallest number of samples that is evaluated.
    pub min_samples: u64,
    /// Shorter latencies are ignored.
    pub min_latency: Duration,
}

impl Default for SampleWindow {
    fn default() -> Self {
        Self {
            length: Duration::from_secs(1),
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
            min: 20,
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
            min: 20,
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
                key.as_str(),
                "limit.min",
                0,
                "nothing would ever pass",
            ));
        }
        if !(min..=max).contains(&initial) {
            let reason = format!("it must lie between the lowest, {min}, and the highest, {max}");
            return Err(ConfigError::new(
                key.as_str(),
                "limit.initial",
                initial,
                reason,
            ));
        }
        let share = |property: &str, value: f64| match value {
            0.0..=1.0 => Ok(()),
            _ => Err(ConfigError::new(
                key.as_str(),
                property,
                value,
                "give 0 to 1",
            )),
        };
        let positive = |property: &str, value: u32| match value {
            0 => Err(ConfigError::new(
                key.as_str(),
                property,
                0,
                "give 1 or more",
            )),
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
                Err(ConfigError::new(
                    key.as_str(),
                    "limit.tolerance",
                    tolerance,
                    reason,
                ))
            }
        }
    }
}

/// The algorithm with its current state.
#[derive(Debug)]
pub(crate) struct Estimator {
    pub(super) config: AdaptiveLimit,
    pub(super) limit: f64,
    state: State,
}

#[derive(Debug)]
enum State {
    Aimd,
    Vegas {
        shortest: u64,
        samples: u64,
        jitter: Jitter,
    },
    Gradient2(LongLatency),
}

impl Estimator {
    pub(crate) fn new(config: AdaptiveLimit) -> Self {
        let state = match config.algorithm {
            LimitAlgorithm::Aimd { .. } => State::Aimd,
            LimitAlgorithm::Vegas { .. } => State::Vegas {
                shortest: 0,
                samples: 0,
                jitter: Jitter::new(),
            },
            LimitAlgorithm::Gradient2 { long_window, .. } => {
                State::Gradient2(LongLatency::new(long_window))
            }
        };
        Self {
            limit: config.initial as f64,
            config,
            state,
        }
    }

    /// Returns the next limit after a call that took `nanos` while `in_flight` calls ran.
    pub(crate) fn update(&mut self, nanos: u64, in_flight: usize, dropped: bool) -> usize {
        let nanos = nanos.max(1);
        let limit = self.limit;
        let next = match (&mut self.state, self.config.algorithm) {
            (State::Aimd, LimitAlgorithm::Aimd { backoff, timeout }) => {
                if dropped || nanos > as_nanos(timeout) {
                    (limit * backoff).floor()
                } else if in_flight as f64 * 2.0 >= limit {
                    limit + 1.0
                } else {
                    limit
                }
            }
            (
                State::Vegas {
                    shortest,
                    samples,
                    jitter,
                },
                LimitAlgorithm::Vegas {
                    smoothing,
                    probe_multiplier,
                },
            ) => {
                *samples += 1;
                let due = jitter.share() * f64::from(probe_multiplier) * limit;
                if due <= *samples as f64 {
                    jitter.turn();
                    (*samples, *shortest) = (0, nanos);
                    limit
                } else if *shortest == 0 || nanos < *shortest {
                    *shortest = nanos;
                    limit
                } else {
                    let next = vegas(limit, *shortest, nanos, in_flight, dropped);
                    let next = next.clamp(1.0, self.config.max as f64);
                    (1.0 - smoothing) * limit + smoothing * next
                }
            }
            (
                State::Gradient2(long),
                LimitAlgorithm::Gradient2 {
                    tolerance,
                    queue,
                    smoothing,
                    ..
                },
            ) => {
                let long = long.add(nanos as f64);
                if (in_flight as f64) < limit / 2.0 {
                    limit
                } else {
                    let gradient = (tolerance * long / nanos as f64).clamp(0.5, 1.0);
                    let next = limit * gradient + queue as f64;
                    limit * (1.0 - smoothing) + next * smoothing
                }
            }
            // Unreachable: the state is created for the algorithm, and neither changes.
            _ => limit,
        };
        self.limit = next.clamp(self.config.min as f64, self.config.max as f64);
        self.limit as usize
    }
}

fn vegas(limit: f64, shortest: u64, nanos: u64, in_flight: usize, dropped: bool) -> f64 {
    let step = limit.log10().floor().max(1.0);
    let queue = (limit * (1.0 - shortest as f64 / nanos as f64)).ceil();
    if dropped {
        limit - step
    } else if (in_flight as f64) * 2.0 < limit {
        limit
    } else if queue <= step {
        limit + 6.0 * step
    } else if queue < 3.0 * step {
        limit + step
    } else if queue > 6.0 * step {
        limit - step
    } else {
        limit
    }
}

/// An exponential moving average that starts as an arithmetic mean.
#[derive(Debug)]
struct LongLatency {
    value: f64,
    sum: f64,
    count: u32,
    factor: f64,
}

impl LongLatency {
    const WARM_UP: u32 = 10;

    fn new(window: u32) -> Self {
        Self {
            value: 0.0,
            sum: 0.0,
            count: 0,
            factor: 2.0 / (f64::from(window) + 1.0),
        }
    }

    /// Adds a sample and returns the average. An average far above the sample decays faster.
    fn add(&mut self, sample: f64) -> f64 {
        if self.count < Self::WARM_UP {
            self.count += 1;
            self.sum += sample;
            self.value = self.sum / f64::from(self.count);
        } else {
            self.value = self.value * (1.0 - self.factor) + sample * self.factor;
        }
        let long = self.value;
        if long / sample > 2.0 {
            self.value = long * 0.95;
        }
        long
    }
}

/// A pseudo-random share between 0.5 and 1 that changes with each `turn`.
#[derive(Debug)]
struct Jitter {
    state: u32,
}

impl Jitter {
    fn new() -> Self {
        Self { state: 0x9E37_79B9 }
    }

    fn share(&self) -> f64 {
        0.5 + f64::from(self.state >> 16) / f64::from(u16::MAX) * 0.5
    }

    fn turn(&mut self) {
        // Xorshift is sufficient: it keeps the probes of several commands apart.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
    }
}

#[cfg(test)]
mod tests {
    //! The formulas, computed by hand.

    use super::*;

    const MS: u64 = 1_000_000;

    fn bare(config: AdaptiveLimit) -> Estimator {
        Estimator::new(config)
    }

    #[test]
    fn aimd_adds_one_and_takes_a_tenth() {
        let mut aimd = bare(AdaptiveLimit::aimd());
        assert_eq!(aimd.update(MS, 10, false), 21);
        assert_eq!(aimd.update(MS, 10, false), 21, "not half used");
        for _ in 0..79 {
            aimd.update(MS, 200, false);
        }
        assert_eq!(aimd.update(MS, 200, true), 90);
        assert_eq!(
            aimd.update(6_000 * MS, 200, false),
            81,
            "slow counts as dropped"
        );
        for _ in 0..30 {
            aimd.update(MS, 200, true);
        }
        assert_eq!(aimd.update(MS, 200, true), 20, "never below its lowest");
    }

    #[test]
    fn vegas_grows_while_there_is_no_queue_and_shrinks_when_there_is() {
        let mut vegas = bare(AdaptiveLimit::vegas());
        assert_eq!(
            vegas.update(10 * MS, 20, false),
            20,
            "the first is the shortest"
        );
        assert_eq!(vegas.update(10 * MS, 20, false), 26, "plus six steps");
        assert_eq!(vegas.update(10 * MS, 5, false), 26, "not half used");
        // The queue is 26 * (1 - 10/20) = 13, above six.
        assert_eq!(vegas.update(20 * MS, 26, false), 25);
        assert_eq!(vegas.update(10 * MS, 25, true), 24, "a drop");
    }

    #[test]
    fn vegas_has_bounds_for_its_queue() {
        // The limit is 50, a step is one: the bounds are 1, 3 and 6.
        let next = |shortest: u64| vegas(50.0, shortest, 1000, 50, false);
        assert_eq!(next(1000), 56.0, "no queue");
        assert_eq!(next(985), 56.0, "a queue of one");
        assert_eq!(next(965), 51.0, "of two");
        assert_eq!(next(945), 50.0, "of three");
        assert_eq!(next(885), 50.0, "of six");
        assert_eq!(next(865), 49.0, "of seven");
        assert_eq!(vegas(500.0, 1, 1, 500, false), 512.0, "a larger step");
    }

    #[test]
    fn vegas_measures_its_shortest_latency_anew() {
        let mut limit = AdaptiveLimit::vegas();
        (limit.max, limit.initial) = (10, 10);
        let mut vegas = bare(limit);
        for _ in 0..310 {
            vegas.update(10 * MS, 10, false);
        }
        // At most 30 samples per permit: the shortest latency was measured anew, and is once more
        // below.
        for _ in 0..310 {
            vegas.update(40 * MS, 10, false);
        }
        assert_eq!(
            vegas.update(40 * MS, 10, false),
            10,
            "that is how it is now"
        );
    }

    #[test]
    fn a_long_latency_that_is_far_off_is_forgotten_faster() {
        let mut long = LongLatency::new(600);
        for _ in 0..10 {
            long.add(100.0);
        }
        let told = long.add(10.0);
        let expected = 100.0 * (1.0 - long.factor) + 10.0 * long.factor;
        assert!((told - expected).abs() < 1e-9);
        assert!(
            (long.value - expected * 0.95).abs() < 1e-9,
            "{}",
            long.value
        );
        let before = long.value;
        long.add(60.0);
        assert!(long.value > before * 0.99, "near enough");
    }

    #[test]
    fn gradient_falls_with_the_latency_and_ignores_drops() {
        let mut gradient = bare(AdaptiveLimit {
            min: 1,
            ..AdaptiveLimit::gradient2()
        });
        // Steady: 20 + 4, a fifth of the way.
        assert_eq!(gradient.update(10 * MS, 20, true), 20);
        assert_eq!((gradient.limit * 10.0).round(), 208.0);
        for _ in 0..100 {
            gradient.update(10 * MS, 200, false);
        }
        let high = gradient.limit;
        gradient.update(100 * MS, 200, false);
        let expected = high * 0.8 + (high * 0.5 + 4.0) * 0.2;
        assert!(
            (gradient.limit - expected).abs() < 1e-9,
            "{}",
            gradient.limit
        );
        let before = gradient.limit;
        gradient.update(100 * MS, 0, false);
        assert_eq!(gradient.limit, before, "not half used");
    }

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
