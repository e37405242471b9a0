//! The samples of an adaptive limit: collected by every call, evaluated once per window.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::internal::as_nanos;

use super::estimator::Estimator;
use super::limit::AdaptiveLimit;
use super::moves::LimitReason;
use crate::lock::lock;

/// Collects samples without a lock and passes them to the algorithm at the end of a window. The
/// settings can change while it is in use, and it can be switched off and on again.
///
/// A new limit is applied under the lock of the algorithm. So limits take effect in the order in
/// which they were computed, and none after the sampler was switched off.
#[derive(Debug)]
pub(crate) struct Sampler {
    is_on: AtomicBool,
    /// Whether there is a window, and its settings.
    is_windowed: AtomicBool,
    length: AtomicU64,
    min_samples: AtomicU64,
    min_nanos: AtomicU64,
    sum: AtomicU64,
    count: AtomicU64,
    in_flight: AtomicU64,
    dropped: AtomicBool,
    next: AtomicU64,
    estimator: Mutex<Estimator>,
}

impl Sampler {
    pub(crate) fn new(config: AdaptiveLimit) -> Self {
        let sampler = Self {
            is_on: AtomicBool::new(true),
            is_windowed: AtomicBool::new(false),
            length: AtomicU64::new(0),
            min_samples: AtomicU64::new(0),
            min_nanos: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            count: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            next: AtomicU64::new(0),
            estimator: Mutex::new(Estimator::new(config.clone())),
        };
        sampler.configure(&config, |_| ());
        sampler
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Switches the sampler off and calls `apply`, which sets the fixed limit. `apply` is told
    /// whether the limit was adaptive until now.
    pub(crate) fn switch_off(&self, apply: impl FnOnce(bool)) {
        let _estimator = lock(&self.estimator);
        apply(self.is_on.swap(false, Ordering::Relaxed));
    }

    /// Applies new settings and calls `apply` with the limit in force: the previous limit within
    /// the new bounds, or the initial limit if the limit was not adaptive before.
    pub(crate) fn configure(&self, config: &AdaptiveLimit, apply: impl FnOnce(usize)) {
        let mut estimator = lock(&self.estimator);
        let was_on = self.is_on.swap(true, Ordering::Relaxed);
        if estimator.config != *config || !was_on {
            let limit = if was_on {
                estimator.limit
            } else {
                config.initial as f64
            };
            *estimator = Estimator::new(config.clone());
            estimator.limit = limit.clamp(config.min as f64, config.max as f64);
        }
        let window = config.window.unwrap_or_default();
        self.length
            .store(as_nanos(window.length), Ordering::Relaxed);
        self.min_samples
            .store(window.min_samples, Ordering::Relaxed);
        self.min_nanos
            .store(as_nanos(window.min_latency), Ordering::Relaxed);
        self.is_windowed
            .store(config.window.is_some(), Ordering::Relaxed);
        apply(estimator.limit as usize);
    }

    /// Adds the sample of a call that ended at `now`. If a new limit was computed, calls `apply`
    /// with it and with the reason of its move, and returns `true`.
    pub(crate) fn sample(
        &self,
        now: u64,
        nanos: u64,
        (in_flight, dropped): (usize, bool),
        apply: impl FnOnce(usize, Option<LimitReason>),
    ) -> bool {
        if !self.is_windowed.load(Ordering::Relaxed) {
            let mut estimator = lock(&self.estimator);
            return self.update(&mut estimator, nanos, (in_flight, dropped), apply);
        }
        if nanos < self.min_nanos.load(Ordering::Relaxed) {
            return false;
        }
        self.sum.fetch_add(nanos, Ordering::Relaxed);
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.in_flight.load(Ordering::Relaxed) < in_flight as u64 {
            self.in_flight
                .fetch_max(in_flight as u64, Ordering::Relaxed);
        }
        if dropped {
            self.dropped.store(true, Ordering::Relaxed);
        }
        let min_samples = self.min_samples.load(Ordering::Relaxed);
        if now < self.next.load(Ordering::Relaxed) || count < min_samples {
            return false;
        }
        // The thread that gets the lock closes the window; the others continue.
        let Ok(mut estimator) = self.estimator.try_lock() else {
            return false;
        };
        let next = now.saturating_add(self.length.load(Ordering::Relaxed));
        self.next.store(next, Ordering::Relaxed);
        let count = self.count.swap(0, Ordering::Relaxed).max(1);
        let mean = self.sum.swap(0, Ordering::Relaxed) / count;
        let in_flight = self.in_flight.swap(0, Ordering::Relaxed) as usize;
        let dropped = self.dropped.swap(false, Ordering::Relaxed);
        self.update(&mut estimator, mean, (in_flight, dropped), apply)
    }

    /// Computes the next limit and applies it, unless the sampler was switched off meanwhile.
    fn update(
        &self,
        estimator: &mut Estimator,
        nanos: u64,
        (in_flight, dropped): (usize, bool),
        apply: impl FnOnce(usize, Option<LimitReason>),
    ) -> bool {
        let is_on = self.is_on();
        if is_on {
            let (limit, reason) = estimator.update(nanos, in_flight, dropped);
            apply(limit, reason);
        }
        is_on
    }
}

#[cfg(test)]
mod tests {
    //! Samples are collected, and new settings are applied.

    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the limit that a sample leads to, if it leads to one.
    fn sample(sampler: &Sampler, now: u64, nanos: u64, call: (usize, bool)) -> Option<usize> {
        let mut applied = None;
        let is_new = sampler.sample(now, nanos, call, |limit, _| {
            assert!(sampler.estimator.try_lock().is_err(), "in order");
            applied = Some(limit);
        });
        assert_eq!(is_new, applied.is_some());
        applied
    }

    #[test]
    fn samples_of_a_second_are_gathered_and_tiny_ones_ignored() {
        let sampler = Sampler::new(AdaptiveLimit::aimd());
        for now in 0..9 {
            assert_eq!(sample(&sampler, now, MS, (20, false)), None);
        }
        assert_eq!(
            sample(&sampler, 9, 99_999, (20, false)),
            None,
            "too short to mean anything"
        );
        assert_eq!(sample(&sampler, 10, MS, (20, false)), Some(21));
        for now in 11..1_000 {
            assert_eq!(sample(&sampler, now, MS, (20, false)), None);
        }
        assert_eq!(
            sample(&sampler, 10 + 1_000 * MS, MS, (21, true)),
            Some(18).map(|l: usize| l.max(20))
        );
    }

    #[test]
    fn a_sample_does_not_overwrite_a_limit_that_was_fixed_meanwhile() {
        let each_call = AdaptiveLimit {
            window: None,
            ..AdaptiveLimit::aimd()
        };
        let sampler = Sampler::new(each_call);
        assert_eq!(sample(&sampler, 1, MS, (20, false)), Some(21));
        // A call has found the sampler switched on, and reports only now.
        sampler.switch_off(|was_on| assert!(was_on && sampler.estimator.try_lock().is_err()));
        assert_eq!(sample(&sampler, 2, MS, (20, false)), None);
    }
}
