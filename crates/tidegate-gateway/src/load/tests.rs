//! Tests of the schedule and of the correction, without a socket and without a clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::result::{RunResult, Sample};
use super::schedule::{Dispatch, Due, Shape};
use super::summary::{progress, summary, time};
use super::tally::{Ended, Outcome, Tally};
use super::{plot, report};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLI;
const PATIENCE: Duration = Duration::from_secs(10);

fn planned(dispatch: &mut Dispatch, now: u64) -> Vec<u64> {
    std::iter::from_fn(|| dispatch.take(now).map(|due| due.planned)).collect()
}

#[test]
fn a_rate_is_planned_from_the_start_whatever_the_responses_do() {
    let shape = Shape::Rate(100.0);
    let mut dispatch = Dispatch::new(shape, (0, 1), 5 * SECOND, 6 * SECOND, PATIENCE);
    assert_eq!(dispatch.take(5 * SECOND - 1), None);
    assert_eq!(dispatch.next_at(), Some(5 * SECOND));
    assert_eq!(dispatch.due(5 * SECOND + 25 * MILLI, 2), 2);
    let first = planned(&mut dispatch, 5 * SECOND + 25 * MILLI);
    assert_eq!(first, [5000, 5010, 5020].map(|millis| millis * MILLI));
    // Nobody asked for a long time: all of them are still there, each with its own time.
    let rest = planned(&mut dispatch, 9 * SECOND);
    assert_eq!(rest.len(), 97);
    assert_eq!(rest[96], 5990 * MILLI);
    assert!(dispatch.is_over(0) && dispatch.next_at().is_none());
}

#[test]
fn the_loops_share_a_rate() {
    let plan = |share| {
        let mut dispatch = Dispatch::new(Shape::Rate(100.0), share, 0, SECOND, PATIENCE);
        planned(&mut dispatch, SECOND)
    };
    let mut both = [plan((0, 2)), plan((1, 2))].concat();
    both.sort_unstable();
    assert_eq!(both, plan((0, 1)));
}

#[test]
fn a_ramp_grows_by_a_quarter_in_each_stage() {
    let stage = Duration::from_secs(1);
    let shape = Shape::Ramp { from: 100.0, stage };
    let mut dispatch = Dispatch::new(shape, (0, 1), 0, 3 * SECOND, PATIENCE);
    let all = planned(&mut dispatch, 10 * SECOND);
    let count = |from: u64, to: u64| all.iter().filter(|at| (from..to).contains(*at)).count();
    assert_eq!(count(0, SECOND), 100);
    assert_eq!(count(SECOND, 2 * SECOND), 125);
    assert_eq!(count(2 * SECOND, 3 * SECOND), 157);
    assert_eq!(shape.rate_at(Duration::from_millis(1500)), Some(125.0));
    assert_eq!(Shape::Closed.rate_at(stage), None);
}

#[test]
fn a_request_that_waited_for_too_long_is_given_up_and_the_stop_keeps_what_is_due() {
    let patience = Duration::from_millis(100);
    let mut dispatch = Dispatch::new(Shape::Rate(10.0), (0, 1), 0, SECOND, patience);
    assert_eq!(dispatch.expire(99 * MILLI), None);
    let due = |planned, number| Some(Due { planned, number });
    assert_eq!(dispatch.expire(100 * MILLI), due(0, 0));
    assert_eq!(dispatch.expire(100 * MILLI), None);
    dispatch.stop(250 * MILLI);
    assert_eq!(planned(&mut dispatch, SECOND), [100 * MILLI, 200 * MILLI]);
    assert!(dispatch.is_over(0));
    let mut closed = Dispatch::new(Shape::Closed, (0, 1), 0, SECOND, patience);
    assert_eq!((closed.take(7), closed.take(8)), (due(7, 0), due(8, 1)));
    assert_eq!(closed.expire(SECOND - 1), None);
    assert_eq!((closed.take(SECOND), closed.is_over(SECOND)), (None, true));
}

/// When a server that stops for the first 200 ms of each second, and otherwise takes 1 ms, responds
/// to a request that was sent `at`.
fn stopping(at: u64) -> u64 {
    let done = at + MILLI;
    match done % SECOND {
        within if within < 200 * MILLI => done - within + 200 * MILLI,
        _ => done,
    }
}

/// Runs ten seconds against the server that stops, on `connections` connections.
fn run(shape: Shape, connections: usize) -> RunResult {
    let mut dispatch = Dispatch::new(shape, (0, 1), 0, 10 * SECOND, PATIENCE);
    let mut tally = Tally::new(Duration::from_millis(100));
    // When each connection is free, the earliest first.
    let mut free: VecDeque<u64> = vec![0; connections].into();
    while let Some(at) = free.pop_front() {
        let now = at.max(dispatch.next_at().unwrap_or(0));
        let Some(due) = dispatch.take(now) else {
            continue;
        };
        let done = stopping(now);
        let ended = Ended {
            due,
            sent: now,
            now: done,
            outcome: Outcome::Status(200),
            bytes: 100,
        };
        match dispatch.is_after(done) {
            true => tally.record_after(&ended),
            false => tally.record(&ended),
        }
        let place = free.partition_point(|other| *other <= done);
        free.insert(place, done);
    }
    RunResult {
        url: "http://127.0.0.1:1/<a>".to_owned(),
        shape,
        connections,
        loops: 1,
        elapsed: Duration::from_secs(10),
        within: Duration::from_millis(100),
        tally,
        samples: vec![
            Sample {
                at: 0.5,
                rate: shape.rate_at(Duration::ZERO),
                requests: 1000.0,
                good: 800.0,
                p50: MILLI,
                p99: 200 * MILLI,
            };
            2
        ],
        busy: 0.5,
        best: None,
        ended: None,
    }
}

#[test]
fn an_open_loop_shows_a_server_that_stops() {
    let result = run(Shape::Rate(1000.0), 4);
    let (response, service) = (result.response(), &result.tally.service);
    assert_eq!(response.len(), 10_000);
    // A fifth of the requests is due while the server stands still.
    assert!(
        response.value_at_percentile(90.0) > 90 * MILLI,
        "{}",
        response.value_at_percentile(90.0)
    );
    assert!(response.value_at_percentile(99.0) > 180 * MILLI);
    assert!(response.value_at_percentile(50.0) < 5 * MILLI);
    // What a generator sees that waits for the server: four requests of each second.
    assert!(service.value_at_percentile(99.0) < 2 * MILLI);
}

#[test]
fn a_closed_loop_is_corrected_for_a_server_that_stops() {
    let result = run(Shape::Closed, 2);
    let (response, service) = (result.response(), &result.tally.service);
    assert!(
        service.value_at_percentile(99.0) < 2 * MILLI,
        "the stall is hidden"
    );
    assert!(
        response.value_at_percentile(90.0) > 80 * MILLI,
        "{}",
        response.value_at_percentile(90.0)
    );
    assert!(response.value_at_percentile(99.0) > 180 * MILLI);
    assert!(response.value_at_percentile(50.0) < 5 * MILLI);
}

#[test]
fn the_summary_is_aligned_and_names_the_load() {
    let text = summary(&run(Shape::Rate(1000.0), 4));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("http://127.0.0.1:1/<a>: open loop, 1000 requests/s"),
        "{text}"
    );
    assert!(text.contains("\nrequests  10000 "), "{text}");
    assert!(text.contains("\n200      10000     100.0 %\n"), "{text}");
    let columns: Vec<usize> = lines
        .iter()
        .filter(|line| line.starts_with("time") || line.starts_with("from"))
        .map(|line| match line.find(" ms") {
            Some(at) => at - "1.00".len(),
            None => line.find("p50").unwrap(),
        })
        .collect();
    assert_eq!(columns.len(), 3);
    assert!(columns.iter().all(|at| *at == columns[0]), "{text}");
}

#[test]
fn a_generator_at_its_limit_says_so() {
    let mut result = run(Shape::Closed, 2);
    assert_eq!(result.bottleneck(), None);
    result.busy = 0.97;
    assert!(summary(&result).contains("busy 97 % of the time"));
    result.busy = 0.2;
    (0..100).for_each(|_| result.tally.late.saturating_record(3 * MILLI));
    assert!(
        result
            .bottleneck()
            .unwrap()
            .contains("3.00 ms late or more")
    );
}

#[test]
fn the_json_and_the_picture_have_the_figures() {
    let result = run(Shape::Rate(1000.0), 4);
    let json = report::report(&result);
    for part in [
        "\"load\":\"rate\"",
        "\"rate\":1000",
        "\"outcomes\":{\"200\":10000}",
        "\"response_ms\":{\"count\":10000,\"mean\":",
        "\"p99.9\":",
        "\"bottleneck\":null",
        "\"samples\":[{\"at\":0.5,",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
    let picture = plot::plot(&result);
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert_eq!(picture.matches("<polyline").count(), 5);
    assert!(picture.contains("http://127.0.0.1:1/&lt;a&gt;"));
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn an_empty_run_has_no_odd_numbers() {
    let mut result = run(Shape::Rate(0.01), 1);
    result.tally = Tally::new(Duration::from_secs(1));
    result.samples.clear();
    let all = summary(&result) + &report::report(&result) + &plot::plot(&result);
    assert!(!all.contains("NaN") && !all.contains("inf"), "{all}");
}

#[test]
fn times_have_about_three_digits() {
    let shown = [
        0,
        400_000,
        9_994_000,
        51_200_000,
        249_000_000,
        12_300_000_000,
    ]
    .map(time);
    assert_eq!(
        shown,
        [
            "0.00 ms", "0.40 ms", "9.99 ms", "51.2 ms", "249 ms", "12.3 s"
        ]
    );
    let sample = run(Shape::Closed, 1).samples[0];
    assert_eq!(
        progress(&sample),
        "0 s: ended 1000/s, good 800/s, p50 1.00 ms, p99 200 ms"
    );
}

#[test]
fn what_ends_after_the_run_is_in_the_total_and_in_no_rate() {
    // The server stops at the end of the run, when each connection has a request in flight.
    let (closed, open) = (run(Shape::Closed, 50), run(Shape::Rate(100.0), 50));
    assert_eq!(closed.tally.after, (50, 0), "they are slow");
    let in_time = closed.tally.total.requests - 50;
    assert_eq!(closed.rate(), in_time as f64 / 10.0);
    assert_eq!(closed.goodput(), closed.tally.total.good as f64 / 10.0);
    assert_eq!(open.tally.after, (0, 0), "a plan has its own end");
    assert_eq!(open.rate(), 100.0);
    let mut tally = Tally::new(Duration::from_secs(1));
    tally.add(&closed.tally);
    tally.add(&closed.tally);
    assert_eq!(tally.after, (100, 0));
}
