//! Counts the heap allocations of channels. A program of its own, because its counting allocator
//! applies to the whole program. The tests take turns: they measure memory of the process.
#![cfg(not(any(tidegate_sanitize, miri)))]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tidegate_net::{Blocking, Inbound, InboundContext, NetGroup, Nothing, Server};
use tidegate_pool::WorkerPool;

#[path = "../../tidegate-testkit/shared/counting.rs"]
mod counting;

use counting::{ALLOCATED, LIVE};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n";
const BODY: &[u8] = b"hello, world!";

/// What the handlers of a test share.
#[derive(Default)]
struct Counts {
    requests: AtomicUsize,
    /// The allocations of the loop's thread at the last request.
    allocated: AtomicU64,
    /// The allocations during the methods of the handlers.
    in_methods: AtomicU64,
}

/// Responds to each request of four bytes: with one write, or with a head and a body.
struct Respond {
    counts: Arc<Counts>,
    in_one: bool,
    /// The allocations of this thread when the read began.
    began: u64,
}

impl Inbound for Respond {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;
    const BLOCKING: Blocking = Blocking::Never;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.began = ALLOCATED.get();
        self.counts.allocated.store(self.began, Ordering::Relaxed);
        for _ in bytes.chunks(4) {
            ctx.output().extend_from_slice(HEAD);
            match self.in_one {
                true => ctx.output().extend_from_slice(BODY),
                false => ctx.write(Bytes::from_static(BODY)),
            }
        }
        self.counts
            .requests
            .fetch_add(bytes.len() / 4, Ordering::Relaxed);
        ctx.give_back(bytes);
    }

    fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
        ctx.flush();
        let own = ALLOCATED.get() - self.began;
        self.counts.in_methods.fetch_add(own, Ordering::Relaxed);
    }
}

fn respond(counts: &Arc<Counts>, in_one: bool) -> Respond {
    Respond {
        counts: Arc::clone(counts),
        in_one,
        began: 0,
    }
}

fn clients(server: &Server, count: usize) -> Vec<TcpStream> {
    (0..count)
        .map(|_| TcpStream::connect(server.local_addr()).unwrap())
        .collect()
}

/// Sends `depth` requests on each connection, then reads the responses.
fn round(streams: &mut [TcpStream], depth: usize) {
    for stream in &mut *streams {
        stream.write_all(&b"get!".repeat(depth)).unwrap();
    }
    let mut response = vec![0; (HEAD.len() + BODY.len()) * depth];
    for stream in streams {
        stream.read_exact(&mut response).unwrap();
        assert!(response.starts_with(HEAD) && response.ends_with(BODY));
    }
}

#[test]
fn in_the_long_run_a_response_allocates_nothing() {
    let _turn = turn();
    for (in_one, depth) in [(true, 1), (true, 16), (false, 1)] {
        // A group of its own: the ends of the connections before are not counted.
        let group = tidegate_net::pinned("io", 1).unwrap();
        let counts = Arc::<Counts>::default();
        let own = Arc::clone(&counts);
        let server = Server::builder(&group)
            .pipeline(move |p| p.add("respond", respond(&own, in_one)))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let mut streams = clients(&server, 16);
        let mut rounds = |rounds: usize| {
            for _ in 0..rounds {
                round(&mut streams, depth);
            }
            counts.allocated.load(Ordering::Relaxed)
        };
        let warm = rounds(50);
        let later = rounds(200);
        assert_eq!(later - warm, 0, "in_one {in_one}, depth {depth}");
        assert_eq!(counts.requests.load(Ordering::Relaxed), 250 * 16 * depth);
    }
}

#[test]
fn on_a_roaming_loop_a_handler_allocates_nothing_either() {
    let _turn = turn();
    let pool = WorkerPool::builder("workers")
        .core(2)
        .max(2)
        .build()
        .unwrap();
    let group = NetGroup::builder("io")
        .loops(1)
        .build_roaming(&pool)
        .unwrap();
    let counts = Arc::<Counts>::default();
    let own = Arc::clone(&counts);
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("respond", respond(&own, true)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut streams = clients(&server, 4);
    let mut rounds = |rounds: usize| {
        for _ in 0..rounds {
            round(&mut streams, 2);
        }
        counts.in_methods.load(Ordering::Relaxed)
    };
    let warm = rounds(200);
    let later = rounds(500);
    // Each of the loop's tasks has memory of its own, and now and then one runs for the first time.
    assert!(
        later - warm < 50,
        "{} allocations in 4,000 requests",
        later - warm
    );
}

#[test]
fn an_idle_channel_holds_no_memory_of_its_requests() {
    let _turn = turn();
    let group = tidegate_net::pinned("io", 1).unwrap();
    let counts = Arc::<Counts>::default();
    let own = Arc::clone(&counts);
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("respond", respond(&own, false)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    // The loop keeps memory for as many requests as it had at once. That is not the channels'.
    let mut warm = clients(&server, 300);
    for _ in 0..3 {
        round(&mut warm, 4);
    }
    let mut streams = clients(&server, 300);
    // Each connection is accepted when it responds. The first request of a connection leaves what
    // the pipeline learns of its handlers.
    round(&mut streams, 1);
    group.next().submit(|| ()).unwrap().wait().unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    for _ in 0..3 {
        round(&mut streams, 4);
    }
    group.next().submit(|| ()).unwrap().wait().unwrap();
    let grown = LIVE.load(Ordering::Relaxed).saturating_sub(before);
    assert!(grown < 300 * 100, "{grown} bytes for 300 connections");
}
