//! Entries that hold their permit although their outcome was reported.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{Collect, Metric, MetricVisitor};
use tidegate_isolate::{
    AdaptiveLimit, BreakerConfig, BreakerState, Cause, CommandSnapshot, Event, PermitConfig,
    RequestContext, Verdict,
};
use tidegate_testkit::{Counter, Gate, until};

use crate::support::{SECOND, alone, builder, counted, events, isolated, touchy};

fn stays(snapshot: &CommandSnapshot) -> (usize, usize, Option<Duration>) {
    let (active, overstaying) = (snapshot.active, snapshot.overstaying);
    (active, overstaying, snapshot.oldest_overstaying)
}

#[test]
fn a_timeout_is_reported_at_the_deadline_and_the_permit_stays() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND).breaker(touchy()));
    let entry = command.admit().unwrap();
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(stays(&command.snapshot()), (1, 0, None));
    clock.advance(Duration::from_nanos(1));
    let snapshot = command.snapshot();
    assert_eq!(
        counted(&command),
        [(Event::Timeout, 1)],
        "without the holder"
    );
    assert_eq!(stays(&snapshot), (1, 1, Some(Duration::ZERO)));
    assert_eq!(snapshot.breaker, BreakerState::Open, "the breaker knows");
    assert_eq!(snapshot.latencies.total.count(), 1);
    clock.advance(SECOND * 3);
    assert_eq!(stays(&command.snapshot()), (1, 1, Some(SECOND * 3)));
    assert!(!entry.verdict(true) && !entry.cancel(), "it was reported");
    drop(entry);
    assert_eq!(stays(&command.snapshot()), (0, 0, None));
    assert_eq!(counted(&command), [(Event::Timeout, 1)]);
    assert_eq!(command.snapshot().latencies.total.count(), 1, "once");
}

#[test]
fn a_caller_that_leaves_is_reported_at_once_and_the_permit_stays() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND));
    let entry = command.admit().unwrap();
    clock.advance(SECOND / 4);
    let (own, hooks) = (command.clone(), Counter::new());
    let hit = hooks.clone();
    let hook = entry.token().on_cancel(move || {
        assert_eq!(counted(&own), [(Event::Cancelled, 1)]);
        hit.hit();
    });
    assert!(entry.cancel() && !entry.cancel() && !entry.verdict(true));
    drop(hook);
    assert_eq!((hooks.count(), entry.token().is_cancelled()), (1, true));
    assert_eq!(counted(&command), [(Event::Cancelled, 1)]);
    assert!(command.admit().unwrap_err().is_rejected());
    clock.advance(SECOND * 2);
    assert_eq!(stays(&command.snapshot()), (1, 1, Some(SECOND * 2)));
    assert_eq!(command.snapshot().totals[Event::Timeout], 0, "it has ended");
    drop(entry);
    assert_eq!(stays(&command.snapshot()), (0, 0, None));
    let again = command.admit().unwrap();
    assert!(again.verdict(true));
}

#[test]
fn a_stream_after_its_verdict_does_not_overstay() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let entry = command.admit().unwrap();
    assert!(entry.verdict(true) && !entry.cancel());
    clock.advance(SECOND * 9);
    assert_eq!(stays(&command.snapshot()), (1, 0, None));
    drop(entry);
    assert_eq!(counted(&command), [(Event::Success, 1)]);
}

/// Returns permits whose limit follows each call at once, down to one.
fn adaptive() -> PermitConfig {
    let limit = AdaptiveLimit {
        min: 1,
        window: None,
        ..AdaptiveLimit::aimd()
    };
    PermitConfig {
        adaptive: Some(limit),
        ..PermitConfig::default()
    }
}

#[test]
fn slow_readers_do_not_shrink_an_adaptive_limit() {
    let (clock, _isolation, command) = alone(|c| c.permits(adaptive()).no_timeout());
    let limit = || command.snapshot().limit;
    let before = limit();
    for _ in 0..50 {
        let entry = command.admit().unwrap();
        clock.advance(Duration::from_millis(1));
        assert!(entry.verdict(true), "the head");
        clock.advance(SECOND * 30);
        drop(entry);
    }
    assert!(limit() >= before, "{} after {before}", limit());
    assert!(command.snapshot().latencies.total.max() < SECOND);
}

#[test]
fn what_a_caller_has_used_is_left_out_of_the_time_of_its_call() {
    let breaker = BreakerConfig {
        slow_call: Some(SECOND),
        slow_percent: 50,
        min_calls: 2,
        ..BreakerConfig::default()
    };
    let (clock, _isolation, command) =
        alone(|c| c.permits(adaptive()).breaker(breaker).timeout(SECOND * 60));
    let limit = || command.snapshot().limit;
    let before = limit();
    for _ in 0..20 {
        let mut entry = command.admit().unwrap();
        clock.advance(SECOND * 30);
        entry.leave_out(SECOND * 30 - Duration::from_millis(1));
        assert!(entry.verdict(true));
    }
    assert_eq!(
        (limit(), command.snapshot().breaker),
        (before, BreakerState::Closed)
    );
    assert!(command.snapshot().latencies.total.max() < SECOND);
    // No sample at all.
    let entry = command.admit().unwrap();
    clock.advance(SECOND * 30);
    assert!(entry.verdict_unsampled(Some(true.into())));
    drop(entry);
    assert_eq!(limit(), before);
    // The deadline stays where it was.
    let mut entry = command.admit().unwrap();
    clock.advance(SECOND * 59);
    entry.leave_out(SECOND * 58);
    assert!(!entry.is_expired());
    clock.advance(SECOND);
    assert!(entry.is_expired() && !entry.verdict(true));
    drop(entry);
    assert!(limit() < before);
}

#[test]
fn a_call_that_its_holder_reports_as_timed_out_is_a_dropped_sample() {
    let (clock, _isolation, command) = alone(|c| c.permits(adaptive()).no_timeout());
    let before = command.snapshot().limit;
    let entry = command.admit().unwrap();
    clock.advance(Duration::from_millis(1));
    drop(entry.fail(Cause::TimedOut::<&str>(Duration::from_millis(1))));
    assert!(command.snapshot().limit < before);
}

#[test]
fn a_probe_whose_caller_leaves_opens_the_breaker_again() {
    let (clock, _isolation, command) = alone(|c| c.breaker(touchy()));
    assert!(command.admit().unwrap().verdict(false));
    clock.advance(Duration::from_millis(5_001));
    let probe = command.admit().unwrap();
    assert_eq!(command.snapshot().breaker, BreakerState::HalfOpen);
    assert!(probe.cancel());
    assert_eq!(command.snapshot().breaker, BreakerState::Open);
    drop(probe);
}

#[test]
fn a_stop_reports_entries_without_a_timeout_as_cancelled() {
    let (_clock, isolation, command) = alone(|c| c.no_timeout());
    let entry = command.admit().unwrap();
    isolation.shutdown_now();
    assert_eq!(counted(&command), [(Event::Cancelled, 1)]);
    assert_eq!(stays(&command.snapshot()), (1, 1, Some(Duration::ZERO)));
    drop(entry);
    assert_eq!(stays(&command.snapshot()), (0, 0, None));
}

#[test]
fn listeners_that_block_do_not_delay_the_report_of_a_timeout() {
    let (go_on, inside) = (Gate::new(), Counter::new());
    let (blocked, hit) = (go_on.clone(), inside.clone());
    let clock = tidegate_core::ManualClock::new();
    let isolation = isolated(|i| {
        i.clock(&clock).on_event(move |_, _| {
            hit.hit();
            blocked.wait();
        })
    });
    let command = builder("a").timeout(SECOND).build(&isolation).unwrap();
    let request = RequestContext::new();
    let observed = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&observed);
    let call = command.call().context(&request);
    let call = call.observe(move |event| own.lock().unwrap().push(event));
    let entry = call.admit().unwrap();
    clock.jump(SECOND);
    inside.wait_for(1);
    assert_eq!(counted(&command), [(Event::Timeout, 1)]);
    assert_eq!(request.log()[0].events, events(&[Event::Timeout]));
    assert!(entry.token().is_cancelled());
    drop(entry);
    assert_eq!(stays(&command.snapshot()), (0, 0, None));
    go_on.open();
    until("the observer is called", || {
        *observed.lock().unwrap() == [Event::Timeout]
    });
    assert_eq!(request.log().len(), 1);
}

#[test]
fn an_entry_that_ends_after_its_timeout_is_counted_once() {
    let (clock, _isolation, command) = alone(|c| c.timeout(SECOND));
    let [one, two, three] = [(); 3].map(|()| command.admit().unwrap());
    clock.advance(SECOND);
    assert_eq!(counted(&command), [(Event::Timeout, 3)]);
    let error = one.end::<()>(Verdict::Success).unwrap_err();
    let thrown = [Event::Timeout, Event::ExceptionThrown];
    assert_eq!(error.events(), events(&thrown));
    assert!(two.fail(tidegate_isolate::Cause::Failed(())).is_timed_out());
    drop(three);
    assert_eq!(command.snapshot().totals[Event::Timeout], 3);
    assert_eq!(command.snapshot().totals[Event::ExceptionThrown], 2);
    assert_eq!(stays(&command.snapshot()), (0, 0, None));
}

/// The gauges of a command whose name contains `overstaying`.
#[derive(Default)]
struct Gauges(Vec<(String, f64)>);

impl MetricVisitor for Gauges {
    fn counter(&mut self, _: Metric, _: &[(&str, &str)], _: f64) {}

    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        let is_command = labels.iter().any(|(label, _)| *label == "command");
        if is_command && metric.name.contains("overstaying") {
            self.0.push((metric.name.to_owned(), value));
        }
    }

    fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
}

#[test]
fn metrics_and_dump_show_overstaying_calls_and_their_age() {
    let (clock, isolation, command) = alone(|c| c.timeout(SECOND));
    let entry = command.admit().unwrap();
    clock.advance(SECOND * 5);
    let mut gauges = Gauges::default();
    isolation.collect(&mut gauges);
    let [(count, one), (age, four)] = &gauges.0[..] else {
        panic!("two gauges: {:?}", gauges.0);
    };
    assert_eq!(
        (count.as_str(), *one),
        ("tidegate_command_overstaying", 1.0)
    );
    assert!(age.starts_with("tidegate_command_overstaying_oldest"));
    assert!((*four - 4.0).abs() < 1e-9);
    let dump = isolation.dump();
    let shown = &dump.find("commands").unwrap().children()[0];
    let count = shown.get("overstaying").and_then(|count| count.as_count());
    assert_eq!(count, Some(1));
    assert!(shown.get("oldest_overstaying").is_some());
    drop(entry);
    let dump = isolation.dump();
    let shown = &dump.find("commands").unwrap().children()[0];
    assert!(shown.get("oldest_overstaying").is_none());
}
