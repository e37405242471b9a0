//! Faults of both sides: servers that vanish and come back, messages that two parsers could read
//! differently, resets, and slow clients.

use std::collections::BTreeSet;

use tidegate_testkit::begins;

use crate::*;

/// Sends bytes on a connection of their own. Returns everything that comes back.
fn exchange(fixture: &Fixture, bytes: &[u8]) -> String {
    let mut client = fixture.client();
    client.0.write_all(bytes).unwrap();
    // Some rows are incomplete: the gateway sees their end.
    client.0.shutdown_output();
    client.rest()
}

#[test]
fn a_server_that_was_killed_serves_again_after_its_restart() {
    let back = Upstream::new();
    let address = back.address();
    let fixture = Fixture::with_route(&[&back], "");
    let mut client = fixture.client();
    client.write(GET);
    let mut server = back.accept();
    server.serve(OK);
    assert_eq!(client.message().status(), "200");
    client.write(GET);
    server.message();
    // It dies with a request in flight, which needs a new connection, and nothing listens for a while.
    drop((back, server));
    let cut = client.failure("connect shop");
    assert_eq!(cut.status(), "502");
    client.write(GET);
    client.failure("connect shop");
    let back = Upstream::at(&address);
    client.write(GET);
    back.accept().serve(OK);
    assert_eq!(client.message().status(), "200");
    fixture.wait_idle();
}

#[test]
fn requests_that_can_be_read_in_two_ways_reach_no_server() {
    let head = "POST /a HTTP/1.1\r\nHost: shop.example\r\n";
    let rows = [
        format!("{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET"),
        format!("{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        format!("{head}Content-Length: 1, 2\r\n\r\nab"),
        format!("{head}Content-Length: +1\r\n\r\na"),
        format!("{head}Content-Length: 0x1\r\n\r\na"),
        format!("{head}Content-Length : 1\r\n\r\na"),
        format!("{head}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
        format!("{head}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
        format!("{head} X: folded\r\n\r\n"),
        format!("{head}X: a\rY: b\r\n\r\n"),
        format!("{head}X: a\0b\r\n\r\n"),
        format!("{head}Host: other.example\r\n\r\n"),
        "GET /a HTTP/1.1\r\n\r\n".to_owned(),
        "GET /a HTTP/2.0\r\nHost: shop.example\r\n\r\n".to_owned(),
        "GET  /a HTTP/1.1\r\nHost: shop.example\r\n\r\n".to_owned(),
        "GET /a\tHTTP/1.1\r\nHost: shop.example\r\n\r\n".to_owned(),
    ];
    let (back, fixture) = Fixture::of("");
    for row in rows {
        let got = exchange(&fixture, row.as_bytes());
        let status = got.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "501", "505"].contains(&status), "{row:?}: {got:?}");
        // One response, which ends the connection: what follows is not another request.
        assert_eq!(got.matches("HTTP/1.1 ").count(), 1, "{row:?}: {got:?}");
    }
    assert!(back.is_quiet());
    assert_eq!(fixture.active(), 0);
}

#[test]
fn chunks_that_can_be_read_in_two_ways_end_the_request() {
    let head = "POST /a HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    let rows = [
        "1\r\naXX0\r\n\r\n",
        "-1\r\na\r\n",
        "0x1\r\na\r\n",
        "10000000000000001\r\na\r\n",
        "1 \n a\r\n",
        "1;a=\"\n\r\na\r\n",
    ];
    let (back, fixture) = Fixture::of("");
    for row in rows {
        let (mut client, mut server) = fixture.begin(head, &back);
        client.write(row);
        // The server never sees the end of the body.
        let rest = server.rest();
        assert!(!rest.ends_with("0\r\n\r\n"), "{row:?}: {rest:?}");
        drop(client);
    }
    fixture.wait_idle();
}

#[test]
fn what_follows_a_response_is_never_the_next_one() {
    let (back, fixture) = Fixture::of("");
    let mut client = fixture.client();
    client.write(GET);
    let mut server = back.accept_asked();
    server.write(&format!(
        "{OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    ));
    assert_eq!(client.message().body, "ok");
    client.write(GET);
    // The connection is not used again.
    back.accept().serve_ok(&mut client);
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
}

#[test]
fn responses_that_can_be_read_in_two_ways_are_502() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let rows = [
        format!("{ok}Content-Length: 1, 2\r\n\r\nab"),
        format!("{ok}Content-Length: -1\r\n\r\n"),
        format!("{ok}Content-Length : 1\r\n\r\na"),
        format!("{ok}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
        format!("{ok}X: a\rContent-Length: 1\r\n\r\na"),
        format!("{ok}X: a\0b\r\nContent-Length: 1\r\n\r\na"),
        format!("{ok} X: folded\r\n\r\n"),
        "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "HTTP/3.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
    ];
    let (back, fixture) = Fixture::of("");
    for row in rows {
        let mut client = fixture.send(GET);
        back.accept().serve(&row);
        let response = client.message();
        assert_eq!(response.status(), "502", "{row:?}");
        let reason = response.field("tidegate-failed");
        assert_eq!(reason, Some("bad_response shop"), "{row:?}");
    }
    fixture.wait_idle();
}

#[test]
fn resets_in_bodies_return_what_the_request_held() {
    let (back, fixture) = Fixture::of("");
    let head = "POST /a HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 100\r\n\r\n";
    // A socket that is closed with unread bytes resets its connection. The client's: its response.
    let (mut client, mut server) = fixture.begin(&format!("{head}{head}"), &back);
    drop(client);
    assert!(server.rest().len() < 100);
    fixture.wait_idle();
    // The server's: the request's body.
    client = fixture.send(&format!("{head}{}", "x".repeat(100)));
    let mut server = back.accept_head();
    server.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
    let start = client.head();
    begins(&start, "HTTP/1.1 200");
    drop(server);
    let rest = client.rest();
    assert!(rest.len() < 100, "{rest}");
    fixture.wait_idle();
}

#[test]
fn random_bytes_get_one_refusal_each_and_harm_nobody() {
    let (back, fixture) = Fixture::of("");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut statuses = BTreeSet::new();
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..1 + state % 200 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Mostly of those that heads consist of.
            let usual = b"GET /a HTTP/1.1\r\nHost: shop\r\n\r\n:; \t0123";
            bytes.push(match state % 10 {
                0 => (state >> 8) as u8,
                _ => usual[(state >> 8) as usize % usual.len()],
            });
        }
        let got = exchange(&fixture, &bytes);
        assert!(got.matches("HTTP/1.1 ").count() <= 1, "{bytes:?}: {got}");
        statuses.insert(got.split(' ').nth(1).unwrap_or_default().to_owned());
    }
    assert!(statuses.contains("400"), "{statuses:?}");
    assert!(!statuses.contains("200"), "{statuses:?}");
    assert!(back.is_quiet());
    let mut client = fixture.send(GET);
    back.accept().serve(OK);
    assert_eq!(client.message().status(), "200");
}

#[test]
fn slow_clients_are_ended_at_their_time_and_others_are_served() {
    let (back, fixture) = Fixture::of("timeout = \"60s\"");
    let mut slow: Vec<Peer> = (0..2_000).map(|_| fixture.send("GET /a HT")).collect();
    let (mut client, mut server) = fixture.reach(GET, &back);
    server.serve(OK);
    assert_eq!(client.message().status(), "200");
    // The time of a head does not begin again with each byte.
    fixture.clock.advance(Duration::from_secs(6));
    for peer in &mut slow {
        peer.write("T");
    }
    client.write(GET);
    server.serve(OK);
    assert_eq!(client.message().status(), "200");
    fixture.clock.advance(Duration::from_secs(6));
    for peer in &mut slow {
        let rest = peer.rest();
        let refused = ["HTTP/1.1 408 ", "HTTP/1.1 400 "];
        assert!(refused.iter().any(|one| rest.starts_with(one)), "{rest:?}");
    }
    client.write(GET);
    server.serve(OK);
    assert_eq!(client.message().status(), "200");
    assert!(back.is_quiet());
}
