//! A service that does not respond in time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Client, closing, get, ok};
use crate::server::{Body, BodyError, DeferredResponse, Limits, ResponseStream};

const UNAVAILABLE: &str = "503 Service Unavailable";

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

type Kept<T> = Arc<Mutex<Vec<T>>>;

fn take<T>(kept: &Kept<T>) -> T {
    kept.lock().unwrap().remove(0)
}

/// A client of a service that defers every response and has ten seconds to begin it.
fn deferring(limits: Limits) -> (Client, Kept<DeferredResponse>) {
    let kept: Kept<DeferredResponse> = Arc::default();
    let keep = Arc::clone(&kept);
    let client = Client::with_limits(limits, move |_, response| {
        keep.lock().unwrap().push(response.defer());
    });
    (client, kept)
}

fn ten_seconds() -> Limits {
    Limits::default().response_time(seconds(10))
}

#[test]
fn a_service_that_does_not_respond_in_time_is_status_503() {
    let (mut client, kept) = deferring(ten_seconds());
    assert_eq!(client.send(get("/a")), "");
    assert_eq!(client.pass(seconds(9)), "");
    let late = take(&kept);
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
        take(&kept).body("a");
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
    take(&kept).body("a");
    assert_eq!(client.responses(), ok("a"));
}

#[test]
fn the_time_runs_from_the_end_of_a_body_that_the_service_reads() {
    let kept: Kept<DeferredResponse> = Arc::default();
    let keep = Arc::clone(&kept);
    let mut client = Client::with_limits(ten_seconds(), move |request, response| {
        let (later, keep) = (response.defer(), Arc::clone(&keep));
        let collected = request.collect(100);
        collected.finally(move |_| keep.lock().unwrap().push(later));
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    for _ in 0..5 {
        assert_eq!(client.pass(seconds(25)), "");
        assert_eq!(client.send("x"), "");
    }
    assert_eq!(client.pass(seconds(9)), "");
    assert_eq!(client.pass(seconds(2)), closing(UNAVAILABLE));
    assert!(take(&kept).is_closed());
}

#[test]
fn a_service_that_stops_reading_its_body_is_late_too() {
    let kept: Kept<(Body, DeferredResponse)> = Arc::default();
    let keep = Arc::clone(&kept);
    let mut client = Client::with_limits(ten_seconds(), move |request, response| {
        let both = (request.into_body(), response.defer());
        keep.lock().unwrap().push(both);
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    assert_eq!(client.pass(seconds(20)), "");
    assert_eq!(client.send(vec![b'x'; 100_000]), "");
    assert_eq!(client.pass(seconds(9)), "");
    assert_eq!(client.pass(seconds(2)), closing(UNAVAILABLE));
    let (mut body, later) = take(&kept);
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
    assert!(take(&kept).is_closed());
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
    for late in std::mem::take(&mut *kept.lock().unwrap()) {
        assert!(late.is_closed());
        late.body("too late");
    }
    assert_eq!(client.pass(seconds(3)), "");
    assert!(!client.is_open());
}

#[test]
fn a_response_is_not_late_while_the_client_gets_an_earlier_one() {
    let streams: Kept<ResponseStream> = Arc::default();
    let kept: Kept<DeferredResponse> = Arc::default();
    let (keep_stream, keep) = (Arc::clone(&streams), Arc::clone(&kept));
    let mut client = Client::with_limits(ten_seconds(), move |request, response| {
        match request.path() {
            "/stream" => keep_stream.lock().unwrap().push(response.stream()),
            _ => keep.lock().unwrap().push(response.defer()),
        }
    });
    client.send(get("/stream") + &get("/late") + &get("/in-time"));
    client.pass(seconds(60));
    let late = take(&kept);
    assert!(!late.is_closed());
    take(&streams).finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
    assert_eq!(client.pass(seconds(1)), closing(UNAVAILABLE));
    assert!(late.is_closed() && take(&kept).is_closed());
}

#[test]
fn a_stream_that_has_begun_may_take_its_time() {
    let streams: Kept<ResponseStream> = Arc::default();
    let keep = Arc::clone(&streams);
    let mut client = Client::with_limits(ten_seconds(), move |_, response| {
        keep.lock().unwrap().push(response.defer().stream());
    });
    client.send(get("/events"));
    assert_eq!(client.pass(seconds(3600)), "");
    let mut stream = take(&streams);
    assert!(!stream.is_closed());
    stream.write("tick");
    assert_eq!(client.responses(), "4\r\ntick\r\n");
    client.socket.close();
    client.socket.run();
    assert!(stream.is_closed());
}

#[test]
fn a_service_that_does_not_decide_about_the_protocol_is_late() {
    let (mut client, kept) = deferring(ten_seconds());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nmore");
    assert_eq!(client.pass(seconds(11)), closing(UNAVAILABLE));
    assert!(client.is_lingering());
    let late = take(&kept);
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
