//! The algorithms of adaptive limits: they take a sample and return a limit.
//!
//! Pure data: no clock, no lock. The formulas are those of Netflix's concurrency-limits.

use tidegate_core::internal::as_nanos;

use super::limit::{AdaptiveLimit, LimitAlgorithm};
use super::moves::LimitReason;

/// The algorithm with its current state.
#[derive(Debug)]
pub(crate) struct Estimator {
    pub(super) config: AdaptiveLimit,
    pub(super) limit: f64,
    /// Used by [`LimitAlgorithm::Gradient2`] only.
    long: LongLatency,
    /// Used by [`LimitAlgorithm::Vegas`] only.
    shortest: ShortestLatency,
}

impl Estimator {
    pub(crate) fn new(config: AdaptiveLimit) -> Self {
        let window = match config.algorithm {
            LimitAlgorithm::Gradient2 { long_window, .. } => long_window,
            _ => 0,
        };
        Self {
            limit: config.initial as f64,
            config,
            long: LongLatency::new(window),
            shortest: ShortestLatency::new(),
        }
    }

    /// Returns the next limit after a call that took `nanos` while `in_flight` calls ran, and why it
    /// moves there.
    pub(crate) fn update(
        &mut self,
        nanos: u64,
        in_flight: usize,
        dropped: bool,
    ) -> (usize, Option<LimitReason>) {
        let before = self.limit;
        let next = self.next(nanos.max(1), in_flight, dropped);
        self.limit = next.clamp(self.config.min as f64, self.config.max as f64);
        let reason = self.reason(before, dropped);
        (self.limit as usize, reason)
    }

    /// Returns why the limit has moved from `before`.
    fn reason(&self, before: f64, dropped: bool) -> Option<LimitReason> {
        if self.limit > before {
            return Some(LimitReason::Fast);
        }
        let falls = self.limit < before;
        falls.then_some(match self.config.algorithm {
            // It takes no notice of drops.
            LimitAlgorithm::Gradient2 { .. } => LimitReason::Slow,
            _ if dropped => LimitReason::Dropped,
            LimitAlgorithm::Vegas { .. } => LimitReason::Queue,
            LimitAlgorithm::Aimd { .. } => LimitReason::Slow,
        })
    }

    /// Computes the next limit, without its bounds.
    fn next(&mut self, nanos: u64, in_flight: usize, dropped: bool) -> f64 {
        let limit = self.limit;
        match self.config.algorithm {
            LimitAlgorithm::Aimd { backoff, timeout } => {
                if dropped || nanos > as_nanos(timeout) {
                    (limit * backoff).floor()
                } else if in_flight as f64 * 2.0 >= limit {
                    limit + 1.0
                } else {
                    limit
                }
            }
            LimitAlgorithm::Vegas {
                smoothing,
                probe_multiplier,
            } => {
                let renewal = f64::from(probe_multiplier) * limit;
                let Some(shortest) = self.shortest.add(nanos, renewal) else {
                    return limit;
                };
                let next = vegas(limit, shortest, nanos, in_flight, dropped);
                let next = next.clamp(1.0, self.config.max as f64);
                limit * (1.0 - smoothing) + next * smoothing
            }
            LimitAlgorithm::Gradient2 {
                tolerance,
                queue,
                smoothing,
                ..
            } => {
                let long = self.long.add(nanos as f64);
                if (in_flight as f64) < limit / 2.0 {
                    limit
                } else {
                    let gradient = (tolerance * long / nanos as f64).clamp(0.5, 1.0);
                    let next = limit * gradient + queue as f64;
                    limit * (1.0 - smoothing) + next * smoothing
                }
            }
        }
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

/// The shortest latency seen. It is measured anew from time to time, at irregular intervals.
#[derive(Debug)]
struct ShortestLatency {
    nanos: u64,
    samples: u64,
    random: u32,
}

impl ShortestLatency {
    const fn new() -> Self {
        Self {
            nanos: u64::MAX,
            samples: 0,
            random: 0x9E37_79B9,
        }
    }

    /// Adds a sample and returns the shortest before it, or `None` if the sample itself now counts
    /// as the shortest: because it is, or because half of `renewal` to all of it were added.
    fn add(&mut self, nanos: u64, renewal: f64) -> Option<u64> {
        self.samples += 1;
        let share = 0.5 + f64::from(self.random >> 16) / f64::from(u16::MAX) * 0.5;
        if share * renewal <= self.samples as f64 {
            // Xorshift is sufficient.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            self.samples = 0;
        } else if nanos >= self.nanos {
            return Some(self.nanos);
        }
        self.nanos = nanos;
        None
    }
}

#[cfg(test)]
mod tests {
    //! The formulas, computed by hand.

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn aimd_adds_one_and_takes_a_tenth() {
        let mut aimd = Estimator::new(AdaptiveLimit::aimd());
        assert_eq!(aimd.update(MS, 10, false).0, 21);
        assert_eq!(aimd.update(MS, 10, false).0, 21, "not half used");
        for _ in 0..79 {
            aimd.update(MS, 200, false);
        }
        assert_eq!(aimd.update(MS, 200, true).0, 90);
        assert_eq!(
            aimd.update(6_000 * MS, 200, false).0,
            81,
            "slow counts as dropped"
        );
        for _ in 0..30 {
            aimd.update(MS, 200, true);
        }
        assert_eq!(aimd.update(MS, 200, true).0, 20, "never below its lowest");
    }

    #[test]
    fn vegas_grows_while_there_is_no_queue_and_shrinks_when_there_is() {
        let mut vegas = Estimator::new(AdaptiveLimit::vegas());
        assert_eq!(
            vegas.update(10 * MS, 20, false).0,
            20,
            "the first is the shortest"
        );
        assert_eq!(vegas.update(10 * MS, 20, false).0, 26, "plus six steps");
        assert_eq!(vegas.update(10 * MS, 5, false).0, 26, "not half used");
        // The queue is 26 * (1 - 10/20) = 13, above six.
        assert_eq!(vegas.update(20 * MS, 26, false).0, 25);
        assert_eq!(vegas.update(10 * MS, 25, true).0, 24, "a drop");
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
        let mut vegas = Estimator::new(limit);
        for _ in 0..310 {
            vegas.update(10 * MS, 10, false);
        }
        // At most 30 samples per permit: the shortest latency was measured anew, and is once more
        // below.
        for _ in 0..310 {
            vegas.update(40 * MS, 10, false);
        }
        assert_eq!(
            vegas.update(40 * MS, 10, false).0,
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
        let mut gradient = Estimator::new(AdaptiveLimit {
            min: 1,
            ..AdaptiveLimit::gradient2()
        });
        // Steady: 20 + 4, a fifth of the way.
        assert_eq!(gradient.update(10 * MS, 20, true).0, 20);
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
    fn each_move_has_its_reason() {
        use LimitReason::{Dropped, Fast, Queue, Slow};
        let aimd = AdaptiveLimit {
            min: 1,
            ..AdaptiveLimit::aimd()
        };
        let gradient = AdaptiveLimit {
            min: 1,
            ..AdaptiveLimit::gradient2()
        };
        // Time and use of each call, and the reason of the move that follows.
        type Row = (u64, usize, bool, Option<LimitReason>);
        let rows: [(AdaptiveLimit, &[Row]); 3] = [
            (
                aimd,
                &[
                    (MS, 20, false, Some(Fast)),
                    (MS, 1, false, None),
                    (MS, 20, true, Some(Dropped)),
                    (6_000 * MS, 20, false, Some(Slow)),
                ],
            ),
            (
                AdaptiveLimit::vegas(),
                &[
                    (10 * MS, 20, false, None),
                    (10 * MS, 20, false, Some(Fast)),
                    (20 * MS, 26, false, Some(Queue)),
                    (10 * MS, 26, true, Some(Dropped)),
                ],
            ),
            (
                gradient,
                &[
                    (10 * MS, 20, true, Some(Fast)),
                    (1_000 * MS, 20, true, Some(Slow)),
                    (10 * MS, 1, false, None),
                ],
            ),
        ];
        for (config, calls) in rows {
            let mut estimator = Estimator::new(config);
            for (nanos, in_flight, dropped, expected) in calls {
                let (_, reason) = estimator.update(*nanos, *in_flight, *dropped);
                assert_eq!(reason, *expected, "{:?}", estimator.config.algorithm);
            }
        }
    }
}
