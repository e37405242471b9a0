//! Requests that are responded to at once.

use std::time::Duration;
use tidegate_testkit::has;

use tidegate_net::Draining;

use crate::codec::FieldLines;
use crate::server::ResponseStream;

use super::{Client, closing, echo, get, ok};

#[test]
fn a_request_gets_its_response_and_the_connection_stays_open() {
    let mut client = Client::new(echo);
    assert_eq!(client.send(get("/a")), ok("GET /a"));
    assert_eq!(client.send(get("/b?c=d")), ok("GET /b"));
    assert!(client.is_open());
    assert_eq!(client.metrics().requests, 2);
    assert_eq!(client.metrics().responses, [2, 0, 0, 0, 0]);
}

#[test]
fn pipelined_requests_are_responded_to_in_order_with_one_send() {
    let mut client = Client::new(echo);
    let requests: String = (0..16).map(|n| get(&format!("/{n}"))).collect();
    let responses: String = (0..16).map(|n| ok(&format!("GET /{n}"))).collect();
    assert_eq!(client.send(requests), responses);
    assert_eq!(client.socket.write_calls(), 1);
}

#[test]
fn an_empty_line_before_a_request_is_ignored() {
    let post = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let message = format!("\r\n{}\r\n{post}\r\n{}\r\n", get("/a"), get("/b"));
    let expected = ok("GET /a") + &ok("POST /p") + &ok("GET /b");
    for at in 0..message.len() {
        let mut client = Client::new(echo);
        let first = client.send(message[..at].to_owned());
        let rest = client.send(message[at..].to_owned());
        assert_eq!(first + &rest, expected, "split at {at}");
        assert!(client.is_open());
        // It is no head that has begun.
        assert_eq!(client.pass(Duration::from_secs(74)), "");
        assert!(client.is_open());
        client.pass(Duration::from_secs(2));
        assert!(!client.is_open());
    }
    let mut client = Client::new(echo);
    assert_eq!(client.send("\r\n"), "");
    assert_eq!(client.send("\r\n"), closing("400 Bad Request"));
    // A drain does not wait for what follows it.
    let mut client = Client::new(echo);
    assert_eq!(client.send(get("/a") + "\r\n"), ok("GET /a"));
    client.fire(Draining);
    assert!(!client.is_open());
}

#[test]
fn a_response_to_head_has_the_length_and_no_body() {
    let mut client = Client::new(echo);
    let response = client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(response, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
    assert_eq!(client.send(get("/b")), ok("GET /b"));
}

#[test]
fn a_status_without_a_body_has_none() {
    let mut client = Client::new(|request, response| match request.path() {
        "/204" => response.status(204).body("dropped"),
        "/204-stream" => send_piece(response.status(204).stream()),
        "/205" => response.status(205).body("dropped"),
        "/205-stream" => send_piece(response.status(205).stream_with_length(7)),
        "/205-later" => response.defer().status(205).body("dropped"),
        "/304" => response.status(304).body("12345"),
        "/304-stream" => send_piece(response.status(304).stream()),
        "/304-later" => response.defer().status(304).body(""),
        _ => response.status(304).body(""),
    });
    let (empty, reset) = (
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 205 Reset Content\r\n",
    );
    let reset = format!("{reset}Content-Length: 0\r\n\r\n");
    let unchanged = "HTTP/1.1 304 Not Modified\r\n";
    for (path, response) in [
        ("/204", empty.to_owned()),
        ("/204-stream", empty.to_owned()),
        ("/205", reset.clone()),
        ("/205-stream", reset.clone()),
        ("/205-later", reset),
        // The length of the response with status 200, if the service knows it.
        ("/304", format!("{unchanged}Content-Length: 5\r\n\r\n")),
        ("/304-stream", format!("{unchanged}\r\n")),
        ("/304-later", format!("{unchanged}\r\n")),
        ("/304-empty", format!("{unchanged}\r\n")),
    ] {
        assert_eq!(client.send(get(path)), response, "{path}");
    }
    assert!(client.is_open());
    assert_eq!(client.metrics().mistakes, 0);
}

/// Sends a body of one piece.
fn send_piece(mut stream: ResponseStream) {
    stream.write("dropped");
    stream.finish();
}

#[test]
fn lines_that_were_checked_before_are_fields_like_others() {
    let line = |name, value: &[u8]| FieldLines::new(name, value).unwrap();
    let server = line("Server", b"mine").and("Vary", b"*").unwrap();
    let close = line("X", b"y").and("Connection", b"close").unwrap();
    let mut client = Client::new(move |request, response| {
        let response = response.field_lines(&server).field("A", "b");
        match request.path() {
            "/close" => response.field_lines(&close).body("x"),
            _ => response.body("x"),
        }
    });
    let head = "HTTP/1.1 200 OK\r\nServer: mine\r\nVary: *\r\nA: b\r\nContent-Length: 1\r\n";
    assert_eq!(client.send(get("/")), format!("{head}\r\nx"));
    let closing = format!("{head}Connection: close\r\n\r\nx").replace("b\r\n", "b\r\nX: y\r\n");
    assert_eq!(client.send(get("/close")), closing);
    assert!(!client.is_open());
}

#[test]
fn fields_are_sent_in_their_order_and_spelling() {
    let mut client = Client::new(|_, response| {
        let response = response.field("X-B", "1").field("x-a", b"2").status(201);
        response.field("X-B", "3").body("");
    });
    let response = client.send(get("/"));
    let fields = "X-B: 1\r\nx-a: 2\r\nX-B: 3\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(response, format!("HTTP/1.1 201 Created\r\n{fields}"));
}

#[test]
fn a_large_body_is_sent_from_its_own_memory() {
    let large = "x".repeat(100_000);
    let body = large.clone();
    let mut client = Client::new(move |_, response| response.body(body.clone()));
    assert_eq!(client.send(get("/")), ok(&large));
}

#[test]
fn connection_close_of_the_client_ends_the_connection() {
    let mut client = Client::new(echo);
    let response = client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nrest");
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(response.ends_with("GET /a"), "{response}");
    // A reset would take the response from a client that is still sending.
    assert!(client.is_lingering());
    assert_eq!(client.send(get("/b")), "");
    client.socket.end_input();
    assert!(!client.is_open());

    let mut client = Client::new(echo);
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!client.is_open(), "nothing follows the request");
}

#[test]
fn a_client_that_goes_on_sending_does_not_prolong_the_end() {
    let refused = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned();
    for (message, status, requests) in [
        (get("/a") + &get("/b"), "200 OK", 1),
        (refused, "400 Bad Request", 0),
    ] {
        let mut client = Client::new(|_, response| response.field("Connection", "close").body(""));
        assert_eq!(client.send(message), closing(status));
        for _ in 0..3 {
            client.pass(Duration::from_millis(900));
            client.socket.receive("x");
            client.socket.run();
        }
        assert!(!client.is_open(), "{status}");
        assert_eq!(client.metrics().connections, 0);
        assert_eq!(client.metrics().requests, requests);
    }
}

#[test]
fn a_connection_lingers_behind_a_body_that_was_read_to_its_end() {
    let mut client = Client::new(|request, response| {
        let later = response.defer();
        request.collect(10).finally(move |_| later.body("done"));
    });
    let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\n";
    client.send(head.to_owned() + "hello");
    assert!(!client.is_open());

    let mut client = Client::new(echo);
    client.send(head.to_owned() + "hello" + &get("/b"));
    assert!(client.is_lingering());
}

#[test]
fn connection_close_of_the_service_ends_the_connection() {
    let mut client = Client::new(|_, response| response.field("connection", "Close").body(""));
    let requests = get("/a") + &get("/b");
    assert_eq!(client.send(requests), closing("200 OK"));
    assert!(client.is_lingering());
    client.pass(Duration::from_secs(3));
    assert!(!client.is_open());
    assert_eq!(client.metrics().requests, 1);
}

#[test]
fn http_1_0_closes_unless_it_asks_to_stay() {
    let mut client = Client::new(echo);
    let response = client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    has(&response, ["\r\nConnection: keep-alive\r\n"]);
    assert!(client.is_open());
    let response = client.send("GET /b HTTP/1.0\r\n\r\n");
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(!client.is_open());
}

#[test]
fn a_client_that_ends_its_half_gets_its_response() {
    let mut client = Client::new(echo);
    client.socket.receive(get("/a"));
    client.socket.end_input();
    assert_eq!(client.responses(), ok("GET /a"));
    assert!(!client.is_open());
}

#[test]
fn an_idle_connection_ends_with_a_drain() {
    let mut client = Client::new(echo);
    client.send(get("/a"));
    client.fire(Draining);
    assert!(!client.is_open());
}

#[test]
fn a_head_that_has_begun_is_served_before_a_drain_ends_the_connection() {
    let mut client = Client::new(echo);
    client.send("GET /a HT");
    client.fire(Draining);
    assert!(client.is_open());
    let response = client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(!client.is_open());
}

#[test]
fn the_date_follows_the_clock() {
    let mut client = Client::new(echo);
    client.socket.receive(get("/a"));
    client.socket.run();
    let first = client.socket.sent();
    client.advance(Duration::from_secs(2));
    client.socket.receive(get("/a"));
    client.socket.run();
    assert_ne!(first, client.socket.sent());
}
