//! A server under thousands of misbehaving connections, on pinned and on roaming event loops. The
//! test is alone in its process, because it counts the descriptors and the memory of the process.
//! With `TIDEGATE_LONG=1` there are 10,000 clients per placement, and as many that connect in
//! bursts and leave.

#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::Quiet;
use tidegate_net::{Blocking, Inbound, InboundContext, Nothing, Server};
use tidegate_pool::WorkerPool;
use tidegate_promise::Failure;
use tidegate_testkit::{Counter, DropCount, Rng, model, short_or_long, until, yield_times};

/// The number of simultaneous connections.
const WAVE: usize = 200;
/// The number of bytes that the server sends on request.
const POURED: usize = 400_000;

/// Echoes. A message that begins with `P` is answered with more bytes than a socket accepts. A
/// `QUICK` handler never blocks and echoes without a promise, so its channels send as a batch.
struct Replies<const QUICK: bool> {
    asked: Counter,
    ended: Counter,
    _counted: DropCount,
}

impl<const QUICK: bool> Replies<QUICK> {
    fn write(&self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.asked.hit();
        let ended = self.ended.clone();
        ctx.write_with(bytes).finally(move |_| {
            ended.hit();
        });
    }
}

impl<const QUICK: bool> Inbound for Replies<QUICK> {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = if QUICK {
        Blocking::Never
    } else {
        Blocking::May
    };

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if bytes.starts_with(b"P") {
            for _ in 0..4 {
                self.write(Bytes::from(vec![b'p'; POURED / 4]), ctx);
            }
        } else if QUICK {
            ctx.write(bytes);
        } else {
            self.write(bytes, ctx);
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }

    /// A reset is expected here.
    fn error(&mut self, _: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.close();
    }
}

/// The behaviour of a client.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// Connects and sends nothing; closed with the others.
    HalfOpen,
    /// Resets the connection, with this many bytes in flight.
    Resets(usize),
    /// Requests more than fits, reads this much of it, and resets the connection.
    ReadsSlowly(usize),
    /// Requests more than fits and closes without reading.
    Vanishes,
    /// Sends bytes one by one.
    OneByOne,
    /// Sends, closes its sending half, and reads to the end.
    ShutsItsHalf,
    Behaves,
}

impl Client {
    fn any(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::HalfOpen,
            1 => Self::Resets(0),
            2 => Self::Resets(1 + rng.index(5_000)),
            3 => Self::ReadsSlowly(rng.index(2_000)),
            4 => Self::Vanishes,
            5 => Self::OneByOne,
            6 => Self::ShutsItsHalf,
            _ => Self::Behaves,
        }
    }

    /// Runs the client. The returned connection is dropped later.
    fn run(self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        match self {
            Self::HalfOpen => {}
            Self::Resets(bytes) => {
                // The server may have closed by then.
                let _ = stream.write_all(&vec![b'x'; bytes]);
                reset(&stream);
            }
            Self::ReadsSlowly(bytes) => {
                stream.write_all(b"P").unwrap();
                stream.read_exact(&mut vec![0; bytes]).unwrap();
                reset(&stream);
            }
            Self::Vanishes => {
                stream.write_all(b"P").unwrap();
                reset(&stream);
            }
            Self::OneByOne => {
                for byte in b"slowly" {
                    stream.write_all(&[*byte]).unwrap();
                }
                let mut back = [0; 6];
                stream.read_exact(&mut back).unwrap();
                assert_eq!(&back, b"slowly");
            }
            Self::ShutsItsHalf => {
                stream.write_all(b"last words").unwrap();
                stream.read_exact(&mut [0; 10]).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
            }
            Self::Behaves => ping(&mut stream),
        }
        stream
    }
}

fn ping(stream: &mut TcpStream) {
    stream.write_all(b"hello").unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
}

/// Makes the connection end with a reset when it is dropped.
fn reset(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Returns the resident memory in KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0)
}

/// The counters of a server's handlers.
#[derive(Clone)]
struct Counts {
    asked: Counter,
    ended: Counter,
    handlers: Counter,
}

impl Counts {
    fn new() -> Self {
        Self {
            asked: Counter::new(),
            ended: Counter::new(),
            handlers: Counter::new(),
        }
    }

    fn answers<const QUICK: bool>(&self) -> Replies<QUICK> {
        Replies {
            asked: self.asked.clone(),
            ended: self.ended.clone(),
            _counted: DropCount::new(&self.handlers),
        }
    }
}

/// Waits until `condition` is true; lets the event loops run before each check.
fn settle_until(settle: &dyn Fn(), what: &str, condition: impl Fn() -> bool) {
    until(what, || {
        settle();
        condition()
    });
}

/// Waits until the server has accepted `accepted` connections and `left` of them are open.
fn wait_for(settle: &dyn Fn(), server: &Server, accepted: u64, left: usize) {
    let what = format!("{accepted} connections came and {left} are left");
    settle_until(settle, &what, || {
        server.accepted() == accepted && server.connections() == left
    });
}

/// Opens `WAVE` connections at once and drops them.
fn burst(address: SocketAddr) {
    let all: Vec<_> = (0..WAVE)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    all.iter().step_by(2).for_each(reset);
}

/// Runs waves of clients against `server`, then checks what is left of them.
fn storm(server: &Server, counts: &Counts, settle: &dyn Fn(), waves: usize) {
    let address = server.local_addr();
    let mut steady = TcpStream::connect(address).unwrap();
    ping(&mut steady);
    // One handler was created when the chain was checked.
    let (before, checked) = (descriptors(), counts.handlers.count());
    let came = |wave: usize| (2 * WAVE * wave) as u64;
    let mut memory = Vec::new();
    model([7], |rng| {
        for wave in 1..=waves {
            let clients: Vec<_> = (0..WAVE).map(|_| Client::any(rng).run(address)).collect();
            burst(address);
            ping(&mut steady);
            drop(clients);
            wait_for(settle, server, 1 + came(wave), 1);
            memory.push(resident());
        }
    });
    ping(&mut steady);
    let gone = || counts.handlers.count() - checked;
    let all_gone = "all handlers of the clients are dropped";
    settle_until(settle, all_gone, || gone() >= came(waves));
    assert_eq!(gone(), came(waves), "handlers that are gone");
    // Those of a group that has ended before may have been closed meanwhile.
    assert!(descriptors() <= before);
    drop(steady);
    wait_for(settle, server, 1 + came(waves), 0);
    settle_until(settle, "every write has ended", || {
        counts.ended.count() == counts.asked.count()
    });
    // The memory of the first waves is enough for all later ones. (A sanitizer keeps freed memory.)
    if cfg!(tidegate_sanitize) {
        return;
    }
    let (first, last) = (memory[waves / 3], memory[waves - 1]);
    assert!(last < first + 16 * 1024, "resident KiB by wave: {memory:?}");
}

fn storm_over_pinned_loops<const QUICK: bool>(waves: usize) {
    let counts = Counts::new();
    let own = counts.clone();
    let group = tidegate_net::pinned("io", 2).unwrap();
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("answers", own.answers::<QUICK>()))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let settle = || group.iter().for_each(|one| one.settle());
    storm(&server, &counts, &settle, waves);
    drop(server);
    let end = group.shutdown(Quiet::none(Duration::from_secs(60)));
    end.wait().unwrap();
}

#[test]
fn a_storm_leaves_no_descriptor_no_memory_and_no_open_promise() {
    let waves = short_or_long(10, 50);
    storm_over_pinned_loops::<false>(waves);
    storm_over_pinned_loops::<true>(waves);

    let counts = Counts::new();
    let own = counts.clone();
    let pool = WorkerPool::builder("workers").core(4).max(4);
    let pool = pool.build().unwrap();
    let group = tidegate_net::roaming("io", 2, &pool).unwrap();
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("answers", own.answers::<false>()))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    storm(&server, &counts, &|| yield_times(1), waves);
}
