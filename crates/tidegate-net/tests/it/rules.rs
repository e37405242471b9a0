//! How often and where things happen on an event loop with sockets.

use std::io::{Read, Write};

use bytes::Bytes;
use tidegate_loop::EventLoop;
use tidegate_net::{Channel, Inbound, InboundContext, Nothing};
use tidegate_testkit::{Log, Stop};

use crate::{Echo, dial, round_trip, serve};

/// Logs the event loop of each call, and logs its channel.
struct Where {
    places: Log<String>,
    channels: Log<Channel>,
}

impl Where {
    fn note(&self, what: &str) {
        let here = EventLoop::current().map(|here| here.name().to_owned());
        self.places
            .push(format!("{what} on {}", here.unwrap_or_default()));
    }
}

impl Inbound for Where {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn added(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.note("added");
    }

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.note("active");
        self.channels.push(ctx.channel());
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.note("read");
        ctx.write(bytes);
        ctx.flush();
    }

    fn inactive(&mut self, _ctx: &mut InboundContext<'_, Self>) {
        self.note("inactive");
    }
}

fn wheres(log: &Log<String>, channels: &Log<Channel>) -> impl Fn() -> Where + use<> {
    let (places, channels) = (log.clone(), channels.clone());
    move || Where {
        places: places.clone(),
        channels: channels.clone(),
    }
}

#[test]
fn every_event_is_delivered_on_the_loop_of_the_channel() {
    let group = tidegate_net::pinned("io", 3).unwrap();
    let (places, channels) = (Log::new(), Log::new());
    let make = wheres(&places, &channels);
    let server = serve(&group, move |p| p.add("where", make()));
    for _ in 0..3 {
        let mut client = dial(&server);
        assert_eq!(round_trip(&mut client, b"hello"), b"hello");
        let channel = channels.take().remove(0);
        drop(client);
        channel.closed().wait().unwrap();
        places.wait_for(4);
        let home = channel.loop_name();
        let expected = ["added", "active", "read", "inactive"];
        assert_eq!(
            places.take(),
            expected.map(|what| format!("{what} on {home}"))
        );
    }
}

#[test]
fn a_write_without_a_flush_does_not_wake_the_loop() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (places, channels) = (Log::new(), Log::new());
    let make = wheres(&places, &channels);
    let server = serve(&group, move |p| p.add("where", make()));
    let mut client = dial(&server);
    channels.wait_for(1);
    let channel = channels.take().remove(0);
    let before = group.next().metrics().wakeups;
    for _ in 0..10 {
        channel.write("x");
    }
    assert_eq!(group.next().metrics().wakeups, before);
    channel.flush();
    let mut all = [0; 10];
    client.read_exact(&mut all).unwrap();
    assert_eq!(&all, &[b'x'; 10]);
}

#[test]
fn a_listener_accepts_sixteen_in_a_turn_and_the_rest_in_the_next_ones() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let server = serve(&group, |p| p.add("echo", Echo));
    let stop = Stop::new();
    group.execute(stop.closure()).unwrap();
    stop.reached();
    let before = group.io_metrics()[0].requeued;
    let mut clients: Vec<_> = (0..40).map(|_| dial(&server)).collect();
    stop.go_on();
    let last = clients.last_mut().unwrap();
    last.write_all(b"x").unwrap();
    last.read_exact(&mut [0]).unwrap();
    let io = group.io_metrics()[0];
    assert_eq!((io.accepted, io.requeued - before), (40, 2));
}
