//! WebSockets and other upgrades.

use tidegate::metrics::{Collect, Metric, MetricVisitor};

use tidegate_testkit::begins;

use crate::*;

pub(crate) const ASK: &str = "GET /live HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Key: x\r\n\r\n";
pub(crate) const ACCEPT: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n";

/// Opens a tunnel. Returns both ends.
pub(crate) fn open(fixture: &Fixture, back: &Upstream) -> (Peer, Peer) {
    open_on(fixture.client(), back)
}

/// Opens a tunnel on a connection. Returns both ends.
fn open_on(mut client: Peer, back: &Upstream) -> (Peer, Peer) {
    client.write(ASK);
    let mut server = back.accept();
    let request = server.message();
    assert_eq!(request.field("upgrade"), Some("websocket"));
    assert_eq!(request.field("connection"), Some("upgrade"));
    assert_eq!(request.field("sec-websocket-key"), Some("x"));
    server.write(ACCEPT);
    let response = client.head();
    begins(&response, "HTTP/1.1 101 ");
    assert_eq!(field(&response, "upgrade"), Some("websocket"));
    assert_eq!(field(&response, "sec-websocket-accept"), Some("y"));
    (client, server)
}

#[test]
fn bytes_pass_unchanged_in_both_directions() {
    let (back, fixture) = Fixture::of("tunnel = {}");
    let (mut client, mut server) = open(&fixture, &back);
    for _ in 0..3 {
        client.sends("ping", &mut server);
        server.sends("pong!", &mut client);
    }
    // The end of one half.
    client.0.shutdown_output();
    assert_eq!(server.rest(), "");
    server.write("last");
    drop(server);
    assert_eq!(client.rest(), "last");
    fixture.wait_idle();
}

#[test]
fn bytes_right_behind_the_heads_are_not_lost() {
    let (back, fixture) = Fixture::of("tunnel = {}");
    let (mut client, mut server) = fixture.open(&format!("{ASK}early"), &back);
    server.write(&format!("{ACCEPT}first"));
    client.head();
    assert_eq!(client.bytes(5), "first");
    assert_eq!(server.bytes(5), "early");
}

#[test]
fn a_tunnel_counts_apart_from_requests_and_has_its_own_limit() {
    let (back, fixture) = Fixture::of("limit = 1\ntunnel = { max = 1 }");
    let (client, server) = open(&fixture, &back);
    let refused = fixture.refusal(ASK, "limit shop");
    assert_eq!(refused.status(), "503");
    fixture.served_by(&back);
    tidegate_testkit::until("only the tunnel is open", || fixture.active() == 1);
    drop((client, server));
    fixture.wait_idle();
    open(&fixture, &back);
}

#[test]
fn an_idle_tunnel_is_closed_and_a_busy_one_is_not() {
    let settings = "timeout = \"1s\"\ntunnel = { idle = \"10s\" }";
    let (back, fixture) = Fixture::of(settings);
    let (mut client, mut server) = open(&fixture, &back);
    for _ in 0..3 {
        fixture.clock.advance(Duration::from_secs(7));
        // The time of the route is for the handshake.
        server.sends("x", &mut client);
    }
    fixture.clock.advance(Duration::from_secs(11));
    assert_eq!([client.rest(), server.rest()], ["", ""]);
    fixture.wait_idle();
}

#[test]
fn if_one_side_is_closed_so_is_the_other() {
    let (back, fixture) = Fixture::of("tunnel = {}");
    let (mut client, server) = open(&fixture, &back);
    drop(server);
    assert_eq!(client.rest(), "");
    drop(client);
    fixture.wait_idle();
}

#[test]
fn a_tunnel_outlives_a_new_configuration() {
    let (back, fixture) = Fixture::of("tunnel = {}");
    let (mut client, mut server) = open(&fixture, &back);
    for round in 0..5 {
        let other = format!("[route.r{round}]\nrespond = 200\n");
        fixture.reload(&other);
        client.sends("ping", &mut server);
        server.sends("pong", &mut client);
    }
    assert!(fixture.isolation.is_empty());
}

#[test]
fn a_tunnel_outlives_its_listener_and_the_deadline_of_drains() {
    let back = Upstream::new();
    let routes = |more: &str| {
        let drain = "[drain]\ndeadline = \"1s\"\n";
        format!("{more}{drain}{}", route(&[&back], "tunnel = {}"))
    };
    let fixture = Fixture::new(&routes("[listen.more]\nat = \"127.0.0.1:0\"\n"));
    let more = fixture.gateway.addresses()[1].1.clone();
    let mut idle = fixture.connect(&more);
    idle.write(GET);
    back.accept().serve_last(&mut idle);
    let (mut client, mut server) = open_on(fixture.connect(&more), &back);
    fixture.reload(&routes(""));
    assert_eq!(idle.rest(), "", "an idle connection ends");
    for _ in 0..3 {
        fixture.clock.advance(Duration::from_secs(2));
        client.sends("ping", &mut server);
        server.sends("pong", &mut client);
    }
    let left = || {
        let mut left = OldConnections::default();
        fixture.gateway.collect(&mut left);
        left.0
    };
    tidegate_testkit::until("one is left", || left() == [(more.clone(), 1)]);
    // A drain of the gateway waits for it, and has a deadline.
    let drained = fixture.drain(0, 1);
    client.sends("last", &mut server);
    assert!(!drained.is_done());
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(client.rest(), "");
    assert_eq!(drained.wait().unwrap().cut, 1);
}

/// The metric of connections whose listener is gone.
#[derive(Default)]
struct OldConnections(Vec<(String, usize)>);

impl MetricVisitor for OldConnections {
    fn counter(&mut self, _: Metric, _: &[(&str, &str)], _: f64) {}

    fn gauge(&mut self, metric: Metric, labels: &[(&str, &str)], value: f64) {
        if metric.name == "tidegate_server_old_connections" {
            self.0.push((labels[0].1.to_owned(), value as usize));
        }
    }

    fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
}

#[test]
fn a_server_that_refuses_the_upgrade_responds() {
    let (back, fixture) = Fixture::of("tunnel = {}");
    let (mut client, mut server) = fixture.reach(ASK, &back);
    server.serve("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    client.gets("403", "no");
    // Both connections go on.
    client.ask(&mut server);
}

#[test]
fn without_the_setting_an_upgrade_is_a_plain_request() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.send(ASK);
    let request = back.accept().serve(OK);
    for name in ["upgrade", "connection"] {
        assert_eq!(request.field(name), None);
    }
    assert_eq!(client.message().body, "ok");
}

const CONNECT: &str = "CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n";

/// The settings of a route that takes `CONNECT`.
fn connects(more: &str) -> String {
    format!("method = \"CONNECT\"\nhost = \"db.example\"\ntunnel = {{ connect = true, {more} }}")
}

#[test]
fn connect_opens_a_tunnel_to_a_server_of_the_upstream_where_it_is_allowed() {
    let (back, fixture) = Fixture::of(&connects("max = 1"));
    let (mut client, mut server) = fixture.reach(CONNECT, &back);
    let response = client.head();
    begins(&response, "HTTP/1.1 200 ");
    // Nothing of HTTP reaches the server.
    client.sends("ping", &mut server);
    server.sends("pong", &mut client);
    // A tunnel holds its place.
    fixture.refusal(CONNECT, "limit shop");
    // No other host, and no other method.
    let other = CONNECT.replace("db.example", "other.example");
    assert_eq!(fixture.send(&other).message().status(), "405");
    fixture.responds("404");
    drop(client);
    assert_eq!(server.rest(), "");
    drop(server);
    fixture.wait_idle();
}

#[test]
fn connect_to_a_server_that_is_gone_is_a_failure() {
    let (back, fixture) = Fixture::of(&connects("max = 5"));
    let _port = back.stop();
    let failed = fixture.send(CONNECT).message();
    assert_eq!(failed.status(), "502");
    assert_eq!(failed.field("tidegate-failed"), Some("connect shop"));
    fixture.wait_idle();
}

#[test]
fn a_change_to_no_protocol_is_502() {
    let (back, fixture) = Fixture::of("tunnel = {}");
    let mut client = fixture.send(ASK);
    back.accept()
        .serve("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n");
    let response = client.failure("bad_response shop");
    assert_eq!(response.status(), "502");
    fixture.wait_idle();
}

/// A request that asks for these protocols.
fn ask_for(protocols: &str) -> String {
    ASK.replace("Upgrade: websocket", &format!("Upgrade: {protocols}"))
}

#[test]
fn an_upgrade_that_is_not_allowed_is_a_plain_request() {
    let back = Upstream::new();
    for settings in ["tunnel = {}", "tunnel = { protocols = [] }"] {
        let fixture = Fixture::with_route(&[&back], settings);
        for protocols in ["h2c", "HTTP/2.0", "TLS/1.0", "echo", "websocket/13", ","] {
            let ask = ask_for(protocols).replace(
                "Connection: Upgrade",
                "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x",
            );
            let (mut client, mut server) = fixture.reach(&ask, &back);
            let request = server.serve(OK_CLOSE);
            for name in ["upgrade", "connection", "http2-settings"] {
                assert_eq!(request.field(name), None, "{protocols}");
            }
            assert_eq!(client.message().body, "ok", "{protocols}");
        }
        fixture.wait_idle();
    }
}

#[test]
fn only_the_protocols_that_are_allowed_are_passed_on() {
    let settings = "tunnel = { protocols = [\"WebSocket\", \"echo/2\"] }";
    let (back, fixture) = Fixture::of(settings);
    let rows = [
        ("h2c, websocket", "websocket"),
        ("WEBSOCKET ,TLS/1.2,Echo/2, echo", "WEBSOCKET, Echo/2"),
    ];
    for (asked, passed) in rows {
        let (mut client, mut server) = fixture.reach(&ask_for(asked), &back);
        assert_eq!(server.message().field("upgrade"), Some(passed));
        server.write(ACCEPT);
        let response = client.head();
        begins(&response, "HTTP/1.1 101 ");
        client.sends("ping", &mut server);
    }
    fixture.wait_idle();
}

#[test]
fn a_change_to_a_protocol_that_was_not_passed_on_is_502() {
    let settings = "tunnel = { protocols = [\"websocket\", \"echo\"] }";
    let (back, fixture) = Fixture::of(settings);
    for other in ["h2c", "echo", "websocket, h2c", "websocket\r\nUpgrade: h2c"] {
        let (mut client, mut server) = fixture.open(&ask_for("websocket, h2c"), &back);
        server.write(&ACCEPT.replace("Upgrade: websocket", &format!("Upgrade: {other}")));
        let response = client.message();
        assert_eq!(response.status(), "502", "{other}");
        assert_eq!(response.field("tidegate-failed"), Some("bad_response shop"));
        assert_eq!(server.rest(), "", "{other}");
    }
    fixture.wait_idle();
}
