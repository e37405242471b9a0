//! Another upstream in place of a refusal or a failure: its time, and its own limit.

use crate::tunnels::{ASK, open};
use crate::*;

const POST: &str = "POST /a HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 2\r\n\r\nhi";

const FALLBACK: &str = "timeout = \"4s\"\nfallback = { upstream = \"other\" }";

#[test]
fn a_fallback_may_be_another_upstream() {
    let (gone, other) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&with_other(&gone, &other, FALLBACK));
    let _port = gone.stop();
    let mut client = fixture.send(GET);
    other.accept().serve(OK);
    let response = client.message();
    assert_eq!(response.body, "ok");
    assert_eq!(response.field("tidegate-failed"), Some("connect shop"));
    // It fails, too.
    let _other = other.stop();
    client.write(GET);
    let response = client.message();
    assert_eq!(response.status(), "502");
    fixture.wait_idle();
}

#[test]
fn the_time_of_the_route_covers_its_fallback() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&with_other(&back, &other, FALLBACK));
    let (mut client, mut server) = fixture.open(GET, &back);
    // A quarter of the time is kept for the fallback.
    fixture.clock.advance(Duration::from_millis(3500));
    let mut spare = other.accept_asked();
    assert_eq!(server.rest(), "", "the connection is closed");
    // It has what is left of the time of the route.
    fixture.clock.advance(Duration::from_millis(1000));
    let response = client.failure("timeout shop");
    assert_eq!(response.status(), "504");
    assert_eq!(spare.rest(), "");
    fixture.wait_idle();
}

#[test]
fn a_fallback_has_all_the_time_that_a_failure_leaves() {
    let (gone, other) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&with_other(&gone, &other, FALLBACK));
    let _port = gone.stop();
    let (mut client, mut spare) = fixture.open(GET, &other);
    fixture.clock.advance(Duration::from_millis(3500));
    spare.write(OK);
    let response = client.gets("200", "ok");
    assert_eq!(response.field("tidegate-failed"), Some("connect shop"));
}

#[test]
fn a_route_says_how_much_of_its_time_its_fallback_has() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = FALLBACK.replace("\"other\"", "\"other\", timeout = \"2s\"");
    let fixture = Fixture::new(&with_other(&back, &other, &settings));
    let (mut client, mut server) = fixture.open(GET, &back);
    fixture.clock.advance(Duration::from_millis(1500));
    server.answer(&mut client);
    client.write(GET);
    server.message();
    fixture.clock.advance(Duration::from_millis(2500));
    other.accept().serve(OK);
    client.failure("timeout shop");
}

#[test]
fn no_fallback_begins_when_the_time_of_the_route_is_over() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&with_other(&back, &other, FALLBACK));
    let (mut client, _server) = fixture.open(GET, &back);
    // A loop that was held up.
    fixture.clock.jump(Duration::from_secs(5));
    assert_eq!(client.message().status(), "504");
    assert!(other.is_quiet());
}

#[test]
fn an_upstream_of_a_fallback_gets_no_more_than_its_limit() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = "limit = 1\nfallback = { upstream = \"other\", limit = 2 }";
    let fixture = Fixture::new(&with_other(&back, &other, settings));
    let (mut first, mut server) = fixture.open(GET, &back);
    let fall_back = || {
        let (client, spare) = fixture.open(GET, &other);
        (client, spare)
    };
    let (mut second, mut spare) = fall_back();
    let third = fall_back();
    let refused = fixture.refusal(GET, "limit shop");
    assert_eq!(refused.status(), "503");
    assert!(other.is_quiet());
    spare.write(OK_CLOSE);
    assert_eq!(second.message().body, "ok");
    tidegate_testkit::until("a fallback has ended", || fixture.active() == 2);
    drop(fall_back());
    server.answer(&mut first);
    drop(third);
    fixture.wait_idle();
}

#[test]
fn an_upgrade_does_not_fall_back_beside_the_limit_of_tunnels() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = "tunnel = { max = 1 }\nfallback = { upstream = \"other\" }";
    let fixture = Fixture::new(&with_other(&back, &other, settings));
    let tunnel = open(&fixture, &back);
    let refused = fixture.refusal(ASK, "limit shop");
    assert_eq!(refused.status(), "503");
    drop(tunnel);
    fixture.wait_idle();
    // Nor if its server fails.
    let _port = back.stop();
    let failed = fixture.send(ASK).message();
    assert_eq!(failed.field("tidegate-failed"), Some("connect shop"));
    assert!(other.is_quiet());
}

#[test]
fn the_breaker_of_a_fallback_opens_if_its_upstream_is_late() {
    let (gone, other) = (Upstream::new(), Upstream::new());
    let settings = format!("{FALLBACK}\nbreaker = {{ volume = 2, sleep = \"1m\" }}");
    let fixture = Fixture::new(&with_other(&gone, &other, &settings));
    let _port = gone.stop();
    // A request with a body, too: nothing of it was read.
    for request in [GET, POST] {
        let (mut client, _spare) = fixture.open(request, &other);
        fixture.clock.advance(Duration::from_secs(5));
        assert_eq!(client.message().status(), "504");
    }
    fixture.wait_idle();
    assert_eq!(fixture.total(Event::Timeout), 2);
    fixture.clock.advance(Duration::from_secs(1));
    // Both breakers are open.
    fixture.refusal(GET, "breaker shop");
    assert!(other.is_quiet());
}

#[test]
fn a_reload_keeps_the_command_of_a_fallback_or_frees_it() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = "limit = 1\nfallback = { upstream = \"other\" }";
    let fixture = Fixture::new(&with_other(&back, &other, settings));
    let reload = |settings: &str| {
        let text = with_other(&back, &other, settings);
        fixture.reload(&text);
    };
    let (first, server) = fixture.open(GET, &back);
    let (mut second, mut spare) = fixture.open(GET, &other);
    reload(&settings.replace("limit = 1", "limit = 1\ntimeout = \"9s\""));
    assert_eq!(fixture.send(GET).message().status(), "503", "both are full");
    reload("limit = 1\nfallback = { status = 200 }");
    assert_eq!(fixture.isolation.len(), 1);
    spare.answer(&mut second);
    drop((first, server));
    fixture.wait_idle();
}

#[test]
fn an_unsafe_request_that_a_server_has_got_does_not_fall_back() {
    let unsafe_one = POST.replace("Content-Length: 2\r\n\r\nhi", "Content-Length: 0\r\n\r\n");
    for retry in ["", "\nretry = { times = 1, attempt_timeout = \"1s\" }"] {
        for bytes in ["", "HTTP/1.1 2", "garbage\r\n\r\n", "silence"] {
            let (back, other) = (Upstream::new(), Upstream::new());
            let fixture = Fixture::new(&with_other(&back, &other, &format!("{FALLBACK}{retry}")));
            let (mut client, mut server) = fixture.open(&unsafe_one, &back);
            match bytes {
                "silence" => fixture.clock.advance(Duration::from_millis(3500)),
                _ => server.write(bytes),
            }
            drop(server);
            let response = client.message();
            assert!(response.field("tidegate-failed").is_some(), "{bytes:?}");
            assert!(response.status() > "500" && other.is_quiet(), "{bytes:?}");
            fixture.wait_idle();
        }
    }
    // Nothing was sent.
    let (gone, other) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&with_other(&gone, &other, FALLBACK));
    let _port = gone.stop();
    let mut client = fixture.send(&unsafe_one);
    other.accept().serve_ok(&mut client);
}

#[test]
fn what_was_sent_goes_to_no_other_service_unless_its_method_is_safe() {
    let empty = |method: &str| {
        GET.replace("GET", method)
            .replace("\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n")
    };
    for method in ["DELETE", "PUT", "POST", "PATCH", "PURGE"] {
        let (back, other) = (Upstream::new(), Upstream::new());
        let fixture = Fixture::new(&with_other(&back, &other, FALLBACK));
        let (mut client, _server) = fixture.open(&empty(method), &back);
        fixture.clock.advance(Duration::from_millis(3500));
        assert_eq!(client.message().status(), "504", "{method}");
        assert!(other.is_quiet(), "{method}");
        // Nothing of this one was sent.
        let _port = back.stop();
        let mut client = fixture.send(&empty(method));
        other.accept().serve(OK);
        assert_eq!(client.message().body, "ok", "{method}");
    }
}

#[test]
fn what_was_sent_in_an_earlier_attempt_goes_to_no_other_service_either() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let settings = format!("limit = 1\nretry = {{ budget = 1.0, pause = \"1s\" }}\n{FALLBACK}");
    let fixture = Fixture::new(&with_other(&back, &other, &settings));
    let (mut client, server) = fixture.open(&GET.replace("GET", "PUT"), &back);
    drop(server);
    // It waits for its next attempt, and another request has the permit then.
    fixture.wait_idle();
    let (_second, _holds) = fixture.open(GET, &back);
    fixture.clock.advance(Duration::from_secs(1));
    let response = client.message();
    let failed = response.field("tidegate-failed");
    assert_eq!((response.status(), failed), ("502", Some("closed shop")));
    assert!(other.is_quiet());
}

#[test]
fn a_response_that_has_begun_has_the_time_of_the_fallback_too() {
    let (back, other) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::new(&with_other(&back, &other, FALLBACK));
    for (last, is_whole) in [(400, true), (600, false)] {
        let (mut client, mut server) = fixture.open(GET, &back);
        server.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
        assert!(client.head().starts_with("HTTP/1.1 200"));
        fixture.clock.advance(Duration::from_millis(3500));
        server.sends("o", &mut client);
        fixture.clock.advance(Duration::from_millis(last));
        if is_whole {
            server.write("k");
        }
        let rest = if is_whole {
            client.bytes(1)
        } else {
            client.rest()
        };
        assert_eq!(rest, if is_whole { "k" } else { "" });
    }
    assert!(other.is_quiet());
}
