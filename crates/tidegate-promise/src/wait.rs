//! Blocking waits: how a thread sleeps until an outcome can be taken, and when a wait is refused.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::task::{Poll, Waker};
use std::time::Duration;

use tidegate_core::executor::{Work, current_executor};
use tidegate_core::internal::{Awaited, SpinWait, check_may_block, check_wait_for};
use tidegate_core::{CancelToken, Clock, Parker, WaitRefusedError};

use crate::Outcome;
use crate::block::{Reader, run_put_off};

/// The reason why a wait or an `.await` returned no value.
///
/// ```
/// use tidegate_promise::{WaitError, promise};
///
/// let (promise, answer) = promise::<u32>();
/// promise.fail(tidegate_promise::Failure::new("no luck"))?;
/// match answer.wait() {
///     Err(WaitError::Failed(cause)) => assert_eq!(cause.to_string(), "no luck"),
///     other => panic!("unexpected: {other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError<E> {
    /// The promise failed.
    Failed(E),
    /// The promise was cancelled.
    Cancelled,
    /// The timeout elapsed before the outcome was decided.
    TimedOut {
        /// The time limit of the wait.
        after: Duration,
    },
    /// The caller's token was cancelled before the wait saw the outcome. A token that was cancelled
    /// before the wait began takes precedence over a decided outcome.
    Interrupted,
    /// This thread may not wait for that promise. The value contains the reason, and names the
    /// waiting executors or this thread.
    Refused(WaitRefusedError),
    /// The outcome was already taken.
    Taken,
}

impl<E> WaitError<E> {
    /// Returns the cause if the promise failed.
    pub fn failure(self) -> Option<E> {
        match self {
            Self::Failed(cause) => Some(cause),
            _ => None,
        }
    }

    /// Returns `true` if this thread was not allowed to wait.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Returns `true` if the wait timed out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Returns `true` if the promise was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Converts a taken outcome into the result of a wait. `None` means that it was already taken.
    pub(crate) fn from_taken<T>(taken: Option<Outcome<T, E>>) -> Result<T, Self> {
        match taken {
            Some(Outcome::Success(value)) => Ok(value),
            Some(Outcome::Failure(cause)) => Err(Self::Failed(cause)),
            Some(Outcome::Cancelled) => Err(Self::Cancelled),
            None => Err(Self::Taken),
        }
    }
}

impl<E> WaitError<E> {
    /// Formats the error. The cause of a failure is formatted by `cause`.
    fn show(
        &self,
        f: &mut fmt::Formatter<'_>,
        cause: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match self {
            Self::Failed(why) => cause(why, f),
            Self::Cancelled => f.write_str("the promise was cancelled"),
            Self::TimedOut { after } => write!(f, "the promise was not completed within {after:?}"),
            Self::Interrupted => f.write_str("the wait was interrupted by its cancel token"),
            Self::Refused(why) => fmt::Display::fmt(why, f),
            Self::Taken => {
                f.write_str("the outcome was already taken; take it once, or share the completion")
            }
        }
    }
}

impl<E: fmt::Display> fmt::Display for WaitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, E::fmt)
    }
}

/// Prints a sentence, because an error returned from `main` is printed with `Debug`.
impl<E: fmt::Debug> fmt::Debug for WaitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, E::fmt)
    }
}

// By hand: a derive needs `E: Display` for the `Debug` output too.
impl<E: Error + 'static> Error for WaitError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // `Display` already prints the cause, so the next error of the chain is the cause's
            // source.
            Self::Failed(cause) => cause.source(),
            Self::Refused(why) => why.source(),
            _ => None,
        }
    }
}

/// The shortest time limit for which a wait spins before it sleeps. Spinning could exceed a
/// shorter limit by the whole spin time. A wait on a manual clock never spins.
const MIN_SPIN_TIMEOUT: Duration = Duration::from_millis(1);

tidegate_core::internal::prim::thread_local! {
    /// The parker in which this thread sleeps when it waits for a promise.
    static PARKER: (Parker, Waker) = new_parker();
    /// What this thread has learned about spinning before it sleeps.
    static SPIN: Cell<SpinWait> = Cell::new(SpinWait::new());
}

fn new_parker() -> (Parker, Waker) {
    let parker = Parker::new();
    let waker = Waker::from(&parker);
    (parker, waker)
}

/// An object that a thread can wait for by polling it with a waker.
pub(crate) trait Waitable {
    type Answer;
    type Cause;
    /// Returns the result if it is ready. Registers nothing.
    fn try_result(&mut self) -> Option<Self::Answer>;
    fn poll(&mut self, waker: &Waker) -> Poll<Self::Answer>;
    fn forget(&mut self);
    /// Sleeps without a waker until the result is ready or never will be. Returns `None` if this
    /// object does not support that, or if its executor ended without starting the task.
    fn sleep(&mut self) -> Option<Self::Answer>;
    /// Returns the failure of a task that will never complete because its executor ended without
    /// starting it.
    fn unstarted_failure(&self) -> Option<Self::Cause>;
    /// Returns `true` if the calling thread itself prevents completion, because it runs a listener
    /// of this promise.
    fn is_notifying_on_this_thread(&self) -> bool;
    fn home(&self) -> Option<&std::sync::Arc<dyn tidegate_core::Executor>>;
    /// Returns the address of the promise, and how the work that decides it comes to its home.
    fn awaited(&self) -> (usize, Work);
    /// Makes the promise report to the wait record when it needs no thread any more but the one that
    /// decides it. Returns `true` if that is so already.
    fn needs_nothing_or_will_report(&self) -> bool;
}

impl<T: Send + 'static, E: Send + 'static> Waitable for Reader<T, E> {
    type Answer = Option<Outcome<T, E>>;
    type Cause = E;

    fn try_result(&mut self) -> Option<Self::Answer> {
        if self.is_taken() {
            return Some(None);
        }
        self.try_take().map(Some)
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Self::Answer> {
        Reader::poll(self, waker)
    }

    fn forget(&mut self) {
        self.remove_waker();
    }

    fn sleep(&mut self) -> Option<Self::Answer> {
        if !Reader::sleep(self) {
            return None;
        }
        self.try_result()
    }

    fn unstarted_failure(&self) -> Option<E> {
        Reader::fail_if_unstarted(self)
    }

    fn is_notifying_on_this_thread(&self) -> bool {
        Reader::is_notifying_on_this_thread(self)
    }

    fn home(&self) -> Option<&std::sync::Arc<dyn tidegate_core::Executor>> {
        Reader::home(self)
    }

    fn awaited(&self) -> (usize, Work) {
        Reader::awaited(self)
    }

    fn needs_nothing_or_will_report(&self) -> bool {
        Reader::needs_nothing_or_will_report(self)
    }
}

/// Returns the poll result of an object that is not ready: a failure if it never will be, else
/// `Pending`.
pub(crate) fn pending_or_unstarted<W: Waitable, T>(
    what: &W,
) -> Poll<Result<T, WaitError<W::Cause>>> {
    match what.unstarted_failure() {
        Some(cause) => Poll::Ready(Err(WaitError::Failed(cause))),
        None => Poll::Pending,
    }
}

/// Waits for `what`, at most for `limit`.
pub(crate) fn wait<W, T, E>(
    what: &mut W,
    limit: Option<Duration>,
    token: Option<&CancelToken>,
) -> Result<T, WaitError<E>>
where
    W: Waitable<Answer = Option<Outcome<T, E>>, Cause = E>,
{
    if token.is_some_and(CancelToken::is_cancelled) {
        return Err(WaitError::Interrupted);
    }
    // A wait for a decided outcome is never refused.
    if let Some(outcome) = what.try_result() {
        return WaitError::from_taken(outcome);
    }
    sleep(what, limit, token)
}

fn sleep<W, T, E>(
    what: &mut W,
    limit: Option<Duration>,
    token: Option<&CancelToken>,
) -> Result<T, WaitError<E>>
where
    W: Waitable<Answer = Option<Outcome<T, E>>, Cause = E>,
{
    let home = what.home().cloned();
    // Without a home, time is that of the executor whose work this thread runs. A manual clock of
    // that executor then sees that the thread sleeps, and does not wait for it.
    let timed_by = home.clone().or_else(current_executor);
    let system = Clock::system();
    let clock = timed_by.as_ref().map_or(&system, |one| one.clock());
    let (deadline, after) = (
        limit.map(|timeout| clock.deadline(timeout)),
        limit.unwrap_or_default(),
    );
    // A wait with a zero timeout never blocks, so it is allowed on every thread.
    if deadline.is_some() && after.is_zero() {
        return Err(WaitError::TimedOut { after });
    }
    check_may_block(home.as_deref()).map_err(WaitError::Refused)?;
    run_put_off();
    let (promise, work) = what.awaited();
    let awaited = Awaited {
        promise: Some(promise),
        work,
        endless: deadline.is_none_or(|at| at == u64::MAX),
    };
    let needs_nothing = || what.needs_nothing_or_will_report();
    let recorded = check_wait_for(home.as_deref(), awaited, needs_nothing);
    let _recorded = recorded.map_err(WaitError::Refused)?;
    if what.is_notifying_on_this_thread() {
        return Err(WaitError::Refused(WaitRefusedError::own_listener()));
    }
    if (deadline.is_none() || after >= MIN_SPIN_TIMEOUT)
        && !clock.is_manual()
        && let Some(outcome) = spin(what, token)
    {
        return WaitError::from_taken(outcome);
    }
    // If only the outcome can end the wait, the thread may sleep on the block itself. On a manual
    // clock it sleeps in the parker, because that sleep is registered with the clock.
    if deadline.is_none() && token.is_none() && !clock.is_manual() {
        if let Some(outcome) = what.sleep() {
            return WaitError::from_taken(outcome);
        }
        if let Some(cause) = what.unstarted_failure() {
            return Err(WaitError::Failed(cause));
        }
    }
    let mut rest = SleepingWait {
        what,
        clock,
        deadline,
        after,
        token,
    };
    // A thread that is exiting may have destroyed its thread-local parker already.
    PARKER
        .try_with(|(parker, waker)| rest.sleep(parker, waker))
        .unwrap_or_else(|_| {
            let (parker, waker) = new_parker();
            rest.sleep(&parker, &waker)
        })
}

/// The sleeping phase of a wait.
struct SleepingWait<'a, W> {
    what: &'a mut W,
    clock: &'a Clock,
    deadline: Option<u64>,
    after: Duration,
    token: Option<&'a CancelToken>,
}

impl<W, T, E> SleepingWait<'_, W>
where
    W: Waitable<Answer = Option<Outcome<T, E>>, Cause = E>,
{
    fn sleep(&mut self, parker: &Parker, waker: &Waker) -> Result<T, WaitError<E>> {
        let _hook = self.token.map(|token| token.unpark_on_cancel(parker));
        let why = loop {
            if let Poll::Ready(outcome) = self.what.poll(waker) {
                return WaitError::from_taken(outcome);
            }
            if let Some(cause) = self.what.unstarted_failure() {
                break WaitError::Failed(cause);
            }
            if self.token.is_some_and(CancelToken::is_cancelled) {
                break WaitError::Interrupted;
            }
            if self.deadline.is_some_and(|at| self.clock.nanos() >= at) {
                break WaitError::TimedOut { after: self.after };
            }
            self.clock.park_until(parker, self.deadline);
        };
        self.what.forget();
        Err(why)
    }
}

/// Spins for as long as spinning has paid off on this thread lately, so that an outcome that is
/// imminent costs no sleep.
fn spin<W: Waitable>(what: &mut W, token: Option<&CancelToken>) -> Option<W::Answer> {
    let mut spin = SPIN.try_with(Cell::get).ok()?;
    let mut seen = None;
    spin.spin_until(|| {
        seen = what.try_result();
        seen.is_some() || token.is_some_and(CancelToken::is_cancelled)
    });
    let _ = SPIN.try_with(|last| last.set(spin));
    seen
}
