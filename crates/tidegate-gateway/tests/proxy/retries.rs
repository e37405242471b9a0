//! Further attempts: only where they are safe, within the budget and the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tidegate::isolate::RetryBudget;

use crate::*;

#[test]
fn a_request_that_was_never_sent_goes_to_another_server() {
    let (gone, back) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::with_route(&[&gone, &back], "retry = 1");
    let _port = gone.stop();
    for _ in 0..4 {
        // Also with a body: nothing of it was read.
        let request = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
        let mut client = fixture.send(request);
        assert_eq!(back.accept().serve(OK_CLOSE).body, "ab");
        assert_eq!(client.message().body, "ok");
    }
}

#[test]
fn an_idempotent_request_without_any_response_goes_to_another_server() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::with_route(&[&one, &two], "retry = 1");
    let mut client = fixture.send(GET);
    one.accept().message();
    two.accept().serve_ok(&mut client);
    assert!(one.is_quiet());
}

#[test]
fn an_unsafe_request_that_was_sent_is_not_repeated() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::with_route(&[&one, &two], "retry = 1");
    let mut client = fixture.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(one.accept().message().body, "ab");
    assert_eq!(client.message().status(), "502");
    assert!(two.is_quiet());
    // Nor an idempotent one whose body was read.
    client.write("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(two.accept().message().body, "ab");
    assert_eq!(client.message().status(), "502");
    assert!(one.is_quiet());
}

#[test]
fn a_response_is_never_repeated_whatever_its_status() {
    let (one, two) = (Upstream::new(), Upstream::new());
    let fixture = Fixture::with_route(&[&one, &two], "retry = 1");
    let mut client = fixture.send(GET);
    one.accept()
        .serve("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.message().status(), "503");
    assert!(two.is_quiet());
}

#[test]
fn the_number_of_attempts_is_limited() {
    let (back, fixture) = Fixture::of("retry = 2");
    fixture.fails(&back, 3);
}

#[test]
fn the_budget_limits_the_repeated_requests() {
    let (back, fixture) = Fixture::of("retry = { times = 1, budget = 0.0 }");
    fixture.fails(&back, 1);
}

#[test]
fn the_budget_is_a_share_of_many_requests() {
    const REQUESTS: usize = 300;
    for percent in [20, 50, 100] {
        let back = Upstream::new();
        let budget = f64::from(percent) / 100.0;
        let settings = format!("retry = {{ times = 1, budget = {budget:?} }}");
        let fixture = Fixture::with_route(&[&back], &settings);
        let attempts = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&attempts);
        // A server that reads each request and closes its connection.
        let fail = move || {
            while let Ok(stream) = back.0.accept() {
                Peer::new(stream).message();
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::Builder::new().spawn(fail).unwrap();
        let mut client = fixture.client();
        for _ in 0..REQUESTS {
            client.write(GET);
            assert_eq!(client.message().status(), "502");
        }
        let repeated = attempts.load(Ordering::Relaxed) - REQUESTS;
        let share = REQUESTS * percent as usize / 100;
        // Besides what a route may repeat from the start.
        let most = (share + RetryBudget::RESERVE as usize).min(REQUESTS);
        assert!(
            (share..=most).contains(&repeated),
            "{percent} %: {repeated}"
        );
    }
}

#[test]
fn the_time_of_the_route_covers_all_attempts_and_pauses() {
    let settings = "timeout = \"2s\"\nretry = { times = 1, attempt_timeout = \"1s\" }";
    let (back, fixture) = Fixture::of(settings);
    let (mut client, mut first) = fixture.open(GET, &back);
    fixture.clock.advance(Duration::from_millis(1100));
    assert_eq!(first.rest(), "", "the first attempt is over");
    let mut second = back.accept_asked();
    fixture.clock.advance(Duration::from_millis(1100));
    let response = client.message();
    assert_eq!(response.status(), "504");
    assert_eq!(second.rest(), "");
    fixture.wait_idle();
    assert!(back.is_quiet(), "no attempt begins after the time");
}

#[test]
fn a_pause_comes_before_the_next_attempt() {
    let (back, fixture) = Fixture::of("retry = { times = 1, pause = \"500ms\" }");
    let mut client = fixture.send(GET);
    back.accept().message();
    fixture.wait_idle();
    assert!(back.is_quiet());
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_millis(600));
    back.accept().serve_ok(&mut client);
}

#[test]
fn a_client_that_leaves_in_a_pause_gets_no_further_attempt() {
    let (back, fixture) = Fixture::of("retry = { times = 1, pause = \"500ms\" }");
    let client = fixture.send(GET);
    back.accept().message();
    fixture.wait_idle();
    drop(client);
    // A later request shows that the loop has seen the end of the first connection.
    let (mut other, mut server) = fixture.reach(&GET.replace("/a", "/b"), &back);
    assert_eq!(server.serve(OK).line(), "GET /b HTTP/1.1");
    assert_eq!(other.message().body, "ok");
    fixture.clock.advance(Duration::from_secs(1));
    other.write(&GET.replace("/a", "/c"));
    assert_eq!(server.serve(OK).line(), "GET /c HTTP/1.1");
    assert_eq!(other.message().body, "ok");
    assert!(back.is_quiet());
}

#[test]
fn a_reused_connection_that_the_server_has_closed_is_replaced() {
    let (back, fixture) = Fixture::of("retry = 1");
    let (mut client, server) = serve_first(&fixture, &back);
    drop(server);
    client.write(GET);
    back.accept().serve_ok(&mut client);
}

/// A server that closes a connection while the next request is on its way to it.
#[test]
fn a_reused_connection_that_the_server_closes_now_is_replaced_without_retries() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = serve_first(&fixture, &back);
    client.write(GET);
    server.message();
    drop(server);
    back.accept().serve_last(&mut client);
    assert_eq!(fixture.total(Event::Failure), 0);
    fixture.wait_idle();
}

/// Makes `count` connections to the server, which are idle afterwards. The one that the next request
/// uses is the last. Returns them and a client.
fn idle(fixture: &Fixture, back: &Upstream, count: usize) -> (Peer, Vec<Peer>) {
    let mut pairs: Vec<_> = (0..count).map(|_| fixture.open(GET, back)).collect();
    for (client, server) in &mut pairs {
        server.answer(client);
    }
    let (mut clients, servers): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    (clients.remove(0), servers)
}

#[test]
fn a_connection_is_replaced_once_by_a_new_one() {
    for ends in [OK_CLOSE, ""] {
        let (back, fixture) = Fixture::of("");
        let (mut client, mut servers) = idle(&fixture, &back, 3);
        client.write(GET);
        let mut last = servers.pop().unwrap();
        last.message();
        drop(last);
        back.accept().serve(ends);
        let is_served = !ends.is_empty();
        let status = client.message().status().to_owned();
        assert_eq!(status, if is_served { "200" } else { "502" });
        fixture.wait_idle();
        assert_eq!(fixture.total(Event::Failure), u64::from(!is_served));
        assert!(back.is_quiet());
        // Nothing was sent on the others.
        client.write(&GET.replace("/a", "/b"));
        let next = servers.pop().unwrap().serve(OK);
        assert_eq!(next.line(), "GET /b HTTP/1.1");
        assert_eq!(client.message().body, "ok");
    }
}

#[test]
fn a_new_connection_that_the_server_closes_is_not_replaced_without_retries() {
    let (back, fixture) = Fixture::of("");
    fixture.fails(&back, 1);
}

#[test]
fn an_unsafe_request_is_not_sent_again_on_another_connection() {
    let (back, fixture) = Fixture::of("");
    let (mut client, mut server) = serve_first(&fixture, &back);
    client.write("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    server.message();
    drop(server);
    assert_eq!(client.message().status(), "502");
    assert!(back.is_quiet());
}

#[test]
fn nothing_is_repeated_after_a_part_of_a_response() {
    let parts = [
        "HTTP/1.1 200 OK\r\nConte",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
    ];
    for part in parts {
        let (back, fixture) = Fixture::of("retry = { times = 3, budget = 1 }");
        let mut client = fixture.send(GET);
        back.accept().serve(part);
        if part.contains(" 103 ") {
            assert_eq!(client.head(), part);
        }
        assert_eq!(client.message().status(), "502", "{part:?}");
        assert!(back.is_quiet(), "{part:?}");
    }
}

#[test]
fn nothing_is_repeated_after_a_part_of_a_response_and_the_time_of_the_attempt() {
    let parts = [
        "HTTP/1.1 200 OK\r\nConte",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "H",
    ];
    for part in parts {
        let settings = "retry = { times = 3, budget = 1, attempt_timeout = \"1s\" }";
        let (back, fixture) = Fixture::of(settings);
        let (mut client, mut server) = fixture.reach(GET, &back);
        server.serve(part);
        pass(&fixture, &back);
        fixture.clock.advance(Duration::from_millis(1100));
        let mut head = client.head();
        while head.starts_with("HTTP/1.1 103 ") {
            head = client.head();
        }
        assert!(head.starts_with("HTTP/1.1 504 "), "{part:?}: {head}");
        assert_eq!(server.rest(), "");
        assert!(back.is_quiet(), "{part:?}");
    }
}

#[test]
fn an_attempt_gets_what_the_one_before_has_held() {
    let rows = [("limit = 1", ""), ("limit = 9", "max_in_flight = 1\n")];
    for (limit, places) in rows {
        for pause in ["0s", "500ms"] {
            let back = Upstream::new();
            let settings = format!(
                "{limit}\ntimeout = \"9s\"\n\
                 retry = {{ times = 1, budget = 1, attempt_timeout = \"1s\", pause = \"{pause}\" }}"
            );
            let text = route(&[&back], &settings).replace("balance", &format!("{places}balance"));
            let fixture = Fixture::new(&text);
            let (mut client, mut silent) = fixture.open(GET, &back);
            fixture.clock.advance(Duration::from_millis(1100));
            assert_eq!(silent.rest(), "");
            if pause != "0s" {
                fixture.wait_idle();
                pass(&fixture, &back);
                fixture.clock.advance(Duration::from_millis(600));
            }
            back.accept().serve(OK_CLOSE);
            assert_eq!(client.message().body, "ok", "{limit} {places}");
            fixture.wait_idle();
            assert_eq!(fixture.total(Event::PermitsRejected), 0);
            assert_eq!(fixture.total(Event::Timeout), 1, "{limit} {places}");
        }
    }
}

#[test]
fn a_client_that_leaves_at_the_end_of_an_attempt_gets_no_further_one() {
    let settings = "limit = 1\nretry = { times = 2, attempt_timeout = \"1s\", pause = \"1s\" }";
    let (back, fixture) = Fixture::of(settings);
    let (client, mut silent) = fixture.open(GET, &back);
    fixture.clock.advance(Duration::from_millis(1100));
    assert_eq!(silent.rest(), "");
    fixture.wait_idle();
    drop(client);
    pass(&fixture, &back);
    fixture.clock.advance(Duration::from_secs(3));
    pass(&fixture, &back);
    assert!(back.is_quiet());
}
