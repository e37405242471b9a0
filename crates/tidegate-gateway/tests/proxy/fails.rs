//! Servers that fail, and clients that leave.

use crate::*;

#[test]
fn what_is_not_a_response_is_502() {
    let rows = [
        ("", "closed"),
        ("HTTP/1.1 2", "closed"),
        ("garbage\r\n\r\n", "bad_response"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "bad_response",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "bad_response",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "bad_response",
        ),
    ];
    let (back, fixture) = Fixture::of("");
    for (bytes, word) in rows {
        let mut client = fixture.send(GET);
        back.accept().serve(bytes);
        let response = client.message();
        let found = (response.status(), response.field("tidegate-failed"));
        let reason = format!("{word} shop");
        assert_eq!(found, ("502", Some(&*reason)), "{bytes:?}");
    }
    fixture.wait_idle();
}

#[test]
fn a_server_that_does_not_listen_is_502() {
    let (gone, fixture) = Fixture::of("");
    let _port = gone.stop();
    assert_eq!(fixture.send(GET).failure("connect shop").status(), "502");
}

#[test]
fn a_silent_server_is_504_after_the_time_of_the_route() {
    let (back, fixture) = Fixture::of("timeout = \"2s\"");
    let (mut client, mut server) = fixture.open(GET, &back);
    fixture.clock.advance(Duration::from_millis(2500));
    let response = client.failure("timeout shop");
    assert_eq!(response.status(), "504");
    assert_eq!(server.rest(), "", "the connection is closed");
    fixture.wait_idle();
    // The client's connection goes on.
    client.write(GET);
    back.accept().serve_ok(&mut client);
}

#[test]
fn the_time_covers_the_body_and_a_late_one_is_cut() {
    let (back, fixture) = Fixture::of("timeout = \"2s\"");
    let (mut client, mut server) = fixture.reach(GET, &back);
    server.serve("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    client.head();
    assert_eq!(client.bytes(4), "half");
    fixture.clock.advance(Duration::from_millis(2500));
    assert_eq!(client.rest(), "");
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
}

#[test]
fn a_response_that_is_cut_off_is_cut_for_the_client() {
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let (back, fixture) = Fixture::of("");
        let (mut client, mut server) = fixture.reach(GET, &back);
        server.serve(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nha"));
        client.head();
        drop(server);
        let got = client.rest();
        assert!(
            !got.ends_with("0\r\n\r\n") && got.len() < 10,
            "{head}: {got:?}"
        );
        fixture.wait_idle();
    }
}

#[test]
fn a_client_that_leaves_ends_the_exchange_at_once() {
    let (back, fixture) = Fixture::of("retry = 3");
    // While the server is silent, and in the body of its response.
    for response in ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"] {
        let (mut client, mut server) = fixture.reach(GET, &back);
        server.serve(response);
        if !response.is_empty() {
            client.head();
        }
        drop(client);
        assert_eq!(server.rest(), "");
        fixture.wait_idle();
        assert!(back.is_quiet(), "nothing more begins");
    }
}

#[test]
fn a_client_that_leaves_is_seen_while_its_next_request_waits() {
    let (back, fixture) = Fixture::of("");
    // The second one waits for the first, so nothing more is read from the client.
    let first = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let (client, mut server) = fixture.reach(
        &format!("{first}{}", GET.replace("/a", "/b").repeat(2)),
        &back,
    );
    assert_eq!(server.message().line(), "POST /a HTTP/1.1");
    drop(client);
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
    assert!(back.is_quiet(), "nothing more begins");
}

#[test]
fn a_client_that_leaves_in_its_body_ends_the_exchange() {
    let (back, fixture) = Fixture::of("");
    let (client, mut server) = fixture.begin(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf",
        &back,
    );
    assert_eq!(server.bytes(4), "half");
    drop(client);
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
}

#[test]
fn a_body_that_is_no_body_ends_the_exchange() {
    let (back, fixture) = Fixture::of("");
    let request = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let (mut client, mut server) = fixture.begin(request, &back);
    assert_eq!(server.bytes(8), "3\r\nabc\r\n");
    client.write("no chunk\r\n");
    assert_eq!(client.message().status(), "400");
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
}

#[test]
fn a_failure_gets_the_fallback() {
    let (gone, fixture) = Fixture::of("fallback = { status = 200, body = \"none\" }");
    let _port = gone.stop();
    let response = fixture.send(GET).message();
    assert_eq!((response.status(), response.body.as_str()), ("200", "none"));
    assert_eq!(response.field("tidegate-failed"), Some("connect shop"));
}
