//! The client over real sockets. Most tests are the server themselves: they accept a connection,
//! read the request and write the response.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test an unwrap is an assertion; some servers are threads of their own"
)]

#[cfg(feature = "tls")]
#[path = "../authority/mod.rs"]
mod authority;
mod calls;
mod ends;
mod exchanges;
mod expects;
mod hostile;
mod limits;
mod moves;
mod pressure;
mod redirects;
mod retries;
#[cfg(feature = "tls")]
mod secure;
mod streams;
mod upgrades;
mod wakers;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tidegate_core::{Collect, ManualClock, Metric, MetricVisitor};
use tidegate_http::client::{Client, ClientBuilder, ClientError, Response};
use tidegate_net::NetGroup;
use tidegate_promise::{CancelOnDrop, Completion};

/// How long a server waits for bytes before its test fails.
const PATIENCE: Duration = Duration::from_secs(30);
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that the test plays.
struct Upstream(TcpListener);

impl Upstream {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.0.local_addr().unwrap())
    }

    fn accept(&self) -> Peer {
        let stream = self.0.accept().unwrap().0;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Peer(stream)
    }

    /// Accepts a connection and reads a request.
    fn accept_request(&self) -> Peer {
        let mut peer = self.accept();
        peer.request();
        peer
    }

    /// Begins a call on a new connection and reads its request.
    fn call(&self, client: &Client) -> (CancelOnDrop<Response>, Peer) {
        let call = client.get(self.url("/")).send();
        (call, self.accept_request())
    }

    /// Makes a call whose connection is idle afterwards.
    fn warm(&self, client: &Client) -> Peer {
        let (call, mut peer) = self.call(client);
        peer.finish(call);
        peer
    }
}

/// One connection of a server.
struct Peer(TcpStream);

impl Peer {
    /// Reads a request: its head, and the body that it declares.
    fn request(&mut self) -> String {
        let head = read_head(self);
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        head + &String::from_utf8(body).unwrap()
    }

    /// Reads the request of a call and responds to it.
    fn serve(&mut self, call: CancelOnDrop<Response>) {
        self.request();
        self.finish(call);
    }

    /// Responds to a call whose request was read.
    fn finish(&mut self, call: CancelOnDrop<Response>) {
        self.respond(OK);
        assert_eq!(text(call), "ok");
    }

    fn respond(&mut self, response: &str) {
        self.0.write_all(response.as_bytes()).unwrap();
    }

    /// Waits for the end of the client's side.
    fn wait_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = self.0.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

/// Reads the head of a request.
fn read_head(peer: &mut Peer) -> String {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        peer.0.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    String::from_utf8(got).unwrap()
}

/// Reads until the end of what is `wanted`.
fn read_exactly(peer: &mut Peer, wanted: &str) {
    let mut got = vec![0; wanted.len()];
    peer.0.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), wanted);
}

/// Returns a client with one loop, whose clock the test sets.
fn by_clock() -> (ManualClock, ClientBuilder) {
    let clock = ManualClock::new();
    let group = NetGroup::builder("io").loops(1).clock(&clock);
    let group = group.build().unwrap();
    (clock, Client::builder(&group))
}

fn group(loops: usize) -> NetGroup {
    tidegate_net::pinned("io", loops).unwrap()
}

fn builder() -> ClientBuilder {
    Client::builder(&group(1))
}

fn client() -> Client {
    builder().build()
}

/// Waits for a response and collects its body.
fn text(response: CancelOnDrop<Response>) -> String {
    let body = response.wait().unwrap().collect(1 << 20).wait().unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// How many requests of a client were on connections that were used before, and on new ones.
#[derive(Default)]
struct Counts {
    reused: f64,
    new: f64,
}

impl Counts {
    fn of(client: &Client) -> (f64, f64) {
        let mut counts = Self::default();
        client.collect(&mut counts);
        (counts.reused, counts.new)
    }
}

impl MetricVisitor for Counts {
    fn counter(&mut self, _: Metric, labels: &[(&str, &str)], value: f64) {
        match labels[0].1 {
            "reused" => self.reused += value,
            _ => self.new += value,
        }
    }

    fn gauge(&mut self, _: Metric, _: &[(&str, &str)], _: f64) {}

    fn histogram(&mut self, _: Metric, _: &[(&str, &str)], _: &[(f64, u64)], _: f64) {}
}

/// Waits for a failure.
fn error<T: Send + std::fmt::Debug + 'static>(done: impl Into<Completion<T>>) -> ClientError {
    let done: Completion<T> = done.into();
    let why = done.wait().unwrap_err();
    let why = why.failure().unwrap();
    why.downcast_ref::<ClientError>().unwrap().clone()
}
