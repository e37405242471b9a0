//! The algorithms of adaptive limits: they take what the calls of a window tell and return a limit.
//!
//! Pure data: no clock, no lock. The formulas are those of Netflix's concurrency-limits. What differs
//! is the latency that they compare with. A shortest or an average latency that was seen under load
//! contains the wait in the dependency: it becomes the normal, and the limit rises until every call
//! is late. So it is measured: for a window or two, half as many calls are in flight ([`Usual`]).

use std::time::Duration;

use tidegate_core::internal::as_nanos;

use super::limit::{AdaptiveLimit, LimitAlgorithm};
use super::moves::LimitReason;

/// What the calls of a window tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Their mean latency.
    pub(crate) nanos: u64,
    /// The most that were in flight when one of them ended.
    pub(crate) in_flight: usize,
    /// The mean number of calls that had no answer yet. Others may hold a permit: for a body.
    pub(crate) unanswered: f64,
    pub(crate) count: u64,
    /// How many of them were dropped.
    pub(crate) drops: u64,
}

impl Seen {
    /// Returns `true` if half of enough calls were dropped: the dependency may be busy with calls that
    /// nobody waits for.
    pub(super) const fn is_lost(self) -> bool {
        self.count >= 10 && self.drops * 2 >= self.count
    }

    /// Returns the mean latency, or infinity if so many calls were dropped that it says too little.
    fn full_nanos(self) -> f64 {
        match self.drops * 10 < self.count {
            true => self.nanos.max(1) as f64,
            false => f64::INFINITY,
        }
    }
}

/// The algorithm with its current state.
#[derive(Debug)]
pub(crate) struct Estimator {
    pub(super) config: AdaptiveLimit,
    pub(super) limit: f64,
    usual: Usual,
}

impl Estimator {
    pub(crate) fn new(config: AdaptiveLimit) -> Self {
        Self {
            limit: config.initial as f64,
            config,
            usual: Usual::new(),
        }
    }

    /// Returns the next limit, and why it moves there.
    pub(crate) fn update(&mut self, seen: Seen) -> (usize, Option<LimitReason>) {
        let before = self.limit;
        let (next, reason) = match self.config.algorithm {
            LimitAlgorithm::Aimd { backoff, timeout } => self.aimd(seen, backoff, timeout),
            LimitAlgorithm::Vegas {
                probe_multiplier, ..
            } => self.compare(
                seen,
                f64::from(probe_multiplier) * before,
                LimitReason::Queue,
            ),
            LimitAlgorithm::Gradient2 { long_window, .. } => {
                self.compare(seen, f64::from(long_window), LimitReason::Slow)
            }
        };
        self.limit = next.clamp(self.config.min as f64, self.config.max as f64);
        let reason = match reason {
            LimitReason::Probe => reason,
            _ if self.limit > before => LimitReason::Fast,
            _ => reason,
        };
        let moves = self.limit != before;
        (self.limit as usize, moves.then_some(reason))
    }

    /// Returns the limit without a measurement that may be under way.
    pub(super) fn lasting(&self) -> f64 {
        let probe = self.usual.probe.as_ref();
        probe.map_or(self.limit, |probe| probe.limit)
    }

    /// Ends a measurement that may be under way, without a result. Returns the limit before it.
    pub(super) fn give_up(&mut self) -> Option<usize> {
        self.limit = self.usual.probe.take()?.limit;
        Some(self.limit as usize)
    }

    /// Returns `true` while the usual latency is measured.
    pub(super) fn is_probing(&self) -> bool {
        self.usual.probe.is_some()
    }

    /// Returns `true` if the calls that began under the last limit must not be mixed with those that
    /// begin under the next one.
    pub(super) fn compares(&self) -> bool {
        !matches!(self.config.algorithm, LimitAlgorithm::Aimd { .. })
    }

    fn aimd(&self, seen: Seen, backoff: f64, timeout: Duration) -> (f64, LimitReason) {
        let (limit, is_dropped) = (self.limit, seen.drops > 0);
        let reason = match is_dropped {
            true => LimitReason::Dropped,
            false => LimitReason::Slow,
        };
        if is_dropped || seen.nanos > as_nanos(timeout) {
            ((limit * backoff).floor(), reason)
        } else if seen.in_flight as f64 * 2.0 >= limit {
            (limit + 1.0, reason)
        } else {
            (limit, reason)
        }
    }

    /// Returns the next limit by comparing the latency with the usual one, which is measured after
    /// `renewal` windows.
    fn compare(&mut self, seen: Seen, renewal: f64, falls: LimitReason) -> (f64, LimitReason) {
        let (limit, least) = (self.limit, self.config.min as f64);
        if let Some(next) = self.usual.go_on(seen, limit, least, renewal) {
            return (next, LimitReason::Probe);
        }
        let usual = self.usual.see(seen);
        if (seen.in_flight as f64) * 2.0 < limit && !seen.is_lost() {
            return (limit, falls);
        }
        let next = self.formula(usual, seen.nanos.max(1) as f64);
        match self.usual.begin(seen, (limit, next), least) {
            Some(next) => (next, LimitReason::Probe),
            None => (next, falls),
        }
    }

    fn formula(&self, usual: f64, nanos: f64) -> f64 {
        let limit = self.limit;
        let (next, smoothing) = match self.config.algorithm {
            LimitAlgorithm::Aimd { .. } => (limit, 1.0),
            LimitAlgorithm::Vegas { smoothing, .. } => {
                (vegas(limit, usual * Usual::ERROR, nanos), smoothing)
            }
            LimitAlgorithm::Gradient2 {
                tolerance,
                queue,
                smoothing,
                ..
            } => {
                let gradient = (tolerance * usual / nanos).clamp(0.5, 1.0);
                (limit * gradient + queue as f64, smoothing)
            }
        };
        limit + (next - limit) * smoothing
    }
}

/// Returns the next limit from the number of calls that queue in the dependency, by their latency.
fn vegas(limit: f64, usual: f64, nanos: f64) -> f64 {
    let step = limit.log10().floor().max(1.0);
    let queue = (limit * (1.0 - usual / nanos)).ceil();
    if queue <= step {
        limit + step.max(limit / 4.0)
    } else if queue < 3.0 * step {
        limit + step
    } else if queue > 6.0 * step {
        // A long queue is halved at once.
        limit - step.max((queue - 6.0 * step) / 2.0)
    } else {
        limit
    }
}

/// The latency of calls that do not queue in the dependency.
///
/// Whether calls queue is seen only when fewer are in flight: if half of them take as long, they do
/// not, and that is the usual latency. If they are faster, they did queue, and half of the half is
/// tried next. Until the first measurement, the shortest latency of a window is taken for it.
#[derive(Debug)]
struct Usual {
    nanos: f64,
    /// The number of windows until it is measured anew.
    rest: f64,
    is_measured: bool,
    /// A lower limit than this makes the measurement doubtful.
    low: f64,
    probe: Option<Probe>,
    random: u32,
}

/// A measurement under way.
#[derive(Debug)]
struct Probe {
    /// The limit before its last step.
    limit: f64,
    /// The latency under that limit; infinite if it is not known.
    nanos: f64,
}

impl Usual {
    /// So many windows may pass before the first measurement, as long as calls stay fast.
    const FIRST: f64 = 10.0;
    /// So few calls do not queue, or their wait does not matter.
    const FEW: f64 = 4.0;
    /// A measured mean may be too low by this factor.
    const ERROR: f64 = 1.1;
    /// The share of a latency that remains if half of the calls waited.
    const SHORTER: f64 = 0.75;

    const fn new() -> Self {
        Self {
            nanos: f64::INFINITY,
            rest: Self::FIRST,
            is_measured: false,
            low: 0.0,
            probe: None,
            random: 0x9E37_79B9,
        }
    }

    /// Notes the calls of a window and returns the usual latency.
    fn see(&mut self, seen: Seen) -> f64 {
        self.rest -= 1.0;
        if !self.is_measured {
            self.nanos = self.nanos.min(seen.nanos.max(1) as f64);
        }
        self.nanos
    }

    /// Begins a measurement if it is time for one. Returns its limit.
    fn begin(&mut self, seen: Seen, (limit, next): (f64, f64), least: f64) -> Option<f64> {
        let is_due = self.rest <= 0.0;
        let begins = if next > limit {
            is_due && seen.in_flight as f64 >= limit
        } else {
            // If much of the limit is free, it falls to what is in use first.
            let is_used = seen.in_flight as f64 >= limit * 0.75;
            is_used && (is_due || !self.is_measured || limit < self.low)
        };
        let in_use = limit.min(seen.in_flight as f64);
        // Without most of the permits in calls that wait for an answer, fewer permits change nothing.
        if !(begins || seen.is_lost()) || seen.unanswered * 2.0 < in_use {
            return None;
        }
        // The queue of the dependency may still have been filling when it was seen first.
        let nanos = match self.is_measured {
            true => seen.full_nanos(),
            false => f64::INFINITY,
        };
        let next = self.step(seen, (limit, nanos), in_use, least);
        if next.is_none() && !seen.is_lost() {
            // So few are in flight already, but the window may have been too short.
            self.probe = Some(Probe { limit, nanos: 0.0 });
            return Some(limit);
        }
        next
    }

    /// Goes on with a measurement, if one is under way. Returns the next limit.
    fn go_on(&mut self, seen: Seen, limit: f64, least: f64, renewal: f64) -> Option<f64> {
        let probe = self.probe.take()?;
        if seen.is_lost() || (seen.nanos as f64) < probe.nanos * Self::SHORTER {
            if let Some(next) = self.step(seen, (limit, seen.full_nanos()), limit, least) {
                return Some(next);
            }
            if seen.is_lost() {
                self.probe = Some(probe);
                return Some(limit);
            }
        }
        self.measured(seen, probe.limit, renewal);
        Some(probe.limit)
    }

    /// Halves the number of calls that are in flight, if that makes a difference. If calls are lost,
    /// the dependency gets few until it has done those that nobody waits for.
    fn step(
        &mut self,
        seen: Seen,
        (limit, nanos): (f64, f64),
        in_use: f64,
        least: f64,
    ) -> Option<f64> {
        let few = least.max(Self::FEW);
        let (next, back) = match seen.is_lost() {
            true => (few, few),
            false => ((in_use / 2.0).floor().max(few), limit),
        };
        if next >= in_use {
            return None;
        }
        self.probe = Some(Probe { limit: back, nanos });
        Some(next)
    }

    /// Notes a latency without a queue, and when it is measured anew: at irregular intervals, so that
    /// several limits of one dependency do not measure together.
    fn measured(&mut self, seen: Seen, limit: f64, renewal: f64) {
        self.nanos = seen.nanos.max(1) as f64;
        self.is_measured = true;
        self.low = limit / 2.0;
        // Xorshift is sufficient.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.rest = renewal * (0.5 + f64::from(self.random >> 16) / f64::from(u16::MAX) * 0.5);
    }
}

#[cfg(test)]
mod tests {
    //! The formulas, computed by hand.

    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(nanos: u64, in_flight: usize, drops: u64) -> Seen {
        Seen {
            nanos,
            in_flight,
            unanswered: in_flight as f64,
            count: 10,
            drops,
        }
    }

    #[test]
    fn aimd_adds_one_and_takes_a_tenth() {
        let mut aimd = Estimator::new(AdaptiveLimit {
            min: 20,
            ..AdaptiveLimit::aimd()
        });
        let mut update = |ms, in_flight, drops| aimd.update(seen(ms * MS, in_flight, drops)).0;
        assert_eq!(update(1, 10, 0), 21);
        assert_eq!(update(1, 10, 0), 21, "not half used");
        for _ in 0..79 {
            update(1, 200, 0);
        }
        assert_eq!(update(1, 200, 1), 90);
        assert_eq!(update(6_000, 200, 0), 81, "slow counts as dropped");
        for _ in 0..30 {
            update(1, 200, 1);
        }
        assert_eq!(update(1, 200, 1), 20, "never below its lowest");
    }

    #[test]
    fn vegas_has_bounds_for_its_queue() {
        // The limit is 50, a step is one: the bounds are 1, 3 and 6.
        let next = |usual: f64| vegas(50.0, usual, 1000.0);
        for (usual, limit, queue) in [
            (1000.0, 62.5, "no queue: a quarter more"),
            (985.0, 62.5, "a queue of one"),
            (965.0, 51.0, "of two"),
            (945.0, 50.0, "of three"),
            (885.0, 50.0, "of six"),
            (865.0, 49.0, "of seven"),
            (305.0, 35.5, "of 35: half of what is too much"),
        ] {
            assert_eq!(next(usual), limit, "{queue}");
        }
        assert_eq!(vegas(2.0, 1.0, 1.0), 3.0, "at least a step");
        assert_eq!(vegas(500.0, 0.995, 1.0), 502.0, "a larger step");
    }

    #[test]
    fn the_usual_latency_is_measured_where_half_as_many_calls_take_as_long() {
        let mut vegas = Estimator::new(AdaptiveLimit {
            initial: 160,
            ..AdaptiveLimit::vegas()
        });
        // The dependency has room for ten calls of 10 ms: what is above waits for its turn.
        let mut limit = 160;
        let steps: Vec<_> = std::iter::repeat_with(|| {
            limit = vegas.update(seen(limit.max(10) as u64 * MS, limit, 0)).0;
            limit
        })
        .take(10)
        .collect();
        // The first latency passes for the usual one until more calls take longer.
        assert_eq!(steps, [200, 100, 50, 25, 12, 6, 12, 13, 14, 14]);
    }

    #[test]
    fn each_move_has_its_reason() {
        use LimitReason::{Dropped, Fast, Probe, Queue, Slow};
        // Latency in milliseconds, use and drops of each window, and the reason of the move.
        type Row = (u64, usize, u64, Option<LimitReason>);
        let aimd: &[Row] = &[
            (1, 20, 0, Some(Fast)),
            (1, 1, 0, None),
            (1, 20, 1, Some(Dropped)),
            (6_000, 20, 0, Some(Slow)),
        ];
        let vegas: &[Row] = &[
            (10, 20, 0, Some(Fast)),
            (10, 5, 0, None),
            (20, 25, 0, Some(Probe)),
            (20, 12, 0, Some(Probe)),
            (10, 6, 0, Some(Probe)),
            (10, 4, 0, Some(Probe)),
            (30, 6, 0, None),
            (10, 6, 0, Some(Fast)),
            (100, 7, 0, Some(Queue)),
        ];
        let gradient: &[Row] = &[(10, 20, 0, Some(Fast)), (1_000, 1, 0, None)];
        for (config, windows) in [
            (AdaptiveLimit::aimd(), aimd),
            (AdaptiveLimit::vegas(), vegas),
            (AdaptiveLimit::gradient2(), gradient),
        ] {
            let mut estimator = Estimator::new(config);
            for window in windows {
                let (ms, in_flight, drops, expected) = *window;
                let (limit, reason) = estimator.update(seen(ms * MS, in_flight, drops));
                assert_eq!(reason, expected, "{window:?} to {limit}");
            }
        }
    }
}
