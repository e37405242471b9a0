//! Responses before the end of their requests: whether the connection goes on, and that the client
//! learns of its end from the head.

use bytes::Bytes;

use super::{Client, Kept, get, ok};
use crate::server::{Body, DeferredResponse, Limits};

/// How many bytes of a body are discarded.
const DISCARDED: usize = 64 * 1024;

/// The head of a request with a body of this length.
fn post(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

/// A client of a service that keeps its responses, and the bodies of the paths `/body`.
fn client() -> (Client, Kept<(DeferredResponse, Option<Body>)>) {
    Client::keeping(Limits::default(), |request, response| {
        match request.path() {
            "/whole" => response.body("early"),
            "/large" => response.body("x".repeat(5000)),
            "/stream" => response.stream_with_length(0).finish(),
            "/next" => response.body("next"),
            "/collect" => {
                request.collect(1 << 20).finally(|_| {});
                response.body("early");
            }
            path => {
                let reads = path == "/body";
                let response = response.defer();
                return Some((response, reads.then(|| request.into_body())));
            }
        }
        None
    })
}

/// Checks what becomes of a connection after a response before a body of which `left` bytes are missing.
fn check(client: &mut Client, response: &str, left: usize) {
    let ends = left > DISCARDED;
    assert_eq!(
        response.contains("\r\nConnection: close\r\n"),
        ends,
        "{left}"
    );
    assert_eq!(client.is_lingering(), ends, "{left}");
    let rest = client.send(vec![0; left]);
    assert_eq!(rest, "");
    let next = client.send(get("/next"));
    assert_eq!(
        next,
        if ends { String::new() } else { ok("next") },
        "{left}"
    );
    assert_eq!(client.is_lingering(), ends, "{left}");
}

#[test]
fn a_response_at_once_says_close_if_more_follows_than_is_discarded() {
    for path in ["/whole", "/large", "/stream"] {
        for left in [1, DISCARDED, DISCARDED + 1, 3_000_000] {
            let (mut client, _) = client();
            let response = client.send(post(path, left));
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            check(&mut client, &response, left);
        }
    }
}

#[test]
fn a_deferred_response_says_close_if_more_follows_than_is_discarded() {
    for stream in [false, true] {
        for left in [1, DISCARDED, DISCARDED + 1, 3_000_000] {
            let (mut client, kept) = client();
            assert_eq!(client.send(post("/later", left)), "");
            let (response, _) = kept.last();
            match stream {
                true => response.stream().finish(),
                false => response.body("early"),
            }
            let response = client.responses();
            check(&mut client, &response, left);
        }
    }
}

#[test]
fn a_response_says_close_once() {
    let (mut client, kept) = client();
    let asks = post("/later", 3_000_000).replace("Host", "Connection: close\r\nHost");
    assert_eq!(client.send(asks), "");
    let (response, _) = kept.last();
    response.stream().finish();
    let response = client.responses();
    assert_eq!(response.matches("lose\r\n").count(), 1, "{response}");
}

#[test]
fn what_was_discarded_before_the_response_counts() {
    for (length, ends) in [(2 * DISCARDED, true), (DISCARDED, false)] {
        let (mut client, kept) = client();
        client.send(post("/later", length));
        client.send(vec![0; length / 2]);
        let (response, _) = kept.last();
        response.body("early");
        let response = client.responses();
        assert_eq!(response.contains("\r\nConnection: close\r\n"), ends);
        assert_eq!(client.is_lingering(), ends);
    }
}

#[test]
fn a_response_after_its_service_has_left_the_body_says_close() {
    for left in [DISCARDED, DISCARDED + 1] {
        let (mut client, kept) = client();
        client.send(post("/body", left + 5) + "hello");
        let (response, body) = kept.last();
        drop(body);
        client.socket.run();
        response.body("early");
        let response = client.responses();
        check(&mut client, &response, left);
    }
}

#[test]
fn a_whole_response_before_a_large_body_says_close_and_the_service_may_read_on() {
    // A service that drops its body after its response, as a proxy whose server responds early.
    let (mut early, kept) = client();
    early.send(post("/body", 3_000_000) + "hello");
    let (response, body) = kept.last();
    response.body("early");
    let response = early.responses();
    assert!(!early.is_lingering(), "the service still reads");
    drop(body);
    early.socket.run();
    check(&mut early, &response, 2_999_995);
    // One that reads its body to the end.
    let (mut reading, kept) = client();
    reading.send(post("/body", DISCARDED + 1));
    let (response, body) = kept.last();
    response.body("early");
    let response = reading.responses();
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    let collected = read(&mut reading, body.unwrap(), DISCARDED + 1);
    assert_eq!(collected, DISCARDED + 1);
    assert!(reading.is_ending());
}

/// Sends a body in pieces of 10,000 bytes while it is read. Returns how many bytes were read.
fn read(client: &mut Client, mut body: Body, length: usize) -> usize {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut read = 0;
    for at in (0..length).step_by(10_000) {
        client.send(Bytes::from(vec![0; 10_000.min(length - at)]));
        while let std::task::Poll::Ready(Some(piece)) = body.poll_next(&mut context) {
            read += piece.unwrap().len();
        }
    }
    drop(body);
    client.socket.run();
    read
}

#[test]
fn a_response_before_a_body_that_is_collected_keeps_the_connection() {
    let (mut client, _) = client();
    assert_eq!(client.send(post("/collect", 2 * DISCARDED)), ok("early"));
    client.send(vec![0; 2 * DISCARDED]);
    assert_eq!(client.send(get("/next")), ok("next"));
}

#[test]
fn a_stream_beside_a_large_body_keeps_the_connection() {
    let (mut client, kept) = client();
    client.send(post("/body", DISCARDED + 1));
    let (response, body) = kept.last();
    let stream = response.stream();
    let head = client.responses();
    assert!(!head.contains("Connection"), "{head}");
    assert_eq!(
        read(&mut client, body.unwrap(), DISCARDED + 1),
        DISCARDED + 1
    );
    stream.finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
    assert_eq!(client.send(get("/next")), ok("next"));
}

#[test]
fn the_rest_of_a_chunked_body_is_unknown_and_may_be_small() {
    const CHUNKED: &str = "POST /whole HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (mut client, _) = client();
    assert_eq!(client.send(CHUNKED), ok("early"));
    let rest = format!("{DISCARDED:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(DISCARDED));
    assert_eq!(client.send(rest + &get("/next")), ok("next"));
    // If it is not, the connection ends after what is discarded.
    assert_eq!(client.send(CHUNKED), ok("early"));
    let rest = "x".repeat(DISCARDED + 1);
    client.send(format!("{:x}\r\n{rest}\r\n", DISCARDED + 1));
    assert!(client.is_lingering());
}

#[test]
fn responses_to_earlier_requests_do_not_say_close() {
    let (mut client, kept) = client();
    let body = "GET /later HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n";
    client.send(get("/first") + body);
    let (last, _) = kept.last();
    let (first, _) = kept.last();
    last.body("early");
    assert_eq!(client.responses(), "");
    first.body("first");
    let responses = client.responses();
    assert!(responses.starts_with(&ok("first")), "{responses}");
    check(&mut client, &responses, 3_000_000);
}
