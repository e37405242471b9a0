//! Random messages in random pieces: the pieces do not change the events, nothing panics, and what
//! an encoder writes, a decoder reads.

use tidegate_http::codec::{BodyEncoder, BodyFraming, EncodeError, Method, encode};
use tidegate_testkit::{Rng, model, short_or_long};

use crate::connection;
use crate::events::{Event, requests, responses};

const WORDS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"POST /a?b HTTP/1.1\r\n",
    b"CONNECT a:1 HTTP/1.1\r\n",
    b"GET http://a/ HTTP/1.0\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"Host: a\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close, upgrade\r\n",
    b"Expect: 100-continue\r\n",
    b"X: y\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"3\r\nabc\r\n",
    b"3;x=y\r\nabc\r\n",
    b"0\r\n",
    b"abc",
    b":",
    b" ",
    b"\0",
];

/// Generates input that is often almost a message.
fn input(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    if rng.chance(0.8) {
        bytes.extend_from_slice(WORDS[rng.index(5)]);
        bytes.extend_from_slice(WORDS[5]);
    }
    for _ in 0..rng.index(14) {
        match rng.chance(0.95) {
            true => bytes.extend_from_slice(WORDS[rng.index(WORDS.len())]),
            false => bytes.push(rng.next_u64() as u8),
        }
    }
    if !bytes.is_empty() && rng.chance(0.3) {
        let at = rng.index(bytes.len());
        bytes[at] = rng.next_u64() as u8;
    }
    bytes
}

/// Splits `bytes` into random pieces.
fn cut<'a>(rng: &mut Rng, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let most = 1 + rng.index(40);
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at((1 + rng.index(most)).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[test]
fn pieces_do_not_change_the_events() {
    model(0..short_or_long(3_000, 300_000), |rng| {
        let input = input(rng);
        let pieces = cut(rng, &input);
        let text = input.escape_ascii();
        assert_eq!(
            requests(pieces.iter().copied()),
            requests([&input[..]]),
            "{text}"
        );
        for to in [Method::Get, Method::Head, Method::Connect] {
            let whole = responses(to, [&input[..]]);
            assert_eq!(responses(to, pieces.iter().copied()), whole, "{text}");
        }
    });
}

/// The start lines of requests for each way in which the service responds.
const CALLS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"HEAD /s HTTP/1.1\r\n",
    b"GET /s HTTP/1.0\r\n",
    b"POST /c HTTP/1.1\r\n",
    b"POST /d HTTP/1.1\r\n",
    b"PUT /r HTTP/1.1\r\n",
    b"POST /s HTTP/1.1\r\n",
    b"DELETE /d HTTP/1.1\r\n",
    b"GET /x HTTP/1.1\r\n",
];

/// Generates requests of one connection, the last one of which is often wrong.
fn connection_input(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.index(20) {
        bytes.extend_from_slice(CALLS[rng.index(CALLS.len())]);
        bytes.extend_from_slice(b"Host: a\r\n");
        match rng.index(5) {
            0 => bytes.extend_from_slice(b"Content-Length: 3\r\n\r\nabc"),
            1 => {
                let chunks = b"Transfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n";
                bytes.extend_from_slice(chunks);
            }
            2 => bytes.extend_from_slice(b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab"),
            _ => bytes.extend_from_slice(b"\r\n"),
        }
    }
    bytes.extend_from_slice(&input(rng));
    bytes
}

#[test]
fn pieces_do_not_change_what_a_client_of_a_server_gets() {
    model(0..short_or_long(1_000, 100_000), |rng| {
        let input = connection_input(rng);
        connection::check(&input, 1 + rng.index(60));
    });
}

/// Writes a request with this body, in random chunks or with a length.
fn write(rng: &mut Rng, out: &mut Vec<u8>, body: &[u8]) -> Result<(), EncodeError> {
    let framing = match rng.chance(0.5) {
        true => BodyFraming::Chunked,
        false => BodyFraming::Length(body.len() as u64),
    };
    encode::request_line(out, Method::Post, "/x")?;
    encode::field(out, "Host", b"a")?;
    encode::framing(out, framing);
    encode::head_end(out);
    let mut encoder = BodyEncoder::new(framing);
    for piece in cut(rng, body) {
        encoder.data(out, piece)?;
    }
    match framing == BodyFraming::Chunked && rng.chance(0.5) {
        true => encoder.finish_with_trailers(out, &[("T", b"1")]),
        false => encoder.finish(out),
    }
}

#[test]
fn what_is_written_is_read() {
    model(0..short_or_long(300, 30_000), |rng| {
        let mut out = Vec::new();
        let mut bodies = Vec::new();
        for _ in 0..1 + rng.index(4) {
            let body: Vec<u8> = (0..rng.index(60)).map(|_| rng.next_u64() as u8).collect();
            write(rng, &mut out, &body).unwrap();
            bodies.push(body);
        }
        let events = requests(cut(rng, &out));
        let mut read = Vec::new();
        for event in events {
            match event {
                Event::Head(..) => read.push(Vec::new()),
                Event::Data(data) => read.last_mut().unwrap().extend(data),
                Event::Trailers(trailers) => assert_eq!(trailers, [("T".into(), b"1".to_vec())]),
                Event::End => {}
                Event::Refused(reason) => panic!("{reason:?} of {}", out.escape_ascii()),
            }
        }
        assert_eq!(read, bodies);
    });
}
