//! Changes of the protocol: upgrades and `CONNECT`.

use std::time::Duration;

use bytes::Bytes;
use tidegate_net::handlers::LineFrames;
use tidegate_net::{
    DrainAnnounced, Draining, Handler, Inbound, InboundContext, InputShutdown, Nothing, UserEvent,
};

use super::{Client, Kept, closing, get, ok};
use crate::server::{DeferredResponse, Limits, Request, Response, Switch};

const ASK: &str = "GET /u HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: loud\r\n\r\n";
const ACCEPTED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: loud\r\nConnection: Upgrade\r\n\r\n";
const CONNECT: &str = "CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\n";

/// Sends everything back in upper case, and events in parentheses.
struct Loud;

impl Inbound for Loud {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.write_and_flush("(added)");
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes.to_ascii_uppercase());
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<DrainAnnounced>().is_some() {
            ctx.write_and_flush("(announced)");
        } else if event.downcast_ref::<Draining>().is_some() {
            ctx.write_and_flush("(draining)");
            ctx.close_when_flushed();
        } else if event.downcast_ref::<InputShutdown>().is_some() {
            ctx.write_and_flush("(end)");
            ctx.close_when_flushed();
        }
    }
}

fn loud(switch: Switch) -> Switch {
    switch.add("loud", Handler::inbound(Loud))
}

/// Accepts every change of the protocol, and responds to other requests with their path.
fn accept(request: Request<'_>, response: Response<'_>) {
    if request.upgrade() == Some(b"loud") {
        response.field("Upgrade", "loud").switch(loud);
    } else if request.method() == crate::Method::Connect {
        response.switch(loud);
    } else {
        response.body(request.path().to_owned());
    }
}

/// A client of a service that keeps the responses to requests for an upgrade.
fn deferring() -> (Client, Kept<DeferredResponse>) {
    Client::keeping(Limits::default(), |request, response| {
        if request.upgrade().is_some() {
            return Some(response.defer());
        }
        response.body(request.path().to_owned());
        None
    })
}

#[test]
fn an_accepted_upgrade_passes_the_connection_on() {
    let mut client = Client::new(accept);
    assert_eq!(client.send(get("/a")), ok("/a"));
    assert_eq!(client.send(ASK), format!("{ACCEPTED}(added)"));
    assert_eq!(client.send("hello"), "HELLO");
    assert_eq!(client.socket.names(), ["http-switch-idle", "loud"]);
    let metrics = client.metrics();
    assert_eq!((metrics.requests, metrics.connections), (2, 0));
    assert_eq!(metrics.responses, [1, 0, 0, 0, 1]);
}

#[test]
fn bytes_behind_the_request_reach_the_handlers_first() {
    let tail = "\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n and more";
    let message = get("/a") + ASK + tail;
    let whole = format!("{}{ACCEPTED}(added){}", ok("/a"), tail.to_uppercase());
    for at in 1..message.len() {
        let mut client = Client::new(accept);
        let first = client.send(message[..at].to_owned());
        let rest = client.send(message[at..].to_owned());
        assert_eq!(first + &rest, whole, "split at {at}");
        assert_eq!(client.metrics().requests, 2);
    }
}

#[test]
fn an_accepted_connect_has_status_200_and_no_framing() {
    let mut client = Client::new(accept);
    let sent = client.send(CONNECT.to_owned() + "hello");
    assert_eq!(sent, "HTTP/1.1 200 OK\r\n\r\n(added)HELLO");
    let mut client = Client::new(accept);
    let sent = client.send("CONNECT b:80 HTTP/1.0\r\n\r\nhello");
    assert_eq!(sent, "HTTP/1.1 200 OK\r\n\r\n(added)HELLO");
}

#[test]
fn a_refused_change_stays_http() {
    let mut client = Client::new(|request, response| {
        response.status(403).body(request.path().to_owned());
    });
    let refused = |path: &str| ok(path).replace("HTTP/1.1 200 OK", "HTTP/1.1 403 Forbidden");
    let sent = client.send(ASK.to_owned() + CONNECT + &get("/a"));
    assert_eq!(sent, refused("/u") + &refused("") + &refused("/a"));
    assert_eq!(client.socket.names(), ["http"]);
}

#[test]
fn several_handlers_stand_in_their_order() {
    let mut client = Client::new(|_, response| {
        let response = response.field("Upgrade", "loud");
        response.switch(|switch| {
            let switch = switch.add("lines", Handler::inbound(LineFrames::max(80)));
            loud(switch).idle(Duration::MAX)
        });
    });
    let sent = client.send(ASK.to_owned() + "one\ntwo\nthr");
    assert_eq!(sent, format!("{ACCEPTED}(added)ONETWO"));
    assert_eq!(client.send("ee\n"), "THREE");
    assert_eq!(client.socket.names(), ["lines", "loud"]);
}

#[test]
fn a_deferred_response_can_change_the_protocol() {
    let (mut client, held) = deferring();
    assert_eq!(client.send(ASK.to_owned() + &get("/b")), "");
    assert_eq!(client.metrics().requests, 1, "the rest may not be HTTP");
    assert_eq!(client.send("!"), "");
    let response = held.last();
    response.field("Upgrade", "loud").switch(loud);
    let tail = (get("/b") + "!").to_uppercase();
    assert_eq!(client.responses(), format!("{ACCEPTED}(added){tail}"));
    assert_eq!(client.send("hello"), "HELLO");
}

#[test]
fn a_deferred_refusal_goes_on_with_http() {
    let (mut client, held) = deferring();
    client.send(ASK.to_owned() + &get("/b") + &get("/c"));
    held.last().body("no");
    assert_eq!(client.responses(), ok("no") + &ok("/b") + &ok("/c"));
    assert_eq!(client.send(get("/d")), ok("/d"));
}

#[test]
fn a_change_waits_for_earlier_responses() {
    let (mut client, held) = Client::keeping(Limits::default(), |request, response| {
        if request.upgrade().is_none() {
            return Some(response.defer());
        }
        response.field("Upgrade", "loud").switch(loud);
        None
    });
    assert_eq!(client.send(get("/a") + ASK + "hello"), "");
    held.last().body("first");
    assert_eq!(
        client.responses(),
        format!("{}{ACCEPTED}(added)HELLO", ok("first"))
    );
}

#[test]
fn a_connection_that_ends_first_is_not_passed_on() {
    let (mut client, held) = deferring();
    client.send(ASK);
    client.socket.channel().close();
    client.socket.run();
    let response = held.last();
    assert!(response.is_closed());
    response
        .field("Upgrade", "loud")
        .switch(|_| unreachable!("the connection has ended"));
    assert_eq!(client.responses(), "");
}

#[test]
fn a_client_that_ended_its_half_is_passed_on_with_its_end() {
    let (mut client, held) = deferring();
    client.send(ASK.to_owned());
    client.socket.end_input();
    assert_eq!(client.responses(), "");
    assert!(client.is_open());
    let response = held.last();
    response.field("Upgrade", "loud").switch(loud);
    // The channel does not allow half-closure, so it ends.
    assert_eq!(client.responses(), format!("{ACCEPTED}(added)"));
    assert!(!client.is_open());
}

#[test]
fn a_client_that_ended_its_half_gets_a_refusal() {
    let (mut client, held) = deferring();
    client.send(ASK.to_owned());
    client.socket.end_input();
    client.responses();
    held.last().body("");
    assert_eq!(client.responses(), closing("200 OK"));
    assert!(!client.is_open());
}

#[test]
fn handlers_hear_of_a_drain_that_began_before() {
    let (mut client, held) = deferring();
    client.send(ASK);
    client.socket.channel().fire_event(DrainAnnounced);
    client.socket.channel().fire_event(Draining);
    assert_eq!(client.responses(), "");
    let response = held.last();
    response.field("Upgrade", "loud").switch(loud);
    let events = "(added)(announced)(draining)";
    assert_eq!(client.responses(), format!("{ACCEPTED}{events}"));
    assert!(!client.is_open());
}

#[test]
fn a_connection_that_was_passed_on_drains_as_its_handlers_say() {
    let mut client = Client::new(accept);
    client.send(ASK);
    client.socket.channel().fire_event(Draining);
    assert_eq!(client.responses(), "(draining)");
    assert!(!client.is_open());
}

#[test]
fn an_idle_connection_ends_after_its_own_limit() {
    let mut client = Client::new(|_, response| {
        let response = response.field("Upgrade", "loud");
        response.switch(|switch| loud(switch).idle(Duration::from_secs(200)));
    });
    client.send(ASK);
    client.pass(Duration::from_secs(190));
    assert_eq!(client.send("still"), "STILL");
    client.pass(Duration::from_secs(190));
    assert!(client.is_open(), "the limits of HTTP do not hold any more");
    client.pass(Duration::from_secs(20));
    assert!(!client.is_open());
}

#[test]
fn a_change_that_the_request_does_not_allow_is_status_500() {
    let upgrade = "Connection: upgrade\r\nUpgrade: loud\r\n";
    let requests = [
        get("/a"),
        format!("GET /a HTTP/1.0\r\n{upgrade}\r\n"),
        format!("POST /a HTTP/1.1\r\nHost: a\r\n{upgrade}Content-Length: 2\r\n\r\nab"),
        "GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: loud\r\n\r\n".to_owned(),
    ];
    for request in requests {
        let mut client = Client::new(|request, response| {
            assert_eq!(request.upgrade(), None);
            response.field("Upgrade", "loud").switch(loud);
        });
        let sent = client.send(request.clone());
        assert_eq!(sent, closing("500 Internal Server Error"), "{request}");
        assert_eq!(client.metrics().mistakes, 1);
    }
}

#[test]
fn a_head_that_is_not_complete_is_status_500() {
    let failed = closing("500 Internal Server Error");
    // No protocol.
    let mut client = Client::new(|_, response| response.switch(loud));
    assert_eq!(client.send(ASK), failed);
    // A tunnel that is refused and accepted at once.
    let mut client = Client::new(|_, response| response.status(404).switch(loud));
    assert_eq!(client.send(CONNECT), failed);
    // The client would take the body for the tunnel.
    let mut client = Client::new(|_, response| response.body("hello"));
    assert_eq!(client.send(CONNECT), failed);
    let mut client = Client::new(|_, response| response.defer().body("hello"));
    assert_eq!(client.send(CONNECT), failed);
}

#[test]
fn handlers_that_cannot_take_over_are_status_500() {
    let failed = closing("500 Internal Server Error");
    let cases: [fn(Switch) -> Switch; 4] = [
        |switch| switch,
        |_| panic!("told to"),
        // Takes text, not bytes.
        |switch| switch.add("text", Handler::inbound(Text)),
        |switch| loud(loud(switch)),
    ];
    for (number, make) in cases.into_iter().enumerate() {
        let mut client = Client::new(move |_, response| {
            response.field("Upgrade", "loud").switch(make);
        });
        let sent = client.send(ASK.to_owned() + "tail");
        assert!(sent.starts_with(&failed), "case {number}: {sent}");
        assert_eq!(sent.matches("HTTP/1.1").count(), 1, "case {number}: {sent}");
        client.pass(Duration::from_secs(10));
        assert!(!client.is_open(), "case {number}");
    }
}

#[test]
fn a_service_that_panics_after_its_acceptance_has_not_accepted() {
    let mut client = Client::new(|_, response| {
        response.field("Upgrade", "loud").switch(loud);
        panic!("told to");
    });
    assert_eq!(client.send(ASK), closing("500 Internal Server Error"));
}

#[test]
fn a_closure_that_panics_when_it_is_dropped_does_no_harm() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("told to");
        }
    }
    let (mut client, _held) = Client::keeping(Limits::default(), |request, response| {
        if request.upgrade().is_none() {
            return Some(response.defer());
        }
        let bomb = Bomb;
        response.field("Upgrade", "loud").switch(move |switch| {
            let _bomb = bomb;
            loud(switch)
        });
        None
    });
    client.send(get("/a") + ASK);
    client.close();
    assert_eq!(client.metrics().connections, 0);
}

struct Text;

impl Inbound for Text {
    type In = String;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, _: String, _: &mut InboundContext<'_, Self>) {}
}
