//! Drains against connections in every state and against services that misbehave. Whatever a
//! connection waits for, it ends at the deadline, and its loop goes on.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_hyper::Http;
use tidegate_net::Server;
use tidegate_testkit::until;

use crate::http2::{PREFACE, begin, request};
use crate::{Site, ask, dial, get, group_by, group_with_hook, read_to_end, read_until, sends};

/// No test waits for it.
const LATE: Duration = Duration::from_secs(3600);

/// Brings a new connection into a state.
type Enter = fn(&Server, &Site) -> TcpStream;

/// The states of a connection with something to wait for, and how a client gets there.
const STATES: [(&str, Enter); 10] = [
    ("one byte", |server, _| sends(server, b"P")),
    ("half a preface", |server, _| sends(server, &PREFACE[..20])),
    ("half a head", |server, _| {
        let mut client = dial(server);
        ask(&mut client, "/hello", "hello");
        client.write_all(b"GET /hel").unwrap();
        client
    }),
    ("half a body", |server, site| {
        let head = b"POST /hold HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf";
        heard(sends(server, head), site)
    }),
    ("a service that never ends", |server, site| {
        heard(sends(server, get("/hang").as_bytes()), site)
    }),
    ("a drop that panics", |server, site| {
        heard(sends(server, get("/hang/bomb").as_bytes()), site)
    }),
    ("a body that never ends", |server, _| {
        let mut client = sends(server, get("/body/hangs").as_bytes());
        read_until(&mut client, "part\r\n");
        client
    }),
    ("a client that never reads", |server, _| {
        let mut client = sends(server, get("/large").as_bytes());
        read_until(&mut client, "x");
        client
    }),
    ("a preface and no more", |server, _| sends(server, PREFACE)),
    ("a stream that never ends", |server, site| {
        let mut client = begin(dial(server));
        client.write_all(&request(1, "/hang")).unwrap();
        heard(client, site)
    }),
];

/// Waits until the service runs.
fn heard(client: TcpStream, site: &Site) -> TcpStream {
    site.log.wait_for(1);
    client
}

#[test]
fn a_deadline_of_zero_ends_every_connection() {
    for (name, enter) in STATES {
        for twice in [false, true] {
            let (site, group) = (Site::default(), group_by(&ManualClock::new()));
            let server = site.serve(Http::new().head_timeout(None::<Duration>), &group);
            let mut client = enter(&server, &site);
            until("it is accepted", || server.connections() == 1);
            let first = twice.then(|| server.drain(LATE));
            // The second drain has the earlier deadline, which holds for both.
            let report = server.drain(Duration::ZERO).wait().unwrap();
            assert!(report.open <= 1, "{name}: {report}");
            if let Some(first) = first {
                first.wait().unwrap();
            }
            let _ = read_to_end_lossy(&mut client);
            until("it is closed", || server.connections() == 0);
            let late = server.drain(LATE).wait().unwrap();
            assert_eq!((late.open, late.closed_at_deadline.len()), (0, 0), "{name}");
        }
    }
}

/// The end of a response may be cut off within a character.
fn read_to_end_lossy(client: &mut TcpStream) -> usize {
    let mut all = Vec::new();
    let _ = std::io::Read::read_to_end(client, &mut all);
    all.len()
}

#[test]
fn a_service_may_drain_its_own_server() {
    let (_site, server) = Site::served();
    let mut idle = dial(&server);
    ask(&mut idle, "/hello", "hello");
    let mut client = sends(&server, get("/drain").as_bytes());
    let response = read_to_end(&mut client);
    assert!(response.ends_with("drains"), "{response}");
    assert_eq!(read_to_end(&mut idle), "");
    server.drain(LATE).wait().unwrap();
}

#[test]
fn a_service_may_end_its_own_connection_by_a_drain() {
    let (_site, server) = Site::served();
    let mut client = sends(&server, get("/drain/now").as_bytes());
    assert_eq!(read_to_end(&mut client), "");
    server.drain(LATE).wait().unwrap();
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_drop_that_panics_is_reported_and_harms_no_other_connection() {
    let site = Site::default();
    let (group, log) = group_with_hook();
    let server = site.serve(Http::new(), &group);
    let mut other = dial(&server);
    ask(&mut other, "/hello", "hello");
    drop(heard(sends(&server, get("/hang/bomb").as_bytes()), &site));
    log.wait_for(1);
    let reported = log.take();
    assert!(reported[0].contains("not this drop"), "{reported:?}");
    let mut streams = begin(dial(&server));
    streams.write_all(&request(1, "/hang/bomb")).unwrap();
    site.log.wait_for(2);
    drop(streams);
    log.wait_for(1);
    ask(&mut other, "/hello", "hello");
    until("they are closed", || server.connections() == 1);
}
