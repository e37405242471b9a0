//! Event loops, groups, scheduling and shutdown.
//!
//! An [`EventLoop`] is one thread that runs tasks one at a time, in order, with a bound on how
//! many may wait. It takes closures, futures and schedules; its promises tell their listeners
//! on it; it ends gracefully and reports what it left. An [`EventLoopGroup`] is several of
//! them and a way to choose.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_loop::{EventLoop, Quiet};
//!
//! let home = EventLoop::builder("home").build()?;
//! let sum = home.submit(|| 20 + 22)?;
//! assert_eq!(sum.wait()?, 42);
//! let report = home.shutdown_gracefully(Quiet::none(Duration::from_secs(1))).wait()?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod as_executor;
mod builder;
mod chooser;
mod core;
mod driver;
mod errors;
mod event_loop;
mod global;
mod group;
mod health;
mod lifecycle;
mod local;
mod metrics;
mod patience;
mod placement;
mod reject;
mod roam;
mod run_task;
mod scale;
mod schedule;
mod shared;
mod spawn;
mod start;
mod timeout;
mod watchdog;
mod winding;

pub use tidegate_pool::{BOUND_VARIABLE, DEFAULT_BOUND, HandedBack, Quiet, ShutdownError};

pub use self::builder::{EventLoopBuilder, HandLoop};
pub use self::chooser::Choose;
pub use self::core::{DEFAULT_TURN_BUDGET, TurnBudget};
pub use self::driver::{Driver, ParkDriver};
pub use self::errors::{BadPeriod, BuildError, HookError, NotOnLoop};
pub use self::event_loop::EventLoop;
pub use self::global::{
    DEFAULT_GLOBAL_QUIET_SECONDS, GLOBAL_QUIET_VARIABLE, GlobalGuard, InactivityError,
};
pub use self::group::{EventLoopGroup, EventLoopGroupBuilder, MAX_LOOPS};
pub use self::health::{CONVALESCENCE, Health};
pub use self::lifecycle::{Lifecycle, ShutdownReport};
pub use self::metrics::LoopMetrics;
pub use self::placement::{Pinned, Placement, Roaming};
pub use self::reject::RejectPolicy;
pub use self::roam::{Crew, LoopTimers};
pub use self::scale::Scaling;
pub use self::schedule::Missed;
pub use self::shared::Terminated;
pub use self::timeout::{
    DEFAULT_TIMEOUT_TICK, Sleep, SleepError, TimedOut, TimeoutHandle, WithTimeout, sleep, timeout,
};
pub use self::watchdog::{
    DEFAULT_STALL_THRESHOLD, Recovered, Stall, Watchdog, WatchdogBuilder, WatchdogError,
};
