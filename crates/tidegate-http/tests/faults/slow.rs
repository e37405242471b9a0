//! Slow clients by the thousand: slow heads, slow bodies, slow readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_http::codec::RefusalReason;
use tidegate_promise::Outcome;
use tidegate_testkit::{begins, short_or_long, until};

use super::{Client, Memory, Served, connections, turn};

/// The most memory that a connection with a slow client may hold.
const PER_CONNECTION: usize = 6 * 1024;

fn many() -> usize {
    connections(short_or_long(200, 2000))
}

fn assert_each_got(clients: Vec<Client>, status: &str) {
    for client in clients {
        let response = client.rest();
        begins(&response, format!("HTTP/1.1 {status} "));
        assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response:?}");
    }
}

#[test]
fn slow_heads_are_refused_and_cost_little_memory() {
    let _turn = turn();
    let served = Served::new(|_, response| response.body("hello"));
    let mut good = served.connect();
    good.hello();
    let memory = Memory::start();
    let mut slow = served.connect_many(many());
    let mut sent = super::HELLO.len();
    for step in [
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "X-a",
        ": b",
        "\r\n",
        "c",
        "d:",
    ] {
        for client in &mut slow {
            client.send(step);
        }
        sent += slow.len() * step.len();
        served.await_received(sent);
        served.pass(1);
        good.hello();
        sent += super::HELLO.len();
    }
    let peak = memory.peak() / slow.len();
    assert!(peak < PER_CONNECTION, "{peak} bytes for each");
    assert_eq!(served.server.metrics().refusals, []);
    served.pass(5);
    let number = slow.len() as u64;
    assert_each_got(slow, "408");
    let metrics = served.server.metrics();
    assert_eq!(metrics.refusals, [(RefusalReason::HeadTimeout, number)]);
    assert_eq!(metrics.responses[2], number);
    good.hello();
    drop(good);
    served.await_end();
    let held = memory.held();
    assert!(held < 256 * 1024, "{held} bytes left");
}

#[test]
fn slow_bodies_are_refused_and_cost_little_memory() {
    let _turn = turn();
    let failed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&failed);
    let served = Served::new(move |request, response| {
        if request.path() == "/hello" {
            return response.body("hello");
        }
        let (later, count) = (response.defer(), Arc::clone(&count));
        request.collect(1000).finally(move |outcome| {
            if let Outcome::Failure(_) = outcome {
                count.fetch_add(1, Ordering::Relaxed);
            }
            later.body("received");
        });
    });
    let mut good = served.connect();
    good.hello();
    let memory = Memory::start();
    let mut slow = served.connect_many(many());
    let mut sent = super::HELLO.len();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n";
    for step in [head, "x", "y", "z"] {
        for client in &mut slow {
            client.send(step);
        }
        sent += slow.len() * step.len();
        served.await_received(sent);
        // Each byte is progress.
        served.pass(25);
        good.hello();
        sent += super::HELLO.len();
    }
    let peak = memory.peak() / slow.len();
    assert!(peak < PER_CONNECTION, "{peak} bytes for each");
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    served.pass(10);
    let number = slow.len() as u64;
    assert_each_got(slow, "408");
    assert_eq!(failed.load(Ordering::Relaxed), number, "each failed once");
    let metrics = served.server.metrics();
    assert_eq!(metrics.refusals, [(RefusalReason::BodyTimeout, number)]);
    good.hello();
    drop(good);
    served.await_end();
}

#[test]
fn clients_that_do_not_read_are_cut_and_cost_little_memory() {
    let _turn = turn();
    static LARGE: [u8; 4 << 20] = [b'x'; 4 << 20];
    let served = Served::new(|request, response| match request.path() {
        "/hello" => response.body("hello"),
        _ => response.body(Bytes::from_static(&LARGE)),
    });
    let mut good = served.connect();
    good.hello();
    let memory = Memory::start();
    let mut slow = served.connect_many(many());
    // A second request, which is not served before the first response is taken.
    let requests = "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    for client in &mut slow {
        client.send(requests);
    }
    let number = slow.len() as u64;
    until("all are served", || {
        served.server.metrics().requests == number + 1
    });
    served.pass(20);
    good.hello();
    let peak = memory.peak() / slow.len();
    assert!(peak < PER_CONNECTION, "{peak} bytes for each");
    assert_eq!(served.server.metrics().connections, number + 1);
    let mut served_well = 2;
    until("all are cut", || {
        // The sockets may still be taking bytes into their buffers, which is progress.
        served.pass(30);
        good.hello();
        served_well += 1;
        served.server.metrics().connections == 1
    });
    let metrics = served.server.metrics();
    assert_eq!(metrics.slow_readers, number);
    let requests = number + served_well;
    assert_eq!(metrics.requests, requests, "the second request waits");
    good.hello();
    for client in slow {
        let received = client.rest();
        assert!(received.len() < LARGE.len(), "{}", received.len());
        assert!(received.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}
