//! Responses, and what becomes of their connections.

use super::*;

/// Responses to a GET, what is delivered, and whether the connection is used again.
const TABLE: [(&str, &[&str], bool); 14] = [
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        &["200 Length(5)", "hello", "end"],
        true,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        &["200 Length(0)", "end"],
        true,
    ),
    (
        "HTTP/1.1 204 No Content\r\n\r\n",
        &["204 Empty", "end"],
        true,
    ),
    (
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        &["304 Empty", "end"],
        true,
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
        &["200 Chunked", "hello", "trailers 6", "end"],
        true,
    ),
    (
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        &["200 Length(2)", "ok", "end"],
        true,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        &["200 Length(2)", "ok", "end"],
        false,
    ),
    (
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        &["200 Length(2)", "ok", "end"],
        false,
    ),
    (
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
        &["200 Length(2)", "ok", "end"],
        true,
    ),
    // A second response, which nothing asked for.
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        &["200 Length(2)", "ok", "end"],
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokx",
        &["200 Length(2)", "ok", "end"],
        false,
    ),
    (
        "HTTP/1.1 204 No Content\r\n\r\nx",
        &["204 Empty", "end"],
        false,
    ),
    (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        &["unexpected: sent"],
        false,
    ),
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        &["bad length_with_coding: sent"],
        false,
    ),
];

#[test]
fn responses_are_delivered_and_the_connection_is_kept_or_closed() {
    for (response, delivered, kept) in TABLE {
        let mut fixture = Fixture::asked();
        assert_eq!(fixture.channel.sent(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        fixture.receive(response);
        assert_eq!(fixture.log.take(), delivered, "{response}");
        assert_eq!(fixture.is_idle(), kept, "{response}");
        assert_eq!(fixture.channel.is_open(), kept, "{response}");
        assert_eq!(fixture.pool.load().0, usize::from(kept), "{response}");
    }
}

#[test]
fn a_response_in_single_bytes_is_the_same() {
    for (response, delivered, kept) in TABLE {
        let mut fixture = Fixture::asked();
        for byte in response.bytes() {
            fixture.receive(vec![byte]);
        }
        let got = fixture.log.take();
        let body = |all: &[String]| -> String {
            let is_body = |one: &&String| !one.contains(' ') && *one != "end";
            all.iter().filter(is_body).map(String::as_str).collect()
        };
        let expected: Vec<_> = delivered.iter().map(|one| (*one).to_owned()).collect();
        assert_eq!(body(&got), body(&expected), "{response}");
        assert_eq!(
            (got.first(), got.last()),
            (expected.first(), expected.last()),
            "{response}"
        );
        assert_eq!(fixture.channel.is_open(), kept, "{response}");
    }
}

#[test]
fn the_response_to_a_head_request_has_no_body() {
    let mut fixture = Fixture::new();
    fixture.begin(Flow::More, true);
    fixture.receive("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(fixture.log.take(), ["200 Empty", "end"]);
    assert!(fixture.is_idle());
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let mut fixture = Fixture::new();
    for _ in 0..3 {
        fixture.get();
        fixture.receive("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        assert_eq!(fixture.log.take(), ["200 Length(2)", "ok", "end"]);
        assert!(fixture.is_idle());
    }
}

#[test]
fn a_second_request_on_a_busy_connection_is_not_sent() {
    let mut fixture = Fixture::asked();
    fixture.channel.sent();
    fixture.get();
    assert_eq!(fixture.log.take(), ["closed: safe"]);
    assert!(fixture.channel.sent().is_empty());
    fixture.receive("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(fixture.log.take(), ["204 Empty", "end"]);
}

#[test]
fn an_exchange_of_another_thread_begins_or_is_refused_or_is_found_by_the_close() {
    for round in 0..tidegate_testkit::rounds(500) {
        let slot = crate::client::slot::Slot::new();
        slot.settle();
        let begun = Begun {
            id: 1,
            method: Method::Get,
            receiver: Logs {
                log: Log::new(),
                flow: Flow::More,
            },
            terms: terms(),
            lease: None,
            shared: true,
        };
        let (refused, taken, late) = std::thread::scope(|scope| {
            let other = scope.spawn(|| slot.begin(begun, true, 0).is_err());
            tidegate_testkit::yield_times(round as u64 % 8);
            let mut taken = None;
            assert_eq!(slot.take(&mut taken), taken.is_some());
            assert!(taken.is_none() || slot.progress().complete);
            let late = slot.close();
            (other.join().unwrap(), taken.is_some(), late.is_some())
        });
        let ends = [refused, taken, late].map(usize::from);
        assert_eq!(ends.iter().sum::<usize>(), 1, "{ends:?}");
        assert!(slot.is_closed() && slot.is_stopped(1));
    }
}

#[test]
fn a_server_that_never_stops_with_interim_responses_is_given_up() {
    let mut fixture = Fixture::asked();
    for _ in 0..17 {
        fixture.receive("HTTP/1.1 103 Early Hints\r\n\r\n");
    }
    assert_eq!(fixture.log.take(), ["unexpected: sent"]);
    assert!(fixture.is_over());
}

#[test]
fn a_server_may_report_for_a_long_time_that_it_goes_on() {
    let mut fixture = Fixture::asked();
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    for _ in 0..20 {
        fixture.receive(interim.repeat(16));
        fixture.channel.advance(Duration::from_secs(1));
    }
    let end = "HTTP/1.1 204 No Content\r\n\r\n";
    fixture.receive(end);
    assert_eq!(fixture.log.take(), ["204 Empty", "end"]);
    // The same number within one second is a flood.
    fixture.get();
    fixture.receive(interim.repeat(16));
    fixture.channel.advance(Duration::from_millis(999));
    fixture.receive(interim);
    assert_eq!(fixture.log.take(), ["unexpected: sent"]);
    assert!(fixture.is_over());
}

#[test]
fn a_part_of_a_response_is_known_before_its_head_is_complete() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for part in ["H", "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 103 Hi\r\n\r\n"] {
        let mut fixture = Fixture::new();
        let first = fixture.get();
        assert!(!fixture.link.slot.has_answer(first));
        fixture.receive(part);
        assert!(fixture.link.slot.has_answer(first), "{part:?}");
        fixture.receive(ok.strip_prefix(part).unwrap_or(ok).to_owned());
        assert_eq!(fixture.log.take(), ["200 Length(2)", "ok", "end"]);
        let second = fixture.get();
        assert!(!fixture.link.slot.has_answer(second), "of this one");
    }
}
