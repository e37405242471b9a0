//! Changes of settings while a breaker is in use: each setting in each state.

use std::time::Duration;

use super::tests::{breaker, fail, succeed};
use super::*;
use BreakerState::{Closed, HalfOpen, Open, Ramping};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

type Change = fn(&mut BreakerConfig);

fn base() -> BreakerConfig {
    BreakerConfig {
        window: BreakerWindow::Count(10),
        min_calls: 4,
        sleep_factor: 2.0,
        probes: 2,
        successes: 3,
        ramp: Some(Duration::from_secs(10)),
        ..BreakerConfig::default()
    }
}

/// Returns a breaker that has been in this state for a second, and the time. A closed one has counted a
/// success, an open one has opened for the second time in a row, and a half-open one has had two
/// successes.
fn in_state(state: BreakerState) -> (Breaker, u64) {
    let (breaker, start) = (breaker(base()), 6 * SECOND);
    succeed(&breaker, 0);
    if state != Closed {
        (0..3).for_each(|_| fail(&breaker, 0));
    }
    match state {
        Closed => {}
        Open => fail(&breaker, start),
        HalfOpen => (0..2).for_each(|_| succeed(&breaker, start)),
        Ramping => (0..3).for_each(|_| succeed(&breaker, start)),
    }
    let now = start + SECOND;
    assert_eq!(breaker.state(now), state);
    (breaker, now)
}

fn change(breaker: &Breaker, change: Change) {
    let mut config = breaker.lock().config.clone();
    change(&mut config);
    breaker.configure(config).unwrap();
}

/// Returns after how many milliseconds of calls that succeed the breaker is closed, if it ever is.
fn closes_after(breaker: &Breaker, now: u64) -> Option<u64> {
    (0..4_000).map(|call| call * 100).find(|ms| {
        let at = now + ms * MS;
        if let Ok(pass) = breaker.try_pass(at) {
            pass.success(at, Duration::from_millis(1));
        }
        breaker.state(at) == Closed
    })
}

/// Returns after how many calls that fail the breaker is open.
fn opens_after(breaker: &Breaker, now: u64) -> u64 {
    let calls = 1..100;
    let mut opens = calls.filter(|_| {
        fail(breaker, now);
        breaker.state(now) == Open
    });
    opens.next().unwrap()
}

#[test]
fn every_setting_acts_in_every_state() {
    const NEVER: u64 = u64::MAX;
    // Failures until a closed breaker opens; milliseconds until one that is open, half open or ramping
    // has closed.
    let rows: [(&str, Change, [u64; 4]); 21] = [
        ("none", |_| (), [3, 19_300, 10_000, 9_000]),
        ("volume", |c| c.min_calls = 2, [1, 19_300, 10_000, 9_000]),
        (
            "errors",
            |c| c.error_percent = 80,
            [4, 19_300, 10_000, 9_000],
        ),
        (
            "rejections",
            |c| c.count_rejections = false,
            [3, 19_300, 10_000, 9_000],
        ),
        (
            "slow",
            |c| c.slow_call = Some(Duration::ZERO),
            [3, NEVER, NEVER, NEVER],
        ),
        (
            "slow percent",
            |c| c.slow_percent = 1,
            [3, 19_300, 10_000, 9_000],
        ),
        (
            "shorter sleep",
            |c| c.sleep /= 2,
            [3, 14_300, 10_000, 9_000],
        ),
        (
            "sleep is over",
            |c| c.sleep /= 20,
            [3, 10_200, 10_000, 9_000],
        ),
        ("longer sleep", |c| c.sleep *= 2, [3, 29_300, 10_000, 9_000]),
        (
            "factor",
            |c| c.sleep_factor = 1.0,
            [3, 14_300, 10_000, 9_000],
        ),
        (
            "longest sleep",
            |c| c.max_sleep = Duration::from_secs(6),
            [3, 15_300, 10_000, 9_000],
        ),
        ("fewer probes", |c| c.probes = 1, [3, 19_300, 10_000, 9_000]),
        ("more probes", |c| c.probes = 9, [3, 19_300, 10_000, 9_000]),
        (
            "one success",
            |c| c.successes = 1,
            [3, 19_100, 10_000, 9_000],
        ),
        (
            "two successes",
            |c| c.successes = 2,
            [3, 19_200, 10_000, 9_000],
        ),
        (
            "more successes",
            |c| c.successes = 5,
            [3, 19_500, 10_200, 9_000],
        ),
        (
            "probe limit",
            |c| c.probe_limit /= 120,
            [3, 19_300, 20_300, 9_000],
        ),
        (
            "longer limit",
            |c| c.probe_limit *= 2,
            [3, 19_300, 10_000, 9_000],
        ),
        ("no ramp", |c| c.ramp = None, [3, 9_300, 0, 0]),
        (
            "shorter ramp",
            |c| c.ramp = Some(Duration::from_secs(2)),
            [3, 11_300, 2_000, 1_000],
        ),
        (
            "longer ramp",
            |c| c.ramp = Some(Duration::from_secs(20)),
            [3, 29_300, 20_000, 19_000],
        ),
    ];
    for (what, with, [opens, closes @ ..]) in rows {
        let (breaker, now) = in_state(Closed);
        change(&breaker, with);
        assert_eq!(opens_after(&breaker, now), opens, "{what}, closed");
        for (state, closes) in [Open, HalfOpen, Ramping].into_iter().zip(closes) {
            let (breaker, now) = in_state(state);
            change(&breaker, with);
            let closed = closes_after(&breaker, now).unwrap_or(NEVER);
            assert_eq!(closed, closes, "{what}, {}", state.name());
        }
    }
}

#[test]
fn every_mode_acts_in_every_state_and_leaves_it_as_it_was() {
    use BreakerMode::{Disabled, ForcedClosed, ForcedOpen, MetricsOnly, Normal};
    for (state, closes) in [
        (Closed, 0),
        (Open, 19_300),
        (HalfOpen, 10_000),
        (Ramping, 9_000),
    ] {
        for mode in BreakerMode::ALL {
            let (breaker, now) = in_state(state);
            let set = |mode| {
                let config = BreakerConfig { mode, ..base() };
                breaker.configure(config).unwrap();
            };
            set(mode);
            let denies = match mode {
                Normal => state.is_open(),
                ForcedOpen => true,
                MetricsOnly | Disabled | ForcedClosed => false,
            };
            assert_eq!(breaker.is_open(now), denies, "{mode:?}, {}", state.name());
            // In the other modes, this call may be a probe, or one of those that a ramp denies.
            if matches!(mode, ForcedOpen | Disabled | ForcedClosed) {
                let pass = breaker.try_pass(now);
                assert_eq!(pass.is_err(), denies, "{mode:?}, {}", state.name());
                drop(pass);
            }
            set(Normal);
            let closed = closes_after(&breaker, now);
            assert_eq!(closed, Some(closes), "{mode:?}, {}", state.name());
        }
    }
}

#[test]
fn a_breaker_that_was_disabled_counts_no_call_that_passed_before() {
    let disable = |breaker: &Breaker| {
        change(breaker, |c| c.mode = BreakerMode::Disabled);
        change(breaker, |c| c.mode = BreakerMode::Normal);
    };
    let (breaker, now) = in_state(Closed);
    let calls: Vec<_> = (0..9).map(|_| breaker.try_pass(now).unwrap()).collect();
    disable(&breaker);
    for call in calls {
        call.failure(now, Duration::ZERO);
    }
    assert_eq!(opens_after(&breaker, now), 3, "as if there had been none");
    let (breaker, now) = in_state(HalfOpen);
    let probe = breaker.try_pass(now).unwrap();
    disable(&breaker);
    probe.failure(now, Duration::ZERO);
    assert_eq!(breaker.state(now), HalfOpen);
    let next = breaker.try_pass(now).expect("its slot is free");
    next.success(now, Duration::ZERO);
    assert_eq!(breaker.state(now), Ramping, "the third success");
}

#[test]
fn a_change_of_the_probes_counts_those_that_are_out() {
    let (breaker, now) = in_state(HalfOpen);
    change(&breaker, |c| c.successes = 9);
    let pass = || breaker.try_pass(now);
    let out = [pass(), pass()].map(Result::unwrap);
    change(&breaker, |c| c.probes = 1);
    let [first, second] = out;
    first.ignore(now);
    assert!(pass().is_err(), "one is out, and one is the most");
    change(&breaker, |c| c.probes = 3);
    let third = [pass(), pass()].map(Result::unwrap);
    assert!(pass().is_err());
    // Two have succeeded before: the breaker closes without one more, and the late ones do not count.
    change(&breaker, |c| (c.successes, c.ramp) = (2, None));
    assert!(pass().is_ok_and(|pass| !pass.is_probe()));
    second.failure(now, Duration::ZERO);
    drop(third);
    assert_eq!(breaker.state(now), Closed);
}

#[test]
fn a_change_closes_a_breaker_without_a_call() {
    for (state, with) in [
        (HalfOpen, (|c| c.successes = 2) as Change),
        (Ramping, |c| c.ramp = None),
    ] {
        let (breaker, now) = in_state(state);
        breaker.catch_up(now);
        assert_eq!(
            breaker.state(now),
            state,
            "nothing follows from its settings"
        );
        change(&breaker, with);
        breaker.catch_up(now);
        assert!(!breaker.is_open(now) && breaker.state(now) != state);
    }
}

#[test]
fn a_ramp_ends_without_a_call() {
    let (breaker, now) = in_state(Ramping);
    assert_eq!(breaker.state(now + 9 * SECOND - 1), Ramping);
    assert_eq!(breaker.state(now + 9 * SECOND), Closed);
}

#[test]
fn a_volume_above_the_window_is_reached_with_all_calls_of_the_window() {
    let (breaker, now) = in_state(Closed);
    change(&breaker, |c| (c.min_calls, c.error_percent) = (11, 90));
    assert_eq!(opens_after(&breaker, now), 9, "after one that succeeded");
}
