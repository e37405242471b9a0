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

mod core;
mod errors;
mod global;
mod group;
mod handle;
mod roam;
mod schedule;
mod shutdown;
mod spawn;
mod state;
mod submit;
mod thread;
mod watchdog;

pub use tidegate_pool::{BOUND_VARIABLE, DEFAULT_BOUND, HandedBack, Quiet, ShutdownError};

pub use self::core::budget::{DEFAULT_TURN_BUDGET, TurnBudget};
pub use self::core::driver::{Driver, ParkDriver};
pub use self::errors::{BadPeriod, BuildError, HookError, NotOnLoop};
pub use self::global::default_loop::{
    DEFAULT_GLOBAL_QUIET_SECONDS, GLOBAL_QUIET_VARIABLE, GlobalGuard, InactivityError,
};
pub use self::group::chooser::Choose;
pub use self::group::event_loop_group::{EventLoopGroup, EventLoopGroupBuilder, MAX_LOOPS};
pub use self::group::scaling::Scaling;
pub use self::handle::builder::{EventLoopBuilder, HandLoop};
pub use self::handle::event_loop::EventLoop;
pub use self::handle::placement::{Pinned, Placement, Roaming};
pub use self::roam::crew::{Crew, LoopTimers};
pub use self::schedule::scheduled_task::Missed;
pub use self::schedule::sleep::{Sleep, SleepError, TimedOut, WithTimeout, sleep, timeout};
pub use self::schedule::timeout::{DEFAULT_TIMEOUT_TICK, TimeoutHandle};
pub use self::state::health::{CONVALESCENCE, Health};
pub use self::state::lifecycle::{Lifecycle, ShutdownReport};
pub use self::state::metrics::LoopMetrics;
pub use self::state::shared::Terminated;
pub use self::submit::reject::RejectPolicy;
pub use self::watchdog::report::{Recovered, Stall, WatchdogError};
pub use self::watchdog::watching::{DEFAULT_STALL_THRESHOLD, Watchdog, WatchdogBuilder};
