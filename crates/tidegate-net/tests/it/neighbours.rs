//! Handlers that write to other channels of their event loop.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_net::{
    Channel, ChannelOptions, Inbound, InboundContext, NetError, NetGroup, Nothing, Outbound,
    OutboundContext, Server,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::Failure;
use tidegate_testkit::{Log, explode, model, rounds, until};

use crate::group;
use crate::marks;

/// What the first channel does with its message; the second argument is the other channel.
type Act = Arc<dyn Fn(Bytes, &Channel, &mut InboundContext<'_, Node>) + Send + Sync>;

/// The handler of both channels. Logs its events; that of the first channel acts on messages.
#[derive(Clone)]
struct Node {
    act: Act,
    channels: Log<Channel>,
    log: Log<String>,
    /// The other channel, for the first.
    other: Option<Channel>,
}

impl Node {
    fn new(
        act: impl Fn(Bytes, &Channel, &mut InboundContext<'_, Self>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            act: Arc::new(act),
            channels: Log::new(),
            log: Log::new(),
            other: None,
        }
    }
}

impl Inbound for Node {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.channels.push(ctx.channel());
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        let Some(other) = &self.other else {
            return;
        };
        (self.act)(bytes, &other.clone(), ctx);
        self.log.push("returned".to_owned());
    }

    fn event(&mut self, event: tidegate_net::UserEvent, _: &mut InboundContext<'_, Self>) {
        if let Some(other) = event.downcast_ref::<Channel>() {
            self.other = Some(other.clone());
            self.log.push("knows".to_owned());
        }
    }

    fn writability(&mut self, writable: bool, _: &mut InboundContext<'_, Self>) {
        self.log.push(format!("writable {writable}"));
    }

    fn error(&mut self, why: Failure, _: &mut InboundContext<'_, Self>) {
        let full = matches!(why.downcast_ref(), Some(NetError::WriteQueueFull { .. }));
        self.log
            .push(if full { "full" } else { "error" }.to_owned());
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        if let Some(other) = &self.other {
            ctx.neighbour(other).write_and_flush("bye");
            other.close_when_flushed();
        }
    }
}

/// Two connections of one server: their peers, their channels, and the log of their handlers.
struct Pair {
    peers: [TcpStream; 2],
    channels: [Channel; 2],
    log: Log<String>,
    server: Server,
}

impl Pair {
    fn of(group: &NetGroup, node: Node) -> Self {
        Self::with(ChannelOptions::default(), group, node)
    }

    fn with(options: ChannelOptions, group: &NetGroup, node: Node) -> Self {
        let own = node.clone();
        let server = Server::builder(group)
            .pipeline(move |p| p.add("node", own.clone()))
            .options(options);
        Self::on(server.bind("127.0.0.1:0").wait().unwrap(), node)
    }

    /// Connects twice, and makes the second channel known to the handler of the first.
    fn on(server: Server, node: Node) -> Self {
        let connect = || {
            let peer = TcpStream::connect(server.local_addr()).unwrap();
            node.channels.wait_for(1);
            (peer, node.channels.take().remove(0))
        };
        let (first, other) = (connect(), connect());
        first.1.fire_event(other.1.clone());
        node.log.wait_for(1);
        assert_eq!(node.log.take(), ["knows"]);
        Self {
            peers: [first.0, other.0],
            channels: [first.1, other.1],
            log: node.log,
            server,
        }
    }

    /// Makes the handler of the first channel act.
    fn go(&mut self) {
        self.peers[0].write_all(b"go").unwrap();
    }

    /// Reads what the second peer gets until its end.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.peers[1].read_to_string(&mut rest).unwrap();
        rest
    }

    fn read(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        self.peers[1].read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }
}

#[test]
fn bytes_go_straight_into_the_queue_and_are_sent_at_the_end_of_the_turn() {
    let (direct, own) = Log::pair();
    let node = Node::new(move |bytes, other, ctx| {
        ctx.neighbour(other).write_and_flush(bytes);
        // A write through the mailbox counts as pending at once.
        own.push(other.pending_bytes() == 0);
    });
    let mut pair = Pair::of(&group(1), node);
    for _ in 0..3 {
        pair.go();
        assert_eq!(pair.read(2), "go");
    }
    assert_eq!(direct.take(), [true, true, true]);
}

#[test]
fn requests_take_effect_in_the_order_of_the_calls() {
    let node = Node::new(|_, other, ctx| {
        let near = ctx.neighbour(other);
        near.write("1");
        other.write("2");
        near.write("3");
        near.flush();
        other.write("4");
        near.write_and_flush("5");
        other.close_when_flushed();
        near.write_and_flush("6");
    });
    let mut pair = Pair::of(&group(1), node);
    pair.go();
    assert_eq!(pair.rest(), "12345");
}

#[test]
fn any_mix_of_direct_and_mailbox_writes_keeps_the_order() {
    let (calls, expected) = (Log::<Vec<(u64, u8)>>::new(), Log::<u8>::new());
    let (own, sent) = (calls.clone(), expected.clone());
    let node = Node::new(move |bytes, other, ctx| {
        let near = ctx.neighbour(other);
        for _ in 0..bytes.len() {
            for (kind, byte) in own.take().into_iter().flatten() {
                let one = vec![byte];
                match kind {
                    0 | 1 => near.write(one),
                    2 => near.write_and_flush(one),
                    3 => other.write(one),
                    4 => other.write_and_flush(one),
                    _ => drop(other.write_with(one)),
                }
                sent.push(byte);
            }
        }
        near.flush();
    });
    let mut pair = Pair::of(&group(1), node);
    let seeds = 0..u64::try_from(rounds(40)).unwrap();
    model(seeds, |rng| {
        let count = 1 + rng.index(30);
        let steps = (0..count).map(|_| (rng.below(6), rng.below(256) as u8));
        calls.push(steps.collect());
        pair.peers[0].write_all(b"x").unwrap();
        let mut got = vec![0; count];
        pair.peers[1].read_exact(&mut got).unwrap();
        assert_eq!(got, expected.take());
    });
}

#[test]
fn no_handler_of_the_other_channel_runs_before_the_writer_has_returned() {
    let node = Node::new(|_, other, ctx| {
        let near = ctx.neighbour(other);
        assert!(near.is_writable());
        near.write(vec![b'x'; 2000]);
        assert!(!near.is_writable());
        near.flush();
        assert!(!near.is_writable());
    });
    let mut pair = Pair::with(marks(100, 1000, 10_000), &group(1), node);
    pair.go();
    assert_eq!(pair.read(2000).len(), 2000);
    pair.log.wait_for(3);
    assert_eq!(
        pair.log.take(),
        ["returned", "writable false", "writable true"]
    );
}

#[test]
fn a_write_above_the_high_mark_is_reported_without_a_flush() {
    let node = Node::new(|_, other, ctx| ctx.neighbour(other).write(vec![b'x'; 2000]));
    let mut pair = Pair::with(marks(100, 1000, 10_000), &group(1), node);
    pair.go();
    pair.log.wait_for(2);
    assert_eq!(pair.log.take(), ["returned", "writable false"]);
    until("other threads know", || !pair.channels[1].is_writable());
    pair.channels[1].flush();
    assert_eq!(pair.read(2000).len(), 2000);
}

#[test]
fn a_write_above_the_cap_is_refused_and_reported_once() {
    let node = Node::new(|_, other, ctx| {
        let near = ctx.neighbour(other);
        for _ in 0..5 {
            near.write(vec![b'x'; 3000]);
        }
        near.write_and_flush("end");
    });
    let mut pair = Pair::with(marks(100, 100_000, 100_000), &group(1), node);
    pair.go();
    assert_eq!(
        pair.read(15_003).len(),
        15_003,
        "all of it is below the cap"
    );
    assert_eq!(pair.log.take(), ["returned"]);
    let node = Node::new(|_, other, ctx| {
        let near = ctx.neighbour(other);
        for _ in 0..5 {
            near.write(vec![b'x'; 3000]);
        }
        near.flush();
    });
    let mut pair = Pair::with(marks(100, 7000, 7000), &group(1), node);
    pair.go();
    assert_eq!(pair.read(6000).len(), 6000, "two of five fit");
    pair.log.wait_for(2);
    assert_eq!(pair.log.take(), ["returned", "full"]);
    pair.channels[1].close_when_flushed();
    assert_eq!(pair.rest(), "", "the others are lost as a whole");
}

#[test]
fn a_write_after_a_close_is_not_sent() {
    for when_flushed in [false, true] {
        let node = Node::new(move |_, other, ctx| {
            match when_flushed {
                true => drop(other.close_when_flushed()),
                false => drop(other.close()),
            }
            ctx.neighbour(other).write_and_flush("late");
        });
        let mut pair = Pair::of(&group(1), node);
        pair.go();
        assert_eq!(pair.rest(), "");
        pair.channels[1].closed().wait().unwrap();
        // Now that it is closed, too.
        pair.log.wait_for(1);
        drop(pair.log.take());
        pair.go();
        pair.log.wait_for(1);
        assert!(pair.channels[0].is_active());
    }
}

#[test]
fn a_write_after_the_end_of_the_sending_half_is_not_sent() {
    let node = Node::new(|_, other, ctx| {
        let near = ctx.neighbour(other);
        near.write("first");
        drop(other.shutdown_output());
        near.write_and_flush("late");
    });
    let mut pair = Pair::of(&group(1), node);
    pair.go();
    assert_eq!(pair.rest(), "first");
    pair.log.wait_for(1);
    pair.go();
    pair.log.wait_for(2);
    assert_eq!(pair.rest(), "");
}

/// Writes the message to the other channel.
fn relay(bytes: Bytes, other: &Channel, ctx: &mut InboundContext<'_, Node>) {
    ctx.neighbour(other).write_and_flush(bytes);
}

#[test]
fn a_channel_of_another_loop_gets_the_bytes_through_its_mailbox() {
    let mut pair = Pair::of(&group(2), Node::new(relay));
    assert_ne!(pair.channels[0].loop_name(), pair.channels[1].loop_name());
    pair.go();
    assert_eq!(pair.read(2), "go");
    pair.channels[1].close().wait().unwrap();
    pair.go();
    pair.log.wait_for(2);
}

#[test]
fn channels_of_a_roaming_loop_get_the_bytes_through_their_mailbox() {
    let workers = WorkerPool::builder("workers")
        .core(2)
        .max(4)
        .build()
        .unwrap();
    let group = tidegate_net::roaming("roaming", 1, &workers).unwrap();
    let node = Node::new(relay);
    let own = node.clone();
    let server = Server::builder(&group).pipeline(move |p| p.add("node", own.clone()));
    let mut pair = Pair::on(server.bind("127.0.0.1:0").wait().unwrap(), node);
    for _ in 0..3 {
        pair.go();
        assert_eq!(pair.read(2), "go");
    }
}

#[test]
fn a_handler_that_writes_to_its_own_channel_is_not_reentered() {
    let node = Node::new(|bytes, _, ctx| {
        let own = ctx.channel();
        ctx.neighbour(&own).write_and_flush(bytes);
    });
    let mut pair = Pair::of(&group(1), node);
    pair.go();
    let mut back = [0; 2];
    pair.peers[0].read_exact(&mut back).unwrap();
    assert_eq!(&back, b"go");
}

#[test]
fn what_a_handler_wrote_before_it_panicked_is_sent() {
    let node = Node::new(|_, other, ctx| {
        ctx.neighbour(other).write_and_flush("before");
        explode();
    });
    let mut pair = Pair::of(&group(1), node);
    pair.go();
    assert_eq!(pair.read(6), "before");
    pair.log.wait_for(1);
    assert_eq!(pair.log.take(), ["error"], "the panic, to its own handlers");
}

#[test]
fn what_a_timer_event_or_a_close_writes_is_sent_too() {
    let mut pair = Pair::of(&group(1), Node::new(relay));
    // The handler runs because of a request, not of an event of the poller.
    pair.channels[0].close().wait().unwrap();
    assert_eq!(pair.rest(), "bye");
}

#[test]
fn a_drain_sends_what_the_last_handlers_write_to_each_other() {
    let mut pair = Pair::of(&group(1), Node::new(relay));
    pair.go();
    assert_eq!(pair.read(2), "go");
    let drained = pair.server.drain(std::time::Duration::from_secs(30));
    pair.channels[0].close().wait().unwrap();
    assert_eq!(pair.rest(), "bye");
    drained.wait().unwrap();
}

#[test]
fn the_end_of_the_loop_with_writes_between_its_channels_is_orderly() {
    let group = group(1);
    let mut pair = Pair::of(&group, Node::new(relay));
    pair.go();
    assert_eq!(pair.read(2), "go");
    group
        .shutdown(tidegate_loop::Quiet::none(std::time::Duration::from_secs(
            30,
        )))
        .wait()
        .unwrap();
    let rest = pair.rest();
    assert!(rest == "bye" || rest.is_empty(), "{rest}");
    assert!(!pair.channels[1].is_active());
}

/// Writes bytes in upper case.
struct Shout;

impl Outbound for Shout {
    type Take = Bytes;
    type Write = Bytes;
    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(bytes.to_ascii_uppercase());
    }
}

#[test]
fn a_handler_of_the_other_channel_that_takes_part_in_writes_gets_them() {
    let node = Node::new(relay);
    let own = node.clone();
    let server = Server::builder(&group(1))
        .pipeline(move |p| p.add_outbound("shout", Shout).add("node", own.clone()))
        .bind("127.0.0.1:0");
    let mut pair = Pair::on(server.wait().unwrap(), node);
    pair.go();
    assert_eq!(pair.read(2), "GO");
}

#[test]
fn a_channel_that_is_off_its_loop_sends_when_it_is_back() {
    let mut pair = Pair::of(&group(1), Node::new(relay));
    pair.channels[1].deregister().wait().unwrap();
    pair.go();
    pair.log.wait_for(1);
    pair.channels[1].register().wait().unwrap();
    assert_eq!(pair.read(2), "go");
}

#[test]
fn the_memory_cap_of_the_server_counts_direct_writes() {
    let node = Node::new(|_, other, ctx| ctx.neighbour(other).write(vec![b'x'; 100_000]));
    let own = node.clone();
    let group = group(1);
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("node", own.clone()))
        .max_memory(50_000)
        .bind("127.0.0.1:0");
    let mut pair = Pair::on(server.wait().unwrap(), node);
    pair.go();
    pair.channels[1].closed().wait().unwrap();
    let cause = pair.channels[1].close_cause().unwrap();
    let full = matches!(
        cause.downcast_ref(),
        Some(NetError::ServerMemoryFull { .. })
    );
    assert!(full, "{cause}");
}

#[test]
fn more_than_the_socket_takes_is_sent_as_the_peer_reads() {
    const PARTS: usize = 64;
    const SIZE: usize = 64 * 1024;
    let node = Node::new(|_, other, ctx| {
        let near = ctx.neighbour(other);
        for part in 0..PARTS {
            near.write_and_flush(vec![part as u8; SIZE]);
        }
    });
    let mut pair = Pair::of(&group(1), node);
    pair.go();
    let mut all = vec![0; PARTS * SIZE];
    pair.peers[1].read_exact(&mut all).unwrap();
    let expected = (0..PARTS).flat_map(|part| std::iter::repeat_n(part as u8, SIZE));
    assert!(all.into_iter().eq(expected));
}
