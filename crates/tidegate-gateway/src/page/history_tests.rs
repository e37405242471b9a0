//! History and frames, on times that the test gives.

use std::time::Duration;

use tidegate::isolate::{Command, Isolation};
use tidegate_testkit::{has, lacks};

use super::figures::{Counts, Figures};
use super::history::{Entry, History, LOGGED, Sample};
use super::reports::{Knob, LoopReport, RouteReport, ServerReport, UpstreamReport};
use super::series::{SERIES, position};
use super::track::{BUCKETS, COLUMNS, SAMPLES, SPARK};
use super::watch::{Seen, What};

const START: u64 = 1_700_000_000_000;

fn figures(key: &str, ok: u64) -> Figures {
    let counts = Counts {
        ok,
        ..Counts::default()
    };
    Figures {
        key: key.to_owned(),
        group: "shop".to_owned(),
        window: counts,
        totals: counts,
        window_length: Duration::from_secs(10),
        limit: 10,
        breaker: Some(0),
        ..Figures::default()
    }
}

/// Adds a sample with these routes, half a second after the one before.
fn add(history: &mut History, figures: Vec<Figures>) {
    let time_ms = START + (history.sample + 1) * 500;
    history.add(Sample {
        time_ms,
        figures,
        is_tick: true,
        is_ready: true,
        ..Sample::default()
    });
}

fn transition(key: &str, from: usize, to: usize) -> Seen {
    Seen {
        key: key.to_owned(),
        time_ms: START + 7,
        what: What::Breaker { from, to },
    }
}

#[test]
fn a_frame_has_the_rows_that_have_changed_since() {
    let mut history = History::new(START);
    add(&mut history, vec![figures("a", 1), figures("b", 1)]);
    let full = history.snapshot();
    assert!(full.starts_with("{\"version\":1,\"epoch\":\"18bcfe56800\",\"sample\":1,"));
    assert!(full.contains("{\"key\":\"a\",\"group\":\"shop\",\"upstream\":null,\"values\":["));
    add(&mut history, vec![figures("a", 1), figures("b", 2)]);
    let frame = history.changes(1);
    assert!(frame.contains("\"rows\":[[1,["), "{frame}");
    assert!(!frame.contains("[0,[") && !frame.contains("upstreams"));
    // A page that has missed a frame gets both changes, and nothing is kept for it.
    add(&mut history, vec![figures("a", 5), figures("b", 2)]);
    assert!(history.changes(2).contains("\"rows\":[[0,["));
    assert!(history.changes(1).contains("\"rows\":[[0,["));
    assert!(history.changes(1).contains(",[1,["));
    assert!(history.changes(3).contains("\"rows\":[]"));
}

#[test]
fn an_id_resumes_until_the_routes_or_the_process_change() {
    let mut history = History::new(START);
    add(&mut history, vec![figures("a", 1)]);
    let id = history.id();
    assert_eq!(history.resume(&id), Some(1));
    for _ in 0..BUCKETS as u64 * SAMPLES {
        add(&mut history, vec![figures("a", 1)]);
    }
    assert_eq!(history.resume(&id), Some(1), "ten minutes later");
    add(&mut history, vec![figures("a", 1)]);
    assert_eq!(history.resume(&id), None, "the history is shorter");
    let id = history.id();
    add(&mut history, vec![figures("a", 1), figures("b", 1)]);
    assert_eq!(history.resume(&id), None, "there is another route");
    let mut later = History::new(START + 1);
    add(&mut later, vec![figures("a", 1)]);
    assert_eq!(later.resume("18bcfe56800-1"), None, "another process");
    for wrong in ["", "-", "1", "x-1", "18bcfe56801-99", "18bcfe56801--1"] {
        assert_eq!(later.resume(wrong), None, "{wrong}");
    }
}

#[test]
fn counts_are_those_of_their_bucket_and_gauges_the_highest() {
    let mut history = History::new(START);
    let ok = position("ok");
    for sample in 0..2 * SAMPLES {
        let mut now = figures("a", sample * 2);
        now.in_flight = if sample == 3 { 9 } else { 1 };
        add(&mut history, vec![now]);
    }
    let track = &history.tracks["a"];
    let buckets: Vec<f32> = track.buckets.iter().map(|bucket| bucket[ok]).collect();
    // The first sample is where counting begins.
    assert_eq!(buckets, [10.0, 12.0]);
    let highest: Vec<f32> = track.latest(position("in_flight"), 2).collect();
    assert_eq!(highest, [9.0, 1.0]);
    let text = history.route("a").unwrap();
    assert!(text.contains(&format!("\"times\":[{},{}]", START + 3000, START + 6000)));
    assert!(text.contains("\"ok\":[10,12]"), "{text}");
    // What is shown now only is not kept.
    lacks(&text, ["\"p90_ms\""]);
    assert_eq!(history.route("b"), None);
}

#[test]
fn a_command_that_a_reload_replaces_counts_on() {
    let mut history = History::new(START);
    for ok in [100, 110, 120, 130, 140, 150] {
        add(&mut history, vec![figures("a", ok)]);
    }
    // It begins again with zero.
    for ok in [3, 5, 7, 9, 11, 13] {
        add(&mut history, vec![figures("a", ok)]);
    }
    let counts: Vec<f32> = history.tracks["a"].latest(position("ok"), 2).collect();
    assert_eq!(counts, [50.0, 13.0]);
}

#[test]
fn everything_is_bounded_and_a_quiet_route_costs_little() {
    let mut history = History::new(START);
    for _ in 0..(BUCKETS as u64 + 5) * SAMPLES {
        add(&mut history, vec![figures("a", 1)]);
        let entry = Entry {
            what: "x".into(),
            kind: "change",
            ..Entry::default()
        };
        let time_ms = history.time_ms;
        let seen = (0..3).map(|_| transition("a", 0, 1)).collect();
        history.add(Sample {
            time_ms,
            is_tick: true,
            figures: vec![figures("a", 1)],
            changes: vec![entry],
            seen,
            ..Sample::default()
        });
    }
    let track = &history.tracks["a"];
    assert_eq!([history.times.len(), track.buckets.len()], [BUCKETS; 2]);
    assert_eq!((history.log.len(), track.transitions.len()), (LOGGED, 300));
    assert!(history.columns.len() <= COLUMNS);
    let mut same = track.buckets.iter().skip(1);
    let first = same.next().unwrap();
    assert!(same.all(|one| std::sync::Arc::ptr_eq(one, first)));
    assert_eq!(track.latest(0, SPARK).count(), SPARK);
}

#[test]
fn a_short_state_is_never_lost_between_two_samples() {
    let mut history = History::new(START);
    add(&mut history, vec![figures("a", 1)]);
    let mut after = figures("a", 1);
    after.entered = [1, 1, 1, 0];
    after.times[1] = Duration::from_millis(3);
    let seen = [("a", 0, 1), ("a", 1, 2), ("a", 2, 0)];
    history.add(Sample {
        time_ms: START + 1000,
        figures: vec![after],
        seen: seen.map(|(key, from, to)| transition(key, from, to)).into(),
        ..Sample::default()
    });
    let frame = history.changes(1);
    for what in ["closed to open", "open to half_open", "half_open to closed"] {
        has(&frame, [format!("\"what\":\"a: {what}\",\"route\":\"a\"")]);
    }
    let row = &history.tracks["a"].values;
    assert_eq!(
        ["opened", "open_ms"].map(|name| row[position(name)]),
        [1.0, 3.0]
    );
    for _ in 0..SAMPLES {
        add(&mut history, vec![figures("a", 1)]);
    }
    assert!(history.route("a").unwrap().contains("\"from\":1,\"to\":2"));
}

#[test]
fn a_route_that_is_removed_takes_its_history_with_it() {
    let mut history = History::new(START);
    add(&mut history, vec![figures("a", 1), figures("b", 1)]);
    add(&mut history, vec![figures("b", 1)]);
    assert_eq!((history.keys_changed, history.tracks.len()), (2, 1));
    add(&mut history, vec![figures("a", 1), figures("b", 1)]);
    assert_eq!(history.keys_changed, 3);
}

#[test]
fn servers_loops_and_knobs_are_shown_when_they_change() {
    let server = |address: &str, weight, draining| ServerReport {
        address: address.to_owned(),
        weight,
        in_flight: 1,
        calls: u64::from(weight) * 10,
        is_up: true,
        is_found: true,
        is_draining: draining,
    };
    let mut history = History::new(START);
    let mut sample = || {
        let busy = Duration::from_millis(250) * (history.sample as u32 + 1);
        let mut figures = figures("a", 1);
        figures.route = RouteReport {
            upstream: Some("shop".into()),
            budget_left: Some(3),
            ..RouteReport::default()
        };
        history.add(Sample {
            time_ms: START + (history.sample + 1) * 500,
            figures: vec![figures],
            upstreams: vec![UpstreamReport {
                name: "shop".into(),
                servers: vec![
                    server("x", 1, false),
                    server("y", 3, false),
                    server("z", 9, true),
                ],
            }],
            loops: vec![LoopReport {
                name: "io-0".into(),
                busy,
                longest_task: Some("read".into()),
                ..LoopReport::default()
            }],
            knobs: vec![Knob {
                name: "flaky".into(),
                title: "upstream flaky".into(),
                choices: vec!["normal".into(), "dead".into()],
                value: "dead".into(),
            }],
            ..Sample::default()
        });
    };
    sample();
    sample();
    let full = history.snapshot();
    let parts = [
        "\"address\":\"x\",\"weight\":1,\"in_flight\":1,\"share\":null,\"up\":true,\"draining\":false",
        "\"address\":\"z\",\"weight\":9,\"in_flight\":1,\"share\":null,\"up\":true,\"draining\":true",
        "\"name\":\"io-0\",\"busy\":0.5,",
        "\"longest_task\":\"read\"",
        "\"choices\":[\"normal\",\"dead\"],\"value\":\"dead\"",
        "\"upstream\":\"shop\"",
    ];
    has(&full, parts);
    assert_eq!(history.tracks["a"].values[position("budget")], 3.0);
    let parts = ["\"upstreams\"", "\"knobs\""];
    lacks(history.changes(1), parts);
    has(history.changes(0), parts);
}

#[test]
fn texts_of_others_stay_texts() {
    let nasty = "</script><script>alert(1)</script>\"'\r\n\u{2028}\\";
    let mut history = History::new(START);
    add(&mut history, vec![figures(nasty, 1)]);
    history.add(Sample {
        time_ms: START + 1000,
        figures: vec![figures(nasty, 2)],
        changes: vec![Entry {
            kind: "change",
            origin: nasty.into(),
            what: nasty.into(),
            route: Some(nasty.into()),
            ..Entry::default()
        }],
        seen: [transition(nasty, 0, 1)].into(),
        ..Sample::default()
    });
    let texts = [
        history.snapshot(),
        history.changes(1),
        history.route(nasty).unwrap(),
        history.saved(),
    ];
    for text in texts {
        assert!(!text.contains('<') && !text.contains('\n') && !text.contains('\r'));
        assert!(text.contains("\\u003c/script>"), "{text}");
    }
}

#[test]
fn the_heat_map_has_waiting_running_and_total_time() {
    let isolation = Isolation::builder().build().unwrap();
    let command: Command = Command::builder("a").group("g").build(&isolation).unwrap();
    let mut history = History::new(START);
    let sample = |history: &mut History| {
        let latencies = match history.wants_latencies() {
            true => isolation.latency_totals(),
            false => Vec::new(),
        };
        let commands = isolation.snapshots();
        history.add(Sample {
            time_ms: START + (history.sample + 1) * 500,
            is_tick: true,
            figures: commands.iter().map(|one| Figures::new(one, None)).collect(),
            latencies,
            ..Sample::default()
        });
    };
    sample(&mut history);
    let entry = command.admit().unwrap();
    assert!(entry.verdict(true));
    drop(entry);
    for _ in 0..2 * SAMPLES {
        sample(&mut history);
    }
    let track = &history.tracks["a"];
    assert_eq!((history.columns.len(), track.heat.len()), (2, 2));
    assert!(track.heat[0].is_none());
    let heat = track.heat[1].as_ref().unwrap();
    let sums = heat.map(|part| part.iter().map(|n| u32::from(*n)).sum::<u32>());
    assert_eq!(sums, [1, 1, 1]);
    let row = &track.values;
    assert_eq!((row[position("ok")], row.len()), (1.0, SERIES.len()));
}
