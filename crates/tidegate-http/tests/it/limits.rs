//! Limits of heads and bodies: what fits exactly is accepted, one more is refused.

use tidegate_http::codec::RefusalReason::{HeadTooLarge, StartLineTooLong, TooManyFields};
use tidegate_http::codec::{BodyLimits, HeadLimits, MAX_FIELDS, RefusalReason};

use crate::events::{Event, requests_within, split_everywhere};

const HEAD: HeadLimits = HeadLimits {
    start_line: 20,
    head: 60,
    fields: 3,
};

/// Returns the refusal of `message` within these limits, if it is refused. Tries every split.
#[track_caller]
fn refusal(message: &[u8], head: HeadLimits, body: BodyLimits) -> Option<RefusalReason> {
    let events = split_everywhere(message, |pieces| {
        requests_within(head, body, pieces.iter().copied())
    });
    match events.last() {
        Some(Event::Refused(reason)) => Some(*reason),
        _ => None,
    }
}

fn head_refusal(message: &str) -> Option<RefusalReason> {
    refusal(message.as_bytes(), HEAD, BodyLimits::DEFAULT)
}

#[test]
fn start_line() {
    let line = |path: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(path));
    assert_eq!(head_refusal(&line(6)), None);
    assert_eq!(head_refusal(&line(7)), Some(StartLineTooLong));
    assert_eq!(head_refusal(&line(100)), Some(StartLineTooLong));
    // Whatever else is wrong with the line.
    let endless = "x".repeat(22);
    assert_eq!(head_refusal(&endless), Some(StartLineTooLong));
    let bare = format!("{}\n", "x".repeat(22));
    assert_eq!(head_refusal(&bare), Some(StartLineTooLong));
}

#[test]
fn head_size() {
    let head = |value: usize| {
        let value = "x".repeat(value);
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n")
    };
    let most = 60 - head(0).len();
    assert_eq!(head_refusal(&head(most)), None);
    assert_eq!(head_refusal(&head(most + 1)), Some(HeadTooLarge));
    assert_eq!(head_refusal(&head(500)), Some(HeadTooLarge));
    // A second request does not count.
    assert_eq!(head_refusal(&head(most).repeat(3)), None);
}

#[test]
fn number_of_fields() {
    let head = |fields: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "X:\r\n".repeat(fields)
        )
    };
    assert_eq!(head_refusal(&head(2)), None);
    assert_eq!(head_refusal(&head(3)), Some(TooManyFields));
    let largest = HeadLimits {
        fields: 255,
        ..HeadLimits::DEFAULT
    };
    let refusal = |fields| refusal(head(fields).as_bytes(), largest, BodyLimits::DEFAULT);
    assert_eq!(refusal(MAX_FIELDS - 1), None);
    assert_eq!(refusal(MAX_FIELDS), Some(TooManyFields));
}

#[test]
fn one_hundred_thousand_fields_are_refused_early() {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for _ in 0..100_000 {
        head.extend_from_slice(b"X: y\r\n");
    }
    let events = requests_within(HeadLimits::DEFAULT, BodyLimits::DEFAULT, head.chunks(1000));
    assert_eq!(events, [Event::Refused(HeadTooLarge)]);
}

#[test]
fn the_largest_limits_fit_in_an_offset() {
    let limits = HeadLimits {
        start_line: u16::MAX,
        head: u16::MAX,
        fields: u8::MAX,
    };
    let head = |path: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(path));
    let most = usize::from(u16::MAX) - head(0).len();
    for (path, expected) in [(most, None), (most + 1, Some(HeadTooLarge))] {
        let message = head(path);
        for size in [message.len(), 1000] {
            let pieces = message.as_bytes().chunks(size);
            let events = requests_within(limits, BodyLimits::DEFAULT, pieces);
            let refused = expected.map(Event::Refused).unwrap_or(Event::End);
            assert_eq!(events.last(), Some(&refused));
        }
    }
}

#[test]
fn body_size() {
    let limits = BodyLimits {
        body: 5,
        ..BodyLimits::DEFAULT
    };
    let refusal = |head: &str, body: &str| {
        let message = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n{body}");
        refusal(message.as_bytes(), HeadLimits::DEFAULT, limits)
    };
    let too_large = Some(RefusalReason::BodyTooLarge);
    assert_eq!(refusal("Content-Length: 5", "hello"), None);
    assert_eq!(refusal("Content-Length: 6", "hello!"), too_large);
    // Refused before any data was sent.
    assert_eq!(refusal("Content-Length: 1000000000", ""), too_large);
    let chunked = "Transfer-Encoding: chunked";
    assert_eq!(refusal(chunked, "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), None);
    assert_eq!(
        refusal(chunked, "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
        too_large
    );
    assert_eq!(refusal(chunked, "7fffffffffffffff\r\n"), too_large);
}

#[test]
fn trailers_and_extensions() {
    let limits = BodyLimits {
        trailers: 20,
        extensions: 10,
        ..BodyLimits::DEFAULT
    };
    let refusal = |body: &str| {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked";
        let message = format!("{head}\r\n\r\n{body}");
        refusal(message.as_bytes(), HeadLimits::DEFAULT, limits)
    };
    assert_eq!(refusal("0\r\nA: 3456789012345\r\n\r\n"), None);
    assert_eq!(
        refusal("0\r\nA: 34567890123456\r\n\r\n"),
        Some(RefusalReason::TrailersTooLarge)
    );
    assert_eq!(refusal("1;12345\r\na\r\n1;67890\r\nb\r\n0\r\n\r\n"), None);
    let too_long = Some(RefusalReason::ExtensionsTooLong);
    assert_eq!(
        refusal("1;12345\r\na\r\n1;678901\r\nb\r\n0\r\n\r\n"),
        too_long
    );
    let many = format!("0\r\n{}\r\n", "A:\r\n".repeat(101));
    let large = BodyLimits {
        trailers: 8192,
        ..limits
    };
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let message = format!("{head}{many}");
    let events = requests_within(HeadLimits::DEFAULT, large, [message.as_bytes()]);
    assert_eq!(
        events.last(),
        Some(&Event::Refused(RefusalReason::TrailersTooLarge))
    );
}
