//! Services that panic or fail, clients that leave, and time limits.

use std::net::Shutdown;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_hyper::Http;
use tidegate_testkit::until;

use crate::{
    Site, ask, dial, get, group, group_by, group_with_hook, read_to_end, read_until, sends,
};

#[test]
fn a_service_that_panics_ends_its_connection_and_the_hook_receives_the_panic() {
    let site = Site::default();
    let (group, log) = group_with_hook();
    let server = site.serve(Http::new(), &group);
    let mut other = dial(&server);
    ask(&mut other, "/hello", "hello");
    let mut client = sends(&server, get("/panic").as_bytes());
    assert_eq!(read_to_end(&mut client), "");
    log.wait_for(1);
    let reported = log.take();
    assert!(reported[0].contains("not this request"), "{reported:?}");
    ask(&mut other, "/hello", "hello");
}

#[test]
fn the_error_of_a_service_goes_to_the_hook() {
    let site = Site::default();
    let (group, log) = group_with_hook();
    let server = site.serve(Http::new(), &group);
    let mut client = sends(&server, get("/error").as_bytes());
    assert_eq!(read_to_end(&mut client), "");
    log.wait_for(1);
    let reported = log.take();
    assert!(reported[0].contains("no answer"), "{reported:?}");
}

#[test]
fn a_client_that_leaves_ends_the_request() {
    let (site, server) = Site::served();
    for half in [false, true] {
        let client = sends(&server, get("/hang").as_bytes());
        site.log.wait_for(1);
        match half {
            true => client.shutdown(Shutdown::Write).unwrap(),
            false => drop(client),
        }
        site.log.wait_for(2);
        assert_eq!(site.log.take(), ["hangs", "dropped"]);
        until("the connection is closed", || server.connections() == 0);
    }
}

#[test]
fn a_client_that_has_closed_its_half_is_answered_if_that_is_allowed() {
    let (site, group) = (Site::default(), group());
    let http = Http::new().http1(|http1| {
        http1.half_close(true);
    });
    let server = site.serve(http, &group);
    let release = site.hold_back();
    let mut client = sends(&server, get("/wait").as_bytes());
    client.shutdown(Shutdown::Write).unwrap();
    site.log.wait_for(1);
    release.succeed(()).unwrap();
    let response = read_to_end(&mut client);
    assert!(response.ends_with("released"), "{response}");
}

#[test]
fn a_client_that_resets_in_the_middle_of_a_response_ends_only_itself() {
    let (_site, server) = Site::served();
    for _ in 0..10 {
        let mut client = sends(&server, get("/large").as_bytes());
        read_until(&mut client, "x");
        drop(client);
    }
    ask(&mut dial(&server), "/hello", "hello");
    until("the connections are closed", || server.connections() == 0);
}

#[test]
fn a_connection_without_a_head_in_time_is_closed() {
    let clock = ManualClock::new();
    let (site, group) = (Site::default(), group_by(&clock));
    let server = site.serve(Http::new().head_timeout(Duration::from_secs(10)), &group);
    let mut fresh = dial(&server);
    let mut idle = dial(&server);
    ask(&mut idle, "/hello", "hello");
    until("both are accepted", || server.connections() == 2);
    clock.advance(Duration::from_secs(9));
    assert_eq!(server.connections(), 2);
    clock.advance(Duration::from_secs(2));
    assert_eq!(read_to_end(&mut fresh), "");
    assert_eq!(read_to_end(&mut idle), "");
    until("both are closed", || server.connections() == 0);
}

#[test]
fn a_head_that_comes_too_slowly_is_not_waited_for() {
    let site = Site::default();
    let mut channel = site.embedded(Http::new().head_timeout(Duration::from_secs(10)));
    channel.receive("P");
    for _ in 0..4 {
        channel.advance(Duration::from_secs(2));
        assert!(channel.is_open());
    }
    // What the client speaks is known now; the head has a limit of its own.
    channel.receive("OST /hello HTTP/1.1\r\n");
    for _ in 0..4 {
        channel.advance(Duration::from_secs(2));
        assert!(channel.is_open());
        channel.receive("a: b\r\n");
    }
    channel.advance(Duration::from_secs(3));
    assert!(!channel.is_open());
}

#[test]
fn without_a_limit_a_connection_may_be_idle_for_ever() {
    let site = Site::default();
    let mut fresh = site.embedded(Http::new().head_timeout(None::<Duration>));
    let mut idle = site.embedded(Http::new().head_timeout(None::<Duration>));
    idle.receive(get("/hello"));
    for channel in [&mut fresh, &mut idle] {
        channel.advance(Duration::from_secs(1_000_000));
        assert!(channel.is_open());
        channel.sent();
        channel.receive(get("/hello"));
        assert!(channel.sent().ends_with(b"hello"));
    }
}
