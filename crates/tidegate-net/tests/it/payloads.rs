//! Handlers that panic with a payload whose drop panics in turn: their event loop continues.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::Bytes;
use tidegate_loop::{Lifecycle, Placement};
use tidegate_net::handlers::LineFrames;
use tidegate_net::{
    Channel, EmbeddedChannel, Inbound, InboundContext, Message, NetGroup, Nothing, Outbound,
    OutboundContext, PipelineChange,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::Failure;
use tidegate_testkit::{Bomb, Counter, explode};

use crate::{Echo, dial, round_trip, serve};

/// Panics in the place that a line names.
#[derive(Default)]
struct Explodes {
    in_error: bool,
    bomb: Option<Bomb>,
}

impl Inbound for Explodes {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        match &line[..] {
            b"read" => explode(),
            b"error" => {
                self.in_error = true;
                explode();
            }
            b"drop" => {
                self.bomb = Some(Bomb::new());
                ctx.close();
            }
            _ => {
                let mut line = line.to_vec();
                line.push(b'\n');
                ctx.fire_read(line);
            }
        }
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if self.in_error {
            explode();
        }
        ctx.fire_error(why);
    }
}

fn loops() -> tidegate_net::NetGroupBuilder {
    NetGroup::builder("io")
        .loops(1)
        .on_unhandled(|_, _| explode())
}

/// Checks that each panic ends one connection, and that others are still served on the same event
/// loop.
fn assert_survives<P: Placement>(group: &NetGroup<P>, address: std::net::SocketAddr) {
    let connect = || TcpStream::connect(address).unwrap();
    let mut other = connect();
    for line in ["read\n", "error\n", "drop\n"] {
        let mut hurt = connect();
        hurt.write_all(line.as_bytes()).unwrap();
        let mut rest = Vec::new();
        // An end or a reset.
        let _ = hurt.read_to_end(&mut rest);
        assert!(rest.is_empty(), "after {line:?}");
        assert_eq!(round_trip(&mut other, b"hello\n"), b"hello\n");
    }
    assert_eq!(group.next().lifecycle(), Lifecycle::Started);
}

#[test]
fn of_handlers_on_a_pinned_loop() {
    let group = loops().build().unwrap();
    let server = serve(&group, |p| {
        p.add("lines", LineFrames::max(64))
            .add("explodes", Explodes::default())
            .add("echo", Echo)
    });
    assert_survives(&group, server.local_addr());
}

#[test]
fn of_handlers_on_a_roaming_loop() {
    let pool = WorkerPool::builder("workers").max(4).build().unwrap();
    let group = loops()
        .build_roaming_with_config(&crate::roaming::eager(&pool))
        .unwrap();
    let server = serve(&group, |p| {
        p.add("lines", LineFrames::max(64))
            .add("explodes", Explodes::default())
            .add("echo", Echo)
    });
    assert_survives(&group, server.local_addr());
}

#[test]
fn of_what_makes_handlers_and_changes_them() {
    let group = loops().build().unwrap();
    let made = std::sync::atomic::AtomicUsize::new(0);
    let server = serve(&group, move |p| {
        // The first call is the check of the pipeline when the server is bound.
        if made.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            explode();
        }
        p.add("echo", Echo)
    });
    let (mut bad, mut good) = (dial(&server), dial(&server));
    assert_eq!(bad.read(&mut [0; 8]).unwrap(), 0, "closed");
    assert_eq!(round_trip(&mut good, b"hello"), b"hello");

    let mut channel = EmbeddedChannel::new(|p| p.add("echo", Echo)).unwrap();
    let changed = channel.channel().change(|| -> PipelineChange { explode() });
    channel.run();
    assert!(changed.wait().is_err());
    channel.receive("still here");
    assert_eq!(channel.sent(), "still here");
}

/// Panics when it is dropped, even during another panic.
struct Grenade(Counter);

impl Drop for Grenade {
    fn drop(&mut self) {
        self.0.hit();
        panic!("on purpose, in the drop of a message");
    }
}

impl Message for Grenade {
    fn size(&self) -> usize {
        1
    }
}

/// Accepts grenades.
struct Takes;

impl Inbound for Takes {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
}

impl Outbound for Takes {
    type Take = Grenade;
    type Write = Bytes;

    fn write(&mut self, _: Grenade, _: &mut OutboundContext<'_, Self>) {}
}

#[test]
fn of_messages_that_are_never_received() {
    let drops = Counter::new();
    let write = |channel: &Channel| {
        for _ in 0..3 {
            channel.write(Grenade(drops.clone()));
        }
    };
    // Pending in a channel, and written after its end.
    let mut channel = EmbeddedChannel::new(|p| p.add_duplex("takes", Takes)).unwrap();
    write(&channel.channel());
    channel.end_input();
    assert_eq!((drops.count(), channel.is_open()), (3, false));
    write(&channel.channel());
    assert_eq!(drops.count(), 6);
    // Stored as attributes of a channel.
    let channel = EmbeddedChannel::new(|p| p).unwrap();
    channel.channel().set_attribute(Grenade(drops.clone()));
    channel
        .channel()
        .set_attribute(vec![Grenade(drops.clone())]);
    drop(channel);
    assert_eq!(drops.count(), 8);
}
