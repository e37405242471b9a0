//! A close when everything is sent, with a peer that is still sending: it can read to the end.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use bytes::Bytes;
use tidegate_loop::Placement;
use tidegate_net::ChannelPlacement;
use tidegate_net::{Channel, ChannelOptions, EmbeddedChannel, NetGroup, PipelineBuilder};
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::roaming::roaming;
use crate::{LogReads, dial, group, no_auto_read, serve};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Returns a channel that lingers, because bytes came while it was sending the rest.
fn lingering() -> (EmbeddedChannel, Log<Bytes>) {
    let (log, own) = Log::pair();
    let mut channel = EmbeddedChannel::new(|p| p.add("hears", LogReads(own))).unwrap();
    channel.set_room(Some(0));
    channel.channel().write("the end");
    drop(channel.channel().close_when_flushed());
    channel.run();
    channel.receive("and then");
    assert!(!channel.is_output_shut(), "the rest is sent first");
    channel.set_room(None);
    assert_eq!(channel.sent(), "the end");
    assert!(channel.is_open() && channel.is_output_shut());
    (channel, log)
}

#[test]
fn a_channel_that_lingers_ends_with_its_peer_or_in_time_or_on_request() {
    let ends: [fn(&mut EmbeddedChannel); 5] = [
        EmbeddedChannel::end_input,
        |channel| {
            channel.advance(ChannelOptions::LINGER_TIME - NANOSECOND);
            assert!(channel.is_open());
            channel.advance(NANOSECOND);
        },
        |channel| channel.fail(ErrorKind::ConnectionReset),
        EmbeddedChannel::close,
        |channel| {
            drop(channel.channel().abort());
            channel.run();
        },
    ];
    for end in ends {
        let (mut channel, log) = lingering();
        let closed = channel.channel().closed();
        channel.receive("and so on");
        drop(channel.channel().close_when_flushed());
        channel.run();
        assert!(channel.is_open() && !closed.is_done());
        end(&mut channel);
        assert!(closed.is_done() && log.is_empty());
        assert!(channel.channel().close_cause().is_none());
        assert!(channel.errors().is_empty());
    }
}

#[test]
fn a_channel_lingers_only_if_its_peer_may_still_be_sending() {
    type Before = fn(&mut EmbeddedChannel);
    let rows: [(Before, bool); 4] = [
        (|_| (), false),
        (|channel| channel.receive("unread"), true),
        (
            |channel| {
                channel.receive("unread");
                channel.end_input();
            },
            false,
        ),
        (|channel| channel.channel().fire_event("linger"), true),
    ];
    for (row, (before, lingers)) in rows.into_iter().enumerate() {
        let handler = Acts::on_read(|_, _| ()).on_event(|_, ctx| ctx.linger_on_close());
        let mut channel =
            EmbeddedChannel::with_options(no_auto_read(), |p| p.add("acts", handler)).unwrap();
        before(&mut channel);
        channel.channel().write("the end");
        drop(channel.channel().close_when_flushed());
        channel.run();
        assert_eq!(channel.sent(), "the end", "row {row}");
        assert_eq!(channel.is_open(), lingers, "row {row}");
    }
}

#[test]
fn a_channel_off_its_loop_lingers_if_bytes_wait_in_its_socket() {
    type Then = fn(&mut EmbeddedChannel);
    let rows: [(&str, Then, bool); 4] = [
        ("", |_| (), false),
        ("unread", |_| (), true),
        // Nothing reports it.
        ("unread", EmbeddedChannel::end_input, true),
        (
            "unread",
            |channel| {
                drop(channel.channel().register());
                channel.run();
                channel.end_input();
            },
            false,
        ),
    ];
    for (row, (unread, then, lingers)) in rows.into_iter().enumerate() {
        let (log, own) = Log::pair();
        let mut channel = EmbeddedChannel::new(|p| p.add("hears", LogReads(own))).unwrap();
        drop(channel.channel().deregister());
        channel.run();
        channel.receive(unread);
        let closed = channel.channel().close_when_flushed();
        channel.run();
        assert_eq!(channel.is_output_shut(), !unread.is_empty(), "row {row}");
        then(&mut channel);
        assert_eq!(channel.is_open(), lingers, "row {row}");
        channel.receive("more");
        channel.advance(ChannelOptions::LINGER_TIME);
        assert!(closed.is_done() && log.is_empty(), "row {row}");
        assert!(channel.channel().close_cause().is_none());
    }
}

/// A peer that first sends much, and then reads, gets all of a long response.
fn reads_all<P: ChannelPlacement + Placement>(group: &NetGroup<P>, sends: usize) {
    const RESPONSE: usize = 3 << 20;
    fn responds<P: Placement>(p: PipelineBuilder<P>) -> PipelineBuilder<P> {
        let acts = Acts::on_read(|_, ctx| {
            ctx.write(vec![7; RESPONSE]);
            ctx.close_when_flushed();
        });
        p.add_handler("responds", tidegate_net::Handler::inbound(acts))
    }
    let server = serve(group, responds);
    for _ in 0..4 {
        let mut client = dial(&server);
        client.write_all(&vec![1; sends]).unwrap();
        let mut response = Vec::new();
        client.read_to_end(&mut response).unwrap();
        assert_eq!(response.len(), RESPONSE);
    }
}

#[test]
fn a_peer_that_is_still_sending_gets_the_whole_response() {
    let (_pool, roaming) = roaming(2);
    // Within the buffers of the system, and more than they hold.
    for sends in [200_000, 16 << 20] {
        reads_all(&group(1), sends);
        reads_all(&roaming, sends);
    }
}

#[test]
fn the_end_completes_after_the_handlers_were_notified_and_removed() {
    /// Logs whether the end has completed already.
    struct Asks(Log<bool>);

    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.push(true);
        }
    }

    fn asks(asked_before: bool) -> (Channel, Log<bool>) {
        let (log, own) = Log::pair();
        let in_drop = Asks(log.clone());
        let acts = Acts::on_read(|_, _| ()).on_inactive(move |ctx| {
            let _ = &in_drop;
            let own = own.clone();
            let (before, closed) = (ctx.channel().closed().is_done(), ctx.channel().closed());
            own.push(before);
            closed.on_complete(move |_| own.push(false));
        });
        let mut embedded = EmbeddedChannel::new(|p| p.add("asks", acts)).unwrap();
        let channel = embedded.channel();
        if asked_before {
            assert!(!channel.closed().is_done());
        }
        embedded.close();
        (channel, log)
    }
    for asked_before in [false, true] {
        let (channel, log) = asks(asked_before);
        assert!(channel.closed().is_done());
        assert_eq!(
            log.take(),
            [false, true, false],
            "in `inactive`, removed, ended"
        );
    }
}
