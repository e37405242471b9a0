//! Responses: the rules of requests, and bodies until close.

use tidegate_http::codec::{
    BodyFraming, BodyLimits, HeadLimits, HeadTable, Method, RefusalReason, ResponseDecoder,
};

use crate::events::{Event, responses, split_everywhere};

#[track_caller]
fn read(to: Method<'_>, input: &[u8]) -> Vec<Event> {
    split_everywhere(input, |pieces| responses(to, pieces.iter().copied()))
}

/// Checks that `message` is refused, and that nothing after it is parsed.
#[track_caller]
fn refused(message: &[u8], reason: RefusalReason) {
    let smuggled = b"HTTP/1.1 299 Smuggled\r\nContent-Length: 0\r\n\r\n";
    let events = read(Method::Get, &[message, smuggled].concat());
    assert_eq!(
        events,
        [Event::Refused(reason)],
        "{}",
        message.escape_ascii()
    );
}

/// Returns start line and framing of the first head.
#[track_caller]
fn first(to: Method<'_>, input: &[u8]) -> (String, BodyFraming) {
    match read(to, input).swap_remove(0) {
        Event::Head(line, _, framing) => (line, framing),
        other => panic!("{other:?}"),
    }
}

#[test]
fn status_lines() {
    let rows = [
        ("HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
        ("HTTP/1.0 404 Not  Found ", "HTTP/1.0 404 Not  Found "),
        ("HTTP/1.1 200 ", "HTTP/1.1 200 "),
        ("HTTP/1.1 200", "HTTP/1.1 200 "),
        ("HTTP/1.1 999 \t", "HTTP/1.1 999 \\t"),
    ];
    for (line, expected) in rows {
        let message = format!("{line}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(first(Method::Get, message.as_bytes()).0, expected);
    }
}

#[test]
fn refused_status_lines() {
    let rows: [(&[u8], RefusalReason); 17] = [
        (b"HTTP/1.1 20 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1 2000 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1 099 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1 2x0 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1  200 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1 +20 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1 200OK", RefusalReason::StatusLine),
        (b"HTTP/1.1\t200 OK", RefusalReason::Version),
        (b"HTTP/1.10 200 OK", RefusalReason::Version),
        (b"HTTP/1.1", RefusalReason::Version),
        (b"HTTP/2.0 200 OK", RefusalReason::VersionNotSupported),
        (b"HTP/1.1 200 OK", RefusalReason::StatusLine),
        (b"http/1.1 200 OK", RefusalReason::StatusLine),
        (b"ICY 200 OK", RefusalReason::StatusLine),
        (b"HTTP/1.1 200 O\0K", RefusalReason::ControlByte),
        (b"HTTP/1.1 200 O\rK", RefusalReason::BareCr),
        (b"HTTP/1.1 200 O\nK", RefusalReason::BareLf),
    ];
    for (line, reason) in rows {
        refused(&[line, b"\r\nContent-Length: 0\r\n\r\n"].concat(), reason);
    }
    refused(b"\r\nHTTP/1.1 200 OK\r\n\r\n", RefusalReason::EmptyLine);
    refused(
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        RefusalReason::BareLf,
    );
}

#[test]
fn refused_framing() {
    use RefusalReason::{
        CodingInHttp10, ConnectionInvalid, ContentLengthInvalid, ContentLengthRepeated,
        LengthWithCoding, NotChunked, SpaceBeforeColon, TransferEncodingInvalid,
        TransferEncodingRepeated, UnknownCoding,
    };
    let (length, chunked) = ("Content-Length: 5", "Transfer-Encoding: chunked");
    let twice = |line: &str| format!("{line}\r\n{line}");
    let one = str::to_owned;
    let rows = [
        ("1.1 200", twice(length), ContentLengthRepeated),
        ("1.1 200", one("Content-Length: +5"), ContentLengthInvalid),
        (
            "1.1 200",
            format!("{length}\r\n{chunked}"),
            LengthWithCoding,
        ),
        ("1.1 200", twice(chunked), TransferEncodingRepeated),
        ("1.1 200", one("Transfer-Encoding: gzip"), NotChunked),
        (
            "1.1 200",
            one("Transfer-Encoding: gzip, chunked"),
            UnknownCoding,
        ),
        ("1.0 200", one(chunked), CodingInHttp10),
        ("1.1 204", one(chunked), TransferEncodingInvalid),
        ("1.1 100", one(chunked), TransferEncodingInvalid),
        ("1.1 204", one(length), ContentLengthInvalid),
        ("1.1 103", one(length), ContentLengthInvalid),
        ("1.1 200", one("Connection: ("), ConnectionInvalid),
        (
            "1.1 200",
            "Connection: ".to_owned() + &"a,".repeat(129),
            ConnectionInvalid,
        ),
        ("1.1 200", one("A : 1"), SpaceBeforeColon),
    ];
    for (start, lines, reason) in rows {
        let message = format!("HTTP/{start} X\r\n{lines}\r\n\r\n");
        refused(message.as_bytes(), reason);
    }
}

#[test]
fn framing_depends_on_status_and_method() {
    use BodyFraming::{Chunked, Empty, Length, Tunnel, UntilClose};
    let rows = [
        (Method::Get, "200", "Content-Length: 0", Length(0)),
        (Method::Get, "200", "Transfer-Encoding: chunked", Chunked),
        (Method::Get, "200", "X: y", UntilClose),
        (Method::Head, "200", "Content-Length: 5", Empty),
        (Method::Head, "200", "Transfer-Encoding: chunked", Empty),
        (Method::Head, "200", "X: y", Empty),
        (Method::Get, "204", "X: y", Empty),
        (Method::Get, "204", "Content-Length: 0", Empty),
        (Method::Get, "304", "Content-Length: 5", Empty),
        (Method::Get, "304", "Transfer-Encoding: chunked", Empty),
        (Method::Get, "100", "X: y", Empty),
        (Method::Get, "101", "Upgrade: x", Tunnel),
        (Method::Connect, "200", "X: y", Tunnel),
        (Method::Connect, "200", "Content-Length: 5", Tunnel),
        (Method::Connect, "502", "Content-Length: 0", Length(0)),
    ];
    for (to, status, line, expected) in rows {
        let message = format!("HTTP/1.1 {status} X\r\n{line}\r\n\r\n");
        let mut decoder = ResponseDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
        let mut table = HeadTable::new();
        let head = decoder
            .head(message.as_bytes(), &mut table, to)
            .unwrap()
            .unwrap();
        assert_eq!(head.framing(to), expected, "{message}");
    }
}

#[test]
fn a_body_until_close_ends_with_the_input() {
    let events = read(
        Method::Get,
        b"HTTP/1.0 200 OK\r\n\r\nhello HTTP/1.1 200 OK\r\n\r\n",
    );
    assert_eq!(
        events[1..],
        [Event::Data(b"hello HTTP/1.1 200 OK\r\n\r\n".to_vec())]
    );
}

#[test]
fn interim_responses_come_first() {
    let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let events = read(Method::Post, input);
    let heads = events
        .iter()
        .filter(|event| matches!(event, Event::Head(..)));
    assert_eq!(heads.count(), 3);
    assert_eq!(
        events[events.len() - 2..],
        [Event::Data(b"ok".to_vec()), Event::End]
    );
}

#[test]
fn no_message_follows_a_tunnel() {
    let events = read(
        Method::Connect,
        b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    );
    assert_eq!(events.len(), 2, "{events:?}");
}
