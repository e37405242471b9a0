//! Requests that are cut: at each byte, and by resets at random points.

use std::net::Shutdown;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_http::{DeferredResponse, ResponseStream};
use tidegate_testkit::{Counter, Rng, short_or_long, until};

use super::{Memory, Served, turn};

#[test]
fn a_body_cut_at_each_byte_fails_once_and_gets_no_response() {
    let _turn = turn();
    let (called, ended) = (Counter::new(), Counter::new());
    let (calls, ends) = (called.clone(), ended.clone());
    let served = Served::new(move |request, response| {
        calls.hit();
        let (later, ends) = (response.defer(), ends.clone());
        request.collect(1000).finally(move |_| {
            ends.hit();
            later.body("hello");
        });
    });
    let length = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n0123456";
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;a=b\r\nabc\r\n4\r\ndefg\r\n0\r\nSum: 7\r\n\r\n";
    for message in [length, chunked] {
        for cut in 0..=message.len() {
            let mut client = served.connect();
            client.send(&message[..cut]);
            client.stream.shutdown(Shutdown::Write).unwrap();
            let response = client.rest();
            if cut == message.len() {
                assert!(response.ends_with("\r\n\r\nhello"), "{response}");
            } else {
                assert_eq!(response, "", "cut at {cut}");
            }
        }
    }
    served.await_end();
    assert_eq!(called.count(), ended.count());
    assert_eq!(called.count(), served.server.metrics().requests);
    assert_eq!(served.server.metrics().responses[0], 2);
}

/// What the service of the test below has not finished.
enum Unfinished {
    Response(DeferredResponse),
    Stream(ResponseStream),
}

/// Requests of all kinds.
const REQUESTS: &str = "GET /now HTTP/1.1\r\nHost: a\r\n\r\n\
    GET /later HTTP/1.1\r\nHost: a\r\n\r\n\
    POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n01234567890123456789\
    GET /stream HTTP/1.1\r\nHost: a\r\n\r\n\
    POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n\r\n\
    POST /ignored HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n01234\
    GET /now HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn resets_at_random_points_leave_nothing_behind() {
    let _turn = turn();
    let (called, ended) = (Counter::new(), Counter::new());
    let (calls, ends) = (called.clone(), ended.clone());
    let unfinished: Arc<Mutex<Vec<Unfinished>>> = Arc::default();
    let keep = Arc::clone(&unfinished);
    let served = Served::new(move |request, response| match request.path() {
        "/body" => {
            calls.hit();
            let (later, ends) = (response.defer(), ends.clone());
            request.collect(1000).finally(move |_| {
                ends.hit();
                later.body("received");
            });
        }
        "/later" => keep
            .lock()
            .unwrap()
            .push(Unfinished::Response(response.defer())),
        "/stream" => keep
            .lock()
            .unwrap()
            .push(Unfinished::Stream(response.stream())),
        _ => response.body("hello"),
    });
    let mut good = served.connect();
    good.hello();
    let mut rng = Rng::seed_from_env_or(0x4747_1919);
    let rounds = short_or_long(300, 5000);
    let mut memory = Memory::start();
    for round in 0..rounds {
        if round == rounds / 10 {
            // By now the memory of the loop has its size.
            memory = Memory::start();
        }
        let mut client = served.connect();
        let until_byte = rng.index(REQUESTS.len() + 1);
        let mut sent = 0;
        while sent < until_byte {
            let piece = 1 + rng.index((until_byte - sent).min(100));
            client.send(&REQUESTS[sent..sent + piece]);
            sent += piece;
        }
        let socket = socket2::SockRef::from(&client.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        let answer: Vec<_> = match rng.chance(0.5) {
            true => unfinished.lock().unwrap().drain(..).collect(),
            false => Vec::new(),
        };
        // Responses and the reset compete.
        let competitor = std::thread::spawn(move || answer.into_iter().for_each(finish));
        drop(client);
        competitor.join().unwrap();
        if round % 50 == 0 {
            good.hello();
        }
    }
    // Connections are accepted in their order: when the last one has its response, none waits.
    let mut last = served.connect();
    last.hello();
    until("only two connections are left", || {
        served.server.metrics().connections == 2
    });
    unfinished.lock().unwrap().clear();
    good.hello();
    assert_eq!(called.count(), ended.count(), "each body ended once");
    let metrics = served.server.metrics();
    assert_eq!(metrics.refusals, [], "seed {:#x}", rng.seed());
    assert!(metrics.lost_connections > 0, "{metrics}");
    let held = memory.held();
    assert!(held < 128 * 1024, "{held} bytes left");
}

fn finish(unfinished: Unfinished) {
    match unfinished {
        Unfinished::Response(response) => response.body("later"),
        Unfinished::Stream(mut stream) => {
            stream.write("piece");
            stream.finish();
        }
    }
}
