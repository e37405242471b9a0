//! Limits of size and time.

use std::io::ErrorKind;
use std::time::Duration;

use tidegate_net::Channel;
use tidegate_testkit::Log;

use super::{Client, closing, echo, get, ok};
use crate::codec::{Method, RefusalReason, RequestHead};
use crate::server::service::Service;
use crate::server::{Limits, Request, Response};

#[test]
fn a_head_has_its_time_from_its_first_byte() {
    let mut client = Client::new(echo);
    client.send("GET / HTTP/1.1\r\n");
    for _ in 0..9 {
        assert_eq!(client.pass(Duration::from_secs(1)), "");
        client.send("a");
        assert!(client.is_open());
    }
    let response = client.pass(Duration::from_secs(2));
    assert_eq!(response, closing("408 Request Timeout"));
    assert_eq!(client.metrics().refusals, [(RefusalReason::HeadTimeout, 1)]);
}

#[test]
fn an_idle_connection_ends_without_a_response() {
    let mut client = Client::new(echo);
    client.send(get("/a"));
    assert_eq!(client.pass(Duration::from_secs(70)), "");
    assert!(client.is_open());
    assert_eq!(client.pass(Duration::from_secs(6)), "");
    assert!(!client.is_open());
}

#[test]
fn a_body_without_progress_is_refused() {
    let mut client = Client::new(|request, response| {
        let later = response.defer();
        request.collect(100).finally(move |_| later.body(""));
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n");
    for _ in 0..10 {
        client.pass(Duration::from_secs(25));
        client.send("x");
        assert!(client.is_open());
    }
    let response = client.pass(Duration::from_secs(31));
    assert_eq!(response, closing("408 Request Timeout"));
}

#[test]
fn a_client_that_takes_nothing_is_cut() {
    let mut client = Client::new(|_, response| response.body(vec![0; 1 << 20]));
    client.socket.set_room(Some(1000));
    client.socket.receive(get("/a"));
    client.socket.run();
    for _ in 0..5 {
        client.advance(Duration::from_secs(25));
        client.socket.set_room(Some(1000));
        client.socket.run();
        assert!(client.is_open());
    }
    // The first check sees that bytes were taken since the one before it, the second one does not.
    client.advance(Duration::from_secs(31));
    client.advance(Duration::from_secs(31));
    assert!(!client.is_open());
}

#[test]
fn a_client_that_reads_slowly_but_steadily_is_not_cut() {
    let mut client = Client::new(|_, response| response.body(vec![0; 1 << 20]));
    client.socket.set_room(Some(100_000));
    client.socket.receive(get("/a"));
    client.socket.run();
    // The system takes no more until much of what it holds is taken.
    for held in (50_000..100_000).rev().step_by(5000) {
        client.socket.set_held(held);
        client.advance(Duration::from_secs(31));
        assert!(client.is_open(), "{held} bytes are left");
    }
    client.advance(Duration::from_secs(31));
    assert!(!client.is_open());
    assert_eq!(client.metrics().slow_readers, 1);
}

#[test]
fn a_client_that_leaves_its_response_to_the_system_is_cut() {
    let mut client = Client::new(echo);
    assert_eq!(client.send(get("/a")), ok("GET /a"));
    // Sent just before the first look, so it is no sign of a slow client.
    client.socket.set_held(20);
    client.advance(Duration::from_secs(31));
    assert!(client.is_open());
    client.advance(Duration::from_secs(31));
    assert!(!client.is_open());
    assert_eq!(client.metrics().slow_readers, 1);
}

#[test]
fn sizes_are_limited() {
    let long = "x".repeat(9000);
    let fields: String = (0..101).map(|n| format!("a{n}: b\r\n")).collect();
    let large: String = (0..40)
        .map(|n| format!("a{n}: {}\r\n", "y".repeat(900)))
        .collect();
    let rows = [
        (
            format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
            "414 URI Too Long",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"),
            "431 Request Header Fields Too Large",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{large}\r\n"),
            "431 Request Header Fields Too Large",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n".to_owned(),
            "413 ",
        ),
        (
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(),
            "505 HTTP Version Not Supported",
        ),
    ];
    for (request, status) in rows {
        let mut client =
            Client::with_limits(Limits::default().max_body(1000), |request, response| {
                let later = response.defer();
                request.collect(5000).finally(move |_| later.body(""));
            });
        let response = client.send(request + &get("/never"));
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{status}: {response}"
        );
        assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response}");
        assert_eq!(client.metrics().refusals.len(), 1);
    }
}

#[test]
fn a_body_that_is_declared_too_large_does_not_reach_the_service() {
    let limits = Limits::default().max_body(10);
    let mut client = Client::with_limits(limits, |_, _| panic!("not called"));
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n";
    let response = client.send(request);
    assert_eq!(response, closing("413 Content Too Large"));
    assert_eq!(
        client.metrics().refusals,
        [(RefusalReason::BodyTooLarge, 1)]
    );
}

#[test]
fn a_refused_client_has_time_to_read_the_status() {
    let mut client = Client::new(echo);
    let response = client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    assert_eq!(response, closing("400 Bad Request"));
    assert!(client.is_open() && client.socket.is_output_shut());
    assert_eq!(client.send("more bytes that nobody reads"), "");
    client.pass(Duration::from_secs(3));
    assert!(!client.is_open());
    assert_eq!(client.metrics().connections, 0);
}

#[test]
fn a_client_has_that_time_from_when_everything_is_sent() {
    let mut client = Client::new(echo);
    client.socket.set_room(Some(0));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    client.advance(Duration::from_millis(1900));
    client.socket.set_room(None);
    assert_eq!(client.responses(), closing("400 Bad Request"));
    client.advance(Duration::from_millis(1999));
    assert!(client.is_lingering());
    client.advance(Duration::from_millis(1));
    assert!(!client.is_open());
}

#[test]
fn responses_that_a_client_does_not_take_stop_its_requests() {
    let mut client = Client::new(|_, response| response.body(vec![b'x'; 10_000]));
    client.socket.set_room(Some(0));
    let requests: String = (0..1000).map(|_| get("/a")).collect();
    client.socket.receive(requests);
    client.socket.run();
    let served = client.metrics().requests;
    assert!(served < 20, "{served} requests were served");
    client.socket.set_room(None);
    let mut received = 0;
    while client.metrics().requests < 1000 {
        client.socket.run();
        received += client.socket.sent().len();
    }
    received += client.socket.sent().len();
    assert!(received > 1000 * 10_000);
}

#[test]
fn the_next_head_has_a_time_of_its_own() {
    let mut client = Client::new(echo);
    let request = get("/a");
    let (first, rest) = request.split_at(20);
    assert_eq!(client.send(first.to_owned()), "");
    for _ in 0..5 {
        // Each piece ends one request and begins the next one.
        assert_eq!(client.pass(Duration::from_secs(9)), "");
        assert_eq!(client.send(rest.to_owned() + first), ok("GET /a"));
    }
    let response = client.pass(Duration::from_secs(11));
    assert_eq!(response, closing("408 Request Timeout"));
}

#[test]
fn requests_behind_a_response_that_is_taken_slowly_are_no_slow_heads() {
    let mut client = Client::new(|_, response| response.body(vec![b'x'; 100_000]));
    client.socket.set_room(Some(1000));
    let (first, rest) = (get("/a") + "GET /b HTT", "P/1.1\r\nHost: a\r\n\r\n");
    client.socket.receive(first);
    for _ in 0..10 {
        client.advance(Duration::from_secs(9));
        client.socket.set_room(Some(1000));
        client.socket.run();
        assert!(client.is_open());
    }
    client.socket.set_room(None);
    client.socket.receive(rest);
    client.socket.run();
    assert_eq!(client.metrics().requests, 2);
    assert_eq!(client.metrics().refusals, []);
    assert_eq!(client.metrics().responses[0], 2);
}

#[test]
fn the_last_response_is_sent_to_its_end_however_long_that_takes() {
    let close = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let unread = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx";
    for request in [close, unread] {
        let mut client = Client::new(|_, response| {
            response
                .field("Connection", "close")
                .body(vec![b'x'; 100_000]);
        });
        client.socket.set_room(Some(1000));
        client.socket.receive(request);
        let mut received = 0;
        for _ in 0..20 {
            client.advance(Duration::from_secs(25));
            client.socket.set_room(Some(1000));
            client.socket.run();
            received += client.socket.sent().len();
            assert!(client.is_open(), "{request}: after {received} bytes");
        }
        client.socket.set_room(None);
        client.socket.run();
        received += client.socket.sent().len();
        assert!(received > 100_000, "{request}: {received} bytes");
        client.advance(Duration::from_secs(3));
        client.advance(Duration::from_secs(3));
        assert!(!client.is_open(), "{request}");
        assert_eq!(client.metrics().slow_readers, 0);
    }
    let mut client = Client::new(|_, response| response.body(vec![b'x'; 100_000]));
    client.socket.set_room(Some(1000));
    client.socket.receive(close);
    // The first check sees that bytes were taken.
    client.advance(Duration::from_secs(3));
    client.advance(Duration::from_secs(29));
    assert!(client.is_open());
    client.advance(Duration::from_secs(5));
    assert!(!client.is_open());
    assert_eq!(client.metrics().slow_readers, 1);
}

#[test]
fn a_response_that_is_streamed_does_not_prolong_the_time_of_a_body() {
    let (mut client, streams) = Client::keeping(Limits::default(), |request, response| {
        Some((request.into_body(), response.stream()))
    });
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nx");
    let (_body, mut stream) = streams.first();
    for _ in 0..2 {
        client.advance(Duration::from_secs(14));
        stream.write("more");
        client.socket.run();
    }
    client.advance(Duration::from_secs(3));
    assert_eq!(client.metrics().refusals, [(RefusalReason::BodyTimeout, 1)]);
}

#[test]
fn a_service_that_writes_more_does_not_help_a_client_that_takes_nothing() {
    let (mut client, streams) =
        Client::keeping(Limits::default(), |_, response| Some(response.stream()));
    client.socket.set_room(Some(0));
    client.send(get("/a"));
    let mut stream = streams.first();
    for _ in 0..8 {
        client.advance(Duration::from_secs(8));
        stream.write("more");
        client.socket.run();
    }
    assert!(!client.is_open());
    assert_eq!(client.metrics().slow_readers, 1);
}

#[test]
fn the_idle_time_runs_from_the_last_request() {
    let mut client = Client::new(echo);
    // Neither the checks in between nor the deadline of the first request end the connection.
    for _ in 0..20 {
        assert_eq!(client.send(get("/a")), ok("GET /a"));
        client.pass(Duration::from_secs(20));
    }
    client.pass(Duration::from_secs(54));
    assert!(client.is_open());
    client.pass(Duration::from_secs(2));
    assert!(!client.is_open());
}

#[test]
fn the_idle_time_may_be_shorter_than_the_time_of_a_head() {
    let limits = Limits::default()
        .head_time(Duration::from_secs(60))
        .idle(Duration::from_secs(10));
    let mut client = Client::with_limits(limits, echo);
    let request = get("/a");
    assert_eq!(client.send(request[..10].to_owned()), "");
    assert_eq!(client.send(request[10..].to_owned()), ok("GET /a"));
    client.pass(Duration::from_secs(9));
    assert!(client.is_open());
    client.pass(Duration::from_secs(2));
    assert!(!client.is_open());
}

/// Writes down what it is told.
struct Told(Log<String>);

impl Service for Told {
    fn call(&mut self, request: Request<'_>, response: Response<'_>) {
        let length = match request.path() {
            "/large" => 100_000,
            "/middle" => 10_000,
            "/upload" => {
                let later = response.defer();
                request.collect(1000).finally(move |_| later.body(""));
                return;
            }
            _ => 0,
        };
        response.body(vec![b'x'; length]);
    }

    fn refused(
        &mut self,
        why: RefusalReason,
        method: Option<Method<'_>>,
        head: Option<&RequestHead<'_>>,
        _: &Channel,
    ) {
        let method = method.map_or("?", Method::as_str);
        let path = head.map_or("?", |head| head.path());
        self.0.push(format!("{} {method} {path}", why.status()));
        assert!(path != "/panics", "told to");
    }

    fn slow_reader(&mut self) {
        self.0.push("slow reader".to_owned());
    }
}

#[test]
fn a_service_is_told_what_the_server_refuses() {
    let told = Log::new();
    let start = || {
        let limits = Limits::default().max_body(3);
        Client::with_service(limits, Told(told.clone()))
    };
    let post = |path| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(
        start().send("GET / HTTP/3.0\r\n\r\n"),
        closing("505 HTTP Version Not Supported")
    );
    assert_eq!(
        start().send(post("/large")),
        closing("413 Content Too Large")
    );
    let mut late = start();
    late.send("GET");
    assert_eq!(
        late.pass(Duration::from_secs(11)),
        closing("408 Request Timeout")
    );
    // An unknown expectation leaves the rest of the head clear, wherever it is split.
    assert_eq!(told.take(), ["505 GET ?", "413 POST /large", "408 ? ?"]);
    let expects = "GET /expects?x HTTP/1.1\r\nHost: a\r\nExpect: other\r\nA: b\r\n\r\n";
    for at in 0..expects.len() {
        let mut split = start();
        let first = split.send(expects[..at].to_owned());
        let sent = first + &split.send(expects[at..].to_owned() + &get("/next"));
        assert_eq!(sent, closing("417 Expectation Failed"), "split at {at}");
        assert_eq!(told.take(), ["417 GET /expects"]);
    }
    // A panic changes nothing but the counter.
    let mut panics = start();
    assert_eq!(
        panics.send(post("/panics")),
        closing("413 Content Too Large")
    );
    assert_eq!(panics.metrics().panics, 1);
    assert_eq!(told.take(), ["413 POST /panics"]);
}

#[test]
fn a_service_is_told_the_method_of_a_head_that_is_refused_later() {
    let told = Log::new();
    let start = || Client::with_service(Limits::default(), Told(told.clone()));
    let long = "M".repeat(100);
    let heads = [
        ("GET /a\"b HTTP/1.1\r\n\r\n", "400 GET ?"),
        ("PURGE /<> HTTP/1.1\r\n\r\n", "400 PURGE ?"),
        ("PUT / HTTP/1.1\r\nno field\r\n\r\n", "400 PUT ?"),
        (" / HTTP/1.1\r\n\r\n", "400 ? ?"),
        ("G(T / HTTP/1.1\r\n\r\n", "400 ? ?"),
        ("G\u{e4}T / HTTP/1.1\r\n\r\n", "400 ? ?"),
        ("GET\r\n\r\n", "400 ? ?"),
        (&format!("{long} /\" HTTP/1.1\r\n\r\n"), "400 ? ?"),
    ];
    for (head, expected) in heads {
        for at in 0..head.len() {
            let bytes = head.as_bytes();
            let mut split = start();
            split.send(bytes[..at].to_vec());
            split.send(bytes[at..].to_vec());
            let told = told.take().pop();
            assert_eq!(told.as_deref(), Some(expected), "{head:?} split at {at}");
        }
    }
    let mut late = start();
    late.send("DELETE /a HTT");
    late.pass(Duration::from_secs(11));
    assert_eq!(told.take().pop().unwrap(), "408 DELETE ?");
}

#[test]
fn a_service_is_told_that_its_client_takes_nothing() {
    let told = Log::new();
    let start = || {
        let mut client = Client::with_service(Limits::default(), Told(told.clone()));
        client.socket.set_room(Some(1000));
        client.socket.receive(get("/large"));
        // The first check sees that bytes were taken.
        client.advance(Duration::from_secs(31));
        client
    };
    let mut client = start();
    client.advance(Duration::from_secs(25));
    assert!(told.is_empty());
    client.advance(Duration::from_secs(10));
    assert!(!client.is_open());
    assert_eq!(told.take(), ["slow reader"]);
    // The system sees it first.
    for (kind, slow) in [(ErrorKind::TimedOut, 1), (ErrorKind::ConnectionReset, 0)] {
        let mut client = start();
        client.socket.fail(kind);
        assert!(!client.is_open());
        assert_eq!(told.take().len(), slow, "{kind}");
        assert_eq!(client.metrics().slow_readers, slow as u64, "{kind}");
    }
}

#[test]
fn a_request_that_comes_slowly_does_not_prolong_the_time_of_its_client() {
    let post = "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n";
    for takes in [true, false] {
        let told = Log::new();
        let limits = Limits::default().body_time(Duration::from_secs(300));
        let mut client = Client::with_service(limits, Told(told.clone()));
        client.socket.set_room(Some(1000));
        client.socket.receive(get("/middle") + post);
        for _ in 0..6 {
            client.advance(Duration::from_secs(20));
            client.socket.receive("x");
            if takes {
                client.socket.set_room(Some(1000));
                client.socket.sent();
            }
        }
        assert_eq!(client.is_open(), takes);
        let expected: &[&str] = if takes { &[] } else { &["slow reader"] };
        assert_eq!(told.take(), expected);
    }
}
