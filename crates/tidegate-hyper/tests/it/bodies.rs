//! Bodies that are not read, dropped half-way, or never end.

use std::io::Write;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_hyper::Http;
use tidegate_testkit::until;

use crate::{Site, ask, dial, get, group_by, group_with_hook, read_to_end, read_until, sends};

/// The head of a request with a large body.
fn large(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 50000000\r\n\r\n")
}

#[test]
fn a_body_that_is_never_read_does_not_hold_the_response() {
    let (_site, server) = Site::served();
    let mut client = sends(&server, large("/hello").as_bytes());
    let response = read_until(&mut client, "hello");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    // The server does not take the rest: it closes the connection.
    let chunk = vec![0; 64 * 1024];
    while client.write_all(&chunk).is_ok() {}
    ask(&mut dial(&server), "/hello", "hello");
}

#[test]
fn a_body_that_is_dropped_half_way_ends_its_connection_after_the_response() {
    let (_site, server) = Site::served();
    let mut client = sends(&server, large("/first").as_bytes());
    let chunk = vec![0; 64 * 1024];
    client.write_all(&chunk).unwrap();
    let response = read_until(&mut client, "first: true");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    while client.write_all(&chunk).is_ok() {}
    until("the connection is closed", || server.connections() == 0);
    ask(&mut dial(&server), "/hello", "hello");
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_body_ends_the_request() {
    let site = Site::default();
    let (group, log) = group_with_hook();
    let server = site.serve(Http::new(), &group);
    let mut client = sends(&server, large("/echo").as_bytes());
    client.write_all(&[0; 1000]).unwrap();
    drop(client);
    until("the connection is closed", || server.connections() == 0);
    group.submit(|| ()).unwrap().wait().unwrap();
    assert!(log.is_empty(), "the client is to blame: {:?}", log.take());
}

#[test]
fn the_deadline_of_a_drain_ends_a_response_that_never_ends() {
    let clock = ManualClock::new();
    let (site, group) = (Site::default(), group_by(&clock));
    let server = site.serve(Http::new(), &group);
    let mut client = sends(&server, get("/body/hangs").as_bytes());
    read_until(&mut client, "part\r\n");
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(9));
    assert!(!drained.is_done() && site.log.is_empty());
    clock.advance(Duration::from_secs(1));
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 1));
    assert_eq!(read_to_end(&mut client), "", "it is not complete");
    site.log.wait_for(1);
    assert_eq!(site.log.take(), ["dropped"]);
}

#[test]
fn a_client_that_leaves_ends_a_response_that_never_ends() {
    let (site, server) = Site::served();
    let mut client = sends(&server, get("/body/hangs").as_bytes());
    read_until(&mut client, "part\r\n");
    drop(client);
    site.log.wait_for(1);
    assert_eq!(site.log.take(), ["dropped"]);
    until("the connection is closed", || server.connections() == 0);
}

#[test]
fn a_body_that_panics_or_fails_goes_to_the_hook_and_ends_its_connection() {
    for (path, why) in [
        ("/body/panics", "not this body"),
        ("/body/fails", "no more body"),
    ] {
        let site = Site::default();
        let (group, log) = group_with_hook();
        let server = site.serve(Http::new(), &group);
        let mut client = sends(&server, get(path).as_bytes());
        let response = read_to_end(&mut client);
        assert!(!response.ends_with("0\r\n\r\n"), "{path}: {response}");
        log.wait_for(1);
        let reported = log.take();
        assert!(reported[0].contains(why), "{reported:?}");
        site.log.wait_for(1);
        ask(&mut dial(&server), "/hello", "hello");
    }
}
