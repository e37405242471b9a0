//! The default loop of the process: there when somebody asks, gone when nobody does.
//!
//! Its thread starts with the first task and is given back after a while without work; work that
//! comes later starts another. It cannot be shut down, since nobody owns it: it holds nothing
//! while it is idle, so there is nothing to shut down either.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{
    CancelToken, Clock, JoinPolicy, Parker, ThreadBuilder, WaitRefused, check_wait,
};
use tidegate_pool::ShutdownError;

use crate::handle::event_loop::EventLoop;
use crate::handle::placement::Placement;

/// Seconds without work after which the global loop gives its thread back, when nothing else is
/// said.
pub const DEFAULT_GLOBAL_QUIET_SECONDS: u64 = 1;
/// The environment variable that changes [`DEFAULT_GLOBAL_QUIET_SECONDS`]. Read once; what is
/// not a positive number counts as the default.
pub const GLOBAL_QUIET_VARIABLE: &str = "TIDEGATE_GLOBAL_QUIET_SECONDS";

/// What [`EventLoop::global`] answers.
static GLOBAL: Mutex<Global> = Mutex::new(Global {
    own: None,
    stand_ins: Vec::new(),
});

struct Global {
    own: Option<EventLoop>,
    /// Loops that a test has put in its place, the newest last.
    stand_ins: Vec<(u64, EventLoop)>,
}

impl EventLoop {
    /// The default loop of the process.
    ///
    /// For the odd task that has no loop of its own; not for many timers, and not for work whose
    /// end somebody wants to see. Its thread ends after a while without work
    /// ([`GLOBAL_QUIET_VARIABLE`]). It cannot be shut down: the attempt fails with
    /// [`ShutdownError::Unsupported`], and dropping handles does nothing.
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
        let quiet = || quiet_seconds(std::env::var(GLOBAL_QUIET_VARIABLE).ok().as_deref());
        global
            .own
            .get_or_insert_with(|| endless(Clock::system(), quiet()))
            .clone()
    }

    /// Makes [`EventLoop::global`] answer `stand_in` until the guard is dropped: for a test
    /// that wants to see, or to hold up, what others give the global loop.
    pub fn replace_global(stand_in: &Self) -> GlobalGuard {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let ticket = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&GLOBAL).stand_ins.push((ticket, stand_in.clone()));
        GlobalGuard { ticket }
    }
}

impl<P: Placement> EventLoop<P> {
    /// Waits until the loop has no thread, at most for `timeout` of its clock; answers whether
    /// it has none. A loop loses its thread when it ends, and one that gives it back when idle
    /// ([`EventLoop::global`], [`EventLoop::try_suspend`]) loses it then.
    ///
    /// # Errors
    ///
    /// [`InactivityError::NeverStarted`] if it never had one, and
    /// [`InactivityError::Refused`] on a thread that must not block, such as its own.
    pub fn await_inactivity(&self, timeout: Duration) -> Result<bool, InactivityError> {
        self.await_no_thread(timeout, None)
    }

    /// [`EventLoop::await_inactivity`] until `token` is tripped.
    ///
    /// # Errors
    ///
    /// As there, and [`InactivityError::Interrupted`].
    pub fn await_inactivity_with(
        &self,
        timeout: Duration,
        token: &CancelToken,
    ) -> Result<bool, InactivityError> {
        self.await_no_thread(timeout, Some(token))
    }

    fn await_no_thread(
        &self,
        timeout: Duration,
        token: Option<&CancelToken>,
    ) -> Result<bool, InactivityError> {
        if token.is_some_and(CancelToken::is_cancelled) {
            return Err(InactivityError::Interrupted);
        }
        let presence = &self.shared.presence;
        if presence.is_gone()? {
            return Ok(true);
        }
        let _recorded = check_wait(None).map_err(InactivityError::Refused)?;
        let clock = &self.shared.clock;
        let deadline = clock.deadline(timeout);
        let parker = Arc::new(Parker::new());
        presence.wake_when_gone(&parker);
        let _hook = token.map(|token| token.unpark_on_cancel(&parker));
        while !presence.is_gone()? {
            if token.is_some_and(CancelToken::is_cancelled) {
                return Err(InactivityError::Interrupted);
            }
            if clock.nanos() >= deadline {
                return Ok(false);
            }
            clock.park_until(&parker, Some(deadline));
        }
        Ok(true)
    }
}

/// Keeps a stand-in for [`EventLoop::global`]; dropping it puts the one before back.
///
/// Guards may be dropped in any order: the newest that is left counts.
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
        // Outside the lock: it may be the loop's last handle.
        drop(stand_in);
    }
}

/// Why [`EventLoop::await_inactivity`] does not wait.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InactivityError {
    /// The loop never had a thread.
    NeverStarted,
    /// The calling thread must not block.
    Refused(WaitRefused),
    /// The caller's token was tripped before the loop's thread was gone.
    Interrupted,
}

impl fmt::Display for InactivityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NeverStarted => {
                "the loop never had a thread to wait for; give it a task before waiting"
            }
            Self::Refused(_) => "this thread must not wait for a loop's thread to end",
            Self::Interrupted => "the wait was interrupted by its cancel token",
        })
    }
}

tidegate_core::debug_as_display!(InactivityError);

impl Error for InactivityError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NeverStarted | Self::Interrupted => None,
            Self::Refused(refused) => Some(refused),
        }
    }
}

/// Whether a loop has a thread, and who waits until it has none.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    /// Threads that were asked for and have not ended. More than one while the old one is on
    /// its way out.
    alive: usize,
    /// Whether any thread ever ran.
    began: bool,
    /// Whoever waits; dead once it does so no longer.
    waiting: Vec<Weak<Parker>>,
}

impl Presence {
    /// Counts a thread that is about to be started, until the answer is dropped.
    pub(crate) fn join(this: &Arc<Self>) -> Present {
        lock(&this.threads).alive += 1;
        Present {
            presence: Arc::clone(this),
        }
    }

    fn is_gone(&self) -> Result<bool, InactivityError> {
        let threads = lock(&self.threads);
        match (threads.alive, threads.began) {
            (0, false) => Err(InactivityError::NeverStarted),
            (alive, _) => Ok(alive == 0),
        }
    }

    /// Unparks `parker` when the last thread ends; the caller looks again after this.
    fn wake_when_gone(&self, parker: &Arc<Parker>) {
        let mut threads = lock(&self.threads);
        threads.waiting.retain(|one| one.strong_count() > 0);
        threads.waiting.push(Arc::downgrade(parker));
    }
}

/// A thread of a loop, from before it starts until it ends.
#[derive(Debug)]
pub(crate) struct Present {
    presence: Arc<Presence>,
}

impl Present {
    /// Says that the thread runs.
    pub(crate) fn arrive(&self) {
        lock(&self.presence.threads).began = true;
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut threads = lock(&self.presence.threads);
        threads.alive -= 1;
        let waiting = if threads.alive == 0 {
            std::mem::take(&mut threads.waiting)
        } else {
            Vec::new()
        };
        drop(threads);
        for parker in waiting.iter().filter_map(Weak::upgrade) {
            parker.unpark();
        }
    }
}

/// A loop that gives its thread back after `quiet` seconds without work and cannot be shut down.
pub(super) fn endless(clock: Clock, quiet: u64) -> EventLoop {
    let threads = ThreadBuilder::new("tidegate-global").join_policy(JoinPolicy::Detached);
    let mut builder = EventLoop::builder("global").clock(clock).threads(threads);
    builder.idle_stop = quiet.saturating_mul(1_000_000_000);
    let home = builder
        .build()
        .expect("the description of the global loop contradicts nothing");
    home.shared.endless.store(true, Ordering::Relaxed);
    // Its end has failed already, for whoever asks.
    home.shared.report(Err(ShutdownError::Unsupported));
    home
}

pub(super) fn quiet_seconds(asked: Option<&str>) -> u64 {
    let asked = asked.and_then(|seconds| seconds.trim().parse().ok());
    asked
        .filter(|&seconds| seconds > 0)
        .unwrap_or(DEFAULT_GLOBAL_QUIET_SECONDS)
}
