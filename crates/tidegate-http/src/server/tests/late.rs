//! A service that does not respond in time.

use std::time::Duration;

use tidegate_testkit::Log;

use super::{Client, Kept, closing, get, ok};
use crate::server::{BodyError, DeferredResponse, Limits};

const UNAVAILABLE: &str = "503 Service Unavailable";

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn deferring(limits: Limits) -> (Client, Kept<DeferredResponse>) {
    Client::keeping(limits, |_, response| Some(response.defer()))
}

fn ten_seconds() -> Limits {
    Limits::default().response_time(seconds(10))
}

#[test]
fn a_service_that_does_not_respond_in_time_is_status_503() {
    let (mut client, kept) = deferring(ten_seconds());
    assert_eq!(client.send(get("/a")), "");
    assert_eq!(client.pass(seconds(9)), "");
    let late = kept.first();
    assert!(!late.is_closed());
    assert_eq!(client.pass(seconds(2)), closing(UNAVAILABLE));
    assert!(!client.is_open() && late.is_closed());
    late.body("too late");
    assert_eq!(client.responses(), "");
    let metrics = client.metrics();
    assert_eq!((metrics.late_responses, metrics.dropped_responses), (1, 0));
    assert_eq!(metrics.responses, [0, 0, 0, 1, 0]);
    assert!(metrics.to_string().contains("1 late responses"));
}

#[test]
fn a_response_in_time_is_sent_and_the_next_request_has_its_own_time() {
    let (mut client, kept) = deferring(ten_seconds());
    for _ in 0..3 {
        client.send(get("/a"));
        assert_eq!(client.pass(seconds(9)), "");
        kept.first().body("a");
        assert_eq!(client.responses(), ok("a"));
        assert_eq!(client.pass(seconds(20)), "");
    }
    assert!(client.is_open());
    assert_eq!(client.metrics().late_responses, 0);
}

#[test]
fn the_time_is_five_minutes_unless_it_is_set_and_may_be_unlimited() {
    let (mut client, _kept) = deferring(Limits::default());
    client.send(get("/a"));
    assert_eq!(client.pass(seconds(299)), "");
    assert_eq!(client.pass(seconds(2)), closing(UNAVAILABLE));

    let (mut client, kept) = deferring(Limits::default().response_time(Duration::MAX));
    client.send(get("/a"));
    for _ in 0..10 {
        assert_eq!(client.pass(seconds(3600)), "");
    }
    kept.first().body("a");
    assert_eq!(client.responses(), ok("a"));
}

#[test]
fn the_time_runs_from_the_end_of_a_body_that_the_service_reads() {
    let (kept, keep) = Log::pair();
    let mut client = Client::with_limits(ten_seconds(), move |request, response| {
        let (later, keep) = (response.defer(), keep.clone());
        request.collect(100).finally(move |_| keep.push(later));
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    for _ in 0..5 {
        assert_eq!(client.pass(seconds(25)), "");
        assert_eq!(client.send("x"), "");
    }
    assert_eq!(client.pass(seconds(9)), "");
    assert_eq!(client.pass(seconds(2)), closing(UNAVAILABLE));
    assert!(kept.take()[0].is_closed());
}

#[test]
fn a_service_that_stops_reading_its_body_is_late_too() {
    let (mut client, kept) = Client::reading_within(ten_seconds());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    assert_eq!(client.pass(seconds(20)), "");
    assert_eq!(client.send(vec![b'x'; 100_000]), "");
    assert_eq!(client.pass(seconds(9)), "");
    assert_eq!(client.pass(seconds(2)), closing(UNAVAILABLE));
    let (mut body, later) = kept.first();
    assert!(later.is_closed() && client.is_lingering());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut failed = false;
    for _ in 0..10 {
        if let std::task::Poll::Ready(Some(Err(why))) = body.poll_next(&mut cx) {
            failed = why == BodyError::Closed;
        }
    }
    assert!(failed, "the rest of the body does not come");
}

#[test]
fn a_body_that_nothing_reads_does_not_prolong_the_time() {
    let (mut client, kept) = deferring(ten_seconds());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..4 {
        client.advance(seconds(2));
        assert_eq!(client.send("x"), "");
    }
    assert_eq!(client.pass(seconds(3)), closing(UNAVAILABLE));
    assert!(kept.first().is_closed());
}

#[test]
fn requests_behind_a_late_response_get_none() {
    let (mut client, kept) = deferring(ten_seconds());
    let requests: String = (0..20).map(|n| get(&format!("/{n}"))).collect();
    client.send(requests);
    assert_eq!(client.pass(seconds(11)), closing(UNAVAILABLE));
    // Requests that were not read would reset the connection.
    assert!(client.is_lingering());
    let metrics = client.metrics();
    assert_eq!((metrics.late_responses, metrics.unanswered), (1, 15));
    for late in kept.all() {
        assert!(late.is_closed());
        late.body("too late");
    }
    assert_eq!(client.pass(seconds(3)), "");
    assert!(!client.is_open());
}

#[test]
fn a_response_is_not_late_while_the_client_gets_an_earlier_one() {
    let (streams, keep) = Log::pair();
    let (mut client, kept) = Client::keeping(ten_seconds(), move |request, response| {
        if request.path() == "/stream" {
            keep.push(response.stream());
            return None;
        }
        Some(response.defer())
    });
    client.send(get("/stream") + &get("/late") + &get("/in-time"));
    client.pass(seconds(60));
    let late = kept.first();
    assert!(!late.is_closed());
    streams.take().remove(0).finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
    assert_eq!(client.pass(seconds(1)), closing(UNAVAILABLE));
    assert!(late.is_closed() && kept.first().is_closed());
}

#[test]
fn a_stream_that_has_begun_may_take_its_time() {
    let (mut client, streams) =
        Client::keeping(ten_seconds(), |_, response| Some(response.defer().stream()));
    client.send(get("/events"));
    assert_eq!(client.pass(seconds(3600)), "");
    let mut stream = streams.first();
    assert!(!stream.is_closed());
    stream.write("tick");
    assert_eq!(client.responses(), "4\r\ntick\r\n");
    client.close();
    assert!(stream.is_closed());
}

#[test]
fn a_service_that_does_not_decide_about_the_protocol_is_late() {
    let (mut client, kept) = deferring(ten_seconds());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nmore");
    assert_eq!(client.pass(seconds(11)), closing(UNAVAILABLE));
    assert!(client.is_lingering());
    let late = kept.first();
    assert!(late.is_closed());
    late.field("Upgrade", "echo").switch(|switch| switch);
    assert_eq!(client.responses(), "");
    assert_eq!(client.metrics().late_responses, 1);
}

#[test]
fn a_client_that_waits_for_100_continue_gets_503_and_no_100() {
    let (mut client, _kept) = deferring(ten_seconds());
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.send(head);
    assert_eq!(client.pass(seconds(11)), closing(UNAVAILABLE));
    assert!(client.is_lingering());
}
