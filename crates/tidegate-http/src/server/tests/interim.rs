//! Interim responses: heads before the response, in the order of the requests.

use std::time::Duration;

use super::{Client, closing, get, ok};
use crate::codec::EncodeError;
use crate::server::{DeferredResponse, Limits};

const NONE: [(&str, &str); 0] = [];

/// Sends the hints of a path.
fn hint(response: &DeferredResponse, path: &str) {
    response.interim(103, [("Link", path)]).unwrap();
}

fn hints(path: &str) -> String {
    format!("HTTP/1.1 103 Early Hints\r\nLink: {path}\r\n\r\n")
}

#[test]
fn an_interim_response_is_sent_before_the_response() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a"));
    let response = later.take("/a");
    hint(&response, "/1");
    assert_eq!(client.responses(), hints("/1"));
    response.interim(102, NONE).unwrap();
    hint(&response, "/2");
    let expected = format!("HTTP/1.1 102 Processing\r\n\r\n{}", hints("/2"));
    assert_eq!(client.responses(), expected);
    response.body("a");
    assert_eq!(client.responses(), ok("a"));
    // They are no responses.
    let metrics = client.metrics();
    assert_eq!((metrics.requests, metrics.responses), (1, [1, 0, 0, 0, 0]));
    assert_eq!(client.send(get("/now")), ok("now"));
}

#[test]
fn a_service_can_send_one_before_it_returns() {
    let mut client = Client::new(|request, response| {
        let response = response.defer();
        hint(&response, request.path());
        response.body("x");
    });
    let both = |path: &str| hints(path) + &ok("x");
    assert_eq!(client.send(get("/a")), both("/a"));
    let two = client.send(get("/b") + &get("/c"));
    assert_eq!(two, both("/b") + &both("/c"));
}

#[test]
fn an_interim_response_waits_for_earlier_responses() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a") + &get("/b") + &get("/c"));
    let [a, b, c] = ["/a", "/b", "/c"].map(|path| later.take(path));
    hint(&b, "/b1");
    hint(&c, "/c");
    hint(&b, "/b2");
    assert_eq!(client.responses(), "");
    hint(&a, "/a");
    assert_eq!(client.responses(), hints("/a"));
    // The response is there before the turn of its hints.
    c.body("c");
    a.body("a");
    let expected = ok("a") + &hints("/b1") + &hints("/b2");
    assert_eq!(client.responses(), expected);
    hint(&b, "/b3");
    b.body("b");
    let expected = hints("/b3") + &ok("b") + &hints("/c") + &ok("c");
    assert_eq!(client.responses(), expected);
    assert!(client.is_open());
}

#[test]
fn a_response_that_ends_the_connection_drops_what_waits() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a") + &get("/b"));
    let [a, b] = ["/a", "/b"].map(|path| later.take(path));
    hint(&b, "/b");
    drop(a);
    assert_eq!(client.responses(), closing("500 Internal Server Error"));
    hint(&b, "/b");
    assert_eq!(client.responses(), "");
    assert!(b.is_closed());
}

#[test]
fn http_1_0_has_no_interim_responses() {
    let (mut client, later) = Client::deferring();
    client.send("GET /a HTTP/1.0\r\n\r\n");
    let response = later.take("/a");
    hint(&response, "/1");
    assert_eq!(client.responses(), "");
    response.body("a");
    assert!(client.responses().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn a_mistake_sends_nothing_and_the_response_goes_on() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a"));
    let response = later.take("/a");
    assert_eq!(response.interim(200, NONE), Err(EncodeError::Status));
    let injected = response.interim(103, [("Link", "a\r\nb: c")]);
    assert_eq!(injected, Err(EncodeError::FieldValue));
    response.body("a");
    assert_eq!(client.responses(), ok("a"));
}

#[test]
fn a_client_that_does_not_read_gets_none() {
    let (mut client, later) = Client::deferring();
    client.socket.set_room(Some(0));
    client.send(get("/a") + &get("/b"));
    let [a, b] = ["/a", "/b"].map(|path| later.take(path));
    let large = "x".repeat(1 << 20);
    a.body(large.clone());
    client.socket.run();
    hint(&b, "/b");
    client.socket.run();
    client.socket.set_room(None);
    assert_eq!(client.responses(), ok(&large));
    hint(&b, "/b");
    assert_eq!(client.responses(), hints("/b"));
    b.body("b");
    assert_eq!(client.responses(), ok("b"));
}

#[test]
fn an_interim_response_does_not_prolong_the_time() {
    let limits = Limits::default().response_time(Duration::from_secs(10));
    let (mut client, later) = Client::deferring_within(limits);
    client.send(get("/a"));
    let response = later.take("/a");
    for _ in 0..4 {
        hint(&response, "/a");
        assert_eq!(client.responses(), hints("/a"));
        assert_eq!(client.pass(Duration::from_secs(2)), "");
    }
    hint(&response, "/a");
    assert_eq!(client.responses(), hints("/a"));
    let late = client.pass(Duration::from_secs(3));
    assert_eq!(late, closing("503 Service Unavailable"));
    hint(&response, "/a");
    assert_eq!(client.responses(), "");
}

#[test]
fn the_protocol_stays_undecided_after_an_interim_response() {
    let (mut client, later) = Client::deferring();
    client.send("GET /u HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    let response = later.take("/u");
    hint(&response, "/u");
    assert_eq!(client.responses(), hints("/u"));
    // Would be of the other protocol.
    assert_eq!(client.send(get("/now")), "");
    response.body("no");
    assert_eq!(client.responses(), ok("no") + &ok("now"));
}
