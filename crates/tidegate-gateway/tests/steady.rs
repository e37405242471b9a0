//! What a request allocates, and what unfinished requests hold. A program of its own, because the
//! counting allocator applies to the whole program. The tests take turns: they measure the same memory.
#![cfg(not(any(tidegate_sanitize, miri)))]
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

#[path = "../../tidegate-testkit/shared/counting.rs"]
mod counting;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use tidegate::isolate::Isolation;
use tidegate::net::NetGroup;
use tidegate_gateway::config::{Config, Disk, load};
use tidegate_gateway::serve::Gateway;
use tidegate_testkit::until;

use self::counting::{ALLOCATED, BYTES, LIVE, PEAK};

static TURN: Mutex<()> = Mutex::new(());

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// How many requests are counted.
const REQUESTS: u64 = 1000;
/// What the loop allocates now and then, whatever requests do: larger memory for reads, for example.
const SPARE: u64 = REQUESTS / 20;

/// What some hundred reloads may leave: less than 100 bytes of each.
const LEFT: usize = 32 * 1024;

/// One file.
struct OneFile(String);

impl Disk for OneFile {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.clone())
    }
}

/// A gateway on one loop, with one route to a server that the test plays.
struct Served {
    gateway: Gateway,
    group: NetGroup,
    isolation: Isolation,
    back: TcpListener,
}

impl Served {
    fn new(settings: &str) -> Self {
        let back = TcpListener::bind("127.0.0.1:0").unwrap();
        let group = NetGroup::builder("gateway").loops(1).build().unwrap();
        let isolation = Isolation::builder().build().unwrap();
        let gateway = Gateway::start(config(&back, settings), &group, &isolation).unwrap();
        Self {
            gateway,
            group,
            isolation,
            back,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.gateway.addresses()[0].1).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn accept(&self) -> TcpStream {
        let stream = self.back.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn active(&self) -> usize {
        let snapshots = self.isolation.snapshots();
        snapshots.iter().map(|one| one.active).sum()
    }

    /// Returns what the loop has allocated so far.
    fn allocated(&self) -> u64 {
        let task = self.group.loops().next().submit(|| ALLOCATED.get());
        task.unwrap().wait().unwrap()
    }

    /// Returns how many allocations of the loop `request` causes, in the mean, without the spare ones.
    fn count(&self, mut request: impl FnMut()) -> u64 {
        (0..REQUESTS).for_each(|_| request());
        let before = self.allocated();
        (0..REQUESTS).for_each(|_| request());
        let after = self.allocated();
        (after - before).saturating_sub(SPARE).div_ceil(REQUESTS)
    }
}

/// Returns the configuration with one route to `back`.
fn config(back: &TcpListener, settings: &str) -> Config {
    let server = back.local_addr().unwrap();
    let text = format!(
        "[listen]\nhttp = \"127.0.0.1:0\"\n[upstream.back]\nservers = [\"{server}\"]\n\
         [route.shop]\nupstream = \"back\"\n{settings}\n"
    );
    let loaded = load(Path::new("/tidegate.toml"), &OneFile(text), &|_| None).unwrap();
    loaded.config.unwrap()
}

/// Reads up to this end.
fn read_to(stream: &mut TcpStream, end: &[u8]) {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    while !all.ends_with(end) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "it has ended");
        all.extend_from_slice(&piece[..count]);
    }
}

/// All memory of a request is used again: its state, heads, buffers, connections, permits. What needs
/// memory of its own has it here, by name.
#[test]
fn a_request_that_is_passed_on_allocates_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const POST: &[u8] = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    const CHUNKS: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let rewrite = "path = \"/{x}\"\nrewrite = { path = \"/b/{x}\", request = { x-a = \"1\" } }";
    let attempts = "retry = { times = 1, attempt_timeout = \"5s\" }";
    for (settings, request, response, most) in [
        ("", GET, OK, 0),
        ("breaker = true", GET, OK, 0),
        ("limit = 5\nqueue = 3", GET, OK, 0),
        ("breaker = true\nretry = 1", GET, OK, 0),
        ("server_timing = true", GET, OK, 0),
        // The new path, and the old one for the access log.
        (rewrite, GET, OK, 2),
        // The timer of the attempt, and what tells the client's time from the server's.
        (attempts, GET, OK, 2),
        // The pieces on their way to the connection.
        ("", GET, CHUNKS, 3),
        // The pieces on their way to the server, and a copy in case they have to be sent again.
        ("", POST, OK, 6),
    ] {
        let count = count_passed(settings, request, response);
        assert!(count <= most, "{settings:?}: {count}");
    }
}

/// Returns how many allocations a request causes whose response is this one.
fn count_passed(settings: &str, request: &[u8], response: &[u8]) -> u64 {
    let end = &response[response.len() - 2..];
    let served = Served::new(settings);
    let mut client = served.connect();
    client.write_all(request).unwrap();
    let mut server = served.accept();
    read_to(&mut server, &request[request.len() - 4..]);
    server.write_all(response).unwrap();
    read_to(&mut client, end);
    served.count(|| {
        client.write_all(request).unwrap();
        read_to(&mut server, &request[request.len() - 4..]);
        server.write_all(response).unwrap();
        read_to(&mut client, end);
    })
}

/// Its route refuses it before anything is made for it: what remains are the texts of the response.
#[test]
fn a_request_that_is_refused_allocates_its_response_only() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut counts = Vec::new();
    for settings in ["limit = 1", "limit = 1\nretry = 1"] {
        let served = Served::new(settings);
        let mut busy = served.connect();
        busy.write_all(GET).unwrap();
        let mut holds = served.accept();
        read_to(&mut holds, b"\r\n\r\n");
        let mut client = served.connect();
        counts.push(served.count(|| {
            client.write_all(GET).unwrap();
            read_to(&mut client, b"limit shop\n");
        }));
    }
    assert!(counts[0] <= 5, "{counts:?}");
    assert_eq!(counts[0], counts[1], "retries begin after the admission");
}

#[test]
fn unfinished_requests_hold_little_and_leave_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const CLIENTS: usize = 200;
    let served = Served::new("limit = 1000");
    let begin = |text: &str| {
        let mut client = served.connect();
        client.write_all(text.as_bytes()).unwrap();
        client
    };
    let half = "GET /a HTTP/1.1\r\nHost: a\r\nX-Long: ";
    let body = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nxx";
    let round = || {
        let heads: Vec<_> = (0..CLIENTS).map(|_| begin(half)).collect();
        let bodies: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let client = begin(body);
                let mut server = served.accept();
                read_to(&mut server, b"xx");
                (client, server)
            })
            .collect();
        assert_eq!(served.active(), CLIENTS);
        drop((heads, bodies));
        until("all requests have ended", || served.active() == 0);
    };
    // What is kept for the next connections is there.
    round();
    round();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    round();
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(
        peak < 3 * CLIENTS * 16 * 1024,
        "{peak} bytes for {CLIENTS} clients of each kind"
    );
    until("their memory is free", || {
        LIVE.load(Ordering::Relaxed) < before + 256 * 1024
    });
    assert!(BYTES.get() < 16 << 20, "the test itself holds little");
}

/// Each reload changes a route, adds a new one and removes the last new one, each with an upstream, a
/// breaker and metrics of its own.
#[test]
fn reloads_leave_no_memory() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let served = Served::new("limit = 100");
    let mut client = served.connect();
    let mut server = None;
    let mut reload = |number: usize| {
        let limit = 100 + number % 2;
        let settings = format!(
            "limit = {limit}\nbreaker = {{ }}\n[upstream.new{number}]\nservers = \"127.0.0.1:1\"\n\
             [route.new{number}]\npath = \"/new{number}\"\nupstream = \"new{number}\"\nbreaker = {{ }}\n"
        );
        served
            .gateway
            .reload(config(&served.back, &settings))
            .unwrap();
        client.write_all(GET).unwrap();
        let server = server.get_or_insert_with(|| served.accept());
        read_to(server, b"\r\n\r\n");
        server.write_all(OK).unwrap();
        read_to(&mut client, b"ok");
    };
    // What is kept from now on is there.
    (1000..1100).for_each(&mut reload);
    let live = || LIVE.load(Ordering::Relaxed);
    let before = live();
    (1100..1500).for_each(&mut reload);
    until("the memory of 400 reloads is free", || {
        live() < before + LEFT
    });
    assert_eq!(served.isolation.snapshots().len(), 2);
}
