//! The dump of a timer.

use super::*;

#[test]
fn a_dump_agrees_with_the_metrics_from_the_start_to_the_end() {
    let (timer, clock) = timer();
    let state = |timer: &WheelTimer| {
        let dump = timer.dump();
        dump.get("state")
            .and_then(|state| state.as_text())
            .expect("it has one")
            .to_owned()
    };
    assert_eq!(state(&timer), "not started");
    let fired = timer.schedule(MS, || ()).expect("no limit");
    let cancelled = timer.schedule(SECOND, || ()).expect("no limit");
    let pending = timer.schedule(SECOND, || ()).expect("no limit");
    assert!(cancelled.cancel());
    clock.advance(100 * MS);
    assert!(fired.is_expired());
    let (dump, metrics) = (timer.dump(), timer.metrics());
    let count = |key: &str| dump.get(key).and_then(|value| value.as_count());
    assert_eq!(
        (dump.kind(), dump.name(), &*state(&timer)),
        ("timer", "test", "running")
    );
    assert_eq!(count("pending"), Some(metrics.pending as u64));
    assert_eq!((count("fired"), count("cancelled")), (Some(1), Some(1)));
    assert!(dump.get("thread").is_some() && dump.get("limit").is_none());
    drop(tidegate_testkit::block_on("the end", timer.shutdown()));
    assert_eq!(state(&timer), "ended");
    drop(pending);
}

#[test]
fn a_task_of_the_timer_can_dump_it() {
    let (timer, clock) = timer();
    let timer = Arc::new(timer);
    let (inside, log) = (Arc::downgrade(&timer), Log::new());
    let told = log.clone();
    let handle = timer.schedule(MS, move || {
        told.push(inside.upgrade().map(|timer| timer.dump().to_string()));
    });
    handle.expect("no limit");
    clock.advance(100 * MS);
    let shown = log.take().remove(0).expect("the timer is alive");
    assert!(shown.starts_with("timer test"), "{shown}");
}
