//! The default event loop of the process.
//!
//! Its thread starts with the first task and is given back after a while without work; later work
//! starts another one. It cannot be shut down, since it has no owner. While it is idle it holds no
//! thread, so there is nothing to shut down either.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::{Clock, ThreadBuilder};
use tidegate_pool::ShutdownError;

use crate::handle::event_loop::EventLoop;

/// The state behind [`EventLoop::global`].
static GLOBAL: Mutex<Global> = Mutex::new(Global {
    own: None,
    stand_ins: Vec::new(),
});

struct Global {
    own: Option<EventLoop>,
    /// Loops that tests have put in its place, the newest last.
    stand_ins: Vec<(u64, EventLoop)>,
}

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
        let mut global = lock(&GLOBAL);
        if let Some((_, stand_in)) = global.stand_ins.last() {
            return stand_in.clone();
        }
        let quiet = || quiet_seconds(std::env::var(Self::GLOBAL_QUIET_VARIABLE).ok().as_deref());
        global
            .own
            .get_or_insert_with(|| never_ends(Clock::system(), quiet()))
            .clone()
    }

    /// Makes [`EventLoop::global`] return `stand_in`, on every thread, until the guard is dropped.
    /// Handles that it returned before are not changed. For tests that observe or delay the work
    /// that other code gives to the global event loop.
    pub fn replace_global(stand_in: &Self) -> GlobalGuard {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let ticket = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&GLOBAL).stand_ins.push((ticket, stand_in.clone()));
        GlobalGuard { ticket }
    }
}

/// Keeps a stand-in for [`EventLoop::global`]; dropping it removes that stand-in.
///
/// Guards may be dropped in any order. [`EventLoop::global`] returns the stand-in of the newest
/// live guard, and the real global event loop if there is no guard.
///
/// ```
/// use tidegate_loop::EventLoop;
///
/// let mine = EventLoop::builder("mine").build()?;
/// let guard = EventLoop::replace_global(&mine);
/// assert_eq!(EventLoop::global(), mine);
/// drop(guard);
/// assert_ne!(EventLoop::global(), mine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping the guard puts the global loop back"]
pub struct GlobalGuard {
    ticket: u64,
}

impl Drop for GlobalGuard {
    fn drop(&mut self) {
        let mut global = lock(&GLOBAL);
        let at = global
            .stand_ins
            .iter()
            .position(|(ticket, _)| *ticket == self.ticket);
        let stand_in = at.map(|at| global.stand_ins.remove(at));
        drop(global);
        // Dropped outside the lock: it may be the last handle of the event loop.
        drop(stand_in);
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
