//! Channels that are deregistered from their event loops and registered again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::Bytes;
use tidegate_net::{
    Channel, Client, Deregistered, EmbeddedChannel, Inbound, InboundContext, NetGroup, Nothing,
    Registered, Server, UserEvent,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::Completion;
use tidegate_testkit::{Gate, Log};

use crate::{dial, group, serve};

/// Echoes, logs its events, and logs its channel.
#[derive(Clone)]
struct LogEvents {
    log: Log<String>,
    channels: Log<Channel>,
    arrived: Gate,
    go_on: Gate,
}

impl LogEvents {
    fn new() -> Self {
        Self {
            log: Log::new(),
            channels: Log::new(),
            arrived: Gate::new(),
            go_on: Gate::new(),
        }
    }

    fn channel(&self) -> Channel {
        self.channels.wait_for(1);
        self.channels.take().remove(0)
    }
}

impl Inbound for LogEvents {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.channels.push(ctx.channel());
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(format!("read {}", bytes.len()));
        if bytes == "block" {
            self.arrived.open();
            self.go_on.wait();
        }
        ctx.write(bytes);
        ctx.flush();
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.log.push("inactive".to_owned());
    }

    fn event(&mut self, event: UserEvent, _ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Deregistered>().is_some() {
            self.log.push("off".to_owned());
        } else if event.downcast_ref::<Registered>().is_some() {
            self.log.push("on".to_owned());
        }
    }
}

/// Creates a channel without a socket, a handle of it, and the log of its handler.
fn embedded() -> (EmbeddedChannel, Channel, Log<String>) {
    let notes = LogEvents::new();
    let log = notes.log.clone();
    let embedded = EmbeddedChannel::new(|p| p.add("notes", notes)).unwrap();
    let channel = embedded.channel();
    (embedded, channel, log)
}

/// Creates a server, a client, and the server's channel of that connection.
fn connected(group: &NetGroup, notes: &LogEvents) -> (Server, TcpStream, Channel) {
    let own = notes.clone();
    let server = serve(group, move |p| p.add("notes", own.clone()));
    let peer = dial(&server);
    (server, peer, notes.channel())
}

fn fails(what: Completion<()>) -> String {
    what.wait().unwrap_err().to_string()
}

fn read(peer: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut back = vec![0; count];
    peer.read_exact(&mut back).unwrap();
    back
}

#[test]
fn a_deregistered_channel_receives_nothing_until_it_is_registered_again() {
    let (group, notes) = (group(1), LogEvents::new());
    let (server, mut peer, channel) = connected(&group, &notes);
    channel.deregister().wait().unwrap();
    assert!(channel.is_active() && !channel.is_registered());
    peer.write_all(b"hello").unwrap();
    for _ in 0..8 {
        // Each task makes the event loop poll once.
        group.submit(|| ()).unwrap().wait().unwrap();
    }
    assert_eq!(notes.log.take(), ["off"]);
    channel.register().wait().unwrap();
    assert!(channel.is_registered());
    assert_eq!(read(&mut peer, 5), b"hello");
    assert_eq!(notes.log.take(), ["on", "read 5"]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn what_is_written_meanwhile_waits_and_is_sent_in_order() {
    let (group, notes) = (group(1), LogEvents::new());
    let (_server, mut peer, channel) = connected(&group, &notes);
    let before = channel.write_with("one ");
    channel.flush();
    let off = channel.deregister();
    let meanwhile = channel.write_with("two ");
    channel.flush();
    off.wait().unwrap();
    before.wait().unwrap();
    group.submit(|| ()).unwrap().wait().unwrap();
    assert!(!meanwhile.is_done() && channel.pending_bytes() > 0);
    let on = channel.register();
    channel.write_and_flush("three");
    on.wait().unwrap();
    meanwhile.wait().unwrap();
    assert_eq!(read(&mut peer, 13), b"one two three");
}

#[test]
fn twice_off_is_off_and_twice_on_is_an_error() {
    let (mut embedded, channel, log) = embedded();
    let early = channel.register();
    let off = [channel.deregister(), channel.deregister()];
    embedded.run();
    for off in off {
        off.wait().unwrap();
    }
    assert!(fails(early).contains("on its loop"));
    assert_eq!(log.take(), ["off"], "reported once");
    let late = channel.deregister();
    let on = channel.register();
    let again = channel.register();
    embedded.run();
    late.wait().unwrap();
    on.wait().unwrap();
    assert!(fails(again).contains("`deregister` first"));
    assert_eq!(log.take(), ["on"]);
}

#[test]
fn wishes_are_carried_out_in_order_however_many_come_at_once() {
    let (mut embedded, channel, log) = embedded();
    let done: Vec<_> = (0..3)
        .flat_map(|_| [channel.deregister(), channel.register()])
        .collect();
    embedded.run();
    embedded.receive("hello");
    for done in done {
        done.wait().unwrap();
    }
    assert_eq!(
        log.take(),
        ["off", "on", "off", "on", "off", "on", "read 5"]
    );
    assert_eq!(embedded.sent(), "hello");
}

#[test]
fn a_closed_channel_is_neither_taken_off_nor_put_on() {
    let (mut embedded, channel, log) = embedded();
    embedded.close();
    for refused in [channel.deregister(), channel.register()] {
        assert!(fails(refused).contains("closed"));
    }
    assert_eq!(log.take(), ["inactive"]);
}

#[test]
fn a_channel_can_be_closed_while_it_is_off() {
    let (mut embedded, channel, log) = embedded();
    drop(channel.deregister());
    embedded.run();
    let lost = channel.write_with("never");
    channel.flush();
    embedded.run();
    embedded.close();
    assert!(fails(lost).contains("closed"));
    channel.closed().wait().unwrap();
    assert_eq!(log.take(), ["off", "inactive"]);
    assert!(!channel.is_registered() && !channel.is_active());
}

#[test]
fn the_promise_of_a_registration_change_fails_at_the_end() {
    let (mut embedded, channel, _) = embedded();
    let (off, on) = (channel.deregister(), channel.register());
    drop(channel.close());
    embedded.run();
    assert!(fails(off).contains("closed") && fails(on).contains("closed"));
}

#[test]
fn a_channel_that_is_not_connected_yet_stays_on_its_loop() {
    struct Early(Log<Completion<()>>);
    impl Inbound for Early {
        type In = Bytes;
        type Out = Nothing;
        type Write = Nothing;
        fn added(&mut self, ctx: &mut InboundContext<'_, Self>) {
            self.0.push(ctx.channel().deregister());
        }
        fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
    }
    let group = group(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (log, own) = Log::pair();
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("early", Early(own.clone())))
        .build();
    let connected = client.connect(listener.local_addr().unwrap());
    let channel = connected.wait().unwrap();
    assert!(fails(log.take().remove(0)).contains("not connected yet"));
    assert!(channel.is_registered());
}

#[test]
fn on_a_roaming_loop_a_handler_that_is_busy_comes_first() {
    let pool = WorkerPool::builder("workers").max(4).build().unwrap();
    let group = tidegate_net::roaming("io", 1, &pool).unwrap();
    let notes = LogEvents::new();
    let server = roaming_server(&group, &notes);
    let mut peer = dial(&server);
    let channel = notes.channel();
    peer.write_all(b"block").unwrap();
    notes.arrived.wait();
    let off = channel.deregister();
    group.next().settle();
    assert!(!off.is_done(), "the handler is still running");
    notes.go_on.open();
    off.wait().unwrap();
    assert_eq!(read(&mut peer, 5), b"block", "requested before");
    peer.write_all(b"hello").unwrap();
    for _ in 0..8 {
        group.submit(|| ()).unwrap().wait().unwrap();
    }
    assert_eq!(notes.log.take(), ["read 5", "off"]);
    channel.register().wait().unwrap();
    assert_eq!(read(&mut peer, 5), b"hello");
    assert_eq!(notes.log.take(), ["on", "read 5"]);
}

fn roaming_server(group: &NetGroup<tidegate_loop::Roaming>, notes: &LogEvents) -> Server {
    let notes = notes.clone();
    let server = Server::builder(group).pipeline(move |p| p.add("notes", notes.clone()));
    server.bind("127.0.0.1:0").wait().unwrap()
}
