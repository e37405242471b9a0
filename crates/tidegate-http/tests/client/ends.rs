//! Limits of time, cancels, and the end of client and loops.

use tidegate_http::client::Phase;
use tidegate_testkit::block_on;

use crate::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_server_that_stays_silent_ends_by_the_time_of_its_phase() {
    let (clock, builder) = by_clock();
    let client = builder
        .head_timeout(5 * SECOND)
        .body_timeout(7 * SECOND)
        .build();
    let upstream = Upstream::new();
    let (call, mut peer) = upstream.call(&client);
    clock.advance(6 * SECOND);
    let why = error(call);
    assert!(
        why.is_timeout() && why.was_sent() && why.phase() == Phase::Head,
        "{why}"
    );
    peer.wait_closed();
    let (call, mut peer) = upstream.call(&client);
    peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
    let mut body = call.wait().unwrap().into_body();
    assert_eq!(block_on("a piece", body.next()).unwrap().unwrap(), "some");
    clock.advance(8 * SECOND);
    let why = block_on("the error", body.next()).unwrap().unwrap_err();
    assert!(why.is_timeout() && why.phase() == Phase::Body, "{why}");
    peer.wait_closed();
}

#[test]
fn the_time_of_a_whole_call_covers_every_phase() {
    let (clock, builder) = by_clock();
    let client = builder.timeout(5 * SECOND).max_connections(1).build();
    let upstream = Upstream::new();
    let running = client.get(upstream.url("/")).send();
    let waiting = client.get(upstream.url("/")).timeout(3 * SECOND).send();
    let mut peer = upstream.accept_request();
    clock.advance(4 * SECOND);
    let why = error(waiting);
    assert!(
        why.is_timeout() && why.phase() == Phase::Wait && !why.was_sent(),
        "{why}"
    );
    peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
    let body = running.wait().unwrap().collect(100);
    clock.advance(2 * SECOND);
    let why = error(body);
    assert!(why.is_timeout() && why.phase() == Phase::Body, "{why}");
    peer.wait_closed();
}

#[test]
fn a_cancelled_call_closes_its_connection_and_the_next_call_gets_the_place() {
    let client = builder().max_connections(1).build();
    let upstream = Upstream::new();
    let first = client.get(upstream.url("/first")).send();
    let second = client.get(upstream.url("/second")).send();
    let third = client.get(upstream.url("/third")).send();
    let mut peer = upstream.accept();
    assert!(peer.request().starts_with("GET /first"));
    assert!(second.cancel(), "it waits");
    assert!(first.cancel(), "it runs");
    peer.wait_closed();
    let mut peer = upstream.accept();
    assert!(peer.request().starts_with("GET /third"));
    peer.finish(third);
}

#[test]
fn a_body_that_is_dropped_or_too_large_closes_the_connection() {
    let client = builder().max_connections(1).build();
    let upstream = Upstream::new();
    for collect in [false, true] {
        let (call, mut peer) = upstream.call(&client);
        peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome");
        let response = call.wait().unwrap();
        match collect {
            false => drop(response),
            true => {
                let body = response.collect(3);
                let why = error(body);
                assert!(why.to_string().contains("larger than 3 bytes"), "{why}");
            }
        }
        peer.wait_closed();
    }
}

#[test]
fn a_body_that_ends_early_or_breaks_the_rules_is_an_error() {
    let (upstream, client) = (Upstream::new(), client());
    let table = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome",
            "before the body",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome",
            "before the body",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsome",
            "violates",
        ),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "violates"),
    ];
    for (response, what) in table {
        let (call, mut peer) = upstream.call(&client);
        peer.respond(response);
        drop(peer);
        let why = match call.wait() {
            Ok(response) => error(response.collect(100)),
            Err(why) => why
                .failure()
                .unwrap()
                .downcast_ref::<ClientError>()
                .unwrap()
                .clone(),
        };
        assert!(why.to_string().contains(what), "{response}: {why}");
        assert!(why.was_sent() && !why.is_safe_to_retry(), "{response}");
    }
}

#[test]
fn idle_connections_end_with_the_last_client_and_calls_go_on() {
    let group = group(1);
    let (upstream, client) = (Upstream::new(), Client::builder(&group).build());
    let call = client.get(upstream.url("/")).send();
    let mut idle = upstream.accept_request();
    let running = client.get(upstream.url("/")).send();
    let mut peer = upstream.accept_request();
    idle.finish(call);
    drop(client);
    idle.wait_closed();
    peer.finish(running);
}

#[test]
fn a_call_ends_when_its_loops_do() {
    let group = group(1);
    let (upstream, client) = (Upstream::new(), Client::builder(&group).build());
    let running = client.get(upstream.url("/")).send();
    let _peer = upstream.accept_request();
    group
        .shutdown(tidegate_loop::Quiet::none(PATIENCE))
        .wait()
        .unwrap();
    let why = error(running);
    assert!(why.is_closed(), "{why}");
    assert!(client.get(upstream.url("/")).send().wait().is_err());
}

#[test]
fn the_loops_stay_while_a_call_is_outstanding() {
    let (upstream, client) = (Upstream::new(), client());
    let call = client.get(upstream.url("/")).send();
    drop(client);
    upstream.accept().serve(call);
}
