//! Tests of the keys, the configuration and the table.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate::isolate::BreakerState;

use super::keys::{Keys, Wish};
use super::settings::{FILE, Settings};
use super::switches::Switches;
use super::table::{Guard, OpenSince, live, summary};
use super::upstreams::{Mode, NAMES, Upstreams};
use crate::config::load;
use crate::load::{Due, Ended, Outcome, Tally};
use crate::serve::Knobs as _;

fn settings() -> Settings {
    Settings {
        ports: (0, 0),
        token: "0123456789abcdef".to_owned(),
        upstreams: NAMES.map(|name| (name, ([127, 0, 0, 1], 1).into())).into(),
        has_bulkheads: AtomicBool::new(true),
    }
}

#[test]
fn the_configuration_can_be_used_with_and_without_bulkheads() {
    let settings = settings();
    let read = || {
        let loaded = load(Path::new(FILE), &settings, &|name| settings.variable(name)).unwrap();
        let mistakes = loaded.mistakes.render(&loaded.sources);
        loaded.config.unwrap_or_else(|| panic!("{mistakes}"))
    };
    let guarded = read();
    assert_eq!((guarded.routes.len(), guarded.upstreams.len()), (4, 4));
    let mut routes = guarded.routes.iter();
    assert!(routes.all(|route| route.value.breaker.is_some()));
    settings.has_bulkheads.store(false, Ordering::Relaxed);
    let open = read();
    for route in &open.routes {
        assert!(route.value.breaker.is_none());
        assert_eq!(route.value.limit.max.0, 100_000);
    }
}

#[test]
fn keys_choose_an_upstream_and_what_it_does() {
    let mut keys = Keys::default();
    assert_eq!(keys.pressed(b's'), Some(Wish::Mode(0, Mode::Slow)));
    assert_eq!(keys.pressed(b'3'), None);
    assert_eq!(keys.pressed(b'D'), Some(Wish::Mode(2, Mode::Dead)));
    assert_eq!(keys.pressed(b'b'), Some(Wish::Bulkheads));
    assert_eq!(keys.pressed(b'q'), Some(Wish::Quit));
    assert_eq!(keys.pressed(b'5'), None);
    assert_eq!(keys.pressed(0x1b), None);
    assert!(keys.help()[0].contains("3[flaky]"), "{:?}", keys.help());
    for mode in [
        Mode::Normal,
        Mode::Slow,
        Mode::Failing,
        Mode::Hanging,
        Mode::Dead,
    ] {
        let key = mode.name().as_bytes()[0];
        assert_eq!(keys.pressed(key), Some(Wish::Mode(2, mode)));
    }
}

fn tally() -> Tally {
    let mut tally = Tally::new(Duration::from_millis(100));
    let refused = Outcome::Reason(503, "limit".to_owned());
    for (outcome, millis, count) in [
        (Outcome::Status(200), 51, 61),
        (Outcome::Status(200), 249, 1),
        (refused, 1, 38),
    ] {
        for _ in 0..count {
            tally.record(&Ended {
                due: Due {
                    planned: 0,
                    number: 0,
                },
                sent: 0,
                now: millis * 1_000_000,
                outcome: outcome.clone(),
                bytes: 1,
            });
        }
    }
    tally
}

#[test]
fn the_table_has_the_columns_of_the_demo() {
    let counts = tally().total;
    let guard = |state, probe_in| Guard {
        active: 10,
        limit: 10,
        state: Some(state),
        probe_in,
    };
    let probe = Some(Duration::from_millis(3100));
    let lines = live(
        &[
            ("slow", &counts, guard(BreakerState::Closed, None)),
            ("flaky", &counts, guard(BreakerState::Open, probe)),
        ],
        0.25,
    );
    assert_eq!(
        lines,
        [
            "route   req/s  ok    slow  refused  broken  p50    p99     limit  breaker",
            "/slow   400    61 %  1 %   38 %     0       51 ms  249 ms  10/10  closed",
            "/flaky  400    61 %  1 %   38 %     0       51 ms  249 ms  10/10  open, probe in 3.1 s",
        ]
    );
}

#[test]
fn the_summary_names_the_outcomes() {
    let tally = tally();
    let lines = summary(&[("slow", &tally)], 8.0);
    assert_eq!(lines[0], "summary of 8.0 s");
    assert_eq!(
        lines[2],
        "/slow  100       61 %  1 %   38 %     0       51 ms  249 ms"
    );
    assert_eq!(lines[3], "/slow: 62 x 200, 38 x 503 limit");
}

#[test]
fn the_time_of_an_open_breaker_counts_from_its_last_opening() {
    let mut open = OpenSince::default();
    let secs = Duration::from_secs;
    assert_eq!(open.update(0, secs(0)), secs(0));
    assert_eq!(open.update(1, secs(1)), secs(1));
    assert_eq!(open.update(1, secs(3)), secs(3));
    // It was closed in between, and is open again for one second.
    assert_eq!(open.update(2, secs(4)), secs(1));
}

#[test]
fn the_page_has_the_same_switches_as_the_keys() {
    let switches = Switches {
        upstreams: Upstreams::start().unwrap(),
        settings: Arc::new(settings()),
        operation: OnceLock::new(),
    };
    let values = |switches: &Switches| -> Vec<String> {
        let knobs = switches.list().into_iter();
        knobs
            .map(|knob| format!("{} {}", knob.name, knob.value))
            .collect()
    };
    let before = values(&switches);
    assert_eq!(
        before[2..],
        ["flaky normal", "blocking normal", "bulkheads on"]
    );
    for (knob, choice) in [("flaky", "failing"), ("bulkheads", "off")] {
        let done = switches.turn(knob, choice);
        assert_eq!(done, Ok(format!("{knob}: {choice}")));
    }
    let after = values(&switches);
    assert_eq!(
        after[2..],
        ["flaky failing", "blocking normal", "bulkheads off"]
    );
    for (knob, choice) in [("flaky", "odd"), ("none", "dead"), ("bulkheads", "maybe")] {
        assert!(switches.turn(knob, choice).unwrap_err().contains('`'));
    }
    assert_eq!(values(&switches), after, "nothing else is switched");
}
