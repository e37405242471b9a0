//! The memory of bodies that wait for their service.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_http::{Body, DeferredResponse, HttpServer};
use tidegate_testkit::{block_on, until};

use super::Client;

/// The counters of a server differ from the truth by less than this for each connection.
const STEP: usize = 4096;

#[test]
fn pieces_that_a_service_has_not_read_count_against_the_limit() {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let kept: Arc<Mutex<Option<(Body, DeferredResponse)>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let server = HttpServer::builder(&group)
        .configure(|net| net.max_memory(1 << 20))
        .serve("127.0.0.1:0", move |request, response| {
            *keep.lock().unwrap() = Some((request.into_body(), response.defer()));
        })
        .wait()
        .unwrap();
    let held = || server.server().metrics().held_bytes;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n";
    let request = head.to_owned() + &"x".repeat(60_000);
    for read in [true, false] {
        let mut client = Client::of(&server);
        client.send(&request);
        until("the body is there", || held() > 60_000 - STEP);
        let (mut body, response) = kept.lock().unwrap().take().unwrap();
        let mut length = 0;
        while read && let Some(piece) = block_on("a piece", body.next()) {
            length += piece.unwrap().len();
        }
        assert_eq!(length, if read { 60_000 } else { 0 });
        drop(body);
        until("the pieces are released", || held() < STEP);
        response.body("done");
        assert_eq!(client.response(), (200, "done".to_owned()));
    }
    server.drain(Duration::from_secs(1)).wait().unwrap();
}

#[test]
fn a_body_that_is_collected_counts_against_the_limit() {
    let group = tidegate_net::pinned("web", 1).unwrap();
    let server = HttpServer::builder(&group)
        .configure(|net| net.max_memory(200_000))
        .serve("127.0.0.1:0", |request, response| {
            let later = response.defer();
            request
                .collect(1 << 20)
                .finally(move |_| later.body("done"));
        })
        .wait()
        .unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n";
    let mut client = Client::of(&server);
    // The connection may be closed before everything is written.
    let body = head.to_owned() + &"x".repeat(300_000);
    let _ = client.stream.write_all(body.as_bytes());
    until("the connection is closed", || {
        server.server().metrics().closed_for_memory == 1
    });
    until("nothing is held", || {
        server.server().metrics().held_bytes == 0
    });
    let mut client = Client::of(&server);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response(), (200, "done".to_owned()));
}
