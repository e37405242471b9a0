//! Pipelined requests with methods that are not safe: each one runs alone.

use std::time::Duration;

use tidegate_net::{DrainAnnounced, Draining, Handler, Inbound, InboundContext, Nothing};

use tidegate_testkit::{Log, Rng};

use super::{Client, Kept, closing, get, ok};
use crate::server::{DeferredResponse, Limits, Request, Response};

const UNSAFE: [&str; 7] = ["PUT", "DELETE", "POST", "PATCH", "PURGE", "get", "CONNECT"];

type Begun = Kept<(String, DeferredResponse)>;

/// Defers all responses but those to paths that begin with `/now`.
fn defer(request: Request<'_>, response: Response<'_>) -> Option<(String, DeferredResponse)> {
    let what = format!("{} {}", request.method(), request.path());
    if request.path().starts_with("/now") {
        response.body(what);
        return None;
    }
    Some((what, response.defer()))
}

fn client() -> (Client, Begun) {
    with_limits(Limits::default())
}

fn with_limits(limits: Limits) -> (Client, Begun) {
    Client::keeping(limits, defer)
}

/// A request without a body.
fn ask(method: &str, path: &str) -> String {
    match method {
        "CONNECT" => "CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\n".to_owned(),
        _ => format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
    }
}

/// A response that ends its connection.
fn last(body: &str) -> String {
    ok(body).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_request_that_is_not_safe_waits_for_all_earlier_ones() {
    for method in UNSAFE {
        let (mut client, begun) = client();
        client.send(get("/a") + &get("/b") + &get("/now") + &ask(method, "/c"));
        assert_eq!(begun.names(), ["GET /a", "GET /b"], "{method}");
        begun.take("GET /b").body("b");
        assert_eq!(client.responses(), "");
        assert_eq!(begun.names(), ["GET /a"], "{method}");
        begun.take("GET /a").body("a");
        assert_eq!(client.responses(), ok("a") + &ok("b") + &ok("GET /now"));
        assert_eq!(begun.names().len(), 1, "{method}");
        assert_eq!(client.metrics().requests, 4);
    }
}

#[test]
fn no_request_begins_before_one_that_is_not_safe_has_ended() {
    for method in UNSAFE {
        let (mut client, begun) = client();
        client.send(ask(method, "/a") + &get("/b") + &get("/now") + &ask("PUT", "/c"));
        let first = begun.names();
        assert_eq!(first.len(), 1, "{method}");
        begun.take(&first[0]).status(404).body("a");
        assert!(client.responses().ends_with("\r\n\r\na"), "{method}");
        assert_eq!(begun.names(), ["GET /b"], "{method}");
        begun.take("GET /b").body("b");
        assert_eq!(client.responses(), ok("b") + &ok("GET /now"));
        assert_eq!(begun.names(), ["PUT /c"], "{method}");
    }
}

#[test]
fn requests_of_safe_methods_run_beside_each_other() {
    let (mut client, begun) = client();
    let safe = ["GET", "HEAD", "OPTIONS", "TRACE"];
    client.send(safe.map(|method| ask(method, "/a")).concat());
    assert_eq!(begun.names(), safe.map(|method| format!("{method} /a")));
    assert!(client.is_open());
}

#[test]
fn responses_at_once_leave_with_one_send_whatever_the_methods_are() {
    let (mut client, _) = client();
    let methods = ["GET", "PUT", "DELETE", "GET", "POST", "GET"];
    let before = client.socket.write_calls();
    let sent = client.send(methods.map(|method| ask(method, "/now")).concat());
    let expected = methods.map(|method| ok(&format!("{method} /now")));
    assert_eq!(sent, expected.concat());
    assert_eq!(client.socket.write_calls() - before, 1);
}

#[test]
fn a_streamed_response_ends_with_its_body() {
    let (mut client, begun) = client();
    client.send(get("/a") + &ask("PUT", "/b") + &get("/c"));
    for (what, next) in [("GET /a", "PUT /b"), ("PUT /b", "GET /c")] {
        let mut stream = begun.take(what).stream();
        stream.write("piece");
        assert!(client.responses().ends_with("5\r\npiece\r\n"));
        assert!(begun.names().is_empty(), "{what}");
        stream.finish();
        assert_eq!(client.responses(), "0\r\n\r\n");
        assert_eq!(begun.names(), [next]);
    }
}

#[test]
fn bodies_wait_with_their_requests() {
    let (got, gets) = Log::pair();
    let (mut client, begun) = Client::keeping(Limits::default(), move |request, response| {
        if request.path() != "/read" {
            return defer(request, response);
        }
        let (gets, later) = (gets.clone(), response.defer());
        let whole = request.collect(100).map(move |body| {
            gets.push(String::from_utf8_lossy(body).into_owned());
        });
        whole.finally(move |_| later.body("read"));
        None
    });
    let put = |path| format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    let chunked = "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   2\r\nhi\r\n0\r\n\r\n";
    let all = get("/a") + &put("/read") + &put("/unread") + chunked + &put("/now") + &get("/z");
    for at in 1..all.len() {
        client.send(all[..at].to_owned());
        client.send(all[at..].to_owned());
        assert_eq!(begun.names(), ["GET /a"], "split at {at}");
        begun.take("GET /a").body("");
        assert_eq!(client.responses(), ok("") + &ok("read"));
        assert_eq!(begun.names(), ["PUT /unread"], "split at {at}");
        begun.take("PUT /unread").body("");
        assert_eq!(client.responses(), ok("") + &ok("read") + &ok("PUT /now"));
        begun.take("GET /z").body("");
        assert_eq!(client.responses(), ok(""));
        assert_eq!(got.take(), ["hello", "hi"]);
    }
}

#[test]
fn what_follows_a_request_that_waits_stays_in_the_socket() {
    for first in ["GET", "PUT"] {
        let (mut client, begun) = client();
        client.send(ask(first, "/a") + &ask("PUT", "/b"));
        for what in [format!("{first} /a"), "PUT /b".to_owned()] {
            // The first piece behind it says that something waits.
            client.send(get("/now"));
            let before = client.metrics().received_bytes;
            for _ in 0..10 {
                client.send(get("/now"));
            }
            assert_eq!(client.metrics().received_bytes, before);
            assert_eq!(begun.names(), [what.as_str()]);
            begun.take(&what).body("");
            assert!(client.responses().starts_with(&ok("")));
        }
        assert!(begun.names().is_empty());
        assert_eq!(client.metrics().requests, 24);
    }
}

#[test]
fn an_empty_line_behind_a_request_that_runs_alone_does_not_stop_reading() {
    let (mut client, begun) = with_limits(Limits::default().half_close(false));
    let post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi\r\n";
    client.send(post);
    assert_eq!(begun.names(), ["POST /a"]);
    client.socket.end_input();
    assert!(begun.take("POST /a").is_closed());
}

#[test]
fn a_client_that_waits_for_continue_gets_it_when_its_request_begins() {
    let (kept, keep) = Log::pair();
    let (mut client, begun) = Client::keeping(Limits::default(), move |request, response| {
        if request.path() != "/read" {
            return defer(request, response);
        }
        let later = response.defer();
        keep.push((request.collect(10), later));
        None
    });
    let expecting = "PUT /read HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\
                     Expect: 100-continue\r\n\r\n";
    assert_eq!(client.send(get("/a") + expecting), "");
    assert!(kept.is_empty());
    begun.take("GET /a").body("");
    assert_eq!(client.responses(), ok("") + "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hi");
    let (body, later) = kept.take().remove(0);
    assert_eq!(body.wait().unwrap(), "hi");
    later.body("done");
    assert_eq!(client.responses(), ok("done"));
}

#[test]
fn a_request_that_waits_is_not_begun_when_the_connection_is_gone() {
    for reset in [false, true] {
        let (mut client, begun) = client();
        client.send(get("/a") + &ask("PUT", "/b"));
        match reset {
            true => drop(client.socket.channel().abort()),
            false => client.socket.close(),
        }
        client.socket.run();
        let first = begun.take("GET /a");
        assert!(first.is_closed(), "reset: {reset}");
        first.body("a");
        assert_eq!(client.responses(), "");
        assert!(begun.names().is_empty(), "reset: {reset}");
        assert_eq!(client.metrics().requests, 1);
    }
}

#[test]
fn a_client_that_leaves_is_seen_while_a_request_waits() {
    // As a proxy: a client that ends its half has left. Nothing is read before that.
    for (first, second) in [("GET", "PUT"), ("POST", "GET"), ("PUT", "PUT")] {
        let (mut client, begun) = with_limits(Limits::default().half_close(false));
        client.send(ask(first, "/a") + &ask(second, "/b"));
        client.send(get("/c"));
        assert!(client.is_open());
        client.socket.end_input();
        assert!(!client.is_open());
        let left = begun.take(&format!("{first} /a"));
        assert!(left.is_closed());
        left.body("a");
        assert_eq!(client.responses(), "");
        assert!(begun.names().is_empty(), "nothing begins: {first} {second}");
        assert_eq!(client.metrics().requests, 1);
    }
}

#[test]
fn a_client_that_has_left_ends_what_still_runs() {
    let limits = Limits::default().half_close(false).max_outstanding(2);
    let (mut client, begun) = with_limits(limits);
    client.send(get("/a") + &get("/b") + &get("/c"));
    assert_eq!(begun.names(), ["GET /a", "GET /b"]);
    client.socket.end_input();
    assert!(!client.is_open());
    for what in ["GET /a", "GET /b"] {
        let left = begun.take(what);
        assert!(left.is_closed(), "{what}");
        left.body("");
    }
    assert_eq!(client.responses(), "");
    assert!(begun.names().is_empty());
}

#[test]
fn a_client_that_leaves_is_seen_while_its_body_is_not_taken() {
    let (mut client, kept) = Client::reading_within(Limits::default().half_close(false));
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    let (body, later) = kept.last();
    // Nobody reads the body: a part of it stays in the socket.
    for _ in 0..20 {
        client.send("x".repeat(10_000));
    }
    let read = client.metrics().received_bytes;
    client.send("x");
    assert_eq!(client.metrics().received_bytes, read);
    assert!(!later.is_closed());
    client.socket.end_input();
    assert!(!client.is_open());
    assert!(later.is_closed());
    drop(body);
}

#[test]
fn a_request_that_waits_runs_after_the_client_has_ended_its_half() {
    let (mut client, begun) = client();
    client.send(get("/a") + &ask("PUT", "/b") + &ask("PUT", "/c"));
    client.socket.end_input();
    for (what, expected) in [("GET /a", ok("")), ("PUT /b", ok("")), ("PUT /c", last(""))] {
        assert_eq!(begun.names(), [what]);
        begun.take(what).body("");
        assert_eq!(client.responses(), expected);
    }
    assert!(!client.is_open());
}

#[test]
fn a_drain_does_not_begin_a_request_that_waits() {
    for how in 0..3 {
        for (first, second) in [("GET", "PUT"), ("PUT", "GET"), ("PUT", "PUT")] {
            let (mut client, begun) = client();
            client.send(ask(first, "/a") + &ask(second, "/b"));
            match how {
                0 => client.socket.channel().fire_event(Draining),
                1 => client.socket.channel().fire_event(DrainAnnounced),
                // The event is still on its way.
                _ => client.shared.begin_drain(),
            }
            client.socket.run();
            begun.take(&format!("{first} /a")).body("a");
            assert_eq!(client.responses(), last("a"), "{how} {first} {second}");
            assert!(begun.names().is_empty(), "{how} {first} {second}");
            assert!(client.is_lingering());
            client.socket.end_input();
            assert!(!client.is_open());
            let metrics = client.metrics();
            assert_eq!((metrics.requests, metrics.unanswered), (1, 0));
        }
    }
}

/// Sends everything back in upper case.
struct Loud;

impl Inbound for Loud {
    type In = bytes::Bytes;
    type Out = Nothing;
    type Write = bytes::Bytes;

    fn read(&mut self, bytes: bytes::Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write_and_flush(bytes.to_ascii_uppercase());
    }
}

#[test]
fn a_change_of_the_protocol_waits_and_gets_what_follows() {
    let (mut client, begun) = client();
    client.send(get("/a") + &ask("CONNECT", "") + "tunnel");
    assert_eq!(begun.names(), ["GET /a"]);
    begun.take("GET /a").body("a");
    assert_eq!(client.responses(), ok("a"));
    let tunnel = begun.take(&begun.names()[0]);
    tunnel.switch(|switch| switch.add("loud", Handler::inbound(Loud)));
    assert_eq!(client.responses(), "HTTP/1.1 200 OK\r\n\r\nTUNNEL");
}

#[test]
fn a_refused_change_of_the_protocol_ends_with_its_body() {
    let upgrade = |method| {
        format!("{method} /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
    };
    for first in [ask("CONNECT", ""), upgrade("POST"), upgrade("GET")] {
        let (mut client, begun) = client();
        client.send(first.clone() + &get("/b") + &ask("PUT", "/c"));
        let mut stream = begun.take(&begun.names()[0]).status(403).stream();
        stream.write("no");
        assert!(client.responses().ends_with("2\r\nno\r\n"), "{first}");
        assert!(begun.names().is_empty(), "{first}");
        stream.finish();
        assert_eq!(client.responses(), "0\r\n\r\n");
        assert_eq!(begun.names(), ["GET /b"], "{first}");
    }
}

#[test]
fn an_error_before_a_request_that_waits_ends_the_connection() {
    let (mut client, begun) = client();
    client.send(get("/a") + &ask("PUT", "/b"));
    drop(begun.take("GET /a"));
    assert_eq!(client.responses(), closing("500 Internal Server Error"));
    assert!(begun.names().is_empty());
    assert!(client.is_lingering());
}

#[test]
fn a_bad_head_behind_a_request_that_runs_alone_is_refused_after_it() {
    let (mut client, begun) = client();
    assert_eq!(client.send(ask("PUT", "/a") + "no head\r\n\r\n"), "");
    begun.take("PUT /a").body("a");
    assert_eq!(client.responses(), ok("a") + &closing("400 Bad Request"));
    assert!(client.is_lingering());
}

#[test]
fn no_limit_of_time_runs_for_a_request_that_waits() {
    let limits = Limits::default().response_time(Duration::from_secs(1000));
    let (mut client, begun) = with_limits(limits);
    client.send(get("/a") + &ask("PUT", "/b")[..20]);
    client.send(ask("PUT", "/b")[20..].to_owned() + "GET /c");
    // Longer than a head, and than an idle connection, may take.
    assert_eq!(client.pass(Duration::from_secs(500)), "");
    begun.take("GET /a").body("");
    assert_eq!(client.responses(), ok(""));
    // The service has its time from the call.
    assert_eq!(client.pass(Duration::from_secs(900)), "");
    begun.take("PUT /b").body("");
    assert_eq!(client.responses(), ok(""));
    // The rest of the next head has its time now.
    assert_eq!(client.pass(Duration::from_secs(9)), "");
    assert_eq!(
        client.pass(Duration::from_secs(2)),
        closing("408 Request Timeout")
    );
}

#[test]
fn a_late_response_leaves_what_waits_behind_it_alone() {
    let (mut client, begun) = client();
    client.send(get("/a") + &ask("PUT", "/b"));
    let sent = client.pass(Duration::from_secs(301));
    assert_eq!(sent, closing("503 Service Unavailable"));
    assert_eq!(begun.names(), ["GET /a"]);
    begun.take("GET /a").body("");
    assert_eq!(client.responses(), "");
    assert!(begun.names().is_empty());
}

#[test]
fn responses_that_the_client_does_not_take_hold_the_next_request_back() {
    let (mut client, begun) = client();
    client.socket.set_room(Some(0));
    client.send(get("/a") + &ask("PUT", "/b"));
    begun.take("GET /a").body("x".repeat(1 << 20));
    assert_eq!(client.responses(), "");
    assert!(begun.names().is_empty());
    client.socket.set_room(None);
    assert_eq!(client.responses(), ok(&"x".repeat(1 << 20)));
    assert_eq!(begun.names(), ["PUT /b"]);
}

#[test]
fn any_mix_of_methods_runs_in_order_and_nothing_beside_an_unsafe_one() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let methods = ["GET", "GET", "HEAD", "PUT", "POST"];
        let asked: Vec<_> = (0..30)
            .map(|n| {
                let now = ["", "now"][rng.index(4) / 3];
                (methods[rng.index(5)], format!("/{now}{n}"))
            })
            .collect();
        let bytes: String = asked
            .iter()
            .map(|(method, path)| ask(method, path))
            .collect();
        let (mut client, begun) = client();
        let (mut rest, mut seen, mut sent) = (&bytes[..], Vec::new(), String::new());
        while !rest.is_empty() || !begun.names().is_empty() {
            let piece = rng.index(rest.len().min(200) + 1);
            sent += &client.send(rest[..piece].to_owned());
            rest = &rest[piece..];
            let running = begun.names();
            let alone = running.iter().any(|what| what.starts_with('P'));
            assert!(!alone || running.len() == 1, "{seed}: {running:?}");
            for what in &running {
                if !seen.contains(what) {
                    seen.push(what.clone());
                }
            }
            if !running.is_empty() && rng.index(2) == 0 {
                let one = &running[rng.index(running.len())];
                begun.take(one).body(one.clone());
                sent += &client.responses();
            }
        }
        let all = asked
            .iter()
            .map(|(method, path)| format!("{method} {path}"));
        let deferred: Vec<_> = all.filter(|what| !what.contains("/now")).collect();
        assert_eq!(seen, deferred, "{seed}");
        assert_eq!(sent.matches("HTTP/1.1 200 OK").count(), 30, "{seed}");
        assert!(client.is_open());
    }
}
