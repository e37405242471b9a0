//! The programs that users want to write, no longer than they want them.
//!
//! A program takes its surroundings as arguments (an address, a dependency, a clock), and sends the
//! lines that it would print. The tests below call the programs. None of them sleeps.
#![cfg(all(feature = "isolate", feature = "net"))]
#![expect(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate::isolate::{Criticality::High, RequestContext};
use tidegate::net::{self, handlers::LineFrames};
use tidegate::prelude::*;

/// The programs. Their lines are laid out by hand, as in a document.
#[rustfmt::skip]
mod programs {
    use super::*;

    pub(super) fn a_promise(soon: Duration, message: Sender<String>) -> tidegate::Result<()> {
        let home = EventLoop::builder("home").build()?;

        let (promise, answer) = home.promise::<u32>();           // listeners run on `home`
        answer.on_complete(say(&message, |outcome| match outcome {
            Outcome::Success(n) => format!("finished: {n}"),
            Outcome::Failure(cause) => format!("failed: {cause}"),
            Outcome::Cancelled => "cancelled".to_owned(),
        }));
        home.schedule(soon, move || promise.succeed(123_456))?;

        message.send(format!("and here it is: {}", answer.wait()?))?; // an error value on a loop thread, never a deadlock
        home.shutdown(Quiet::none(Duration::from_secs(60))).wait()?; // report: what ran, what was handed back
        Ok(())
    }

    pub(super) fn pinned_server(bound: Sender<Server>) -> tidegate::Result<()> {
        let group = net::pinned("io", 2)?;
        let server = Server::builder(&group)
            .pipeline(|p| p.add("lines", LineFrames::max(8 * 1024)).add("shout", Shout))
            .bind("127.0.0.1:0")
            .wait()?;
        bound.send(server.clone())?;
        Ok(server.closed().wait()?)
    }

    pub(super) struct Shout;
    impl Inbound for Shout {
        type In = Bytes;
        type Out = Nothing;              // passes nothing on
        type Write = Bytes;
        const BLOCKING: Blocking = Blocking::Never;
        fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
            ctx.write(line.to_ascii_uppercase());
        }
        fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) { ctx.flush(); }
    }

    pub(super) fn roaming_server(bound: Sender<Server>) -> tidegate::Result<()> {
        let workers = WorkerPool::builder("workers").core(4).max(64).build()?;
        let group = net::roaming("io", 2, &workers)?;            // Adaptive strategy, late hand-over
        let server = Server::builder(&group)
            .pipeline(|p| p.add("lines", LineFrames::max(8 * 1024)).add("shout", Shout))
            .bind("127.0.0.1:0")
            .wait()?;
        bound.send(server.clone())?;
        server.closed().wait()?;
        assert!(group.metrics().len() == 2);                     // ran here, handed over, or handed over late
        Ok(())
    }

    pub(super) fn bulkhead(legacy: Legacy, sku: u32, clock: &ManualClock) -> tidegate::Result<String> {
        let isolation = Isolation::builder().clock(clock).build()?;
        let prices = Command::builder("prices")
            .group("catalog")
            .threads(PoolConfig { core: 10, queue: 20, ..PoolConfig::default() })   // a pool of its own; `max` defaults to `core`
            .timeout(Duration::from_millis(250))
            .breaker(BreakerConfig::default())
            .fallback(|_why| Ok(Price::unknown()))
            .build(&isolation)?;

        let price = prices.run(move |cancel| legacy.fetch(sku, cancel))?;                   // a blocking caller
        let queued = EventLoop::global().spawn({
            let prices = prices.clone();
            async move { prices.queue(move |cancel| legacy.fetch(sku, cancel)).await }      // a caller on a loop
        })?.wait()??;
        let called = prices.call()                                                          // what differs per call
            .timeout(Duration::from_millis(80)).criticality(High).cache_key(sku)
            .fallback(move |_why| Ok(last_seen(sku)))
            .run(move |cancel| legacy.fetch(sku + 1, cancel))?;

        prices.configure(|c| c.pool.core = 20)?;                                            // live, atomic, validated
        Ok(format!("{price:?} {queued:?} {called:?}; {}", prices.snapshot()))               // a readable line; fields are public
    }

    pub(super) async fn admission(prices: &Command<Price, NoSuchArticle>, upstream: Upstream) -> tidegate::Result<String> {
        let entry = prices.admit()?;                 // permit, breaker ticket, deadline; or why not, and when to come back
        let response = upstream.send("/price").await;
        entry.verdict(response.is_ok());             // feeds breaker, latency and adaptive limit
        Ok(response?.body().await)
        // the permit goes back when `entry` is dropped: after the last byte of the body
    }

    pub(super) fn time_in_a_test(counted: &Arc<AtomicU32>) -> tidegate::Result<()> {
        let count = { let counted = Arc::clone(counted); move || counted.fetch_add(1, Ordering::Relaxed) };
        let clock = ManualClock::new();
        let home = EventLoop::builder("home").clock(&clock).build()?;
        let _tick = home.schedule_at_fixed_rate(Duration::ZERO, Duration::from_secs(60), move || { count(); })?;
        clock.advance(Duration::from_secs(3600));
        home.settle();                       // everything that is due has run
        assert_eq!(counted.load(Ordering::Relaxed), 61);
        Ok(())
    }
}

/// Returns a listener that sends the line that `show` makes of an outcome.
fn say<T: 'static>(
    message: &Sender<String>,
    show: impl Fn(Outcome<&T, &Failure>) -> String + Send + 'static,
) -> impl FnOnce(Outcome<&T, &Failure>) + Send + 'static {
    let message = message.clone();
    move |outcome| message.send(show(outcome)).unwrap()
}

#[test]
fn a_promise() {
    let (say, message) = channel();
    programs::a_promise(Duration::ZERO, say).unwrap();
    let mut lines: Vec<String> = message.iter().collect();
    lines.sort();
    assert_eq!(lines, ["and here it is: 123456", "finished: 123456"]);
}

/// Sends one line, and returns as many bytes of the answer.
fn ask(address: SocketAddr, line: &str) -> std::io::Result<String> {
    let mut client = TcpStream::connect(address)?;
    writeln!(client, "{line}")?;
    let mut answer = vec![0; line.len()];
    client.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Runs a server, asks it for one line and drains it.
fn serve(program: fn(Sender<Server>) -> tidegate::Result<()>) {
    let (bind, bound): (_, Receiver<Server>) = channel();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || program(bind));
        let handle = bound.recv().unwrap();
        assert_eq!(ask(handle.local_addr(), "hello").unwrap(), "HELLO");
        let report = handle.drain(Duration::from_secs(60)).wait().unwrap();
        assert!(report.closed_at_deadline.is_empty());
        server.join().unwrap().unwrap();
    });
}

#[test]
fn a_server_in_the_pinned_shape() {
    serve(programs::pinned_server);
}

#[test]
fn the_same_server_with_handlers_that_may_block() {
    serve(programs::roaming_server);
}

#[derive(Debug, Clone, PartialEq)]
struct Price(u32);

impl Price {
    fn unknown() -> Price {
        Price(0)
    }
}

/// A dependency that knows one article.
#[derive(Clone, Copy)]
struct Legacy(u32);

impl Legacy {
    fn fetch(self, sku: u32, _cancel: &CancelToken) -> Result<Price, NoSuchArticle> {
        (sku == self.0).then_some(Price(700)).ok_or(NoSuchArticle)
    }
}

#[derive(Debug, Clone)]
struct NoSuchArticle;

impl std::fmt::Display for NoSuchArticle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no such article")
    }
}

impl std::error::Error for NoSuchArticle {}

fn last_seen(_sku: u32) -> Price {
    Price(650)
}

#[test]
fn a_dependency_behind_a_bulkhead() {
    let request = RequestContext::new(); // the request that the cache belongs to
    let _entered = request.enter();
    let shown = programs::bulkhead(Legacy(7), 7, &ManualClock::new()).unwrap();
    assert!(
        shown.starts_with("Price(700) Price(700) Price(650); "),
        "{shown}"
    );
    assert!(shown.contains("prices"), "{shown}");
}

/// A service that completes on the loop of its caller.
struct Upstream(Command<Price, NoSuchArticle>);

struct Response(Command<Price, NoSuchArticle>);

impl Upstream {
    async fn send(self, path: &str) -> Result<Response, NoSuchArticle> {
        match path {
            "/price" => Ok(Response(self.0)),
            _ => Err(NoSuchArticle),
        }
    }
}

impl Response {
    async fn body(self) -> String {
        let held = self.0.snapshot().active;
        format!("700, with {held} permit")
    }
}

#[test]
fn a_dependency_without_a_closure() {
    let isolation = Isolation::builder().build().unwrap();
    let prices = Command::builder("prices").group("catalog");
    let prices = prices.build(&isolation).unwrap();
    let upstream = Upstream(prices.clone());
    let admitted = prices.clone();
    let body = EventLoop::global().spawn(async move {
        let body = programs::admission(&admitted, upstream).await;
        body.map_err(|why| why.to_string())
    });
    assert_eq!(
        body.unwrap().wait().unwrap(),
        Ok("700, with 1 permit".into())
    );
    let snapshot = prices.snapshot();
    assert_eq!((snapshot.active, snapshot.latencies.total.count()), (0, 1));
}

#[test]
fn time_in_a_test() {
    programs::time_in_a_test(&Arc::default()).unwrap();
}
