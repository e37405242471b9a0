//! Responses that are made after the service has returned.

use bytes::Bytes;
use tidegate_net::InputShutdown;

use super::{Client, closing, get, ok};
use crate::codec::{BodyLimits, FieldLines, HeadLimits, HeadTable, Method, ResponseDecoder};

#[test]
fn deferred_responses_are_sent_in_the_order_of_the_requests() {
    let (mut client, later) = Client::deferring();
    let requests = get("/a") + &get("/now") + &get("/b");
    assert_eq!(client.send(requests), "");
    later.take("/b").body("b");
    assert_eq!(client.responses(), "");
    later.take("/a").status(404).field("x", "y").body("a");
    let first = "HTTP/1.1 404 Not Found\r\nx: y\r\nContent-Length: 1\r\n\r\na".to_owned();
    assert_eq!(client.responses(), first + &ok("now") + &ok("b"));
    assert!(client.is_open());
}

#[test]
fn a_checked_field_gets_the_value_of_a_response() {
    let line = |name, value: &[u8]| FieldLines::new(name, value).unwrap();
    let (mut client, later) = Client::deferring();
    client.send(get("/"));
    let id = line("X-Id", b"0000");
    later.take("/").field_with(&id, b"12~!").body("x");
    let head = "HTTP/1.1 200 OK\r\nX-Id: 12~!\r\nContent-Length: 1\r\n\r\n";
    assert_eq!(client.responses(), format!("{head}x"));
    let own = id.clone();
    let mut at_once = Client::new(move |_, response| response.field_with(&own, b"12~!").body("x"));
    assert_eq!(at_once.send(get("/")), format!("{head}x"));
    assert_eq!(id.as_bytes(), b"X-Id: 0000\r\n");
    let wrong = [
        (id.clone(), b"1\r\n2"),
        (id.clone(), b"1 23"),
        (line("X-Id", b"00000"), b"1234"),
        (line("X-Id", b"000"), b"1234"),
        (id.and("X-Id", b"0000").unwrap(), b"1234"),
        (line("Date", b"0000"), b"1234"),
    ];
    for (line, value) in wrong {
        let (mut client, later) = Client::deferring();
        client.send(get("/"));
        later.take("/").field_with(&line, value).body("x");
        assert_eq!(
            client.responses(),
            closing("500 Internal Server Error"),
            "{line:?}"
        );
        assert_eq!(client.metrics().mistakes, 1, "{line:?}");
    }
}

#[test]
fn a_part_of_received_bytes_is_a_body_like_others() {
    let mut received = b"head".to_vec();
    received.extend_from_slice(&[b'x'; 5000]);
    let received = Bytes::from(received);
    for (body, shares) in [
        (4..4, false),
        (2..6, false),
        (4..4100, false),
        (3..4100, true),
    ] {
        for request in [get("/"), get("/").replace("GET", "HEAD")] {
            let (mut client, later) = Client::deferring();
            client.send(request.clone());
            later.take("/").received_body(&received, body.clone());
            let sent = client.responses();
            client.send(request.clone());
            later.take("/").body(received.slice(body.clone()));
            assert_eq!(sent, client.responses(), "{body:?}");
        }
        let (mut client, later) = Client::deferring();
        client.send(get("/now") + &get("/first") + &get("/"));
        later.take("/").received_body(&received, body.clone());
        // It waits for its turn.
        assert_eq!(!received.is_unique(), shares, "{body:?}");
        client.responses();
    }
}

/// Passes fields of a received head on, as a proxy does: each by `field`, or all at once.
fn passed_on(received: &str, at_once: bool, is_wanted: fn(&[u8]) -> bool) -> String {
    let (mut client, later) = Client::deferring();
    client.send(get("/"));
    let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let head = decoder.head(received.as_bytes(), &mut table, Method::Get);
    let head = head.unwrap().unwrap();
    let mut response = later.take("/").status(head.status());
    response = match at_once {
        true => response.received_fields(&head, is_wanted),
        false => {
            let fields = head
                .fields()
                .iter()
                .filter(|field| is_wanted(field.name.as_bytes()));
            fields.fold(response, |response, field| {
                response.field(field.name, field.value)
            })
        }
    };
    response.field("x", "y").body("body");
    client.responses()
}

#[test]
fn fields_of_a_received_head_are_passed_on_as_if_each_was_set() {
    let start = "HTTP/1.1 404 Gone\r\n";
    let rows = [
        "A: 1\r\nB: 2\r\nC: 3\r\n",
        "A:1\r\nB: 2 \r\nC:  3\r\nD:\r\nE: \r\n",
        "Skip: 1\r\nA: 1\r\nSkip: 2\r\nB: 2\r\nC: 3\r\nskip:3\r\n",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nA: 1\r\n",
        "A: 1\r\nConnection: close\r\nB: 2\r\n",
        "Upgrade: h2c\r\nConnection: x, upgrade\r\nB: 2\r\n",
        "A: 1\r\nContent-Length: 3\r\n",
        "",
    ];
    for fields in rows {
        let received = format!("{start}{fields}\r\n");
        let is_wanted = |name: &[u8]| !name.eq_ignore_ascii_case(b"skip");
        let expected = passed_on(&received, false, is_wanted);
        assert_eq!(passed_on(&received, true, is_wanted), expected, "{fields}");
    }
    let plain = passed_on("HTTP/1.1 200 OK\r\nA:1\r\nB: 2\r\n\r\n", true, |_| true);
    let expected = "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nx: y\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(plain, expected);
    // The framing is not a plain field.
    let framing = passed_on("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", true, |_| {
        true
    });
    assert_eq!(framing, closing("500 Internal Server Error"));
}

#[test]
fn sixteen_outstanding_responses_stop_the_connection_from_reading() {
    let (mut client, later) = Client::deferring();
    let requests: String = (0..20).map(|n| get(&format!("/{n}"))).collect();
    client.send(requests);
    assert_eq!(later.len(), 16);
    later.take("/0").body("0");
    assert_eq!(client.responses(), ok("0"));
    assert_eq!(later.len(), 16);
    for n in 1..20 {
        later.take(&format!("/{n}")).body(n.to_string());
        assert_eq!(client.responses(), ok(&n.to_string()));
    }
    assert_eq!(client.metrics().requests, 20);
    assert_eq!(client.metrics().responses[0], 20);
}

#[test]
fn a_client_that_ends_its_half_gets_responses_to_requests_that_had_to_wait() {
    let (mut client, later) = Client::deferring();
    client.send((0..40).map(|n| get(&format!("/{n}"))).collect::<String>());
    // TLS in front passes the end on even if the connection does not read.
    client.fire(InputShutdown);
    for n in 0..40 {
        later.take(&format!("/{n}")).body("");
        client.socket.run();
    }
    let sent = client.responses();
    assert_eq!(sent.matches("HTTP/1.1 200").count(), 40);
    assert!(sent.ends_with(&closing("200 OK")));
    assert!(!client.is_open());
}

#[test]
fn a_dropped_response_is_status_500_and_ends_the_connection() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a") + &get("/b"));
    drop(later.take("/a"));
    assert_eq!(client.responses(), closing("500 Internal Server Error"));
    assert!(!client.is_open());
    assert_eq!(client.metrics().dropped_responses, 1);
    let late = later.take("/b");
    assert!(late.is_closed());
    late.body("nobody reads this");
}

#[test]
fn a_response_may_come_from_another_thread() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a"));
    let response = later.take("/a");
    std::thread::scope(|scope| {
        scope.spawn(move || response.body("a"));
    });
    assert_eq!(client.responses(), ok("a"));
}

#[test]
fn a_closed_connection_is_told_to_the_one_who_responds() {
    let (mut client, later) = Client::deferring();
    client.send(get("/a"));
    let response = later.take("/a");
    let closed = response.closed();
    assert!(!response.is_closed());
    client.close();
    assert!(response.is_closed());
    closed.wait().unwrap();
}
