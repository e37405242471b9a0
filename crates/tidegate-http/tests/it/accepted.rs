//! Requests that are accepted, and what their heads say.

use tidegate_http::codec::{
    BodyFraming, BodyLimits, HeadLimits, HeadTable, KnownField, Method, RefusalReason,
    RequestDecoder, RequestHead, TargetForm, Version,
};

use crate::events::{Event, requests, split_everywhere};

/// Parses one complete head and passes it to `check`.
#[track_caller]
fn with_head<T>(message: &str, check: impl FnOnce(RequestHead<'_>) -> T) -> T {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let head = decoder.head(message.as_bytes(), &mut table);
    check(
        head.expect("the head is accepted")
            .expect("the head is complete"),
    )
}

/// The events of a message, wherever it is split.
#[track_caller]
fn read(message: &[u8]) -> Vec<Event> {
    split_everywhere(message, |pieces| requests(pieces.iter().copied()))
}

fn head(line: &str, fields: &[(&str, &str)], framing: BodyFraming) -> Event {
    let pair = |(name, value): &(&str, &str)| (name.to_string(), value.as_bytes().to_vec());
    Event::Head(line.to_string(), fields.iter().map(pair).collect(), framing)
}

#[test]
fn order_and_spelling_are_kept() {
    let message = b"GET /a?b HTTP/1.1\r\nhOST: a:80\r\nX-b:1\r\nx-B: \t2 \t\r\nEmpty:\r\n\r\n";
    let events = read(message);
    let fields = [("hOST", "a:80"), ("X-b", "1"), ("x-B", "2"), ("Empty", "")];
    let expected = [
        head("GET /a?b HTTP/1.1", &fields, BodyFraming::Empty),
        Event::End,
    ];
    assert_eq!(events, expected);
}

#[test]
fn an_empty_line_before_a_request_line_is_ignored() {
    let message = b"\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n\
        \r\nPUT /b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi\
        \r\nGET /c HTTP/1.1\r\nHost: a\r\n\r\n\r\n";
    let events = read(message);
    let fields = [("Host", "a")];
    let put = [("Host", "a"), ("Content-Length", "2")];
    let expected = [
        head("GET /a HTTP/1.1", &fields, BodyFraming::Empty),
        Event::End,
        head("PUT /b HTTP/1.1", &put, BodyFraming::Length(2)),
        Event::Data(b"hi".to_vec()),
        Event::End,
        head("GET /c HTTP/1.1", &fields, BodyFraming::Empty),
        Event::End,
    ];
    assert_eq!(events, expected);
}

#[test]
fn values_may_have_tabs_inside_and_high_bytes() {
    let message = b"GET / HTTP/1.1\r\nHost: a\r\nX: a\tb \xff\x80\r\n\r\n";
    let events = read(message);
    let Event::Head(_, fields, _) = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!(fields[1].1, b"a\tb \xff\x80");
}

#[test]
fn requests_follow_each_other() {
    let message = b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
        GET /2 HTTP/1.1\r\nHost: a\r\n\r\n\
        PUT /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n00\r\nA: 1\r\nb:2\r\n\r\n\
        GET /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let events = read(message);
    let host = ("Host", "a");
    let trailers = vec![
        ("A".to_string(), b"1".to_vec()),
        ("b".to_string(), b"2".to_vec()),
    ];
    let expected = [
        head(
            "POST /1 HTTP/1.1",
            &[host, ("Content-Length", "3")],
            BodyFraming::Length(3),
        ),
        Event::Data(b"abc".to_vec()),
        Event::End,
        head("GET /2 HTTP/1.1", &[host], BodyFraming::Empty),
        Event::End,
        head(
            "PUT /3 HTTP/1.1",
            &[host, ("Transfer-Encoding", "Chunked")],
            BodyFraming::Chunked,
        ),
        Event::Data(b"abcde".to_vec()),
        Event::Trailers(trailers),
        Event::End,
        head(
            "GET /4 HTTP/1.1",
            &[host, ("Content-Length", "0")],
            BodyFraming::Length(0),
        ),
        Event::End,
    ];
    assert_eq!(events, expected);
}

#[test]
fn all_methods_are_tokens() {
    for method in [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "PATCH",
        "GETS",
        "GE",
        "get",
        "M-SEARCH",
        "a!#$%&'*+-.^_`|~9",
    ] {
        let message = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        read(message.as_bytes());
        with_head(&message, |head| {
            assert_eq!(head.method().as_str(), method);
            assert_eq!(head.method(), Method::from(method));
        });
    }
}

#[test]
fn targets_of_each_form() {
    use TargetForm::{Absolute, Asterisk, Authority, Origin};
    // The form, a target, its path and its query.
    let rows = [
        (Origin, "/", "/", None),
        (Origin, "/a%20b/../c//d;p=1", "/a%20b/../c//d;p=1", None),
        (Origin, "/a?x=[1]&y=?", "/a", Some("x=[1]&y=?")),
        (
            Origin,
            "/a|b^{c}?d=|^`{e}\\?/",
            "/a|b^{c}",
            Some("d=|^`{e}\\?/"),
        ),
        (Origin, "/?", "/", Some("")),
        (Absolute, "http://h/|?{a}", "/|", Some("{a}")),
        (Absolute, "http://h/a?b", "/a", Some("b")),
        (Asterisk, "*", "*", None),
    ];
    let rows = rows.map(|(form, target, path, query)| (form, target, "h", path, query, "h"));
    // The `Host` stands before the path, and the authority behind the query.
    let others = [
        (Origin, "//x/y", "h:1", "//x/y", None, "h:1"),
        (Absolute, "http://h", "H", "/", None, "h"),
        (Absolute, "HTTP://h:80?q", "h", "/", Some("q"), "h:80"),
        (
            Absolute,
            "https://[::1]:443/",
            "[::1]",
            "/",
            None,
            "[::1]:443",
        ),
        (Authority, "h:443", "h", "", None, "h:443"),
        (Authority, "h:443", "h:443", "", None, "h:443"),
    ];
    for (form, target, host, path, query, authority) in rows.into_iter().chain(others) {
        let method = match form {
            Asterisk => "OPTIONS",
            Authority => "CONNECT",
            Origin | Absolute => "GET",
        };
        let message = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        read(message.as_bytes());
        with_head(&message, |head| {
            assert_eq!((head.target(), head.form()), (target, form));
            assert_eq!((head.path(), head.query()), (path, query), "{target}");
            assert_eq!(head.authority(), Some(authority), "{target}");
        });
    }
}

#[test]
fn an_old_version_needs_no_host() {
    with_head("GET / HTTP/1.0\r\n\r\n", |head| {
        assert_eq!((head.version(), head.authority()), (Version::Http10, None));
        assert!(head.fields().is_empty() && !head.keep_alive());
    });
}

#[test]
fn connections_are_kept_or_closed() {
    let rows = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "connection: x, Close\r\n", false),
        ("1.1", "Connection: x\r\nConnection: close\r\n", false),
        (
            "1.1",
            "Connection: close\r\nConnection: keep-alive\r\n",
            false,
        ),
        ("1.1", "Connection:\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ];
    for (version, lines, expected) in rows {
        let message = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let kept = with_head(&message, |head| head.keep_alive());
        assert_eq!(kept, expected, "{message}");
    }
}

#[test]
fn an_upgrade_is_asked_for_by_two_fields() {
    let rows = [
        ("1.1", "Upgrade: websocket\r\nConnection: upgrade\r\n", true),
        (
            "1.1",
            "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n",
            true,
        ),
        ("1.1", "Upgrade: websocket\r\n", false),
        ("1.1", "Connection: upgrade\r\n", false),
        (
            "1.0",
            "Upgrade: websocket\r\nConnection: upgrade\r\n",
            false,
        ),
    ];
    for (version, lines, expected) in rows {
        let message = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let asked = with_head(&message, |head| head.upgrade() == Some(b"websocket"));
        assert_eq!(asked, expected, "{message}");
    }
}

#[test]
fn a_client_waits_only_with_a_body() {
    let rows = [
        ("1.1", "Expect: 100-Continue\r\nContent-Length: 5\r\n", true),
        (
            "1.1",
            "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n",
            true,
        ),
        ("1.1", "Expect: 100-continue\r\n", false),
        (
            "1.1",
            "Expect: 100-continue\r\nContent-Length: 0\r\n",
            false,
        ),
        (
            "1.0",
            "Expect: 100-continue\r\nContent-Length: 5\r\n",
            false,
        ),
        ("1.0", "Expect: nonsense\r\nContent-Length: 5\r\n", false),
        ("1.1", "Content-Length: 5\r\n", false),
    ];
    for (version, lines, expected) in rows {
        let message = format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let waits = with_head(&message, |head| head.expects_continue());
        assert_eq!(waits, expected, "{message}");
    }
}

#[test]
fn known_fields_are_found_without_a_search() {
    let message = "GET / HTTP/1.1\r\nTE: trailers\r\nHost: a\r\nTrailer: X\r\nupgrade: u\r\n\
        Connection: te\r\nExpect: 100-continue\r\ncontent-length: 7\r\nTe: x\r\n\r\n";
    with_head(message, |head| {
        let rows = [
            (KnownField::Te, Some("trailers")),
            (KnownField::Host, Some("a")),
            (KnownField::Trailer, Some("X")),
            (KnownField::Upgrade, Some("u")),
            (KnownField::Connection, Some("te")),
            (KnownField::Expect, Some("100-continue")),
            (KnownField::ContentLength, Some("7")),
            (KnownField::TransferEncoding, None),
        ];
        for (field, value) in rows {
            assert_eq!(head.known(field), value.map(str::as_bytes), "{field:?}");
            assert_eq!(
                head.get(field.name()),
                value.map(str::as_bytes),
                "{field:?}"
            );
        }
        assert_eq!(
            head.get_all("te").collect::<Vec<_>>(),
            [&b"trailers"[..], b"x"]
        );
        assert_eq!(head.fields().len(), 8);
    });
}

#[test]
fn a_table_keeps_nothing_of_the_previous_head() {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let first = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nUpgrade: x\r\n\r\n";
    assert!(decoder.head(first, &mut table).unwrap().is_some());
    let second = decoder.head(b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", &mut table);
    let second = second.unwrap().unwrap();
    assert!(second.keep_alive() && second.known(KnownField::Upgrade).is_none());
    assert_eq!(second.fields().len(), 1);
}

#[test]
fn a_refusal_is_final() {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    decoder.refuse(RefusalReason::HeadTimeout);
    decoder.refuse(RefusalReason::BodyTimeout);
    let good = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        decoder.head(good, &mut table).unwrap_err(),
        RefusalReason::HeadTimeout
    );
    assert_eq!(decoder.body(good).unwrap_err(), RefusalReason::HeadTimeout);
    assert_eq!(decoder.end_of_input(), Err(RefusalReason::HeadTimeout));
    assert_eq!(decoder.refusal(), Some(RefusalReason::HeadTimeout));
}
