//! Bodies of requests: collected, in pieces, discarded.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use tidegate_promise::Outcome;
use tidegate_testkit::Log;

use super::{Client, closing, echo, get, ok};
use crate::codec::RefusalReason;
use crate::pieces::cost;
use crate::server::{Body, BodyError, Limits};

fn post(length: usize, fields: &str) -> String {
    format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{fields}\r\n")
}

const CHUNKED: &str = "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A client of a service that responds with the body, if it has at most ten bytes.
fn collecting() -> Client {
    Client::new(|request, response| {
        let later = response.defer();
        request.collect(10).finally(move |outcome| match outcome {
            Outcome::Success(body) => later.body(body.clone()),
            Outcome::Failure(why) => later.status(413).body(why.to_string()),
            Outcome::Cancelled => {}
        });
    })
}

#[test]
fn a_collected_body_is_complete() {
    let mut client = collecting();
    assert_eq!(client.send(post(5, "") + "hello"), ok("hello"));
    assert_eq!(client.send(post(5, "") + "he"), "");
    assert_eq!(client.send("l"), "");
    assert_eq!(
        client.send("lo".to_owned() + &get("/x")),
        ok("hello") + &ok("")
    );
    let chunks = "2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nSum: 1\r\n\r\n";
    assert_eq!(client.send(CHUNKED.to_owned() + chunks), ok("hello"));
    assert!(client.is_open());
}

#[test]
fn a_body_above_the_limit_of_the_service_fails_its_collection() {
    let mut client = collecting();
    let response = client.send(post(11, "") + "hello world" + &get("/x"));
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    // The rest of the body was small enough to be discarded.
    assert!(response.ends_with(&ok("")), "{response}");
    let response = client.send(CHUNKED.to_owned() + "b\r\nhello world\r\n0\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert!(client.is_open());
}

#[test]
fn small_chunks_count_with_the_memory_that_they_take_until_they_are_read() {
    let (mut client, kept) = Client::reading();
    client.send(CHUNKED);
    // Each is a read of its own, so that none is joined with others.
    for _ in 0..1000 {
        client.send("1\r\nx\r\n");
    }
    let (mut body, response) = kept.last();
    let mut pieces = Vec::new();
    while let Poll::Ready(Some(piece)) = next(&mut body) {
        pieces.push(piece.unwrap().len());
    }
    // Then the connection has stopped reading.
    assert_eq!(pieces, [1].repeat(64 * 1024 / cost(1) + 1));
    client.send("0\r\n\r\n");
    let mut rest = 0;
    while let Poll::Ready(Some(piece)) = next(&mut body) {
        rest += piece.unwrap().len();
    }
    assert_eq!(pieces.len() + rest, 1000);
    assert_eq!(next(&mut body), Poll::Ready(None));
    response.body("done");
    assert_eq!(client.responses(), ok("done"));
}

#[test]
fn continue_is_sent_when_the_service_asks_for_the_body() {
    let mut client = collecting();
    let response = client.send(post(5, "Expect: 100-continue\r\n"));
    assert_eq!(response, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.send("hello"), ok("hello"));
    assert!(client.is_open());
}

#[test]
fn continue_is_not_sent_when_the_service_responds_without_the_body() {
    let mut client = Client::new(echo);
    let response = client.send(post(5, "Expect: 100-continue\r\n"));
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    assert!(client.is_ending());
}

#[test]
fn continue_precedes_a_response_that_is_streamed_while_the_body_is_read() {
    let (mut client, kept) = Client::keeping(Limits::default(), |request, response| {
        let stream = match request.path() {
            "/deferred" => response.defer().stream(),
            _ => response.stream(),
        };
        Some((request.into_body(), stream))
    });
    let expects = "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for path in ["/at-once", "/deferred"] {
        let response = client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{expects}"));
        let expected = "HTTP/1.1 100 Continue\r\n\r\n\
                        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(response, expected, "{path}");
        client.send("hello");
        let (mut body, mut stream) = kept.last();
        assert_eq!(next(&mut body), Poll::Ready(Some(Ok("hello".into()))));
        assert_eq!(next(&mut body), Poll::Ready(None));
        stream.write("bye");
        stream.finish();
        assert_eq!(client.responses(), "3\r\nbye\r\n0\r\n\r\n");
        assert!(client.is_open(), "{path}");
    }
}

#[test]
fn continue_waits_until_the_service_begins_to_read() {
    let (mut client, kept) = Client::reading();
    let expecting = post(5, "Expect: 100-continue\r\n");
    assert_eq!(client.send(expecting.clone()), "");
    let (mut body, response) = kept.last();
    assert_eq!(next(&mut body), Poll::Pending);
    assert_eq!(client.responses(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert_eq!(next(&mut body), Poll::Ready(Some(Ok("hello".into()))));
    response.body("bye");
    assert_eq!(client.responses(), ok("bye"));
    assert!(client.is_open());
    // It responds without the body, at once or in pieces.
    for streams in [false, true] {
        let (mut client, kept) = Client::reading();
        assert_eq!(client.send(expecting.clone()), "");
        let (body, response) = kept.last();
        drop(body);
        match streams {
            true => response.status(403).stream().finish(),
            false => response.status(403).body(""),
        }
        let sent = client.responses();
        assert!(sent.starts_with("HTTP/1.1 403 "), "{sent}");
        assert!(sent.contains("\r\nConnection: close\r\n"), "{sent}");
        assert!(client.is_ending());
    }
}

#[test]
fn a_response_that_needs_no_continue_ends_the_connection() {
    let (mut client, kept) = Client::keeping(Limits::default(), |request, response| {
        let response = response.defer();
        if request.path() == "/p" {
            drop(request.collect(10));
        }
        Some(response)
    });
    // Of a method that is safe: it runs beside the first one.
    let expecting = post(5, "Expect: 100-continue\r\n").replace("POST", "GET");
    assert_eq!(client.send(get("/first") + &expecting), "");
    kept.last().status(403).body("");
    kept.last().body("first");
    let response = client.responses();
    assert!(response.starts_with(&ok("first")), "{response}");
    assert!(response.contains("HTTP/1.1 403 "), "{response}");
    assert!(!response.contains("100 Continue"), "{response}");
    assert!(client.is_ending());
}

/// A client of a service whose collections fail, and why they do.
fn failing() -> (Client, Log<BodyError>) {
    let (failed, keep) = Log::pair();
    let client = Client::new(move |request, response| {
        let (later, keep) = (response.defer(), keep.clone());
        request.collect(10).finally(move |outcome| {
            if let Outcome::Failure(why) = outcome {
                keep.push(why.downcast_ref::<BodyError>().unwrap().clone());
            }
            later.body("late");
        });
    });
    (client, failed)
}

#[test]
fn a_refused_body_gets_the_status_and_fails_the_collection() {
    let (mut client, failed) = failing();
    let response = client.send(CHUNKED.to_owned() + "zz\r\n" + &get("/never"));
    assert_eq!(response, closing("400 Bad Request"));
    let why = failed.take();
    assert!(matches!(why[..], [BodyError::Refused(_)]), "{why:?}");
    assert_eq!(client.metrics().requests, 1);
}

#[test]
fn a_body_that_is_cut_fails_its_collection() {
    let (mut client, failed) = failing();
    client.send(post(5, "") + "hell");
    client.end_input();
    assert_eq!(failed.take(), [BodyError::Closed]);
    assert!(!client.is_open());
}

fn next(body: &mut Body) -> Poll<Option<Result<Bytes, BodyError>>> {
    body.poll_next(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_body_is_read_in_pieces_as_they_came() {
    let (mut client, kept) = Client::reading();
    client.send(post(10, "") + "hello");
    let (mut body, response) = kept.last();
    assert_eq!(next(&mut body), Poll::Ready(Some(Ok("hello".into()))));
    assert_eq!(next(&mut body), Poll::Pending);
    client.send("world");
    assert_eq!(next(&mut body), Poll::Ready(Some(Ok("world".into()))));
    assert_eq!(next(&mut body), Poll::Ready(None));
    response.body("done");
    assert_eq!(client.responses(), ok("done"));
}

#[test]
fn a_service_that_does_not_read_stops_its_client() {
    let (mut client, kept) = Client::reading();
    let piece = vec![b'x'; 16 * 1024];
    client.send(post(64 * piece.len(), ""));
    for _ in 0..64 {
        client.socket.receive(piece.clone());
        client.socket.run();
    }
    let (mut body, _response) = kept.last();
    let mut read = 0;
    let mut held = 0;
    while let Poll::Ready(Some(Ok(piece))) = next(&mut body) {
        held += piece.len();
        read += piece.len();
    }
    assert!(held <= 80 * 1024, "{held} bytes were read ahead");
    while read < 64 * piece.len() {
        client.socket.run();
        match next(&mut body) {
            Poll::Ready(Some(Ok(piece))) => read += piece.len(),
            other => panic!("{other:?} after {read} bytes"),
        }
    }
    assert_eq!(next(&mut body), Poll::Ready(None));
}

#[test]
fn the_reader_of_a_refused_body_learns_the_reason() {
    let (mut client, kept) = Client::reading();
    client.send(CHUNKED.to_owned() + "5\r\nhello\r\n");
    client.send("-1\r\n");
    let (mut body, _response) = kept.last();
    assert_eq!(next(&mut body), Poll::Ready(Some(Ok("hello".into()))));
    let refused = next(&mut body);
    let Poll::Ready(Some(Err(BodyError::Refused(reason)))) = refused else {
        panic!("{refused:?}");
    };
    assert_ne!(reason, RefusalReason::BodyTooLarge);
}
