//! Too much of everything: fields, declared bytes, pipelined requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tidegate_http::DeferredResponse;
use tidegate_http::codec::RefusalReason;
use tidegate_testkit::until;

use super::{Memory, Served, turn};

#[test]
fn a_hundred_thousand_fields_are_refused_and_cost_little_memory() {
    let _turn = turn();
    let served = Served::new(|_, response| response.body("hello"));
    let mut good = served.connect();
    good.hello();
    let fields = "a: b\r\n".repeat(100_000);
    let mut client = served.connect();
    let memory = Memory::start();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    // The server drops what comes after the refusal, or has ended the connection.
    client.try_send(&fields);
    client.try_send("\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    let peak = memory.peak();
    assert!(peak < 256 * 1024, "{peak} bytes");
    let response = client.rest();
    assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
    assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response}");
    good.hello();
    let metrics = served.server.metrics();
    assert_eq!(metrics.refusals.len(), 1, "{metrics}");
    assert_eq!(metrics.requests, 2);
}

#[test]
fn a_declared_gigabyte_costs_nothing_before_it_comes() {
    let _turn = turn();
    let served = Served::new(|request, response| {
        if request.path() == "/hello" {
            return response.body("hello");
        }
        let later = response.defer();
        request
            .collect(2 << 30)
            .finally(move |_| later.body("received"));
    });
    let mut good = served.connect();
    good.hello();
    let memory = Memory::start();
    let clients = 100;
    let mut waiting = served.connect_many(clients);
    let mut sent = super::HELLO.len();
    for (number, client) in waiting.iter_mut().enumerate() {
        let framing = match number % 2 {
            0 => "Content-Length: 1073741824\r\n\r\n",
            _ => "Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
        };
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}");
        client.send(&request);
        sent += request.len();
    }
    served.await_received(sent);
    good.hello();
    let held = memory.peak() / clients;
    assert!(held < 6 * 1024, "{held} bytes for each");
    served.pass(31);
    for client in waiting {
        let response = client.rest();
        assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    }
    let refusals = served.server.metrics().refusals;
    assert_eq!(refusals, [(RefusalReason::BodyTimeout, clients as u64)]);
    good.hello();
}

#[test]
fn pipelined_requests_to_a_slow_service_wait_in_the_socket() {
    let _turn = turn();
    let kept: Arc<Mutex<VecDeque<(String, DeferredResponse)>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let served = Served::new(move |request, response| match request.path() {
        "/hello" => response.body("hello"),
        path => {
            let entry = (path.to_owned(), response.defer());
            keep.lock().unwrap().push_back(entry);
        }
    });
    let mut good = served.connect();
    good.hello();
    let number = 64 * 1024 / 36;
    let requests: String = (0..number)
        .map(|n| format!("GET /{n:08} HTTP/1.1\r\nHost: abc\r\n\r\n"))
        .collect();
    let memory = Memory::start();
    let mut client = served.connect();
    client.send(&requests);
    let most = 16;
    for n in 0..number {
        let wanted = most.min(number - n);
        until("the service has as many requests as it may", || {
            kept.lock().unwrap().len() >= wanted
        });
        let (path, response) = {
            let mut kept = kept.lock().unwrap();
            assert_eq!(kept.len(), wanted, "no more are outstanding");
            kept.pop_front().unwrap()
        };
        assert_eq!(path, format!("/{n:08}"));
        response.body(path);
        // A client that does not read would stop the service.
        let response = client.expect(super::HELLO_RESPONSE + "/00000000".len() - "hello".len());
        assert!(response.ends_with(&format!("/{n:08}")), "{response}");
    }
    let peak = memory.peak();
    assert!(peak < 512 * 1024, "{peak} bytes");
    good.hello();
    let metrics = served.server.metrics();
    assert_eq!(metrics.requests, number as u64 + 2);
    assert_eq!(metrics.responses[0], number as u64 + 2);
}
