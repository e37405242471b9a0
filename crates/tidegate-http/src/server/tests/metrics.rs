//! What a server counts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{Metric, MetricVisitor};

use super::{Client, echo, get};
use crate::codec::RefusalReason;
use crate::server::Limits;

/// What an exporter gets, as lines.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn of(client: &Client) -> Self {
        let mut lines = Self::default();
        client.shared.counters.collect("here", &mut lines);
        lines
    }

    fn push(&mut self, metric: Metric, labels: &[(&str, &str)], value: &str) {
        assert_eq!(labels[..2], [("server", "here"), ("loop", "embedded")]);
        let labels = labels[2..].iter().map(|(_, value)| format!(" {value}"));
        let name = metric.name.strip_prefix("tidegate_http_").unwrap();
        self.0
            .push(format!("{name}{} {value}", labels.collect::<String>()));
    }

    fn has(&self, line: &str) -> bool {
        self.0.iter().any(|own| own == line)
    }
}

impl MetricVisitor for Lines {
    fn counter(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        self.push(metric, labels, &value.to_string());
    }

    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        self.push(metric, labels, &value.to_string());
    }

    fn histogram(
        &mut self,
        metric: Metric,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        sum: f64,
    ) {
        let buckets = buckets.iter().filter(|(_, number)| *number != 0);
        let buckets = buckets.map(|(bound, number)| format!("{number}≤{bound}, "));
        let text = format!("{}sum {sum}", buckets.collect::<String>());
        self.push(metric, labels, &text);
    }
}

#[test]
fn requests_responses_and_bytes_are_counted() {
    let mut client = Client::new(|request, response| match request.path() {
        "/large" => response.body(vec![b'x'; 10_000]),
        "/none" => response.status(404).body("nothing"),
        _ => echo(request, response),
    });
    let mut sent = 0;
    let requests = [get("/a") + &get("/none"), get("/large")];
    for request in &requests {
        client.socket.receive(request.clone());
        sent += client.socket.sent().len() as u64;
    }
    let metrics = client.metrics();
    assert_eq!(metrics.requests, 3);
    assert_eq!(metrics.responses, [2, 0, 1, 0, 0]);
    assert_eq!(metrics.received_bytes, requests.concat().len() as u64);
    assert_eq!(metrics.sent_bytes, sent);
    assert_eq!(metrics.connections, 1);
    let lines = Lines::of(&client);
    assert!(lines.has("responses 4xx 1"), "{:?}", lines.0);
    assert!(lines.has("connections 1"), "{:?}", lines.0);
    assert!(lines.has(&format!("sent {sent}")), "{:?}", lines.0);
    assert!(lines.has("head_time 3≤0.00005, sum 0"), "{:?}", lines.0);
    assert!(lines.has("total_time 3≤0.00005, sum 0"), "{:?}", lines.0);
}

#[test]
fn bytes_of_streams_are_counted() {
    let (mut client, kept) =
        Client::keeping(Limits::default(), |_, response| Some(response.stream()));
    let mut sent = 0;
    for _ in 0..2 {
        client.socket.receive(get("/a"));
        let mut stream = kept.last();
        stream.write("hello");
        stream.write("world");
        stream.finish_with_trailers([("Sum", "1")]);
        client.socket.run();
        sent += client.socket.sent().len() as u64;
        assert_eq!(client.metrics().sent_bytes, sent);
    }
}

#[test]
fn a_head_and_a_response_have_their_time() {
    let (mut client, kept) = Client::keeping(Limits::default(), |request, response| {
        if request.path() == "/later" {
            return Some(response.defer());
        }
        echo(request, response);
        None
    });
    client.send(get("/a"));
    client.send("GET /slow HTTP/1.1\r\n");
    client.pass(Duration::from_secs(2));
    client.send("Host: a\r\n\r\n");
    assert_eq!(client.metrics().head_time, Duration::from_secs(2));
    assert_eq!(client.metrics().total_time, Duration::from_secs(2));
    client.send(get("/later") + &get("/behind"));
    client.pass(Duration::from_secs(3));
    assert_eq!(client.metrics().total_time, Duration::from_secs(2));
    kept.last().body("now");
    client.responses();
    // The request behind the deferred one waits for it.
    assert_eq!(client.metrics().total_time, Duration::from_secs(8));
    assert_eq!(client.metrics().head_time, Duration::from_secs(2));
    let lines = Lines::of(&client);
    let heads = "head_time 3≤0.00005, 1≤2.5, sum 2";
    assert!(lines.has(heads), "{:?}", lines.0);
    let totals = "total_time 1≤0.00005, 1≤2.5, 2≤5, sum 8";
    assert!(lines.has(totals), "{:?}", lines.0);
}

#[test]
fn a_service_takes_the_time_that_it_takes() {
    let clock: Arc<Mutex<Option<tidegate_core::ManualClock>>> = Arc::default();
    let inside = Arc::clone(&clock);
    let mut client = Client::new(move |request, response| {
        if let Some(clock) = &*inside.lock().unwrap() {
            clock.advance(Duration::from_secs(1));
        }
        echo(request, response);
    });
    *clock.lock().unwrap() = Some(client.clock.clone());
    client.send(get("/a"));
    assert_eq!(client.metrics().total_time, Duration::from_secs(1));
}

#[test]
fn errors_are_counted_by_who_caused_them() {
    let mut client = Client::new(|_, _| panic!("a mistake"));
    client.send(get("/a"));
    let lines = Lines::of(&client);
    assert!(lines.has("errors service panic 1"), "{:?}", lines.0);
    assert!(
        lines.has("errors service dropped_response 0"),
        "{:?}",
        lines.0
    );
    assert!(lines.has("errors client lost 0"), "{:?}", lines.0);
    let mut client = Client::new(echo);
    client.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.metrics().refusals, [(RefusalReason::HostMissing, 1)]);
    let lines = Lines::of(&client);
    assert!(lines.has("refusals host_missing 1"), "{:?}", lines.0);
    let mut client = Client::new(echo);
    client.socket.fail(std::io::ErrorKind::ConnectionReset);
    client.socket.run();
    assert_eq!(client.metrics().lost_connections, 1);
    assert_eq!(client.metrics().connections, 0);
    assert_eq!(
        client.metrics().to_string(),
        "0 requests, 0 connections, 1 lost connections"
    );
}
