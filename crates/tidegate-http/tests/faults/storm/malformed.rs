//! Requests that the server refuses, in a pipeline of others.
//!
//! The server sends the responses of the requests before, one refusal, and ends the connection. What
//! follows is not parsed: a request there has the path [`POISON`].

use tidegate_testkit::Rng;

/// The path of the requests that nothing may see.
pub(super) const POISON: &str = "poison";

/// Requests that are refused for their heads, and the status of the refusal.
const HEADS: [(u16, &str); 20] = [
    (400, "GET /x HTTP/1.1\nHost: a\n\n"),
    (400, "\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /x<y HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET  /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "G(T /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /x HTTP/1.10\r\nHost: a\r\n\r\n"),
    (505, "GET /x HTTP/1.2\r\nHost: a\r\n\r\n"),
    (505, "GET /x HTTP/2.0\r\nHost: a\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    (400, "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost : a\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\nline\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n"),
    (400, "GET /x HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n"),
    (
        400,
        "POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
];

/// The same, behind `POST` and `Host`.
const FRAMINGS: [(u16, &str); 11] = [
    (400, "Content-Length: +5\r\n\r\nhello"),
    (400, "Content-Length:\r\n\r\n"),
    (400, "Content-Length: 5, 5\r\n\r\nhello"),
    (400, "Content-Length: 0x5\r\n\r\nhello"),
    (400, "Content-Length: 05\r\n\r\nhello"),
    (400, "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    (400, "Content-Length: 9223372036854775808\r\n\r\n"),
    (
        400,
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (400, "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    (400, "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
    (501, "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
];

/// Chunked bodies that are refused. Each is the whole rest of what can be parsed.
const BODIES: [&str; 9] = [
    "\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\nhello\n0\n\n",
    "5\r\nhello!\r\n0\r\n\r\n",
    "11111111111111111\r\nhello\r\n0\r\n\r\n",
    "5;a\0b\r\nhello\r\n0\r\n\r\n",
    "0\r\nContent-Length: 5\r\n\r\n",
];

/// Writes a request that is refused for its head. Returns the status of the refusal.
pub(super) fn write_head(bytes: &mut Vec<u8>, rng: &mut Rng) -> u16 {
    let at = rng.index(HEADS.len() + FRAMINGS.len());
    let (status, request) = match HEADS.get(at) {
        Some(head) => *head,
        None => {
            bytes.extend_from_slice(b"POST /x HTTP/1.1\r\nHost: a\r\n");
            FRAMINGS[at - HEADS.len()]
        }
    };
    bytes.extend_from_slice(request.as_bytes());
    status
}

/// Writes a request with a valid head and a body that is refused. The service sees its head.
pub(super) fn write_body(bytes: &mut Vec<u8>, kind: &str, tag: &str, rng: &mut Rng) {
    let head =
        format!("POST /{kind}/{tag} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    bytes.extend_from_slice(head.as_bytes());
    if rng.chance(0.5) {
        bytes.extend_from_slice(b"3\r\nabc\r\n");
    }
    bytes.extend_from_slice(BODIES[rng.index(BODIES.len())].as_bytes());
}
