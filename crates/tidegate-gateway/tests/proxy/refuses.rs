//! Requests that are refused before they reach a server.

use crate::*;

#[test]
fn a_full_route_refuses_at_once_and_says_so() {
    let (back, fixture) = Fixture::of("limit = 1");
    let (mut first, mut server) = fixture.open(GET, &back);
    let refused = fixture.refusal(GET, "limit shop");
    assert_eq!(refused.status(), "503");
    server.answer(&mut first);
    fixture.wait_idle();
    let mut again = fixture.send(GET);
    server.serve(OK);
    assert_eq!(again.message().status(), "200");
}

#[test]
fn a_permit_is_held_until_the_last_byte_of_the_response() {
    let (back, fixture) = Fixture::of("limit = 1");
    let (mut first, mut server) = fixture.reach(GET, &back);
    server.serve("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
    first.head();
    fixture.responds("503");
    server.write("cd");
    assert_eq!(first.bytes(4), "abcd");
    fixture.wait_idle();
}

#[test]
fn a_request_waits_in_the_queue_of_its_route_for_a_limited_time() {
    let settings = "limit = 1\nqueue = { max = 1, wait = \"100ms\" }";
    let (back, fixture) = Fixture::of(settings);
    let (mut first, mut server) = fixture.open(GET, &back);
    let mut second = fixture.send(&GET.replace("/a", "/b"));
    fixture.until_one_waits();
    fixture.refusal(GET, "limit shop");
    server.answer(&mut first);
    assert_eq!(server.message().line(), "GET /b HTTP/1.1");
    let mut late = fixture.send(GET);
    fixture.until_one_waits();
    fixture.clock.advance(Duration::from_millis(200));
    assert_eq!(late.message().status(), "503", "it has waited long enough");
    server.answer(&mut second);
}

#[test]
fn a_request_that_waits_is_refused_when_the_breaker_opens() {
    let settings = "limit = 1\nqueue = { max = 1, wait = \"20s\" }\nbreaker = { volume = 1 }";
    let (back, fixture) = Fixture::of(settings);
    let (mut first, mut server) = fixture.reach(GET, &back);
    server.serve("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(first.message().status(), "500");
    first.write(GET);
    server.message();
    let mut second = fixture.send(GET);
    fixture.until_one_waits();
    // A window is judged when one of its buckets closes.
    fixture.clock.advance(Duration::from_secs(1));
    server.write(OK_CLOSE);
    assert_eq!(first.message().body, "ok");
    let refused = second.message();
    assert_eq!(refused.field("tidegate-refused"), Some("breaker shop"));
    assert_eq!(server.rest(), "");
    assert!(back.is_quiet());
    fixture.wait_idle();
}

/// The upstream is healthy: it is only that there are too many clients.
#[test]
fn refusals_of_the_limit_do_not_open_the_breaker() {
    for queue in ["", "queue = { max = 2, wait = \"10ms\" }"] {
        let settings = format!("limit = 1\nbreaker = {{ volume = 2 }}\n{queue}");
        let (back, fixture) = Fixture::of(&settings);
        let (mut first, mut server) = fixture.open(GET, &back);
        let others: Vec<_> = (0..20).map(|_| fixture.send(GET)).collect();
        // The loop has read what came before.
        fixture.in_one_turn(|| ());
        fixture.clock.advance(Duration::from_secs(1));
        for mut other in others {
            let refused = other.message();
            assert_eq!(refused.field("tidegate-refused"), Some("limit shop"));
        }
        fixture.clock.advance(Duration::from_secs(1));
        server.answer(&mut first);
        fixture.wait_idle();
        for _ in 0..3 {
            first.write(GET);
            server.serve(OK);
            assert_eq!(first.message().body, "ok", "{queue}");
            fixture.wait_idle();
        }
    }
}

#[test]
fn an_open_breaker_refuses_and_says_when_to_come_back() {
    let settings = "breaker = { error_rate = 50, volume = 2, sleep = \"5s\" }";
    let (back, fixture) = Fixture::of(settings);
    let (mut client, mut server) = fixture.reach(GET, &back);
    let failure = "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n";
    server.serve(failure);
    // The response of the server passes.
    assert_eq!(client.message().status(), "500");
    for _ in 0..5 {
        client.write(GET);
        server.serve(failure);
        client.message();
    }
    // A window is judged when one of its buckets closes.
    fixture.clock.advance(Duration::from_secs(1));
    let refused = tidegate_testkit::until_some("the breaker is open", || {
        client.write(GET);
        if first_readable(&[&server, &client]) == 0 {
            server.serve(failure);
        }
        let response = client.message();
        (response.status() == "503").then_some(response)
    });
    assert_eq!(refused.field("tidegate-refused"), Some("breaker shop"));
    let after: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&after), "{after}");
    fixture.clock.advance(Duration::from_secs(6));
    client.write(GET);
    server.serve(OK);
    assert_eq!(client.message().status(), "200", "the probe");
}

#[test]
fn the_limit_of_a_server_is_a_refusal_of_its_own() {
    let back = Upstream::new();
    let text = route(&[&back], "").replace("balance", "max_in_flight = 1\nbalance");
    let fixture = Fixture::new(&text);
    let (mut first, mut server) = fixture.open(GET, &back);
    let refused = fixture.refusal(GET, "no_server shop");
    assert_eq!(refused.status(), "503");
    server.answer(&mut first);
}

#[test]
fn requests_without_a_route_and_invalid_paths_have_a_status() {
    let (back, fixture) = Fixture::of("path = \"/shop/*\"\nmethod = [\"GET\"]");
    let rows = [
        ("GET /other", "404"),
        ("POST /shop/a", "404"),
        ("GET /shop/../..", "400"),
        ("GET /shop/%zz", "400"),
    ];
    for (line, status) in rows {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(fixture.send(&request).message().status(), status, "{line}");
    }
    let connect = "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n";
    assert_eq!(fixture.send(connect).message().status(), "405");
    assert!(back.is_quiet());
}

#[test]
fn a_body_above_the_limit_of_its_route_is_refused() {
    let (back, fixture) = Fixture::of("body = \"10B\"");
    let declared = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world";
    assert_eq!(fixture.send(declared).message().status(), "413");
    assert!(back.is_quiet(), "nothing was sent on");
    let chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   6\r\nhello \r\n6\r\nworld!\r\n0\r\n\r\n";
    let (mut client, mut server) = fixture.reach(chunked, &back);
    assert_eq!(client.message().status(), "413");
    server.rest();
    fixture.wait_idle();
}

/// The body of a request is read when its route is known.
#[test]
fn a_route_raises_and_lowers_the_limit_of_its_listener() {
    let back = Upstream::new();
    let fixture = Fixture::new(&format!(
        "[listen.small]\nat = \"127.0.0.1:0\"\nlimits = {{ body = \"10B\" }}\n{}\
         [route.large]\npath = \"/large\"\nupstream = \"back\"\nbody = \"20B\"\n\
         [route.tiny]\npath = \"/tiny\"\nupstream = \"back\"\nbody = \"5B\"\n",
        route(&[&back], "")
    ));
    for (path, most) in [("/large", 20), ("/a", 10), ("/tiny", 5)] {
        for (size, passes) in [(most, true), (most + 1, false)] {
            let body = "x".repeat(size);
            let framings = [
                format!("Content-Length: {size}\r\n\r\n{body}"),
                format!("Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"),
            ];
            for framing in framings {
                let mut client = crate::steps::connect(&fixture, "small");
                client.write(&format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}"));
                if passes {
                    let mut server = back.accept_head();
                    server.write(OK_CLOSE);
                }
                let status = if passes { "200" } else { "413" };
                assert_eq!(client.message().status(), status, "{path} {framing}");
                // One that declares no length is refused while it is sent.
                drop(back.try_accept());
            }
        }
    }
}

#[test]
fn a_refused_request_gets_the_fallback_of_its_route() {
    let settings = "limit = 1\nfallback = { status = 200, body = \"[]\", content_type = \"application/json\" }";
    let (back, fixture) = Fixture::of(settings);
    let (_first, _server) = fixture.open(GET, &back);
    let response = fixture.send(GET).message();
    assert_eq!((response.status(), response.body.as_str()), ("200", "[]"));
    assert_eq!(response.field("content-type"), Some("application/json"));
    assert_eq!(response.field("tidegate-refused"), Some("limit shop"));
}
