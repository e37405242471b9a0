//! A peer that ends its stream while nothing is read from it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use tidegate_net::{EmbeddedChannel, PipelineBuilder};
use tidegate_testkit::Log;

use crate::acts::Acts;
use crate::{dial, group, serve};

/// Says what it has read, and then reads nothing more.
fn reads_once(log: &Log<String>) -> Acts {
    reads_once_with(log, true, false)
}

/// Does that, with these requests for hang-ups of the peer and for half-closure.
fn reads_once_with(log: &Log<String>, closes: bool, halves: bool) -> Acts {
    let (log, ended) = (log.clone(), log.clone());
    let once = Acts::on_read(move |bytes, ctx| {
        log.push(String::from_utf8_lossy(&bytes).into_owned());
        ctx.set_auto_read(false);
        ctx.write("once");
        ctx.flush();
    });
    let once = once.on_active(move |ctx| {
        ctx.set_close_on_hang_up(closes);
        ctx.set_half_closure(halves);
    });
    once.on_inactive(move |_| ended.push("closed".to_owned()))
}

#[test]
fn a_peer_that_hangs_up_closes_a_channel_that_does_not_read() {
    let log = Log::new();
    let mut channel = EmbeddedChannel::new(|p| p.add("once", reads_once(&log))).unwrap();
    channel.receive("first");
    channel.receive("second");
    assert!(channel.is_open());
    channel.end_input();
    assert!(!channel.is_open());
    assert_eq!(log.take(), ["first", "closed"]);
}

#[test]
fn without_the_request_the_end_waits_for_what_is_not_read() {
    for halves in [false, true] {
        let log = Log::new();
        let handler = reads_once_with(&log, halves, halves);
        let mut channel = EmbeddedChannel::new(|p| p.add("once", handler)).unwrap();
        channel.receive("first");
        channel.receive("second");
        channel.end_input();
        assert!(channel.is_open());
        channel.channel().set_auto_read(true);
        channel.run();
        channel.channel().set_auto_read(true);
        channel.run();
        assert_eq!(log.take()[..2], ["first", "second"]);
        assert_eq!(channel.is_open(), halves);
    }
}

#[test]
fn the_rest_before_a_close_is_sent_to_a_peer_that_hangs_up() {
    let log = Log::new();
    let mut channel = EmbeddedChannel::new(|p| p.add("once", reads_once(&log))).unwrap();
    channel.receive("first");
    assert_eq!(channel.sent(), "once");
    channel.set_room(Some(3));
    channel.channel().write("the rest");
    drop(channel.channel().close_when_flushed());
    channel.run();
    channel.end_input();
    assert!(channel.is_open());
    channel.set_room(None);
    assert_eq!(channel.sent(), "the rest");
    assert!(!channel.is_open());
}

#[test]
fn a_socket_of_which_nothing_is_read_reports_the_end_of_its_peer() {
    let log = Log::new();
    let (group, own) = (group(1), log.clone());
    let server = serve(&group, move |p| p.add("once", reads_once(&own)));
    // With the end behind bytes that nobody reads, alone, and in one event with the first bytes.
    for (waits, rest) in [(true, "rest"), (true, ""), (false, "rest"), (false, "")] {
        let mut peer = dial(&server);
        peer.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        peer.write_all(b"first").unwrap();
        if waits {
            let mut once = [0; 4];
            peer.read_exact(&mut once).unwrap();
            assert_eq!(&once, b"once");
        }
        peer.write_all(rest.as_bytes()).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        log.wait_for(2);
        let seen = log.take();
        assert!(seen[0].starts_with("first"), "{seen:?}");
        assert_eq!(seen[1], "closed");
    }
}

#[test]
fn an_end_in_memory_reports_the_end_of_its_peer() {
    let log = Log::new();
    let (group, own) = (group(1), log.clone());
    let pair = group.local_pair(|p| p, move |p| p.add("once", reads_once(&own)));
    let (near, _far) = pair.wait().unwrap();
    near.write_and_flush("first");
    log.wait_for(1);
    near.write_and_flush("second");
    drop(near.close_when_flushed());
    log.wait_for(2);
    assert_eq!(log.take(), ["first", "closed"]);
}

/// Ends its channel at once.
fn ends_at_once() -> Acts {
    Acts::on_read(|_, _| ()).on_active(|ctx| ctx.close())
}

/// Reads nothing.
fn reads_nothing(log: Log<String>) -> Acts {
    Acts::on_read(|_, _| ())
        .on_active(|ctx| {
            ctx.set_auto_read(false);
            ctx.set_close_on_hang_up(true);
        })
        .on_inactive(move |_| log.push("closed".to_owned()))
}

#[test]
fn an_end_in_memory_reports_a_peer_that_has_ended_before_it_began() {
    let log = Log::new();
    let (group, own) = (group(1), log.clone());
    let first = |p: PipelineBuilder| p.add("ends", ends_at_once());
    let second = move |p: PipelineBuilder| p.add("nothing", reads_nothing(own.clone()));
    let pair = group.local_pair(first, second);
    let (_near, _far) = pair.wait().unwrap();
    log.wait_for(1);
    assert_eq!(log.take(), ["closed"]);
}
