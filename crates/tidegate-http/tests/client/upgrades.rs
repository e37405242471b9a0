//! Upgrades and tunnels: the connection is handed over, with the bytes that were read already.

use tidegate_http::client::{Phase, Upgraded};
use tidegate_net::{Bytes, Handler, Inbound, InboundContext, Nothing};
use tidegate_testkit::{Log, has, until};

use crate::*;

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: \
                      echo\r\n\r\n";

/// Logs what it reads, and the end.
struct Reads(Log<String>);

impl Inbound for Reads {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
        self.0.push(String::from_utf8(bytes.to_vec()).unwrap());
    }

    fn inactive(&mut self, _: &mut InboundContext<'_, Self>) {
        self.0.push("|".to_owned());
    }
}

/// Takes the connection over with a handler that logs, beginning with what was read already.
fn take_over(upgraded: Upgraded) -> Log<String> {
    let (log, own) = Log::pair();
    let taken = upgraded.take_over(move |early| {
        own.push(String::from_utf8(early.to_vec()).unwrap());
        Handler::inbound(Reads(own))
    });
    taken.wait().unwrap();
    log
}

/// Checks that a connection passes bytes in both directions, and its end.
fn check(upgraded: Upgraded, mut peer: Peer, early: &str) {
    let channel = upgraded.channel().clone();
    channel.write_and_flush("before");
    read_exactly(&mut peer, "before");
    peer.respond("between");
    let log = take_over(upgraded);
    channel.write_and_flush("after");
    read_exactly(&mut peer, "after");
    peer.respond("end");
    drop(peer);
    let wanted = format!("{early}betweenend|");
    let mut got = String::new();
    until("all bytes", || {
        got.extend(log.take());
        got.len() >= wanted.len()
    });
    assert_eq!(got, wanted);
}

fn upgraded(response: CancelOnDrop<Response>) -> Upgraded {
    let response = response.wait().unwrap();
    response
        .into_upgraded()
        .unwrap_or_else(|other| panic!("{}", other.status()))
}

#[test]
fn an_upgrade_hands_the_connection_over() {
    let upstream = Upstream::new();
    let client = builder().max_connections(1).build();
    for early in ["", "early"] {
        let call = client
            .get(upstream.url("/chat"))
            .upgrade("echo")
            .field("Sec-Key", "1")
            .send();
        let mut peer = upstream.accept();
        let request = peer.request();
        has(&request, ["\r\nConnection: upgrade\r\nUpgrade: echo\r\n"]);
        peer.respond(&format!("{SWITCH}{early}"));
        check(upgraded(call), peer, early);
    }
}

#[test]
fn an_upgraded_connection_does_not_belong_to_the_client_any_more() {
    let (upstream, group) = (Upstream::new(), group(1));
    let client = Client::builder(&group).max_connections(1).build();
    let call = client.get(upstream.url("/")).upgrade("echo").send();
    let mut peer = upstream.accept_request();
    peer.respond(SWITCH);
    let upgraded = upgraded(call);
    // It does not count, and is not used for other calls.
    let call = client.get(upstream.url("/")).send();
    let mut other = upstream.accept();
    other.serve(call);
    drop(client);
    check(upgraded, peer, "");
}

#[test]
fn an_upgrade_that_is_dropped_closes_the_connection() {
    let (upstream, client) = (Upstream::new(), client());
    let call = client.get(upstream.url("/")).upgrade("echo").send();
    let mut peer = upstream.accept_request();
    peer.respond(SWITCH);
    drop(call.wait().unwrap());
    peer.wait_closed();
}

#[test]
fn a_server_that_refuses_an_upgrade_gives_an_ordinary_response() {
    let (upstream, client) = (Upstream::new(), client());
    let mut peer = None;
    for _ in 0..2 {
        let call = client.get(upstream.url("/")).upgrade("echo").send();
        let peer = peer.get_or_insert_with(|| upstream.accept());
        peer.request();
        peer.respond(OK);
        let response = call.wait().unwrap().into_upgraded().unwrap_err();
        assert_eq!(response.status(), 200);
        assert_eq!(response.collect(10).wait().unwrap(), "ok");
    }
}

#[test]
fn a_change_of_protocol_that_was_not_asked_for_is_an_error() {
    let (upstream, client) = (Upstream::new(), client());
    let (call, mut peer) = upstream.call(&client);
    peer.respond(SWITCH);
    let why = error(call);
    assert!(
        why.was_sent()
            && why
                .to_string()
                .contains("which the request did not ask for"),
        "{why}"
    );
    peer.wait_closed();
    // One that comes before the request is complete.
    let (body, call) = client
        .post(upstream.url("/"))
        .upgrade("echo")
        .send_stream(Some(5));
    let mut peer = upstream.accept();
    read_head(&mut peer);
    peer.respond(SWITCH);
    let why = error(call);
    let expected = "changed the protocol before it had the whole request";
    assert!(why.to_string().contains(expected), "{why}");
    peer.wait_closed();
    drop(body);
}

#[test]
fn a_tunnel_goes_through_a_proxy() {
    let (proxy, client) = (Upstream::new(), client());
    let call = client
        .tunnel(proxy.url("/ignored"), "Target.test:443")
        .field("Proxy-Authorization", "own")
        .send();
    let mut peer = proxy.accept();
    assert_eq!(
        peer.request(),
        "CONNECT target.test:443 HTTP/1.1\r\nHost: target.test:443\r\nProxy-Authorization: \
         own\r\n\r\n"
    );
    peer.respond("HTTP/1.1 200 Connection established\r\n\r\nhi ");
    check(upgraded(call), peer, "hi ");
}

#[test]
fn a_proxy_that_refuses_a_tunnel_gives_an_ordinary_response() {
    let (proxy, client) = (Upstream::new(), client());
    let call = client
        .tunnel(proxy.url("/"), "[::1]:22")
        .redirects(3)
        .send();
    let mut peer = proxy.accept();
    assert!(peer.request().starts_with("CONNECT [::1]:22 HTTP/1.1\r\n"));
    peer.respond(
        "HTTP/1.1 407 Proxy Authentication Required\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nno",
    );
    let response = call.wait().unwrap().into_upgraded().unwrap_err();
    assert_eq!(response.status(), 407);
    assert_eq!(response.collect(10).wait().unwrap(), "no");
    // A redirect is not followed.
    let call = client.tunnel(proxy.url("/"), "a:1").redirects(3).send();
    peer.request();
    peer.respond("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(call.wait().unwrap().status(), 302);
}

#[test]
fn mistakes_in_tunnels_and_upgrades_are_errors_before_anything_is_sent() {
    let client = client();
    let table = [
        (client.tunnel("http://127.0.0.1:1", "a"), "port"),
        (client.tunnel("http://127.0.0.1:1", "[::1]"), "port"),
        (client.tunnel("http://127.0.0.1:1", ":80"), "no host"),
        (client.tunnel("http://127.0.0.1:1", "a:b"), "port"),
        (client.tunnel("http://127.0.0.1:1", "a:80/x"), "port"),
        (client.tunnel("http://127.0.0.1:1", "u@a:80"), "user name"),
        (client.tunnel("http://", "a:80"), "no host"),
        (
            client.tunnel("http://127.0.0.1:1", "a:80").body("x"),
            "no body",
        ),
        (
            client.get("http://127.0.0.1:1/").upgrade("a\r\nb: c"),
            "cannot be written",
        ),
        (
            client.get("http://127.0.0.1:1/").field("Upgrade", "a"),
            "the client sets it",
        ),
        (
            client.get("http://127.0.0.1:1/").field("Expect", "a"),
            "the client sets it",
        ),
    ];
    for (request, what) in table {
        let why = error(request.send());
        assert_eq!((why.phase(), why.was_sent()), (Phase::Request, false));
        assert!(why.to_string().contains(what), "{why}");
    }
}
