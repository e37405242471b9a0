//! Unusual ends: drains that overlap, connects that were cancelled, connections whose handlers
//! cannot be created.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::{ManualClock, Task};
use tidegate_loop::{EventLoop, Placement, Quiet};
use tidegate_net::{
    Client, DrainReport, Draining, Inbound, InboundContext, NetGroup, Nothing, Outbound,
    OutboundContext, Server,
};
use tidegate_pool::WorkerPool;
use tidegate_promise::{Completion, Promise, promise};
use tidegate_testkit::{Gate, Log, Stop};

use crate::acts::Acts;
use crate::{Echo, LogChannel, dial, first, giving, group_by, round_trip, serve};

/// Logs that its connection is open, and that its server drains.
fn log_events(log: Log<&'static str>) -> Acts {
    let in_active = log.clone();
    Acts::on_read(|_, _| ())
        .on_active(move |_| in_active.push("active"))
        .on_event(move |event, _| {
            if event.downcast_ref::<Draining>().is_some() {
                log.push("draining");
            }
        })
}

#[test]
fn drains_that_overlap_end_at_their_own_deadlines_and_notify_once() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| p.add("notes", log_events(own.clone())));
    let _client = dial(&server);
    log.wait_for(1);
    let late = server.drain(Duration::from_secs(20));
    let soon = server.drain(Duration::from_secs(10));
    clock.advance(Duration::from_secs(9));
    assert!(!late.is_done() && !soon.is_done(), "a connection is open");
    clock.advance(Duration::from_secs(1));
    let (late, soon) = (late.wait().unwrap(), soon.wait().unwrap());
    assert_eq!(
        (late.open, late.closed_at_deadline.len()),
        (1, 0),
        "another one cut it"
    );
    assert_eq!((soon.open, soon.closed_at_deadline.len()), (1, 1));
    assert_eq!(log.take(), ["active", "draining"]);
}

#[test]
fn a_connection_that_reaches_its_loop_during_a_drain_is_notified_of_it() {
    let clock = ManualClock::new();
    let loops = NetGroup::builder("io").loops(2).clock(&clock);
    let group = loops.build().unwrap();
    let (log, busy, begin) = (Log::new(), Gate::new(), Gate::new());
    let (held, go_on) = (Gate::new(), Gate::new());
    let own = log.clone();
    let gates = (held.clone(), go_on.clone());
    let server = serve(&group, move |p| {
        // One connection lives on the accepting loop `io-0`. The loop blocks while it creates
        // that one's handlers.
        if EventLoop::current().is_some_and(|one| one.name() == "io-0") {
            gates.0.open();
            gates.1.wait();
        }
        p.add("notes", log_events(own.clone()))
    });
    // All three connections are waiting when the accepting begins: one for the other loop, one for
    // `io-0`, and another one for the other loop.
    let (tell, wait) = (busy.clone(), begin.clone());
    let first = group.iter().next().unwrap();
    let accepts = first.submit(move || {
        tell.open();
        wait.wait();
    });
    busy.wait();
    let _clients = [dial(&server), dial(&server), dial(&server)];
    begin.open();
    accepts.unwrap().wait().unwrap();
    held.wait();
    let _drain = server.drain(Duration::from_secs(10));
    // After this task the other loop has notified its connections of the drain.
    let other = group.iter().nth(1).unwrap();
    other.submit(|| ()).unwrap().wait().unwrap();
    go_on.open();
    log.wait_for(6);
    let notified = log.take();
    let count = |what| {
        notified
            .iter()
            .filter(|received| **received == what)
            .count()
    };
    assert_eq!((count("active"), count("draining")), (3, 3));
}

/// Returns a resolver that lets the test complete the resolution.
fn asks(
    log: &Log<Promise<Vec<SocketAddr>>>,
) -> impl Fn(&str, u16) -> Completion<Vec<SocketAddr>> + Send + Sync + use<> {
    let log = log.clone();
    move |_, _| {
        let (promise, found) = promise();
        log.push(promise);
        found
    }
}

#[test]
fn a_connect_that_was_cancelled_while_its_name_was_resolved_opens_no_connection() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let asked = Log::new();
    let client = Client::builder(&group).resolver(asks(&asked)).build();
    let [wanted, unwanted] = ["first:1", "second:1"].map(|name| client.connect(name));
    assert!(unwanted.cancel());
    for (at, question) in asked.take().into_iter().rev().enumerate() {
        let answer = vec![listener.local_addr().unwrap()];
        assert!(question.succeed(answer).is_ok());
        group.iter().for_each(|one| one.settle());
        assert_eq!(
            listener.accept().is_ok(),
            at == 1,
            "the second one was cancelled"
        );
    }
    wanted.wait().unwrap();
}

#[test]
fn a_server_without_handles_frees_its_port() {
    let group = tidegate_net::pinned("io", 1).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let address = address.unwrap();
    for by_name in [false, true] {
        let stop = Stop::new();
        let held = group.next().submit(stop.closure());
        stop.reached();
        let asked = Log::new();
        let server = Server::builder(&group).resolver(asks(&asked));
        let bound = match by_name {
            true => server.bind("somewhere:1"),
            false => server.bind(address),
        };
        for question in asked.take() {
            assert!(question.succeed(vec![address]).is_ok());
        }
        assert!(TcpListener::bind(address).is_err(), "it listens already");
        assert!(bound.cancel());
        stop.go_on();
        held.unwrap().wait().unwrap();
        // The listener ends after a signal, which no task waits for.
        let free = (0..1_000_000).any(|_| {
            group.next().settle();
            TcpListener::bind(address).is_ok()
        });
        assert!(free);
    }
}

#[test]
fn handlers_that_cannot_be_made_are_an_error_with_the_panic() {
    let (unhandled, received) = Log::pair();
    let loops = NetGroup::builder("io")
        .loops(1)
        .on_unhandled(move |_, what| received.push(what.to_string()));
    let group = loops.build().unwrap();
    let bound = Server::builder(&group).pipeline(|_| panic!("not at all"));
    let why = bound.bind("127.0.0.1:0").wait().unwrap_err().to_string();
    assert!(why.contains("not at all"), "{why}");

    let made = std::sync::atomic::AtomicUsize::new(0);
    let server = serve(&group, move |p| {
        let number = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert_ne!(number, 1, "not this one");
        p.add("echo", Echo)
    });
    let (mut bad, mut good) = (dial(&server), dial(&server));
    assert_eq!(bad.read(&mut [0; 8]).unwrap(), 0, "closed");
    assert_eq!(round_trip(&mut good, b"hello"), b"hello");
    unhandled.wait_for(1);
    let received = unhandled.take();
    assert!(
        received.len() == 1 && received[0].contains("not this one"),
        "{received:?}"
    );

    let client = Client::builder(&group)
        .pipeline(|_| panic!("not here"))
        .build();
    let refused = client.connect(server.local_addr()).wait().unwrap_err();
    assert!(refused.to_string().contains("not here"), "{refused}");
    assert!(unhandled.is_empty(), "the caller received the error");
}

/// Does not pass a close on.
struct Holds;

impl Inbound for Holds {
    type In = Bytes;
    type Out = Nothing;
    type Write = Nothing;

    fn read(&mut self, _: Bytes, _: &mut InboundContext<'_, Self>) {}
}

impl Outbound for Holds {
    type Take = Bytes;
    type Write = Bytes;

    fn write(&mut self, bytes: Bytes, ctx: &mut OutboundContext<'_, Self>) {
        ctx.write(bytes);
    }

    fn close(&mut self, _: &mut OutboundContext<'_, Self>) {}
}

#[test]
fn a_drain_cuts_connections_whose_handlers_hold_the_close_back() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let (log, gives) = Log::pair();
    let server = serve(&group, move |p| {
        p.add("gives", LogChannel(gives.clone()))
            .add_duplex("holds", Holds)
    });
    let mut busy = dial(&server);
    busy.write_all(b"waits").unwrap();
    log.wait_for(1);
    let drained = server.drain(Duration::from_secs(1));
    clock.advance(Duration::from_secs(1));
    let report = drained.wait().unwrap();
    assert_eq!(
        (report.closed_at_deadline.len(), report.still_running),
        (1, 0)
    );
    let _ = busy.read(&mut [0; 8]);
}

#[test]
fn a_pair_of_channels_whose_completion_is_dropped_is_closed() {
    fn ends(log: Log<()>) -> Acts {
        Acts::on_read(|_, _| ()).on_inactive(move |_| log.push(()))
    }
    let group = tidegate_net::pinned("io", 1).unwrap();
    let (gate, log) = (Gate::new(), Log::new());
    group.next().execute(gate.waits()).unwrap();
    let (one, other) = (log.clone(), log.clone());
    let pair = group.local_pair(
        move |p| p.add("ends", ends(one.clone())),
        move |p| p.add("ends", ends(other.clone())),
    );
    assert!(pair.cancel());
    gate.open();
    log.wait_for(2);
}

#[test]
fn a_drain_without_a_deadline_ends_with_one_that_has_one() {
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let (server, log) = giving(&group);
    let _client = dial(&server);
    let channel = first(&log);
    let endless = server.drain(Duration::MAX);
    drop(server.drain(Duration::MAX));
    clock.settle();
    assert!(!endless.is_done() && channel.is_active());
    let at_once = server.drain(Duration::ZERO).wait().unwrap();
    assert_eq!(at_once.closed_at_deadline.len(), 1);
    assert_eq!(endless.wait().unwrap().open, 1);
    let nothing = server.drain(Duration::ZERO).wait().unwrap();
    assert_eq!(nothing, DrainReport::default());
}

/// Shuts the group down while a task holds its only loop, and takes what it hands back.
fn take_what_is_left<P: Placement>(group: &NetGroup<P>, clock: &ManualClock) {
    let stop = Stop::new();
    let held = Task::non_blocking(stop.closure());
    group.next().execute_task(held).unwrap();
    stop.reached();
    let answer = group.submit(|| 7).unwrap();
    let ended = group.shutdown(Quiet::none(Duration::from_secs(1)));
    clock.jump(Duration::from_secs(1));
    stop.go_on();
    assert_eq!(ended.wait().unwrap().handed_back.len(), 1);
    group.handed_back().take().into_iter().for_each(Task::run);
    assert_eq!(answer.wait().unwrap(), 7);
    assert!(group.handed_back().is_empty());
}

#[test]
fn what_a_group_hands_back_can_be_taken_from_it() {
    let clock = ManualClock::new();
    let loops = || NetGroup::builder("io").loops(1).clock(&clock);
    take_what_is_left(&loops().build().unwrap(), &clock);
    let workers = WorkerPool::builder("workers").max(4).build().unwrap();
    take_what_is_left(&loops().build_roaming(&workers).unwrap(), &clock);
}
