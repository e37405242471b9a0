//! Tests of the server over real sockets, through its public names.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test an unwrap is an assertion; the clients have threads of their own"
)]

#[cfg(feature = "async")]
mod asynchronous;
mod attacks;
#[cfg(feature = "tls")]
#[path = "../authority/mod.rs"]
mod authority;
mod blocking;
mod completions;
mod drains;
mod files;
mod leaves;
mod load;
mod memory;
#[cfg(feature = "tls")]
mod secure;
mod upgrades;
mod windows;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tidegate_http::{HttpServer, Request, Response};

/// How long a test waits for bytes before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that reads whole responses, over a socket or over TLS.
struct Client<S = TcpStream> {
    stream: S,
    received: Vec<u8>,
}

impl Client {
    fn of(server: &HttpServer) -> Self {
        Self::connect(server.local_addr())
    }

    fn connect(address: SocketAddr) -> Self {
        Self::over(dial(address))
    }
}

/// Connects to a server.
fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl<S: Read + Write> Client<S> {
    fn over(stream: S) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    fn ask(&mut self, path: &str, body: &str) {
        self.send(get(path));
        assert_eq!(self.response(), (200, body.to_owned()));
    }

    /// Reads a response with a `Content-Length`: its status and its body.
    fn response(&mut self) -> (u16, String) {
        let end = self.read_until(|bytes| {
            let found = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            found.map(|at| at + 4)
        });
        let head = String::from_utf8(self.received[..end].to_vec()).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.unwrap().parse().unwrap();
        self.read_until(|bytes| (bytes.len() >= end + length).then_some(()));
        let body = String::from_utf8(self.received[end..end + length].to_vec()).unwrap();
        self.received.drain(..end + length);
        (head[9..12].parse().unwrap(), body)
    }

    /// Reads to the end of the stream.
    fn rest(mut self) -> String {
        let mut rest = std::mem::take(&mut self.received);
        self.stream.read_to_end(&mut rest).unwrap();
        String::from_utf8(rest).unwrap()
    }

    fn read_until<T>(&mut self, find: impl Fn(&[u8]) -> Option<T>) -> T {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(found) = find(&self.received) {
                return found;
            }
            let read = self.stream.read(&mut chunk).unwrap();
            assert_ne!(read, 0, "the server ended the connection");
            self.received.extend_from_slice(&chunk[..read]);
        }
    }
}

/// Starts a server on one event loop.
fn start(respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static) -> HttpServer {
    start_on(1, respond)
}

fn start_on(
    loops: usize,
    respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
) -> HttpServer {
    let group = tidegate_net::pinned("web", loops).unwrap();
    let server = tidegate_http::serve(&group, "127.0.0.1:0", respond);
    server.wait().unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}
