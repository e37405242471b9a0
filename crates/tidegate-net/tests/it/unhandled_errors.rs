//! No connection is cut silently: the hook for unhandled errors receives the reason.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::{ManualClock, OnUnhandled};
use tidegate_loop::Placement;
use tidegate_net::handlers::{Idle, LineFrames};
use tidegate_net::{
    Draining, EmbeddedChannel, Handler, Inbound, InboundContext, NetGroup, Nothing, Outbound,
    OutboundContext, PipelineBuilder, Server,
};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Gate, Log, Stop, has, until};

use crate::acts::Acts;
use crate::{Echo, dial, serve};

/// Returns a hook for unhandled errors, and the log of its calls.
fn hook() -> (OnUnhandled, Log<String>) {
    let (log, received) = Log::pair();
    let hook = OnUnhandled::new(move |_, what| received.push(what.to_string()));
    (hook, log)
}

/// Adds a handler that panics if the client requests it.
fn breaks<P: Placement>(p: PipelineBuilder<P>) -> PipelineBuilder<P> {
    let p = p.add_handler("lines", Handler::inbound(LineFrames::max(8)));
    let breaks = Acts::on_read(|line, _| assert_ne!(line, "panic", "on purpose"));
    p.add_handler("breaks", Handler::inbound(breaks))
}

/// Checks that the client is cut, and that the hook receives the reason and the client's address.
fn is_cut(server: &Server, log: &Log<String>, asks: &[u8], why: &str) {
    let mut client: TcpStream = dial(server);
    client.write_all(asks).unwrap();
    // The server has unread bytes when it closes, so this is an end or a reset.
    let _ = client.read(&mut [0; 8]);
    log.wait_for(1);
    let received = log.take().remove(0);
    let peer = client.local_addr().unwrap().to_string();
    has(&received, [why, &peer]);
}

#[test]
fn why_a_client_was_cut_goes_to_the_hook_on_either_kind_of_loops() {
    let (hook, log) = hook();
    let workers = WorkerPool::builder("workers").core(3).max(3);
    let workers = workers.build().unwrap();
    let roaming = NetGroup::builder("io")
        .loops(1)
        .report_to(hook.clone())
        .build_roaming(&workers)
        .unwrap();
    let pinned = NetGroup::builder("io")
        .loops(1)
        .report_to(hook)
        .build()
        .unwrap();
    let roams = Server::builder(&roaming).pipeline(breaks);
    let roams = roams.bind("127.0.0.1:0").wait().unwrap();
    for server in [serve(&pinned, breaks), roams] {
        is_cut(&server, &log, b"far too long a line\n", "at most 8");
        is_cut(&server, &log, b"panic\n", "on purpose");
    }
}

/// Says that it was asked to finish, and leaves the end to its peer.
fn stays(gate: Gate) -> Acts {
    Acts::on_read(|bytes, ctx| ctx.write_and_flush(bytes)).on_event(move |event, _| {
        if event.downcast_ref::<Draining>().is_some() {
            gate.open();
        }
    })
}

/// Ends a connection with a reset.
fn reset(client: TcpStream) {
    let socket = socket2::SockRef::from(&client);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_peer_that_leaves_is_an_error_unless_its_server_drains() {
    let (hook, log) = hook();
    let clock = ManualClock::new();
    let loops = NetGroup::builder("io").loops(1).clock(&clock);
    let group = loops.report_to(hook).build().unwrap();
    let (told, own) = Gate::pair();
    let server = serve(&group, move |p| p.add("stays", stays(own.clone())));
    let (mut first, mut second) = (dial(&server), dial(&server));
    assert_eq!(crate::round_trip(&mut first, b"x"), b"x");
    assert_eq!(crate::round_trip(&mut second, b"x"), b"x");
    reset(first);
    log.wait_for(1);
    let text = log.take().remove(0);
    assert!(text.contains("reset"), "{text}");

    let drained = server.drain(Duration::from_secs(60));
    told.wait();
    reset(second);
    let report = drained.wait().unwrap();
    assert!(report.closed_at_deadline.is_empty(), "{report}");
    assert_eq!(log.take(), [""; 0], "the drain has asked for it");
}

#[test]
fn a_client_that_was_idle_for_too_long_is_named() {
    let (hook, log) = hook();
    let clock = ManualClock::new();
    let loops = NetGroup::builder("io").loops(1).clock(&clock);
    let group = loops.report_to(hook).build().unwrap();
    let idle = Duration::from_secs(30);
    let server = serve(&group, move |p| {
        p.add_duplex("idle", Idle::reads(idle).closes())
            .add("echo", Echo)
    });
    let mut client = dial(&server);
    assert_eq!(crate::round_trip(&mut client, b"x"), b"x");
    clock.advance(idle);
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    log.wait_for(1);
    let received = log.take().remove(0);
    let peer = client.local_addr().unwrap().to_string();
    has(&received, ["30s", &peer]);
}

#[test]
fn a_connection_that_a_full_loop_refuses_is_named_and_counted() {
    let (hook, log) = hook();
    let loops = NetGroup::builder("io").loops(2).bound(16).report_to(hook);
    let group = loops.build().unwrap();
    let server = serve(&group, |p| p);
    let full = group.loops().iter().nth(1).unwrap();
    let stop = Stop::new();
    full.execute(stop.closure()).unwrap();
    stop.reached();
    while full.execute(|| ()).is_ok() {}
    // The loops take turns.
    let clients = [dial(&server), dial(&server)];
    log.wait_for(1);
    let received = log.take().remove(0);
    assert!(received.contains("`io-1`"), "{received}");
    let named = |client: &&TcpStream| received.contains(&client.local_addr().unwrap().to_string());
    let mut refused = clients.iter().find(named).unwrap();
    assert_eq!(refused.read(&mut [0; 8]).unwrap(), 0);
    until("the other one is accepted", || server.accepted() > 0);
    let metrics = server.metrics();
    assert_eq!((metrics.accepted, metrics.refused_by_loop), (1, 1));
    stop.go_on();
}

#[test]
fn a_handler_that_holds_the_close_back_does_not_keep_the_channel_open() {
    /// Passes everything on but the close.
    struct Holds;
    impl Inbound for Holds {
        type In = Bytes;
        type Out = Bytes;
        type Write = Nothing;
        const DUPLEX: bool = true;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.fire_read(bytes);
        }
    }
    impl Outbound for Holds {
        type Take = Bytes;
        type Write = Bytes;
        fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
            ctx.write(bytes);
        }
        fn close(&mut self, _: &mut OutboundContext<'_, Self>) {}
    }
    let breaks = Acts::on_read(|_, _| panic!("on purpose"));
    let mut channel =
        EmbeddedChannel::new(|p| p.add_duplex("holds", Holds).add("breaks", breaks)).unwrap();
    channel.receive("panic");
    assert!(!channel.is_open());
    assert_eq!(channel.errors().len(), 1);
}

#[test]
fn pinned_and_roaming_groups_accept_the_hook_for_unhandled_errors() {
    let (log, received) = Log::pair();
    let hook = OnUnhandled::new(move |source, what| received.push(format!("{source}: {what}")));
    let pinned = NetGroup::builder("still")
        .loops(1)
        .report_to(hook.clone())
        .build()
        .unwrap();
    pinned.execute(|| panic!("as planned")).unwrap();
    let pool = WorkerPool::builder("workers").max(3).build().unwrap();
    let roaming = NetGroup::builder("roams")
        .loops(1)
        .report_to(hook)
        .build_roaming(&pool)
        .unwrap();
    roaming.execute(|| panic!("as planned")).unwrap();
    log.wait_for(2);
    let mut received = log.take();
    received.sort();
    assert!(received[0].starts_with("roams-0: ") && received[1].starts_with("still-0: "));
}
