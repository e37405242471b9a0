//! Servers that drain when a signal arrives. A test binary of its own: handlers are of the whole
//! process. Each test uses a signal of its own.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Signal, getpid, kill_process};
use tidegate_core::ManualClock;
use tidegate_loop::{Quiet, signal};
use tidegate_net::{Draining, Inbound, InboundContext, NetGroup, Nothing, Server, UserEvent};
use tidegate_promise::{Completion, Failure};
use tidegate_testkit::{Log, until};

fn send(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
}

/// Sends back what it reads, logs that its connection is open, and that its server drains.
struct LogEvents(Log<&'static str>);

impl Inbound for LogEvents {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn active(&mut self, _: &mut InboundContext<'_, Self>) {
        self.0.push("active");
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        ctx.write(bytes);
        ctx.flush();
    }

    fn event(&mut self, event: UserEvent, _: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Draining>().is_some() {
            self.0.push("draining");
        }
    }
}

/// Returns a server with one open connection, its clock and its log.
fn server() -> (Server, ManualClock, Log<&'static str>, TcpStream) {
    let clock = ManualClock::new();
    let loops = NetGroup::builder("io").loops(1).clock(&clock);
    let group = loops.build().unwrap();
    let (log, own) = Log::pair();
    let server = Server::builder(&group)
        .pipeline(move |p| p.add("log", LogEvents(own.clone())))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let client = TcpStream::connect(server.local_addr()).unwrap();
    log.wait_for(1);
    (server, clock, log, client)
}

#[test]
fn a_signal_drains_and_the_deadline_counts_from_it() {
    let (server, clock, log, mut client) = server();
    let drained = server.drain_on_timeout(signal::terminate(), Duration::from_secs(10));
    clock.advance(Duration::from_secs(60));
    assert!(!drained.is_done() && !server.closed().is_done());
    send(Signal::TERM);
    log.wait_for(2);
    assert!(!drained.cancel(), "it has begun");
    until("the deadline", || {
        clock.advance(Duration::from_secs(10));
        drained.is_done()
    });
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 1));
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(log.take(), ["active", "draining"]);
}

#[test]
fn a_second_signal_closes_the_rest_at_once() {
    let (server, _clock, log, mut client) = server();
    let drained = server.drain_on_timeout(signal::interrupt(), Duration::MAX);
    send(Signal::INT);
    log.wait_for(2);
    assert!(!drained.is_done());
    send(Signal::INT);
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 1));
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_wait_for_a_signal_that_is_cancelled_drains_nothing() {
    let (server, _clock, log, mut client) = server();
    let drained = server.drain_on(signal::hangup());
    assert!(drained.cancel());
    let arrived = signal::hangup();
    send(Signal::HUP);
    arrived.wait().unwrap();
    client.write_all(b"still here").unwrap();
    let mut back = [0; 10];
    client.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"still here");
    assert_eq!(log.take(), ["active"]);
    assert!(!server.closed().is_done());
}

/// Tests that use the same signal take turns.
static USER1: Mutex<()> = Mutex::new(());

#[test]
fn a_signal_finds_a_server_that_has_ended_or_is_about_to() {
    let _alone = USER1.lock().unwrap_or_else(PoisonError::into_inner);
    const LATE: Duration = Duration::from_secs(3600);
    let ends: [fn(&Server, &mut TcpStream); 4] = [
        |server, client| {
            server.drain(Duration::ZERO).wait().unwrap();
            assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        },
        |server, _| drop(server.drain(LATE)),
        |server, _| drop(server.drain_after(LATE, LATE)),
        |server, _| server.stop_accepting().wait().unwrap(),
    ];
    for end in ends {
        let (server, _clock, _log, mut client) = server();
        let (one, two) = (signal::user1(), signal::user1());
        let drained = [one, two].map(|one| server.drain_on_timeout(one, Duration::ZERO));
        end(&server, &mut client);
        drop(server);
        send(Signal::USR1);
        for drained in drained {
            drained.wait().unwrap();
        }
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn a_signal_after_the_end_of_the_group_makes_an_empty_report() {
    let _alone = USER1.lock().unwrap_or_else(PoisonError::into_inner);
    let group = tidegate_net::pinned("io", 1).unwrap();
    let server = Server::builder(&group).bind("127.0.0.1:0").wait().unwrap();
    let drained = server.drain_on(signal::user1());
    group
        .shutdown(Quiet::none(Duration::from_secs(60)))
        .wait()
        .unwrap();
    assert!(!drained.is_done());
    send(Signal::USR1);
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (0, 0));
}

#[test]
fn the_first_of_several_signals_drains() {
    let _alone = USER1.lock().unwrap_or_else(PoisonError::into_inner);
    let (server, _clock, log, client) = server();
    let drained = server.drain_on(Completion::any([signal::user1(), signal::user1()]));
    send(Signal::USR1);
    log.wait_for(2);
    drop(client);
    let report = drained.wait().unwrap();
    assert_eq!((report.open, report.closed_at_deadline.len()), (1, 0));
    server.closed().wait().unwrap();
}

#[test]
fn a_signal_that_cannot_be_awaited_is_a_failure() {
    let (server, _clock, _log, _client) = server();
    let signal = Completion::failed(Failure::new("there are no signals here"));
    let why = server.drain_on(signal).wait().unwrap_err().to_string();
    assert!(why.contains("there are no signals here"), "{why}");
    assert!(!server.closed().is_done());
}
