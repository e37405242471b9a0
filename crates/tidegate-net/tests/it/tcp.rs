//! Channels over real sockets.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::handlers::LineFrames;
use tidegate_net::{
    ChannelOptions, Inbound, InboundContext, Nothing, Server, UserEvent, WaterMarks,
};
use tidegate_testkit::{Gate, Log};

use crate::acts::Acts;
use crate::{Echo, LogChannel, dial, first, giving, group, half_closure, round_trip, serve};

#[test]
fn echoes_over_two_loops_and_keeps_each_connection_on_one() {
    let group = group(2);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| {
        p.add("gives", LogChannel(own.clone())).add("echo", Echo)
    });
    let mut clients: Vec<_> = (0..4).map(|_| dial(&server)).collect();
    for client in &mut clients {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    let big: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
    for client in &mut clients {
        let mut write = client.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| write.write_all(&big).unwrap());
            let mut back = vec![0; big.len()];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, big);
        });
    }
    assert_eq!((server.connections(), server.accepted()), (4, 4));
    let mut loops: Vec<_> = log
        .take()
        .iter()
        .map(|channel| channel.loop_name().to_owned())
        .collect();
    loops.sort();
    assert_eq!(loops, ["io-0", "io-0", "io-1", "io-1"]);
}

#[test]
fn addresses_are_those_of_the_socket() {
    let group = group(1);
    let (server, log) = giving(&group);
    let client = dial(&server);
    let channel = first(&log);
    assert_eq!(channel.peer_addr(), Some(client.local_addr().unwrap()));
    assert_eq!(channel.local_addr(), Some(server.local_addr()));
    assert!(channel.is_active());
}

#[test]
fn a_handle_writes_and_closes_from_another_thread() {
    let group = group(1);
    let (server, log) = giving(&group);
    let mut client = dial(&server);
    let channel = first(&log);
    let sent = channel.write_with("hello");
    channel.flush();
    sent.wait().unwrap();
    channel.write("bye");
    channel.close_when_flushed().wait().unwrap();
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    assert_eq!(all, "hellobye");
    assert!(channel.write_with("late").wait().is_err());
}

#[test]
fn the_peers_end_closes_the_channel_and_frees_its_place() {
    let group = group(1);
    let (server, log) = giving(&group);
    let client = dial(&server);
    let channel = first(&log);
    drop(client);
    channel.closed().wait().unwrap();
    assert!(!channel.is_active());
    group.iter().for_each(|one| one.settle());
    assert_eq!(group.io_metrics()[0].registered, 1, "the listener alone");
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_reset_is_the_cause_of_the_end() {
    let group = group(1);
    let (server, log) = giving(&group);
    let client = dial(&server);
    let channel = first(&log);
    socket2::SockRef::from(&client)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(client);
    channel.closed().wait().unwrap();
    let cause = channel.close_cause().unwrap().to_string();
    assert!(cause.contains("reset"), "{cause}");
}

#[test]
fn half_closure_lets_the_answer_out() {
    /// Replies when the peer has closed its sending half.
    struct Sums(usize);
    impl Inbound for Sums {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn read(&mut self, bytes: Bytes, _: &mut InboundContext<'_, Self>) {
            self.0 += bytes.len();
        }
        fn event(&mut self, _: UserEvent, ctx: &mut InboundContext<'_, Self>) {
            ctx.write(self.0.to_string());
            ctx.close_when_flushed();
        }
    }
    let group = group(1);
    let server = Server::builder(&group)
        .options(half_closure())
        .pipeline(|p| p.add("sums", Sums(0)))
        .bind("127.0.0.1:0");
    let mut client = dial(&server.wait().unwrap());
    client.write_all(&[0; 1234]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "1234");
}

#[test]
fn a_slow_reader_stops_the_writer_at_the_marks_and_nothing_is_lost() {
    /// Writes this number of kilobytes as fast as the channel is writable.
    struct Pours(usize);
    impl Pours {
        fn pour(&mut self, ctx: &mut InboundContext<'_, Self>) {
            while self.0 > 0 && ctx.is_writable() {
                ctx.write(vec![7; 1024]);
                self.0 -= 1;
            }
            if self.0 == 0 {
                ctx.close_when_flushed();
            }
            ctx.flush();
        }
    }
    impl Inbound for Pours {
        type In = Bytes;
        type Out = Nothing;
        type Write = Bytes;
        fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
            self.pour(ctx);
        }
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
        fn writability(&mut self, _: bool, ctx: &mut InboundContext<'_, Self>) {
            self.pour(ctx);
        }
    }
    let group = group(1);
    let (log, own) = Log::pair();
    let options = ChannelOptions {
        marks: WaterMarks::new(16 * 1024, 32 * 1024, 64 * 1024).unwrap(),
        send_buffer: Some(16 * 1024),
        ..ChannelOptions::default()
    };
    let server = Server::builder(&group)
        .options(options)
        .pipeline(move |p| {
            p.add("gives", LogChannel(own.clone()))
                .add("pours", Pours(8192))
        })
        .bind("127.0.0.1:0");
    let mut client = dial(&server.wait().unwrap());
    let channel = first(&log);
    let mut buffer = vec![0; 50_000];
    let mut total = 0;
    loop {
        assert!(channel.pending_bytes() <= 34 * 1024);
        match client.read(&mut buffer).unwrap() {
            0 => break,
            count => total += count,
        }
    }
    assert_eq!(total, 8192 * 1024);
}

#[test]
fn one_byte_segments_make_the_same_lines() {
    fn lines(log: Log<Bytes>) -> Acts {
        Acts::on_read(move |line, _| log.push(line))
    }
    let group = group(1);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| {
        p.add("lines", LineFrames::max(100))
            .add("log", lines(own.clone()))
    });
    let mut client = dial(&server);
    client.set_nodelay(true).unwrap();
    for byte in b"one\r\ntwo\nthree\n" {
        client.write_all(&[*byte]).unwrap();
    }
    log.wait_for(3);
    assert_eq!(log.take(), ["one", "two", "three"]);
}

#[test]
fn a_handler_that_panics_affects_only_its_own_connection() {
    fn panics() -> Acts {
        Acts::on_read(|bytes, ctx| {
            assert_ne!(bytes, "panic", "on purpose");
            ctx.fire_read(bytes);
        })
    }
    let (unhandled, received) = Log::pair();
    let loops = tidegate_net::NetGroup::builder("io")
        .loops(1)
        .on_unhandled(move |_, what| received.push(what.to_string()));
    let group = loops.build().unwrap();
    let server = serve(&group, |p| p.add("panics", panics()).add("echo", Echo));
    let (mut good, mut bad) = (dial(&server), dial(&server));
    assert_eq!(round_trip(&mut good, b"hello"), b"hello");
    bad.write_all(b"panic").unwrap();
    assert_eq!(bad.read(&mut [0; 8]).unwrap(), 0, "closed");
    assert_eq!(round_trip(&mut good, b"still here"), b"still here");
    unhandled.wait_for(1);
    let received = unhandled.take();
    assert_eq!(received.len(), 1);
    assert!(received[0].contains("on purpose"), "{received:?}");
    let peer = bad.local_addr().unwrap().to_string();
    assert!(received[0].contains(&peer), "{received:?}");
}

#[test]
fn a_busy_loop_still_reads_its_sockets() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let stop = Gate::new();
    fn spin(home: tidegate_loop::EventLoop, stop: Gate) {
        let again = home.clone();
        let _ = home.execute(move || {
            if !stop.is_open() {
                spin(again, stop);
            }
        });
    }
    spin(group.next().clone(), stop.clone());
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    stop.open();
}
