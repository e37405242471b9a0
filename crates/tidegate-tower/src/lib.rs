//! Isolation in a tower stack: a command as a [`Layer`](tower_layer::Layer).
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html), with its feature
//! `tower`.
//!
//! [`CommandExt::layer`] puts an HTTP service behind the bulkhead, the breaker and the timeout of a
//! [`Command`](tidegate_isolate::Command). It works with every tower service whose responses are
//! [`http::Response`]s: the routers of axum and tonic, and the clients of hyper.
//! [`CommandExt::plain_layer`] does the same for services that do not speak HTTP.
//! [`CommandExt::retry_layer`] retries within a budget.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tidegate_isolate::{Command, Isolation};
//! use tidegate_tower::CommandExt;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tidegate_testkit::block_on("the doc test", async {
//! let isolation = Isolation::builder().build()?;
//! let prices: Command = Command::builder("prices").group("catalog").permits(1).build(&isolation)?;
//!
//! let upstream = service_fn(async |_: Request<()>| {
//!     Ok::<_, std::io::Error>(Response::new(Full::new(Bytes::from("42"))))
//! });
//! let client = ServiceBuilder::new().layer(prices.layer()).service(upstream);
//!
//! let response = client.clone().oneshot(Request::new(())).await?;
//! assert_eq!(prices.snapshot().active, 1, "until the last byte of the body");
//! let second = client.oneshot(Request::new(())).await.unwrap_err();
//! assert!(second.is_rejected());
//! assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "42");
//! assert_eq!(prices.snapshot().active, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # A call
//!
//! * `poll_ready` reserves nothing. It only asks the inner service. A call is admitted in `call`, so a
//!   service that is ready and never called holds no permit. The timeout, too, begins in `call`: an
//!   inner service that never becomes ready is pending without an end.
//! * If a call is rejected, the inner service is not called and stays ready. A layer that reserves
//!   something in `poll_ready`, such as tower's concurrency limit, belongs outside of the command.
//! * A call never waits for a permit, whatever `max_wait` of the command's permits says. Tower's
//!   concurrency limit outside of the command lets calls wait.
//! * A rejection is a [`CommandError`](tidegate_isolate::CommandError): its `cause` names the limit,
//!   and `retry_after` says when to try again, if that is known. [`CommandLayer::respond`] makes
//!   responses of rejections, for servers.
//! * A call is judged when the head of its response is there: the breaker, the latency and an adaptive
//!   limit do not depend on the reader of the body. The permit is held until the body has ended.
//!   [`CommandLayer::until_end`] judges at the end of the body, [`CommandLayer::until_head`] gives the
//!   permit back with the head. A gRPC response whose status is in its trailers is judged with them.
//! * The timeout of the command applies until the call is judged, and then to each wait for the next
//!   part of the body. The future and the body are woken by the timer of the isolation. Any runtime
//!   can poll them; none of the program's threads has to be a thread of Tidegate.
//! * The header `grpc-timeout` of a request shortens the timeout of its call. A
//!   [`Criticality`](tidegate_isolate::Criticality) and a
//!   [`RequestContext`](tidegate_isolate::RequestContext) in the extensions of the request apply to
//!   its call.
//! * A panic of the inner service in `call`, in its future or in its body is contained: the caller
//!   gets an error. The call counts as a failure, unless it was judged before. A panic in `poll_ready` is not contained; no
//!   call has been made then.
//! * The inner service is called and polled with blocking waits forbidden: see [`tidegate_core::Blocking::forbid`].
//!   A `Command::run` that would block a worker of the runtime is refused with
//!   [`Rejection::Waiting`](tidegate_isolate::Rejection::Waiting).
//!
//! # Map of the crate
//!
//! From the lowest to the highest: a module uses only modules that are listed before it.
//!
//! | module | what it is |
//! |---|---|
//! | `classify` | whether a result is a success or a failure of the dependency |
//! | `grpc` | the headers of gRPC |
//! | `held` | the call of a response whose body has not ended: its verdict, its permit |
//! | `running` | a call from its admission to the head of its response |
//! | `body` | the body that holds the permit |
//! | `http_service`, `plain_service` | the services for HTTP and for anything else, with their layers |
//! | `respond` | rejections as responses |
//! | `retry` | retries |
//! | `ext` | the methods that `Command` gets |
#![forbid(unsafe_code)]

mod body;
mod classify;
mod ext;
mod grpc;
mod held;
mod http_service;
mod plain_service;
mod respond;
mod retry;
mod running;

pub use self::body::CommandBody;
pub use self::classify::{ByResult, ByStatus, Classify};
pub use self::ext::CommandExt;
pub use self::http_service::{CommandFuture, CommandLayer, CommandService, Until};
pub use self::plain_service::{Plain, PlainLayer, PlainService};
pub use self::respond::{DefaultResponse, Respond, RespondFuture, RespondLayer, RespondService};
pub use self::retry::{RetryFuture, RetryLayer, RetryService};

/// An error of any type, as the libraries around tower use it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
