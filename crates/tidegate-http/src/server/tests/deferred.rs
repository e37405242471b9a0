//! Responses that are made after the service has returned.

use std::sync::{Arc, Mutex};

use tidegate_net::InputShutdown;

use super::{Client, closing, get, ok};
use crate::server::{DeferredResponse, ResponseStream};

type Later<T> = Arc<Mutex<Vec<(String, T)>>>;

/// A client of a service that defers every response, except for `/now`.
fn deferring() -> (Client, Later<DeferredResponse>) {
    let later: Later<DeferredResponse> = Arc::default();
    let kept = Arc::clone(&later);
    let client = Client::new(move |request, response| {
        let path = request.path().to_owned();
        if path == "/now" {
            return response.body("now");
        }
        kept.lock().unwrap().push((path, response.defer()));
    });
    (client, later)
}

fn take<T>(later: &Later<T>, path: &str) -> T {
    let mut later = later.lock().unwrap();
    let at = later.iter().position(|(kept, _)| kept == path).unwrap();
    later.remove(at).1
}

#[test]
fn deferred_responses_are_sent_in_the_order_of_the_requests() {
    let (mut client, later) = deferring();
    let requests = get("/a") + &get("/now") + &get("/b");
    assert_eq!(client.send(requests), "");
    take(&later, "/b").body("b");
    assert_eq!(client.responses(), "");
    take(&later, "/a").status(404).field("x", "y").body("a");
    let first = "HTTP/1.1 404 Not Found\r\nx: y\r\nContent-Length: 1\r\n\r\na".to_owned();
    assert_eq!(client.responses(), first + &ok("now") + &ok("b"));
    assert!(client.is_open());
}

#[test]
fn sixteen_outstanding_responses_stop_the_connection_from_reading() {
    let (mut client, later) = deferring();
    let requests: String = (0..20).map(|n| get(&format!("/{n}"))).collect();
    client.send(requests);
    assert_eq!(later.lock().unwrap().len(), 16);
    take(&later, "/0").body("0");
    assert_eq!(client.responses(), ok("0"));
    assert_eq!(later.lock().unwrap().len(), 16);
    for n in 1..20 {
        take(&later, &format!("/{n}")).body(n.to_string());
        assert_eq!(client.responses(), ok(&n.to_string()));
    }
    assert_eq!(client.metrics().requests, 20);
    assert_eq!(client.metrics().responses[0], 20);
}

#[test]
fn a_client_that_ends_its_half_gets_responses_to_requests_that_had_to_wait() {
    let (mut client, later) = deferring();
    client.send((0..40).map(|n| get(&format!("/{n}"))).collect::<String>());
    // TLS in front passes the end on even if the connection does not read.
    client.socket.channel().fire_event(InputShutdown);
    client.socket.run();
    for n in 0..40 {
        take(&later, &format!("/{n}")).body("");
        client.socket.run();
    }
    let sent = client.responses();
    assert_eq!(sent.matches("HTTP/1.1 200").count(), 40);
    assert!(sent.ends_with(&closing("200 OK")));
    assert!(!client.is_open());
}

#[test]
fn a_dropped_response_is_status_500_and_ends_the_connection() {
    let (mut client, later) = deferring();
    client.send(get("/a") + &get("/b"));
    drop(take(&later, "/a"));
    assert_eq!(client.responses(), closing("500 Internal Server Error"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
    let late = take(&later, "/b");
    assert!(late.is_closed());
    late.body("nobody reads this");
}

#[test]
fn a_response_may_come_from_another_thread() {
    let (mut client, later) = deferring();
    client.send(get("/a"));
    let response = take(&later, "/a");
    std::thread::scope(|scope| {
        scope.spawn(move || response.body("a"));
    });
    assert_eq!(client.responses(), ok("a"));
}

#[test]
fn a_closed_connection_is_told_to_the_one_who_responds() {
    let (mut client, later) = deferring();
    client.send(get("/a"));
    let response = take(&later, "/a");
    let closed = response.closed();
    assert!(!response.is_closed());
    client.socket.close();
    client.socket.run();
    assert!(response.is_closed());
    closed.wait().unwrap();
}

/// A client of a service that streams every response.
fn streaming(length: Option<u64>) -> (Client, Later<ResponseStream>) {
    let later: Later<ResponseStream> = Arc::default();
    let kept = Arc::clone(&later);
    let client = Client::new(move |request, response| {
        let stream = match length {
            Some(length) => response.stream_with_length(length),
            None => response.stream(),
        };
        kept.lock()
            .unwrap()
            .push((request.path().to_owned(), stream));
    });
    (client, later)
}

#[test]
fn a_streamed_response_is_sent_in_chunks() {
    let (mut client, later) = streaming(None);
    let head = client.send(get("/a"));
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut stream = take(&later, "/a");
    stream.write("hello");
    stream.write("");
    stream.write(" world");
    let body = client.responses();
    stream.finish();
    let body = body + &client.responses();
    assert_eq!(body, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    assert!(client.is_open());
    client.send(get("/b"));
    take(&later, "/b").finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
}

#[test]
fn a_chunk_is_sent_with_its_line_end() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    let mut stream = take(&later, "/a");
    stream.write("hello");
    assert_eq!(client.responses(), "5\r\nhello\r\n");
    let large = "x".repeat(0x2000);
    stream.write(large.clone());
    assert_eq!(client.responses(), format!("2000\r\n{large}\r\n"));
    stream.finish();
    assert_eq!(client.responses(), "0\r\n\r\n");
}

#[test]
fn a_streamed_response_waits_for_earlier_ones() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (take(&later, "/a"), take(&later, "/b"));
    b.write("b");
    b.finish();
    assert_eq!(client.responses(), "");
    a.write("a");
    a.finish();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let expected = format!("1\r\na\r\n0\r\n\r\n{head}1\r\nb\r\n0\r\n\r\n");
    assert_eq!(client.responses(), expected);
}

#[test]
fn trailers_follow_the_last_chunk() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    take(&later, "/a").finish_with_trailers([("Sum", "42")]);
    assert_eq!(client.responses(), "0\r\nSum: 42\r\n\r\n");
}

#[test]
fn a_stream_that_is_dropped_cuts_the_connection() {
    let (mut client, later) = streaming(None);
    client.send(get("/a"));
    let mut stream = take(&later, "/a");
    stream.write("part");
    drop(stream);
    assert!(!client.responses().contains("0\r\n\r\n"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_is_status_500() {
    let (mut client, later) = streaming(None);
    let head = client.send(get("/a") + &get("/b") + &get("/c"));
    let (mut a, mut b) = (take(&later, "/a"), take(&later, "/b"));
    b.write("part");
    drop(b);
    assert_eq!(client.responses(), "");
    a.write("a");
    a.finish();
    let failed = closing("500 Internal Server Error");
    assert_eq!(client.responses(), format!("1\r\na\r\n0\r\n\r\n{failed}"));
    assert!(head.ends_with("chunked\r\n\r\n"), "{head}");
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
    assert_eq!(client.metrics().unanswered, 1);
}

#[test]
fn responses_before_a_stream_that_is_cut_are_sent() {
    let (mut client, later) = deferring();
    client.socket.set_room(Some(0));
    client.send(get("/a") + &get("/b") + &get("/c"));
    let large = "x".repeat(100_000);
    take(&later, "/a").body(large.clone());
    let mut b = take(&later, "/b").stream();
    b.write("part");
    drop(b);
    client.socket.run();
    assert!(client.is_open());
    take(&later, "/c").body("c");
    client.socket.set_room(None);
    let sent = client.responses();
    assert!(sent.starts_with(&ok(&large)));
    assert!(sent.ends_with("\r\n\r\n4\r\npart\r\n"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().unanswered, 1);
}

#[test]
fn a_stream_longer_or_shorter_than_declared_cuts_the_connection() {
    for write in ["hell", "hello!"] {
        let (mut client, later) = streaming(Some(5));
        client.send(get("/a"));
        let mut stream = take(&later, "/a");
        stream.write(write);
        stream.finish();
        client.responses();
        assert!(!client.is_open(), "{write}");
        assert_eq!(client.metrics().mistakes, 1, "{write}");
    }
    let (mut client, later) = streaming(Some(5));
    client.send(get("/a"));
    let mut stream = take(&later, "/a");
    stream.write("hello");
    stream.finish();
    assert_eq!(client.responses(), "hello");
    assert!(client.is_open());
}

#[test]
fn http_1_0_gets_a_stream_that_ends_with_the_connection() {
    let (mut client, later) = streaming(None);
    let head = client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let mut stream = take(&later, "/a");
    stream.write("hello");
    stream.finish();
    assert_eq!(client.responses(), "hello");
    assert!(!client.is_open());
}

#[test]
fn a_client_that_does_not_read_is_seen_by_the_stream() {
    let (mut client, later) = streaming(None);
    client.socket.set_room(Some(0));
    client.send(get("/a"));
    let mut stream = take(&later, "/a");
    assert!(stream.is_writable());
    stream.write(vec![0; 100_000]);
    assert!(stream.is_writable(), "its turn has come");
    stream.write(vec![0; 200_000]);
    assert!(!stream.is_writable());
    client.socket.run();
    assert!(!stream.is_writable());
    let writable = stream.writable();
    client.socket.set_room(None);
    client.socket.run();
    assert!(stream.is_writable());
    writable.wait().unwrap();
    stream.finish();
}

#[test]
fn several_large_pieces_of_a_stream_are_on_their_way_in_its_turn() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (take(&later, "/a"), take(&later, "/b"));
    let fill = |stream: &mut ResponseStream| {
        let mut pieces = 0;
        while stream.is_writable() {
            stream.write(vec![0; 64 * 1024]);
            pieces += 1;
        }
        pieces
    };
    assert_eq!((fill(&mut a), fill(&mut b)), (4, 1));
    let (room, behind) = (a.writable(), b.writable());
    client.socket.run();
    room.wait().unwrap();
    assert_eq!(fill(&mut a), 4, "the client has taken everything");
    assert!(!behind.is_done(), "its turn has not come");
    a.finish();
    client.socket.run();
    behind.wait().unwrap();
    assert_eq!(fill(&mut b), 4);
    b.finish();
    client.socket.run();
    assert_eq!(client.metrics().responses[0], 2);
}

#[test]
fn a_stream_for_head_sends_no_body() {
    let (mut client, later) = streaming(None);
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned() + &get("/b"));
    let mut stream = take(&later, "/a");
    stream.write("dropped");
    stream.finish_with_trailers([("Sum", "42")]);
    take(&later, "/b").finish();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(client.responses(), format!("{head}0\r\n\r\n"));
    assert!(client.is_open());
    assert_eq!(client.metrics().mistakes, 0);
}

#[test]
fn trailers_are_left_out_without_chunks() {
    let (mut client, later) = streaming(Some(5));
    client.send(get("/a"));
    let mut stream = take(&later, "/a");
    stream.write("hello");
    stream.finish_with_trailers([("Sum", "42")]);
    assert_eq!(client.responses(), "hello");
    assert!(client.is_open());
}

#[test]
fn a_stream_behind_another_response_has_a_limit_of_its_own() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let (mut a, mut b) = (take(&later, "/a"), take(&later, "/b"));
    let piece = vec![b'x'; 40_000];
    b.write(piece.clone());
    assert!(b.is_writable());
    b.write(piece);
    client.socket.run();
    assert!(!b.is_writable());
    assert!(
        a.is_writable(),
        "the first response is not held up by the second"
    );
    let room = b.writable();
    assert!(!room.is_done());
    a.write("a");
    a.finish();
    client.responses();
    room.wait().unwrap();
    assert!(b.is_writable());
    b.finish();
}

#[test]
fn a_wait_for_room_fails_with_the_connection() {
    let (mut client, later) = streaming(None);
    client.send(get("/a") + &get("/b"));
    let mut b = take(&later, "/b");
    b.write(vec![0; 100_000]);
    let room = b.writable();
    client.socket.close();
    client.socket.run();
    room.wait().unwrap_err();
    b.writable().wait().unwrap_err();
}
