//! Event loops, groups, scheduling and shutdown.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! An [`EventLoop`] is one thread that runs tasks one at a time, in order. The number of tasks that
//! may wait is bounded. An event loop accepts closures, futures and scheduled tasks, and runs the
//! listeners of its promises. It shuts down gracefully and reports the tasks that it did not run.
//! An [`EventLoopGroup`] is several event loops and a policy that chooses one of them for new work.
//! [`block_on`](block_on()) runs a future on the calling thread, which drives an event loop
//! meanwhile. [`signal`] has the signals of the operating system as completions.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_loop::{EventLoop, Quiet};
//!
//! let home = EventLoop::builder("home").build()?;
//! let sum = home.submit(|| 20 + 22)?;
//! assert_eq!(sum.wait()?, 42);
//! let report = home.shutdown(Quiet::none(Duration::from_secs(1))).wait()?;
//! println!("{report}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map of the crate
//!
//! | folder | content |
//! |---|---|
//! | `state` | what handles and the loop's thread share: life cycle, mailbox, counters |
//! | `submit` | how a task is accepted or refused |
//! | `schedule` | scheduled and periodic tasks, timeouts, `Sleep` |
//! | `spawn` | futures on a loop |
//! | `thread` | how a loop gets a thread and releases it; its thread-local state |
//! | `core` | what a loop owns, one turn of it, its budget and its sleep |
//! | `shutdown` | how a loop ends, and what happens at the deadline |
//! | `handle` | [`EventLoop`], its builder, [`block_on`](block_on()) |
//! | `group`, `roam` | groups, choosers, scaling; loops that a pool and a strategy drive |
//! | `dump`, `watchdog`, `global` | the state as a tree; reports of stuck loops; the default loop |
//! | `signal`, `sys` | signals of the operating system as completions |
//!
//! A panicking task never ends a loop. The thread-local state is borrowed only for a moment, never
//! while user code runs or is dropped. The dispatcher of signals runs no user code.
#![deny(unsafe_code)]
#![cfg_attr(
    not(feature = "roaming"),
    allow(
        dead_code,
        rustdoc::broken_intra_doc_links,
        reason = "one core serves both kinds of loops"
    )
)]

// Each folder is one concept. The files form these layers; a file uses only the layers below its
// own:
//
// 6. what a program holds: `handle/`, `roam/`, `group/`, `watchdog/`, `global/`,
//    `schedule/sleep.rs`, `dump/handle.rs`, and `signal/`, which uses no other layer but `sys/`
// 5. the turns of an event loop: `core/`, `shutdown/steps.rs`
// 4. the ways in which work reaches an event loop: `submit/execute.rs`,
//    `schedule/scheduled_task.rs`, `schedule/coarse_timer.rs`, `spawn/future.rs`, `spawn/root.rs`,
//    `shutdown/request.rs`, `dump/ask.rs`, `dump/describe.rs`; and the state that an event loop
//    keeps on its thread: `thread/local.rs`
// 3. the life cycle: `state/transitions.rs`, `state/wake.rs`, `thread/run.rs`, `thread/suspend.rs`,
//    `shutdown/deadline.rs`
// 2. the state that handles and the thread of an event loop share: `state/shared.rs`
// 1. the parts of the shared state, which own their data and do not use the event loop: the rest of
//    `state/`, `thread/slot.rs`, `shutdown/plan.rs`, `shutdown/hooks.rs`,
//    `shutdown/termination.rs`, `spawn/slots.rs`, `dump/requests.rs`, …

mod core;
mod dump;
mod errors;
mod global;
mod group;
mod handle;
#[cfg(feature = "roaming")]
mod roam;
mod schedule;
mod shutdown;
#[cfg(feature = "signal")]
pub mod signal;
mod spawn;
mod state;
mod submit;
#[cfg(feature = "signal")]
mod sys;
mod thread;
#[cfg(feature = "watchdog")]
mod watchdog;

pub use tidegate_pool::{HandedBack, Missed, PeriodError, Quiet, ShutdownError};

pub use self::core::budget::TurnBudget;
pub use self::errors::{BlockOnError, BuildError, NotOnLoop, ShutdownHookError};
pub use self::group::builder::EventLoopGroupBuilder;
pub use self::group::chooser::Choose;
pub use self::group::event_loop_group::EventLoopGroup;
pub use self::group::scaling::Scaling;
pub use self::handle::block_on::block_on;
pub use self::handle::builder::EventLoopBuilder;
pub use self::handle::event_loop::EventLoop;
pub use self::handle::manual::ManualLoop;
pub use self::handle::placement::{Pinned, Placement, Roaming};
#[cfg(feature = "roaming")]
pub use self::roam::config::RoamingConfig;
#[cfg(feature = "roaming")]
pub use self::roam::producer::LoopProducer;
pub use self::schedule::coarse_timer::CoarseTimer;
pub use self::schedule::sleep::{Sleep, SleepError, Timeout, TimeoutError, sleep, timeout};
pub use self::shutdown::report::ShutdownReport;
pub use self::state::lifecycle::Lifecycle;
pub use self::state::metrics::LoopMetrics;
pub use self::submit::reject::RejectPolicy;
pub use self::thread::presence::InactivityError;
#[cfg(feature = "watchdog")]
pub use self::watchdog::handle::{Watchdog, WatchdogBuilder};
#[cfg(feature = "watchdog")]
pub use self::watchdog::report::{Recovered, Stall, WatchdogError};

#[doc(hidden)]
pub mod internal {
    //! Items for the other crates of this workspace only. Unstable: they change without notice.

    pub use crate::core::driver::{Driver, ParkDriver};
    pub use crate::handle::block_on::check_block_on;
    pub use crate::handle::placement::sealed::Sealed;
    pub use crate::handle::timers::LoopScheduler;
    pub use crate::schedule::scheduled_task::TimerLink;
    pub use crate::state::health::Health;
    pub use crate::state::shared::DriverView;
}
