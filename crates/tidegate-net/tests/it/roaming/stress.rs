//! Seeded random schedules on real sockets: order, one event at a time, and visibility without
//! locks.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_net::handlers::LineFrames;
use tidegate_net::{Channel, Inbound, InboundContext, Nothing};
use tidegate_testkit::{Log, Rng, model, short_or_long, yield_times};

use super::*;
use crate::{dial, serve};

const PEERS: u64 = 8;
const LINES: u64 = 200;

/// The state that the handlers of all connections share.
struct Seen {
    rng: std::sync::Mutex<Rng>,
    overlaps: AtomicU64,
    channels: Log<Channel>,
}

/// Counts lines in a plain field, and replies to each line with its number.
struct Counts {
    seen: Arc<Seen>,
    /// Neither atomic nor locked: the hand-off between threads makes it visible.
    lines: u64,
    inside: Arc<AtomicBool>,
}

impl Inbound for Counts {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.seen.channels.push(ctx.channel());
    }

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if self.inside.swap(true, Ordering::Relaxed) {
            self.seen.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        let chance = self.seen.rng.lock().unwrap().below(100);
        match chance {
            // Long enough for other threads to run, however many there are.
            0..10 => yield_times(10),
            // A request through the handle, as from outside, while the handler is running.
            10..20 => ctx.channel().flush(),
            _ => {}
        }
        assert_eq!(line, self.lines.to_string(), "lines come in order");
        self.lines += 1;
        ctx.write(format!("{}\n", self.lines));
        ctx.flush();
        self.inside.store(false, Ordering::Relaxed);
    }
}

/// Sends numbered lines in pieces, and expects each number plus one in return.
fn talk(mut stream: TcpStream, rng: &mut Rng) {
    let mut sent = Vec::new();
    let mut expected = Vec::new();
    for line in 0..LINES {
        writeln!(sent, "{line}").unwrap();
        writeln!(expected, "{}", line + 1).unwrap();
    }
    let (mut at, mut got) = (0, 0);
    let mut answer = vec![0; expected.len()];
    while at < sent.len() {
        let end = (at + 1 + rng.index(64)).min(sent.len());
        stream.write_all(&sent[at..end]).unwrap();
        let whole = sent[..end].iter().filter(|byte| **byte == b'\n').count() as u64;
        at = end;
        let due: usize = (1..=whole).map(|line| line.to_string().len() + 1).sum();
        if rng.chance(0.3) {
            stream.read_exact(&mut answer[got..due]).unwrap();
            got = due;
        }
    }
    stream.read_exact(&mut answer[got..]).unwrap();
    assert!(answer == expected, "replies come in order");
}

fn disorder(rng: &mut Rng) {
    let kind = KINDS[rng.index(KINDS.len())];
    let (_pool, group) = roaming_with(kind, 2 + rng.index(4));
    let seen = Arc::new(Seen {
        rng: std::sync::Mutex::new(rng.fork()),
        overlaps: AtomicU64::new(0),
        channels: Log::new(),
    });
    let shared = Arc::clone(&seen);
    let server = serve(&group, move |p| {
        let counts = Counts {
            seen: Arc::clone(&shared),
            lines: 0,
            inside: Arc::default(),
        };
        p.add("lines", LineFrames::max(80)).add("counts", counts)
    });
    std::thread::scope(|scope| {
        for _ in 0..PEERS {
            let mut rng = rng.fork();
            let stream = dial(&server);
            scope.spawn(move || talk(stream, &mut rng));
        }
        // Tasks and timers of the event loops run meanwhile.
        for number in 0..50_u64 {
            let answer = group.submit(move || number).unwrap();
            assert_eq!(answer.wait().unwrap(), number);
            let later = group.schedule(std::time::Duration::ZERO, move || number);
            assert_eq!(later.unwrap().wait().unwrap(), number);
        }
    });
    for channel in seen.channels.take() {
        channel.closed().wait().unwrap();
    }
    assert_eq!(seen.overlaps.load(Ordering::Relaxed), 0);
    assert_eq!((server.accepted(), server.connections()), (PEERS, 0));
    server.stop_accepting().wait().unwrap();
}

#[test]
fn channels_keep_their_order_whichever_thread_they_are_on() {
    model(0..short_or_long(12, 200), disorder);
}
