//! More event loops and blocking handlers than the pool has threads. Every loop continues, and
//! handlers run as long as one thread of the pool is not blocked.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;

use bytes::Bytes;
use tidegate_net::handlers::LineFrames;
use tidegate_net::{Channel, Inbound, InboundContext, Nothing};
use tidegate_testkit::{Counter, Gate, Log};

use super::*;
use crate::{dial, round_trip, serve};

/// Echoes lines. For the line `block` it waits for the gate first.
#[derive(Clone)]
struct Blocks {
    blocked: Counter,
    go_on: Gate,
    channels: Log<Channel>,
}

impl Blocks {
    fn new() -> Self {
        Self {
            blocked: Counter::new(),
            go_on: Gate::new(),
            channels: Log::new(),
        }
    }
}

impl Inbound for Blocks {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.channels.push(ctx.channel());
    }

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        if &line[..] == b"block" {
            self.blocked.hit();
            self.go_on.wait();
        }
        ctx.write(line);
        ctx.write("\n");
        ctx.flush();
    }
}

/// Connects to a server, and groups the connections by event loop.
fn connect(server: &Server, blocks: &Blocks, connections: usize) -> Vec<Vec<TcpStream>> {
    let mut streams = HashMap::new();
    for _ in 0..connections {
        let mut stream = dial(server);
        assert_eq!(round_trip(&mut stream, b"hello\n"), b"hello\n");
        streams.insert(stream.local_addr().unwrap(), stream);
    }
    let mut loops = HashMap::<String, Vec<TcpStream>>::new();
    for channel in blocks.channels.take() {
        let stream = streams.remove(&channel.peer_addr().unwrap()).unwrap();
        let own = loops.entry(channel.loop_name().to_owned()).or_default();
        own.push(stream);
    }
    loops.into_values().collect()
}

fn serve_blocks(group: &NetGroup<Roaming>, blocks: &Blocks) -> Server {
    let blocks = blocks.clone();
    serve(group, move |p| {
        p.add("lines", LineFrames::max(80))
            .add("blocks", blocks.clone())
    })
}

/// Runs four event loops over six threads. `blockers` lists the loop of each blocking request.
fn assert_answered_beside(reserved: usize, blockers: &[usize]) {
    let pool = WorkerPool::builder("workers").core(6).max(6);
    let pool = pool.reserved(reserved).build().unwrap();
    let group = tidegate_net::roaming("io", 4, &pool).unwrap();
    let blocks = Blocks::new();
    let server = serve_blocks(&group, &blocks);
    let mut loops = connect(&server, &blocks, 32);
    assert_eq!(loops.len(), 4);
    let mut stuck = Vec::new();
    for &at in blockers {
        let mut one = loops[at].pop().unwrap();
        one.write_all(b"block\n").unwrap();
        stuck.push(one);
    }
    blocks.blocked.wait_for(blockers.len() as u64);
    for _ in 0..3 {
        for idle in loops.iter_mut().flatten() {
            assert_eq!(round_trip(idle, b"hello\n"), b"hello\n");
        }
    }
    // The event loops themselves continue, too.
    for home in group.iter() {
        let timer = home.schedule(std::time::Duration::ZERO, || 7).unwrap();
        assert_eq!(timer.wait().unwrap(), 7);
    }
    blocks.go_on.open();
    for mut one in stuck {
        assert_eq!(round_trip(&mut one, b"again\n"), b"block\n");
    }
}

#[test]
fn idle_connections_are_answered_while_one_handler_of_each_loop_blocks() {
    assert_answered_beside(1, &[0, 1, 2, 3]);
}

#[test]
fn idle_connections_are_answered_by_a_pool_without_a_reserve() {
    assert_answered_beside(0, &[0, 1, 2, 3]);
}

#[test]
fn idle_connections_are_answered_until_the_last_thread_blocks() {
    for blockers in [[0; 5], [0, 0, 1, 1, 2]] {
        assert_answered_beside(1, &blockers);
    }
}
