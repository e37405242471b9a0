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

// The folders are concepts; the files stand on each other in these layers, each of which knows only
// what is below it:
//
// 6. what a program holds: `handle/`, `roam/`, `group/`, `watchdog/`, `global/`, `schedule/sleep.rs`
// 5. the turns of a loop: `core/`, `shutdown/steps.rs`
// 4. what comes to a loop: `submit/execute.rs`, `schedule/scheduled_task.rs`, `schedule/timeout.rs`,
//    `spawn/future.rs`, `shutdown/request.rs`, and where its thread keeps it: `thread/local.rs`
// 3. its life: `state/transitions.rs`, `state/wake.rs`, `thread/run.rs`, `thread/suspend.rs`,
//    `shutdown/deadline.rs`
// 2. what its handles and its thread share: `state/shared.rs`
// 1. the parts of that, which own their data and know no loop: the rest of `state/`, `thread/slot.rs`,
//    `shutdown/plan.rs`, `shutdown/hooks.rs`, `shutdown/termination.rs`, `spawn/slots.rs`, …

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
    DEFAULT_GLOBAL_QUIET_SECONDS, GLOBAL_QUIET_VARIABLE, GlobalGuard,
};
pub use self::group::builder::{EventLoopGroupBuilder, MAX_LOOPS};
pub use self::group::chooser::Choose;
pub use self::group::event_loop_group::EventLoopGroup;
pub use self::group::scaling::Scaling;
pub use self::handle::builder::EventLoopBuilder;
pub use self::handle::by_hand::HandLoop;
pub use self::handle::event_loop::EventLoop;
pub use self::handle::placement::{Pinned, Placement, Roaming};
pub use self::handle::timers::LoopTimers;
pub use self::roam::crew::Crew;
pub use self::schedule::period::Missed;
pub use self::schedule::sleep::{Sleep, SleepError, TimedOut, WithTimeout, sleep, timeout};
pub use self::schedule::timeout::TimeoutHandle;
pub use self::schedule::timeouts::DEFAULT_TIMEOUT_TICK;
pub use self::shutdown::report::ShutdownReport;
pub use self::shutdown::termination::Terminated;
pub use self::state::health::{CONVALESCENCE, Health};
pub use self::state::lifecycle::Lifecycle;
pub use self::state::metrics::LoopMetrics;
pub use self::submit::reject::RejectPolicy;
pub use self::thread::presence::InactivityError;
pub use self::watchdog::handle::{DEFAULT_STALL_THRESHOLD, Watchdog, WatchdogBuilder};
pub use self::watchdog::report::{Recovered, Stall, WatchdogError};
