//! Everything that Tidegate exports, and what becomes of sources that break the rules.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tidegate_core::ManualClock;
use tidegate_http::HttpServer;
use tidegate_isolate::{Command, Event, Isolation, PermitConfig, PoolConfig};
use tidegate_loop::{EventLoop, EventLoopGroup, RoamingConfig};
use tidegate_metrics::{Collect, Exporter, Metric, MetricVisitor};
use tidegate_net::Server;
use tidegate_pool::WorkerPool;
use tidegate_timer::WheelTimer;

use crate::parser::{Format, Values, parse};

/// One of each kind, and the exporter that has them all.
pub(crate) struct Everything {
    pub(crate) exporter: Exporter,
    pub(crate) prices: Command<u32, String>,
}

pub(crate) fn everything() -> Everything {
    let exporter = Exporter::new();
    let group = EventLoopGroup::builder("loops").loops(2).build().unwrap();
    group.submit(|| ()).unwrap().wait().unwrap();
    exporter.add(group);
    let workers = WorkerPool::builder("workers").max(8).measure_times();
    let workers = workers.build().unwrap();
    let config = RoamingConfig::new(Arc::new(workers.clone()));
    let roaming = EventLoop::builder("roaming")
        .build_roaming(&config)
        .unwrap();
    roaming.submit(|| ()).unwrap().wait().unwrap();
    exporter.add(roaming);
    exporter.add(workers);
    exporter.add(WheelTimer::new());
    let net = tidegate_net::pinned("net", 1).unwrap();
    let server = Server::builder(&net).pipeline(|p| p).bind("127.0.0.1:0");
    exporter.add(server.wait().unwrap());
    exporter.add(net);
    exporter.add(http());
    let (isolation, prices) = isolation();
    exporter.add(isolation);
    Everything { exporter, prices }
}

/// A server that has refused one request and served two.
fn http() -> HttpServer {
    let web = tidegate_net::pinned("web", 1).unwrap();
    let server = tidegate_http::serve(&web, "127.0.0.1:0", |_, response| response.body("hello"));
    let server = server.wait().unwrap();
    let mut client = TcpStream::connect(server.local_addr()).unwrap();
    let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let requests = format!("{good}{good}GET / HTTP/1.1\r\n\r\n");
    client.write_all(requests.as_bytes()).unwrap();
    let mut responses = String::new();
    client.read_to_string(&mut responses).unwrap();
    assert_eq!(responses.matches("HTTP/1.1 ").count(), 3, "{responses}");
    server
}

/// One command on permits, one on threads.
fn isolation() -> (Isolation, Command<u32, String>) {
    let isolation = Isolation::builder().build().unwrap();
    let prices: Command<u32, String> = Command::builder("prices")
        .group("catalog")
        .build(&isolation)
        .unwrap();
    prices
        .configure(|c| c.permits = PermitConfig::default())
        .unwrap();
    let stock: Command<u32, String> = Command::builder("stock")
        .group("cata\"log\\\n")
        .threads(PoolConfig::default())
        .build(&isolation)
        .unwrap();
    assert_eq!(prices.run(|_| Ok(1)), Ok(1));
    assert!(prices.run(|_| Err("no".to_owned())).is_err());
    assert_eq!(stock.run(|_| Ok(2)), Ok(2));
    (isolation, prices)
}

pub(crate) fn read(exporter: &Exporter) -> Values {
    let plain = parse(&exporter.encode_plain(), Format::Plain);
    let open = parse(&exporter.encode(), Format::OpenMetrics).unwrap_or_else(|why| panic!("{why}"));
    let plain = plain.unwrap_or_else(|why| panic!("{why}"));
    let names = |values: &Values| values.keys().cloned().collect::<HashSet<_>>();
    assert_eq!(
        names(&open),
        names(&plain),
        "both formats have the same lines"
    );
    open
}

#[test]
fn exports_everything_in_both_formats() {
    let all = everything();
    assert_eq!(all.exporter.problems(), Vec::<String>::new());
    let values = read(&all.exporter);
    for (series, expected) in [
        (r#"tidegate_group_loops{group="loops"}"#, 2.0),
        (r#"tidegate_group_loops{group="net"}"#, 1.0),
        (r#"tidegate_loop_task_panics_total{loop="loops-0"}"#, 0.0),
        (r#"tidegate_pool_threads_limit{pool="workers"}"#, 8.0),
        (r#"tidegate_io_read_bytes_total{loop="net-0"}"#, 0.0),
        (
            r#"tidegate_bulkhead_calls_executed_total{pool="stock"}"#,
            1.0,
        ),
        (
            r#"tidegate_command_events_total{command="prices",group="catalog",event="FAILURE"}"#,
            1.0,
        ),
        (
            r#"tidegate_breaker_state{command="prices",group="catalog",state="closed"}"#,
            1.0,
        ),
        (
            r#"tidegate_command_duration_seconds_count{command="stock",group="cata\"log\\\n"}"#,
            1.0,
        ),
    ] {
        assert_eq!(values.get(series), Some(&expected), "{series}");
    }
    for part in [
        "tidegate_strategy_tasks_total{loop=\"roaming\"",
        "tidegate_timer_pending{",
        "tidegate_server_connections{server=\"127.0.0.1:",
        "tidegate_loop_busy_seconds_total{",
        "tidegate_pool_job_run_seconds_sum{",
    ] {
        assert!(
            values.keys().any(|series| series.starts_with(part)),
            "{part}"
        );
    }
    assert_eq!(all.prices.snapshot().totals[Event::Success], 1);
}

#[test]
fn exports_an_http_server_by_loop() {
    let server = http();
    let address = server.local_addr();
    let exporter = Exporter::new();
    exporter.add(server);
    assert_eq!(exporter.problems(), Vec::<String>::new());
    let values = read(&exporter);
    for (name, label, expected) in [
        ("requests_total", "", 2.0),
        ("responses_total", ",class=\"2xx\"", 2.0),
        ("responses_total", ",class=\"4xx\"", 1.0),
        ("refusals_total", ",reason=\"host_missing\"", 1.0),
        ("errors_total", ",cause=\"service\",reason=\"panic\"", 0.0),
        ("head_time_seconds_count", "", 2.0),
        ("total_time_seconds_count", "", 2.0),
    ] {
        let series = format!("tidegate_http_{name}{{server=\"{address}\",loop=\"web-0\"{label}}}");
        assert_eq!(values.get(&series), Some(&expected), "{series}");
    }
    let bytes = |name| {
        values[&format!("tidegate_http_{name}_bytes_total{{server=\"{address}\",loop=\"web-0\"}}")]
    };
    assert_eq!(bytes("received"), 2.0 * 27.0 + 18.0);
    assert!(bytes("sent") > 3.0 * 50.0);
}

#[test]
fn histograms_are_cumulative_over_time_and_outlive_the_window() {
    let clock = ManualClock::new();
    let isolation = Isolation::builder().clock(&clock).build().unwrap();
    let command: Command<u32, String> = Command::builder("prices")
        .group("catalog")
        .build(&isolation)
        .unwrap();
    let exporter = Exporter::new();
    exporter.add(isolation.clone());
    let labels = r#"command="prices",group="catalog""#;
    let count = format!("tidegate_command_duration_seconds_count{{{labels}}}");
    let sum = format!("tidegate_command_duration_seconds_sum{{{labels}}}");
    let small = format!("tidegate_command_duration_seconds_bucket{{{labels},le=\"0.005\"}}");
    let large = format!("tidegate_command_duration_seconds_bucket{{{labels},le=\"0.25\"}}");
    for round in 1..=3 {
        let during = clock.clone();
        let took = command.run(move |_| {
            during.advance(Duration::from_millis(100));
            Ok(1)
        });
        assert_eq!(took, Ok(1));
        let values = read(&exporter);
        let round = f64::from(round);
        assert_eq!((values[&count], values[&small]), (round, 0.0));
        assert_eq!(values[&large], round);
        assert!(
            (values[&sum] - round * 0.1).abs() < round * 0.003,
            "{}",
            values[&sum]
        );
        // Longer than the window: the histograms of the idle key are freed.
        clock.advance(Duration::from_secs(3600));
        isolation.reclaim();
        assert_eq!(command.snapshot().latencies.total.count(), 0);
        assert_eq!(read(&exporter)[&count], round);
    }
}

#[test]
fn two_registries_export_the_same_source_side_by_side() {
    let (isolation, prices) = isolation();
    let (one, two) = (Exporter::new(), Exporter::new());
    one.add(isolation.clone());
    two.add(prices); // one of its commands only
    let events = |event| {
        format!(
            "tidegate_command_events_total{{command=\"prices\",group=\"catalog\",event=\"{event}\"}}"
        )
    };
    assert_eq!(read(&one)[&events("SUCCESS")], 1.0);
    assert_eq!(read(&two)[&events("SUCCESS")], 1.0);
    assert!(read(&one).len() > read(&two).len());

    // In a registry of the program, beside its own metrics.
    let mut registry = Registry::default();
    let visits = Counter::<u64>::default();
    visits.inc();
    registry.register("visits", "Visits of the shop", visits);
    registry.register_collector(Box::new(one.clone()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let values = parse(&text, Format::OpenMetrics).unwrap();
    assert_eq!(values["visits_total"], 1.0);
    assert_eq!(values[&events("SUCCESS")], 1.0);
}

/// A source that a test scripts.
pub(crate) struct Scripted<F>(pub(crate) F);

impl<F: Fn(&mut dyn MetricVisitor)> Collect for Scripted<F> {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        (self.0)(visitor);
    }
}

#[test]
fn leaves_out_what_would_break_the_format() {
    let exporter = Exporter::new();
    exporter.add(Scripted(|to: &mut dyn MetricVisitor| {
        let good = Metric::new("good", "A \"good\" one,\nwith a \\ in it.");
        to.gauge(good, &[], 1.5);
        to.gauge(good, &[], 2.0);
        to.gauge(good, &[("label", "x")], 2.0);
        to.counter(good, &[], 2.0);
        let name = |name| Metric::new(name, "Bad.");
        to.gauge(name("1st"), &[], 1.0);
        to.gauge(name("with-dash"), &[], 1.0);
        to.gauge(name("x_total"), &[], 1.0);
        to.gauge(name("bad").unit("per second"), &[], 1.0);
        to.gauge(name("bad"), &[("le-vel", "1")], 1.0);
        to.gauge(name("bad"), &[("a", "1"), ("a", "2")], 1.0);
        to.gauge(name("bad"), &[], f64::NAN);
        to.counter(name("bad"), &[], -1.0);
        to.histogram(name("bad"), &[], &[], 0.0);
        to.histogram(name("bad"), &[], &[(1.0, 1)], 0.0);
        to.histogram(
            name("bad"),
            &[],
            &[(2.0, 1), (1.0, 1), (f64::INFINITY, 0)],
            0.0,
        );
        to.histogram(name("bad"), &[("le", "1")], &[(f64::INFINITY, 0)], 0.0);
    }));
    let values = read(&exporter);
    assert_eq!(values.len(), 1, "{values:?}");
    assert_eq!(values["good"], 1.5);
    let problems = exporter.problems();
    assert_eq!(problems.len(), 15, "{problems:#?}");
    assert!(problems[0].contains("add it once"), "{}", problems[0]);
}

#[test]
fn a_source_that_panics_does_not_stop_the_others() {
    let exporter = Exporter::new();
    exporter.add(Scripted(|to: &mut dyn MetricVisitor| {
        to.gauge(Metric::new("before", "Before the panic."), &[], 1.0);
        panic!("out of ink");
    }));
    let exporter = Arc::new(exporter);
    let again = Arc::downgrade(&exporter);
    exporter.add(Scripted(move |to: &mut dyn MetricVisitor| {
        // Re-entrant: no lock is held here.
        let again = again.upgrade().unwrap();
        assert!(format!("{again:?}").contains('2'));
        to.gauge(Metric::new("after", "Another source."), &[], 2.0);
    }));
    let values = read(&exporter);
    assert_eq!((values["before"], values["after"]), (1.0, 2.0));
    assert_eq!(exporter.problems(), ["a source panicked: out of ink"]);
}
