//! What is written: valid messages, and nothing at all if a part is refused.

use bytes::BytesMut;
use tidegate_http::codec::{
    BodyEncoder, BodyFraming, EncodeError, FieldLines, HttpDate, Method, encode,
};

use crate::events::{Event, requests, responses};

#[test]
fn a_response_is_read_as_it_was_written() {
    let mut out = Vec::new();
    encode::status_line(&mut out, 404).unwrap();
    encode::date(&mut out, &HttpDate::from_unix_seconds(784_111_777));
    encode::field(&mut out, "X-Text", "\u{e4}\tb".as_bytes()).unwrap();
    out.extend_from_slice(FieldLines::new("Server", b"t").unwrap().as_bytes());
    encode::connection_close(&mut out);
    encode::framing(&mut out, BodyFraming::Chunked);
    encode::head_end(&mut out);
    let mut body = BodyEncoder::new(BodyFraming::Chunked);
    body.data(&mut out, b"hello").unwrap();
    body.data(&mut out, b"").unwrap();
    body.data(&mut out, &[b'x'; 300]).unwrap();
    body.finish_with_trailers(&mut out, &[("A", b"1"), ("B", b"")])
        .unwrap();
    assert_eq!(body.data(&mut out, b"more"), Err(EncodeError::Finished));
    let expected = "HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Text: \u{e4}\tb\r\n\
        Server: t\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n12c\r\n";
    assert!(
        out.starts_with(expected.as_bytes()),
        "{}",
        out.escape_ascii()
    );
    assert!(
        out.ends_with(b"x\r\n0\r\nA: 1\r\nB: \r\n\r\n"),
        "{}",
        out.escape_ascii()
    );
    let events = responses(Method::Get, [&out[..]]);
    let data = [&b"hello"[..], &[b'x'; 300]].concat();
    assert_eq!(events[1], Event::Data(data));
    assert_eq!(events[3], Event::End);
}

#[test]
fn statuses_have_three_digits() {
    for status in [0, 99, 1000, u16::MAX] {
        let mut out = Vec::new();
        assert_eq!(
            encode::status_line(&mut out, status),
            Err(EncodeError::Status)
        );
        assert!(out.is_empty());
    }
    for (status, line) in [
        (200, "HTTP/1.1 200 OK\r\n"),
        (299, "HTTP/1.1 299 \r\n"),
        (999, "HTTP/1.1 999 \r\n"),
    ] {
        let mut out = Vec::new();
        encode::status_line(&mut out, status).unwrap();
        assert_eq!(out, line.as_bytes());
    }
}

#[test]
fn a_field_that_would_split_the_message_is_refused() {
    let rows: [(&str, &[u8], EncodeError); 15] = [
        ("", b"a", EncodeError::FieldName),
        ("a b", b"a", EncodeError::FieldName),
        ("a:", b"a", EncodeError::FieldName),
        ("a\r\nb", b"a", EncodeError::FieldName),
        ("a\n", b"a", EncodeError::FieldName),
        ("a\0", b"a", EncodeError::FieldName),
        ("\u{e4}", b"a", EncodeError::FieldName),
        ("a", b"a\rb", EncodeError::FieldValue),
        ("a", b"a\nb", EncodeError::FieldValue),
        ("a", b"a\r\nb: c", EncodeError::FieldValue),
        ("a", b"a\0", EncodeError::FieldValue),
        ("a", b"\x7f", EncodeError::FieldValue),
        ("content-length", b"5", EncodeError::FramingField),
        ("Transfer-Encoding", b"chunked", EncodeError::FramingField),
        (
            "TRANSFER-ENCODING",
            b"chunked\r\n",
            EncodeError::FramingField,
        ),
    ];
    for (name, value, error) in rows {
        let mut out = b"before".to_vec();
        assert_eq!(encode::field(&mut out, name, value), Err(error), "{name}");
        assert_eq!(FieldLines::new(name, value).unwrap_err(), error);
        assert_eq!(out, b"before");
    }
}

#[test]
fn a_request_line_that_would_split_the_message_is_refused() {
    let mut out = Vec::new();
    for method in ["", "G ET", "GET\r\n", "\u{e4}"] {
        let refused = encode::request_line(&mut out, Method::Other(method), "/");
        assert_eq!(refused, Err(EncodeError::Method), "{method}");
    }
    for target in ["", "/ x", "/\r\n", "/\u{e4}", "/#f", "/\"", "/\\", "/?<"] {
        let refused = encode::request_line(&mut out, Method::Get, target);
        assert_eq!(refused, Err(EncodeError::Target), "{target}");
    }
    assert!(out.is_empty());
}

#[test]
fn a_body_is_as_long_as_declared() {
    let mut out = Vec::new();
    let mut body = BodyEncoder::new(BodyFraming::Length(5));
    assert_eq!(
        body.data(&mut out, b"toolong"),
        Err(EncodeError::BodyTooLong)
    );
    body.data(&mut out, b"hel").unwrap();
    assert_eq!(body.data(&mut out, b"lo!"), Err(EncodeError::BodyTooLong));
    assert_eq!(body.finish(&mut out), Err(EncodeError::BodyTooShort));
    body.data_prefix(&mut out, 2).unwrap();
    body.finish(&mut out).unwrap();
    assert_eq!(body.finish(&mut out), Err(EncodeError::Finished));
    assert_eq!(body.data(&mut out, b""), Err(EncodeError::Finished));
    assert_eq!(out, b"hel");
    let mut none = BodyEncoder::new(BodyFraming::Empty);
    assert_eq!(none.data(&mut out, b"x"), Err(EncodeError::BodyTooLong));
    assert_eq!(none.finish(&mut out), Ok(()));
}

#[test]
fn trailers_follow_chunks_only() {
    let mut out = Vec::new();
    let mut length = BodyEncoder::new(BodyFraming::Length(0));
    let refused = length.finish_with_trailers(&mut out, &[("A", b"1")]);
    assert_eq!(refused, Err(EncodeError::NoTrailers));
    let mut chunked = BodyEncoder::new(BodyFraming::Chunked);
    let rows: [(&str, &[u8], EncodeError); 5] = [
        ("Content-Length", b"1", EncodeError::ForbiddenTrailer),
        ("host", b"a", EncodeError::ForbiddenTrailer),
        ("Content-Type", b"a", EncodeError::ForbiddenTrailer),
        ("A B", b"1", EncodeError::FieldName),
        ("A", b"1\r\n", EncodeError::FieldValue),
    ];
    for (name, value, error) in rows {
        let refused = chunked.finish_with_trailers(&mut out, &[("B", b"2"), (name, value)]);
        assert_eq!(refused, Err(error), "{name}");
    }
    assert!(out.is_empty());
    assert_eq!(chunked.finish(&mut out), Ok(()));
}

#[test]
fn lent_memory_is_not_replaced() {
    let mut out = BytesMut::with_capacity(256);
    let start = out.as_ptr();
    encode::status_line(&mut out, 200).unwrap();
    encode::field(&mut out, "Content-Type", b"text/plain").unwrap();
    encode::framing(&mut out, BodyFraming::Length(u64::MAX));
    encode::head_end(&mut out);
    assert_eq!(out.as_ptr(), start);
    assert!(out.ends_with(b"Content-Length: 18446744073709551615\r\n\r\n"));
}

#[test]
fn a_request_is_read_as_it_was_written() {
    let mut out = Vec::new();
    encode::request_line(&mut out, Method::Put, "/a?b").unwrap();
    encode::field(&mut out, "Host", b"a").unwrap();
    encode::framing(&mut out, BodyFraming::Length(5));
    encode::connection_keep_alive(&mut out);
    encode::head_end(&mut out);
    BodyEncoder::new(BodyFraming::Length(5))
        .data(&mut out, b"hello")
        .unwrap();
    let events = requests([&out[..]]);
    assert_eq!(events[1..], [Event::Data(b"hello".to_vec()), Event::End]);
}
