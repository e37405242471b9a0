//! Further attempts that do not begin: the client gets the failure of the attempt that was made.

use crate::*;

const RETRY: &str = "timeout = \"60s\"\nretry = { times = 1, budget = 1, pause = \"500ms\" }";
const BAD: &str = "HTTP/1.1 500 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Makes the first attempt of a request fail. Returns its client while the request pauses.
fn failed_once(fixture: &Fixture, back: &Upstream) -> Peer {
    let client = fixture.send(GET);
    back.accept().message();
    tidegate_testkit::until("the attempt has failed", || {
        fixture.total(Event::Retried) > 0 && fixture.active() == 0
    });
    // The pause has begun when the loop takes the next task.
    fixture.in_one_turn(|| ());
    client
}

/// Checks that the client gets the failure of the first attempt, at the end of the pause.
fn ends_with_the_failure(fixture: &Fixture, client: &mut Peer) {
    fixture.clock.advance(Duration::from_millis(600));
    let response = client.failure("closed shop");
    assert_eq!(response.status(), "502");
    assert_eq!(response.field("tidegate-refused"), None);
}

#[test]
fn a_probe_whose_repetition_the_breaker_refuses_has_failed() {
    let back = Upstream::new();
    let breaker = "breaker = { error_rate = 50, volume = 2, sleep = \"5s\" }";
    let settings = RETRY.replace("500ms", "0s");
    let fixture = Fixture::with_route(&[&back], &format!("{settings}\n{breaker}"));
    for _ in 0..4 {
        let mut client = fixture.send(GET);
        back.accept().serve(BAD);
        assert_eq!(client.message().status(), "500");
    }
    fixture.wait_idle();
    fixture.clock.advance(Duration::from_secs(1));
    fixture.refusal(GET, "breaker shop");
    fixture.clock.advance(Duration::from_secs(6));
    let mut probe = fixture.send(GET);
    back.accept().message();
    ends_with_the_failure(&fixture, &mut probe);
    assert!(back.is_quiet());
}

#[test]
fn a_request_is_not_refused_because_another_one_has_its_permit() {
    for queue in ["", "queue = { max = 1, wait = \"5s\" }\n"] {
        let (back, fixture) = Fixture::of(&format!("limit = 1\n{queue}{RETRY}"));
        let mut client = failed_once(&fixture, &back);
        let (mut other, mut server) = fixture.open(GET, &back);
        if !queue.is_empty() {
            fixture.clock.advance(Duration::from_millis(600));
            fixture.until_one_waits();
            // To the end of its wait.
            fixture.clock.advance(Duration::from_secs(5));
        }
        ends_with_the_failure(&fixture, &mut client);
        server.answer(&mut other);
    }
}

#[test]
fn a_request_is_not_refused_because_no_server_is_left() {
    let (back, fixture) = Fixture::of(RETRY);
    let mut client = failed_once(&fixture, &back);
    let is_known = fixture.gateway.drain_server("back", &back.address(), true);
    assert!(is_known);
    ends_with_the_failure(&fixture, &mut client);
}

/// A request that was never sent is refused.
#[test]
fn the_fallback_replaces_the_failure_of_the_attempt_that_was_made() {
    let back = Upstream::new();
    let fixture = Fixture::with_route(
        &[&back],
        &format!("limit = 1\n{RETRY}\nfallback = {{ status = 200, body = \"[]\" }}"),
    );
    let mut client = failed_once(&fixture, &back);
    let (_other, _server) = fixture.open(GET, &back);
    fixture.refusal(GET, "limit shop");
    fixture.clock.advance(Duration::from_millis(600));
    let response = client.failure("closed shop");
    assert_eq!(response.body, "[]");
}
