//! Clients that take all connections of the listener, and send nothing or read nothing.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_net::internal::LocalSocket;

use tidegate_testkit::lacks;

use crate::{Address, Admin, PATIENCE, World, settings, status};

/// The places of the listener.
const PLACES: usize = 256;
/// More than the listener has places.
const FLOOD: usize = 300;

/// Raises the limit of descriptors: each connection has two of them here.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum.unwrap_or(u64::MAX).min(8192);
    let current = Some(limit.current.unwrap_or(u64::MAX).max(current));
    let maximum = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

fn flood(world: &World) -> Vec<LocalSocket> {
    (0..FLOOD).map(|_| world.connect()).collect()
}

/// Begins a stream, and reads its head.
fn stream(world: &World) -> LocalSocket {
    let mut stream = world.connect();
    let head = "GET /hystrix.stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    read_to(&stream, "HTTP/1.1 200");
    stream
}

/// Returns `true` if the listener has closed the connection. Waits for bytes or the end.
fn has_ended(mut stream: &LocalSocket) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(bytes) => bytes == 0,
        Err(why) => why.kind() == ErrorKind::ConnectionReset,
    }
}

/// Reads up to a text.
fn read_to(mut stream: &LocalSocket, text: &str) {
    let mut read = Vec::new();
    while !read.ends_with(text.as_bytes()) {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "it has ended");
        read.extend(byte);
    }
}

/// Reads what has come. Asserts that a stream goes on after that.
fn assert_goes_on(world: &World, stream: &LocalSocket) {
    stream.set_nonblocking(true);
    let mut reader = stream;
    let end = std::iter::repeat_with(|| reader.read(&mut [0; 4096]));
    let end = end.map(|read| read.map(|bytes| assert_ne!(bytes, 0, "it has ended")));
    let why = end.into_iter().find_map(Result::err).unwrap();
    assert_eq!(why.kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false);
    world.clock.advance(Duration::from_millis(500));
    assert!(!has_ended(stream));
}

#[test]
fn probes_are_answered_while_idle_connections_take_all_places() {
    let world = World::new();
    let stream = stream(&world);
    for _ in 0..3 {
        let idle = flood(&world);
        for path in ["/live", "/ready", "/metrics"] {
            assert_eq!(status(&world.get(path)), 200, "{path}");
        }
        // Those that were idle for longest have made room. Those that are left close here.
        assert!(idle[..FLOOD - PLACES].iter().all(has_ended));
    }
    assert_goes_on(&world, &stream);
}

#[test]
fn a_probe_that_has_come_is_answered_whoever_comes_then() {
    let world = World::new();
    let idle = flood(&world);
    let mut probe = world.connect();
    let head = "GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    probe.write_all(head.as_bytes()).unwrap();
    let more = flood(&world);
    let mut response = String::new();
    probe.read_to_string(&mut response).unwrap();
    assert_eq!(status(&response), 200);
    drop((idle, more));
}

/// Half a head is no request.
#[test]
fn a_connection_without_a_request_ends_after_a_short_time() {
    let world = World::new();
    let stream = stream(&world);
    let mut asks = world.connect();
    let head = "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    asks.write_all(head.as_bytes()).unwrap();
    read_to(&asks, "live\n");
    let (idle, mut half) = (world.connect(), world.connect());
    half.write_all(&head.as_bytes()[..20]).unwrap();
    // It has come after them.
    assert_eq!(status(&world.get("/live")), 200);
    world.clock.advance(Duration::from_secs(5));
    assert!(has_ended(&idle));
    let mut rest = String::new();
    let _ = half.read_to_string(&mut rest);
    lacks(&rest, [" 200 "]);
    // The others have sent theirs.
    assert_goes_on(&world, &stream);
    asks.write_all(head.as_bytes()).unwrap();
    read_to(&asks, "live\n");
}

/// A listener on a Unix socket, of which the system buffers little, and its clients.
struct Local {
    world: World,
    path: PathBuf,
}

impl Local {
    fn new(name: &str) -> Self {
        raise_limit();
        let path = format!("tidegate-flood-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        let settings = Admin {
            at: Address::Unix(path.clone()),
            ..settings()
        };
        let world = World::with(&settings).unwrap();
        Self { world, path }
    }

    fn send(&self, text: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let end = "Host: localhost\r\nConnection: close\r\n\r\n";
        let mut stream = self.send(&format!("GET {path} HTTP/1.1\r\n{end}"));
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Opens connections that ask for more than the system buffers, and read one byte of it.
    fn stall(&self, count: usize) -> Vec<UnixStream> {
        let page = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let clients: Vec<_> = (0..count).map(|_| self.send(&page.repeat(16))).collect();
        for mut client in &clients {
            client.read_exact(&mut [0]).unwrap();
        }
        // The turn of the loop in which the responses were written has ended.
        let barrier = self.world.group.loops().next().submit(|| ());
        barrier.unwrap().wait().unwrap();
        clients
    }
}

/// Reads all that was sent. Returns `true` if the listener has closed the connection then.
fn is_closed(mut stream: &UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read_to_end(&mut Vec::new());
    read.map_or_else(|why| why.kind() == ErrorKind::ConnectionReset, |_| true)
}

#[test]
fn probes_are_answered_while_all_places_have_clients_that_do_not_read() {
    let local = Local::new("stalled");
    let mut stream = local.send("GET /hystrix.stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = "HTTP/1.1 200";
    let mut read = vec![0; head.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(read, head.as_bytes());
    let stalled = local.stall(PLACES - 1);
    for path in ["/live", "/ready", "/metrics"] {
        assert_eq!(status(&local.get(path)), 200, "{path}");
    }
    // The one that stalled first has made room.
    tidegate_testkit::until("it is closed", || is_closed(&stalled[0]));
    assert!(!is_closed(&stalled[PLACES - 2]));
    assert!(!is_closed(&stream));
}

/// Of all connections that are not stalled, the probe is idle for longest.
#[test]
fn clients_that_do_not_read_take_no_place_of_a_probe_that_has_come() {
    let local = Local::new("idle");
    let stalled = local.stall(PLACES);
    let mut probe = local.send("");
    let more: Vec<_> = (0..60).map(|_| local.send("")).collect();
    // It has come after them.
    assert_eq!(status(&local.get("/live")), 200);
    probe
        .write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    probe.read_to_string(&mut response).unwrap();
    assert_eq!(status(&response), 200);
    drop((stalled, more));
}
