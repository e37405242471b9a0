//! The lower bound: a bare epoll loop with httparse. It allocates nothing per request, sends the
//! responses to all requests of a read at once, and has no limits, no time limits and no bodies.

use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::time::SystemTime;

use httparse::{Request, Status};
use rustix::event::epoll::EventFlags;
use tidegate_http::codec::HttpDate;

use super::{HELLO, PIECE, PIECES, SERVER, STREAM, TEXT};
use crate::raw_epoll::{LISTENER, RawEpoll};
use crate::served::Running;

/// Bytes that are received at once.
const BUFFER: usize = 64 * 1024;
/// The maximum number of fields of a request.
const FIELDS: usize = 16;

pub(super) fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let replies = Replies {
            body: HELLO.to_owned(),
            stream: stream(),
        };
        serve(&listener, replies);
    });
    Running::peer(address)
}

/// What the server responds with.
pub(crate) struct Replies {
    /// The body of the short response.
    pub(crate) body: String,
    /// The response to `GET /stream`, with its head.
    pub(crate) stream: Vec<u8>,
}

/// What a connection keeps from one event to the next.
#[derive(Default)]
struct Connection {
    /// An incomplete request.
    kept: Vec<u8>,
    /// The streamed response that is being sent.
    streamed: Option<Streamed>,
}

#[derive(Default)]
struct Streamed {
    sent: usize,
    /// The loop watches the socket for room.
    waits: bool,
}

/// The outcome of the requests in a read.
struct Parsed {
    consumed: usize,
    /// The last request asks for the streamed response.
    streams: bool,
    valid: bool,
}

/// Serves until the process ends.
pub(crate) fn serve(listener: &TcpListener, replies: Replies) {
    let mut raw = RawEpoll::new(listener);
    let mut events = Vec::with_capacity(1024);
    let mut buffer = vec![0; BUFFER];
    let mut output = Vec::with_capacity(BUFFER);
    let mut connections: Vec<Connection> = Vec::new();
    let (mut hello, stream) = (Hello::new(replies.body), replies.stream);
    loop {
        if !raw.wait(&mut events) {
            continue;
        }
        hello.refresh();
        for event in &events {
            let place = event.data.u64();
            if place == LISTENER {
                connections.resize_with(raw.accept(), Connection::default);
                continue;
            }
            let place = place as usize;
            let connection = &mut connections[place];
            if connection.streamed.is_some() {
                connection.send_stream(&raw, place, &stream);
                continue;
            }
            let Some(count) = raw.receive(place, &mut buffer) else {
                continue;
            };
            if count == 0 {
                *connection = Connection::default();
                continue;
            }
            output.clear();
            let parsed = connection.parse(&buffer[..count], &hello.response, &mut output);
            if !output.is_empty() {
                raw.send(place, &output);
            }
            if parsed.streams {
                connection.streamed = Some(Streamed::default());
                connection.send_stream(&raw, place, &stream);
            }
            if !parsed.valid {
                *connection = Connection::default();
                raw.close(place);
            }
        }
    }
}

impl Connection {
    /// Handles received bytes, and keeps the rest.
    #[inline]
    fn parse(&mut self, received: &[u8], hello: &[u8], output: &mut Vec<u8>) -> Parsed {
        if self.kept.is_empty() {
            let parsed = respond(received, hello, output);
            if parsed.consumed < received.len() {
                self.kept.extend_from_slice(&received[parsed.consumed..]);
            }
            return parsed;
        }
        self.kept.extend_from_slice(received);
        let parsed = respond(&self.kept, hello, output);
        self.kept.drain(..parsed.consumed);
        parsed
    }

    /// Sends as much of the streamed response as the socket takes.
    fn send_stream(&mut self, raw: &RawEpoll<'_>, place: usize, stream: &[u8]) {
        let Some(streamed) = &mut self.streamed else {
            return;
        };
        while streamed.sent < stream.len() {
            let end = stream.len().min(streamed.sent + PIECE.len());
            match raw.send_some(place, &stream[streamed.sent..end]) {
                0 if streamed.waits => return,
                0 => {
                    streamed.waits = true;
                    return raw.watch(place, EventFlags::OUT);
                }
                count => streamed.sent += count,
            }
        }
        if streamed.waits {
            raw.watch(place, EventFlags::IN);
        }
        self.streamed = None;
    }
}

/// Responds to each complete request in `input`.
#[inline]
fn respond(input: &[u8], hello: &[u8], output: &mut Vec<u8>) -> Parsed {
    let mut parsed = Parsed {
        consumed: 0,
        streams: false,
        valid: true,
    };
    while parsed.consumed < input.len() {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
        let mut request = Request::new(&mut []);
        match request.parse_with_uninit_headers(&input[parsed.consumed..], &mut fields) {
            Ok(Status::Complete(length)) => parsed.consumed += length,
            Ok(Status::Partial) => return parsed,
            Err(_) => {
                parsed.valid = false;
                return parsed;
            }
        }
        if request.path == Some(STREAM) {
            parsed.streams = true;
            return parsed;
        }
        output.extend_from_slice(hello);
    }
    parsed
}

/// The short response, with the date of the current second.
struct Hello {
    body: String,
    response: Vec<u8>,
    second: u64,
}

impl Hello {
    fn new(body: String) -> Self {
        let mut hello = Self {
            body,
            response: Vec::new(),
            second: 0,
        };
        hello.refresh();
        hello
    }

    fn refresh(&mut self) {
        let second = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |time| time.as_secs());
        if second != self.second {
            self.second = second;
            let date = HttpDate::from_unix_seconds(second);
            self.response = format!(
                "HTTP/1.1 200 OK\r\nServer: {SERVER}\r\nContent-Type: {TEXT}\r\n\
                 Content-Length: {}\r\nDate: {}\r\n\r\n{}",
                self.body.len(),
                date.as_str(),
                self.body,
            )
            .into_bytes();
        }
    }
}

/// Returns the streamed response: its head and its chunks.
fn stream() -> Vec<u8> {
    let mut whole =
        format!("HTTP/1.1 200 OK\r\nServer: {SERVER}\r\nTransfer-Encoding: chunked\r\n\r\n")
            .into_bytes();
    for _ in 0..PIECES {
        whole.extend_from_slice(format!("{:x}\r\n", PIECE.len()).as_bytes());
        whole.extend_from_slice(&PIECE);
        whole.extend_from_slice(b"\r\n");
    }
    whole.extend_from_slice(b"0\r\n\r\n");
    whole
}
