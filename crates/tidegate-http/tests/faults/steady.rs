//! What a server allocates for a request, and what an idle connection holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_testkit::{short_or_long, until};

use super::counting::ALLOCATED;
use super::{HELLO, HELLO_RESPONSE, Memory, Served, connections, turn};

#[test]
fn a_request_allocates_nothing() {
    let _turn = turn();
    let allocated = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&allocated);
    let served = Served::new(move |_, response| {
        // The allocations of the loop's thread so far.
        seen.store(ALLOCATED.get(), Ordering::Relaxed);
        response.field("Server", "a").body("hello");
    });
    let length = HELLO_RESPONSE + "Server: a\r\n".len();
    for depth in [1, 16] {
        let mut clients = served.connect_many(8);
        let requests = HELLO.repeat(depth);
        let mut run = |rounds: usize| {
            for round in 0..rounds {
                let client = &mut clients[round % 8];
                client.send(&requests);
                client.expect(depth * length);
            }
            allocated.load(Ordering::Relaxed)
        };
        // The loop tries larger memory for reads now and then, and has then found its size.
        let before = run(2000);
        let after = run(3000);
        assert_eq!(after - before, 0, "allocations in 3,000 reads of {depth}");
        drop(clients);
        served.await_end();
    }
}

#[test]
fn an_idle_connection_holds_nothing_of_its_requests() {
    let _turn = turn();
    let served = Served::new(|request, response| match request.path() {
        "/hello" => response.body("hello"),
        _ => {
            let later = response.defer();
            request
                .collect(1 << 20)
                .finally(move |_| later.body("hello"));
        }
    });
    let number = connections(short_or_long(200, 4000));
    let mut warm = served.connect_many(16);
    warm.iter_mut().for_each(super::Client::hello);
    let start = Memory::start();
    let mut idle = served.connect_many(number);
    let opened = start.held();
    let per_connection = opened / number;
    println!("{per_connection} bytes for an idle connection");
    assert!(per_connection < 3 * 1024, "{per_connection} bytes for each");
    for client in &mut idle {
        client.hello();
        client.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        client.send("12345");
        client.expect(HELLO_RESPONSE);
        // A head in two pieces is kept, and then not.
        let (first, rest) = HELLO.split_at(20);
        client.send(first);
        client.send(rest);
        client.expect(HELLO_RESPONSE);
    }
    let requests = 16 + 3 * number as u64;
    until("all are counted", || {
        served.server.metrics().requests == requests
    });
    let more = start.held().saturating_sub(opened);
    let each = more / number;
    println!("{each} bytes more after its requests");
    assert!(each < 256, "{more} bytes for {number} connections");
}
