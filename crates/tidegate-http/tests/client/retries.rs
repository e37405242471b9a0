//! Connections that end at a bad moment, and the second attempt.

use tidegate_http::client::Phase;
use tidegate_testkit::{has, until};

use crate::*;

#[test]
fn a_get_survives_a_server_that_closes_an_idle_connection_at_any_point() {
    let (upstream, client) = (Upstream::new(), client());
    let length = format!(
        "GET /x HTTP/1.1\r\nHost: {}\r\n\r\n",
        upstream.0.local_addr().unwrap()
    );
    for read in 0..=length.len() {
        let mut old = upstream.warm(&client);
        if read == 0 {
            drop(old);
            let call = client.get(upstream.url("/x")).send();
            let mut peer = upstream.accept_request();
            peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            assert_eq!(text(call), "ok");
            continue;
        }
        let call = client.get(upstream.url("/x")).send();
        let mut some = vec![0; read];
        old.0.read_exact(&mut some).unwrap();
        drop(old);
        let mut peer = upstream.accept();
        assert!(peer.request().starts_with("GET /x"));
        peer.respond("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert_eq!(text(call), "ok", "{read}");
    }
}

#[test]
fn a_post_is_sent_at_most_once() {
    let (upstream, client) = (Upstream::new(), client());
    let length = format!(
        "POST /x HTTP/1.1\r\nHost: {}\r\nContent-Length: 3\r\n\r\npay",
        upstream.0.local_addr().unwrap()
    )
    .len();
    for read in 1..=length {
        let mut old = upstream.warm(&client);
        let call = client.post(upstream.url("/x")).body("pay").send();
        let mut some = vec![0; read];
        old.0.read_exact(&mut some).unwrap();
        drop(old);
        let why = error(call);
        assert!(
            why.is_closed() && why.was_sent() && !why.is_safe_to_retry(),
            "{why}"
        );
        assert_eq!(why.phase(), Phase::Head);
        upstream.0.set_nonblocking(true).unwrap();
        assert!(upstream.0.accept().is_err(), "there is no second attempt");
        upstream.0.set_nonblocking(false).unwrap();
    }
}

#[test]
fn a_post_on_a_connection_that_the_server_has_closed_before_is_sent_once() {
    let (upstream, client) = (Upstream::new(), client());
    drop(upstream.warm(&client));
    // The client may or may not know of the end yet. If it does not, nothing is sent or the call
    // fails: the server never gets the request twice.
    let call = client.post(upstream.url("/x")).body("pay").send();
    upstream.0.set_nonblocking(true).unwrap();
    let mut accepted = 0;
    until("the call ends", || {
        if let Ok((stream, _)) = upstream.0.accept() {
            stream.set_nonblocking(false).unwrap();
            let mut peer = Peer(stream);
            assert!(peer.request().ends_with("pay"));
            peer.respond(OK);
            accepted += 1;
        }
        call.is_done()
    });
    assert!(accepted <= 1);
    assert_eq!(call.wait().is_ok(), accepted == 1);
}

#[test]
fn a_get_on_a_new_connection_that_ends_is_not_repeated() {
    let (upstream, client) = (Upstream::new(), client());
    let (call, peer) = upstream.call(&client);
    drop(peer);
    let why = error(call);
    assert!(
        why.is_closed() && why.was_sent() && !why.is_safe_to_retry(),
        "{why}"
    );
}

#[test]
fn a_response_that_was_begun_is_not_repeated() {
    let (upstream, client) = (Upstream::new(), client());
    let mut peer = upstream.warm(&client);
    let call = client.get(upstream.url("/")).send();
    peer.request();
    peer.respond("HTTP/1.1 2");
    drop(peer);
    let why = error(call);
    assert!(why.is_closed() && !why.is_safe_to_retry(), "{why}");
}

#[test]
fn no_connection_is_an_error_of_the_connect_phase() {
    let upstream = Upstream::new();
    let url = upstream.url("/path?secret=1");
    drop(upstream);
    let why = error(client().get(&url).send());
    assert!(
        why.is_connect() && why.is_safe_to_retry() && !why.was_sent(),
        "{why}"
    );
    assert_eq!(why.phase(), Phase::Connect);
    let text = why.to_string();
    has(&text, ["127.0.0.1", "nothing was sent"]);
    assert!(!text.contains("secret"), "{text}");
    let nowhere = builder()
        .resolver(|_, _| Completion::succeeded(Vec::new()))
        .build();
    let why = error(nowhere.get("http://nowhere.invalid/").send());
    assert!(
        why.is_connect() && why.to_string().contains("nowhere.invalid"),
        "{why}"
    );
}
