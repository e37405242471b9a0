//! The end of a server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_http::{DeferredResponse, HttpServer};
use tidegate_net::DrainReport;
use tidegate_promise::Completion;
use tidegate_testkit::{Stop, until};

use super::{Client, get, start, start_on};

#[test]
fn a_drain_ends_idle_connections_at_once_and_busy_ones_with_their_response() {
    let kept: Arc<Mutex<Option<DeferredResponse>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let server = start_on(2, move |request, response| match request.path() {
        "/later" => *keep.lock().unwrap() = Some(response.defer()),
        _ => response.body("now"),
    });
    let mut idle: Vec<_> = (0..20).map(|_| Client::of(&server)).collect();
    for client in &mut idle {
        client.ask("/", "now");
    }
    let mut busy = Client::of(&server);
    busy.send(get("/later"));
    until("the request is there", || kept.lock().unwrap().is_some());
    let drained = server.drain(Duration::from_secs(3600));
    for client in idle {
        assert_eq!(client.rest(), "");
    }
    kept.lock().unwrap().take().unwrap().body("later");
    let response = busy.rest();
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(response.ends_with("later"), "{response}");
    let report = drained.wait().unwrap();
    assert_eq!(report.open, 21);
    assert!(report.closed_at_deadline.is_empty(), "{report}");
}

#[test]
fn a_drain_cuts_connections_at_its_deadline() {
    let kept: Arc<Mutex<Vec<DeferredResponse>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let server = start(move |_, response| {
        keep.lock().unwrap().push(response.defer());
    });
    let mut busy = Client::of(&server);
    busy.send(get("/never"));
    until("the request is there", || !kept.lock().unwrap().is_empty());
    let report = server.drain(Duration::ZERO).wait().unwrap();
    assert_eq!(report.closed_at_deadline.len(), 1);
    let late = kept.lock().unwrap().pop().unwrap();
    until("the response learns of it", || late.is_closed());
}

#[test]
fn requests_that_wait_in_their_sockets_when_a_drain_begins_are_answered() {
    let deadline = Duration::from_secs(3600);
    answer_what_waits(|server| server.drain(deadline));
    answer_what_waits(|server| server.server().drain(deadline));
}

fn answer_what_waits(drain: impl FnOnce(&HttpServer) -> Completion<DrainReport>) {
    let stop = Stop::new();
    let inside = stop.closure();
    let server = start(move |request, response| {
        if request.path() == "/block" {
            inside();
        }
        response.body("now");
    });
    let mut clients: Vec<_> = (0..20).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        client.ask("/", "now");
    }
    // The event loop is busy while the requests arrive and the drain begins.
    let mut blocking = Client::of(&server);
    blocking.send(get("/block"));
    stop.reached();
    for client in &mut clients {
        client.send(get("/again"));
    }
    let drained = drain(&server);
    stop.go_on();
    for client in clients {
        let response = client.rest();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response:?}");
        assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
        assert!(response.ends_with("now"), "{response}");
    }
    assert!(blocking.rest().ends_with("now"));
    let report = drained.wait().unwrap();
    assert!(report.closed_at_deadline.is_empty(), "{report}");
    assert_eq!(server.metrics().requests, 41);
}

#[test]
fn a_client_that_goes_on_sending_gets_the_last_response_whole() {
    let server = start(|_, response| {
        response
            .field("Connection", "close")
            .body("x".repeat(100_000));
    });
    let mut client = Client::of(&server);
    // Far more than the server reads at once, behind the request that it ends with.
    client.send(get("/").repeat(1000));
    let (status, body) = client.response();
    assert_eq!((status, body.len()), (200, 100_000));
    assert_eq!(client.rest(), "");
    assert_eq!(server.metrics().requests, 1);
}
