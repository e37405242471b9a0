//! Tests of connections and pools, without sockets.

mod bodies;
mod course;
mod ends;
mod exchanges;
mod model;
mod pools;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_net::{EmbeddedChannel, HandlerContext};
use tidegate_testkit::Log;

use super::connection::Connection;
use super::error::{ClientError, Kind, Phase};
use super::exchange_handler::{ExchangeHandler, Flow};
use super::failure::Terms;
use super::handler::ClientHandler;
use super::limits::ConnectionLimits;
use super::pool::{Acquired, Bounds, Grant, Lease, Pool};
use super::slot::{Begun, Link, Signal};
use crate::codec::{BodyFraming, HeadLimits, Method, ResponseHead};

const LIMITS: ConnectionLimits = ConnectionLimits {
    head_timeout: Duration::from_secs(30),
    body_timeout: Duration::from_secs(20),
    idle: Duration::from_secs(15),
    max_age: Duration::from_secs(600),
    max_requests: 1000,
};

/// Logs what it receives.
#[derive(Clone)]
struct Logs {
    log: Log<String>,
    /// What it returns for data.
    flow: Flow,
}

impl ExchangeHandler for Logs {
    fn head(&mut self, head: ResponseHead<'_>, framing: BodyFraming, _: &mut HandlerContext<'_>) {
        self.log.push(format!("{} {framing:?}", head.status()));
    }

    fn data(&mut self, bytes: Bytes, _: &mut HandlerContext<'_>) -> Flow {
        self.log.push(String::from_utf8(bytes.to_vec()).unwrap());
        self.flow
    }

    fn trailers(&mut self, lines: Bytes, _: &mut HandlerContext<'_>) {
        self.log.push(format!("trailers {}", lines.len()));
    }

    fn writable(&mut self, _: &mut HandlerContext<'_>) {
        self.log.push("writable".to_owned());
    }

    fn end(self, _: &mut HandlerContext<'_>) {
        self.log.push("end".to_owned());
    }

    fn fail(self, why: ClientError, _: &mut HandlerContext<'_>) {
        self.failed(&why);
    }
}

impl Logs {
    fn failed(&self, why: &ClientError) {
        let what = match why.kind() {
            Kind::Closed(_) => "closed".to_owned(),
            Kind::Truncated => "truncated".to_owned(),
            Kind::BadResponse(reason) => format!("bad {}", reason.word()),
            Kind::Unexpected(_) => "unexpected".to_owned(),
            Kind::Timeout(_) if why.phase() == Phase::Head => "head timeout".to_owned(),
            Kind::Timeout(_) => "body timeout".to_owned(),
            other => format!("{other:?}"),
        };
        let words = [(why.was_sent(), "sent"), (why.is_safe_to_retry(), "safe")];
        let words = words.iter().filter(|(yes, _)| *yes).map(|(_, word)| *word);
        let words: Vec<_> = words.collect();
        self.log.push(format!("{what}: {}", words.join(" ")));
    }
}

/// The terms of a request that may be sent twice.
fn terms() -> Terms {
    Terms {
        label: Some(Arc::from("GET http://a/")),
        idempotent: true,
    }
}

/// The bounds of a pool that keeps all free connections.
fn bounds(connections: usize, waiting: usize) -> Bounds {
    Bounds {
        connections,
        waiting,
        keep: usize::MAX,
    }
}

/// Creates a pool of one loop with one connection, and takes its lease.
fn one_lease<R: ExchangeHandler>() -> (Arc<Pool<Link<R>>>, Lease<Link<R>>) {
    let pool = Pool::new(1, bounds(1, 10), |link: Link<R>| drop(link.channel.close()));
    let Acquired::Now(Grant::New(lease)) = pool.acquire(Some(0), false, |_| {}) else {
        panic!("the pool is empty");
    };
    (pool, lease)
}

/// A connection without a socket, and the pool that it belongs to.
struct Fixture {
    channel: EmbeddedChannel,
    pool: Arc<Pool<Link<Logs>>>,
    lease: Option<Lease<Link<Logs>>>,
    link: Link<Logs>,
    log: Log<String>,
    next: u64,
}

impl Fixture {
    fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: ConnectionLimits) -> Self {
        let (pool, lease) = one_lease();
        let connection = Connection::<Logs>::new(limits, HeadLimits::DEFAULT);
        let handler = ClientHandler::new(connection);
        let channel = EmbeddedChannel::new(|p| p.add("http", handler)).unwrap();
        Self {
            link: Link::of(&channel.channel()).unwrap(),
            channel,
            pool,
            lease: Some(lease),
            log: Log::new(),
            next: 1,
        }
    }

    /// A connection on which a request was sent.
    fn asked() -> Self {
        let mut fixture = Self::new();
        fixture.get();
        fixture
    }

    fn receive(&mut self, bytes: impl Into<Bytes>) {
        self.channel.receive(bytes);
    }

    /// Sends a request. Returns the number of the exchange.
    fn begin(&mut self, flow: Flow, is_head: bool) -> u64 {
        self.begin_part(flow, is_head, true)
    }

    /// Sends a request that is complete or not. Returns the number of the exchange.
    fn begin_part(&mut self, flow: Flow, is_head: bool, complete: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        let log = self.log.clone();
        let begun = Begun {
            id,
            method: match is_head {
                true => Method::Head,
                false => Method::Get,
            },
            receiver: Logs { log, flow },
            terms: terms(),
            lease: self.lease.take(),
            shared: false,
        };
        let link = self.link.clone();
        let now = self.channel.clock().nanos();
        match link.slot.begin(begun, complete, now) {
            Ok(()) => {
                let head = Bytes::from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                link.channel.write_and_flush(head);
                self.channel.run();
            }
            Err(refused) => refused.receiver.failed(&refused.terms.not_begun("")),
        }
        id
    }

    fn get(&mut self) -> u64 {
        self.begin(Flow::More, false)
    }

    fn signal(&mut self, signal: Signal) {
        self.channel.channel().fire_event(signal);
        self.channel.run();
    }

    /// Returns `true` if the connection is in the pool, and takes it out.
    fn is_idle(&mut self) -> bool {
        !self.pool.take_free().is_empty()
    }

    /// Returns `true` if the connection is closed and has returned its permit.
    fn is_over(&mut self) -> bool {
        !self.channel.is_open() && self.pool.load() == (0, 0) && !self.is_idle()
    }
}
