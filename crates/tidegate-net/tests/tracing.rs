//! What a subscriber of `tracing` sees of connections. The subscriber is that of the process,
//! because event loops have threads of their own.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::ManualClock;
use tidegate_net::{Client, Inbound, InboundContext, NetGroup, Nothing, Server};
use tidegate_pool::WorkerPool;
use tidegate_testkit::{Log, RecordedSpan, Recorder, has, until};
use tracing::Level;
use tracing::subscriber::set_global_default;

#[path = "it/echo.rs"]
mod echo;

use self::echo::Echo;

/// The subscriber of the process.
fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = Recorder::new();
        set_global_default(recorder.clone()).unwrap();
        recorder
    })
}

/// Logs in which spans its events reach it, and those of a task that it submits.
struct LogSpans {
    log: Log<(&'static str, Vec<&'static str>)>,
    pool: WorkerPool,
}

impl Inbound for LogSpans {
    type In = Bytes;
    type Out = Bytes;
    type Write = Nothing;

    fn active(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(("active", recorder().current()));
        ctx.fire_active();
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(("read", recorder().current()));
        let log = self.log.clone();
        let look = move || log.push(("task", recorder().current()));
        self.pool.execute(look).unwrap();
        ctx.fire_read(bytes);
    }

    fn inactive(&mut self, ctx: &mut InboundContext<'_, Self>) {
        self.log.push(("inactive", recorder().current()));
        ctx.fire_inactive();
    }
}

/// Returns the spans of the connections of one side.
fn connections(side: &str) -> Vec<RecordedSpan> {
    let mut spans = recorder().spans("connection");
    spans.retain(|span| span.field("side") == Some(side));
    spans
}

#[test]
fn handlers_and_their_tasks_run_in_the_span_of_the_connection() {
    recorder();
    let group: NetGroup = tidegate_net::pinned("io", 1).unwrap();
    let log = Log::new();
    let pool = WorkerPool::builder("workers").build().unwrap();
    let (own, threads) = (log.clone(), pool.clone());
    let server = Server::builder(&group)
        .pipeline(move |p| {
            let (log, pool) = (own.clone(), threads.clone());
            p.add("spans", LogSpans { log, pool }).add("echo", Echo)
        })
        .bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let client = Client::builder(&group).build();
    let channel = client.connect(server.local_addr()).wait().unwrap();
    channel.write_and_flush("hello");
    log.wait_for(3);
    channel.close().wait().unwrap();
    log.wait_for(4);
    let mut seen = log.take();
    seen.sort_unstable();
    let inside = vec!["connection"];
    let expected = ["active", "inactive", "read", "task"].map(|event| (event, inside.clone()));
    assert_eq!(seen, expected);
    for side in ["server", "client"] {
        until("the span is closed", || {
            let spans = connections(side);
            spans.iter().all(|span| span.handles == 0)
        });
    }
    let address = server.local_addr().to_string();
    let span = connections("client").remove(0);
    assert_eq!(span.field("peer"), Some(address.as_str()));
    let span = connections("server").remove(0);
    assert!(span.field("peer").is_some() && span.field("id").is_some());
    assert_eq!(
        (span.target, span.level),
        ("tidegate::connection", Level::DEBUG)
    );
    assert_eq!(span.entered, span.left);
}

#[test]
fn a_refused_connection_is_an_event_at_most_once_in_a_second_and_server() {
    recorder();
    let clock = ManualClock::new();
    let loops = NetGroup::builder("refusing").loops(1).clock(&clock);
    let group = loops.build().unwrap();
    let server = Server::builder(&group)
        .pipeline(|p| p.add("echo", Echo))
        .max_connections(1)
        .bind("127.0.0.1:0");
    let server = server.wait().unwrap();
    let address = server.local_addr();
    let mut one = TcpStream::connect(address).unwrap();
    one.write_all(b"x").unwrap();
    one.read_exact(&mut [0; 1]).unwrap();
    let refuse = || {
        let mut refused = TcpStream::connect(address).unwrap();
        assert_eq!(refused.read(&mut [0; 1]).unwrap(), 0);
    };
    refuse();
    refuse();
    group.next().settle();
    clock.advance(Duration::from_secs(2));
    refuse();
    group.next().settle();
    let place = address.to_string();
    let mut events = recorder().events("refused");
    events.retain(|event| event.field("name") == Some(place.as_str()));
    let left_out: Vec<_> = events.iter().map(|event| event.field("left_out")).collect();
    assert_eq!(left_out, [Some("0"), Some("1")]);
    assert_eq!(events[0].field("kind"), Some("server"));
    has(events[0].field("reason").unwrap(), ["max_connections"]);
}
