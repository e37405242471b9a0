//! HTTP/2 with prior knowledge, spoken by hand.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_hyper::Http;

use crate::{Site, dial, group_by, group_with_hook, read_to_end};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A GET of `path`, without compression by Huffman codes.
pub(crate) fn request(stream: u32, path: &str) -> Vec<u8> {
    // `:method GET`, `:scheme http`, then `:path` and `:authority` as literals.
    let mut block = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend([0x01, 1, b'a']);
    frame(HEADERS, 0x5, stream, &block)
}

/// Connects and begins HTTP/2.
pub(crate) fn begin(mut client: TcpStream) -> TcpStream {
    client.write_all(PREFACE).unwrap();
    client.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    client
}

/// Reads the next frame; `None` if the connection has ended.
fn next(client: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    client.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    client.read_exact(&mut payload).ok()?;
    Some(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
        payload,
    })
}

/// Reads until the end of a stream and returns its data.
fn body_of(client: &mut TcpStream, stream: u32) -> String {
    let mut body = Vec::new();
    loop {
        let got = next(client).unwrap();
        if got.kind == DATA && got.stream == stream {
            body.extend(got.payload);
            if got.flags & 1 != 0 {
                return String::from_utf8(body).unwrap();
            }
        }
    }
}

#[test]
fn requests_of_one_connection_are_served_at_the_same_time() {
    let (site, server) = Site::served();
    let release = site.hold_back();
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/wait")).unwrap();
    client.write_all(&request(3, "/hello")).unwrap();
    assert_eq!(body_of(&mut client, 3), "hello");
    site.log.wait_for(1);
    release.succeed(()).unwrap();
    assert_eq!(body_of(&mut client, 1), "released");
}

#[test]
fn the_preface_may_come_in_parts() {
    let site = Site::default();
    let mut channel = site.embedded(Http::new());
    for part in PREFACE.chunks(5) {
        assert!(channel.sent().is_empty());
        channel.receive(part.to_vec());
    }
    channel.receive(frame(SETTINGS, 0, 0, &[]));
    channel.receive(request(1, "/hello"));
    channel.run();
    let sent = channel.sent();
    assert!(sent.windows(5).any(|part| part == b"hello"), "{sent:?}");
}

#[test]
fn a_service_that_panics_ends_its_stream_and_not_the_others() {
    let site = Site::default();
    let (group, log) = group_with_hook();
    let server = site.serve(Http::new(), &group);
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/panic")).unwrap();
    loop {
        let got = next(&mut client).unwrap();
        if got.kind == RST_STREAM {
            assert_eq!(got.stream, 1);
            break;
        }
    }
    log.wait_for(1);
    let reported = log.take();
    assert!(reported[0].contains("not this request"), "{reported:?}");
    client.write_all(&request(3, "/hello")).unwrap();
    assert_eq!(body_of(&mut client, 3), "hello");
}

#[test]
fn a_drain_sends_goaway_and_lets_requests_finish() {
    let (site, server) = Site::served();
    let release = site.hold_back();
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/wait")).unwrap();
    site.log.wait_for(1);
    let drained = server.drain(Duration::from_secs(3600));
    let mut body = None;
    let mut release = Some(release);
    while let Some(got) = next(&mut client) {
        match got.kind {
            // The server asks whether the client knows of the end.
            PING if got.flags & 1 == 0 => {
                client.write_all(&frame(PING, 1, 0, &got.payload)).unwrap();
            }
            GOAWAY => {
                if let Some(release) = release.take() {
                    release.succeed(()).unwrap();
                }
            }
            DATA if got.stream == 1 && !got.payload.is_empty() => body = Some(got.payload),
            _ => {}
        }
    }
    assert_eq!(body.as_deref(), Some(&b"released"[..]));
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 0));
}

#[test]
fn the_deadline_of_a_drain_ends_a_client_that_does_not_reply() {
    let clock = ManualClock::new();
    let (site, group) = (Site::default(), group_by(&clock));
    let server = site.serve(Http::new(), &group);
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/hello")).unwrap();
    assert_eq!(body_of(&mut client, 1), "hello");
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(9));
    assert!(!drained.is_done());
    clock.advance(Duration::from_secs(1));
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 1));
    while next(&mut client).is_some() {}
}

#[test]
fn requests_that_hang_end_with_their_connection() {
    let clock = ManualClock::new();
    let (site, group) = (Site::default(), group_by(&clock));
    let server = site.serve(Http::new(), &group);
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/hang")).unwrap();
    site.log.wait_for(1);
    client.write_all(&request(3, "/body/hangs")).unwrap();
    while next(&mut client).unwrap().kind != DATA {}
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(10));
    assert_eq!(drained.wait().unwrap().closed_at_deadline.len(), 1);
    site.log.wait_for(3);
    assert_eq!(site.log.take(), ["hangs", "dropped", "dropped"]);
}

#[test]
fn a_stream_that_its_client_resets_ends_its_request_and_not_the_others() {
    let (site, server) = Site::served();
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/hang")).unwrap();
    site.log.wait_for(1);
    let cancel = frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
    client.write_all(&cancel).unwrap();
    site.log.wait_for(2);
    assert_eq!(site.log.take(), ["hangs", "dropped"]);
    client.write_all(&request(3, "/hello")).unwrap();
    assert_eq!(body_of(&mut client, 3), "hello");
}

#[test]
fn a_body_that_panics_ends_its_stream_and_not_the_others() {
    let site = Site::default();
    let (group, log) = group_with_hook();
    let server = site.serve(Http::new(), &group);
    let mut client = begin(dial(&server));
    client.write_all(&request(1, "/body/panics")).unwrap();
    log.wait_for(1);
    let reported = log.take();
    assert!(reported[0].contains("not this body"), "{reported:?}");
    client.write_all(&request(3, "/hello")).unwrap();
    assert_eq!(body_of(&mut client, 3), "hello");
}

#[test]
fn a_preface_that_goes_wrong_is_not_http() {
    let (_site, server) = Site::served();
    let mut client = dial(&server);
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
        .unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let response = read_to_end(&mut client);
    assert!(!response.contains("200"), "{response}");
}
