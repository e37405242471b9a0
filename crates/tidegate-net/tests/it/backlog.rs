//! Connections that were not accepted yet when their server ended.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_net::ChannelPlacement;
use tidegate_net::{
    ChannelOptions, Draining, Inbound, InboundContext, NetGroup, Nothing, PipelineBuilder,
    ReadSize, Server, UserEvent,
};
use tidegate_testkit::{Gate, Log, Stop};

use crate::acts::Acts;
use crate::roaming::{Kind, roaming_with};
use crate::{dial, group, group_by, serve};

/// Logs how many bytes it had read when its server began to drain, and closes the connection.
struct Counts(usize, Log<usize>);

impl Inbound for Counts {
    type In = Bytes;
    type Out = Nothing;
    type Write = Bytes;

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.0 += bytes.len();
        ctx.write("+");
        ctx.flush();
    }

    fn event(&mut self, event: UserEvent, ctx: &mut InboundContext<'_, Self>) {
        if event.downcast_ref::<Draining>().is_some() {
            self.1.push(self.0);
            ctx.close();
        }
    }
}

/// More connections than a listener accepts in one turn.
const MANY: usize = 40;

/// Replies once and closes the connection.
fn replies() -> Acts {
    Acts::on_read(|bytes, ctx| {
        ctx.write(bytes);
        ctx.close_when_flushed();
    })
}

fn answers<P: tidegate_loop::Placement>(p: PipelineBuilder<P>) -> PipelineBuilder<P> {
    p.add_handler("answers", tidegate_net::Handler::inbound(replies()))
}

/// Blocks the only event loop of a group until the returned gate is opened.
pub(crate) fn hold<P: ChannelPlacement>(group: &NetGroup<P>) -> Gate {
    let stop = Stop::new();
    group.execute(stop.closure()).unwrap();
    stop.reached()
}

/// Connects clients that have sent a request and are not accepted yet.
fn waiting(server: &Server) -> Vec<TcpStream> {
    let ask = |_| {
        let mut client = dial(server);
        client.write_all(b"hello").unwrap();
        client
    };
    (0..MANY).map(ask).collect()
}

fn rest(mut client: &TcpStream) -> String {
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    rest
}

#[test]
fn a_drain_serves_the_connections_that_wait_to_be_accepted() {
    let group = group(1);
    let server = serve(&group, answers);
    let go_on = hold(&group);
    let clients = waiting(&server);
    let drained = server.drain(Duration::from_secs(60));
    assert!(!drained.is_done(), "a connection waits to be accepted");
    go_on.open();
    for client in &clients {
        assert_eq!(rest(client), "hello");
    }
    let report = drained.wait().unwrap();
    let counts = (
        report.open,
        report.closed_at_deadline.len(),
        report.still_running,
    );
    assert_eq!(counts, (MANY, 0, 0));
    server.closed().wait().unwrap();
    assert!(TcpStream::connect(server.local_addr()).is_err());
}

#[test]
fn a_server_that_is_closed_keeps_them_too() {
    let group = group(1);
    let server = serve(&group, answers);
    let go_on = hold(&group);
    let clients = waiting(&server);
    let closed = server.stop_accepting();
    go_on.open();
    closed.wait().unwrap();
    for client in &clients {
        assert_eq!(rest(client), "hello");
    }
}

#[test]
fn on_roaming_loops_as_well() {
    let (_workers, group) = roaming_with(Kind::Pc, 3);
    let server = serve(&group, answers);
    let go_on = hold(&group);
    let clients = waiting(&server);
    let drained = server.drain(Duration::from_secs(60));
    go_on.open();
    for client in &clients {
        assert_eq!(rest(client), "hello");
    }
    assert_eq!(drained.wait().unwrap().open, MANY);
}

#[test]
fn the_deadline_holds_for_them() {
    /// Sends nothing, and logs that its server drains.
    fn silent(log: Log<&'static str>) -> Acts {
        Acts::on_read(|_, _| ()).on_event(move |event, _| {
            if event.downcast_ref::<Draining>().is_some() {
                log.push("draining");
            }
        })
    }
    let clock = ManualClock::new();
    let group = group_by(&clock);
    let (log, own) = Log::pair();
    let server = serve(&group, move |p| p.add("silent", silent(own.clone())));
    let go_on = hold(&group);
    let client = dial(&server);
    let drained = server.drain(Duration::from_secs(10));
    go_on.open();
    server.closed().wait().unwrap();
    clock.advance(Duration::from_secs(10));
    let report = drained.wait().unwrap();
    let peer = client.local_addr().unwrap().to_string();
    assert_eq!((report.open, report.closed_at_deadline), (1, vec![peer]));
    assert_eq!(rest(&client), "");
    assert_eq!(log.take(), ["draining"]);
}

/// Drains a server whose client has sent so many bytes that the loop has not seen, and returns how
/// many its handler had read when it was notified. The channel reads 16 bytes in a turn.
fn read_before_the_drain(bytes: usize) -> usize {
    let group = group(1);
    let (log, own) = Log::pair();
    let options = ChannelOptions {
        read_size: ReadSize::fixed(16).unwrap(),
        reads_per_turn: 1,
        ..ChannelOptions::default()
    };
    let server = Server::builder(&group)
        .options(options)
        .pipeline(move |p| p.add("counts", Counts(0, own.clone())))
        .bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let mut client = dial(&server);
    client.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
    let go_on = hold(&group);
    client.write_all(&vec![b'x'; bytes]).unwrap();
    let drained = server.drain(Duration::from_secs(3600));
    go_on.open();
    assert!(drained.wait().unwrap().closed_at_deadline.is_empty());
    let logged = log.take();
    assert_eq!(logged.len(), 1);
    logged[0] - 1
}

#[test]
fn handlers_are_notified_of_a_drain_after_they_have_read_what_had_arrived() {
    for bytes in [0, 1, 15, 17, 100] {
        assert_eq!(read_before_the_drain(bytes), bytes);
    }
}

#[test]
fn a_peer_that_has_sent_too_much_does_not_hold_up_a_drain() {
    let read = read_before_the_drain(50_000);
    assert!((100..10_000).contains(&read), "{read}");
}
