//! What a client may send to a listener, and how long it may take. The other listener has the defaults.

use crate::steps::{ENDLESS, connect, take, write_until_stalled};
use crate::*;

const LISTENERS: [&str; 2] = ["small", "http"];

/// A gateway with another listener, `small`, which has these limits.
fn limited(back: &Upstream, limits: &str) -> Fixture {
    let listener = "[listen.small]\nat = \"127.0.0.1:0\"\n";
    let route = route(&[back], "timeout = false");
    Fixture::new(&format!("{listener}limits = {{ {limits} }}\n{route}"))
}

#[test]
fn a_head_is_no_larger_than_the_listener_allows() {
    let line = GET.replace("/a", &format!("/{}", "a".repeat(400)));
    let head = GET.replace("Host", &format!("A: {}\r\nHost", "b".repeat(400)));
    let fields = GET.replace("Host", &format!("{}Host", "A: b\r\n".repeat(5)));
    let rows = [
        ("request_line = \"300B\"", line, "414"),
        ("head = \"300B\", request_line = \"200B\"", head, "431"),
        ("fields = 5", fields, "431"),
    ];
    for (limits, request, refused) in rows {
        let back = Upstream::new();
        let fixture = limited(&back, limits);
        for (listener, status) in LISTENERS.into_iter().zip([refused, "200"]) {
            // A smaller one passes.
            let mut client = connect(&fixture, listener);
            client.write(GET);
            let mut server = back.accept();
            server.serve(OK);
            assert_eq!(client.message().status(), "200", "{limits}");
            client.write(&request);
            if status == "200" {
                server.serve(OK_CLOSE);
            }
            assert_eq!(client.message().status(), status, "{limits}, {listener}");
            drop(server);
        }
        assert!(back.is_quiet(), "{limits}");
    }
}

#[test]
fn a_client_takes_no_longer_than_the_listener_allows() {
    let post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    let rows = [
        ("head_time = \"5s\"", GET.split_at(9), "HTTP/1.1 408 "),
        (
            "body_time = \"5s\"",
            post.split_at(post.len() - 1),
            "HTTP/1.1 408 ",
        ),
        ("idle = \"5s\"", GET.split_at(0), ""),
    ];
    for (limits, (start, rest), end) in rows {
        let back = Upstream::new();
        let fixture = limited(&back, limits);
        let is_post = start.starts_with("POST");
        let mut servers = Vec::new();
        let mut clients = LISTENERS.map(|listener| connect(&fixture, listener));
        for client in &mut clients {
            client.write(GET);
            back.accept().serve_last(client);
            client.write(start);
            servers.extend(is_post.then(|| back.accept()));
        }
        // The loop has read what came before.
        pass(&fixture, &back);
        fixture.clock.advance(Duration::from_secs(6));
        let [mut late, mut other] = clients;
        let got = late.rest();
        assert!(got.starts_with(end), "{limits}: {got:?}");
        assert_eq!(got.is_empty(), end.is_empty(), "{limits}: {got:?}");
        other.write(rest);
        let mut server = servers.pop().unwrap_or_else(|| back.accept());
        server.serve(OK);
        assert_eq!(other.message().body, "ok", "{limits}");
    }
}

#[test]
fn a_client_takes_its_response_as_soon_as_the_listener_demands() {
    for (listener, is_cut) in LISTENERS.into_iter().zip([true, false]) {
        let back = Upstream::new();
        let fixture = limited(&back, "send_time = \"1s\"");
        let mut client = connect(&fixture, listener);
        client.write(GET);
        let mut server = back.accept_head();
        server.write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {ENDLESS}\r\n\r\n"
        ));
        let sent = write_until_stalled(&fixture, &mut server);
        assert!(sent < ENDLESS);
        // Less than the default. A step in which the systems take more of it does not count.
        for _ in 0..10 {
            fixture.clock.advance(Duration::from_secs(2));
            fixture.in_one_turn(|| ());
        }
        client.head();
        match is_cut {
            true => assert!(client.rest().len() < sent),
            false => take(&mut client, sent),
        }
    }
}

#[test]
fn a_listener_has_no_more_connections_than_it_allows() {
    for limits in ["connections = 2", "connections_per_client = 2"] {
        let back = Upstream::new();
        let fixture = limited(&back, limits);
        for (listener, most) in LISTENERS.into_iter().zip([2, 4]) {
            let pass = |client: &mut Peer| {
                client.write(GET);
                back.accept().serve(OK_CLOSE);
                assert_eq!(client.message().body, "ok", "{limits}, {listener}");
            };
            let mut clients: Vec<_> = (0..most).map(|_| connect(&fixture, listener)).collect();
            clients.iter_mut().for_each(pass);
            if most > 2 {
                continue;
            }
            assert_eq!(connect(&fixture, listener).rest(), "", "{limits}");
            // A place that is free again can be taken.
            drop(clients.pop());
            tidegate_testkit::until("there is a place", || {
                let mut next = connect(&fixture, listener);
                // It may be closed already.
                let _ = next.0.write_all(b"no request\r\n\r\n");
                next.rest().starts_with("HTTP/1.1 400 ")
            });
        }
    }
}

#[test]
fn the_connections_of_a_listener_hold_no_more_memory_than_it_allows() {
    for (listener, is_cut) in LISTENERS.into_iter().zip([true, false]) {
        let back = Upstream::new();
        let fixture = limited(&back, "memory = \"16KiB\"");
        let mut client = connect(&fixture, listener);
        client.write(GET);
        let mut server = back.accept_head();
        server.write(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {ENDLESS}\r\n\r\n"
        ));
        if !is_cut {
            let sent = write_until_stalled(&fixture, &mut server);
            client.head();
            take(&mut client, sent);
            continue;
        }
        let chunk = [b'x'; 1 << 12];
        let end = server.0.write_all(&chunk.repeat(ENDLESS / chunk.len()));
        assert!(end.is_err_and(|why| why.kind() != io::ErrorKind::WouldBlock));
        client.head();
        assert!(client.rest().len() < ENDLESS);
    }
}

/// Requests that wait behind others are not read.
#[test]
fn a_connection_has_no_more_requests_in_progress_than_the_listener_allows() {
    for (listener, most) in LISTENERS.into_iter().zip([2, 4]) {
        let back = Upstream::new();
        let fixture = limited(&back, "pipelined = 2");
        let mut client = connect(&fixture, listener);
        client.write(&GET.repeat(4));
        let mut servers: Vec<_> = (0..most).map(|_| back.accept()).collect();
        fixture.in_one_turn(|| ());
        assert!(back.is_quiet(), "{listener}");
        for served in 0..4 {
            if servers.is_empty() {
                servers.push(back.accept());
            }
            servers.remove(0).serve(OK_CLOSE);
            assert_eq!(client.message().body, "ok", "{listener}, {served}");
        }
    }
}
