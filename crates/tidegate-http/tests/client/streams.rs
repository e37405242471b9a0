//! Bodies of requests that are streamed, and servers that respond before their end.

use tidegate_http::client::Side;
use tidegate_promise::{Failure, Outcome};
use tidegate_testkit::{Log, block_on};

use crate::*;

#[test]
fn a_streamed_body_is_sent_as_chunks_or_with_its_length() {
    let (upstream, client) = (Upstream::new(), client());
    let mut peer = None;
    for (length, sent) in [
        (None, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
        (Some(6), "onetwo"),
    ] {
        let (mut body, response) = client.post(upstream.url("/")).send_stream(length);
        let peer = peer.get_or_insert_with(|| upstream.accept());
        for piece in ["one", "two"] {
            assert!(block_on("a piece", body.write(piece)).unwrap());
        }
        block_on("the end", body.finish()).unwrap();
        let head = read_head(peer);
        let declared = match length {
            None => "Transfer-Encoding: chunked\r\n",
            Some(_) => "Content-Length: 6\r\n",
        };
        assert!(head.contains(declared), "{head}");
        read_exactly(peer, sent);
        peer.finish(response);
    }
}

#[test]
fn a_final_response_stops_the_request_and_the_connection_is_closed_afterwards() {
    let (upstream, client) = (Upstream::new(), client());
    let (mut body, response) = client.post(upstream.url("/")).send_stream(None);
    let mut peer = upstream.accept();
    assert!(block_on("a piece", body.write("one")).unwrap());
    read_head(&mut peer);
    read_exactly(&mut peer, "3\r\none\r\n");
    peer.respond("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\n");
    let response = response.wait().unwrap();
    assert_eq!(response.status(), 413);
    assert!(!block_on("a piece", body.write("two")).unwrap(), "not sent");
    block_on("the end", body.finish()).unwrap();
    // The body of the response still arrives.
    peer.respond("no");
    assert_eq!(response.collect(10).wait().unwrap(), "no");
    peer.wait_closed();
}

#[test]
fn a_body_that_does_not_keep_to_its_length_is_an_error() {
    let (upstream, client) = (Upstream::new(), client());
    let (mut body, response) = client.post(upstream.url("/")).send_stream(Some(3));
    let mut peer = upstream.accept();
    // Before the connection is reset.
    read_head(&mut peer);
    let why = block_on("a piece", body.write("four")).unwrap_err();
    assert_eq!(why.side(), Side::Caller, "{why}");
    let why = block_on("the end", body.finish()).unwrap_err();
    assert_eq!(why.side(), Side::Caller, "{why}");
    let why = error(response);
    assert_eq!(why.side(), Side::Caller, "{why}");
    peer.wait_closed();
}

#[test]
fn a_streamed_body_that_is_dropped_ends_its_call() {
    let (upstream, client) = (Upstream::new(), client());
    let (mut body, response) = client.post(upstream.url("/")).send_stream(None);
    let mut peer = upstream.accept();
    assert!(block_on("a piece", body.write("one")).unwrap());
    // Before the connection is reset.
    read_head(&mut peer);
    read_exactly(&mut peer, "3\r\none\r\n");
    drop(body);
    let why = error(response);
    assert!(why.to_string().contains("call `finish`"), "{why}");
    peer.wait_closed();
}

#[test]
fn a_call_that_is_dropped_closes_its_connection_at_once() {
    let (upstream, client) = (Upstream::new(), client());
    let (call, mut peer) = upstream.call(&client);
    drop(call);
    peer.wait_closed();
}

#[test]
fn a_call_with_a_listener_goes_on_without_its_result() {
    let (upstream, client) = (Upstream::new(), client());
    let (log, own) = Log::pair();
    let listen = move |outcome: Outcome<&Response, &Failure>| own.push(outcome.is_success());
    client.get(upstream.url("/")).send().on_complete(listen);
    let mut peer = upstream.accept_request();
    peer.respond(OK);
    log.wait_for(1);
    assert_eq!(log.take(), [true]);
}

#[test]
fn a_streamed_request_that_cannot_be_sent_takes_no_pieces() {
    let (mut body, response) = client().post("nonsense").send_stream(None);
    assert!(!block_on("a piece", body.write("one")).unwrap());
    block_on("the end", body.finish()).unwrap();
    assert!(error(response).is_bad_request());
}
