//! Back-pressure over real sockets, in both directions, and responses that come early.

use std::future::Future;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::task::{Context, Poll, Waker};

use tidegate_testkit::{block_on, until};

use crate::*;

const PIECE: usize = 64 * 1024;
/// More than the buffers of two sockets and of the client hold.
const MOST: usize = 64 << 20;

/// Writes until the socket takes no more for a while, in which the client could have read. Returns
/// how much it took.
fn write_until_full(peer: &mut Peer) -> usize {
    peer.0.set_nonblocking(true).unwrap();
    let piece = vec![b'x'; PIECE];
    let (mut written, mut refused) = (0, 0);
    until("the socket is full", || {
        match peer.0.write(&piece) {
            Ok(count) => (written, refused) = (written + count, 0),
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                refused += 1;
            }
        }
        assert!(written < MOST, "the client reads although nothing takes it");
        refused > 1000
    });
    peer.0.set_nonblocking(false).unwrap();
    written
}

#[test]
fn a_caller_that_does_not_read_stops_the_server() {
    let (upstream, client) = (Upstream::new(), client());
    let (call, mut peer) = upstream.call(&client);
    peer.respond("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let mut body = call.wait().unwrap().into_body();
    let written = write_until_full(&mut peer);
    // Others are not affected.
    let other = client.get(upstream.url("/")).send();
    let mut second = upstream.accept();
    second.serve(other);
    drop(peer);
    let mut count = 0;
    while let Some(piece) = block_on("the next piece", body.next()) {
        count += piece.unwrap().len();
    }
    assert_eq!(count, written);
}

#[test]
fn a_server_that_does_not_read_stops_the_caller() {
    let (upstream, client) = (Upstream::new(), client());
    let (mut body, response) = client.put(upstream.url("/")).send_stream(None);
    let mut peer = upstream.accept();
    read_head(&mut peer);
    let piece = bytes::Bytes::from(vec![b'x'; PIECE]);
    let mut written = 0;
    loop {
        let mut write = Box::pin(body.write(piece.clone()));
        match write.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => assert!(taken.unwrap()),
            Poll::Pending => break,
        }
        written += PIECE;
        assert!(
            written < MOST,
            "the client takes what the server does not read"
        );
    }
    let reader = std::thread::spawn(move || {
        let mut rest = Vec::new();
        while !rest.ends_with(b"\r\n0\r\n\r\n") {
            let mut part = vec![0; PIECE];
            let count = peer.0.read(&mut part).unwrap();
            assert!(count > 0, "the request ends before its body");
            rest.extend_from_slice(&part[..count]);
        }
        peer.respond(OK);
        rest.into_iter().filter(|byte| *byte == b'x').count()
    });
    // The server reads again.
    assert!(block_on("a piece", body.write(piece.clone())).unwrap());
    block_on("the end", body.finish()).unwrap();
    assert_eq!(text(response), "ok");
    assert_eq!(reader.join().unwrap(), written + PIECE);
}

#[test]
fn what_a_server_does_not_take_of_an_upload_is_dropped_after_its_response() {
    for response in [
        "HTTP/1.1 413 x\r\nConnection: close\r\n\r\nno",
        "HTTP/1.1 413 x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
    ] {
        let (upstream, client) = (Upstream::new(), client());
        let (mut body, answer) = client.put(upstream.url("/")).send_stream(None);
        let mut peer = upstream.accept();
        read_head(&mut peer);
        let piece = bytes::Bytes::from(vec![b'x'; PIECE]);
        assert!(block_on("a piece", body.write(piece)).unwrap());
        peer.respond(response);
        peer.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(text(answer), "no");
        // Without a reset, the system would keep it for minutes.
        let end = peer.0.read_to_end(&mut Vec::new());
        let kind = end.map_err(|why| why.kind());
        assert_eq!(kind, Err(ErrorKind::ConnectionReset), "{response}");
    }
}

#[test]
fn a_response_to_a_part_of_a_large_request_stops_the_rest() {
    let (upstream, client) = (Upstream::new(), client());
    let call = client.put(upstream.url("/")).body(vec![b'x'; MOST]).send();
    let mut peer = upstream.accept();
    read_head(&mut peer);
    peer.respond("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    let response = call.wait().unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(response.collect(10).wait().unwrap(), "no");
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = peer.0.read_to_end(&mut rest);
    assert!(rest.len() < MOST, "the whole request was sent");
    // The next call has a connection of its own.
    let call = client.get(upstream.url("/")).send();
    upstream.accept().serve(call);
}
