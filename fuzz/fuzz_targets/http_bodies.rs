//! Chunked bodies beside the parser of chunk sizes and trailers of `httparse`: a body that ours
//! accepts has the same data, trailers and length to both, and a body that ours waits for is not
//! complete to the other. Bodies with a length are compared with the bytes themselves.
#![no_main]

use httparse::Status;
use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::http::{Event, requests};
use tidegate_http::codec::RefusalReason;

const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The data and the trailers of a body, and how many bytes it has.
type Whole = (Vec<u8>, Vec<(String, Vec<u8>)>, usize);

fuzz_target!(|data: &[u8]| {
    chunked(data);
    with_length(data);
});

fn chunked(data: &[u8]) {
    let events = requests([&[CHUNKED, data].concat()[..]]);
    let theirs = parse(data);
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    for event in &events[1..] {
        match event {
            Event::Data(data) => body.extend_from_slice(data),
            Event::Trailers(fields) => trailers.clone_from(fields),
            Event::End => {
                let theirs = theirs.expect("ours is the stricter one");
                assert_eq!((&body, &trailers), (&theirs.0, &theirs.1));
                // The next message begins where both see the end.
                let rest = requests([&data[theirs.2..]]);
                let ended = events.iter().position(|event| *event == Event::End);
                assert_eq!(events[ended.map_or(0, |at| at + 1)..], rest[..]);
                return;
            }
            Event::Refused(RefusalReason::UnexpectedEnd) => {
                assert!(theirs.is_none(), "ours waits for a body that is complete");
            }
            Event::Refused(_) => return,
            Event::Head(..) => unreachable!("the first body has no end"),
        }
    }
}

/// Reads a chunked body with the other parser. Returns `None` if it is not complete, or malformed.
fn parse(data: &[u8]) -> Option<Whole> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Ok(Status::Complete((line, size))) = httparse::parse_chunk_size(&data[at..]) else {
            return None;
        };
        at += line;
        if size == 0 {
            break;
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        body.extend_from_slice(data.get(at..end)?);
        if data.get(end..end.checked_add(2)?)? != b"\r\n" {
            return None;
        }
        at = end + 2;
    }
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let Ok(Status::Complete((length, fields))) = httparse::parse_headers(&data[at..], &mut fields)
    else {
        return None;
    };
    let fields = fields
        .iter()
        .map(|field| (field.name.to_owned(), field.value.to_vec()));
    Some((body, fields.collect(), at + length))
}

fn with_length(data: &[u8]) {
    let Some((&length, data)) = data.split_first() else {
        return;
    };
    let length = usize::from(length);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let events = requests([&[head.as_bytes(), data].concat()[..]]);
    let (whole, rest) = data.split_at(length.min(data.len()));
    let mut expected = events[..1].to_vec();
    if !whole.is_empty() {
        expected.push(Event::Data(whole.to_vec()));
    }
    if whole.len() < length {
        assert_eq!(events[..expected.len()], expected[..]);
        assert!(matches!(events[expected.len()..], [Event::Refused(_)]));
        return;
    }
    expected.push(Event::End);
    expected.extend(requests([rest]));
    assert_eq!(events, expected);
}
