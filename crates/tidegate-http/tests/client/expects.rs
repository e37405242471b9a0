//! Bodies that wait until the server asks for them.

use std::io::ErrorKind;

use tidegate_testkit::{block_on, has};

use crate::*;

const WAIT: Duration = Duration::from_secs(2);
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Reads the head of a request, behind which nothing comes.
fn head_alone(peer: &mut Peer) -> String {
    let head = read_head(peer);
    peer.0.set_nonblocking(true).unwrap();
    let more = peer.0.peek(&mut [0]).unwrap_err();
    assert_eq!(more.kind(), ErrorKind::WouldBlock);
    peer.0.set_nonblocking(false).unwrap();
    head
}

#[test]
fn a_body_is_sent_when_the_server_asks_for_it() {
    let (_clock, builder) = by_clock();
    let (upstream, client) = (Upstream::new(), builder.build());
    let mut peer = None;
    for _ in 0..2 {
        let call = client
            .put(upstream.url("/"))
            .body("hello")
            .expect_continue(WAIT)
            .send();
        let peer = peer.get_or_insert_with(|| upstream.accept());
        let head = head_alone(peer);
        has(&head, ["\r\nExpect: 100-continue\r\n", "Content-Length: 5"]);
        peer.respond(CONTINUE);
        read_exactly(peer, "hello");
        peer.finish(call);
    }
}

#[test]
fn a_body_is_sent_after_a_while_to_a_server_that_does_not_ask() {
    let (clock, builder) = by_clock();
    let (upstream, client) = (Upstream::new(), builder.build());
    let call = client
        .post(upstream.url("/"))
        .body("hello")
        .expect_continue(WAIT)
        .send();
    let mut peer = upstream.accept();
    head_alone(&mut peer);
    clock.advance(WAIT);
    read_exactly(&mut peer, "hello");
    // It comes too late, and changes nothing.
    peer.respond(CONTINUE);
    peer.finish(call);
}

#[test]
fn a_body_that_the_server_refuses_is_not_sent() {
    let (clock, builder) = by_clock();
    let (upstream, client) = (Upstream::new(), builder.build());
    let call = client
        .post(upstream.url("/"))
        .body("hello")
        .expect_continue(WAIT)
        .send();
    let mut peer = upstream.accept();
    head_alone(&mut peer);
    peer.respond("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\n");
    let response = call.wait().unwrap();
    assert_eq!(response.status(), 417);
    clock.advance(WAIT);
    peer.respond("no");
    assert_eq!(response.collect(10).wait().unwrap(), "no");
    peer.wait_closed();
}

#[test]
fn pieces_of_a_streamed_body_wait_too() {
    let (_clock, builder) = by_clock();
    let (upstream, client) = (Upstream::new(), builder.build());
    let request = client.post(upstream.url("/")).expect_continue(WAIT);
    let (mut body, call) = request.send_stream(None);
    let mut peer = upstream.accept();
    let writer = std::thread::spawn(move || {
        assert!(block_on("a piece", body.write("hello")).unwrap());
        block_on("the end", body.finish()).unwrap();
    });
    head_alone(&mut peer);
    peer.respond(CONTINUE);
    read_exactly(&mut peer, "5\r\nhello\r\n0\r\n\r\n");
    peer.finish(call);
    writer.join().unwrap();
}

#[test]
fn a_request_without_a_body_expects_nothing() {
    let (upstream, client) = (Upstream::new(), client());
    let call = client.get(upstream.url("/")).expect_continue(WAIT).send();
    let mut peer = upstream.accept();
    let head = peer.request();
    assert!(!head.contains("Expect"), "{head}");
    peer.finish(call);
}

#[test]
fn a_server_that_closes_instead_of_asking_gets_the_request_once_more_if_that_is_safe() {
    let (_clock, builder) = by_clock();
    let (upstream, client) = (Upstream::new(), builder.build());
    let call = client.get(upstream.url("/")).send();
    let mut peer = upstream.accept();
    peer.serve(call);
    let call = client
        .put(upstream.url("/"))
        .body("hello")
        .expect_continue(WAIT)
        .send();
    head_alone(&mut peer);
    drop(peer);
    let mut peer = upstream.accept();
    head_alone(&mut peer);
    peer.respond(CONTINUE);
    read_exactly(&mut peer, "hello");
    peer.finish(call);
}
