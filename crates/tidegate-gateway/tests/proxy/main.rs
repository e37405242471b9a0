//! The gateway over pairs of channels within the process, and over sockets for what only sockets have.
//! The tests play the clients and the servers; time is a manual clock.
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod again;
mod balances;
mod counts;
mod ends;
mod fails;
mod fallbacks;
mod faults;
mod health;
mod hung;
mod identity;
mod interim;
mod late;
mod limits;
mod loaded;
mod local;
mod logs;
mod mismatched;
mod moves;
mod names;
mod operates;
mod operation;
mod passes;
mod probes;
mod process;
mod refuses;
mod reloads;
mod repeats;
mod retries;
mod secrets;
mod secure;
mod servers;
mod settings;
mod stale;
mod starved;
mod steps;
mod storm;
mod streams;
mod trailers;
mod trust;
mod tunnels;
mod undone;
mod words;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use tidegate::ManualClock;
use tidegate::isolate::{Event, Isolation};
use tidegate::net::NetGroup;
use tidegate::promise::Completion;
use tidegate_gateway::config::{Config, Disk, load};
use tidegate_gateway::serve::{Gateway, Summary};

use steps::{pass, serve_first, with_other};
use streams::{Listener, Stream, Wires};

/// How long a test waits for bytes before it fails.
const PATIENCE: Duration = Duration::from_secs(30);
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// The same, on a connection that ends with it.
const OK_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
const GET: &str = "GET /a HTTP/1.1\r\nHost: shop.example\r\n\r\n";

/// One file.
struct OneFile<'a>(&'a str);

impl Disk for OneFile<'_> {
    fn read(&self, _: &Path) -> io::Result<String> {
        Ok(self.0.to_owned())
    }
}

/// Returns the configuration of a text, with a listener.
fn config(text: &str) -> Config {
    let text = format!("[listen]\nhttp = \"127.0.0.1:0\"\n{text}");
    let loaded = load(Path::new("/tidegate.toml"), &OneFile(&text), &|_| None).unwrap();
    let mistakes = loaded.mistakes.render(&loaded.sources);
    loaded.config.unwrap_or_else(|| panic!("{mistakes}"))
}

/// A gateway, usually on one loop.
struct Fixture {
    gateway: Gateway,
    isolation: Isolation,
    clock: ManualClock,
    group: NetGroup,
    wires: Wires,
}

impl Fixture {
    fn new(text: &str) -> Self {
        Self::with_loops(text, 1)
    }

    /// Makes one that is connected with sockets.
    fn on_sockets(text: &str) -> Self {
        Self::with(text, 1, Wires::Sockets)
    }

    fn with_loops(text: &str, loops: usize) -> Self {
        Self::with(text, loops, Wires::Local)
    }

    fn with(text: &str, loops: usize, wires: Wires) -> Self {
        let clock = ManualClock::new();
        let group = group("gateway", loops, wires, &clock);
        let isolation = Isolation::builder().clock(&clock).build().unwrap();
        let gateway = Gateway::start(config(text), &group, &isolation).unwrap();
        Self {
            gateway,
            isolation,
            clock,
            group,
            wires,
        }
    }

    /// Makes a gateway with one route to these servers.
    fn with_route(servers: &[&Upstream], settings: &str) -> Self {
        Self::new(&route(servers, settings))
    }

    /// Makes a server, and a gateway with one route to it.
    fn of(settings: &str) -> (Upstream, Self) {
        let back = Upstream::new();
        let fixture = Self::with_route(&[&back], settings);
        (back, fixture)
    }

    fn address(&self) -> String {
        self.gateway.addresses()[0].1.clone()
    }

    /// Connects to a listener.
    fn connect(&self, address: &str) -> Peer {
        Peer::new(self.wires.connect(address).unwrap())
    }

    /// Returns `true` if nothing listens there.
    fn refuses(&self, address: &str) -> bool {
        self.wires.connect(address).is_err()
    }

    /// Announces the end for so many seconds, and gives the requests so many.
    fn drain(&self, announce: u64, deadline: u64) -> Completion<Summary> {
        let times = [announce, deadline].map(Duration::from_secs);
        self.gateway.drain(times[0], times[1])
    }

    /// Does `work` while the loop is busy, so that the loop finds all that has come in one turn, in
    /// this order.
    fn in_one_turn(&self, work: impl FnOnce()) {
        self.while_busy(0, work);
    }

    /// Does `work` while one of the loops is busy.
    fn while_busy(&self, home: usize, work: impl FnOnce()) {
        let (free, busy) = std::sync::mpsc::channel::<()>();
        let (begun, begins) = std::sync::mpsc::channel::<()>();
        let home = self.group.loops().iter().nth(home).unwrap();
        let task = home.submit(move || {
            drop(begun);
            let _ = busy.recv();
        });
        let _ = begins.recv();
        work();
        drop(free);
        task.unwrap().wait().unwrap();
    }

    /// Returns the requests in flight at each server of the first upstream.
    fn in_flight(&self) -> Vec<usize> {
        let servers = &self.gateway.upstreams()[0].servers;
        servers.iter().map(|server| server.in_flight).collect()
    }

    /// Sends a request that its server gets so many times, and to which it never responds.
    #[track_caller]
    fn fails(&self, back: &Upstream, times: usize) {
        let mut client = self.send(GET);
        for _ in 0..times {
            back.accept().message();
        }
        assert_eq!(client.message().status(), "502");
        assert!(back.is_quiet());
    }

    /// Reads this configuration. Returns what takes effect only after a restart.
    #[track_caller]
    fn reload(&self, text: &str) -> Vec<String> {
        self.gateway.reload(config(text)).unwrap()
    }

    /// Reads this configuration, which cannot be used. Returns the reason.
    #[track_caller]
    fn reload_fails(&self, text: &str) -> String {
        let failed = self.gateway.reload(config(text));
        failed.unwrap_err().to_string()
    }
}

impl Serves for Fixture {
    fn client(&self) -> Peer {
        self.connect(&self.address())
    }

    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

/// A gateway, its clients and its servers.
trait Serves {
    /// Connects to the listener for requests.
    fn client(&self) -> Peer;

    fn isolation(&self) -> &Isolation;

    fn clock(&self) -> &ManualClock;

    /// Sends a request on a connection of its own and returns the connection.
    fn send(&self, request: &str) -> Peer {
        let mut client = self.client();
        client.write(request);
        client
    }

    /// Sends a request, which the server reads. Returns both ends.
    fn open(&self, request: &str, back: &Upstream) -> (Peer, Peer) {
        let (client, mut server) = self.reach(request, back);
        server.message();
        (client, server)
    }

    /// Sends a request, for which the gateway connects to the server. Returns both ends.
    fn reach(&self, request: &str, back: &Upstream) -> (Peer, Peer) {
        let client = self.send(request);
        (client, back.accept())
    }

    /// Sends a request, of which the server reads the head. Returns both ends.
    fn begin(&self, request: &str, back: &Upstream) -> (Peer, Peer) {
        let (client, mut server) = self.reach(request, back);
        server.head();
        (client, server)
    }

    /// Sends a request that the server serves, on a connection that ends with it.
    fn served_by(&self, back: &Upstream) {
        let (mut client, mut server) = self.reach(GET, back);
        server.serve_last(&mut client);
    }

    /// Sends a request that the gateway refuses for this reason.
    #[track_caller]
    fn refusal(&self, request: &str, reason: &str) -> Message {
        let refused = self.send(request).message();
        assert_eq!(refused.field("tidegate-refused"), Some(reason));
        refused
    }

    /// Sends a request that has a response with this status.
    #[track_caller]
    fn responds(&self, status: &str) {
        assert_eq!(self.send(GET).message().status(), status);
    }

    /// Returns how often this has happened to the calls of all commands.
    fn total(&self, event: Event) -> u64 {
        let snapshots = self.isolation().snapshots();
        snapshots.iter().map(|one| one.totals[event]).sum()
    }

    /// Returns the requests in flight.
    fn active(&self) -> usize {
        let snapshots = self.isolation().snapshots();
        snapshots.iter().map(|one| one.active).sum()
    }

    /// Waits until every request has given its permit back and is counted, which comes after it.
    fn wait_idle(&self) {
        tidegate_testkit::until("no request is in flight", || self.active() == 0);
        self.clock().settle();
    }

    /// Waits until a request of the first route is in the queue.
    fn until_one_waits(&self) {
        let waiting = || self.isolation().snapshots()[0].waiting == 1;
        tidegate_testkit::until("a request waits", waiting);
    }
}

/// Makes event loops on a manual clock.
fn group(name: &str, loops: usize, wires: Wires, clock: &ManualClock) -> NetGroup {
    let group = NetGroup::builder(name).loops(loops).clock(clock);
    let group = match wires.network() {
        Some(network) => group.local_network(network),
        None => group,
    };
    group.build().unwrap()
}

/// Returns the sections of one route to these servers.
fn route(servers: &[&Upstream], settings: &str) -> String {
    let all: Vec<String> = servers
        .iter()
        .map(|one| format!("\"{}\"", one.address()))
        .collect();
    let all = all.join(", ");
    format!(
        "[upstream.back]\nservers = [{all}]\nbalance = \"round_robin\"\n\
         [route.shop]\nupstream = \"back\"\n{settings}\n"
    )
}

/// A server that the test plays.
struct Upstream(Listener);

impl Upstream {
    fn new() -> Self {
        Self::at("127.0.0.1:0")
    }

    /// Makes one that listens here.
    fn at(address: &str) -> Self {
        Self(Wires::Local.listen(address).unwrap())
    }

    /// Makes one with a socket.
    fn on_socket() -> Self {
        Self::with(Wires::Sockets)
    }

    fn with(wires: Wires) -> Self {
        Self(wires.listen("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> String {
        self.0.local_addr().to_string()
    }

    fn accept(&self) -> Peer {
        Peer::new(self.0.accept_patiently())
    }

    /// Accepts a connection and reads its request.
    fn accept_asked(&self) -> Peer {
        let mut peer = self.accept();
        peer.message();
        peer
    }

    /// Accepts a connection and reads the head of its request.
    fn accept_head(&self) -> Peer {
        let mut peer = self.accept();
        peer.head();
        peer
    }

    /// Accepts a connection if one waits.
    fn try_accept(&self) -> Option<Peer> {
        self.0.try_accept().ok().map(Peer::new)
    }

    /// Stops listening. As long as a connection of it lives, no other test gets its port.
    fn stop(self) -> (Stream, Peer) {
        let wires = match &self.0 {
            Listener::Local(_) => Wires::Local,
            Listener::Tcp(_) => Wires::Sockets,
        };
        let held = wires.connect(self.address()).unwrap();
        (held, self.accept())
    }

    /// Returns `true` if no connection waits to be accepted.
    fn is_quiet(&self) -> bool {
        self.try_accept().is_none()
    }
}

/// Connects to a listener with a socket.
fn connect_to(address: impl std::net::ToSocketAddrs) -> Peer {
    Peer::new(TcpStream::connect(address).unwrap())
}

/// The test's end of a connection.
struct Peer(Stream);

impl Peer {
    fn new(stream: impl Into<Stream>) -> Self {
        let stream = stream.into();
        stream.set_timeout(Some(PATIENCE));
        if let Stream::Tcp(socket) = &stream {
            socket.set_nodelay(true).unwrap();
        }
        Self(stream)
    }

    fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    /// Sends bytes, which the other one gets.
    #[track_caller]
    fn sends(&mut self, text: &str, other: &mut Self) {
        self.write(text);
        assert_eq!(other.bytes(text.len()), text);
    }

    /// Reads a head, to its empty line.
    fn head(&mut self) -> String {
        let mut got = Vec::new();
        while !got.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let read = self.0.read(&mut byte).unwrap();
            assert_eq!(read, 1, "ended after {:?}", String::from_utf8_lossy(&got));
            got.push(byte[0]);
        }
        String::from_utf8(got).unwrap()
    }

    /// Reads a message whose length is declared, or that has no body.
    fn message(&mut self) -> Message {
        let head = self.head();
        let length = field(&head, "content-length");
        let body = self.bytes(length.map_or(0, |length| length.parse().unwrap()));
        Message { head, body }
    }

    fn bytes(&mut self, length: usize) -> String {
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Reads everything up to the end. A reset is an end, too.
    fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        if let Err(why) = self.0.read_to_end(&mut rest) {
            let is_reset = why.kind() == io::ErrorKind::ConnectionReset;
            assert!(is_reset, "it has not ended: {why}");
        }
        String::from_utf8(rest).unwrap()
    }

    /// Reads the end, before which nothing more comes and which is no reset.
    fn clean_end(&mut self) {
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(read) => assert_eq!(read, 0, "{byte:?} comes before the end"),
            Err(why) => panic!("it does not end cleanly: {why}"),
        }
    }

    /// Sends a request, which the server reads and responds to.
    #[track_caller]
    fn ask(&mut self, server: &mut Self) {
        self.write(GET);
        server.serve_ok(self);
    }

    /// Responds, and the client gets the response.
    #[track_caller]
    fn answer(&mut self, client: &mut Self) {
        self.write(OK);
        assert_eq!(client.message().body, "ok");
    }

    /// Reads a request and responds to it, and the client gets the response.
    #[track_caller]
    fn serve_ok(&mut self, client: &mut Self) {
        self.message();
        self.answer(client);
    }

    /// The same, on a connection that ends with it.
    #[track_caller]
    fn serve_last(&mut self, client: &mut Self) {
        self.serve(OK_CLOSE);
        assert_eq!(client.message().body, "ok");
    }

    /// Reads a response with this status and body.
    #[track_caller]
    fn gets(&mut self, status: &str, body: &str) -> Message {
        let message = self.message();
        assert_eq!((message.status(), message.body.as_str()), (status, body));
        message
    }

    /// Reads the response to a request that has failed for this reason.
    #[track_caller]
    fn failure(&mut self, reason: &str) -> Message {
        let message = self.message();
        let failed = message.field("tidegate-failed");
        assert_eq!(failed, Some(reason), "{message:?}");
        message
    }

    /// Reads a request and responds to it.
    fn serve(&mut self, response: &str) -> Message {
        let request = self.message();
        self.write(response);
        request
    }
}

/// Advances time until a drain ends.
fn until_done(clock: &ManualClock, drained: &Completion<Summary>) {
    tidegate_testkit::until("the drain ends", || {
        clock.advance(Duration::from_secs(1));
        drained.is_done()
    });
}

/// Returns which of these peers has received something first.
fn first_readable(peers: &[&Peer]) -> usize {
    tidegate_testkit::until_some("something comes", || {
        let mut peers = peers.iter();
        peers.position(|peer| peer.0.wait_readable(Duration::ZERO))
    })
}

/// A head and its body.
#[derive(Debug)]
struct Message {
    head: String,
    body: String,
}

impl Message {
    fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// Asserts that the response has this status, and is the last one of its connection.
    #[track_caller]
    fn is_last(&self, status: &str) {
        let ends = self.field("connection");
        assert_eq!((self.status(), ends), (status, Some("close")));
    }

    fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }
}

/// Returns the value of the first field of this name.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    let mut own = fields.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    own.next().map(|(_, value)| value)
}
