//! The clients of a storm: send random requests in random pieces, end in random ways, and check the
//! responses that they read.

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tidegate_testkit::Rng;

use super::link::{Authority, Link};
use super::malformed::{self, POISON};

/// What a request may ask for, besides an upgrade and a response that never comes.
const KINDS: [&str; 12] = [
    "now", "now", "big", "kept", "kept", "stream", "body", "part", "panic", "after", "wrong",
    "drop",
];
/// What a request whose body is refused may ask for.
const TORN: [&str; 4] = ["now", "kept", "body", "part"];

/// The clients of one thread.
pub(super) struct Clients {
    pub(super) address: SocketAddr,
    /// The authority to trust, if the connections are encrypted.
    pub(super) authority: Option<Arc<Authority>>,
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
    /// Its body is refused, so that it is the last one.
    torn: bool,
    /// The status of its refusal, if its head is refused.
    refusal: Option<u16>,
}

/// A client that reads when the others have ended.
struct Reader {
    link: Link,
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
        let Ok(mut link) = Link::connect(self.address, self.authority.as_deref()) else {
            assert!(!self.exact, "the server accepts");
            return None;
        };
        // The end is said by the last request, or by the end of the client's half.
        let says_close = !self.half_close || rng.chance(0.5);
        let (mut bytes, sent) = self.requests(first_tag, says_close, rng);
        let leaves = !self.polite && rng.chance(0.4);
        if leaves {
            bytes.truncate(rng.index(bytes.len() + 1));
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(1 + rng.index(rest.len()));
            if link.write_all(piece).is_err() {
                // The server has ended the connection, or stopped reading from it.
                break;
            }
            rest = more;
        }
        if leaves {
            self.leave(link, rng);
            return None;
        }
        if !says_close {
            link.end_output();
        }
        let whole = rest.is_empty();
        Some(Reader { link, sent, whole })
    }

    /// Returns the bytes of some requests, and those requests for which a response may come. One of
    /// them may be malformed: nothing behind it may be parsed.
    fn requests(&self, first_tag: usize, says_close: bool, rng: &mut Rng) -> (Vec<u8>, Vec<Sent>) {
        let number = 1 + rng.index(10);
        let malformed = rng.chance(0.3).then(|| rng.index(number));
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        for at in 0..number {
            let last = at + 1 == number && says_close;
            let tag = (first_tag + at).to_string();
            if malformed.is_some_and(|malformed| malformed < at) {
                write_request(&mut bytes, POISON, &tag, last, rng);
            } else if malformed == Some(at) {
                sent.push(write_malformed(&mut bytes, tag, rng));
            } else {
                let kind = self.kind(last, rng);
                write_request(&mut bytes, kind, &tag, last, rng);
                let (torn, refusal) = (false, None);
                sent.push(Sent {
                    kind,
                    tag,
                    torn,
                    refusal,
                });
            }
        }
        (bytes, sent)
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

    /// Leaves in the middle: with a reset, with bytes that were not read, or without the end that
    /// belongs to TLS.
    fn leave(&self, mut link: Link, rng: &mut Rng) {
        match rng.index(4) {
            0 => {
                let socket = socket2::SockRef::from(link.socket());
                socket.set_linger(Some(Duration::ZERO)).unwrap();
            }
            1 => drop(link.socket().shutdown(Shutdown::Write)),
            2 => link.end_output(),
            _ => {
                link.socket().set_nonblocking(true).unwrap();
                let _ = link.read(&mut vec![0; 1 + rng.index(1000)]);
            }
        }
    }

    /// Reads to the end, and checks what came.
    fn read(&self, mut reader: Reader) {
        let mut received = Vec::new();
        let mut chunk = [0; 16 * 1024];
        let ended = loop {
            match reader.link.read(&mut chunk) {
                Ok(0) => break Ok(()),
                Ok(read) => received.extend_from_slice(&chunk[..read]),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => break Err(why),
            }
            if is_switched(&received) {
                // The other protocol has no end of its own.
                reader.link.end_output();
            }
        };
        if let Err(why) = &ended {
            assert!(reader.link.is_cut(why), "{why}: {:?}", reader.sent);
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
            over = response.closes
                || request.torn
                || request.kind == "after"
                || response.status == 101;
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

/// Writes a request that is refused, for its head or for its body.
fn write_malformed(bytes: &mut Vec<u8>, tag: String, rng: &mut Rng) -> Sent {
    let torn = rng.chance(0.3);
    let kind = TORN[rng.index(TORN.len())];
    let mut refusal = None;
    if torn {
        malformed::write_body(bytes, kind, &tag, rng);
    } else {
        refusal = Some(malformed::write_head(bytes, rng));
    }
    Sent {
        kind,
        tag,
        torn,
        refusal,
    }
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
        if let Some(refusal) = request.refusal {
            let timeout = self.status == 408 && !exact;
            assert!(self.status == refusal || timeout, "{self:?} to {request:?}");
            return assert!(self.closes, "{request:?}");
        }
        match self.status {
            400 => assert!(request.torn && self.closes, "{request:?}"),
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
