//! Clients that are slow, cut their requests, or send too much; and what a server holds and
//! allocates. A program of its own, because the counting allocator applies to the whole program.
//! The tests take turns: they measure the memory of the process.
//!
//! With `TIDEGATE_LONG=1` there are 2,000 slow clients of each kind and 10,000 idle connections.
#![cfg(not(any(tidegate_sanitize, miri)))]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test an unwrap is an assertion; the clients are blocking ones"
)]

#[cfg(feature = "tls")]
#[path = "../authority/mod.rs"]
mod authority;
mod cuts;
mod drain;
mod floods;
mod slow;
mod steady;
mod storm;

#[path = "../../../tidegate-testkit/shared/counting.rs"]
mod counting;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_http::{HttpServer, HttpServerBuilder, Request, Response};
use tidegate_loop::Pinned;
use tidegate_net::{ChannelOptions, NetGroup};
use tidegate_testkit::until;

use self::counting::{LIVE, PEAK};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a client waits for bytes before its test fails.
const PATIENCE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

/// A server on one event loop, whose clock the test sets.
struct Served {
    server: HttpServer,
    clock: ManualClock,
    group: NetGroup,
}

impl Served {
    fn new(respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static) -> Self {
        Self::with(|builder| builder, respond)
    }

    fn with(
        change: impl FnOnce(HttpServerBuilder<Pinned>) -> HttpServerBuilder<Pinned>,
        respond: impl Fn(Request<'_>, Response<'_>) + Send + Sync + 'static,
    ) -> Self {
        let clock = ManualClock::new();
        let group = NetGroup::builder("web").loops(1).clock(&clock);
        // Reports of refusals are not of interest here.
        let group = group.on_unhandled(|_, _| ()).build().unwrap();
        let options = ChannelOptions {
            send_buffer: Some(16 * 1024),
            close_timeout: Duration::ZERO,
            ..ChannelOptions::default()
        };
        let builder =
            HttpServer::builder(&group).configure(|net| net.options(options).backlog(4096));
        let server = change(builder).serve("127.0.0.1:0", respond);
        let server = server.wait().unwrap();
        Self {
            server,
            clock,
            group,
        }
    }

    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    fn connect_many(&self, number: usize) -> Vec<Client> {
        let clients = (0..number).map(|_| self.connect()).collect();
        until("all are accepted", || {
            self.server.metrics().connections >= number as u64
        });
        clients
    }

    /// Waits until the server has received `bytes` in all.
    fn await_received(&self, bytes: usize) {
        until("the server has received all bytes", || {
            self.server.metrics().received_bytes >= bytes as u64
        });
    }

    /// Waits until no connection is left.
    fn await_end(&self) {
        until("all connections are closed", || {
            self.server.metrics().connections == 0
        });
    }

    /// Advances time, second by second.
    fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            self.clock.advance(SECOND);
        }
        // The loop has run everything that was due.
        self.group.loops().submit(|| ()).unwrap().wait().unwrap();
    }
}

/// A blocking client.
struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends bytes to a server that may have ended the connection. Returns whether it took them.
    fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Reads so many bytes.
    fn expect(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Requests `/` and expects `hello`.
    fn hello(&mut self) {
        self.send(HELLO);
        let response = self.expect(HELLO_RESPONSE);
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\nhello"), "{response}");
    }

    /// Reads to the end of the stream. A reset counts as the end.
    fn rest(mut self) -> String {
        let mut rest = Vec::new();
        let mut chunk = [0; 16 * 1024];
        while let Ok(read @ 1..) = self.stream.read(&mut chunk) {
            rest.extend_from_slice(&chunk[..read]);
        }
        String::from_utf8(rest).unwrap()
    }
}

const HELLO: &str = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
/// The length of the response to [`HELLO`].
const HELLO_RESPONSE: usize =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\nhello"
        .len();

/// Returns how many of `number` connections this process can have at both ends.
fn connections(number: usize) -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = files.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    number.min(soft.unwrap_or(1024).saturating_sub(200) / 2)
}

/// The memory of the process from the start of a measurement on.
struct Memory {
    before: usize,
}

impl Memory {
    fn start() -> Self {
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        Self { before }
    }

    /// Returns how much more is allocated now than at the start.
    fn held(&self) -> usize {
        LIVE.load(Ordering::Relaxed).saturating_sub(self.before)
    }

    /// Returns how much more was allocated at the worst moment than at the start.
    fn peak(&self) -> usize {
        PEAK.load(Ordering::Relaxed).saturating_sub(self.before)
    }
}
