//! The memory cap of a server: what counts, and which connections are closed above it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use bytes::Bytes;
use tidegate_net::handlers::LineFrames;
use tidegate_net::{Channel, ChannelOptions, NetError, NetGroup, Server};
use tidegate_testkit::{Log, Rng, Stop, until};

use crate::acts::Acts;
use crate::{LogChannel, LogReads, dial, group};

/// What a write counts for besides its bytes.
const OVERHEAD: usize = 96;
const KB: usize = 1000;

fn server(group: &NetGroup, cap: usize) -> (Server, Log<Channel>) {
    let (log, own) = Log::pair();
    let server = Server::builder(group)
        .pipeline(move |p| p.add("gives", LogChannel(own.clone())))
        .max_memory(cap)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    (server, log)
}

/// Connects clients, and returns each with the server's channel for it.
fn connections(server: &Server, log: &Log<Channel>, count: usize) -> Vec<(TcpStream, Channel)> {
    let connect = |_| {
        let client = dial(server);
        log.wait_for(1);
        (client, log.take().remove(0))
    };
    (0..count).map(connect).collect()
}

fn bytes(count: usize) -> Bytes {
    Bytes::from(vec![b'x'; count])
}

fn is_full(channel: &Channel) -> bool {
    channel.closed().wait().unwrap();
    let cause = channel.close_cause();
    let cause = cause.as_ref().and_then(|why| why.downcast_ref());
    matches!(cause, Some(NetError::ServerMemoryFull { .. }))
}

fn closed_end(client: &mut TcpStream) {
    // A reset is an end as well: bytes were lost.
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn above_the_cap_the_connection_that_holds_most_is_closed() {
    let (reports, own) = Log::pair();
    let group = NetGroup::builder("io").loops(2);
    let group = group.on_unhandled(move |_, what| own.push(what.to_string()));
    let group = group.build().unwrap();
    let (server, log) = server(&group, 1000 * KB);
    let mut all = connections(&server, &log, 3);
    for (at, size) in [100 * KB, 500 * KB, 300 * KB].into_iter().enumerate() {
        // Not flushed, so that they wait for certain.
        all[at].1.write(bytes(size));
    }
    assert_eq!(server.metrics().closed_for_memory, 0);
    all[0].1.write(bytes(200 * KB));
    assert!(is_full(&all[1].1));
    let why = all[1].1.close_cause().unwrap().to_string();
    assert!(why.contains("1000000") && why.contains("500096"), "{why}");
    closed_end(&mut all[1].0);
    reports.wait_for(1);
    assert!(reports.take()[0].contains("max_memory"));
    group.iter().for_each(|one| one.settle());
    let metrics = server.metrics();
    assert_eq!((metrics.closed_for_memory, metrics.connections), (1, 2));
    assert_eq!(metrics.held_bytes, 600 * KB + 3 * OVERHEAD);
    assert!(all[0].1.is_active() && all[2].1.is_active());
    drop(all);
    until("the others end", || server.connections() == 0);
    assert_eq!(server.metrics().held_bytes, 0);
}

#[test]
fn as_many_are_closed_as_needed_although_many_threads_write() {
    let group = group(2);
    let (server, log) = server(&group, 450 * KB);
    let all = connections(&server, &log, 8);
    thread::scope(|scope| {
        for (_, channel) in &all {
            scope.spawn(|| channel.write(bytes(100 * KB)));
        }
    });
    until("the largest are closed", || server.connections() == 4);
    let metrics = server.metrics();
    assert_eq!(metrics.closed_for_memory, 4);
    assert_eq!(metrics.held_bytes, 4 * (100 * KB + OVERHEAD));
    let closed = all.iter().filter(|(_, channel)| !channel.is_active());
    assert!(closed.into_iter().all(|(_, channel)| is_full(channel)));
    let late = all
        .iter()
        .find(|(_, channel)| !channel.is_active())
        .unwrap();
    assert!(late.1.write_with(bytes(1)).wait().is_err());
}

#[test]
fn the_count_returns_to_zero_when_everything_is_sent() {
    let group = group(2);
    let (server, log) = server(&group, usize::MAX);
    let all = connections(&server, &log, 4);
    thread::scope(|scope| {
        for (at, (client, channel)) in all.iter().enumerate() {
            let mut rng = Rng::new(at as u64);
            let sizes: Vec<_> = (0..300).map(|_| rng.index(20 * KB)).collect();
            let total: usize = sizes.iter().sum();
            scope.spawn(move || {
                for size in sizes {
                    channel.write(bytes(size));
                    if size % 3 == 0 {
                        channel.flush();
                    }
                }
                channel.flush();
            });
            scope.spawn(move || {
                let mut client = client;
                let mut rest = vec![0; total];
                client.read_exact(&mut rest).unwrap();
            });
        }
    });
    until("nothing waits", || server.metrics().held_bytes == 0);
    assert_eq!(server.metrics().closed_for_memory, 0);
    assert_eq!(server.connections(), 4);
}

#[test]
fn bytes_of_incomplete_frames_count() {
    let group = group(1);
    let (lines, own) = Log::pair();
    let server = Server::builder(&group)
        .pipeline(move |p| {
            p.add("lines", LineFrames::max(1000 * KB))
                .add("hears", LogReads(own.clone()))
        })
        .max_memory(700 * KB)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut clients: Vec<_> = (0..3).map(|_| dial(&server)).collect();
    let held = |size| {
        until("the bytes arrive", || {
            server.metrics().held_bytes.abs_diff(size) < 4096
        });
    };
    clients[0].write_all(&bytes(400 * KB)).unwrap();
    held(400 * KB);
    clients[1].write_all(&bytes(200 * KB)).unwrap();
    held(600 * KB);
    // The first is closed once the third holds more than 100 KB.
    clients[2].write_all(&bytes(150 * KB)).unwrap();
    held(350 * KB);
    until("the first is closed", || server.connections() == 2);
    assert_eq!(server.metrics().closed_for_memory, 1);
    closed_end(&mut clients[0]);
    for client in &mut clients[1..] {
        client.write_all(b"\n").unwrap();
    }
    lines.wait_for(2);
    let mut sizes: Vec<_> = lines.take().iter().map(Bytes::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [150 * KB, 200 * KB]);
    held(0);
}

#[test]
fn a_half_closed_connection_counts_until_it_is_closed() {
    let group = group(1);
    let (channels, own) = Log::pair();
    let server = Server::builder(&group)
        .options(ChannelOptions {
            half_closure: true,
            ..ChannelOptions::default()
        })
        .pipeline(move |p| {
            p.add("lines", LineFrames::max(1000 * KB))
                .add("gives", LogChannel(own.clone()))
        })
        .max_memory(500 * KB)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut all = connections(&server, &channels, 3);
    let held = |size| {
        until("the bytes arrive", || {
            server.metrics().held_bytes.abs_diff(size) < 4096
        });
    };
    // Cut off in a frame. The decoder keeps the bytes, since another handler may want them.
    for (client, size) in all.iter_mut().zip([300, 100]) {
        client.0.write_all(&bytes(size * KB)).unwrap();
        client.0.shutdown(Shutdown::Write).unwrap();
    }
    held(400 * KB);
    assert_eq!(server.connections(), 3);
    all[2].1.write(bytes(150 * KB));
    assert!(is_full(&all[0].1), "it holds most");
    held(250 * KB);
    // The other one can still respond, and its memory is free when it is closed.
    all[1].1.write("an answer");
    drop(all[1].1.close_when_flushed());
    let mut answer = String::new();
    all[1].0.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "an answer");
    held(150 * KB);
    assert_eq!(server.metrics().closed_for_memory, 1);
}

#[test]
fn a_server_without_a_cap_counts_nothing() {
    let group = group(1);
    let (server, log) = crate::giving(&group);
    let all = connections(&server, &log, 1);
    all[0].1.write(bytes(500 * KB));
    group.iter().for_each(|one| one.settle());
    let metrics = server.metrics();
    assert_eq!((metrics.held_bytes, metrics.closed_for_memory), (0, 0));
    assert_eq!(all[0].1.pending_bytes(), 500 * KB + OVERHEAD);
}

#[test]
fn the_count_is_exact_although_connections_write_read_and_end_at_once() {
    let group = group(2);
    for round in 0..tidegate_testkit::rounds(20) {
        let (server, log) = server(&group, 200 * KB);
        let all = connections(&server, &log, 8);
        thread::scope(|scope| {
            for (at, (client, channel)) in all.iter().enumerate() {
                let mut rng = Rng::new((round * 8 + at) as u64);
                scope.spawn(move || {
                    for _ in 0..20 {
                        channel.write(bytes(rng.index(60 * KB)));
                        match rng.below(8) {
                            0..=3 => channel.flush(),
                            4 => drop(channel.close()),
                            _ => {}
                        }
                    }
                    drop(channel.close_when_flushed());
                });
                // Half of the clients read; the others leave in the middle of it.
                scope.spawn(move || {
                    let mut client = client;
                    let mut some = vec![0; 10 * KB];
                    if at % 2 == 1 {
                        let _ = client.read(&mut some);
                        client.shutdown(std::net::Shutdown::Both).unwrap_or(());
                    } else {
                        while matches!(client.read(&mut some), Ok(1..)) {}
                    }
                });
            }
        });
        until("all are closed", || server.connections() == 0);
        until("nothing is held", || server.metrics().held_bytes == 0);
        let full = all.iter().filter(|(_, channel)| is_full(channel)).count();
        assert_eq!(server.metrics().closed_for_memory, full as u64);
    }
}

#[test]
fn a_connection_that_closes_for_another_reason_first_is_not_counted() {
    let (reports, own) = Log::pair();
    let group = NetGroup::builder("io").loops(1);
    let group = group.on_unhandled(move |_, what| own.push(what.to_string()));
    let group = group.build().unwrap();
    let (log, stop) = (Log::new(), Stop::new());
    let (own, inside) = (log.clone(), stop.closure());
    let server = Server::builder(&group)
        .pipeline(move |p| {
            let inside = inside.clone();
            let blocks = Acts::on_read(move |_, ctx| {
                inside();
                ctx.close();
            });
            p.add("gives", LogChannel(own.clone()))
                .add("blocks", blocks)
        })
        .max_memory(300 * KB)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut all = connections(&server, &log, 2);
    all[0].0.write_all(b"x").unwrap();
    stop.reached();
    // The loop cannot close the connection yet, since a handler of it blocks, which then closes it.
    all[0].1.write(bytes(200 * KB));
    all[1].1.write(bytes(150 * KB));
    assert_eq!(server.metrics().closed_for_memory, 0);
    stop.go_on();
    assert!(!is_full(&all[0].1));
    group.iter().for_each(|one| one.settle());
    let metrics = server.metrics();
    assert_eq!((metrics.closed_for_memory, metrics.connections), (0, 1));
    assert_eq!(metrics.held_bytes, 150 * KB + OVERHEAD);
    assert!(reports.take().is_empty());
}

#[cfg(feature = "tls")]
#[test]
fn the_cap_holds_for_connections_with_tls() {
    let authority = crate::tls::Authority::new();
    let (tls, name) = (authority.server("localhost"), authority.client());
    let name = name.name("localhost").unwrap();
    let group = group(1);
    let (log, own) = Log::pair();
    let server = Server::builder(&group)
        .pipeline(move |p| {
            p.add_duplex("tls", tls.handler())
                .add("gives", LogChannel(own.clone()))
        })
        .max_memory(300 * KB)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let connect = |_| {
        let name = name.clone();
        let client = tidegate_net::Client::builder(&group)
            .pipeline(move |p| p.add_duplex("tls", name.handler()));
        client.connect(server.local_addr()).wait().unwrap()
    };
    let open: Vec<_> = (0..3).map(connect).collect();
    log.wait_for(3);
    let channels = log.take();
    // Not flushed, so nothing is sent and everything is held.
    for (channel, size) in channels.iter().zip([50, 200, 100]) {
        channel.write(bytes(size * KB));
    }
    assert!(is_full(&channels[1]), "the one that holds most");
    until("its memory is free", || server.connections() == 2);
    assert_eq!(server.metrics().closed_for_memory, 1);
    open.iter().for_each(|one| drop(one.close()));
    until("the others end", || server.connections() == 0);
    until("nothing is held", || server.metrics().held_bytes == 0);
}
