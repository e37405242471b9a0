//! A server under thousands of connections that misbehave. Alone in its process, whose
//! descriptors and memory it counts. 10,000 connections with `TIDEGATE_LONG=1`.

#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{Inbound, InboundContext, NetGroup, Nothing, Server};
use tidegate_promise::Failure;
use tidegate_testkit::{Counter, DropCount, Rng, model};

/// Connections that are there at the same time.
const WAVE: usize = 200;
/// What a client that asks for it is sent.
const POURED: usize = 400_000;

/// Echoes; a message that begins with `P` is answered with more than a socket takes.
struct Answers {
    asked: Counter,
    ended: Counter,
    _counted: DropCount,
}

impl Answers {
    fn write(&self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.asked.hit();
        let ended = self.ended.clone();
        ctx.write_with(bytes).finally(move |_| {
            ended.hit();
        });
    }
}

impl Inbound for Answers {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if bytes.starts_with(b"P") {
            for _ in 0..4 {
                self.write(Bytes::from(vec![b'p'; POURED / 4]), ctx);
            }
        } else {
            self.write(bytes, ctx);
        }
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
    }

    /// A reset is what is expected here.
    fn error(&mut self, _: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.close();
    }
}

/// What a client does with its connection.
#[derive(Clone, Copy, Debug)]
enum Client {
    /// Connects and says nothing; goes with the others.
    HalfOpen,
    /// Resets, with this many bytes on their way.
    Resets(usize),
    /// Asks for more than fits, reads this much of it, and resets.
    ReadsSlowly(usize),
    /// Asks for more than fits and goes without having read anything.
    Vanishes,
    /// Sends bytes one by one.
    OneByOne,
    /// Sends, shuts its half, and reads to the end.
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

    /// Does it; what is left of the connection is dropped later.
    fn run(self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        match self {
            Self::HalfOpen => {}
            Self::Resets(bytes) => {
                // The server may have gone by then.
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

/// The connection will end with a reset when it is dropped.
fn reset(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0)
}

/// Waits until the server has accepted so many connections and has only `left` of them.
fn wait_for(group: &NetGroup, server: &Server, accepted: u64, left: usize) {
    let settle = || group.iter().for_each(|one| one.settle());
    let alone = (0..10_000_000).any(|_| {
        settle();
        server.accepted() == accepted && server.connections() == left
    });
    assert!(alone, "{} are left", server.connections());
    // Who left last may still be on its way out.
    settle();
}

#[test]
fn a_storm_leaves_no_descriptor_no_memory_and_no_open_promise() {
    let long = std::env::var_os("TIDEGATE_LONG").is_some();
    let waves = if long { 50 } else { 10 };
    let group = tidegate_net::pinned("io", 2).unwrap();
    let (asked, ended, handlers) = (Counter::new(), Counter::new(), Counter::new());
    let (counts, made) = ((asked.clone(), ended.clone()), handlers.clone());
    let server = Server::new(&group)
        .pipeline(move |p| {
            let (asked, ended) = counts.clone();
            let _counted = DropCount::new(&made);
            p.add(
                "answers",
                Answers {
                    asked,
                    ended,
                    _counted,
                },
            )
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let address = server.local_addr();
    let mut steady = TcpStream::connect(address).unwrap();
    ping(&mut steady);
    // One was made when the chain was checked.
    let (before, checked) = (descriptors(), handlers.count());
    let mut memory = Vec::new();
    model([7], |rng| {
        for wave in 1..=waves {
            let clients: Vec<_> = (0..WAVE).map(|_| Client::any(rng).run(address)).collect();
            ping(&mut steady);
            drop(clients);
            wait_for(&group, &server, 1 + (WAVE * wave) as u64, 1);
            memory.push(resident());
        }
    });
    ping(&mut steady);
    assert_eq!(descriptors(), before);
    let gone = handlers.count() - checked;
    assert_eq!(gone, (WAVE * waves) as u64, "handlers that are gone");
    drop(steady);
    wait_for(&group, &server, 1 + (WAVE * waves) as u64, 0);
    assert_eq!(ended.count(), asked.count());
    // What the first waves needed is enough for all others. (A sanitizer keeps what was freed.)
    if cfg!(tidegate_sanitize) {
        return;
    }
    let (first, last) = (memory[waves / 3], memory[waves - 1]);
    assert!(last < first + 16 * 1024, "resident KiB by wave: {memory:?}");
}
