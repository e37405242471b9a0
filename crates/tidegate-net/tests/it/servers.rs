//! Servers: listening, draining and closing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_net::{Client, DrainReport, Draining, Server};
use tidegate_testkit::{Log, Stop};

use crate::acts::Acts;
use crate::{Echo, LogChannel, dial, giving, group, group_by, round_trip, serve};

#[test]
fn a_closed_server_frees_its_port_and_keeps_its_connections() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"hello"), b"hello");
    server.stop_accepting().wait().unwrap();
    assert_eq!(round_trip(&mut client, b"again"), b"again");
    group.iter().for_each(|one| one.settle());
    assert!(TcpStream::connect(server.local_addr()).is_err());
    assert!(server.closed().is_done());
}

#[test]
fn a_drain_lets_connections_finish_and_reports_the_closed_ones() {
    /// The first connection sends `bye` when its server drains; the others ignore it.
    fn polite(asked: Arc<AtomicUsize>) -> Acts {
        Acts::on_read(|bytes, ctx| ctx.fire_read(bytes)).on_event(move |event, ctx| {
            if event.downcast_ref::<Draining>().is_some()
                && asked.fetch_add(1, Ordering::Relaxed) == 0
            {
                ctx.write("bye");
                ctx.close_when_flushed();
            }
        })
    }
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let asked = Arc::<AtomicUsize>::default();
    let counts = Arc::clone(&asked);
    let server = serve(&group, move |p| {
        p.add("polite", polite(Arc::clone(&counts)))
            .add("echo", Echo)
    });
    let mut clients = [dial(&server), dial(&server)];
    for client in &mut clients {
        assert_eq!(round_trip(client, b"x"), b"x");
    }
    let drained = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(9));
    assert!(!drained.is_done());
    clock.advance(Duration::from_secs(1));
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (2, 1));
    assert_eq!(server.connections(), 0);
    let mut ends: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            let mut rest = String::new();
            client.read_to_string(&mut rest).unwrap();
            rest
        })
        .collect();
    ends.sort();
    assert_eq!(ends, ["", "bye"]);
}

#[test]
fn a_drain_reports_even_if_a_handler_holds_up_its_loop() {
    fn holds(inside: impl Fn() + Send + 'static) -> Acts {
        Acts::on_read(move |_, _| inside())
    }
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let stop = Stop::new();
    let inside = stop.closure();
    let server = serve(&group, move |p| p.add("holds", holds(inside.clone())));
    let mut client = dial(&server);
    client.write_all(b"hello").unwrap();
    stop.reached();
    let drained = server.drain(Duration::from_secs(10));
    clock.jump(Duration::from_secs(10) + Server::DRAIN_GRACE);
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.still_running), (1, 1));
    stop.go_on();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_drain_ends_idle_connections_while_their_loops_wait_for_quiet() {
    /// Closes an idle connection when its server drains.
    fn leaves() -> Acts {
        Acts::on_read(|bytes, ctx| ctx.fire_read(bytes)).on_event(|event, ctx| {
            if event.downcast_ref::<Draining>().is_some() {
                ctx.write("bye");
                ctx.close_when_flushed();
            }
        })
    }
    let second = Duration::from_secs(1);
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let server = serve(&group, |p| p.add("leaves", leaves()).add("echo", Echo));
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"x"), b"x");
    let ended = group.shutdown(tidegate_loop::Quiet {
        period: 5 * second,
        timeout: 60 * second,
    });
    let drained = server.drain(10 * second);
    clock.settle();
    assert_eq!(server.connections(), 0);
    assert_eq!(drained.wait().unwrap().open, 1);
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye");
    assert!(!ended.is_done());
    clock.advance(5 * second);
    ended.wait().unwrap();
    // The loops accept nothing any more, and nobody is told of it.
    server.drain(10 * second).wait().unwrap();
    let refused = group.loops().iter().map(|one| one.metrics().refused);
    assert_eq!(refused.sum::<u64>(), 0);
}

#[test]
fn the_end_of_the_group_closes_everything_and_completes_its_promises() {
    let group = group(2);
    let (server, log) = giving(&group);
    let mut clients = [dial(&server), dial(&server)];
    log.wait_for(2);
    let channels = log.take();
    let quiet = tidegate_loop::Quiet::none(Duration::from_secs(10));
    group.shutdown(quiet).wait().unwrap();
    for channel in &channels {
        assert!(channel.closed().is_done());
        assert!(channel.write_with("late").wait().is_err());
        channel.flush();
    }
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }
    assert!(server.closed().is_done());
}

#[test]
fn channels_are_made_of_sockets_that_exist() {
    let group = group(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .serve(listener)
        .wait()
        .unwrap();
    let mut client = dial(&server);
    assert_eq!(round_trip(&mut client, b"x"), b"x");
    let adopted = Client::builder(&group)
        .build()
        .adopt(client)
        .wait()
        .unwrap();
    assert_eq!(adopted.peer_addr(), Some(server.local_addr()));
}

#[test]
fn a_server_binds_by_name() {
    let group = group(1);
    let server = Server::builder(&group).pipeline(|p| p.add("echo", Echo));
    let server = server.bind("localhost:0").wait().unwrap();
    assert!(server.local_addr().ip().is_loopback());
    assert_eq!(round_trip(&mut dial(&server), b"hello"), b"hello");
}

#[test]
fn several_listeners_share_one_port_and_each_keeps_its_connections() {
    let group = group(2);
    let (log, own) = Log::pair();
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("gives", LogChannel(own.clone())).add("echo", Echo))
        .listeners_per_port(8)
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let mut clients: Vec<_> = (0..64).map(|_| dial(&server)).collect();
    for client in &mut clients {
        assert_eq!(round_trip(client, b"hello"), b"hello");
    }
    assert_eq!((server.connections(), server.accepted()), (64, 64));
    let accepted: Vec<_> = group.io_metrics().iter().map(|one| one.accepted).collect();
    assert_eq!(accepted.iter().sum::<u64>(), 64);
    let mut on_each = [0; 2];
    for channel in log.take() {
        on_each[usize::from(channel.loop_name() == "io-1")] += 1;
    }
    assert_eq!(on_each.to_vec(), accepted, "it stays where it was accepted");
    server.stop_accepting().wait().unwrap();
    assert!(
        TcpStream::connect(server.local_addr()).is_err(),
        "all are closed"
    );
    let report = server.drain(Duration::from_secs(5));
    drop(clients);
    assert!(report.wait().unwrap().closed_at_deadline.is_empty());
}

#[test]
fn the_report_of_a_drain_is_a_sentence() {
    let shown = |open, closed: usize, still_running| {
        let closed_at_deadline = vec!["local".to_owned(); closed];
        let report = DrainReport {
            open,
            closed_at_deadline,
            still_running,
        };
        report.to_string()
    };
    assert_eq!(
        shown(1, 0, 0),
        "1 connection was open, 0 were closed at the deadline"
    );
    assert_eq!(
        shown(3, 1, 2),
        "3 connections were open, 1 was closed at the deadline, the handlers of 2 have not returned"
    );
}
