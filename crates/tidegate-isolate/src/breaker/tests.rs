//! The rules of the breaker, one by one. The model in `tests/it` tests them together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::OnUnhandled;
use tidegate_core::internal::as_nanos;

use super::*;
use crate::metrics::WindowConfig;

const MS: u64 = 1_000_000;
const SLEEP: u64 = 5_000 * MS;

/// Judged by the last ten calls, starting with the second.
fn quick() -> BreakerConfig {
    BreakerConfig {
        window: BreakerWindow::Count(10),
        min_calls: 2,
        ..BreakerConfig::default()
    }
}

pub(super) fn breaker(config: BreakerConfig) -> Breaker {
    Breaker::new(&"dep".into(), config, Vec::new(), OnUnhandled::default()).unwrap()
}

impl Breaker {
    pub(super) fn try_pass(&self, now: u64) -> Result<Pass<'_>, BreakerOpenError> {
        let ticket = self.try_ticket(now)?;
        Ok(Pass {
            of: self,
            ticket: Some(ticket),
            now,
        })
    }

    /// Returns the calls of the window, and how many failed and were slow.
    fn counts(&self, now: u64) -> (u64, u64, u64) {
        let time = self.window.as_ref();
        let time = time.map(|window| health::reading(window.rolling(now)));
        let reading = time.unwrap_or_else(|| self.lock().last.reading());
        (reading.total, reading.errors, reading.slow)
    }
}

/// A call that passed. A probe that is dropped opens the breaker again.
#[must_use = "dropping a probe opens the breaker again"]
#[derive(Debug)]
pub(super) struct Pass<'a> {
    of: &'a Breaker,
    ticket: Option<Ticket>,
    now: u64,
}

impl Pass<'_> {
    pub(super) fn success(self, now: u64, took: Duration) {
        self.settle(Settlement::Success, now, took);
    }

    pub(super) fn failure(self, now: u64, took: Duration) {
        self.settle(Settlement::Failure, now, took);
    }

    pub(super) fn ignore(self, now: u64) {
        self.settle(Settlement::Ignored, now, Duration::ZERO);
    }

    pub(super) fn is_probe(&self) -> bool {
        self.ticket.is_some_and(|ticket| ticket.is_probe)
    }

    fn settle(mut self, settlement: Settlement, now: u64, took: Duration) {
        if let Some(ticket) = self.ticket.take() {
            self.of.settle(ticket, settlement, now, as_nanos(took));
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // The time of the drop is unknown, so the sleep counts from the time at which the call
            // passed.
            self.of.settle(ticket, Settlement::Dropped, self.now, 0);
        }
    }
}

pub(super) fn fail(breaker: &Breaker, now: u64) {
    let pass = breaker.try_pass(now).expect("it lets calls through");
    pass.failure(now, Duration::ZERO);
}

pub(super) fn succeed(breaker: &Breaker, now: u64) {
    let pass = breaker.try_pass(now).expect("it lets calls through");
    pass.success(now, Duration::ZERO);
}

/// Returns a breaker that is open since `now`.
fn tripped(config: BreakerConfig, now: u64) -> Breaker {
    let breaker = breaker(config);
    trip(&breaker, now);
    breaker
}

/// Opens a closed breaker.
fn trip(breaker: &Breaker, now: u64) {
    fail(breaker, now);
    fail(breaker, now);
    assert_eq!(breaker.state(now), BreakerState::Open);
}

#[test]
fn trips_when_a_bucket_closes_and_not_before() {
    let breaker = breaker(BreakerConfig::default());
    for _ in 0..20 {
        fail(&breaker, 100 * MS);
    }
    assert_eq!(breaker.state(499 * MS), BreakerState::Closed);
    assert_eq!(breaker.state(500 * MS), BreakerState::Open);
}

#[test]
fn needs_the_volume_and_the_percentage() {
    for (calls, failures, trips) in [(19, 19, false), (20, 10, true), (20, 9, false)] {
        let breaker = breaker(BreakerConfig::default());
        (0..failures).for_each(|_| fail(&breaker, MS));
        (failures..calls).for_each(|_| succeed(&breaker, MS));
        assert_eq!(breaker.is_open(500 * MS), trips, "{failures} of {calls}");
    }
}

#[test]
fn a_pause_does_not_hide_a_trip() {
    let breaker = breaker(BreakerConfig::default());
    (0..20).for_each(|_| fail(&breaker, 0));
    // Judged only now, but open since the first bucket closed: the sleep ends at 5.5 s.
    assert!(breaker.try_pass(5_500 * MS).is_err());
    assert!(breaker.try_pass(5_500 * MS + 1).unwrap().is_probe());
}

#[test]
fn denies_until_the_sleep_is_over_then_lets_one_probe_through() {
    let breaker = tripped(quick(), 0);
    let open = breaker.try_pass(SLEEP).unwrap_err();
    assert_eq!(open.retry_after, Some(Duration::from_nanos(1)));
    let probe = breaker.try_pass(SLEEP + 1).unwrap();
    assert!(probe.is_probe());
    assert_eq!(breaker.state(SLEEP + 1), BreakerState::HalfOpen);
    assert!(breaker.try_pass(SLEEP + 2).is_err() && breaker.is_open(SLEEP + 2));
    probe.success(SLEEP + 3, Duration::ZERO);
    assert_eq!(breaker.state(SLEEP + 3), BreakerState::Closed);
    assert_eq!(
        breaker.counts(SLEEP + 3),
        (0, 0, 0),
        "the window begins anew"
    );
}

#[test]
fn a_failing_or_dropped_probe_opens_again_with_a_new_sleep() {
    let breaker = tripped(quick(), 0);
    let now = SLEEP + 1;
    breaker
        .try_pass(now)
        .unwrap()
        .failure(now + 5, Duration::ZERO);
    assert!(breaker.try_pass(now + 5 + SLEEP).is_err());
    let probe = breaker.try_pass(now + 6 + SLEEP).unwrap();
    drop(probe);
    assert_eq!(breaker.state(now + 6 + SLEEP), BreakerState::Open);
    assert_eq!(breaker.transitions(), [0, 3, 2, 0]);
}

#[test]
fn only_the_probe_decides() {
    let breaker = breaker(quick());
    let old = [(); 4].map(|()| breaker.try_pass(0).unwrap());
    fail(&breaker, 0);
    fail(&breaker, 0);
    let probe = breaker.try_pass(SLEEP + 1).unwrap();
    let [good, bad, ..] = old;
    good.success(SLEEP + 2, Duration::ZERO);
    assert_eq!(breaker.state(SLEEP + 2), BreakerState::HalfOpen);
    bad.failure(SLEEP + 2, Duration::ZERO);
    let _denied = breaker.try_pass(SLEEP + 3).unwrap_err();
    assert_eq!(breaker.state(SLEEP + 3), BreakerState::HalfOpen);
    probe.success(SLEEP + 4, Duration::ZERO);
    assert_eq!(breaker.state(SLEEP + 4), BreakerState::Closed);
    assert_eq!(
        breaker.counts(SLEEP + 4),
        (0, 0, 0),
        "old calls do not count"
    );
}

#[test]
fn a_bad_request_frees_the_place_of_the_probe() {
    let breaker = tripped(quick(), 0);
    breaker.try_pass(SLEEP + 1).unwrap().ignore(SLEEP + 2);
    assert_eq!(breaker.state(SLEEP + 2), BreakerState::HalfOpen);
    assert!(breaker.try_pass(SLEEP + 3).unwrap().is_probe());
}

#[test]
fn several_probes_and_several_successes() {
    let config = BreakerConfig {
        probes: 2,
        successes: 3,
        ..quick()
    };
    let breaker = tripped(config, 0);
    let now = SLEEP + 1;
    let (one, two) = (
        breaker.try_pass(now).unwrap(),
        breaker.try_pass(now).unwrap(),
    );
    assert!(breaker.try_pass(now).is_err(), "two at a time");
    one.success(now, Duration::ZERO);
    let three = breaker.try_pass(now).unwrap();
    two.success(now, Duration::ZERO);
    assert!(breaker.try_pass(now).is_err(), "the third is out already");
    three.success(now, Duration::ZERO);
    assert_eq!(breaker.state(now), BreakerState::Closed);
}

#[test]
fn a_probe_that_takes_too_long_opens_again() {
    let config = BreakerConfig {
        probe_limit: Duration::from_secs(1),
        ..quick()
    };
    let breaker = tripped(config, 0);
    let probe = breaker.try_pass(SLEEP + 1).unwrap();
    assert!(breaker.try_pass(SLEEP + 1_000 * MS).is_err());
    assert_eq!(breaker.state(SLEEP + 1), BreakerState::HalfOpen);
    assert!(breaker.try_pass(SLEEP + 1_000 * MS + 2).is_err());
    assert_eq!(breaker.state(SLEEP + 2_000 * MS), BreakerState::Open);
    probe.success(SLEEP + 3_000 * MS, Duration::ZERO);
    assert_eq!(breaker.state(SLEEP + 3_000 * MS), BreakerState::Open);
}

#[test]
fn the_sleep_grows_with_each_relapse_up_to_its_bound() {
    let config = BreakerConfig {
        sleep: Duration::from_secs(1),
        sleep_factor: 2.0,
        max_sleep: Duration::from_secs(3),
        ..quick()
    };
    let breaker = tripped(config, 0);
    let mut now = 0;
    for seconds in [1, 2, 3, 3] {
        let sleep = seconds * 1_000 * MS;
        assert!(breaker.try_pass(now + sleep).is_err(), "{seconds}");
        now += sleep + 1;
        breaker.try_pass(now).unwrap().failure(now, Duration::ZERO);
    }
}

#[test]
fn slow_calls_trip_it_too() {
    let config = BreakerConfig {
        slow_call: Some(Duration::from_millis(10)),
        slow_percent: 50,
        ..quick()
    };
    let breaker = breaker(config);
    let pass = |now| breaker.try_pass(now).unwrap();
    pass(0).success(0, Duration::from_millis(10));
    assert!(!breaker.is_open(0), "ten is not slow yet");
    pass(0).success(0, Duration::from_millis(11));
    assert_eq!(breaker.counts(0), (2, 0, 1));
    assert!(breaker.is_open(0));
    let now = SLEEP + 1;
    let probe = breaker.try_pass(now).unwrap();
    probe.success(now, Duration::from_millis(11));
    assert!(breaker.is_open(now), "a probe that is slow proves nothing");
    let now = now + SLEEP + 1;
    let probe = breaker.try_pass(now).unwrap();
    probe.success(now, Duration::from_millis(10));
    assert!(!breaker.is_open(now));
}

#[test]
fn a_ramp_lets_a_rising_share_through() {
    let config = BreakerConfig {
        ramp: Some(Duration::from_secs(10)),
        ..quick()
    };
    let breaker = tripped(config, 0);
    let start = SLEEP + 1;
    breaker
        .try_pass(start)
        .unwrap()
        .success(start, Duration::ZERO);
    assert_eq!(breaker.state(start), BreakerState::Ramping);
    let passed = |at: u64| {
        let pass = |_: &u32| breaker.try_pass(start + at).map(|p| p.ignore(at)).is_ok();
        (0..100).filter(pass).count()
    };
    assert_eq!((passed(0), passed(5_000 * MS)), (10, 50));
    assert_eq!(passed(10_000 * MS), 100);
    assert_eq!(breaker.state(start + 10_000 * MS), BreakerState::Closed);
}

#[test]
fn a_failing_ramp_opens_again() {
    let config = BreakerConfig {
        ramp: Some(Duration::from_secs(10)),
        ..quick()
    };
    let breaker = tripped(config, 0);
    let start = SLEEP + 1;
    breaker
        .try_pass(start)
        .unwrap()
        .success(start, Duration::ZERO);
    let mut failures = 0;
    while failures < 2 {
        if let Ok(pass) = breaker.try_pass(start + 1) {
            pass.failure(start + 1, Duration::ZERO);
            failures += 1;
        }
    }
    assert_eq!(breaker.state(start + 2), BreakerState::Open);
}

#[test]
fn forced_open_beats_forced_closed_beats_the_state() {
    let breaker = tripped(quick(), 0);
    let force = |mode| {
        breaker
            .configure(BreakerConfig { mode, ..quick() })
            .unwrap()
    };
    force(BreakerMode::ForcedClosed);
    assert!(!breaker.is_open(1) && breaker.try_pass(1).is_ok());
    assert_eq!(
        breaker.state(1),
        BreakerState::Open,
        "the state goes on beneath"
    );
    force(BreakerMode::Normal);
    assert!(breaker.try_pass(1).is_err(), "removing the force may deny");
    force(BreakerMode::ForcedOpen);
    assert!(breaker.is_open(SLEEP * 2) && breaker.try_pass(SLEEP * 2).is_err());
}

#[test]
fn disabled_allows_all_and_counts_nothing() {
    let config = BreakerConfig {
        mode: BreakerMode::Disabled,
        ..quick()
    };
    let breaker = breaker(config);
    (0..10).for_each(|now| fail(&breaker, now));
    assert!(!breaker.is_open(10));
    assert_eq!(breaker.counts(10), (0, 0, 0));
}

#[test]
fn metrics_only_goes_through_its_states_and_denies_nothing() {
    let config = BreakerConfig {
        mode: BreakerMode::MetricsOnly,
        ..quick()
    };
    let breaker = breaker(config);
    fail(&breaker, 0);
    fail(&breaker, 0);
    assert_eq!(breaker.state(0), BreakerState::Open);
    assert!(breaker.try_pass(1).is_ok());
    succeed(&breaker, SLEEP + 1);
    assert_eq!(breaker.state(SLEEP + 1), BreakerState::Closed);
}

#[test]
fn changes_are_reported_in_order_with_their_time() {
    let notified = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&notified);
    let mut breaker = breaker(quick());
    breaker.listeners = vec![
        Arc::new(|_| panic!("on purpose")),
        Arc::new(move |change| tell.lock().unwrap().push((change.to, change.at_nanos))),
    ];
    fail(&breaker, 7);
    fail(&breaker, 8);
    succeed(&breaker, 9 + SLEEP);
    let expected = [
        (BreakerState::Open, 8),
        (BreakerState::HalfOpen, 9 + SLEEP),
        (BreakerState::Closed, 9 + SLEEP),
    ];
    assert_eq!(*notified.lock().unwrap(), expected);
    let times = breaker.time_in_states(10 + SLEEP);
    let time = |state: BreakerState| times[state as usize].as_nanos() as u64;
    assert_eq!(time(BreakerState::Open), SLEEP + 1);
    assert_eq!(time(BreakerState::Closed), 9);
}

#[test]
fn bad_settings_name_the_property_and_the_old_ones_stay() {
    let breaker = breaker(quick());
    type Change = fn(&mut BreakerConfig);
    let wrong: [(Change, &str); 10] = [
        (|c| c.min_calls = 0, "requestVolumeThreshold"),
        (|c| c.error_percent = 0, "errorThresholdPercentage"),
        (|c| c.slow_percent = 101, "slow_percent"),
        (|c| c.sleep_factor = 0.5, "sleep_factor"),
        (|c| c.sleep_factor = f64::NAN, "sleep_factor"),
        (|c| c.probes = 0, "probes.maxConcurrentRequests"),
        (|c| c.successes = 0, "probes.requiredSuccesses"),
        (
            |c| c.probe_limit = Duration::ZERO,
            "probes.timeoutInMilliseconds",
        ),
        (|c| c.window = BreakerWindow::Count(0), "window"),
        (|c| c.window = BreakerWindow::Count(11), "window"),
    ];
    for (change, property) in wrong {
        let mut config = quick();
        change(&mut config);
        let error = breaker.configure(config).unwrap_err();
        assert!(error.property().contains(property), "{error}");
        assert_eq!(error.key(), "dep");
    }
    let window = BreakerWindow::Time(WindowConfig::new(Duration::from_millis(10), 3));
    let config = BreakerConfig { window, ..quick() };
    let error = config.validate(&"k".into()).unwrap_err();
    let property = "metrics.healthSnapshot.intervalInMilliseconds";
    assert_eq!((error.key(), error.property()), ("k", property));
    assert_eq!(breaker.lock().config, quick());
}

#[test]
fn a_reset_closes_the_breaker_from_every_state() {
    let ramping = BreakerConfig {
        ramp: Some(Duration::from_secs(10)),
        ..quick()
    };
    let notified = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&notified);
    let mut breaker = tripped(ramping, 0);
    breaker.listeners = vec![Arc::new(move |change| {
        note.lock().unwrap().push((change.from, change.to));
    })];
    let now = SLEEP + 1;
    breaker.reset(1);
    assert_eq!(breaker.state(1), BreakerState::Closed, "from open");
    assert_eq!(breaker.counts(1), (0, 0, 0));
    trip(&breaker, 2);
    let probe = breaker.try_pass(now + 2).unwrap();
    assert_eq!(breaker.state(now + 2), BreakerState::HalfOpen);
    breaker.reset(now + 3);
    assert_eq!(breaker.state(now + 3), BreakerState::Closed);
    probe.failure(now + 4, Duration::ZERO);
    assert_eq!(breaker.state(now + 4), BreakerState::Closed, "an old probe");
    trip(&breaker, now + 5);
    let probe = breaker.try_pass(2 * now + 6).unwrap();
    probe.success(2 * now + 7, Duration::ZERO);
    assert_eq!(breaker.state(2 * now + 7), BreakerState::Ramping);
    breaker.reset(2 * now + 8);
    assert_eq!(breaker.state(2 * now + 8), BreakerState::Closed);
    let resets = notified.lock().unwrap();
    let to_closed = resets.iter().filter(|(_, to)| *to == BreakerState::Closed);
    let from: Vec<_> = to_closed.map(|(from, _)| *from).collect();
    use BreakerState::{HalfOpen, Open, Ramping};
    assert_eq!(from, [Open, HalfOpen, Ramping], "listeners hear of it");
}

#[test]
fn a_reset_forgets_the_calls_in_flight_and_the_relapses() {
    let config = BreakerConfig {
        sleep_factor: 2.0,
        ..quick()
    };
    let breaker = tripped(config, 0);
    let probe = breaker.try_pass(SLEEP + 1).unwrap();
    probe.failure(SLEEP + 1, Duration::ZERO);
    let longer = breaker.try_pass(SLEEP + 1).unwrap_err().retry_after;
    assert_eq!(longer, Some(Duration::new(10, 1)), "a relapse");
    let at = SLEEP + 2;
    breaker.reset(at);
    let before = breaker.try_pass(at).unwrap();
    let entered = breaker.transitions();
    breaker.reset(at);
    assert_eq!(breaker.transitions(), entered, "it was closed already");
    before.failure(at, Duration::ZERO);
    assert_eq!(breaker.counts(at), (0, 0, 0), "a call of before the reset");
    trip(&breaker, at);
    let first = breaker.try_pass(at).unwrap_err().retry_after;
    assert_eq!(first, Some(Duration::new(5, 1)), "the first sleep again");
}

#[test]
fn a_reset_leaves_the_mode() {
    let config = BreakerConfig {
        mode: BreakerMode::ForcedOpen,
        ..quick()
    };
    let breaker = breaker(config);
    breaker.reset(1);
    assert_eq!(breaker.mode(), BreakerMode::ForcedOpen);
    assert!(breaker.try_pass(2).is_err());
}

#[test]
fn exactly_one_thread_gets_the_probe() {
    for _ in 0..100 {
        let breaker = tripped(quick(), 0);
        let probes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    if let Ok(pass) = breaker.try_pass(SLEEP + 1) {
                        probes.fetch_add(1, Ordering::Relaxed);
                        std::mem::forget(pass);
                    }
                });
            }
        });
        assert_eq!(probes.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn callers_that_judge_a_window_of_long_ago_let_one_probe_through() {
    for _ in 0..500 {
        let breaker = breaker(BreakerConfig::default());
        (0..20).for_each(|_| fail(&breaker, 0));
        let probes = AtomicU64::new(0);
        let together = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    together.wait();
                    // The first caller finds that the breaker has been open for a long time.
                    if let Ok(pass) = breaker.try_pass(60_000 * MS) {
                        probes.fetch_add(1, Ordering::Relaxed);
                        std::mem::forget(pass);
                    }
                });
            }
        });
        assert_eq!(probes.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_verdict_that_ends_its_own_phase_is_not_counted() {
    let breaker = breaker(BreakerConfig::default());
    let late = breaker.try_pass(0).unwrap();
    (0..20).for_each(|_| fail(&breaker, 0));
    late.failure(500 * MS, Duration::ZERO);
    assert_eq!(breaker.state(500 * MS), BreakerState::Open);
    assert_eq!(breaker.counts(500 * MS), (20, 20, 0), "the trip came first");
}

#[test]
fn times_at_the_end_of_time_do_not_overflow() {
    let window = WindowConfig::new(Duration::from_nanos(10), 10);
    let config = BreakerConfig {
        window: BreakerWindow::Time(window),
        min_calls: 2,
        ..BreakerConfig::default()
    };
    let breaker = tripped_at_an_edge(config);
    assert!(breaker.try_pass(u64::MAX).is_err(), "the sleep never ends");
    assert_eq!(breaker.state(u64::MAX), BreakerState::Open);
    let times = breaker.time_in_states(u64::MAX);
    assert_eq!(
        times.iter().sum::<Duration>(),
        Duration::from_nanos(u64::MAX)
    );
    // The clock of another thread may be behind: no time is counted twice.
    let breaker = tripped(quick(), u64::MAX - 5);
    assert_eq!(
        breaker.time_in_states(3)[BreakerState::Closed as usize].as_nanos(),
        (u64::MAX - 5).into()
    );
    assert_eq!(
        breaker.time_in_states(3)[BreakerState::Open as usize],
        Duration::ZERO
    );
}

/// Two failures in the second-last bucket of all time, judged in the last.
fn tripped_at_an_edge(config: BreakerConfig) -> Breaker {
    let breaker = breaker(config);
    fail(&breaker, u64::MAX - 1);
    fail(&breaker, u64::MAX - 1);
    assert_eq!(breaker.state(u64::MAX), BreakerState::Open);
    breaker
}
