//! The samples of an adaptive limit: collected by every call, evaluated once per window.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::internal::as_nanos;

use super::estimator::{Estimator, Seen};
use super::limit::{AdaptiveLimit, SampleWindow};
use super::moves::LimitReason;
use crate::lock::lock;

/// A window that has not ended after this time is discarded: its first calls say nothing about the
/// last ones.
const OLDEST: u64 = 300 * 1_000_000_000;

/// The latency without a queue is measured with this many calls, or with fewer if a window has been over
/// for `PROBE_WAIT`: few calls are let through in the meantime.
const PROBE_SAMPLES: u64 = 50;
const PROBE_WAIT: u64 = 10 * 1_000_000_000;

/// Collects samples without a lock and passes them to the algorithm at the end of a window. The
/// settings can change while it is in use, and it can be switched off and on again.
///
/// A new limit is applied under the lock of the algorithm. So limits take effect in the order in
/// which they were computed, and none after the sampler was switched off.
#[derive(Debug)]
pub(crate) struct Sampler {
    is_on: AtomicBool,
    /// The settings of the window.
    length: AtomicU64,
    min_samples: AtomicU64,
    min_nanos: AtomicU64,
    /// When the window begins: calls that end before began under another limit.
    from: AtomicU64,
    /// The earliest end of the window.
    next: AtomicU64,
    /// When a window was lost: calls that began before say nothing about the limit since then.
    lost_at: AtomicU64,
    /// The sum and the number of the latencies: of samples, and of calls that were shorter than
    /// `min_nanos`. The second matter only if there are no others.
    sums: [AtomicU64; 2],
    counts: [AtomicU64; 2],
    drops: AtomicU64,
    in_flight: AtomicU64,
    estimator: Mutex<Estimator>,
}

impl Sampler {
    pub(crate) fn new(config: AdaptiveLimit) -> Self {
        let sampler = Self {
            is_on: AtomicBool::new(true),
            length: AtomicU64::new(0),
            min_samples: AtomicU64::new(0),
            min_nanos: AtomicU64::new(0),
            from: AtomicU64::new(0),
            next: AtomicU64::new(0),
            lost_at: AtomicU64::new(0),
            sums: Default::default(),
            counts: Default::default(),
            drops: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
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
                estimator.lasting()
            } else {
                config.initial as f64
            };
            *estimator = Estimator::new(config.clone());
            estimator.limit = limit.clamp(config.min as f64, config.max as f64);
        }
        let window = config.window.unwrap_or(SampleWindow::EACH_CALL);
        self.length
            .store(as_nanos(window.length), Ordering::Relaxed);
        self.min_samples
            .store(window.min_samples, Ordering::Relaxed);
        self.set_least(&estimator);
        apply(estimator.limit as usize);
    }

    /// Adds the sample of a call that ended at `now`. If a new limit was computed, calls `apply`
    /// with it and with the reason of its move, and returns `true`.
    pub(crate) fn sample(
        &self,
        now: u64,
        nanos: u64,
        (in_flight, dropped): (usize, bool),
        mut apply: impl FnMut(usize, Option<LimitReason>),
    ) -> bool {
        let mut is_new = false;
        if now > self.next.load(Ordering::Relaxed).saturating_add(OLDEST) {
            is_new = self.discard(now, &mut apply);
        }
        if now < self.from.load(Ordering::Relaxed)
            || now.saturating_sub(nanos) < self.lost_at.load(Ordering::Relaxed)
        {
            return is_new;
        }
        let is_short = nanos < self.min_nanos.load(Ordering::Relaxed);
        self.sums[usize::from(is_short)].fetch_add(nanos, Ordering::Relaxed);
        let count = self.counts[usize::from(is_short)].fetch_add(1, Ordering::Relaxed) + 1;
        let next = self.next.load(Ordering::Relaxed);
        if is_short && now < next.saturating_add(PROBE_WAIT) && self.has_samples() {
            return is_new;
        }
        if self.in_flight.load(Ordering::Relaxed) < in_flight as u64 {
            self.in_flight
                .fetch_max(in_flight as u64, Ordering::Relaxed);
        }
        if dropped {
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
        let min_samples = self.min_samples.load(Ordering::Relaxed);
        let is_lost = self.drops.load(Ordering::Relaxed) * 2 > count;
        // Many calls that are lost are reason enough to close a window early.
        if count < min_samples || now < next && !(is_lost && count >= PROBE_SAMPLES) {
            return is_new;
        }
        // The thread that gets the lock closes the window; the others continue.
        let Ok(mut estimator) = self.estimator.try_lock() else {
            return is_new;
        };
        let is_enough = count >= PROBE_SAMPLES || is_lost || now >= next.saturating_add(PROBE_WAIT);
        if !self.is_on() || estimator.is_probing() && !is_enough {
            return is_new;
        }
        let seen = self.close(now, least_of(&estimator));
        let (limit, reason) = estimator.update(seen);
        match (estimator.compares(), seen.is_lost()) {
            (false, _) => self.open(now, 0),
            (true, false) => self.open(now, seen.nanos),
            // How long callers have waited in vain is not how long calls take.
            (true, true) => {
                self.lost_at.store(now, Ordering::Relaxed);
                self.open(now, 0);
            }
        }
        self.set_least(&estimator);
        apply(limit, reason);
        true
    }

    fn has_samples(&self) -> bool {
        self.counts[0].load(Ordering::Relaxed) > 0
    }

    /// Takes the samples of the window. `least` is the shortest latency that says something: calls that
    /// are faster do not differ.
    fn close(&self, now: u64, least: u64) -> Seen {
        let take = |kind: usize| {
            let count = self.counts[kind].swap(0, Ordering::Relaxed);
            (self.sums[kind].swap(0, Ordering::Relaxed), count)
        };
        let (samples, short) = (take(0), take(1));
        let (sum, count) = match samples.1 < self.min_samples.load(Ordering::Relaxed) {
            true if short.1 > samples.1 => short,
            _ => samples,
        };
        let count = count.max(1);
        let elapsed = now.saturating_sub(self.from.load(Ordering::Relaxed));
        Seen {
            nanos: (sum / count).max(least),
            unanswered: sum as f64 / elapsed.max(1) as f64,
            in_flight: self.in_flight.swap(0, Ordering::Relaxed) as usize,
            count,
            drops: self.drops.swap(0, Ordering::Relaxed),
        }
    }

    /// Begins a window for calls that take about `nanos`. Those that are in flight now end before it
    /// begins, and those that begin now end in it.
    fn open(&self, now: u64, nanos: u64) {
        let length = self.length.load(Ordering::Relaxed);
        let length = length.max(nanos.saturating_mul(3));
        self.from
            .store(now.saturating_add(nanos), Ordering::Relaxed);
        self.next
            .store(now.saturating_add(length), Ordering::Relaxed);
    }

    /// Sets the shortest latency that is a sample. A measurement takes them all, because calls that do not
    /// queue may be faster.
    fn set_least(&self, estimator: &Estimator) {
        let least = match estimator.is_probing() {
            true => 0,
            false => least_of(estimator),
        };
        self.min_nanos.store(least, Ordering::Relaxed);
    }

    /// Discards a window that is too old, unless another thread has. Gives up a measurement that is under
    /// way: then calls `apply` with the limit before it, and returns `true`.
    #[cold]
    fn discard(&self, now: u64, apply: &mut dyn FnMut(usize, Option<LimitReason>)) -> bool {
        let Ok(mut estimator) = self.estimator.try_lock() else {
            return false;
        };
        if now <= self.next.load(Ordering::Relaxed).saturating_add(OLDEST) {
            return false;
        }
        let _ = self.close(now, 0);
        self.open(now, 0);
        let given_up = estimator.give_up().filter(|_| self.is_on());
        self.set_least(&estimator);
        given_up
            .map(|limit| apply(limit, Some(LimitReason::Probe)))
            .is_some()
    }
}

/// Returns the shortest latency that says something, by the settings.
fn least_of(estimator: &Estimator) -> u64 {
    let window = estimator.config.window.unwrap_or(SampleWindow::EACH_CALL);
    as_nanos(window.min_latency)
}

#[cfg(test)]
mod tests {
    //! Samples are collected, and new settings are applied.

    use std::time::Duration;

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
    fn samples_of_a_window_are_gathered_and_tiny_ones_ignored() {
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
        assert_eq!(sample(&sampler, 10 + 250 * MS, MS, (21, true)), Some(18));
    }

    /// Passes calls that take `nanos`, each millisecond, with all permits in use, for `ms`. Returns the
    /// last limit.
    fn busy(sampler: &Sampler, (from, ms): (u64, u64), nanos: impl Fn(u64) -> u64) -> usize {
        let mut limit = sampler.estimator.lock().unwrap().limit as usize;
        for n in 0..ms {
            let now = from + n * MS;
            limit = sample(sampler, now, nanos(n), (limit, false)).unwrap_or(limit);
        }
        limit
    }

    #[test]
    fn a_limit_does_not_freeze_where_all_calls_are_fast() {
        for config in [
            AdaptiveLimit::aimd(),
            AdaptiveLimit::vegas(),
            AdaptiveLimit::gradient2(),
        ] {
            let name = format!("{:?}", config.algorithm);
            let low = AdaptiveLimit {
                initial: 1,
                ..config
            };
            let second = 1_000 * MS;
            // Between 1 and 64 microseconds, which is no difference.
            let fast = |n: u64| 1_000_u64 << (n % 7);
            let sampler = Sampler::new(low.clone());
            let limit = busy(&sampler, (second, 20_000), fast);
            assert!(limit > 20, "{name}: {limit}");
            // A call that takes long now and then does not stop it.
            let sampler = Sampler::new(low.clone());
            let rarely = |n: u64| if n.is_multiple_of(5_000) { MS } else { fast(n) };
            let limit = busy(&sampler, (second, 200_000), rarely);
            assert!(limit > 5, "{name}: {limit}");
            // Short calls among others do not count: they never reached the dependency.
            let sampler = Sampler::new(AdaptiveLimit { initial: 40, ..low });
            let mixed = |n: u64| [1_000, 10 * MS][n as usize % 2];
            busy(&sampler, (second, 400), mixed);
            assert!(sampler.close(2 * second, 0).nanos > 9 * MS, "{name}");
        }
    }

    #[test]
    fn a_window_with_samples_from_hours_ago_is_discarded() {
        let sampler = Sampler::new(AdaptiveLimit::aimd());
        let hour = 3_600_000 * MS;
        // Each hour, the first nine of ten samples are drops.
        for now in [1, 2, 3].map(|hours| hours * hour) {
            for _ in 0..9 {
                assert_eq!(sample(&sampler, now, MS, (20, true)), None);
            }
        }
        // The samples of the last hour are a window.
        let end = 3 * hour + 250 * MS;
        assert_eq!(sample(&sampler, end, MS, (20, false)), Some(18));
        for _ in 0..20 {
            assert_eq!(sample(&sampler, end, MS, (20, true)), None);
        }
        assert_eq!(sample(&sampler, 9 * hour, MS, (20, false)), None);
    }

    #[test]
    fn calls_that_began_under_another_limit_are_left_out() {
        let limit = AdaptiveLimit {
            initial: 40,
            ..AdaptiveLimit::vegas()
        };
        let sampler = Sampler::new(limit);
        let window = |start: u64, took: u64| {
            let samples = (0..10).map(|_| sample(&sampler, start, took, (40, false)));
            samples.flatten().last()
        };
        assert_eq!(window(MS, MS), Some(50), "no queue was seen");
        assert_eq!(window(MS + MS / 2, 99 * MS), None, "they began before");
        assert_eq!(window(252 * MS, MS), Some(62), "and are not in this mean");
    }

    /// Returns a sampler that measures the latency of long calls with half of its limit of eight, and
    /// the time.
    fn measuring(window: SampleWindow) -> (Sampler, u64) {
        let limit = AdaptiveLimit {
            initial: 8,
            max: 8,
            window: Some(window),
            ..AdaptiveLimit::vegas()
        };
        let sampler = Sampler::new(limit);
        let (first, second) = (61_000 * MS, 242_000 * MS);
        assert_eq!(samples(&sampler, first, 60_000 * MS), Some(8));
        assert_eq!(samples(&sampler, second, 90_000 * MS), Some(4));
        (sampler, second)
    }

    /// Returns the limit that ten samples lead to.
    fn samples(sampler: &Sampler, now: u64, nanos: u64) -> Option<usize> {
        let samples = (0..10).map(|_| sample(sampler, now, nanos, (8, false)));
        samples.flatten().last()
    }

    #[test]
    fn a_measurement_does_not_wait_for_many_long_calls() {
        let (sampler, since) = measuring(SampleWindow::default());
        let end = since + 270_000 * MS;
        assert_eq!(samples(&sampler, end, 60_000 * MS), None, "too few");
        let later = end + PROBE_WAIT;
        assert_eq!(sample(&sampler, later, 60_000 * MS, (4, false)), Some(8));
    }

    #[test]
    fn a_limit_recovers_soon_from_calls_that_were_given_up_late() {
        let min_samples = 40;
        let sampler = Sampler::new(AdaptiveLimit {
            initial: 40,
            window: Some(SampleWindow {
                min_samples,
                ..SampleWindow::default()
            }),
            ..AdaptiveLimit::vegas()
        });
        let minute = 60_000 * MS;
        let window = |now: u64, took: u64, is_late: bool| {
            let samples = (0..50).map(|_| sample(&sampler, now, took, (4, is_late)));
            samples.flatten().last()
        };
        let lost = minute + MS;
        let samples = (0..40).map(|_| sample(&sampler, lost, minute, (40, true)));
        assert_eq!(samples.flatten().last(), Some(4));
        let [first, second] = [1, 2].map(|windows| lost + windows * 251 * MS);
        assert_eq!(window(first, minute, true), None, "they began before");
        assert_eq!(window(first, MS, false), Some(4));
        assert_eq!(window(second, MS, false), Some(5));
    }

    #[test]
    fn a_measurement_of_before_an_idle_period_is_given_up() {
        let (sampler, since) = measuring(SampleWindow::default());
        let later = since + 270_000 * MS + OLDEST;
        assert_eq!(sample(&sampler, later, MS, (1, false)), None);
        assert_eq!(sample(&sampler, later + 1, MS, (1, false)), Some(8));
        // The sampler does not overwrite a limit that was fixed meanwhile.
        let (sampler, since) = measuring(SampleWindow::default());
        sampler.switch_off(|was_on| assert!(was_on));
        assert_eq!(sample(&sampler, 3 * since + OLDEST, MS, (1, false)), None);
    }

    #[test]
    fn a_measurement_takes_calls_that_are_too_short_otherwise() {
        let min_latency = Duration::from_secs(1);
        let (sampler, since) = measuring(SampleWindow {
            min_latency,
            ..SampleWindow::default()
        });
        let end = since + 270_000 * MS + PROBE_WAIT;
        assert_eq!(samples(&sampler, end, MS), Some(8));
        let least = sampler.min_nanos.load(Ordering::Relaxed);
        assert_eq!(least, 1_000 * MS, "it has ended");
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
