//! Drains in two steps: a server announces its end, accepts for a while, and then ends.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_loop::{Placement, Quiet};
use tidegate_net::{DrainAnnounced, Draining, Handler, NetGroup, PipelineBuilder, Server};
use tidegate_testkit::{Log, until};

use crate::acts::Acts;
use crate::backlog::hold;
use crate::roaming::roaming;
use crate::{dial, group, group_by, round_trip, serve};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Responds to each byte with `k` (keep) or `c` (close next), and logs what it is told of a drain.
fn answer(log: Log<&'static str>) -> Acts {
    Acts::on_read(|_, ctx| {
        assert_eq!(ctx.is_draining(), ctx.channel().is_draining());
        ctx.write_and_flush(if ctx.is_draining() { "c" } else { "k" });
    })
    .on_event(move |event, _| {
        if event.downcast_ref::<DrainAnnounced>().is_some() {
            log.push("announced");
        } else if event.downcast_ref::<Draining>().is_some() {
            log.push("draining");
        }
    })
}

fn answers<P: Placement>(
    log: &Log<&'static str>,
) -> impl Fn(PipelineBuilder<P>) -> PipelineBuilder<P> + use<P> {
    let log = log.clone();
    move |p| p.add_handler("answers", Handler::inbound(answer(log.clone())))
}

fn state(server: &Server) -> String {
    let dump = server.dump();
    dump.get("state").unwrap().as_text().unwrap().to_owned()
}

#[test]
fn an_announced_drain_goes_on_accepting_and_tells_every_connection_once() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let log = Log::new();
    let server = serve(&group, answers(&log));
    let mut before = dial(&server);
    assert_eq!(round_trip(&mut before, b"?"), b"k");
    assert!(!server.is_draining());

    server.announce_drain();
    server.announce_drain();
    log.wait_for(1);
    assert_eq!(round_trip(&mut before, b"?"), b"c");
    let mut after = dial(&server);
    assert_eq!(round_trip(&mut after, b"?"), b"c");
    log.wait_for(2);
    assert_eq!(log.take(), ["announced", "announced"]);
    assert!(server.is_draining() && server.metrics().draining);
    assert!(server.metrics().accepting);
    assert_eq!(state(&server), "accepting, drain announced");

    let drained = server.drain(10 * SECOND);
    server.announce_drain();
    log.wait_for(2);
    assert_eq!(log.take(), ["draining", "draining"]);
    assert_eq!(state(&server), "draining");
    clock.advance(10 * SECOND);
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (2, 2));
    assert!(log.is_empty());
}

#[test]
fn the_drain_begins_when_the_notice_is_over() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let log = Log::new();
    let server = serve(&group, answers(&log));
    let _before = dial(&server);
    let drained = server.drain_after(5 * SECOND, 10 * SECOND);
    clock.advance(4 * SECOND);
    let mut late = dial(&server);
    assert_eq!(round_trip(&mut late, b"?"), b"c", "it accepts");
    assert!(!server.closed().is_done());
    log.wait_for(2);
    assert_eq!(log.take(), ["announced", "announced"]);
    clock.advance(SECOND);
    server.closed().wait().unwrap();
    log.wait_for(2);
    assert_eq!(log.take(), ["draining", "draining"]);
    until("the deadline cuts the connections", || {
        clock.advance(SECOND);
        drained.is_done()
    });
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (2, 2));
}

#[test]
fn the_notice_ends_although_every_handle_was_dropped() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let log = Log::new();
    let server = serve(&group, answers(&log));
    let address = server.local_addr();
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"?"), b"k");
    drop(server.drain_after(SECOND, HOUR));
    let closed = server.closed();
    drop(server);
    log.wait_for(1);
    clock.advance(SECOND);
    closed.wait().unwrap();
    log.wait_for(2);
    assert_eq!(log.take(), ["announced", "draining"]);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_second_drain_ends_the_notice_of_the_first() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, answers(&Log::new()));
    let _client = dial(&server);
    let slow = server.drain_after(HOUR, HOUR);
    let slower = server.drain_after(2 * HOUR, HOUR);
    let fast = server.drain(10 * SECOND);
    clock.advance(10 * SECOND);
    assert_eq!(fast.wait().unwrap().closed_at_deadline.len(), 1);
    slow.wait().unwrap();
    slower.wait().unwrap();
}

#[test]
fn a_notice_without_anything_to_wait_for_ends_at_once() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, |p| p);
    let drained = server.drain_after(HOUR, HOUR);
    drop(server.stop_accepting());
    assert_eq!(drained.wait().unwrap().open, 0);
    let server = serve(&group, |p| p);
    assert_eq!(
        server
            .drain_after(Duration::ZERO, HOUR)
            .wait()
            .unwrap()
            .open,
        0
    );
}

#[test]
fn the_end_of_the_group_ends_the_notice() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, answers(&Log::new()));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"?"), b"k");
    let drained = server.drain_after(HOUR, HOUR);
    group.shutdown(Quiet::none(SECOND)).wait().unwrap();
    drained.wait().unwrap();
    assert!(
        server.drain_after(HOUR, HOUR).wait().is_ok(),
        "nothing is left"
    );
}

#[test]
fn the_notice_ends_although_a_handler_blocks_the_loop() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, answers(&Log::new()));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"?"), b"k");
    let go_on = hold(&group);
    let drained = server.drain_after(SECOND, SECOND);
    until("the report is made without the loop", || {
        clock.jump(SECOND);
        drained.is_done()
    });
    assert_eq!(drained.wait().unwrap().still_running, 1);
    go_on.open();
}

#[test]
fn a_loop_with_a_full_queue_is_told_all_the_same() {
    let clock = ManualClock::new();
    let group = NetGroup::builder("io").loops(1).bound(16).clock(&clock);
    let group = group.build().unwrap();
    let log = Log::new();
    let server = serve(&group, answers(&log));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"?"), b"k");
    let go_on = hold(&group);
    while group.execute(|| {}).is_ok() {}
    server.announce_drain();
    let drained = server.drain(HOUR);
    go_on.open();
    log.wait_for(2);
    assert_eq!(log.take(), ["announced", "draining"]);
    drop(client);
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}

#[test]
fn a_server_whose_listeners_were_released_can_announce_too() {
    let group = group(1);
    let log = Log::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::builder(&group).pipeline(answers(&log));
    let server = server.serve(listener).wait().unwrap();
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"?"), b"k");
    let listeners = server.release_listeners().wait().unwrap();
    server.announce_drain();
    log.wait_for(1);
    assert_eq!(round_trip(&mut client, b"?"), b"c");
    let drained = server.drain(HOUR);
    drop((client, listeners));
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
}

#[test]
fn roaming_connections_are_told_as_well() {
    let (_workers, group) = roaming(3);
    let log = Log::new();
    let server = serve(&group, answers(&log));
    let mut before = dial(&server);
    assert_eq!(round_trip(&mut before, b"?"), b"k");
    server.announce_drain();
    log.wait_for(1);
    let mut after = dial(&server);
    assert_eq!(round_trip(&mut after, b"?"), b"c");
    log.wait_for(2);
    let drained = server.drain(HOUR);
    log.wait_for(4);
    drop((before, after));
    assert_eq!(drained.wait().unwrap().open, 2);
    log.assert_order(&["announced", "announced", "draining", "draining"]);
}
