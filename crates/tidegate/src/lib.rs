//! A runtime for services that must not fall over.
//!
//! Tidegate combines what three separate systems do on the JVM: Netty's event loops, promises,
//! timers and channels; Jetty's execution strategies, which decide which thread runs a task; and
//! Hystrix's isolation, which gives every dependency its own bounded resource.
//!
//! This crate is the one to depend on. It lists the names that programs use; the crates behind it
//! hold the code. Most programs start with the [`prelude`].
//!
//! ```
//! use tidegate::prelude::*;
//!
//! fn main() -> tidegate::Result<()> {
//!     let home = EventLoop::builder("home").build()?;
//!
//!     let (promise, answer) = home.promise::<u32>(); // listeners run on `home`
//!     answer.on_complete(|outcome| match outcome {
//!         Outcome::Success(n) => println!("finished: {n}"),
//!         Outcome::Failure(cause) => println!("failed: {cause}"),
//!         Outcome::Cancelled => println!("cancelled"),
//!     });
//!     home.schedule(Duration::from_millis(5), move || promise.succeed(123_456))?;
//!
//!     println!("and here it is: {}", answer.wait()?); // an error value on a loop thread
//!     home.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
//!     Ok(())
//! }
//! ```
//!
//! # Where to find what
//!
//! | module | content | feature | guide |
//! |---|---|---|---|
//! | [`promise`](mod@promise) | values that arrive later | | [promises] |
//! | [`pool`] | threads for work that may block | | [pools] |
#![cfg_attr(
    feature = "timer",
    doc = "| [`timer`] | a timer wheel for programs without event loops | `timer` | [timers] |"
)]
#![cfg_attr(
    feature = "loops",
    doc = "| [`loops`] | event loops, groups, schedules, shutdown | `loops` | [loops][g-loops] |"
)]
#![cfg_attr(
    feature = "signal",
    doc = "| [`signal`] | signals of the operating system as completions | `signal` | [shutdown] |"
)]
#![cfg_attr(
    feature = "strategy",
    doc = "| [`strategy`] | which thread runs a task that was produced | `strategy` | [pools] |"
)]
#![cfg_attr(
    feature = "net",
    doc = "| [`net`] | servers, clients, channels and their handlers | `net` | [channels] |"
)]
#![cfg_attr(
    feature = "tls",
    doc = "| [`tls`] | encryption for channels, by rustls | `tls` | [channels] |"
)]
#![cfg_attr(
    feature = "isolate",
    doc = "| [`isolate`] | a bulkhead for every dependency | `isolate` | [isolation] |"
)]
#![cfg_attr(
    feature = "http",
    doc = "| [`http`](mod@http) | HTTP/1.1: a server on event loops, and its codec | `http` | [HTTP] |"
)]
#![cfg_attr(
    feature = "hyper",
    doc = "| [`hyper`](mod@hyper) | HTTP servers for hyper, axum and tonic on event loops | `hyper` | [HTTP] |"
)]
#![cfg_attr(
    feature = "tower",
    doc = "| [`tower`] | commands as layers, for axum, tonic, hyper and reqwest | `tower` | [tower stacks] |"
)]
#![cfg_attr(
    feature = "metrics",
    doc = "| [`metrics`] | export to Prometheus and the Hystrix dashboard | `metrics` | [metrics][g-metrics] |"
)]
//!
//! The [guide] has pages by task and one page for each part, and a table for readers who know Netty,
//! Jetty, Hystrix or tokio. The [examples] are complete programs; each of them runs with
//! `cargo run -p tidegate-examples --example NAME`.
//!
//! A method may return a type that is not listed here, for example a builder, a report or a
//! snapshot. Its documentation is in the crate that the signature links to.
//!
//! The examples on the pages of single items name the crate that holds the item. A program writes
//! the module of this crate instead: `tidegate_net::Server` is `tidegate::net::Server`, and
//! `tidegate_core::Clock` is `tidegate::Clock`.
//!
//! # Features
//!
//! The first eighteen are on by default.
//!
//! * `loops`: event loops, module `loops`, with `block_on`, `sleep` and `timeout`.
//! * `macros`: the attributes `main` and `test`. Turns `loops` on.
//! * `signal`: signals, module `signal`, and `Server::drain_on`. Turns `loops` on.
//! * `watchdog`: reports of event loops that are stuck, `loops::Watchdog`. Turns `loops` on.
//! * `ordered`: `pool::OrderedView` and `pool::ImmediateExecutor`. `timer`: module `timer`.
//! * `roaming`: event loops that move between the threads of a pool. Turns `strategy` on, too.
//! * `strategy`: execution strategies, module `strategy`.
//! * `net`: the network, module `net`. Turns `loops` on.
//! * `embedded`: a channel without a socket, for tests: `net::EmbeddedChannel`. Turns `net` on.
//! * `handlers`: ready-made handlers for channels, module `net::handlers`. Turns `net` on.
//! * `streams`: channels as byte streams for futures, such as `net::ByteStream`. Turns `net` on.
//! * `tls`: encryption, module `tls`. Turns `net` on. It builds rustls and needs a C compiler.
//! * `isolate`: isolation of dependencies, module `isolate`.
//! * `wrappers`: retries, hedges, rate limits and batches, as `isolate::Retry`. Turns `isolate` on.
//! * `tracing`: events and spans for a subscriber of the crate `tracing`: [details][g-metrics].
//! * `backtrace`: the stack of a stuck thread in the reports of a `Watchdog`, on Linux.
//! * `tower`: commands as layers of tower, module `tower`. Turns `wrappers` on.
//! * `metrics`: export of metrics to Prometheus, module `metrics`. Turns `isolate` on.
//! * `http`: an HTTP/1.1 server and its codec, module `http`. Turns `net` on.
//! * `http-async`: `http::serve_async`, with the types of the crate `http`. Turns `http` on.
//! * `hyper`: HTTP servers on event loops, module `hyper`. Turns `net` on. It builds hyper.
//!
//! A program that wants the isolation alone compiles neither event loops nor the network nor TLS:
//!
//! ```toml
//! tidegate = { path = "…", default-features = false, features = ["isolate"] }
//! ```
//!
//! [guide]: ../../../docs/guide/README.md
//! [promises]: ../../../docs/guide/promises.md
//! [g-loops]: ../../../docs/guide/loops.md
//! [shutdown]: ../../../docs/guide/shutdown.md
//! [timers]: ../../../docs/guide/timers.md
//! [pools]: ../../../docs/guide/pools.md
//! [channels]: ../../../docs/guide/channels.md
//! [isolation]: ../../../docs/guide/isolation.md
//! [tower stacks]: ../../../docs/guide/tower.md
//! [g-metrics]: ../../../docs/guide/metrics.md
//! [HTTP]: ../../../docs/guide/http.md
//! [examples]: ../../../examples/README.md
#![forbid(unsafe_code)]

mod error;
pub mod prelude;

pub use self::error::Error;
#[doc(inline)]
pub use tidegate_core::executor::{ExecutorId, Signal};
#[doc(inline)]
pub use tidegate_core::{
    Blocking, CancelToken, Clock, Dump, Executor, ManualClock, OnUnhandled, RejectReason, Rejected,
    Task, ThreadBuilder, Ticker, Unhandled,
};
#[cfg(feature = "loops")]
#[doc(inline)]
pub use tidegate_loop::{sleep, timeout};

#[cfg(all(feature = "loops", not(feature = "net")))]
#[doc(inline)]
pub use tidegate_loop::block_on;
#[cfg(feature = "net")]
#[doc(inline)]
pub use tidegate_net::block_on;

/// Runs an `async fn main` on an event loop.
///
/// ```
/// #[tidegate::main]
/// async fn main() -> tidegate::Result<()> {
///     tidegate::sleep(std::time::Duration::from_millis(1)).await?;
///     Ok(())
/// }
/// ```
#[cfg(feature = "macros")]
#[doc(inline)]
pub use tidegate_macros::main;
/// Runs a test that is an `async fn` on an event loop.
///
/// ```
/// #[tidegate::test]
/// async fn sleeps() -> tidegate::Result<()> {
///     tidegate::sleep(std::time::Duration::from_millis(1)).await?;
///     Ok(())
/// }
/// ```
#[cfg(feature = "macros")]
#[doc(inline)]
pub use tidegate_macros::test;

/// The return type of a program's `main`. Accepts any error and prints it as a sentence.
pub type Result<T> = std::result::Result<T, Error>;

/// Promises and completions: values that arrive later.
///
/// ```
/// let (promise, answer) = tidegate::promise::promise::<u32>();
/// promise.succeed(7)?;
/// assert_eq!(answer.wait()?, 7);
/// # tidegate::Result::Ok(())
/// ```
pub mod promise {
    #[doc(inline)]
    pub use tidegate_promise::{
        AbandonedError, CancelOnDrop, Completion, Failure, Outcome, Promise, SharedCompletion,
        SharedPromise, WaitError, progress::ProgressPromise, promise, promise_on,
        promise_with_error,
    };
}

/// Event loops, groups of them, schedules and shutdown.
///
/// ```
/// use tidegate::loops::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// assert_eq!(home.submit(|| 20 + 22)?.wait()?, 42);
/// # tidegate::Result::Ok(())
/// ```
#[cfg(feature = "loops")]
pub mod loops {
    #[cfg(feature = "roaming")]
    #[doc(inline)]
    pub use tidegate_loop::RoamingConfig;
    #[cfg(feature = "watchdog")]
    #[doc(inline)]
    pub use tidegate_loop::Watchdog;
    #[doc(inline)]
    pub use tidegate_loop::{
        Choose, CoarseTimer, EventLoop, EventLoopGroup, Lifecycle, ManualLoop, Missed, Pinned,
        Placement, Quiet, RejectPolicy, Roaming, Scaling, ShutdownError, ShutdownReport,
        TurnBudget,
    };
}

/// Signals of the operating system as completions, for threads, futures and listeners.
///
/// The first call for a signal registers it for the process: the default action, which ends the
/// process, does not happen any more. A signal that arrives after the call is remembered, even if
/// no code waits yet. `Server::drain_on` takes such a completion.
///
/// ```no_run
/// use tidegate::signal;
///
/// let first = signal::interrupt().wait()?;
/// println!("{first}; again to stop at once");
/// first.next().wait()?;
/// # tidegate::Result::Ok(())
/// ```
#[cfg(feature = "signal")]
pub mod signal {
    #[cfg(unix)]
    #[doc(inline)]
    pub use tidegate_loop::signal::{hangup, user1};
    #[doc(inline)]
    pub use tidegate_loop::signal::{interrupt, terminate};
}

/// A timer wheel with a thread of its own, for programs without event loops.
///
/// An event loop has timers of its own: `EventLoop::schedule` and the methods beside it.
///
/// ```
/// use std::time::Duration;
/// use tidegate::timer::WheelTimer;
///
/// let timer = WheelTimer::new();
/// let idle = timer.schedule(Duration::from_secs(30), || println!("idle for 30 seconds"))?;
/// assert!(idle.reset(Duration::from_secs(30))); // something happened
/// assert!(idle.cancel());
/// # tidegate::Result::Ok(())
/// ```
#[cfg(feature = "timer")]
pub mod timer {
    #[doc(inline)]
    pub use tidegate_timer::{TimerHandle, TimerTask, WheelTimer};
}

/// Threads for work that may block, and executors that use them.
///
/// ```
/// use tidegate::pool::WorkerPool;
///
/// let workers = WorkerPool::builder("workers").core(2).max(8).queue(100).build()?;
/// assert_eq!(workers.submit(|| 6 * 7)?.wait()?, 42);
/// # tidegate::Result::Ok(())
/// ```
pub mod pool {
    #[doc(inline)]
    pub use tidegate_pool::queue;
    #[doc(inline)]
    pub use tidegate_pool::{
        DisplacedError, Growth, JobHandle, Lease, NotStartedError, PoolError, PoolLimits,
        PoolPolicy, TryExecutor, WorkerPool,
    };
    #[cfg(feature = "ordered")]
    #[doc(inline)]
    pub use tidegate_pool::{ImmediateExecutor, OrderedView};
}

/// Execution strategies: which thread runs a task that was produced, and which one produces next.
///
/// [`Adaptive`](strategy::Adaptive) is the one to start with. Roaming event loops use it.
#[cfg(feature = "strategy")]
pub mod strategy {
    #[doc(inline)]
    pub use tidegate_pool::strategy::{
        Adaptive, EatWhatYouKill, ExecuteProduceConsume, Monitor, ProduceConsume,
        ProduceExecuteConsume, Producer, Strategy,
    };
}

/// Servers, clients, channels and the handlers of their pipelines.
///
/// [`pinned`](net::pinned) and `roaming` create a group of event loops with I/O;
/// [`Server`](net::Server) and [`Client`](net::Client) use it. Handlers implement
/// [`Inbound`](net::Inbound), [`Outbound`](net::Outbound) or both. An
/// `EmbeddedChannel` (feature `embedded`) tests them without a socket:
///
/// ```
/// use tidegate::net::handlers::LineFrames;
/// use tidegate::net::{Bytes, EmbeddedChannel};
///
/// let mut channel = EmbeddedChannel::new(|p| p.add("lines", LineFrames::max(80)))?;
/// channel.receive("one\ntwo\n");
/// assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "one");
/// # tidegate::Result::Ok(())
/// ```
///
/// A [`FileRange`](net::FileRange) is a message: a part of a file that is not read into memory.
#[cfg(feature = "net")]
pub mod net {
    #[cfg(feature = "embedded")]
    #[doc(inline)]
    pub use tidegate_net::EmbeddedChannel;
    #[cfg(feature = "roaming")]
    #[doc(inline)]
    pub use tidegate_net::roaming;
    #[doc(inline)]
    pub use tidegate_net::{
        AnyMessage, Bytes, Channel, ChannelOptions, ChannelPlacement, Client, ClientBuilder,
        Datagram, DrainAnnounced, Draining, FileRange, Handler, HandlerContext, Inbound,
        InboundContext, InputShutdown, Listener, Message, NetError, NetGroup, Nothing, Outbound,
        OutboundContext, PipelineBuilder, PipelineChange, ReadSize, Server, ServerBuilder,
        UserEvent, WaterMarks, pinned,
    };
    #[cfg(feature = "streams")]
    #[doc(inline)]
    pub use tidegate_net::{
        AnyThread, ByteStream, LocalStream, LocalStreamHandler, OwnLoop, StreamHandler, StreamKind,
    };

    /// Sources of one's own on an event loop with I/O, and updates of its selector.
    ///
    /// [`NetGroup::next_reactor`](super::net::NetGroup::next_reactor) returns a
    /// [`ReactorHandle`](source::ReactorHandle), which registers them.
    pub mod source {
        #[doc(inline)]
        pub use tidegate_net::source::{
            EventSource, Interest, ReactorHandle, SourceContext, SourceHandle,
        };
    }

    /// Ready-made handlers: framing, text, idle limits, logging, traffic.
    #[cfg(feature = "handlers")]
    pub mod handlers {
        #[doc(inline)]
        pub use tidegate_net::handlers::{
            DelimiterFrames, FixedFrames, FlowControl, FlushConsolidation, Idle, IdleEvent,
            LengthField, LengthFrames, LengthPrefix, LineFrames, Logging, MessageLimit,
            ProxiedPeer, ProxyProtocol, Rate, Strings, TrafficShaping, WriteTimeout,
        };
    }
}

/// Encryption for channels, by rustls.
///
/// A [`TlsServer`](tls::TlsServer) or [`TlsClient`](tls::TlsClient) is created once, and makes a
/// handler for each connection. The handler stands at the head of the pipeline. This is the only
/// module with types of [`rustls`](tls::rustls).
#[cfg(feature = "tls")]
pub mod tls {
    pub use tidegate_net::tls::rustls;
    #[doc(inline)]
    pub use tidegate_net::tls::{TlsClient, TlsError, TlsHandshake, TlsServer};
}

/// Isolation: every dependency behind its own bulkhead, timeout, breaker and fallback.
///
/// `prices.run(|_cancel| Ok(42))` calls a command. A [`Call`](isolate::Call) is one call with options of its own. A function that sets options or
/// makes the call names this type, for example the attempt of a wrapper:
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tidegate::isolate::{Call, Command, CommandError, Isolation, Retry};
///
/// fn attempt(call: Call<u32, io::Error>) -> Result<u32, CommandError<io::Error>> {
///     call.timeout(Duration::from_millis(80)).run(|_cancel| Ok(42))
/// }
///
/// let isolation = Isolation::builder().build()?;
/// let prices = Command::builder("prices").group("catalog").build(&isolation)?;
/// assert_eq!(Retry::attempts(3).run(prices.call(), attempt)?, 42);
/// # tidegate::Result::Ok(())
/// ```
///
/// A handler makes the attempts of a call itself, and keeps them in `Attempts` (feature `wrappers`).
/// A call that waits for a permit is a [`PendingEntry`](isolate::PendingEntry); dropping it leaves
/// the queue.
#[cfg(feature = "isolate")]
pub mod isolate {
    #[doc(inline)]
    pub use tidegate_isolate::{
        AdaptiveLimit, BreakerConfig, BreakerMode, BreakerState, BreakerWindow, Call, CallHandle,
        CallStage, Cause, CircuitBreaker, Command, CommandError, ConcurrencyStrategy, ConfigError,
        Criticality, Entry, Event, EventSet, FallbackError, Interrupt, Isolation, Key,
        LimitAlgorithm, Partitions, PendingEntry, PermitConfig, PoolConfig, Properties,
        PropertySource, QueueDiscipline, RateConfig, Rejection, RequestContext, RequestVariable,
        SampleWindow, Verdict, WindowConfig,
    };
    #[cfg(feature = "wrappers")]
    #[doc(inline)]
    pub use tidegate_isolate::{
        Attempts, Collapser, CollapserConfig, CollapserScope, Hedge, RateLimit, Retry, RetryBudget,
    };
}

/// Commands as layers of tower: isolation for axum, tonic, hyper and reqwest.
///
/// [`CommandExt`](tower::CommandExt) gives commands their layers; other names are for struct fields.
///
/// ```
/// use tidegate::isolate::{Command, Isolation};
/// use tidegate::tower::CommandExt;
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command = Command::builder("prices").group("catalog").build(&isolation)?;
/// let client_side = prices.layer(); // a rejection is an error
/// let server_side = prices.layer().respond(); // a rejection is a response
/// # drop((client_side, server_side));
/// # tidegate::Result::Ok(())
/// ```
#[cfg(feature = "tower")]
pub mod tower {
    #[doc(inline)]
    pub use tidegate_tower::{CommandBody, CommandExt, CommandService, PlainService, RetryService};
}

/// Metrics for Prometheus and for the Hystrix dashboard.
///
/// ```
/// use tidegate::metrics::Exporter;
/// use tidegate::pool::WorkerPool;
///
/// let exporter = Exporter::new();
/// exporter.add(WorkerPool::builder("workers").max(8).build()?);
/// println!("{}", exporter.encode()); // the body of `GET /metrics`
/// # tidegate::Result::Ok(())
/// ```
#[cfg(feature = "metrics")]
pub mod metrics {
    #[doc(inline)]
    pub use tidegate_metrics::{Collect, Exporter, HystrixStream, Metric, MetricVisitor};
}

/// HTTP/1.1: a server on event loops, and its codec.
///
/// [`serve`](http::serve) starts a server from a closure, [`HttpServer::builder`] from a type that
/// implements [`Service`](http::Service), with [`Limits`](http::Limits).
///
/// ```
/// use std::time::Duration;
/// use tidegate::http::{self, Method};
///
/// let group = tidegate::net::pinned("web", 2)?;
/// let server = http::serve(&group, "127.0.0.1:0", |request, response| {
///     match (request.method(), request.path()) {
///         (Method::Get, "/") => response.field("Content-Type", "text/plain").body("hello\n"),
///         (_, "/") => response.status(405).field("Allow", "GET").body(""),
///         _ => response.status(404).body("not here\n"),
///     }
/// })
/// .wait()?;
/// println!("http://{}/", server.local_addr());
/// server.drain(Duration::from_secs(10)).wait()?;
/// # tidegate::Result::Ok(())
/// ```
///
/// A response can come later, from any thread. This service reads a body and does its work on a pool:
///
/// ```
/// use tidegate::http::{HttpServer, Limits};
/// use tidegate::pool::WorkerPool;
/// use tidegate::promise::Outcome;
///
/// let group = tidegate::net::pinned("web", 1)?;
/// let workers = WorkerPool::builder("workers").max(8).build()?;
/// let server = HttpServer::builder(&group)
///     .limits(Limits::default().max_body(1 << 20))
///     .serve("127.0.0.1:0", move |request, response| {
///         let (response, workers) = (response.defer(), workers.clone());
///         request.collect(64 * 1024).finally(move |body| match body {
///             Outcome::Success(body) => {
///                 let body = body.clone();
///                 let work = move || response.body(body.to_ascii_uppercase());
///                 // If the pool refuses the work, it drops the response: status 500.
///                 let _ = workers.submit(work);
///             }
///             // Larger than 64 KiB, or not read to its end.
///             _ => response.status(413).body(""),
///         });
///     })
///     .wait()?;
/// # server.drain(std::time::Duration::from_secs(1)).wait()?;
/// # tidegate::Result::Ok(())
/// ```
///
/// [`HttpServer::builder`]: http::HttpServer::builder
#[cfg(feature = "http")]
pub mod http {
    #[doc(inline)]
    pub use tidegate_http::{
        Body, BodyError, DeferredResponse, FileRange, Files, HttpMetrics, HttpServer,
        HttpServerBuilder, Limits, Method, Request, Response, ResponseStream, Router, Service,
        Switch, serve,
    };

    #[cfg(feature = "http-async")]
    #[doc(inline)]
    pub use tidegate_http::serve_async;

    /// The client: calls, and connections that are kept for the next call.
    ///
    /// ```
    /// use tidegate::http::client::Client;
    ///
    /// let group = tidegate::net::pinned("io", 1)?;
    /// let server = tidegate::http::serve(&group, "127.0.0.1:0", |_, response| response.body("hi"));
    /// let server = server.wait()?;
    /// let client = Client::builder(&group).build();
    /// let response = client.get(format!("http://{}/", server.local_addr())).send().wait()?;
    /// assert_eq!(response.collect(1024).wait()?, "hi");
    /// # tidegate::Result::Ok(())
    /// ```
    pub mod client {
        #[doc(inline)]
        pub use tidegate_http::client::{
            Client, ClientError, Exchange, ExchangeHandler, Flow, PendingExchange, Phase,
            RequestBody, RequestBuilder, Response, ResponseBody, Side, Upgraded, Upstream,
        };
    }

    /// The codec: reads and writes messages, and does no I/O.
    ///
    /// ```
    /// use tidegate::http::Method;
    /// use tidegate::http::codec::{BodyLimits, HeadLimits, HeadTable, RefusalReason, RequestDecoder};
    ///
    /// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::default());
    /// let mut table = HeadTable::new();
    /// let head = decoder.head(b"GET /a?b=c HTTP/1.1\r\nHost: d\r\n\r\n", &mut table)?;
    /// let head = head.expect("it is complete");
    /// assert_eq!((head.method(), head.path(), head.query()), (Method::Get, "/a", Some("b=c")));
    ///
    /// let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::default());
    /// let refused = decoder.head(b"GET / HTTP/1.1\nHost: d\n\n", &mut table).unwrap_err();
    /// assert_eq!(refused.status(), 400);
    /// # Ok::<(), RefusalReason>(())
    /// ```
    pub mod codec {
        #[doc(inline)]
        pub use tidegate_http::codec::{
            BodyEncoder, BodyEvent, BodyFraming, BodyLimits, EncodeError, Field, FieldLines,
            Fields, HeadLimits, HeadTable, HttpDate, KnownField, OwnedRequestHead, RefusalReason,
            RequestDecoder, RequestHead, ResponseDecoder, ResponseHead, TargetForm, Trailers,
            Version, encode,
        };
    }
}

/// HTTP/1 and HTTP/2 servers on event loops: hyper, `axum::Router` and services of tonic, without
/// tokio's runtime.
///
/// [`serve`](hyper::serve) runs a service of tower. [`Http`](hyper::Http) has the settings, and also
/// serves services of hyper. The other names implement hyper's traits, for connections that a program
/// drives itself.
///
/// ```
/// use std::time::Duration;
/// use tidegate::hyper::Http;
///
/// let http = Http::new().head_timeout(Duration::from_secs(5));
/// # drop(http);
/// ```
#[cfg(feature = "hyper")]
pub mod hyper {
    #[doc(inline)]
    pub use tidegate_hyper::{Http, LoopExecutor, LoopIo, LoopTimer, serve};
}

#[cfg(doctest)]
mod doc_tests;
