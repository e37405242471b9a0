//! Drains while requests are outstanding: each one gets its response, and the last one says so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{DrainAnnounced, Draining, Inbound, InboundContext, Nothing, UserEvent};

use super::{Client, Kept, get, ok};
use crate::server::service::Shared;
use crate::server::{DeferredResponse, Limits, Request, Response};

/// The time of [`Limits::default`] for the first request of a connection in a drain.
const LINGER: Duration = Duration::from_secs(2);
const MILLISECOND: Duration = Duration::from_millis(1);

fn deferring() -> (Client, Kept<DeferredResponse>) {
    Client::keeping(Limits::default(), |request, response| {
        match request.path() {
            "/now" => response.body("now"),
            "/stream" => response.stream().finish(),
            _ => return Some(response.defer()),
        }
        None
    })
}

/// A response that ends its connection.
fn last(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// The three ways in which a connection learns of a drain.
fn begin(client: &mut Client, how: usize) {
    match how {
        0 => client.socket.channel().fire_event(Draining),
        1 => client.socket.channel().fire_event(DrainAnnounced),
        // The event is still on its way.
        _ => client.shared.begin_drain(),
    }
    client.socket.run();
}

#[test]
fn only_the_last_of_the_outstanding_responses_says_close() {
    for how in 0..3 {
        for reversed in [false, true] {
            let (mut client, later) = deferring();
            client.send(get("/a") + &get("/b") + &get("/now") + &get("/c"));
            begin(&mut client, how);
            let (a, b, c) = (later.first(), later.first(), later.first());
            match reversed {
                false => [(a, "a"), (b, "b"), (c, "c")],
                true => [(c, "c"), (b, "b"), (a, "a")],
            }
            .into_iter()
            .for_each(|(response, body)| response.body(body));
            let expected = ok("a") + &ok("b") + &ok("now") + &last("c");
            assert_eq!(client.responses(), expected, "{how}");
            assert!(!client.is_open(), "{how}");
            assert_eq!(client.metrics().unanswered, 0);
        }
    }
}

#[test]
fn a_response_that_was_complete_before_the_drain_says_close_if_it_is_the_last() {
    for how in 0..3 {
        let (mut client, later) = deferring();
        client.send(get("/a") + &get("/now"));
        begin(&mut client, how);
        later.first().body("a");
        assert_eq!(client.responses(), ok("a") + &last("now"), "{how}");
        assert!(!client.is_open());

        let (mut client, later) = deferring();
        client.send(get("/a") + &get("/stream"));
        begin(&mut client, how);
        later.first().body("a");
        let stream = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
                      Connection: close\r\n\r\n0\r\n\r\n";
        assert_eq!(client.responses(), ok("a") + stream, "{how}");
        assert!(!client.is_open());
    }
}

#[test]
fn a_drain_replaces_keep_alive_of_http_1_0() {
    let (mut client, later) = deferring();
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    begin(&mut client, 0);
    later.first().body("a");
    assert_eq!(client.responses(), last("a"));
    assert!(!client.is_open());
}

#[test]
fn no_request_is_accepted_behind_outstanding_ones_during_a_drain() {
    for how in 0..3 {
        let (mut client, later) = deferring();
        client.send(get("/a") + &get("/b"));
        begin(&mut client, how);
        if how == 2 {
            later.first().body("a");
            assert_eq!(client.responses(), ok("a"));
        }
        client.send(get("/c") + &get("/d"));
        assert_eq!(client.metrics().requests, 2, "{how}");
        for response in later.all() {
            response.body("");
        }
        assert!(client.responses().ends_with(&last("")));
        assert!(client.is_lingering());
    }
}

#[test]
fn a_head_that_has_begun_behind_outstanding_ones_is_the_last_one() {
    let (mut client, later) = deferring();
    client.send(get("/a") + "GET /b HTTP/1.1\r\n");
    begin(&mut client, 0);
    later.first().body("a");
    assert_eq!(client.responses(), ok("a"));
    client.send("Host: a\r\n\r\n".to_owned() + &get("/c"));
    later.first().body("b");
    assert_eq!(client.responses(), last("b"));
    assert!(client.is_lingering());
    assert_eq!(client.metrics().requests, 2);
}

#[test]
fn the_next_request_after_an_announcement_is_the_last_one() {
    let (mut client, later) = deferring();
    begin(&mut client, 1);
    assert!(client.is_open());
    client.send(get("/a") + &get("/b"));
    assert_eq!(later.len(), 1);
    later.first().body("a");
    assert_eq!(client.responses(), last("a"));
    assert!(client.is_lingering());
}

/// Its head has said that the connection stays, so the client may send another request.
#[test]
fn a_response_that_has_begun_does_not_end_the_connection_of_an_announcement() {
    for unsafe_behind in [false, true] {
        let (mut client, later) = deferring();
        client.send(get("/a"));
        let mut stream = later.first().stream();
        stream.write("a");
        assert!(!client.responses().contains("close"));
        if unsafe_behind {
            // It waits for the response before it.
            client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        }
        begin(&mut client, 1);
        stream.finish();
        assert!(client.responses().ends_with("0\r\n\r\n"));
        assert!(client.is_open() && !client.is_lingering());
        if !unsafe_behind {
            client.send(get("/b"));
        }
        later.first().body("b");
        assert_eq!(client.responses(), last("b"));
        assert!(!client.is_open());
    }
    // When the drain begins, it is the last one.
    let (mut client, later) = deferring();
    client.send(get("/a"));
    let mut stream = later.first().stream();
    stream.write("a");
    begin(&mut client, 1);
    begin(&mut client, 0);
    stream.finish();
    assert!(client.responses().ends_with("0\r\n\r\n"));
    assert!(!client.is_open());
}

/// Passes bytes on before the event of a drain, as a channel does that finds them in its socket.
struct Unread(Option<Bytes>);

impl Inbound for Unread {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.fire_read(bytes);
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        let drains = event.downcast_ref::<Draining>().is_some();
        if drains && let Some(bytes) = self.0.take() {
            ctx.fire_read(bytes);
            ctx.fire_read_complete();
        }
        ctx.fire_event(event);
    }
}

#[test]
fn a_request_that_arrived_before_the_drain_is_served() {
    let behind = |unread: String| {
        let front = Unread(Some(unread.into()));
        let service = Shared(Arc::new(|_: Request<'_>, response: Response<'_>| {
            response.body("now");
        }));
        Client::behind(|p| p.add("unread", front), Limits::default(), service)
    };
    let mut client = behind(get("/a"));
    client.shared.begin_drain();
    begin(&mut client, 0);
    assert_eq!(client.responses(), last("now"));
    assert!(!client.is_open());

    let mut client = behind(get("/a")[..10].to_owned());
    begin(&mut client, 0);
    assert!(client.is_open(), "a head that has begun is served");
    assert_eq!(client.send(get("/a")[10..].to_owned()), last("now"));
    assert!(!client.is_open());
}

#[test]
fn a_service_that_ends_the_connection_in_the_middle_leaves_requests_unanswered() {
    let (mut client, later) = deferring();
    client.send(get("/a") + &get("/b") + &get("/c") + &get("/now"));
    let (a, b, c) = (later.first(), later.first(), later.first());
    b.field("Connection", "close").body("b");
    client.socket.run();
    // Nothing is accepted behind it any more.
    client.send(get("/d"));
    assert_eq!(client.metrics().requests, 4);
    a.body("a");
    assert_eq!(client.responses(), ok("a") + &last("b"));
    assert!(client.is_lingering());
    client.socket.end_input();
    assert!(!client.is_open());
    assert!(c.is_closed());
    drop(c);
    assert_eq!(client.metrics().unanswered, 2);
    assert_eq!(client.metrics().dropped_responses, 0);
}

#[test]
fn a_body_behind_the_end_of_the_connection_fails() {
    let (mut client, kept) = Client::reading();
    client.send(get("/a") + "GET /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
    let (_, a) = kept.first();
    a.field("Connection", "close").body("a");
    assert_eq!(client.responses(), last("a"));
    assert!(client.is_ending());
    assert_eq!(client.metrics().unanswered, 1);
}

#[test]
fn a_connection_ends_with_the_body_that_is_read_after_the_last_response() {
    let early = || {
        Client::keeping(Limits::default(), |request, response| {
            response.body("early");
            Some(request.into_body())
        })
    };
    let (mut client, _kept) = early();
    let head = "POST /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(client.send(head), last("early"));
    assert!(client.is_open());
    client.send("hello");
    assert!(!client.is_open(), "the last request has ended");
    let head = head.replace("Connection: close\r\n", "");
    for dropped in [false, true] {
        let (mut client, kept) = early();
        assert_eq!(client.send(head.clone()), ok("early"));
        begin(&mut client, 0);
        assert!(client.is_open());
        match dropped {
            true => drop(kept.last()),
            false => drop(client.send("hello")),
        }
        client.socket.run();
        assert!(client.is_ending());
    }
}

#[test]
fn the_first_request_of_a_new_connection_has_some_time_in_a_drain() {
    let (mut client, later) = deferring();
    begin(&mut client, 0);
    assert!(client.is_open(), "its request may be on its way");
    client.advance(LINGER - MILLISECOND);
    assert!(client.is_open());
    client.send(get("/a"));
    later.first().body("a");
    assert_eq!(client.responses(), last("a"));
    assert!(!client.is_open());
    // A head that begins in time is served, too.
    let (mut client, _) = deferring();
    begin(&mut client, 0);
    client.send("GET /now");
    client.advance(LINGER);
    assert_eq!(client.send(" HTTP/1.1\r\nHost: a\r\n\r\n"), last("now"));
    assert!(!client.is_open());
}

#[test]
fn a_silent_connection_ends_when_the_time_since_it_was_accepted_is_over() {
    for before in [Duration::ZERO, LINGER / 2, LINGER - MILLISECOND] {
        let (mut client, _) = deferring();
        client.advance(before);
        begin(&mut client, 0);
        client.advance(LINGER - before - MILLISECOND);
        assert!(client.is_open(), "{before:?}");
        client.advance(MILLISECOND);
        assert!(!client.is_open(), "{before:?}");
        assert_eq!(client.responses(), "");
    }
    // An old one ends at once.
    for before in [LINGER, Duration::from_secs(60)] {
        let (mut client, _) = deferring();
        client.advance(before);
        begin(&mut client, 0);
        assert!(!client.is_open(), "{before:?}");
    }
    // The client leaves before.
    let (mut client, _) = deferring();
    begin(&mut client, 0);
    client.end_input();
    assert!(!client.is_open());
}

#[test]
fn a_drain_does_not_wait_for_a_body_that_nothing_reads() {
    let (mut client, _) = deferring();
    let head = "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(client.send(head), ok("now"));
    begin(&mut client, 0);
    assert!(client.is_ending());
    client.pass(Duration::from_secs(3));
    assert!(!client.is_open());
}
