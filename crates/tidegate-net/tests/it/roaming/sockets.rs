//! Roaming event loops with real sockets: handlers that block, panic, close themselves, are written
//! to from outside, and are stopped half-way.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::OnUnhandled;
use tidegate_loop::{Quiet, ShutdownError};
use tidegate_net::handlers::LineFrames;
use tidegate_net::{
    Blocking, Channel, Client, Handler, Inbound, InboundContext, Nothing, PipelineChange,
    PipelineError,
};
use tidegate_promise::WaitError;
use tidegate_testkit::{Gate, Log, has};

use super::*;
use crate::acts::Acts;
use crate::{Echo, dial, round_trip, serve};

/// Does what each line requests, and echoes the line.
#[derive(Clone)]
struct Does {
    arrived: Gate,
    go_on: Gate,
    channels: Log<Channel>,
    group: Option<NetGroup<Roaming>>,
}

impl Does {
    fn new() -> Self {
        Self {
            arrived: Gate::new(),
            go_on: Gate::new(),
            channels: Log::new(),
            group: None,
        }
    }
}

impl Inbound for Does {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.channels.push(ctx.channel());
    }

    fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
        match &line[..] {
            b"block" => {
                self.arrived.open();
                self.go_on.wait();
            }
            b"end" => {
                let group = self.group.as_ref().expect("the test gave it one");
                let ended = group.shutdown(Quiet::none(Duration::MAX)).wait();
                if ended.is_err_and(|error| error.is_refused()) {
                    self.arrived.open();
                }
            }
            b"panic" => panic!("on purpose"),
            b"close" => return ctx.close(),
            b"timer" => return drop(ctx.schedule(Duration::ZERO, 7)),
            b"wait" => {
                let group = self.group.as_ref().expect("the test gave it one");
                let (promise, answer) = group.next().promise::<u32>();
                group.execute(move || promise.succeed(7).unwrap()).unwrap();
                assert_eq!(answer.wait().unwrap(), 7);
            }
            _ => {}
        }
        ctx.write(line);
        ctx.write("\n");
        ctx.flush();
    }

    fn timer(&mut self, key: u64, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(format!("{key}\n"));
        ctx.flush();
    }
}

/// Passes on what it reads.
fn pass_on() -> Acts {
    Acts::on_read(|bytes, ctx| ctx.fire_read(bytes))
}

fn serve_lines(group: &NetGroup<Roaming>, does: &Does) -> Server {
    let does = does.clone();
    serve(group, move |p| {
        p.add("lines", LineFrames::max(80))
            .add("does", does.clone())
    })
}

/// Reads to the end of the stream.
fn rest(mut stream: std::net::TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest
}

#[test]
fn an_echo_server_echoes() {
    for (kind, threads) in KINDS.into_iter().flat_map(|kind| [(kind, 2), (kind, 16)]) {
        let (_pool, group) = roaming_with(kind, threads);
        let server = serve(&group, |p| p.add("echo", Echo));
        let mut one = dial(&server);
        let mut other = dial(&server);
        for _ in 0..100 {
            assert_eq!(round_trip(&mut one, b"hello"), b"hello");
            assert_eq!(round_trip(&mut other, b"there"), b"there");
        }
        let counts = group.metrics()[0];
        assert!(counts.tasks() >= 200, "{kind:?}: {counts}");
        let io = group.io_metrics()[0];
        assert_eq!((io.accepted, io.read_bytes), (2, 1000));
    }
}

#[test]
fn handlers_that_never_block_run_where_they_were_produced() {
    struct Quick;
    impl Inbound for Quick {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        const BLOCKING: Blocking = Blocking::Never;
        fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.write(bytes);
            ctx.flush();
        }
    }
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let server = serve(&group, |p| p.add("quick", Quick));
        let mut peer = dial(&server);
        for _ in 0..100 {
            assert_eq!(round_trip(&mut peer, b"hello"), b"hello");
        }
        let counts = group.metrics()[0];
        assert_eq!((counts.pc, counts.tasks()), (counts.tasks(), counts.pc));
    }
}

#[test]
fn a_handler_that_blocks_holds_up_its_own_channel_only() {
    for kind in HAND_OVER {
        let (_pool, group) = roaming_with(kind, 4);
        let does = Does::new();
        let server = serve_lines(&group, &does);
        let (mut stuck, mut other) = (dial(&server), dial(&server));
        stuck.write_all(b"block\nsecond\n").unwrap();
        does.arrived.wait();
        for _ in 0..10 {
            assert_eq!(round_trip(&mut other, b"hello\n"), b"hello\n");
        }
        assert_eq!(group.submit(|| 7).unwrap().wait().unwrap(), 7);
        assert_eq!(round_trip(&mut dial(&server), b"new\n"), b"new\n");
        does.go_on.open();
        assert_eq!(round_trip(&mut stuck, b"third\n").len(), 6);
        drop(stuck.shutdown(std::net::Shutdown::Write));
        assert!(rest(stuck).ends_with(b"third\n"));
    }
}

#[test]
fn what_is_written_from_outside_comes_after_what_the_handler_was_busy_with() {
    let (_pool, group) = roaming(4);
    let does = Does::new();
    let server = serve_lines(&group, &does);
    let mut peer = dial(&server);
    peer.write_all(b"block\n").unwrap();
    does.arrived.wait();
    let channel = does.channels.take().remove(0);
    channel.write("one ");
    let sent = channel.write_with("two ");
    channel.write_and_flush("three");
    drop(channel.close_when_flushed());
    group.next().settle();
    assert!(!sent.is_done(), "it waits for the handler to return");
    does.go_on.open();
    assert_eq!(rest(peer), b"block\none two three");
    sent.wait().unwrap();
    channel.closed().wait().unwrap();
}

#[test]
fn a_panic_ends_its_own_channel_only() {
    let (log, received) = Log::pair();
    let hook = OnUnhandled::new(move |_, what| received.push(what.to_string()));
    for kind in KINDS {
        let builder = NetGroup::builder("io").report_to(hook.clone());
        let (_pool, group) = roaming_from(builder, kind, 4);
        let server = serve_lines(&group, &Does::new());
        let (mut hurt, mut other) = (dial(&server), dial(&server));
        assert_eq!(round_trip(&mut other, b"hello\n"), b"hello\n");
        hurt.write_all(b"panic\n").unwrap();
        assert_eq!(rest(hurt), b"");
        assert_eq!(round_trip(&mut other, b"hello\n"), b"hello\n");
        log.wait_for(1);
        assert!(log.take()[0].contains("on purpose"), "{kind:?}");
    }
}

#[test]
fn a_handler_can_close_its_channel() {
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let does = Does::new();
        let server = serve_lines(&group, &does);
        let mut peer = dial(&server);
        assert_eq!(round_trip(&mut peer, b"hello\n"), b"hello\n");
        peer.write_all(b"close\n").unwrap();
        assert_eq!(rest(peer), b"");
        does.channels.take().remove(0).closed().wait().unwrap();
        assert_eq!(server.connections(), 0, "{kind:?}");
    }
}

#[test]
fn timers_of_handlers_and_loops_work() {
    let (_pool, group) = roaming(4);
    let server = serve_lines(&group, &Does::new());
    let mut peer = dial(&server);
    peer.write_all(b"timer\n").unwrap();
    let mut line = [0; 2];
    peer.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"7\n");
    let answer = group.schedule(Duration::ZERO, || 7).unwrap();
    assert_eq!(answer.wait().unwrap(), 7);
    let spawned = group.spawn(async { 7 }).unwrap();
    assert_eq!(spawned.wait().unwrap(), 7);
}

#[test]
fn a_handler_may_wait_for_its_own_loop_and_a_timer_may_not() {
    let (_pool, group) = roaming(4);
    let mut does = Does::new();
    does.group = Some(group.clone());
    let server = serve_lines(&group, &does);
    assert_eq!(round_trip(&mut dial(&server), b"wait\n"), b"wait\n");
    let (_promise, never) = group.next().promise::<u32>();
    let refused = group.schedule(Duration::ZERO, move || {
        matches!(never.wait(), Err(WaitError::Refused(_)))
    });
    assert!(refused.unwrap().wait().unwrap());
    drop(does.group.take());
    server.stop_accepting().wait().unwrap();
}

#[test]
fn clients_connect_and_refused_connects_fail() {
    let (_pool, group) = roaming(4);
    let server = serve(&group, |p| p.add("echo", Echo));
    let does = Does::new();
    let own = does.clone();
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("lines", LineFrames::max(80)).add("does", own.clone()))
        .build();
    let channel = client.connect(server.local_addr()).wait().unwrap();
    channel.write_and_flush("block\n");
    does.arrived.wait();
    does.go_on.open();
    channel.close().wait().unwrap();
    let address = server.local_addr();
    server.stop_accepting().wait().unwrap();
    assert!(client.connect(address).wait().is_err());
}

#[test]
fn a_pair_in_memory_speaks_on_roaming_loops() {
    let (_pool, group) = roaming(4);
    let does = Does::new();
    let own = does.clone();
    let pair = group.local_pair(
        |p| p.add("echo", Echo),
        move |p| p.add("lines", LineFrames::max(80)).add("does", own.clone()),
    );
    let (one, other) = pair.wait().unwrap();
    one.write_and_flush("block\n");
    does.arrived.wait();
    does.go_on.open();
    other.close().wait().unwrap();
    one.closed().wait().unwrap();
}

#[test]
fn a_handler_that_stays_on_its_thread_is_refused_by_name() {
    let (_pool, group) = roaming(4);
    let does = Does::new();
    let server = serve_lines(&group, &does);
    let mut peer = dial(&server);
    assert_eq!(round_trip(&mut peer, b"hello\n"), b"hello\n");
    let channel = does.channels.take().remove(0);
    let stays =
        channel.change(|| PipelineChange::add_first("stays", Handler::local_inbound(pass_on())));
    let why = stays.wait().unwrap_err().to_string();
    let name = "stays".to_owned();
    has(&why, [&PipelineError::NotSend { name }.to_string()]);
}

#[test]
fn a_graceful_end_waits_for_a_handler_that_blocks() {
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let does = Does::new();
        let server = serve_lines(&group, &does);
        let (mut busy, idle) = (dial(&server), dial(&server));
        does.channels.wait_for(2);
        busy.write_all(b"block\n").unwrap();
        does.arrived.wait();
        let over = group.shutdown(Quiet::none(Duration::from_secs(60)));
        // Under `ProduceConsume` the loop does nothing while the handler blocks.
        let idle = match kind {
            Kind::Pc => Some(idle),
            _ => {
                assert_eq!(rest(idle), b"", "a present channel is closed at once");
                None
            }
        };
        assert!(!over.is_done(), "{kind:?}");
        does.go_on.open();
        over.wait().unwrap();
        assert_eq!(rest(busy), b"block\n");
        assert!(idle.is_none_or(|idle| rest(idle).is_empty()));
        for channel in does.channels.take() {
            channel.closed().wait().unwrap();
        }
    }
}

#[test]
fn a_loop_whose_time_is_over_leaves_a_stuck_handler_to_close_its_channel_itself() {
    for kind in HAND_OVER {
        let (_pool, group) = roaming_with(kind, 4);
        let does = Does::new();
        let server = serve_lines(&group, &does);
        let mut busy = dial(&server);
        busy.write_all(b"block\n").unwrap();
        does.arrived.wait();
        let channel = does.channels.take().remove(0);
        let over = group.shutdown(Quiet::none(Duration::ZERO)).wait();
        let Err(WaitError::Failed(ShutdownError::Stuck { cut, .. })) = &over else {
            panic!("{kind:?}: {over:?}");
        };
        assert_eq!(*cut, [busy.local_addr().unwrap().to_string()]);
        does.go_on.open();
        channel.closed().wait().unwrap();
        assert_eq!(rest(busy), b"block\n");
    }
}

#[test]
fn a_drain_notifies_absent_channels_too() {
    for kind in HAND_OVER {
        let (_pool, group, clock) = roaming_by(kind, 4);
        let does = Does::new();
        let server = serve_lines(&group, &does);
        let (mut busy, idle) = (dial(&server), dial(&server));
        busy.write_all(b"block\n").unwrap();
        does.arrived.wait();
        does.channels.wait_for(2);
        let drained = server.drain(Duration::from_secs(10));
        clock.jump(Duration::from_secs(10));
        assert_eq!(rest(idle), b"");
        assert!(!drained.is_done(), "one of them blocks");
        does.go_on.open();
        let report = drained.wait().unwrap();
        let counts = (
            report.open,
            report.closed_at_deadline.len(),
            report.still_running,
        );
        assert_eq!(counts, (2, 2, 0));
        assert_eq!(rest(busy), b"block\n");
    }
}

#[test]
fn a_drain_does_not_wait_for_a_handler_that_does_not_return() {
    for kind in HAND_OVER {
        let (_pool, group, clock) = roaming_by(kind, 4);
        let does = Does::new();
        let server = serve_lines(&group, &does);
        let (mut busy, idle) = (dial(&server), dial(&server));
        let peer = busy.local_addr().unwrap().to_string();
        busy.write_all(b"block\n").unwrap();
        does.arrived.wait();
        does.channels.wait_for(2);
        let drained = server.drain(Duration::from_secs(10));
        clock.jump(Duration::from_secs(10));
        // The idle channel is cut at the deadline.
        for channel in does.channels.take() {
            if channel.peer_addr() == Some(idle.local_addr().unwrap()) {
                channel.closed().wait().unwrap();
            }
        }
        clock.jump(Server::DRAIN_GRACE);
        let report = drained.wait().unwrap();
        let counts = (
            report.open,
            report.closed_at_deadline.len(),
            report.still_running,
        );
        assert_eq!(counts, (2, 2, 1));
        assert!(report.closed_at_deadline.contains(&peer), "{report:?}");
        has(report.to_string(), ["the handlers of 1 have not returned"]);
        does.go_on.open();
        assert_eq!(rest(busy), b"block\n", "it ends when its handler returns");
    }
}

#[test]
fn a_pool_that_is_too_small_is_an_error_that_says_so() {
    let pool = WorkerPool::builder("tiny").core(2).max(2).build().unwrap();
    let refused = tidegate_net::roaming("io", 2, &pool).unwrap_err();
    assert!(refused.to_string().contains("too small"), "{refused}");
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("io-0"), "{cause}");
}

#[test]
fn a_handler_does_not_wait_for_the_end_of_its_own_group() {
    for kind in KINDS {
        let (_pool, group) = roaming_with(kind, 4);
        let mut does = Does::new();
        does.group = Some(group.clone());
        let server = serve_lines(&group, &does);
        let mut client = dial(&server);
        client.write_all(b"end\n").unwrap();
        does.arrived.wait();
        group.shutdown(Quiet::none(Duration::MAX)).wait().unwrap();
    }
}
