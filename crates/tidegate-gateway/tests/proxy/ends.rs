//! Drains.

use std::sync::mpsc::channel;

use crate::logs::value;
use crate::operation::World;
use crate::steps::no_forks;
use crate::*;

/// Both ways of connecting: a socket that is closed with bytes that nobody has read resets its
/// connection.
#[test]
fn a_drain_finishes_requests_and_ends_each_connection_without_a_reset() {
    let _alone = no_forks();
    for wires in [Wires::Local, Wires::Sockets] {
        let back = Upstream::with(wires);
        let fixture = Fixture::with(&route(&[&back], ""), 1, wires);
        let (mut busy, mut server) = fixture.open(GET, &back);
        let [mut idle, mut silent] = [(); 2].map(|()| fixture.client());
        idle.write(&GET.replace("/a", "/%zz"));
        assert_eq!(idle.message().status(), "400");
        let drained = fixture.drain(0, 60);
        idle.clean_end();
        assert!(!drained.is_done());
        fixture.in_one_turn(|| ());
        // It comes too late, and must not cost the response before it.
        fixture.in_one_turn(|| {
            busy.write(GET);
            server.write(OK);
        });
        let response = busy.message();
        assert_eq!(response.body, "ok");
        response.is_last("200");
        busy.clean_end();
        // The time in which the first request of a connection may still come.
        fixture.clock.advance(Duration::from_secs(5));
        silent.clean_end();
        let summary = drained.wait().unwrap();
        assert_eq!(summary.cut, 0);
        assert!(fixture.refuses(&fixture.address()), "nothing listens");
    }
}

#[test]
fn a_drain_serves_a_request_whose_head_has_begun_and_ends_it_cleanly() {
    let _alone = no_forks();
    for wires in [Wires::Local, Wires::Sockets] {
        let back = Upstream::with(wires);
        let fixture = Fixture::with(&route(&[&back], ""), 1, wires);
        let mut idle = fixture.send(&GET.replace("/a", "/%zz"));
        assert_eq!(idle.message().status(), "400");
        let mut begun = fixture.client();
        let (first, rest) = GET.split_at(20);
        begun.write(first);
        let drained = fixture.drain(0, 60);
        // The others have ended.
        idle.clean_end();
        begun.write(rest);
        back.accept().serve(OK);
        let response = begun.message();
        assert_eq!(response.body, "ok");
        response.is_last("200");
        begun.clean_end();
        assert_eq!(drained.wait().unwrap().cut, 0);
    }
}

#[test]
fn an_announced_drain_still_accepts() {
    let fixture = Fixture::new("[route.r]\nrespond = 200\n");
    let drained = fixture.drain(5, 5);
    let response = fixture.send(GET).message();
    response.is_last("200");
    assert!(!drained.is_done());
    fixture.clock.advance(Duration::from_secs(6));
    drained.wait().unwrap();
}

#[test]
fn a_request_that_does_not_end_is_cut_at_the_deadline() {
    let (back, fixture) = Fixture::of("timeout = false");
    let (mut client, mut server) = fixture.open(GET, &back);
    let drained = fixture.drain(0, 1);
    fixture.clock.advance(Duration::from_secs(2));
    assert_eq!(drained.wait().unwrap().cut, 1);
    assert_eq!(
        (client.rest(), server.rest()),
        (String::new(), String::new())
    );
    fixture.wait_idle();
}

/// The loop is held when the drain has ended, before the services of its connections are dropped.
#[test]
fn each_request_that_is_cut_has_its_line_when_the_log_ends() {
    let (back, world) = World::of("timeout = false");
    let _clients = [(); 3].map(|()| world.send(GET));
    let _servers = [(); 3].map(|()| back.accept_asked());
    let ((free, held), (began, begins)) = (channel::<()>(), channel::<()>());
    let gateway = world.operation.gateway();
    let drained = gateway.drain(Duration::ZERO, Duration::from_secs(1));
    drained.finally(move |_| {
        drop(began);
        let _ = held.recv();
    });
    // The deadline, and not yet the time at which a drain gives up its handlers.
    world.clock.jump(Duration::from_millis(1200));
    let _ = begins.recv();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| world.operation.close());
        tidegate_testkit::until("the loop ends, or the log", || {
            closing.is_finished() || world.parts.group.loops().is_shutting_down()
        });
        drop(free);
    });
    let lines = world.lines(3);
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert_eq!(value(line, "reason"), Some("closing"), "{line}");
    }
}

#[test]
fn a_request_that_waits_for_its_next_attempt_has_its_line_when_it_is_cut() {
    let settings = "timeout = false\nretry = { times = 1, pause = \"15s\" }";
    let (back, world) = World::of(settings);
    let (mut client, server) = world.open(GET, &back);
    drop(server);
    tidegate_testkit::until("the attempt has failed", || {
        world.parts.isolation.snapshots()[0].active == 0
    });
    world.operation.close();
    assert_eq!(client.rest(), "");
    let lines = world.lines(1);
    assert_eq!(value(&lines[0], "reason"), Some("closing"), "{lines:?}");
}
