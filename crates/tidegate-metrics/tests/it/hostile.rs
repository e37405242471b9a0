//! Sources that block, panic, re-enter, end or lie, keys that come and go, and names that could
//! break a format.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use tidegate_core::ManualClock;
use tidegate_isolate::{Command, Isolation, PoolConfig};
use tidegate_loop::{EventLoop, Quiet};
use tidegate_metrics::{Exporter, HystrixStream, Metric, MetricVisitor};
use tidegate_testkit::{Gate, explode, rounds};

use crate::export::{Scripted, read};
use crate::parser::{Format, parse};
use crate::promtool;
use crate::streams::{events, time};

/// Names that contain what ends a value, a line, an event or a string in one of the formats.
const NAMES: [&str; 8] = [
    "quote\"",
    "line\nend",
    "data: {}\n\ndata: {}",
    "back\\slash\\",
    "\\n is not a line end",
    "return\r\ttab\u{7}\u{0}",
    "} 1\n# EOF\n",
    "grüße\u{2028}🦀\u{85}",
];

fn isolation() -> Isolation {
    Isolation::builder()
        .clock(ManualClock::new())
        .build()
        .unwrap()
}

fn command(isolation: &Isolation, key: &str) -> Command<u32, String> {
    Command::builder(key).group(key).build(isolation).unwrap()
}

#[test]
fn hostile_names_reach_the_reader_unchanged() {
    let isolation = isolation();
    let exporter = Exporter::new();
    for name in NAMES {
        let on_threads = Command::<u32, String>::builder(name).group(name);
        let on_threads = on_threads.threads(PoolConfig::default()).build(&isolation);
        on_threads.unwrap();
    }
    exporter.add(isolation.clone());
    exporter.add(EventLoop::builder("loop\"\n\\").build().unwrap());
    assert_eq!(exporter.problems(), Vec::<String>::new());
    let values = read(&exporter);
    for name in NAMES {
        let series = format!("tidegate_bulkhead_threads_limit{{pool={name:?}}}");
        assert!(values.contains_key(&series), "{series}");
    }
    promtool::check(&exporter.encode_plain());

    let mut stream = HystrixStream::new(&isolation);
    let sample = events(&stream.sample(time()));
    assert_eq!(sample.len(), 2 * NAMES.len());
    let (config, utilization) = (
        &events(&stream.config())[0],
        &events(&stream.utilization())[0],
    );
    for name in NAMES {
        let named = sample.iter().filter(|event| event["name"] == name);
        assert_eq!(named.count(), 2, "{name:?}: a command and a pool");
        assert_eq!(config["commands"][name]["groupKey"], name);
        assert_eq!(utilization["threadpools"][name]["activeCount"], 0);
        assert!(isolation.remove(name));
    }
    let removed = events(&stream.sample(time()));
    assert_eq!(removed.len(), 2 * NAMES.len(), "each tile once");
    assert!(removed.iter().all(|event| event["deleteData"] == "true"));
}

#[test]
fn a_clock_outside_of_the_epoch_is_written_as_a_number() {
    let isolation = isolation();
    let _one = command(&isolation, "one");
    let mut stream = HystrixStream::new(&isolation);
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let after = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    for (time, expected) in [(before, 0_u64), (after, 1000 << 40)] {
        assert_eq!(events(&stream.sample(time))[0]["currentTime"], expected);
    }
}

#[test]
fn a_histogram_that_lies_is_left_out() {
    const LIES: [&[(f64, u64)]; 6] = [
        &[(1.0, u64::MAX), (f64::INFINITY, 1)],
        &[(f64::NEG_INFINITY, 1), (f64::INFINITY, 1)],
        &[(f64::NAN, 1), (f64::INFINITY, 1)],
        &[(1.0, 1), (f64::NAN, 1)],
        &[(1.0, 1), (1.0, 1), (f64::INFINITY, 1)],
        &[(f64::INFINITY, 1), (f64::INFINITY, 1)],
    ];
    let lie = Metric::new("lie", "Never exported.");
    let exporter = Exporter::new();
    exporter.add(Scripted(move |to: &mut dyn MetricVisitor| {
        for buckets in LIES {
            to.histogram(lie, &[], buckets, 1.0);
        }
        for sum in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            to.histogram(lie, &[], &[(f64::INFINITY, 1)], sum);
        }
        let number = Metric::new("largest", "Whole and finite.");
        to.gauge(number, &[("of", "gauges")], f64::MAX);
        to.gauge(number, &[("of", "small")], -0.0);
        let count = Metric::new("count_of_all", "One bucket.");
        to.histogram(count, &[], &[(f64::INFINITY, u64::MAX)], f64::MAX);
    }));
    assert_eq!(exporter.problems().len(), LIES.len() + 3);
    let values = read(&exporter);
    assert_eq!(values["largest{of=\"gauges\"}"], f64::MAX);
    assert!(values.keys().all(|series| !series.starts_with("lie")));
    promtool::check(&exporter.encode_plain());
}

#[test]
fn a_panic_whose_payload_panics_ends_one_source_only() {
    let exporter = Exporter::new();
    exporter.add(Scripted(|_: &mut dyn MetricVisitor| explode()));
    exporter.add(Scripted(|to: &mut dyn MetricVisitor| {
        to.gauge(Metric::new("last", "After it."), &[], 1.0);
    }));
    assert_eq!(read(&exporter)["last"], 1.0);
    assert!(exporter.problems()[0].contains("a source panicked"));
}

#[test]
fn a_source_that_blocks_delays_its_own_reader_only() {
    let exporter = Exporter::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let first = AtomicBool::new(true);
    let (entered, may_go_on) = (inside.clone(), go_on.clone());
    exporter.add(Scripted(move |to: &mut dyn MetricVisitor| {
        if first.swap(false, Ordering::Relaxed) {
            entered.open();
            may_go_on.wait();
        }
        to.gauge(Metric::new("slow", "After the wait."), &[], 1.0);
    }));
    thread::scope(|scope| {
        let blocked = scope.spawn(|| exporter.encode());
        inside.wait();
        exporter.add(Scripted(|to: &mut dyn MetricVisitor| {
            to.gauge(Metric::new("added", "Added meanwhile."), &[], 2.0);
        }));
        let values = read(&exporter);
        assert_eq!((values["slow"], values["added"]), (1.0, 2.0));
        go_on.open();
        let late = parse(&blocked.join().unwrap(), Format::OpenMetrics).unwrap();
        assert_eq!(late.len(), 1, "the sources of its beginning");
    });
}

#[test]
fn a_source_that_exports_its_own_exporter_gets_nothing() {
    let exporter = Exporter::new();
    let again = exporter.clone();
    exporter.add(Scripted(move |to: &mut dyn MetricVisitor| {
        let inner = again.encode();
        assert_eq!(inner, "# EOF\n");
        assert!(again.problems()[0].contains("its own exporter"));
        // Another exporter is no problem.
        let other = Exporter::new();
        other.add(Scripted(|to: &mut dyn MetricVisitor| {
            to.gauge(Metric::new("inner", "Of another exporter."), &[], 1.0);
        }));
        assert_eq!(read(&other)["inner"], 1.0);
        to.gauge(Metric::new("outer", "After both."), &[], 1.0);
    }));
    for _ in 0..2 {
        assert_eq!(read(&exporter)["outer"], 1.0);
        assert_eq!(exporter.problems(), Vec::<String>::new());
    }
}

#[test]
fn a_source_added_twice_is_exported_once() {
    let isolation = isolation();
    let one = command(&isolation, "one");
    let exporter = Exporter::new();
    exporter.add(isolation.clone());
    let once = read(&exporter);
    exporter.add(isolation.clone());
    exporter.add(one.clone());
    assert_eq!(read(&exporter).len(), once.len());
    assert!(
        exporter
            .problems()
            .iter()
            .all(|p| p.contains("add it once"))
    );
    assert!(!exporter.problems().is_empty());
}

#[test]
fn an_exporter_outlives_what_it_exports_and_the_other_way_round() {
    let isolation = isolation();
    let one = command(&isolation, "one");
    let io = EventLoop::builder("io").build().unwrap();
    let (exporter, other) = (Exporter::new(), Exporter::new());
    for exporter in [&exporter, &other] {
        exporter.add(isolation.clone());
        exporter.add(io.clone());
    }
    drop(other);
    assert_eq!(one.run(|_| Ok(1)), Ok(1));
    assert_eq!(io.submit(|| 2).unwrap().wait().unwrap(), 2);
    isolation.shutdown_now();
    io.shutdown(Quiet::none(Duration::from_secs(60)))
        .wait()
        .unwrap();
    drop((isolation, one, io));
    let values = read(&exporter);
    let success = r#"tidegate_command_events_total{command="one",group="one",event="SUCCESS"}"#;
    assert_eq!(values[success], 1.0);
    assert!(values.contains_key(r#"tidegate_loop_task_panics_total{loop="io"}"#));
}

#[test]
fn keys_may_come_and_go_while_readers_collect() {
    let isolation = isolation();
    let exporter = Exporter::new();
    exporter.add(isolation.clone());
    let ended = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = HystrixStream::new(&isolation);
                    while !ended.load(Ordering::Relaxed) {
                        read_one(&exporter);
                        let sample = stream.sample(time());
                        assert!(sample == HystrixStream::PING || !events(&sample).is_empty());
                    }
                })
            })
            .collect();
        for round in 0..rounds(50) {
            let keys = [round, round + 1].map(|n| format!("key-{n}"));
            let commands = keys.each_ref().map(|key| command(&isolation, key));
            assert!(commands.iter().all(|one| one.run(|_| Ok(1)) == Ok(1)));
            drop(commands);
            isolation.remove(&keys[0]);
        }
        ended.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(exporter.problems(), Vec::<String>::new());
}

/// Reads one export: two may differ while keys come and go.
fn read_one(exporter: &Exporter) {
    parse(&exporter.encode(), Format::OpenMetrics).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn ten_thousand_keys_are_one_export() {
    const KEYS: usize = 10_000;
    let gauge = Metric::new("keys", "One for each.");
    let exporter = Exporter::new();
    exporter.add(Scripted(move |to: &mut dyn MetricVisitor| {
        for key in 0..KEYS {
            let key = format!("key-{key}");
            to.gauge(gauge, &[("key", &key)], 1.0);
            to.gauge(gauge, &[("key", &key)], 2.0);
        }
    }));
    let values = read(&exporter);
    assert_eq!(values.values().sum::<f64>(), KEYS as f64);
    assert_eq!(exporter.problems().len(), KEYS);
}
