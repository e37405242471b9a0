//! Datagrams that cannot be sent cause an error and are never lost silently.

use std::net::{SocketAddr, UdpSocket};

use tidegate_net::{
    Channel, Client, Datagram, Inbound, InboundContext, NetError, NetGroup, Nothing,
};
use tidegate_promise::Failure;
use tidegate_testkit::{Log, has};

use crate::group;
use crate::marks;

/// More than fits into any datagram.
const TOO_LARGE: usize = 70_000;

fn datagram(size: usize, peer: SocketAddr) -> Datagram {
    let bytes = vec![b'd'; size].into();
    Datagram { bytes, peer }
}

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn open(client: &Client) -> Channel {
    let any = "127.0.0.1:0".parse().unwrap();
    client.bind_udp(any).wait().unwrap()
}

/// Returns the length of the next datagram.
fn next(socket: &UdpSocket) -> usize {
    let mut received = vec![0; TOO_LARGE];
    socket.recv(&mut received).unwrap()
}

/// Sends a burst when the channel is open, and logs the errors.
#[derive(Clone)]
struct Burst {
    count: usize,
    size: usize,
    to: SocketAddr,
    errors: Log<Failure>,
}

impl Inbound for Burst {
    type In = Datagram;
    type Out = Nothing;
    type Write = Datagram;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        for _ in 0..self.count {
            ctx.write(datagram(self.size, self.to));
        }
        ctx.flush();
    }

    fn read(&mut self, _: Datagram, _: &mut InboundContext<'_, Self>) {}

    fn error(&mut self, why: Failure, _: &mut InboundContext<'_, Self>) {
        self.errors.push(why);
    }
}

fn burst(count: usize, size: usize, to: SocketAddr) -> (Burst, Log<Failure>) {
    let (errors, own) = Log::pair();
    let burst = Burst {
        count,
        size,
        to,
        errors: own,
    };
    (burst, errors)
}

#[test]
fn a_datagram_that_is_too_large_is_an_error_that_names_it_and_is_counted() {
    let group = group(1);
    let (peer, to) = socket();
    let (burst, errors) = burst(1, TOO_LARGE, to);
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("burst", burst.clone()))
        .build();
    let channel = open(&client);
    errors.wait_for(1);
    let why = errors.take().remove(0).to_string();
    has(&why, ["70000 bytes", &to.to_string()]);
    let lost = channel.write_with(datagram(TOO_LARGE, to));
    let sent = channel.write_with(datagram(3, to));
    channel.flush();
    let why = lost.wait().unwrap_err().failure().unwrap();
    let why = why.downcast_ref::<NetError>();
    assert!(
        matches!(
            why,
            Some(NetError::DatagramLost {
                size: TOO_LARGE,
                ..
            })
        ),
        "{why:?}"
    );
    sent.wait().unwrap();
    assert_eq!(next(&peer), 3, "the next one goes out");
    assert!(channel.is_active() && errors.is_empty());
    assert_eq!(group.io_metrics()[0].lost_datagrams, 2);
}

#[test]
fn a_lost_datagram_without_a_handler_goes_to_the_hook_and_the_channel_stays_open() {
    let (log, received) = Log::pair();
    let loops = NetGroup::builder("io").loops(1);
    let loops = loops.on_unhandled(move |_, what| received.push(what.to_string()));
    let group = loops.build().unwrap();
    let (peer, to) = socket();
    let channel = open(&Client::builder(&group).build());
    channel.write(datagram(TOO_LARGE, to));
    channel.write(datagram(4, to));
    channel.flush();
    assert_eq!(next(&peer), 4);
    log.wait_for(1);
    assert!(log.take()[0].contains("70000 bytes"));
    assert!(channel.is_active());
}

#[test]
fn what_a_full_queue_does_not_take_is_an_error_and_counted() {
    let group = group(1);
    let (_peer, to) = socket();
    let (burst, errors) = burst(1026, 1, to);
    let client = Client::builder(&group)
        .pipeline(move |p| p.add("burst", burst.clone()))
        .build();
    let channel = open(&client);
    errors.wait_for(2);
    let why = errors.take().remove(1).to_string();
    has(&why, ["too many datagrams", &to.to_string()]);
    channel.flush_with().wait().unwrap();
    assert_eq!(group.io_metrics()[0].lost_datagrams, 2);
    assert!(channel.is_active());
}

#[test]
fn datagrams_count_for_the_water_marks_until_they_are_sent() {
    let group = group(1);
    let (peer, to) = socket();
    let (burst, errors) = burst(3, 1000, to);
    let client = Client::builder(&group).options(marks(500, 1500, 2500));
    let client = client
        .pipeline(move |p| p.add("burst", burst.clone()))
        .build();
    let channel = open(&client);
    errors.wait_for(1);
    let why = errors.take().remove(0).to_string();
    assert!(why.contains("the cap is 2500"), "{why}");
    assert_eq!((next(&peer), next(&peer)), (1000, 1000));
    channel.writable().wait().unwrap();
    assert_eq!(channel.pending_bytes(), 0);
}

/// Sends another datagram that is lost in each loss event. Echoes each received datagram.
struct Stubborn;

impl Inbound for Stubborn {
    type In = Datagram;
    type Out = Nothing;
    type Write = Datagram;

    fn read(&mut self, question: Datagram, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(datagram(TOO_LARGE, question.peer));
        ctx.write(question);
        ctx.flush();
    }

    fn error(&mut self, why: Failure, ctx: &mut InboundContext<'_, Self>) {
        if let Some(NetError::DatagramLost { peer, size, .. }) = why.downcast_ref() {
            ctx.write(datagram(*size, *peer));
            ctx.flush();
        }
    }
}

#[test]
fn a_handler_that_causes_a_loss_in_each_loss_event_does_not_block_its_loop() {
    let group = group(1);
    let (peer, _) = socket();
    let channel = open(
        &Client::builder(&group)
            .pipeline(|p| p.add("stubborn", Stubborn))
            .build(),
    );
    peer.connect(channel.local_addr().unwrap()).unwrap();
    for size in 1..=3 {
        peer.send(&vec![1; size]).unwrap();
        assert_eq!(next(&peer), size);
    }
    group.submit(|| ()).unwrap().wait().unwrap();
}

/// Closes the channel on an error.
struct Closes;

impl Inbound for Closes {
    type In = Datagram;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, _: Datagram, _: &mut InboundContext<'_, Self>) {}

    fn error(&mut self, _: Failure, ctx: &mut InboundContext<'_, Self>) {
        ctx.close();
    }
}

#[test]
fn requests_of_a_handler_are_carried_out_when_only_an_error_is_received() {
    let group = group(1);
    let client = Client::builder(&group)
        .pipeline(|p| p.add("closes", Closes))
        .build();
    let (mine, _) = socket();
    // No other test can have this port.
    mine.connect("127.0.0.1:1").unwrap();
    let handle = mine.try_clone().unwrap();
    let channel = client.adopt_udp(mine).wait().unwrap();
    // There is no receiver, which the next receive reports.
    handle.send(b"?").unwrap();
    channel.closed().wait().unwrap();
}
