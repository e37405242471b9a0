//! Reads: how much per turn, and when.

use bytes::Bytes;
use tidegate_net::{ChannelOptions, EmbeddedChannel, ReadSize};

use super::notes;
use crate::acts::Acts;
use crate::{no_auto_read, reading};

#[test]
fn a_turn_reads_until_a_short_read_and_completes_once() {
    let (mut channel, log) = notes(reading(ReadSize::fixed(10).unwrap()));
    channel.receive(vec![0; 25]);
    assert_eq!(log.take(), ["read 10", "read 10", "read 5", "complete"]);
}

#[test]
fn after_sixteen_reads_others_have_their_turn_and_the_rest_comes() {
    let (mut channel, log) = notes(reading(ReadSize::fixed(1).unwrap()));
    channel.receive(vec![0; 20]);
    let received = log.take();
    let completes: Vec<_> = received
        .iter()
        .enumerate()
        .filter(|(_, message)| *message == "complete")
        .map(|(at, _)| at)
        .collect();
    assert_eq!(completes, [16, 21], "{received:?}");
}

#[test]
fn a_full_read_raises_the_next_offer_within_the_turn() {
    let (mut channel, log) = notes(reading(ReadSize::bounded(16, 16, 1 << 20).unwrap()));
    channel.receive(vec![0; 16 + 80 + 40]);
    assert_eq!(log.take(), ["read 16", "read 80", "read 40", "complete"]);
}

#[test]
fn without_auto_read_each_request_reads_once() {
    let options = ChannelOptions {
        auto_read: false,
        read_size: ReadSize::fixed(4).unwrap(),
        ..ChannelOptions::default()
    };
    let (mut channel, log) = notes(options);
    channel.receive("12345678");
    assert!(log.take().is_empty());
    channel.channel().read();
    channel.run();
    assert_eq!(log.take(), ["read 4", "complete"]);
    channel.channel().set_auto_read(true);
    channel.run();
    assert_eq!(log.take(), ["read 4", "complete"]);
}

#[test]
fn a_read_loop_stops_when_a_handler_switches_auto_read_off() {
    fn once() -> Acts {
        Acts::on_read(|bytes, ctx| {
            ctx.set_auto_read(false);
            ctx.fire_read(bytes);
        })
    }
    let mut channel = EmbeddedChannel::with_options(reading(ReadSize::fixed(1).unwrap()), |p| {
        p.add("once", once())
    })
    .unwrap();
    channel.receive("ab");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "a");
    assert!(channel.read_inbound::<Bytes>().is_none());
    channel.channel().read();
    channel.run();
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "b");
}

#[test]
fn a_wish_to_read_lasts_until_something_was_read() {
    let mut channel = EmbeddedChannel::with_options(no_auto_read(), |p| p).unwrap();
    channel.channel().read();
    channel.run();
    channel.receive("one");
    channel.receive("two");
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
    assert!(
        channel.read_inbound::<Bytes>().is_none(),
        "one request, one read"
    );
}

#[test]
fn switching_auto_read_off_ends_a_wish_from_before() {
    let (mut channel, log) = notes(no_auto_read());
    let handle = channel.channel();
    handle.read();
    handle.set_auto_read(true);
    handle.set_auto_read(false);
    channel.run();
    channel.receive("later");
    assert!(log.take().is_empty());
    handle.read();
    handle.set_auto_read(false);
    channel.run();
    assert_eq!(log.take()[0], "read 5", "it was off already");
}

#[test]
fn an_embedded_channel_that_receives_nothing_stays_open() {
    let (mut channel, log) = notes(ChannelOptions::default());
    channel.receive(Bytes::new());
    assert!(channel.is_open() && log.is_empty());
    channel.receive("x");
    assert_eq!(log.take(), ["read 1", "complete"]);
}
