//! The callers that share a run: their number, their handles, and whether the work has begun.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tidegate_core::CancelToken;

use super::wait_graph::RunId;
use crate::cancel::{CallHandle, CancelOutcome, Cancellable, HandleOfCall, Interrupt};

/// The number of callers that want the result of a run, and how to cancel the run when none is
/// left.
pub(super) struct Subscribers {
    pub(super) id: RunId,
    /// Once zero, it stays zero.
    count: AtomicUsize,
    /// A caller has left without saying that the work must not be interrupted.
    may_interrupt: AtomicBool,
    /// `None` if the run cannot be cancelled, or has ended.
    run: Mutex<Option<RunInFlight>>,
    /// Set when the work of the run begins.
    begun: OnceLock<Arc<AtomicBool>>,
}

/// Cancels a run.
#[derive(Clone)]
pub(super) struct RunInFlight {
    pub(super) handle: CallHandle,
    /// Cancels the completion of the run.
    pub(super) end: Arc<dyn Fn() + Send + Sync>,
}

impl Subscribers {
    /// Starts with one caller: the call that creates the run.
    pub(super) fn new() -> Self {
        Self {
            id: RunId::new(),
            count: AtomicUsize::new(1),
            may_interrupt: AtomicBool::new(false),
            run: Mutex::new(None),
            begun: OnceLock::new(),
        }
    }

    /// Adds a caller. Returns `false` if the last caller has gone, so the run is ending.
    pub(super) fn join(&self) -> bool {
        let more = |count: usize| (count > 0).then_some(count + 1);
        // Relaxed: only the number matters.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.count.fetch_update(set, fetch, more).is_ok()
    }

    /// Removes the only caller, so that no other can join. Returns `false` if there are others.
    pub(super) fn close_if_alone(&self) -> bool {
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.count.compare_exchange(1, 0, set, fetch).is_ok()
    }

    /// Sets the handle that cancels the run, or `None` if the run has ended.
    pub(super) fn set_run(&self, run: Option<RunInFlight>) {
        let mut mine = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *mine, run);
        drop(mine);
        drop(old);
    }

    pub(super) fn run(&self) -> Option<RunInFlight> {
        let run = self.run.lock();
        run.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the flag that tells when the work of the run begins, before it can begin.
    pub(super) fn begun_by(&self, run: &HandleOfCall) {
        let _ = self.begun.set(run.begun());
    }

    /// Returns `true` if the work of the run has begun, also after it has ended.
    pub(super) fn has_begun(&self) -> bool {
        let begun = self.begun.get();
        begun.is_some_and(|begun| begun.load(Ordering::Relaxed))
    }

    /// Interrupts the work of a run whose last caller has gone.
    pub(super) fn interrupt_left(&self, asked: Option<Interrupt>) {
        if self.count.load(Ordering::Relaxed) == 0
            && asked == Some(Interrupt::Yes)
            && let Some(run) = self.run()
        {
            run.handle.cancel_as(asked);
        }
    }

    /// Removes a caller. The last one cancels the run, if it is still possible, and gets the outcome.
    fn leave(&self, asked: Option<Interrupt>) -> Option<CancelOutcome> {
        if asked != Some(Interrupt::No) {
            self.may_interrupt.store(true, Ordering::Relaxed);
        }
        // A hit on a finished run did not join; there is nothing to cancel then.
        let less = |count: usize| count.checked_sub(1);
        // ORDERING: AcqRel pairs with itself: the last caller sees what the others asked for.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        if self.count.fetch_update(set, fetch, less) != Ok(1) {
            return None;
        }
        let run = self.run()?;
        let may_interrupt = self.may_interrupt.load(Ordering::Relaxed);
        let asked = (!may_interrupt).then_some(Interrupt::No);
        let outcome = run.handle.cancel_as(asked);
        // A run whose work has ended, and whose fallback runs, ends here.
        (run.end)();
        Some(outcome)
    }

    /// Returns the outcome of a cancel that leaves the run to others.
    pub(super) fn outcome(&self) -> CancelOutcome {
        match self.has_begun() {
            true => CancelOutcome::Running,
            false => CancelOutcome::NotBegun,
        }
    }
}

/// One caller's interest in a run. Dropping the last one cancels the run, if it is still possible.
pub(super) struct Subscription {
    pub(super) callers: Arc<Subscribers>,
    /// The caller has said that the work must not be interrupted. Shared with its handle, if it has
    /// one.
    says_no: Option<Arc<AtomicBool>>,
    /// Set by whoever ends the interest first: the drop of this value, or the handle of the caller.
    left: Option<Arc<AtomicBool>>,
}

impl Subscription {
    pub(super) fn new(callers: Arc<Subscribers>) -> Self {
        Self {
            callers,
            says_no: None,
            left: None,
        }
    }

    /// Returns the flag by which the caller's handle says that the work must not be interrupted.
    pub(super) fn says_no(&mut self) -> Arc<AtomicBool> {
        Arc::clone(self.says_no.get_or_insert_default())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let left = self.left.as_ref();
        if left.is_some_and(|left| left.swap(true, Ordering::Relaxed)) {
            return;
        }
        let says_no = self.says_no.as_ref();
        let says_no = says_no.is_some_and(|says_no| says_no.load(Ordering::Relaxed));
        self.callers.leave(says_no.then_some(Interrupt::No));
    }
}

/// A caller whose own thread executes the run. Its handle ends its interest, but cannot release the
/// thread: the run goes on for the others, or is cancelled if there are none.
struct ExecutingCaller {
    callers: Arc<Subscribers>,
    left: Arc<AtomicBool>,
}

impl Subscription {
    /// Lets `handle` end the interest of the caller that executes the run.
    pub(super) fn end_by(&mut self, handle: &HandleOfCall, is_attempt: bool) {
        let executing = Arc::new(ExecutingCaller {
            callers: Arc::clone(&self.callers),
            left: Arc::clone(self.left.get_or_insert_default()),
        });
        if let Err(asked) = handle.add(Arc::clone(&executing) as _, is_attempt) {
            executing.cancel(asked);
        }
    }

    /// Shows the caller of a future, which is cancelled by dropping it, whether the run has begun.
    pub(super) fn show_to(&self, handle: &HandleOfCall, is_attempt: bool) {
        let executing = Arc::new(ExecutingCaller {
            callers: Arc::clone(&self.callers),
            left: Arc::new(AtomicBool::new(true)),
        });
        // If this is refused, the call was cancelled before it was made. A future ignores that.
        let _ = handle.add(executing, is_attempt);
    }
}

impl Cancellable for ExecutingCaller {
    fn cancel(&self, asked: Option<Interrupt>) -> CancelOutcome {
        if self.is_over() || self.left.swap(true, Ordering::Relaxed) {
            self.callers.interrupt_left(asked);
            return CancelOutcome::TooLate;
        }
        let outcome = self.callers.outcome();
        self.callers.leave(asked).unwrap_or(outcome)
    }

    fn has_begun(&self) -> bool {
        self.callers.has_begun()
    }

    fn is_over(&self) -> bool {
        self.callers.run().is_none()
    }
}

/// A caller that is blocked until the run has a result, as its handle releases it.
pub(super) struct WaitingCaller {
    /// Ends the wait.
    token: CancelToken,
    says_no: Arc<AtomicBool>,
    callers: Arc<Subscribers>,
    is_cancelled: AtomicBool,
    is_over: AtomicBool,
}

/// The guard of a [`WaitingCaller`]: the wait is over when it is dropped.
pub(crate) struct WaitInRun(Arc<WaitingCaller>);

impl Subscription {
    /// Registers the wait of a blocked caller, which `handle` ends through `token`.
    pub(super) fn wait(
        &mut self,
        handle: &HandleOfCall,
        token: &CancelToken,
        is_attempt: bool,
    ) -> WaitInRun {
        let waiting = Arc::new(WaitingCaller {
            token: token.clone(),
            says_no: self.says_no(),
            callers: Arc::clone(&self.callers),
            is_cancelled: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        if let Err(asked) = handle.add(Arc::clone(&waiting) as _, is_attempt) {
            waiting.cancel(asked);
        }
        WaitInRun(waiting)
    }
}

impl Drop for WaitInRun {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Cancellable for WaitingCaller {
    fn cancel(&self, asked: Option<Interrupt>) -> CancelOutcome {
        if self.is_over() {
            self.callers.interrupt_left(asked);
            return CancelOutcome::TooLate;
        }
        if self.is_cancelled.swap(true, Ordering::Relaxed) {
            // An interrupt cannot be taken back.
            if asked == Some(Interrupt::Yes) {
                self.says_no.store(false, Ordering::Relaxed);
            }
            return CancelOutcome::TooLate;
        }
        let outcome = self.callers.outcome();
        let says_no = asked == Some(Interrupt::No);
        self.says_no.store(says_no, Ordering::Relaxed);
        self.token.cancel_without_hooks();
        outcome
    }

    fn has_begun(&self) -> bool {
        self.callers.has_begun()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
