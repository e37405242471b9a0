//! Waiting: how a thread sleeps until an outcome can be taken, and why it may not.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tidegate_core::{CancelToken, Clock, LookOn, Parker, WaitRefused, check_stance, check_wait};

use crate::Outcome;
use crate::block::Reader;

/// Why a wait, or an `.await`, did not answer with a value.
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
    /// The time was over before the outcome was decided.
    TimedOut {
        /// How long the wait was allowed to take.
        after: Duration,
    },
    /// The caller's token was tripped before the outcome was decided.
    Interrupted,
    /// This thread may not wait for that promise; says who would have waited for whom.
    Refused(WaitRefused),
    /// The outcome was taken before.
    Taken,
}

impl<E> WaitError<E> {
    /// The cause, if the promise failed.
    pub fn failure(self) -> Option<E> {
        match self {
            Self::Failed(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether this thread was not allowed to wait.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Whether the time was over first.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether the promise was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// What a taken outcome means to whoever waited; `None` is one that was taken before.
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
    /// Shows everything but the cause of a failure, which `cause` shows.
    fn show(
        &self,
        f: &mut fmt::Formatter<'_>,
        cause: impl FnOnce(&E, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> fmt::Result {
        match self {
            Self::Failed(why) => cause(why, f),
            Self::Cancelled => f.write_str("cancelled"),
            Self::TimedOut { after } => write!(f, "not completed within {after:?}"),
            Self::Interrupted => f.write_str("the wait was interrupted by its cancel token"),
            Self::Refused(why) => fmt::Display::fmt(why, f),
            Self::Taken => f.write_str("the outcome was taken before"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for WaitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, E::fmt)
    }
}

/// A sentence, since an error that `main` returns is printed like this.
impl<E: fmt::Debug> fmt::Debug for WaitError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, E::fmt)
    }
}

impl<E: Error + 'static> Error for WaitError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(cause) => cause.source(),
            _ => None,
        }
    }
}

/// How long a wait may take.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    None,
    For(Duration),
    Until(Instant),
}

/// A wait with a shorter limit does not look on: it would overstay by as much as that takes.
const LOOK_ON_FROM: Duration = Duration::from_millis(1);

tidegate_core::prim::thread_local! {
    /// Where this thread sleeps when it waits for a promise.
    static PARKER: (Parker, Waker) = new_parker();
    /// What this thread has learned about looking on before it sleeps.
    static LOOK_ON: Cell<LookOn> = Cell::new(LookOn::new());
}

fn new_parker() -> (Parker, Waker) {
    let parker = Parker::new();
    let waker = Waker::from(&parker);
    (parker, waker)
}

/// Something that can be waited for: polled with a waker until it is ready.
pub(crate) trait Waitable {
    type Answer;
    type Cause;
    /// What it has come to, if it has; registers nothing.
    fn look(&mut self) -> Option<Self::Answer>;
    fn poll(&mut self, waker: &Waker) -> Poll<Self::Answer>;
    fn forget(&mut self);
    /// Sleeps until it is ready or never will be, without a waker; `None` if it cannot do that, or
    /// is left.
    fn sleep(&mut self) -> Option<Self::Answer>;
    /// The failure of what will never be ready, because its executor has ended without it.
    fn left(&self) -> Option<Self::Cause>;
    /// Whether the calling thread is what keeps it from being ready.
    fn is_told_here(&self) -> bool;
    fn home(&self) -> Option<&std::sync::Arc<dyn tidegate_core::Executor>>;
}

impl<T: Send + 'static, E: Send + 'static> Waitable for Reader<T, E> {
    type Answer = Option<Outcome<T, E>>;
    type Cause = E;

    fn look(&mut self) -> Option<Self::Answer> {
        if self.is_taken() {
            return Some(None);
        }
        self.try_take().map(Some)
    }

    fn poll(&mut self, waker: &Waker) -> Poll<Self::Answer> {
        Reader::poll(self, waker)
    }

    fn forget(&mut self) {
        self.forget_waker();
    }

    fn sleep(&mut self) -> Option<Self::Answer> {
        if !Reader::sleep(self) {
            return None;
        }
        self.look()
    }

    fn left(&self) -> Option<E> {
        Reader::left(self)
    }

    fn is_told_here(&self) -> bool {
        Reader::is_told_here(self)
    }

    fn home(&self) -> Option<&std::sync::Arc<dyn tidegate_core::Executor>> {
        Reader::home(self)
    }
}

/// What a poll of something that is not ready comes to: it may never be.
pub(crate) fn left<W: Waitable, T>(what: &W) -> Poll<Result<T, WaitError<W::Cause>>> {
    match what.left() {
        Some(cause) => Poll::Ready(Err(WaitError::Failed(cause))),
        None => Poll::Pending,
    }
}

/// Waits for `what`. `checked`: the wait record may refuse.
pub(crate) fn wait<W, T, E>(
    what: &mut W,
    limit: Limit,
    token: Option<&CancelToken>,
    checked: bool,
) -> Result<T, WaitError<E>>
where
    W: Waitable<Answer = Option<Outcome<T, E>>, Cause = E>,
{
    if token.is_some_and(CancelToken::is_cancelled) {
        return Err(WaitError::Interrupted);
    }
    // A decided outcome is never refused.
    if let Some(outcome) = what.look() {
        return WaitError::from_taken(outcome);
    }
    sleep(what, limit, token, checked)
}

fn sleep<W, T, E>(
    what: &mut W,
    limit: Limit,
    token: Option<&CancelToken>,
    checked: bool,
) -> Result<T, WaitError<E>>
where
    W: Waitable<Answer = Option<Outcome<T, E>>, Cause = E>,
{
    let home = what.home().cloned();
    let system = Clock::system();
    let clock = home.as_ref().map_or(&system, |home| home.clock());
    let (deadline, after) = match limit {
        Limit::None => (None, Duration::ZERO),
        Limit::For(timeout) => (Some(clock.deadline(timeout)), timeout),
        Limit::Until(at) => {
            let left = at.saturating_duration_since(clock.now());
            (Some(clock.nanos_at(at)), left)
        }
    };
    // A wait of no time only looks, wherever it is.
    if deadline.is_some() && after.is_zero() {
        return Err(WaitError::TimedOut { after });
    }
    let _recorded = if checked {
        Some(check_wait(home.as_deref()).map_err(WaitError::Refused)?)
    } else {
        check_stance(home.as_deref()).map_err(WaitError::Refused)?;
        None
    };
    if what.is_told_here() {
        return Err(WaitError::Refused(WaitRefused::own_listener()));
    }
    if (deadline.is_none() || after >= LOOK_ON_FROM)
        && !clock.is_manual()
        && let Some(outcome) = look_on(what, token)
    {
        return WaitError::from_taken(outcome);
    }
    // Where nothing but the outcome can end the wait, the thread may sleep on the block itself.
    if deadline.is_none() && token.is_none() && !clock.is_manual() {
        if let Some(outcome) = what.sleep() {
            return WaitError::from_taken(outcome);
        }
        if let Some(cause) = what.left() {
            return Err(WaitError::Failed(cause));
        }
    }
    let mut rest = Rest {
        what,
        clock,
        deadline,
        after,
        token,
    };
    // A thread that is ending may have lost its own parker already.
    PARKER
        .try_with(|(parker, waker)| rest.sleep(parker, waker))
        .unwrap_or_else(|_| {
            let (parker, waker) = new_parker();
            rest.sleep(&parker, &waker)
        })
}

/// The part of a wait that sleeps.
struct Rest<'a, W> {
    what: &'a mut W,
    clock: &'a Clock,
    deadline: Option<u64>,
    after: Duration,
    token: Option<&'a CancelToken>,
}

impl<W, T, E> Rest<'_, W>
where
    W: Waitable<Answer = Option<Outcome<T, E>>, Cause = E>,
{
    fn sleep(&mut self, parker: &Parker, waker: &Waker) -> Result<T, WaitError<E>> {
        let _hook = self.token.map(|token| token.unpark_on_cancel(parker));
        let why = loop {
            if let Poll::Ready(outcome) = self.what.poll(waker) {
                return WaitError::from_taken(outcome);
            }
            if let Some(cause) = self.what.left() {
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

/// Looks on for a while, as far as that has paid on this thread lately: an answer that is nearly
/// there costs no sleep.
fn look_on<W: Waitable>(what: &mut W, token: Option<&CancelToken>) -> Option<W::Answer> {
    let mut look = LOOK_ON.try_with(Cell::get).ok()?;
    let mut seen = None;
    look.look_on(|| {
        seen = what.look();
        seen.is_some() || token.is_some_and(CancelToken::is_cancelled)
    });
    let _ = LOOK_ON.try_with(|last| last.set(look));
    seen
}
