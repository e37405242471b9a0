//! The default event loop of the process.
//!
//! Its thread starts with the first task and is given back after a while without work; later work
//! starts another one. It cannot be shut down, since it has no owner. While it is idle it holds no
//! thread, so there is nothing to shut down either.

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Clock, ThreadBuilder};
use tidegate_pool::ShutdownError;

use crate::handle::event_loop::EventLoop;

/// The state behind [`EventLoop::global`].
static GLOBAL: Mutex<Option<EventLoop>> = Mutex::new(None);

impl EventLoop {
    /// The default number of seconds without work after which the global event loop gives its
    /// thread back.
    pub const DEFAULT_GLOBAL_QUIET_SECONDS: u64 = 1;
    /// The environment variable that overrides [`EventLoop::DEFAULT_GLOBAL_QUIET_SECONDS`]. It is
    /// read once, when the global event loop is built. If the value is not a positive integer, the
    /// default is used.
    pub const GLOBAL_QUIET_VARIABLE: &str = "TIDEGATE_GLOBAL_QUIET_SECONDS";

    /// Returns the default event loop of the process.
    ///
    /// Use it for an occasional task that has no event loop of its own. Do not use it for many
    /// timers, or for work that the program must see finished. Its thread ends after a while
    /// without work ([`EventLoop::GLOBAL_QUIET_VARIABLE`]). It cannot be shut down: a request fails
    /// with [`ShutdownError::Unsupported`], and dropping handles has no effect.
    ///
    /// ```
    /// use tidegate_loop::EventLoop;
    ///
    /// let answer = EventLoop::global().submit(|| 20 + 22)?;
    /// assert_eq!(answer.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn global() -> Self {
        let quiet = || quiet_seconds(std::env::var(Self::GLOBAL_QUIET_VARIABLE).ok().as_deref());
        lock(&GLOBAL)
            .get_or_insert_with(|| never_ends(Clock::system(), quiet()))
            .clone()
    }
}

/// Builds an event loop that gives its thread back after `quiet` seconds without work and cannot be
/// shut down.
pub(super) fn never_ends(clock: Clock, quiet: u64) -> EventLoop {
    let threads = ThreadBuilder::new("tidegate-global").detached();
    let mut builder = EventLoop::builder("global").clock(clock).threads(threads);
    builder.idle_stop = quiet.saturating_mul(1_000_000_000);
    let home = builder
        .build()
        .expect("the description of the global loop contradicts nothing");
    home.shared.plan.set_endless();
    // Complete the termination with the error now, so that every caller that asks for it gets this
    // error at once.
    home.shared
        .termination
        .report(Err(ShutdownError::Unsupported));
    home
}

pub(super) fn quiet_seconds(requested: Option<&str>) -> u64 {
    let requested = requested.and_then(|seconds| seconds.trim().parse().ok());
    requested
        .filter(|&seconds| seconds > 0)
        .unwrap_or(EventLoop::DEFAULT_GLOBAL_QUIET_SECONDS)
}
