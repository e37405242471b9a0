//! The network within the process, which takes the place of TCP in tests.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::internal::{LocalListener, LocalNetwork, LocalSocket};
use tidegate_net::{Client, Handler, Listener, NetError, NetGroup, Server, ServerBuilder};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Log, WATCHDOG, until};

use crate::backlog::hold;
use crate::{Echo, LogChannel, LogReads, first, serve};

fn at(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn any() -> SocketAddr {
    at("127.0.0.1:0")
}

fn group_on(network: &LocalNetwork, loops: usize) -> NetGroup {
    let group = NetGroup::builder("io").loops(loops);
    group.local_network(network).build().unwrap()
}

/// Builds a server that echoes.
fn echo(group: &NetGroup) -> ServerBuilder {
    Server::builder(group).pipeline(|p| p.add("echo", Echo))
}

/// Connects a client that does not wait for ever.
fn dial(network: &LocalNetwork, to: SocketAddr) -> LocalSocket {
    let client = network.connect(to).unwrap();
    client.set_timeout(Some(WATCHDOG));
    client
}

fn accept(listener: &LocalListener) -> LocalSocket {
    let accepted = listener.accept(Some(WATCHDOG)).unwrap();
    accepted.set_timeout(Some(WATCHDOG));
    accepted
}

/// Sends `bytes` and reads as many back.
fn round_trip(stream: &mut LocalSocket, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).unwrap();
    back
}

fn refusal(network: &LocalNetwork, to: SocketAddr) -> ErrorKind {
    network.connect(to).unwrap_err().kind()
}

/// Returns the only listener of a server, which no longer accepts.
fn released(server: &Server) -> LocalListener {
    let mut listeners = server.release_listeners().wait().unwrap();
    match listeners.remove(0) {
        Listener::Local(listener) => listener,
        other => panic!("not of the network: {other:?}"),
    }
}

#[test]
fn a_server_and_a_client_of_the_same_network_exchange_data() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 2);
    let server = echo(&group).bind("127.0.0.1:0").wait().unwrap();
    let (log, own) = Log::pair();
    let client = Client::builder(&group).pipeline(move |p| p.add("log", LogReads(own.clone())));
    let channel = client.build().connect(server.local_addr()).wait().unwrap();
    assert_eq!(channel.peer_addr(), Some(server.local_addr()));
    assert!(channel.local_addr().unwrap().ip().is_loopback());
    channel.write_and_flush_with("hello").wait().unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["hello"]);
    channel.close().wait().unwrap();
    until("the server sees the end", || server.connections() == 0);
}

#[test]
fn a_test_plays_both_sides() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| {
        let p = p.add("log", LogChannel(own.clone()));
        p.add("echo", Echo)
    });
    let mut client = dial(&network, server.local_addr());
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    let channel = first(&log);
    assert_eq!(channel.peer_addr(), client.local_addr());
    assert_eq!(channel.local_addr(), client.peer_addr());

    let listener = network.bind(any()).unwrap();
    let client = Client::builder(&group).pipeline(|p| p.add("echo", Echo));
    let channel = client.build().connect(listener.local_addr());
    let channel = channel.wait().unwrap();
    let mut served = accept(&listener);
    assert_eq!(round_trip(&mut served, b"hello"), b"hello");
    assert_eq!(channel.local_addr(), served.peer_addr());
    drop(served);
    channel.closed().wait().unwrap();
}

#[test]
fn roaming_loops_use_a_network_too() {
    let network = LocalNetwork::new();
    let workers = WorkerPool::builder("workers").core(3).max(8).build();
    let group = NetGroup::builder("io").loops(1).local_network(&network);
    let group = group.build_roaming(&workers.unwrap()).unwrap();
    let server = Server::builder(&group);
    let server = server.pipeline(|p| p.add_handler("echo", Handler::inbound(Echo)));
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    for _ in 0..20 {
        let mut client = dial(&network, server.local_addr());
        assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    }
    server.stop_accepting().wait().unwrap();
    let kind = refusal(&network, server.local_addr());
    assert_eq!(kind, ErrorKind::ConnectionRefused);
}

#[test]
fn nobody_listens_at_an_address_that_is_not_bound() {
    let (network, other) = (LocalNetwork::new(), LocalNetwork::new());
    let listener = network.bind(any()).unwrap();
    let address = listener.local_addr();
    assert_eq!(refusal(&other, address), ErrorKind::ConnectionRefused);
    drop(listener);
    assert_eq!(refusal(&network, address), ErrorKind::ConnectionRefused);
    let client = Client::builder(&group_on(&network, 1)).build();
    let why = client.connect(address).wait().unwrap_err();
    assert!(why.to_string().contains("connection refused"), "{why}");
}

#[test]
fn an_address_has_one_listener() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let server = echo(&group).bind("127.0.0.1:0").wait().unwrap();
    let port = server.local_addr().port();
    let in_use = |ip: &str| {
        let address = at(&format!("{ip}:{port}"));
        network.bind(address).err().map(|why| why.kind())
    };
    assert_eq!(in_use("127.0.0.1"), Some(ErrorKind::AddrInUse));
    assert_eq!(in_use("0.0.0.0"), Some(ErrorKind::AddrInUse));
    assert_eq!(in_use("127.0.0.2"), None);
    assert_eq!(in_use("[::]"), None, "another family");
    let why = echo(&group).bind(server.local_addr()).wait().unwrap_err();
    let why = why.to_string();
    assert!(why.contains("cannot listen on 127.0.0.1:"), "{why}");
    assert!(why.contains("address in use"), "{why}");
    server.stop_accepting().wait().unwrap();
    assert_eq!(in_use("127.0.0.1"), None);
}

#[test]
fn port_zero_is_a_port_that_no_other_listener_has_had() {
    let network = LocalNetwork::new();
    let ports = |_| network.bind(any()).unwrap().local_addr().port();
    let mut ports: Vec<u16> = (0..100).map(ports).collect();
    assert!(ports.iter().all(|port| *port > 0));
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 100);
}

#[test]
fn a_listener_at_all_addresses_gets_what_no_other_gets() {
    let network = LocalNetwork::new();
    let all = network.bind(at("0.0.0.0:80")).unwrap();
    let client = dial(&network, at("127.0.0.3:80"));
    assert_eq!(accept(&all).peer_addr(), client.local_addr());
    assert_eq!(
        refusal(&network, at("[::1]:80")),
        ErrorKind::ConnectionRefused
    );
}

#[test]
fn listeners_that_share_a_port_get_connections_in_turn() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 2);
    let (log, own) = Log::pair();
    let server = Server::builder(&group).pipeline(move |p| p.add("log", LogChannel(own.clone())));
    let server = server.listeners_per_port(2).bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let _clients: Vec<_> = (0..4)
        .map(|_| dial(&network, server.local_addr()))
        .collect();
    log.wait_for(4);
    let mut loops: Vec<String> = log
        .take()
        .iter()
        .map(|channel| channel.loop_name().to_owned())
        .collect();
    loops.sort();
    assert_eq!(loops, ["io-0", "io-0", "io-1", "io-1"]);
}

#[test]
fn a_full_backlog_refuses_connections() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let server = echo(&group).backlog(3).bind("127.0.0.1:0").wait().unwrap();
    let to = server.local_addr();
    let go_on = hold(&group);
    let mut waiting: Vec<_> = (0..3).map(|_| dial(&network, to)).collect();
    assert_eq!(refusal(&network, to), ErrorKind::WouldBlock);
    go_on.open();
    for client in &mut waiting {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    assert_eq!(round_trip(&mut dial(&network, to), b"hello"), b"hello");
}

#[test]
fn a_listener_that_closes_resets_those_that_wait() {
    let network = LocalNetwork::new();
    let listener = network.bind(any()).unwrap();
    let mut client = dial(&network, listener.local_addr());
    client.write_all(b"hello").unwrap();
    drop(listener);
    let why = client.read(&mut [0]).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::ConnectionReset);
    let why = client.write(b"hello").unwrap_err();
    assert_eq!(why.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_server_that_stops_serves_those_that_wait() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let server = echo(&group).bind("127.0.0.1:0").wait().unwrap();
    let go_on = hold(&group);
    // More than it accepts in one turn.
    let dial = |_| dial(&network, server.local_addr());
    let mut clients: Vec<_> = (0..40).map(dial).collect();
    let stopped = server.stop_accepting();
    go_on.open();
    stopped.wait().unwrap();
    for client in &mut clients {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    let kind = refusal(&network, server.local_addr());
    assert_eq!(kind, ErrorKind::ConnectionRefused);
}

#[test]
fn those_that_wait_stay_with_a_listener_that_is_released() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let server = echo(&group).bind("127.0.0.1:0").wait().unwrap();
    let to = server.local_addr();
    let go_on = hold(&group);
    let listeners = server.release_listeners();
    let mut early = dial(&network, to);
    go_on.open();
    let mut listeners = listeners.wait().unwrap();
    let mut late = dial(&network, to);
    let next = echo(&group).serve(listeners.remove(0)).wait().unwrap();
    assert_eq!(next.local_addr(), to);
    for client in [&mut early, &mut late] {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    // A test can accept on it, too.
    let listener = released(&next);
    let client = dial(&network, to);
    assert_eq!(accept(&listener).peer_addr(), client.local_addr());
    drop(listener);
    assert_eq!(refusal(&network, to), ErrorKind::ConnectionRefused);
}

#[test]
fn connections_wait_while_accepting_is_paused() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let server = echo(&group).bind("127.0.0.1:0").wait().unwrap();
    server.pause_accepting();
    let mut client = dial(&network, server.local_addr());
    client.write_all(b"hello").unwrap();
    // The loop has nothing left to do after it.
    group.loops().next().submit(|| ()).unwrap().wait().unwrap();
    assert_eq!(server.accepted(), 0);
    server.resume_accepting();
    assert_eq!(round_trip(&mut client, b"more!"), b"hello");
    assert_eq!(server.accepted(), 1);
}

#[test]
fn the_limits_of_a_server_hold() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let server = echo(&group).max_connections(1).bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let mut first = dial(&network, server.local_addr());
    assert_eq!(round_trip(&mut first, b"hello"), b"hello");
    let mut second = dial(&network, server.local_addr());
    assert_eq!(second.read(&mut [0]).unwrap(), 0, "it is refused");
    assert_eq!(server.metrics().refused_in_total, 1);
}

#[test]
fn a_side_that_does_not_read_stops_the_other() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let (server, log) = (Server::builder(&group), Log::new());
    let own = log.clone();
    let server = server.pipeline(move |p| p.add("log", LogChannel(own.clone())));
    let server = server.bind("127.0.0.1:0").wait().unwrap();
    let mut client = dial(&network, server.local_addr());
    let channel = first(&log);

    // The channel is stopped by the client.
    let most = 256 * 1024;
    let bytes = vec![b'x'; most + 1];
    let written = channel.write_and_flush_with(bytes.clone());
    assert!(client.wait_readable(WATCHDOG));
    group.loops().next().submit(|| ()).unwrap().wait().unwrap();
    assert!(!written.is_done());
    let mut received = vec![0; most + 1];
    client.read_exact(&mut received).unwrap();
    assert_eq!(received, bytes);
    written.wait().unwrap();

    // The client is stopped by the channel.
    channel.set_auto_read(false);
    group.loops().next().submit(|| ()).unwrap().wait().unwrap();
    client.set_nonblocking(true);
    let mut sent = 0;
    let why = loop {
        match client.write(&bytes) {
            Ok(count) => sent += count,
            Err(why) => break why,
        }
    };
    assert_eq!(why.kind(), ErrorKind::WouldBlock);
    assert!(sent >= most, "{sent}");
    assert!(!client.wait_writable(Duration::ZERO));
    channel.set_auto_read(true);
    assert!(client.wait_writable(WATCHDOG));
}

#[test]
fn both_halves_end_apart() {
    let network = LocalNetwork::new();
    let listener = network.bind(any()).unwrap();
    let mut client = dial(&network, listener.local_addr());
    let mut server = accept(&listener);
    client.write_all(b"last").unwrap();
    client.shutdown_output();
    let mut text = String::new();
    assert_eq!(server.peek(&mut [0; 8]).unwrap(), 4);
    server.read_to_string(&mut text).unwrap();
    assert_eq!(text, "last");
    assert_eq!(server.peek(&mut [0]).unwrap(), 0, "the end stays");
    server.write_all(b"answer").unwrap();
    let another = client.clone();
    drop(client);
    drop(server);
    let mut answer = String::new();
    { another }.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
}

#[test]
fn a_channel_that_is_aborted_resets_its_connection() {
    let network = LocalNetwork::new();
    let group = group_on(&network, 1);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| p.add("log", LogChannel(own.clone())));
    let mut client = dial(&network, server.local_addr());
    let channel = first(&log);
    channel.write_and_flush_with("part").wait().unwrap();
    channel.abort().wait().unwrap();
    let mut part = [0; 4];
    client.read_exact(&mut part).unwrap();
    assert_eq!(&part, b"part");
    let why = client.read(&mut [0]).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn what_would_wait_is_told_apart() {
    let network = LocalNetwork::new();
    let listener = network.bind(any()).unwrap();
    let blocks = |kind: ErrorKind| assert_eq!(kind, ErrorKind::WouldBlock);
    blocks(listener.try_accept().unwrap_err().kind());
    blocks(listener.accept(Some(Duration::ZERO)).unwrap_err().kind());
    let mut client = dial(&network, listener.local_addr());
    let server = listener.try_accept().unwrap();
    client.set_nonblocking(true);
    blocks(client.read(&mut [0]).unwrap_err().kind());
    client.set_nonblocking(false);
    client.set_timeout(Some(Duration::ZERO));
    blocks(client.peek(&mut [0]).unwrap_err().kind());
    assert!(!client.wait_readable(Duration::ZERO));
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_group_without_descriptors_neither_accepts_nor_connects_until_it_has_some() {
    let (network, clock) = (LocalNetwork::new(), ManualClock::new());
    let group = NetGroup::builder("io").loops(1).clock(&clock);
    let group = group.local_network(&network).build().unwrap();
    let server = echo(&group).bind("127.0.0.1:0").wait().unwrap();
    let other = network.bind(any()).unwrap();
    let connect = || {
        Client::builder(&group)
            .build()
            .connect(other.local_addr())
            .wait()
    };
    network.set_starved(true);
    assert_eq!(network.starved(), 0);
    let why = connect().unwrap_err().failure().unwrap();
    assert!(NetError::is_out_of_descriptors(&why), "{why:?}");
    let mut client = dial(&network, server.local_addr());
    until("accepting pauses", || {
        group.io_metrics()[0].accept_pauses == 1
    });
    assert_eq!(network.starved(), 2);
    network.set_starved(false);
    group.next().settle();
    clock.advance(Server::ACCEPT_PAUSE);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    connect().unwrap();
}
