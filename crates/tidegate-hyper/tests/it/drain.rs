//! The drain of a server: every state in which a connection can be.

use std::io::Write;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_hyper::Http;
use tidegate_net::Draining;
use tidegate_testkit::until;

use crate::{Site, ask, dial, get, group_by, read_to_end, sends};

/// No test waits for it.
const LATE: Duration = Duration::from_secs(3600);

#[test]
fn idle_and_fresh_connections_end_at_once() {
    let (_site, server) = Site::served();
    let mut clients: Vec<_> = (0..20).map(|_| dial(&server)).collect();
    for client in clients.iter_mut().step_by(2) {
        ask(client, "/hello", "hello");
    }
    let report = server.drain(LATE).wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (20, 0));
    for client in &mut clients {
        assert_eq!(read_to_end(client), "");
    }
}

#[test]
fn a_request_in_flight_is_answered_and_the_connection_then_closed() {
    let (site, server) = Site::served();
    let release = site.hold_back();
    let mut client = sends(&server, get("/wait").as_bytes());
    site.log.wait_for(1);
    let drained = server.drain(LATE);
    release.succeed(()).unwrap();
    let response = read_to_end(&mut client);
    assert!(response.ends_with("released"), "{response}");
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 0));
}

#[test]
fn the_response_to_a_request_in_flight_says_that_the_connection_ends() {
    let site = Site::default();
    let mut channel = site.embedded(Http::new());
    let release = site.hold_back();
    channel.receive(get("/wait"));
    channel.channel().fire_event(Draining);
    channel.run();
    assert!(channel.is_open());
    release.succeed(()).unwrap();
    channel.run();
    let sent = String::from_utf8(channel.sent().to_vec()).unwrap();
    assert!(sent.contains("connection: close\r\n"), "{sent}");
    assert!(sent.ends_with("released"), "{sent}");
    assert!(!channel.is_open());
}

#[test]
fn a_request_that_has_begun_is_answered() {
    // The first byte alone could also begin HTTP/2.
    for begun in [
        "P",
        "POST /he",
        "POST /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\na",
    ] {
        let site = Site::default();
        let mut channel = site.embedded(Http::new());
        channel.receive(begun);
        channel.channel().fire_event(Draining);
        channel.run();
        let whole = "POST /hello HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nab";
        if channel.is_open() {
            channel.receive(whole.strip_prefix(begun).unwrap());
        }
        let sent = String::from_utf8(channel.sent().to_vec()).unwrap();
        assert!(sent.ends_with("hello"), "{begun:?}: {sent:?}");
        assert!(!channel.is_open(), "{begun:?}");
    }
}

#[test]
fn a_request_that_arrives_together_with_the_drain_is_answered() {
    let site = Site::default();
    let mut channel = site.embedded(Http::new());
    // The event comes first, the bytes are there already.
    channel.channel().fire_event(Draining);
    channel.receive(get("/hello"));
    let sent = channel.sent();
    assert!(sent.is_empty() || sent.ends_with(b"hello"), "{sent:?}");
    assert!(!channel.is_open());
}

#[test]
fn the_deadline_ends_what_does_not_finish() {
    let clock = ManualClock::new();
    let (site, group) = (Site::default(), group_by(&clock));
    let server = site.serve(Http::new().head_timeout(None::<Duration>), &group);
    let mut hangs = dial(&server);
    hangs.write_all(get("/hang").as_bytes()).unwrap();
    site.log.wait_for(1);
    let mut holds = dial(&server);
    let head = "POST /hold HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n";
    holds.write_all(head.as_bytes()).unwrap();
    site.log.wait_for(2);
    // Half of a head, on a connection that was used before.
    let mut half = dial(&server);
    ask(&mut half, "/hello", "hello");
    half.write_all(b"GET /hel").unwrap();
    until("all are accepted", || server.connections() == 3);
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(9));
    assert!(!drained.is_done());
    clock.advance(Duration::from_secs(1));
    let report = drained.wait().unwrap();
    assert_eq!(report.open, 3);
    // The half head may not have arrived: then its connection was idle, and ended at once.
    assert!(
        (2..=3).contains(&report.closed_at_deadline.len()),
        "{report}"
    );
    for client in [&mut hangs, &mut holds, &mut half] {
        assert_eq!(read_to_end(client), "");
    }
    site.log.wait_for(3);
    assert_eq!(site.log.take(), ["hangs", "holds", "dropped"]);
}

#[test]
fn the_deadline_ends_a_request_even_if_its_client_may_close_its_half() {
    let clock = ManualClock::new();
    let (site, group) = (Site::default(), group_by(&clock));
    let http = Http::new().http1(|http1| {
        http1.half_close(true);
    });
    let server = site.serve(http, &group);
    let _client = sends(&server, get("/hang").as_bytes());
    site.log.wait_for(1);
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(10));
    assert_eq!(drained.wait().unwrap().closed_at_deadline.len(), 1);
    site.log.wait_for(2);
    assert_eq!(site.log.take(), ["hangs", "dropped"]);
}

#[test]
fn connections_that_come_during_a_drain_are_not_served() {
    let (site, server) = Site::served();
    let release = site.hold_back();
    let _client = sends(&server, get("/wait").as_bytes());
    site.log.wait_for(1);
    let drained = server.drain(LATE);
    server.closed().wait().unwrap();
    assert!(std::net::TcpStream::connect(server.local_addr()).is_err());
    release.succeed(()).unwrap();
    drained.wait().unwrap();
}
