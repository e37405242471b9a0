//! Clients that leave while their request is the probe of a breaker that is half open. That says nothing
//! about the server: the next request is the probe.

use tidegate::isolate::BreakerState;

use crate::*;

const SETTINGS: &str = "timeout = \"60s\"\nbody = \"10B\"\n\
                        breaker = { error_rate = 50, volume = 2, sleep = \"5s\" }";
const BAD: &str = "HTTP/1.1 500 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Makes the server fail.
fn fail(fixture: &Fixture, back: &Upstream) {
    for _ in 0..4 {
        let mut client = fixture.send(GET);
        back.accept().serve(BAD);
        assert_eq!(client.message().status(), "500");
    }
}

/// Opens the breaker, and waits for the end of its sleep.
fn sleep(fixture: &Fixture) {
    fixture.clock.advance(Duration::from_secs(1));
    fixture.refusal(GET, "breaker shop");
    fixture.clock.advance(Duration::from_secs(6));
}

fn breaker(fixture: &Fixture) -> BreakerState {
    let snapshots = fixture.isolation.snapshots();
    let route = snapshots.iter().find(|one| one.key.as_str() == "shop");
    route.unwrap().breaker
}

/// Checks that the next request is the probe, and closes the breaker.
fn probe(fixture: &Fixture, back: &Upstream) {
    assert_eq!(breaker(fixture), BreakerState::HalfOpen);
    fixture.served_by(back);
    assert_eq!(breaker(fixture), BreakerState::Closed);
}

#[test]
fn clients_that_leave_do_not_keep_a_breaker_open() {
    let body = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf";
    let settings = [
        SETTINGS.to_owned(),
        SETTINGS.replace("timeout", "retry = 1\ntimeout"),
        SETTINGS.replace("timeout = \"60s\"\n", ""),
    ];
    for settings in settings {
        let (back, fixture) = Fixture::of(&settings);
        fail(&fixture, &back);
        fixture.wait_idle();
        sleep(&fixture);
        for request in [GET, body, GET] {
            let (client, mut server) = fixture.begin(request, &back);
            // Others are refused meanwhile.
            fixture.refusal(GET, "breaker shop");
            drop(client);
            server.rest();
            fixture.wait_idle();
        }
        assert_eq!(fixture.total(Event::Cancelled), 3);
        probe(&fixture, &back);
    }
}

#[test]
fn a_body_that_is_too_large_says_nothing_about_the_server() {
    let (back, fixture) = Fixture::of(SETTINGS);
    fail(&fixture, &back);
    fixture.wait_idle();
    sleep(&fixture);
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (mut client, mut server) = fixture.begin(head, &back);
    client.write("b\r\n12345678901\r\n");
    assert_eq!(client.message().status(), "413");
    server.rest();
    fixture.wait_idle();
    probe(&fixture, &back);
}

#[test]
fn a_probe_that_leaves_the_queue_says_nothing_about_the_server() {
    let back = Upstream::new();
    let queue = "limit = 2\nqueue = { max = 5, wait = \"30s\" }\n";
    let fixture = Fixture::with_route(&[&back], &format!("{queue}{SETTINGS}"));
    let silent = || {
        let (client, server) = fixture.open(GET, &back);
        (client, server)
    };
    let mut first = silent();
    fail(&fixture, &back);
    let _second = silent();
    sleep(&fixture);
    let client = fixture.send(GET);
    let waits = || {
        let snapshots = fixture.isolation.snapshots();
        snapshots.iter().map(|one| one.waiting).sum::<usize>()
    };
    tidegate_testkit::until("the probe waits", || waits() == 1);
    drop(client);
    tidegate_testkit::until("it has left", || waits() == 0);
    tidegate_testkit::until("it is counted", || fixture.total(Event::Cancelled) == 1);
    first.1.write(OK_CLOSE);
    assert_eq!(first.0.message().body, "ok");
    tidegate_testkit::until("a place is free", || fixture.active() == 1);
    probe(&fixture, &back);
}
