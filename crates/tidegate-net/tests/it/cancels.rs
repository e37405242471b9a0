//! Cancelled operations do not happen, and operations that have begun cannot be cancelled.

use std::net::UdpSocket;
use std::time::Duration;

use tidegate_net::{
    Client, Datagram, Deregistered, EmbeddedChannel, Handler, PipelineChange, Registered,
};
use tidegate_testkit::{Counter, DropCount, Log};

use crate::acts::Acts;
use crate::{Echo, dial, first, giving, group, half_closure};

/// Logs when its channel is registered or deregistered.
fn log_events(log: Log<&'static str>) -> Acts {
    Acts::on_read(|_, _| ()).on_event(move |event, _| {
        if event.downcast_ref::<Deregistered>().is_some() {
            log.push("off");
        } else if event.downcast_ref::<Registered>().is_some() {
            log.push("on");
        }
    })
}

#[test]
fn a_cancelled_change_leaves_the_chain_alone() {
    let mut embedded = EmbeddedChannel::new(|p| p.add("echo", Echo)).unwrap();
    let (made, dropped) = (Counter::new(), Counter::new());
    let (own, kept) = (made.clone(), DropCount::new(&dropped));
    let change = embedded.channel().change(move || {
        own.hit();
        drop(kept);
        PipelineChange::remove("echo")
    });
    assert!(change.cancel());
    embedded.run();
    assert_eq!(embedded.names(), ["echo"]);
    assert_eq!((made.count(), dropped.count()), (0, 1));
}

#[test]
fn a_cancelled_change_whose_drop_panics_does_not_hurt_the_channel() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let mut embedded = EmbeddedChannel::new(|p| p.add("echo", Echo)).unwrap();
    let bomb = Bomb;
    let change = embedded.channel().change(move || {
        std::mem::forget(bomb);
        PipelineChange::remove("echo")
    });
    let next = embedded.channel().write_with("next");
    embedded.channel().flush();
    assert!(change.cancel());
    embedded.run();
    next.wait().unwrap();
    assert_eq!(embedded.sent(), "next");
}

#[test]
fn a_change_cannot_be_cancelled_while_it_is_made() {
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<tidegate_promise::Completion<()>>();
    let (seen, own) = Log::pair();
    let change = embedded.channel().change(move || {
        let change = receiver.recv().unwrap();
        own.push(change.cancel());
        PipelineChange::add_last("echo", Handler::local_inbound(Echo))
    });
    sender.send(change).unwrap();
    embedded.run();
    assert_eq!(seen.take(), [false]);
    assert_eq!(embedded.names(), ["echo"]);
}

#[test]
fn a_cancelled_deregistration_leaves_the_channel_on_its_loop() {
    let (log, own) = Log::pair();
    let mut embedded = EmbeddedChannel::new(|p| p.add("notes", log_events(own))).unwrap();
    let channel = embedded.channel();
    assert!(channel.deregister().cancel());
    embedded.run();
    assert!(channel.is_registered() && log.is_empty());

    // A registration that waits behind a deregistration.
    let off = channel.deregister();
    assert!(channel.register().cancel());
    embedded.run();
    off.wait().unwrap();
    assert!(!channel.is_registered());
    assert_eq!(log.take(), ["off"]);

    // A deregistration that waits behind a registration.
    let on = channel.register();
    assert!(channel.deregister().cancel());
    embedded.run();
    on.wait().unwrap();
    assert!(channel.is_registered());
    assert_eq!(log.take(), ["on"]);
}

#[test]
fn a_cancelled_half_close_leaves_both_halves_open() {
    let mut embedded = EmbeddedChannel::with_options(half_closure(), |p| p).unwrap();
    let channel = embedded.channel();
    assert!(channel.shutdown_output().cancel());
    embedded.run();
    assert!(!embedded.is_output_shut());
    embedded.set_room(Some(0));
    channel.write("last words");
    let shut = channel.shutdown_output();
    embedded.run();
    assert!(!shut.cancel(), "it has begun");
    embedded.set_room(None);
    shut.wait().unwrap();
    assert!(embedded.is_output_shut());
    assert_eq!(embedded.sent(), "last words");
}

#[test]
fn a_cancelled_flush_sends_nothing() {
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let channel = embedded.channel();
    channel.write("held back");
    assert!(channel.flush_with().cancel());
    embedded.run();
    assert!(embedded.sent().is_empty());
    channel.flush();
    embedded.run();
    assert_eq!(embedded.sent(), "held back");
}

#[test]
fn a_message_that_was_cancelled_does_not_reach_the_end_of_the_chain() {
    let mut embedded = EmbeddedChannel::new(|p| p).unwrap();
    let channel = embedded.channel();
    assert!(channel.write_with(1_u32).cancel());
    let sent = channel.write_with(2_u32);
    channel.flush();
    embedded.run();
    sent.wait().unwrap();
    assert_eq!(embedded.read_outbound::<u32>().unwrap(), 2);
    assert!(embedded.read_outbound::<u32>().is_none());
}

#[test]
fn a_cancelled_datagram_is_not_sent() {
    let group = group(1);
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = peer.local_addr().unwrap();
    let client = Client::builder(&group)
        .build()
        .bind_udp("127.0.0.1:0".parse().unwrap());
    let channel = client.wait().unwrap();
    let send = |text: &'static str| {
        channel.write_with(Datagram {
            bytes: text.into(),
            peer: to,
        })
    };
    assert!(send("cancelled").cancel());
    let sent = send("sent");
    channel.flush();
    sent.wait().unwrap();
    let mut received = [0; 16];
    let count = peer.recv(&mut received).unwrap();
    assert_eq!(&received[..count], b"sent");
}

#[test]
fn a_drain_has_begun_and_cannot_be_cancelled() {
    let group = group(1);
    let (server, channels) = giving(&group);
    let peer = dial(&server);
    first(&channels);
    let drained = server.drain(Duration::from_secs(60));
    assert!(!drained.cancel());
    drop(peer);
    assert_eq!(drained.wait().unwrap().open, 1);
}
