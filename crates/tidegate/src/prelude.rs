//! The types that most programs need.
//!
//! ```
//! use tidegate::prelude::*;
//!
//! let group = EventLoopGroup::builder("io").loops(2).build()?;
//! assert_eq!(group.submit(|| 6 * 7)?.wait()?, 42);
//! # tidegate::Result::Ok(())
//! ```

pub use std::time::Duration;

#[cfg(feature = "isolate")]
pub use crate::isolate::{
    BreakerConfig, BreakerMode, Command, CommandError, Isolation, PoolConfig,
};
#[cfg(feature = "roaming")]
pub use crate::loops::RoamingConfig;
#[cfg(feature = "loops")]
pub use crate::loops::{
    Choose, CoarseTimer, EventLoop, EventLoopGroup, Missed, Pinned, Quiet, RejectPolicy, Roaming,
};
#[cfg(feature = "net")]
pub use crate::net::{
    Bytes, Channel, Client, Inbound, InboundContext, Nothing, Outbound, OutboundContext, Server,
};
pub use crate::pool::WorkerPool;
pub use crate::promise::{
    Completion, Failure, Outcome, Promise, SharedCompletion, SharedPromise, WaitError,
};
#[cfg(feature = "strategy")]
pub use crate::strategy::{Adaptive, Monitor, ProduceConsume, Producer, Strategy};
#[cfg(feature = "tower")]
pub use crate::tower::CommandExt;
pub use crate::{
    Blocking, CancelToken, Clock, Executor, ManualClock, OnUnhandled, Rejected, Task, ThreadBuilder,
};
