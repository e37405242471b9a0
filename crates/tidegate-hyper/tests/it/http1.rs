//! HTTP/1: requests and responses.

use std::io::Write;

use tidegate_hyper::Http;

use crate::{Site, ask, dial, get, read_to_end, read_until, sends};

#[test]
fn requests_on_one_connection_are_served_in_order() {
    let (_site, server) = Site::served();
    let mut client = dial(&server);
    for n in [0, 1, 50_000, 1_000_000] {
        let head = format!("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: {n}\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&vec![b'x'; n]).unwrap();
        let response = read_until(&mut client, &format!("\r\n{n} bytes"));
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn pipelined_requests_are_answered_with_few_writes() {
    let mut channel = Site::default().embedded(Http::new());
    channel.receive(get("/hello").repeat(10));
    let sent = String::from_utf8(channel.sent().to_vec()).unwrap();
    assert_eq!(sent.matches("HTTP/1.1 200 OK").count(), 10);
    assert!(channel.write_calls() <= 2, "{}", channel.write_calls());
}

#[test]
fn a_head_may_come_byte_by_byte() {
    let mut channel = Site::default().embedded(Http::new());
    for byte in get("/hello").bytes() {
        assert!(channel.sent().is_empty());
        channel.receive(vec![byte]);
    }
    assert!(channel.sent().ends_with(b"hello"));
    for byte in "POST /echo HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc".bytes() {
        channel.receive(vec![byte]);
    }
    assert!(channel.sent().ends_with(b"3 bytes"));
}

#[test]
fn a_large_response_reaches_a_client_that_reads_slowly() {
    let (_site, server) = Site::served();
    let mut client = sends(&server, get("/large").as_bytes());
    // Another connection of the same loop is served meanwhile.
    ask(&mut dial(&server), "/hello", "hello");
    let response = read_until(&mut client, &"x".repeat(8 << 20));
    assert!(
        response.contains("content-length: 8388608"),
        "{}",
        &response[..300]
    );
    ask(&mut client, "/hello", "hello");
}

#[test]
fn what_is_not_http_is_answered_with_400_and_closed() {
    let (_site, server) = Site::served();
    for bad in ["hello\r\n\r\n", "GET\r\n\r\n", "\0\0\0\0"] {
        let mut client = sends(&server, bad.as_bytes());
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let response = read_to_end(&mut client);
        let refused = response.is_empty() || response.starts_with("HTTP/1.1 400");
        assert!(refused, "{bad:?}: {response}");
    }
    ask(&mut dial(&server), "/hello", "hello");
}

#[test]
fn a_request_that_asks_for_a_close_gets_it() {
    let (_site, server) = Site::served();
    let mut client = dial(&server);
    client
        .write_all(b"GET /hello HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .unwrap();
    let response = read_to_end(&mut client);
    assert!(response.ends_with("hello"), "{response}");
}
