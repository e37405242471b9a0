//! A runtime for services that must not fall over.
//!
//! Tidegate combines what three separate systems do on the JVM: Netty's event loops, promises,
//! timers and channels; Jetty's execution strategies, which decide which thread runs a task; and
//! Hystrix's isolation, which gives every dependency its own bounded resource.
//!
//! This crate re-exports the others under one name. Most programs start with the [`prelude`].
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
#![forbid(unsafe_code)]

#[doc(inline)]
pub use tidegate_core as core;
#[doc(inline)]
pub use tidegate_isolate as isolate;
#[doc(inline)]
pub use tidegate_loop as loops;
pub use tidegate_loop::{sleep, timeout};
#[doc(inline)]
pub use tidegate_net as net;
#[doc(inline)]
pub use tidegate_pool as pool;
#[doc(inline)]
pub use tidegate_promise as promise;
#[doc(inline)]
pub use tidegate_timer as timer;

mod error;

pub use self::error::Error;

/// The return type of a program's `main`. Accepts any error and prints it as a sentence.
pub type Result<T> = std::result::Result<T, Error>;

/// The types that most programs need.
///
/// ```
/// use tidegate::prelude::*;
///
/// let group = EventLoopGroup::builder("io").loops(2).build()?;
/// assert_eq!(group.submit(|| 6 * 7)?.wait()?, 42);
/// # tidegate::Result::Ok(())
/// ```
pub mod prelude {
    pub use std::time::Duration;

    pub use tidegate_core::{
        Blocking, CancelToken, Clock, Executor, ManualClock, OnUnhandled, Rejected, Task,
        ThreadBuilder,
    };
    pub use tidegate_isolate::{BreakerConfig, Command, CommandError, Isolation, PoolConfig};
    pub use tidegate_loop::Quiet;
    pub use tidegate_loop::{
        Choose, CoarseTimer, EventLoop, EventLoopGroup, Missed, Pinned, RejectPolicy, Roaming,
        RoamingConfig,
    };
    pub use tidegate_net::{
        Bytes, Channel, Client, Inbound, InboundContext, Nothing, Outbound, OutboundContext, Server,
    };
    pub use tidegate_pool::WorkerPool;
    pub use tidegate_pool::strategy::{Adaptive, Monitor, ProduceConsume, Producer, Strategy};
    pub use tidegate_promise::{
        Completion, Failure, Outcome, Promise, SharedCompletion, SharedPromise, WaitError,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs of the guide, run as doc tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/promises.md")]
    struct Promises;
    #[doc = include_str!("../../../docs/guide/loops.md")]
    struct Loops;
    #[doc = include_str!("../../../docs/guide/timers.md")]
    struct Timers;
    #[doc = include_str!("../../../docs/guide/channels.md")]
    struct Channels;
    #[doc = include_str!("../../../docs/guide/pools.md")]
    struct Pools;
    #[doc = include_str!("../../../docs/guide/isolation.md")]
    struct Isolation;
}
