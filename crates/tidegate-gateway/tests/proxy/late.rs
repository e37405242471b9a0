//! Requests whose time is over: with a body, the client may be the one that is late. A server is judged
//! only by its own time.

use crate::*;

const SETTINGS: &str =
    "timeout = \"2s\"\nbreaker = { error_rate = 50, volume = 2, sleep = \"5s\" }";
const HALF: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";

/// Waits for the end of all requests and of the bucket that counts them: then the breaker decides.
fn judge(fixture: &Fixture) {
    fixture.wait_idle();
    fixture.clock.advance(Duration::from_secs(1));
}

/// Sends the same request several times, on connections of their own. `read` is what each server reads.
fn begin(
    fixture: &Fixture,
    back: &Upstream,
    (count, request): (usize, &str),
    read: impl Fn(&mut Peer),
) -> Vec<(Peer, Peer)> {
    let send = |_| {
        let (client, mut server) = fixture.reach(request, back);
        read(&mut server);
        (client, server)
    };
    (0..count).map(send).collect()
}

fn read_half(server: &mut Peer) {
    server.head();
    assert_eq!(server.bytes(4), "half");
}

/// Sends half of a client's body. Returns both ends.
fn send_half(fixture: &Fixture, back: &Upstream) -> (Peer, Peer) {
    let (client, mut server) = fixture.reach(HALF, back);
    read_half(&mut server);
    (client, server)
}

/// Sends the other half of the clients' bodies.
fn send_rest(halves: &mut [(Peer, Peer)]) {
    for (client, server) in halves {
        client.sends("halves", server);
    }
}

/// Sends the whole bodies of clients.
fn send_whole(fixture: &Fixture, back: &Upstream, count: usize) -> Vec<(Peer, Peer)> {
    let request = HALF.replace("half", "bothhalves");
    begin(fixture, back, (count, &request), |server| {
        assert_eq!(server.message().body, "bothhalves");
    })
}

#[test]
fn clients_that_do_not_send_their_bodies_do_not_open_the_breaker() {
    let plain = (HALF, "half");
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let request = format!("{head}4\r\nhalf\r\n");
    let chunked = (request.as_str(), "4\r\nhalf\r\n");
    for (request, retry) in [(plain, ""), (plain, "\nretry = 2"), (chunked, "")] {
        let (back, fixture) = Fixture::of(&format!("{SETTINGS}{retry}"));
        let (request, half) = request;
        let halves = begin(&fixture, &back, (4, request), |server| {
            server.head();
            assert_eq!(server.bytes(half.len()), half);
        });
        pass(&fixture, &back);
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
    let (back, fixture) = Fixture::of(SETTINGS);
    let mut expecting = expect_in_vain(&fixture, &back);
    for (client, server) in &mut expecting {
        server.write("HTTP/1.1 100 Continue\r\n\r\n");
        assert!(client.head().starts_with("HTTP/1.1 100 "));
    }
    fixture.clock.advance(Duration::from_millis(2500));
    for (mut client, _server) in expecting {
        assert_eq!(client.message().status(), "408");
    }
    judge(&fixture);
    pass(&fixture, &back);
}

/// Sends four requests that expect the agreement of their servers, which are silent.
fn expect_in_vain(fixture: &Fixture, back: &Upstream) -> Vec<(Peer, Peer)> {
    let request = HALF.replace("\r\n\r\nhalf", "\r\nExpect: 100-continue\r\n\r\n");
    let expecting = begin(fixture, back, (4, &request), |server| drop(server.head()));
    pass(fixture, back);
    expecting
}

/// Checks that the four requests are 504, and that their server is judged for it.
fn is_judged(fixture: &Fixture, late: Vec<(Peer, Peer)>) {
    for (mut client, _server) in late {
        assert_eq!(client.message().status(), "504");
    }
    fixture.wait_idle();
    assert_eq!(fixture.total(Event::Timeout), 4);
    judge(fixture);
    fixture.refusal(GET, "breaker shop");
}

#[test]
fn a_server_that_does_not_agree_to_a_body_in_time_opens_its_breaker() {
    for retry in ["", "\nretry = { times = 1, attempt_timeout = \"400ms\" }"] {
        let settings = SETTINGS.replace("2s", "800ms");
        let (back, fixture) = Fixture::of(&format!("{settings}{retry}"));
        let expecting = expect_in_vain(&fixture, &back);
        fixture.clock.advance(Duration::from_millis(900));
        is_judged(&fixture, expecting);
    }
}

#[test]
fn the_time_until_a_server_agrees_to_a_body_is_its_own() {
    let settings = SETTINGS.replace("2s", "1500ms");
    let (back, fixture) = Fixture::of(&settings);
    let mut expecting = expect_in_vain(&fixture, &back);
    // The gateway does not wait for the agreement any longer.
    fixture.clock.advance(Duration::from_millis(1100));
    for (client, server) in &mut expecting {
        assert!(client.head().starts_with("HTTP/1.1 100 "));
        client.sends("bothhalves", server);
    }
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(500));
    is_judged(&fixture, expecting);
}

#[test]
fn a_server_that_got_the_last_byte_late_is_not_judged() {
    let (back, fixture) = Fixture::of(SETTINGS);
    let mut halves = begin(&fixture, &back, (4, HALF), read_half);
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(1500));
    send_rest(&mut halves);
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(1000));
    for (mut client, _server) in halves {
        let response = client.failure("timeout shop");
        assert_eq!(response.status(), "504");
    }
    judge(&fixture);
    pass(&fixture, &back);
}

#[test]
fn a_server_that_is_silent_after_the_body_opens_its_breaker() {
    for retry in ["", "\nretry = { times = 1, attempt_timeout = \"1s\" }"] {
        let (back, fixture) = Fixture::of(&format!("{SETTINGS}{retry}"));
        let whole = send_whole(&fixture, &back, 4);
        pass(&fixture, &back);
        fixture.clock.advance(Duration::from_millis(2500));
        is_judged(&fixture, whole);
    }
}

/// Sends a request whose client takes `upload` for its body, and whose server then takes 10 ms.
fn send_slowly(fixture: &Fixture, back: &Upstream, at_once: usize, upload: Duration) {
    let mut halves = begin(fixture, back, (at_once, HALF), read_half);
    fixture.clock.advance(upload);
    send_rest(&mut halves);
    // Once the loop is idle, it has seen the end of each body.
    fixture.clock.advance(Duration::from_millis(10));
    for (client, server) in &mut halves {
        server.write(OK_CLOSE);
        assert_eq!(client.message().body, "ok");
    }
    fixture.wait_idle();
}

/// Returns the longest running time of a call.
fn longest(fixture: &Fixture) -> Duration {
    fixture.isolation.snapshots()[0].latencies.run.max()
}

#[test]
fn clients_that_send_slowly_do_not_shrink_an_adaptive_limit() {
    let limit = "limit = { kind = \"adaptive\", min = 1, initial = 24, max = 24 }";
    for settings in [limit.to_owned(), format!("{limit}\ntimeout = false")] {
        let (back, fixture) = Fixture::of(&settings);
        for upload in [0, 0, 0, 20, 20, 20].map(Duration::from_secs) {
            send_slowly(&fixture, &back, 12, upload);
            fixture.clock.advance(Duration::from_secs(2));
        }
        let snapshot = &fixture.isolation.snapshots()[0];
        assert_eq!(snapshot.adaptive_limit, Some(24), "{settings}");
        assert!(longest(&fixture) < Duration::from_secs(1), "{settings}");
    }
}

#[test]
fn a_server_that_is_slow_after_the_body_shrinks_its_limit() {
    let back = Upstream::new();
    let limit = "limit = { kind = \"adaptive\", min = 1, initial = 24, max = 24 }";
    let fixture = Fixture::with_route(&[&back], limit);
    for time in [0, 0, 0, 20, 20, 20].map(Duration::from_secs) {
        let whole = send_whole(&fixture, &back, 12);
        fixture.clock.advance(Duration::from_millis(10) + time);
        for (mut client, mut server) in whole {
            server.write(OK_CLOSE);
            assert_eq!(client.message().body, "ok");
        }
        fixture.wait_idle();
        fixture.clock.advance(Duration::from_secs(2));
    }
    let snapshot = &fixture.isolation.snapshots()[0];
    assert!(snapshot.adaptive_limit < Some(24), "{snapshot:?}");
    assert!(longest(&fixture) > Duration::from_secs(19));
}

#[test]
fn clients_that_send_slowly_do_not_count_as_slow_calls() {
    let slow = "breaker = { slow = \"500ms\", slow_rate = 50, volume = 2, sleep = \"5s\" }";
    let (back, fixture) = Fixture::of(slow);
    send_slowly(&fixture, &back, 4, Duration::from_secs(3));
    judge(&fixture);
    pass(&fixture, &back);
}

#[test]
fn clients_that_read_slowly_change_neither_limit_nor_latency() {
    let settings = "limit = { kind = \"adaptive\", min = 1, initial = 24, max = 24 }\n\
                    breaker = { slow = \"500ms\", slow_rate = 50, volume = 2 }";
    let (back, fixture) = Fixture::of(settings);
    for time in [0, 0, 0, 20, 20, 20].map(Duration::from_secs) {
        let mut reading = begin(&fixture, &back, (12, GET), |server| drop(server.message()));
        fixture.clock.advance(Duration::from_millis(10));
        for (client, server) in &mut reading {
            server.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nha");
            client.head();
            assert_eq!(client.bytes(2), "ha");
        }
        // As a client that takes nothing does: the server waits with the rest.
        fixture.clock.advance(time);
        for (client, server) in &mut reading {
            server.sends("lf", client);
        }
        fixture.wait_idle();
        fixture.clock.advance(Duration::from_secs(2));
    }
    let snapshot = &fixture.isolation.snapshots()[0];
    assert_eq!(snapshot.adaptive_limit, Some(24));
    assert!(longest(&fixture) < Duration::from_millis(500));
    pass(&fixture, &back);
}

/// A route whose attempts have a second, and requests ten.
const ATTEMPTS: &str = "timeout = \"10s\"\nretry = { times = 1, attempt_timeout = \"1s\" }";

#[test]
fn the_time_of_an_attempt_does_not_run_while_the_client_sends() {
    let (back, fixture) = Fixture::of(ATTEMPTS);
    let (mut client, mut server) = send_half(&fixture, &back);
    for byte in ["h", "a", "l", "v", "e", "s"] {
        fixture.clock.advance(Duration::from_millis(1100));
        client.write(byte);
        assert_eq!(server.bytes(1), byte);
    }
    // From the last byte on it is the server's time.
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(900));
    pass(&fixture, &back);
    server.answer(&mut client);
    assert_eq!(fixture.total(Event::Timeout), 0);
}

#[test]
fn the_time_of_an_attempt_begins_anew_with_the_last_byte_of_the_body() {
    let (back, fixture) = Fixture::of(ATTEMPTS);
    let (mut client, mut server) = send_half(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(2500));
    client.sends("halves", &mut server);
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(1100));
    let response = client.failure("timeout shop");
    assert_eq!(response.status(), "504");
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
    assert_eq!(fixture.total(Event::Timeout), 1, "the server was late");
    assert!(back.is_quiet(), "a body that was read is not sent again");
}

#[test]
fn a_client_that_never_ends_its_body_has_the_time_of_the_route() {
    let (back, fixture) = Fixture::of(ATTEMPTS);
    let (mut client, mut server) = send_half(&fixture, &back);
    for _ in 0..9 {
        fixture.clock.advance(Duration::from_millis(1100));
        pass(&fixture, &back);
    }
    assert_eq!(fixture.active(), 1);
    fixture.clock.advance(Duration::from_millis(1100));
    assert_eq!(client.message().status(), "408");
    assert_eq!(server.rest(), "");
    fixture.wait_idle();
    assert_eq!(fixture.total(Event::Timeout), 0);
}
