//! Bodies: the order of events, and slices instead of copies.

use tidegate_http::codec::{
    BodyEvent, BodyLimits, HeadLimits, HeadTable, RefusalReason, RequestDecoder,
};

fn decoder_after(head: &str) -> RequestDecoder {
    let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
    let mut table = HeadTable::new();
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n");
    assert!(
        decoder
            .head(head.as_bytes(), &mut table)
            .expect("it is accepted")
            .is_some()
    );
    decoder
}

#[test]
fn data_is_a_slice_of_the_received_bytes() {
    let mut decoder = decoder_after("Transfer-Encoding: chunked");
    let received = b"5\r\nhello\r\n6\r\n world\r\n0\r\nA: 1\r\n\r\nGET";
    let mut rest = &received[..];
    let mut next = || {
        let step = decoder.body(rest).unwrap();
        let in_body = decoder.in_body();
        let part = match step.event {
            BodyEvent::Data(range) | BodyEvent::Trailers(range) => &rest[range],
            BodyEvent::More | BodyEvent::End => &[],
        };
        rest = &rest[step.consumed..];
        (part, in_body)
    };
    assert_eq!(next(), (&b"hello"[..], true));
    assert_eq!(next(), (&b" world"[..], true));
    assert_eq!(next(), (&b"A: 1\r\n"[..], true));
    assert_eq!(next(), (&b""[..], false));
    assert_eq!(rest, b"GET");
}

#[test]
fn the_next_head_waits_for_the_end_of_the_body() {
    let mut decoder = decoder_after("Content-Length: 2");
    let mut table = HeadTable::new();
    let next = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(decoder.head(next, &mut table).unwrap().is_none());
    assert_eq!(decoder.body(b"abc").unwrap().event, BodyEvent::Data(0..2));
    assert!(decoder.head(next, &mut table).unwrap().is_none());
    assert_eq!(decoder.body(b"c").unwrap().event, BodyEvent::End);
    assert!(decoder.head(next, &mut table).unwrap().is_some());
}

#[test]
fn lines_of_chunks_are_consumed_as_they_arrive() {
    let mut decoder = decoder_after("Transfer-Encoding: chunked");
    for byte in b"0000000a;name=value\r\n" {
        let step = decoder.body(&[*byte]).unwrap();
        assert_eq!((step.consumed, step.event), (1, BodyEvent::More));
    }
    assert_eq!(decoder.body(b"0123").unwrap().event, BodyEvent::Data(0..4));
}

#[test]
fn an_incomplete_trailer_section_stays_in_the_input() {
    let mut decoder = decoder_after("Transfer-Encoding: chunked");
    let step = decoder.body(b"0\r\nA: ").unwrap();
    assert_eq!((step.consumed, step.event), (3, BodyEvent::More));
    let step = decoder.body(b"A: 1\r\n").unwrap();
    assert_eq!((step.consumed, step.event), (0, BodyEvent::More));
    let step = decoder.body(b"A: 1\r\n\r\nGET").unwrap();
    assert_eq!((step.consumed, step.event), (8, BodyEvent::Trailers(0..6)));
    let step = decoder.body(b"GET").unwrap();
    assert_eq!((step.consumed, step.event), (0, BodyEvent::End));
}

#[test]
fn the_largest_length_is_not_allocated() {
    let mut decoder = decoder_after("Content-Length: 9223372036854775807");
    assert_eq!(decoder.body(b"abc").unwrap().event, BodyEvent::Data(0..3));
    assert_eq!(decoder.end_of_input(), Err(RefusalReason::UnexpectedEnd));
}

#[test]
fn the_largest_chunk_is_not_allocated() {
    let mut decoder = decoder_after("Transfer-Encoding: chunked");
    let step = decoder.body(b"7fffffffffffffff\r\nabc").unwrap();
    assert_eq!(step.event, BodyEvent::Data(18..21));
    assert_eq!(decoder.body(b"d").unwrap().event, BodyEvent::Data(0..1));
}
