//! Requests whose time is over: with a body, the client may be the one that is late. A server is judged
//! only by its own time.

use crate::*;

const SETTINGS: &str =
    "timeout = \"2s\"\nbreaker = { error_rate = 50, volume = 2, sleep = \"5s\" }";
const HALF: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";

/// Sends a request that is served, on connections of its own: the loop has done all that was before.
fn pass(fixture: &Fixture, back: &Upstream) {
    let mut client = fixture.send(&GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    back.accept().serve(OK_CLOSE);
    assert_eq!(client.message().body, "ok");
}

/// Waits for the end of all requests and of the bucket that counts them: then the breaker decides.
fn judge(fixture: &Fixture) {
    fixture.wait_idle();
    fixture.clock.advance(Duration::from_secs(1));
}

/// Lets four clients send half of their bodies, which are `half` to their server.
fn send_halves(
    fixture: &Fixture,
    back: &Upstream,
    (request, half): (&str, &str),
) -> Vec<(Peer, Peer)> {
    let send = |_| {
        let client = fixture.send(request);
        let mut server = back.accept();
        server.head();
        assert_eq!(server.bytes(half.len()), half);
        (client, server)
    };
    let halves = (0..4).map(send).collect();
    pass(fixture, back);
    halves
}

#[test]
fn clients_that_do_not_send_their_bodies_do_not_open_the_breaker() {
    let plain = (HALF, "half");
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = format!("{head}4\r\nhalf\r\n");
    let chunked = (request.as_str(), "4\r\nhalf\r\n");
    for (request, retry) in [(plain, ""), (plain, "\nretry = 2"), (chunked, "")] {
        let back = Upstream::new();
        let fixture = Fixture::with_route(&[&back], &format!("{SETTINGS}{retry}"));
        let halves = send_halves(&fixture, &back, request);
        fixture.clock.advance(Duration::from_millis(2500));
        for (mut client, mut server) in halves {
            let response = client.message();
            assert_eq!(response.status(), "408", "{request:?}");
            assert_eq!(response.field("connection"), Some("close"));
            assert_eq!(server.rest(), "");
        }
        judge(&fixture);
        pass(&fixture, &back);
    }
}

#[test]
fn a_client_that_expects_and_then_sends_nothing_is_late() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], SETTINGS);
    let request = HALF.replace("\r\n\r\nhalf", "\r\nExpect: 100-continue\r\n\r\n");
    let expecting = (0..3).map(|_| {
        let mut client = fixture.send(&request);
        let mut server = back.accept();
        server.head();
        server.write("HTTP/1.1 100 Continue\r\n\r\n");
        assert!(client.head().starts_with("HTTP/1.1 100 "));
        (client, server)
    });
    let expecting: Vec<_> = expecting.collect();
    fixture.clock.advance(Duration::from_millis(2500));
    for (mut client, _server) in expecting {
        assert_eq!(client.message().status(), "408");
    }
    judge(&fixture);
    pass(&fixture, &back);
}

#[test]
fn a_server_that_got_the_last_byte_late_is_not_judged() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(&[&back], SETTINGS);
    let mut halves = send_halves(&fixture, &back, (HALF, "half"));
    fixture.clock.advance(Duration::from_millis(1500));
    for (client, server) in &mut halves {
        client.write("halves");
        assert_eq!(server.bytes(6), "halves");
    }
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(1000));
    for (mut client, _server) in halves {
        let response = client.message();
        assert_eq!(response.status(), "504");
        assert_eq!(response.field("tidegate-failed"), Some("timeout shop"));
    }
    judge(&fixture);
    pass(&fixture, &back);
}

#[test]
fn a_server_that_is_silent_after_the_body_opens_its_breaker() {
    for retry in ["", "\nretry = { times = 1, attempt_timeout = \"1s\" }"] {
        let back = Upstream::new();
        let fixture = Fixture::with_route(&[&back], &format!("{SETTINGS}{retry}"));
        let whole = (0..4).map(|_| {
            let client = fixture.send(&HALF.replace("half", "bothhalves"));
            let mut server = back.accept();
            assert_eq!(server.message().body, "bothhalves");
            (client, server)
        });
        let whole: Vec<_> = whole.collect();
        pass(&fixture, &back);
        fixture.clock.advance(Duration::from_millis(2500));
        for (mut client, _server) in whole {
            assert_eq!(client.message().status(), "504");
        }
        fixture.wait_idle();
        assert_eq!(fixture.total(Event::Timeout), 4, "{retry}");
        judge(&fixture);
        let refused = fixture.send(GET).message();
        assert_eq!(refused.field("tidegate-refused"), Some("breaker shop"));
    }
}
