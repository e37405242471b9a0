//! How a caller cancels a call that it has started, and says whether running work is interrupted.
//!
//! A [`CallHandle`] belongs to one call of the user. Behind it may be several calls of the command,
//! one after the other or at the same time: the attempts of a retry or a hedge. Each of them adds
//! itself to the handle when it begins: on threads when it is queued, else when its work begins. A call
//! that begins after the cancel ends at once.
//!
//! Invariant: no lock is held while a call is cancelled, because that runs user code.

use crate::lock::lock;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

/// Whether a cancel interrupts work that already runs, that is, cancels its `CancelToken`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// The token is cancelled if the command's setting `interrupt_on_cancel` allows it.
    Yes,
    /// The work goes on without its caller.
    No,
}

/// What a cancel has found: whether the work had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The work had not begun, and will not run. Between two attempts: no other attempt begins.
    NotBegun,
    /// The work was running. Its result is dropped.
    Running,
    /// The call had already ended, or was cancelled before.
    TooLate,
}

/// Cancels a call, from any thread; see [`Call::handle`](crate::Call::handle). Clones are handles
/// to the same call.
///
/// ```
/// use tidegate_isolate::{CancelOutcome, Command, Interrupt, Isolation, PoolConfig};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> = Command::builder("prices")
///     .group("catalog")
///     .threads(PoolConfig { core: 1, queue: 1, ..PoolConfig::default() })
///     .configure(|c| c.interrupt_on_cancel = true)
///     .build(&isolation)?;
/// let (inside, is_inside) = std::sync::mpsc::channel();
/// let mut call = prices.call();
/// let handle = call.handle();
/// let answer = call.queue(move |cancel| {
///     inside.send(()).unwrap();
///     while !cancel.is_cancelled() {
///         std::hint::spin_loop();
///     }
///     Ok(42)
/// });
/// is_inside.recv()?;
/// assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::Running);
/// assert!(answer.wait().unwrap_err().is_cancelled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct CallHandle {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Alive while the call is.
    live: Weak<()>,
    /// Set by the first work of the call that begins.
    begun: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// The request of the cancels so far, if there was one. A request to interrupt stays.
    cancelled: Option<Option<Interrupt>>,
    targets: Vec<Target>,
    /// The call was made as a whole, not as an attempt: there will be no other.
    is_made: bool,
}

enum Target {
    /// A call of a command. The handle does not keep it alive.
    Call(Weak<dyn Cancellable>),
    /// Anything else that needs no more memory than the handle.
    Other(Arc<dyn Cancellable>),
}

impl Target {
    fn get(&self) -> Option<Arc<dyn Cancellable>> {
        match self {
            Self::Call(call) => call.upgrade(),
            Self::Other(other) => Some(Arc::clone(other)),
        }
    }
}

/// One call of a command, or one copy of the result of a shared run.
pub(crate) trait Cancellable: Send + Sync {
    /// Ends the call, and interrupts its work if the request and the settings say so. If the call
    /// was cancelled before, a request to interrupt still reaches its work.
    fn cancel(&self, interrupt: Option<Interrupt>) -> CancelOutcome;

    /// Returns `true` if the work of another handle, to which this one belongs, has begun. Work of
    /// this handle sets its flag when it begins.
    fn has_begun(&self) -> bool {
        false
    }

    /// Returns `true` if nothing is left to cancel or to interrupt.
    fn is_over(&self) -> bool;
}

impl CallHandle {
    /// Cancels the call. Work that has not begun never runs, and its place in the queue is free at
    /// once. Work that runs loses its caller; with [`Interrupt::Yes`] its token is cancelled, if the
    /// setting `interrupt_on_cancel` of the command allows it. The caller's completion ends as
    /// cancelled, and a caller that waits gets [`Cause::Cancelled`](crate::Cause::Cancelled).
    ///
    /// A second cancel returns [`CancelOutcome::TooLate`]. It can still interrupt work that a first
    /// cancel left running; an interrupt cannot be taken back. A call that is not made yet ends as
    /// cancelled when it is made. A wrapper makes no further attempt.
    ///
    /// With permits, work that runs is on its caller's thread and cannot be left: the cancel then only
    /// cancels the token. A future whose work has begun is cancelled by dropping it.
    ///
    /// # Threads
    ///
    /// Hooks of the token, listeners of the completion, and the `Drop` of work that never ran, run
    /// on the calling thread.
    pub fn cancel(&self, interrupt: Interrupt) -> CancelOutcome {
        self.cancel_as(Some(interrupt))
    }

    /// Returns `true` if the work has begun, in any attempt, also after it has ended. A call that
    /// shares a run has begun with the run.
    pub fn has_begun(&self) -> bool {
        if self.shared.begun.load(Ordering::Relaxed) {
            return true;
        }
        let targets = self.lock().all();
        targets.iter().any(|target| target.has_begun())
    }

    /// Cancels the call. Without a request, the setting of the command decides about the interrupt.
    pub(crate) fn cancel_as(&self, interrupt: Option<Interrupt>) -> CancelOutcome {
        let mut state = self.lock();
        let is_first = state.cancelled.is_none();
        let before = state.cancelled.flatten();
        let keeps = before == Some(Interrupt::Yes) || interrupt == Some(Interrupt::No) && !is_first;
        state.cancelled = Some(if keeps { before } else { interrupt });
        let targets = state.all();
        // A call that is not made yet, or is between two attempts, has no target and is not over.
        let is_pending = is_first && !state.is_made && self.shared.live.strong_count() > 0;
        drop(state);
        let mut found = match is_pending {
            true => CancelOutcome::NotBegun,
            false => CancelOutcome::TooLate,
        };
        for target in targets {
            match (target.cancel(interrupt), found) {
                (CancelOutcome::Running, _) => found = CancelOutcome::Running,
                (CancelOutcome::NotBegun, CancelOutcome::TooLate) => {
                    found = CancelOutcome::NotBegun;
                }
                _ => {}
            }
        }
        found
    }

    fn add(&self, target: Target, is_attempt: bool) -> Result<(), Option<Interrupt>> {
        let mut state = self.lock();
        if let Some(interrupt) = state.cancelled {
            return Err(interrupt);
        }
        let over = state.prune();
        state.targets.push(target);
        state.is_made |= !is_attempt;
        drop(state);
        // Dropped without the lock: this may be the last reference to a call, and to user code in it.
        drop(over);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.shared.state;
        lock(state)
    }
}

impl State {
    fn all(&self) -> Vec<Arc<dyn Cancellable>> {
        self.targets.iter().filter_map(Target::get).collect()
    }

    /// Removes the targets that are over, so that a call with many attempts keeps few of them.
    /// Returns every reference that it looked at.
    fn prune(&mut self) -> Vec<Arc<dyn Cancellable>> {
        let mut seen = Vec::new();
        self.targets.retain(|target| {
            let Some(target) = target.get() else {
                return false;
            };
            let is_over = target.is_over();
            seen.push(target);
            !is_over
        });
        seen
    }
}

impl fmt::Debug for CallHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("CallHandle")
            .field("cancelled", &state.cancelled.is_some())
            .field("calls", &state.targets.len())
            .finish()
    }
}

/// The end of a handle that belongs to the call. The call is over when its last clone is dropped.
#[derive(Clone)]
pub(crate) struct HandleOfCall {
    handle: CallHandle,
    _live: Arc<()>,
}

impl HandleOfCall {
    pub(crate) fn new() -> Self {
        Self::with_begun(Arc::default())
    }

    /// Creates the handle of a run that the caller with `handle` executes for itself and others. It
    /// does not cancel the run, but learns whether the work has begun.
    pub(crate) fn of_run(handle: Option<&Self>) -> Self {
        Self::with_begun(handle.map_or_else(Arc::default, Self::begun))
    }

    fn with_begun(begun: Arc<AtomicBool>) -> Self {
        let live = Arc::new(());
        let shared = Shared {
            state: Mutex::default(),
            live: Arc::downgrade(&live),
            begun,
        };
        Self {
            handle: CallHandle {
                shared: Arc::new(shared),
            },
            _live: live,
        }
    }

    pub(crate) fn handle(&self) -> CallHandle {
        self.handle.clone()
    }

    /// Adds a call that has just begun, as a whole or as an attempt.
    ///
    /// # Errors
    ///
    /// Returns the request of the cancel that came before. The call then has to cancel itself.
    pub(crate) fn add_call(
        &self,
        call: Weak<dyn Cancellable>,
        is_attempt: bool,
    ) -> Result<(), Option<Interrupt>> {
        self.handle.add(Target::Call(call), is_attempt)
    }

    /// The same for a call that the handle keeps in memory.
    pub(crate) fn add(
        &self,
        other: Arc<dyn Cancellable>,
        is_attempt: bool,
    ) -> Result<(), Option<Interrupt>> {
        self.handle.add(Target::Other(other), is_attempt)
    }

    /// Returns `true` if the call was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.handle.lock().cancelled.is_some()
    }

    /// Returns the flag that work sets when it begins.
    pub(crate) fn begun(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.handle.shared.begun)
    }

    /// Records that the work has begun.
    pub(crate) fn note_begun(&self) {
        self.handle.shared.begun.store(true, Ordering::Relaxed);
    }

    /// Records that the future of the work begins. It is cancelled by dropping it: from now on the
    /// handle cancels nothing but further attempts. Returns `false` if the call was cancelled before,
    /// unless others share its run.
    #[cold]
    pub(crate) fn begin_async(&self, is_attempt: bool, is_shared: bool) -> bool {
        let mut state = self.handle.lock();
        let is_wanted = is_shared || state.cancelled.is_none();
        if is_wanted {
            state.is_made |= !is_attempt;
            self.note_begun();
        }
        is_wanted
    }

    /// Records that others may share the run of the future, which goes on without the handle.
    #[cold]
    pub(crate) fn share_async(&self, is_attempt: bool) {
        self.handle.lock().is_made |= !is_attempt;
    }

    /// Begins work on its caller's thread. Until the guard is dropped, a cancel cannot keep the work from
    /// running: it calls `cancel` and returns [`CancelOutcome::Running`]. Returns `None` if the call was
    /// cancelled before.
    pub(crate) fn begin(
        &self,
        is_attempt: bool,
        cancel: impl Fn(Option<Interrupt>) + Send + Sync + 'static,
    ) -> Option<InPlace> {
        let work = Arc::new(WorkInPlace {
            cancel: Box::new(cancel),
            is_cancelled: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let target = Target::Other(Arc::clone(&work) as _);
        self.handle.add(target, is_attempt).ok()?;
        self.note_begun();
        Some(InPlace(work))
    }
}

/// Work that runs on its caller's thread.
struct WorkInPlace {
    /// Passes a cancel to the work.
    cancel: Box<dyn Fn(Option<Interrupt>) + Send + Sync>,
    is_cancelled: AtomicBool,
    is_over: AtomicBool,
}

/// The guard of work that runs on its caller's thread.
pub(crate) struct InPlace(Arc<WorkInPlace>);

impl Drop for InPlace {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Cancellable for WorkInPlace {
    fn cancel(&self, interrupt: Option<Interrupt>) -> CancelOutcome {
        if self.is_over() {
            return CancelOutcome::TooLate;
        }
        let is_first = !self.is_cancelled.swap(true, Ordering::Relaxed);
        (self.cancel)(interrupt);
        match is_first {
            true => CancelOutcome::Running,
            false => CancelOutcome::TooLate,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A future that is ready when the call is cancelled, for a caller that waits for a permit, or pauses
/// between two attempts. Without a handle it is never ready.
pub(crate) struct Cancelled {
    handle: Option<HandleOfCall>,
    /// Present once the handle knows of the pause.
    pause: Option<Arc<CallerPause>>,
}

impl Cancelled {
    pub(crate) fn new(handle: Option<&HandleOfCall>) -> Self {
        Self {
            handle: handle.cloned(),
            pause: None,
        }
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(handle) = &self.handle else {
            return Poll::Pending;
        };
        let pause = self.pause.get_or_insert_with(|| {
            let pause = Arc::<CallerPause>::default();
            // If this is refused, the call was cancelled, which is found below.
            let _ = handle
                .handle
                .add(Target::Other(Arc::clone(&pause) as _), true);
            pause
        });
        let outer = pause.waker().replace(context.waker().clone());
        drop(outer);
        match handle.is_cancelled() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(pause) = &self.pause {
            pause.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// A caller that waits for a permit, or pauses between two attempts.
#[derive(Default)]
struct CallerPause {
    waker: Mutex<Option<Waker>>,
    is_over: AtomicBool,
}

impl CallerPause {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        lock(&self.waker)
    }
}

impl Cancellable for CallerPause {
    fn cancel(&self, _asked: Option<Interrupt>) -> CancelOutcome {
        let waker = self.waker().take();
        // Woken without the lock.
        if let Some(waker) = waker {
            waker.wake();
        }
        match self.is_over.swap(true, Ordering::Relaxed) {
            true => CancelOutcome::TooLate,
            false => CancelOutcome::NotBegun,
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
