//! Dumps of loops with I/O and of servers: connections, listeners and other sources.

use std::io::Write;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::{Dump, ManualClock, Task};
use tidegate_net::source::{Interest, SourceContext};
use tidegate_net::{NetGroup, Server};
use tidegate_testkit::{Log, Stop, rounds, until};

use super::roaming::roaming;
use super::{Echo, dial, first, giving, group, group_by, round_trip, serve};
use crate::acts::Acts;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than a loop that is not stuck needs to answer.
const MINUTE: Duration = Duration::from_secs(60);

fn count(dump: &Dump, key: &str) -> u64 {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_count().unwrap()
}

fn text<'a>(dump: &'a Dump, key: &str) -> &'a str {
    let value = dump.get(key).unwrap_or_else(|| panic!("{key} in {dump}"));
    value.as_text().unwrap()
}

/// Returns the reactor of the only loop of a group's dump.
fn reactor(dump: &Dump) -> Dump {
    let loops = dump.find("loops").unwrap().children();
    let reactor = loops[0].find("reactor");
    reactor
        .unwrap_or_else(|| panic!("a reactor in {dump}"))
        .clone()
}

/// Returns the sources of a kind.
fn sources(reactor: &Dump, kind: &str) -> Vec<Dump> {
    let sources = reactor.find("sources").unwrap().children();
    let of_kind = sources.iter().filter(|one| one.kind() == kind);
    of_kind.cloned().collect()
}

#[test]
fn a_dump_lists_connections_and_listeners() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    round_trip(&mut client, b"hello");
    let dump = group.dump_within(MINUTE);
    let reactor = reactor(&dump);
    assert_eq!(count(&reactor, "registered"), 2);
    let connection = &sources(&reactor, "connection")[0];
    let peer = client.local_addr().unwrap().to_string();
    assert_eq!(
        (text(connection, "peer"), text(connection, "state")),
        (&*peer, "open")
    );
    assert_eq!(text(connection, "handlers"), "echo");
    assert_eq!(count(connection, "pending_bytes"), 0);
    assert!(connection.name().starts_with('#'));
    let listener = &sources(&reactor, "listener")[0];
    assert_eq!(
        (text(listener, "state"), count(listener, "connections")),
        ("accepting", 1)
    );
    assert!(dump.to_string().contains("handlers echo"));
}

#[test]
fn a_dump_lists_the_users_own_sources_also_without_a_request() {
    let group = group(1);
    let (reader, _writer) = std::io::pipe().unwrap();
    let nothing = |_: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> { None };
    let registered = group.next_reactor();
    let registered = registered.register("pipe", reader, Interest::READ, nothing);
    let source = registered.wait().unwrap();
    for dump in [group.dump(), group.dump_within(MINUTE)] {
        let reactor = reactor(&dump);
        let list = reactor.find("user_sources").unwrap();
        assert_eq!((list.total(), list.children()[0].name()), (1, "pipe"));
        let shown = &list.children()[0];
        assert_eq!(
            (text(shown, "interests"), text(shown, "state")),
            ("read", "idle")
        );
    }
    source
        .set_interests(Interest::READ | Interest::WRITE)
        .unwrap();
    let dump = reactor(&group.dump());
    let shown = &dump.find("user_sources").unwrap().children()[0];
    assert_eq!(text(shown, "interests"), "read and write");
    source.close().wait().unwrap();
    assert!(reactor(&group.dump()).find("user_sources").is_none());
}

#[test]
fn a_dump_shows_which_source_holds_its_loop_in_a_callback() {
    let group = group(1);
    let stop = Stop::new();
    let inside = stop.closure();
    let blocks = move |at: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> {
        inside();
        drop(at.handle().close());
        None
    };
    let nothing = |_: &SourceContext<'_, std::io::PipeReader>| -> Option<Task> { None };
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (idle, _writer) = std::io::pipe().unwrap();
    let handle = group.next_reactor();
    let idle = handle.register("idle", idle, Interest::READ, nothing);
    let blocks = handle.register("blocks", reader, Interest::READ, blocks);
    let (_idle, blocks) = (idle.wait().unwrap(), blocks.wait().unwrap());
    writer.write_all(b"x").unwrap();
    stop.reached();
    let dump = reactor(&group.dump());
    let list = dump.find("user_sources").unwrap().children();
    let states = list.iter().map(|one| (one.name(), text(one, "state")));
    let states: Vec<_> = states.collect();
    assert_eq!(states, [("idle", "idle"), ("blocks", "in its callback")]);
    stop.go_on();
    blocks.close().wait().unwrap();
}

#[test]
fn a_dump_shows_what_a_connection_could_not_send_yet() {
    let group = group(1);
    let (server, log) = giving(&group);
    let _client = dial(&server);
    let channel = first(&log);
    channel.write(Bytes::from_static(&[7; 1000]));
    let reactor = reactor(&group.dump_within(MINUTE));
    let connection = &sources(&reactor, "connection")[0];
    assert!(count(connection, "pending_bytes") >= 1000, "{connection}");
    assert_eq!(
        count(connection, "pending_bytes"),
        channel.pending_bytes() as u64
    );
}

#[test]
fn without_a_request_a_dump_has_the_counters_and_says_what_is_missing() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    round_trip(&mut client, b"hello");
    let reactor = reactor(&group.dump());
    assert_eq!(count(&reactor, "registered"), 2);
    assert!(reactor.find("sources").is_none());
    assert!(text(&reactor, "sources_not_listed").contains("dump_within"));
}

#[test]
fn a_loop_that_is_stuck_in_a_handler_still_has_a_dump() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let (dumps, stop) = (Log::new(), Stop::new());
    let parts = (group.clone(), dumps.clone(), stop.closure());
    let server = serve(&group, move |p| {
        let (group, dumps, inside) = parts.clone();
        let stuck = Acts::on_read(move |_, _| {
            dumps.push(group.dump());
            inside();
        });
        p.add("stuck", stuck)
    });
    let mut client = dial(&server);
    std::io::Write::write_all(&mut client, b"x").unwrap();
    stop.reached();
    clock.jump(SECOND * 3);
    let dump = group.dump_within(Duration::ZERO);
    let one = &dump.find("loops").unwrap().children()[0];
    assert!(text(one, "not_listed").contains("for up to 3.0s"), "{dump}");
    let stuck = reactor(&dump);
    assert_eq!(count(&stuck, "registered"), 2);
    assert!(stuck.get("sources_not_listed").is_some());
    // Inside the handler, the loop's own thread can list all sources. The one that handles the
    // event is away.
    let inside = reactor(&dumps.take().remove(0));
    let away = &sources(&inside, "source")[0];
    assert_eq!(text(away, "state"), "in its handlers");
    assert_eq!(sources(&inside, "listener").len(), 1);
    stop.go_on();
    drop(client);
    until("the connection is gone", || server.connections() == 0);
    // The handlers of the server hold the group.
    drop(server.drain(Duration::ZERO).wait());
}

#[test]
fn a_roaming_loop_lists_the_connections_whose_handlers_block() {
    let (pool, group) = roaming(3);
    let stop = Stop::new();
    let inside = stop.closure();
    let server = serve(&group, move |p| {
        let inside = inside.clone();
        p.add("blocks", Acts::on_read(move |_, _| inside()))
    });
    let (mut busy, _idle) = (dial(&server), dial(&server));
    until("both are there", || server.connections() == 2);
    std::io::Write::write_all(&mut busy, b"x").unwrap();
    stop.reached();
    let dump = group.dump_within(MINUTE);
    let reactor = reactor(&dump);
    let connections = sources(&reactor, "connection");
    let states: Vec<_> = connections.iter().map(|one| text(one, "state")).collect();
    assert!(states.contains(&"in its handlers"), "{dump}");
    let busy_peer = busy.local_addr().unwrap().to_string();
    let away = connections
        .iter()
        .find(|one| text(one, "state") == "in its handlers");
    assert_eq!(text(away.unwrap(), "peer"), busy_peer);
    assert!(count(&reactor, "away") >= 1);
    let running = pool.dump();
    let threads = running.find("threads").unwrap().children();
    assert_eq!(text(&threads[0], "state"), "running");
    stop.go_on();
}

#[test]
fn a_server_shows_its_state_and_its_connections() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    round_trip(&mut client, b"hello");
    let dump = server.dump();
    assert_eq!(
        (dump.kind(), dump.name()),
        ("server", &*server.local_addr().to_string())
    );
    assert_eq!(
        (text(&dump, "state"), count(&dump, "connections")),
        ("accepting", 1)
    );
    server.stop_accepting().wait().unwrap();
    assert_eq!(text(&server.dump(), "state"), "stopped");
    drop(client);
    server.drain(SECOND).wait().unwrap();
    let dump = server.dump();
    assert_eq!(
        (text(&dump, "state"), count(&dump, "connections")),
        ("draining", 0)
    );
    assert_eq!(count(&dump, "accepted"), server.accepted());
}

#[test]
fn the_size_of_a_dump_does_not_grow_with_the_connections() {
    let group = group(1);
    let pairs: Vec<_> = (0..5_000).map(|_| group.local_pair(|p| p, |p| p)).collect();
    let pairs: Vec<_> = pairs.into_iter().map(|pair| pair.wait().unwrap()).collect();
    let dump = group.dump_within(MINUTE);
    let reactor = reactor(&dump);
    let sources = reactor.find("sources").unwrap();
    assert_eq!((sources.children().len(), sources.left_out()), (100, 9_900));
    assert_eq!(sources.total(), group.io_metrics()[0].registered);
    let shown = dump.to_string();
    assert!(shown.contains("and 9,900 more") && shown.len() < 32 * 1024);
    drop(pairs);
}

/// Connections come and go while others dump. The last dump agrees with the metrics.
fn churn<P>(group: &NetGroup<P>, server: &Server)
where
    P: tidegate_loop::Placement,
{
    let rounds = rounds(40);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut client = dial(server);
                    round_trip(&mut client, b"hello");
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                assert!(group.dump().to_string().len() < 64 * 1024);
            }
        });
        scope.spawn(|| {
            for _ in 0..rounds {
                let dump = group.dump_within(MINUTE);
                for one in dump.find("loops").unwrap().children() {
                    assert!(one.get("not_listed").is_none(), "{dump}");
                }
            }
        });
    });
    until("all connections are gone", || server.connections() == 0);
    let mut client = dial(server);
    round_trip(&mut client, b"hello");
    // A client may have its bytes before they are counted.
    let echoed = 5 * (2 * rounds as u64 + 1);
    until("all bytes are counted", || {
        let metrics = group.io_metrics();
        metrics.iter().map(|one| one.written_bytes).sum::<u64>() == echoed
    });
    let dump = group.dump_within(MINUTE);
    let loops = dump.find("loops").unwrap().children();
    for (one, metrics) in loops.iter().zip(group.io_metrics()) {
        let reactor = one.find("reactor").unwrap();
        assert_eq!(count(reactor, "registered"), metrics.registered);
        assert_eq!(reactor.find("sources").unwrap().total(), metrics.registered);
        assert_eq!(count(reactor, "accepted"), metrics.accepted);
        assert_eq!(count(reactor, "read_bytes"), metrics.read_bytes);
        assert_eq!(count(reactor, "written_bytes"), metrics.written_bytes);
    }
}

#[test]
fn dumps_under_load_agree_with_the_metrics_on_pinned_loops() {
    let group = group(2);
    let server = serve(&group, |p| p.add("echo", Echo));
    churn(&group, &server);
}

#[test]
fn dumps_under_load_agree_with_the_metrics_on_roaming_loops() {
    let (_pool, group) = roaming(4);
    let server = serve(&group, |p| p.add("echo", Echo));
    churn(&group, &server);
}

#[test]
fn a_dump_after_the_end_shows_no_sources() {
    let group = group(1);
    let server = serve(&group, |p| p.add("echo", Echo));
    let mut client = dial(&server);
    round_trip(&mut client, b"hello");
    let quiet = tidegate_loop::Quiet::none(MINUTE);
    group.shutdown(quiet).wait().unwrap();
    for dump in [group.dump(), group.dump_within(MINUTE)] {
        let one = &dump.find("loops").unwrap().children()[0];
        assert_eq!(text(one, "state"), "terminated");
        assert_eq!(count(&reactor(&dump), "registered"), 0);
    }
}
