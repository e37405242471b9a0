//! The clients of a storm: send random requests in random pieces, end in random ways, and check the
//! responses that they read.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use std::time::Duration;

use tidegate_testkit::Rng;

use crate::PATIENCE;

/// What a request may ask for, besides an upgrade and a response that never comes.
const KINDS: [&str; 12] = [
    "now", "now", "big", "kept", "kept", "stream", "body", "part", "panic", "after", "wrong",
    "drop",
];

/// The clients of one thread.
pub(super) struct Clients {
    pub(super) address: SocketAddr,
    pub(super) exact: bool,
    pub(super) polite: bool,
    pub(super) half_close: bool,
    /// Tags are different, so that a response cannot be taken for another one.
    pub(super) first_tag: usize,
}

/// A request, as a client remembers it.
#[derive(Debug)]
struct Sent {
    kind: &'static str,
    tag: String,
}

/// A client that reads when the others have ended.
struct Reader {
    stream: TcpStream,
    sent: Vec<Sent>,
    /// Everything was sent, and the client has not said that it leaves.
    whole: bool,
}

impl Clients {
    /// Runs so many clients, and reports the end of each.
    pub(super) fn run(&self, number: usize, rng: &mut Rng, ended: &Sender<()>) {
        let mut late = Vec::new();
        for at in 0..number {
            let reader = self.attack(self.first_tag + at * 1000, rng);
            match reader {
                Some(reader) if rng.chance(0.3) => late.push(reader),
                Some(reader) => self.read(reader),
                None => {}
            }
            let _ = ended.send(());
        }
        for reader in late {
            self.read(reader);
        }
    }

    /// Sends requests. Returns the client if it wants its responses.
    fn attack(&self, first_tag: usize, rng: &mut Rng) -> Option<Reader> {
        let Ok(mut stream) = TcpStream::connect(self.address) else {
            assert!(!self.exact, "the server accepts");
            return None;
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let number = 1 + rng.index(10);
        // The end is said by the last request, or by a half-close.
        let says_close = !self.half_close || rng.chance(0.5);
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        for at in 0..number {
            let last = at + 1 == number;
            let tag = (first_tag + at).to_string();
            let kind = self.kind(last && says_close, rng);
            write_request(&mut bytes, kind, &tag, last && says_close, rng);
            sent.push(Sent { kind, tag });
        }
        let leaves = !self.polite && rng.chance(0.4);
        if leaves {
            bytes.truncate(rng.index(bytes.len() + 1));
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(1 + rng.index(rest.len()));
            if stream.write_all(piece).is_err() {
                // The server has ended the connection, or stopped reading from it.
                break;
            }
            rest = more;
        }
        if leaves {
            self.leave(stream, rng);
            return None;
        }
        if !says_close {
            let _ = stream.shutdown(Shutdown::Write);
        }
        let whole = rest.is_empty();
        Some(Reader {
            stream,
            sent,
            whole,
        })
    }

    fn kind(&self, may_upgrade: bool, rng: &mut Rng) -> &'static str {
        match rng.index(20) {
            0 if !self.exact => "never",
            1 if may_upgrade => "upgrade",
            // Most connections live for some requests.
            2..=10 => "now",
            _ => KINDS[rng.index(KINDS.len())],
        }
    }

    /// Leaves in the middle: with a reset, or with bytes that were not read.
    fn leave(&self, mut stream: TcpStream, rng: &mut Rng) {
        match rng.index(3) {
            0 => {
                let socket = socket2::SockRef::from(&stream);
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
            1 => drop(stream.shutdown(Shutdown::Write)),
            _ => {
                stream.set_nonblocking(true).unwrap();
                let _ = stream.read(&mut vec![0; 1 + rng.index(1000)]);
            }
        }
    }

    /// Reads to the end, and checks what came.
    fn read(&self, mut reader: Reader) {
        let mut received = Vec::new();
        let mut chunk = [0; 16 * 1024];
        let ended = loop {
            match reader.stream.read(&mut chunk) {
                Ok(0) => break Ok(()),
                Ok(read) => received.extend_from_slice(&chunk[..read]),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => break Err(why),
            }
            if is_switched(&received) {
                // The other protocol has no end of its own.
                let _ = reader.stream.shutdown(Shutdown::Write);
            }
        };
        if let Err(why) = &ended {
            let reset = why.kind() == ErrorKind::ConnectionReset;
            assert!(reset, "{why}: {:?}", reader.sent);
        }
        self.check(&reader, &received, ended.is_ok());
    }

    /// Checks that the responses are those to the first requests, in their order.
    fn check(&self, reader: &Reader, received: &[u8], orderly: bool) {
        let sent = &reader.sent;
        let (mut rest, mut count, mut over) = (received, 0, false);
        while !rest.is_empty() {
            let Some((response, more)) = Response::parse(rest) else {
                // Cut in the middle of a response.
                over = true;
                break;
            };
            rest = more;
            if response.status == 100 {
                continue;
            }
            assert!(!over, "a response after the last: {sent:?} {count}");
            let request = sent.get(count);
            let request = request.unwrap_or_else(|| panic!("{count} responses to {sent:?}"));
            count += 1;
            response.check(request, self.exact);
            over = response.closes || request.kind == "after" || response.status == 101;
            if response.status == 101 {
                break;
            }
        }
        if self.exact && reader.whole && !over {
            assert_eq!(count, sent.len(), "{sent:?}, orderly: {orderly}");
        }
    }
}

fn is_switched(received: &[u8]) -> bool {
    received.windows(13).any(|part| part == b"HTTP/1.1 101 ")
}

/// Writes a request.
fn write_request(bytes: &mut Vec<u8>, kind: &str, tag: &str, last: bool, rng: &mut Rng) {
    let has_body = matches!(kind, "body" | "part") || rng.chance(0.1);
    let method = if has_body { "POST" } else { "GET" };
    bytes.extend_from_slice(format!("{method} /{kind}/{tag} HTTP/1.1\r\nHost: a\r\n").as_bytes());
    match kind {
        "upgrade" => bytes.extend_from_slice(b"Connection: upgrade\r\nUpgrade: echo\r\n"),
        _ if last => bytes.extend_from_slice(b"Connection: close\r\n"),
        _ => {}
    }
    if has_body && rng.chance(0.2) {
        bytes.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    let body = vec![b'x'; rng.index(3000)];
    if !has_body {
        bytes.extend_from_slice(b"\r\n");
    } else if rng.chance(0.5) {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(&body);
    } else {
        bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(1 + rng.index(1000)) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
}

/// A response, as a client reads it.
#[derive(Debug)]
struct Response {
    status: u16,
    closes: bool,
    body: Vec<u8>,
}

impl Response {
    /// Parses the first response, and returns what follows it; `None` if it is not complete.
    fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        let status = head[9..12].parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let rest = &bytes[end..];
        let (body, rest) = match length {
            Some(length) => {
                let length: usize = length.parse().unwrap();
                (rest.get(..length)?.to_vec(), &rest[length..])
            }
            None if head.contains("Transfer-Encoding: chunked") => chunks(rest)?,
            None => (Vec::new(), rest),
        };
        let closes = head.contains("Connection: close");
        let response = Self {
            status,
            closes,
            body,
        };
        Some((response, rest))
    }

    fn check(&self, request: &Sent, exact: bool) {
        let kind = request.kind;
        match self.status {
            200 | 201 => {
                let body = std::str::from_utf8(&self.body).unwrap();
                assert_eq!(body.trim_end_matches('.'), request.tag, "{request:?}");
                assert!(!matches!(kind, "panic" | "wrong" | "drop" | "never"));
            }
            101 => assert_eq!(kind, "upgrade"),
            500 => {
                assert!(!matches!(kind, "now" | "big" | "after"), "{request:?}");
                assert!(self.closes, "{request:?}");
            }
            503 => assert!(!exact && self.closes, "{request:?}"),
            408 => assert!(!exact && self.closes, "{request:?}"),
            other => panic!("status {other} for {request:?}"),
        }
    }
}

/// Decodes a chunked body. Returns it with what follows, or `None` if it is not complete.
fn chunks(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let data = rest.get(line + 2..line + 2 + size)?;
        rest = rest.get(line + 2 + size + 2..)?;
        if size == 0 {
            return Some((body, rest));
        }
        body.extend_from_slice(data);
    }
}
