//! Clients: names, addresses, time limits.

use std::net::TcpListener;
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::{Client, NetError, Server};
use tidegate_promise::{Completion, Promise};
use tidegate_testkit::{Log, until};

use crate::{Echo, LogReads, group, group_by, serve};

#[test]
fn a_client_connects_and_the_completion_has_the_channel() {
    let group = group(2);
    let server = serve(&group, |p| p.add("echo", Echo));
    let (log, own) = Log::pair();
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("hears", LogReads(own.clone())))
        .build();
    let channel = client.connect(server.local_addr()).wait().unwrap();
    assert!(channel.is_active());
    channel.write_and_flush("hello");
    log.wait_for(1);
    assert_eq!(log.take(), ["hello"]);
    channel.close().wait().unwrap();
}

#[test]
fn a_name_that_does_not_resolve_and_handlers_that_do_not_fit_are_errors() {
    let group = group(1);
    let client = Client::builder(&group).resolver(table(Vec::new())).build();
    let why = client.connect("nowhere.invalid:80").wait().unwrap_err();
    assert!(why.to_string().contains("`nowhere.invalid` has no address"));
    let misfit = Client::builder(&group)
        .pipeline(|p| p.add("echo", Echo).add("late", Echo))
        .build();
    let why = misfit.connect("127.0.0.1:1").wait().unwrap_err();
    assert!(why.to_string().contains("`echo`") && why.to_string().contains("`late`"));
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo).add("late", Echo));
    assert!(server.bind("127.0.0.1:0").wait().is_err());
}

/// Creates a listener with a full queue, so that a connect to it never completes.
fn deaf() -> (TcpListener, Vec<socket2::Socket>) {
    let socket = || {
        let (domain, kind) = (socket2::Domain::IPV4, socket2::Type::STREAM);
        socket2::Socket::new(domain, kind, Some(socket2::Protocol::TCP)).unwrap()
    };
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listening = socket();
    listening.bind(&any.into()).unwrap();
    listening.listen(1).unwrap();
    let listener: TcpListener = listening.into();
    let address = listener.local_addr().unwrap();
    let fill = |_| {
        let filler = socket();
        filler.set_nonblocking(true).unwrap();
        // The connect is in progress or done: on loopback the queue is full after a few.
        let _ = filler.connect(&address.into());
        filler
    };
    (listener, (0..16).map(fill).collect())
}

#[test]
fn a_connect_that_takes_too_long_fails_by_the_loops_clock() {
    let (listener, _filled) = deaf();
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let connect = Client::builder(&group).connect(listener.local_addr().unwrap());
    clock.advance(Duration::from_secs(29));
    assert!(!connect.is_done());
    clock.advance(Duration::from_secs(1));
    let why = connect.wait().unwrap_err().failure().unwrap();
    let Some(NetError::ConnectTimeout { to, .. }) = why.downcast_ref() else {
        panic!("{why}");
    };
    assert_eq!(*to, listener.local_addr().unwrap().to_string());
}

#[test]
fn cancelling_a_connect_ends_it() {
    let (listener, _filled) = deaf();
    let group = group(1);
    let connect = Client::builder(&group).connect(listener.local_addr().unwrap());
    group.iter().for_each(|one| one.settle());
    assert!(connect.cancel());
    // A cancellation arrives as a signal, which no task waits for.
    let gone = || group.io_metrics()[0].registered == 0;
    let turned = (0..1_000_000).find(|_| {
        group.next().settle();
        gone()
    });
    assert!(turned.is_some(), "its socket is gone");
}

type Addresses = Vec<std::net::SocketAddr>;

/// Returns a resolver that knows these addresses of every name, and never resolves `silent`.
fn table(addresses: Addresses) -> impl Fn(&str, u16) -> Completion<Addresses> + Send + Sync {
    let pending = std::sync::Mutex::<Vec<Promise<Addresses>>>::default();
    move |host, _| {
        if host != "silent" {
            return Completion::succeeded(addresses.clone());
        }
        let (promise, never) = tidegate_promise::promise();
        pending.lock().unwrap().push(promise);
        never
    }
}

/// Returns an address without a listener.
fn unused_address() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn every_address_of_a_name_is_tried_in_order() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let there = server.local_addr();
    let client = Client::builder(&group)
        .resolver(table(vec![unused_address(), unused_address(), there]))
        .build();
    let channel = client.connect("somewhere:1").wait().unwrap();
    assert_eq!(channel.peer_addr(), Some(there));
    let client = Client::builder(&group)
        .resolver(table(vec![unused_address(), unused_address()]))
        .build();
    let why = client.connect("somewhere:1").wait().unwrap_err();
    assert!(why.to_string().contains("refused"), "{why}");
    let client = Client::builder(&group).resolver(table(Vec::new())).build();
    let why = client.connect("somewhere:1").wait().unwrap_err();
    assert!(why.to_string().contains("somewhere"), "{why}");
}

#[test]
fn the_next_address_is_tried_after_a_quarter_of_a_second_and_the_other_attempts_end() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, |p| p.add("echo", Echo));
    let there = server.local_addr();
    let (listener, _filled) = deaf();
    let silent = listener.local_addr().unwrap();
    let sockets = || group.io_metrics()[0].registered;
    let before = sockets();
    let client = Client::builder(&group)
        .resolver(table(vec![silent, there]))
        .build();
    let connected = client.connect("somewhere:1");
    until("the first attempt", || sockets() == before + 1);
    clock.advance(Duration::from_millis(240));
    group.next().settle();
    assert!(!connected.is_done() && sockets() == before + 1);
    clock.advance(Duration::from_millis(20));
    let channel = connected.wait().unwrap();
    assert_eq!(channel.peer_addr(), Some(there));
    // Both ends of the connection are sockets of this group.
    until("the end of the first attempt", || sockets() == before + 2);
    drop(channel.close());
    until("the end of the connection", || sockets() == before);
    let client = Client::builder(&group)
        .resolver(table(vec![silent, silent]))
        .build();
    let connected = client.connect("somewhere:1");
    until("the first attempt", || sockets() == before + 1);
    clock.advance(Duration::from_millis(260));
    until("the second attempt", || sockets() == before + 2);
    assert!(connected.cancel());
    until("the end of both", || sockets() == before);
}

#[test]
fn a_name_that_does_not_resolve_is_an_error_that_names_it_and_so_is_what_is_none() {
    let group = group(1);
    let client = Client::builder(&group).build();
    let name = "no-such-name.invalid:80";
    let why = client.connect(name).wait().unwrap_err();
    assert!(why.to_string().contains("no-such-name.invalid"), "{why}");
    let why = Server::builder(&group).bind(name).wait().unwrap_err();
    assert!(why.to_string().contains("no-such-name.invalid"), "{why}");
    for bad in ["localhost", "localhost:", ":80", "localhost:99999", ""] {
        let refused = [
            client.connect(bad).wait().unwrap_err().to_string(),
            Server::builder(&group)
                .bind(bad)
                .wait()
                .unwrap_err()
                .to_string(),
        ];
        for why in refused {
            assert!(why.contains("host:port"), "{bad}: {why}");
        }
    }
}

#[test]
fn a_resolver_that_does_not_answer_is_given_up() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let second = Duration::from_secs(1);
    let client = Client::builder(&group)
        .resolver(table(Vec::new()))
        .resolve_timeout(second)
        .build();
    let connected = client.connect("silent:1");
    let bound = Server::builder(&group)
        .resolver(table(Vec::new()))
        .resolve_timeout(second)
        .bind("silent:1");
    group.next().settle();
    clock.advance(second);
    for why in [
        connected.wait().unwrap_err().to_string(),
        bound.wait().unwrap_err().to_string(),
    ] {
        assert!(why.contains("`silent`") && why.contains("1s"), "{why}");
    }
}
