//! The callers that share a run: their number, their handles, and whether the work has begun.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::wait_graph::RunId;
use crate::cancel::{CallHandle, CancelOutcome, Cancellable, HandleOfCall, Interrupt};
use crate::lock::lock;

/// The number of callers that want the result of a run, and how to cancel the run when none is
/// left.
pub(crate) struct Subscribers {
    pub(crate) id: RunId,
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
            id: RunId::next(),
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

    /// Returns `true` if the last caller has gone. No other can join.
    pub(crate) fn are_gone(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Sets the handle that cancels the run, or `None` if the run has ended. Cancels a run that its
    /// callers have left before it was set.
    pub(super) fn set_run(&self, run: Option<RunInFlight>) {
        drop(std::mem::replace(&mut *lock(&self.run), run));
        if self.are_gone() {
            self.cancel_run();
        }
    }

    fn run(&self) -> Option<RunInFlight> {
        lock(&self.run).clone()
    }

    /// Sets the flag that tells when the work of the run begins, before it can begin.
    pub(crate) fn begun_by(&self, run: &HandleOfCall) {
        let _ = self.begun.set(run.begun());
    }

    /// Returns `true` if the work of the run has begun, also after it has ended.
    pub(super) fn has_begun(&self) -> bool {
        let begun = self.begun.get();
        begun.is_some_and(|begun| begun.load(Ordering::Relaxed))
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
        match self.count.fetch_update(set, fetch, less) {
            Ok(1) => self.cancel_run(),
            _ => None,
        }
    }

    fn cancel_run(&self) -> Option<CancelOutcome> {
        let run = self.run()?;
        let may_interrupt = self.may_interrupt.load(Ordering::Relaxed);
        let asked = (!may_interrupt).then_some(Interrupt::No);
        let outcome = run.handle.cancel_as(asked);
        // A run whose work has ended, and whose fallback runs, ends here.
        (run.end)();
        Some(outcome)
    }
}

/// One caller's interest in a run. Dropping the last one cancels the run, if it is still possible.
pub(crate) struct Subscription {
    pub(super) callers: Arc<Subscribers>,
    /// Present if the caller can leave before this value is dropped.
    caller: Option<Arc<Subscriber>>,
}

/// A caller that shares a run, as its handle cancels it.
pub(super) struct Subscriber {
    callers: Arc<Subscribers>,
    /// Set by the first end of the interest: the drop of the subscription, or the handle.
    left: AtomicBool,
    /// Releases the caller from its wait for the result. Returns `false` if it has one already.
    release: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Subscription {
    pub(super) fn new(callers: Arc<Subscribers>) -> Self {
        let caller = None;
        Self { callers, caller }
    }

    /// Returns `true` if the handle of the caller has ended the interest.
    pub(super) fn has_left(&self) -> bool {
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.left.load(Ordering::Relaxed))
    }

    /// Returns the caller for its handle, which ends this subscription and calls `release`.
    pub(super) fn caller(
        &mut self,
        release: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Subscriber> {
        let caller = self.subscriber(false, Box::new(release));
        self.caller = Some(Arc::clone(&caller));
        caller
    }

    /// Registers a caller whose own thread executes the run. Its handle ends its interest, but cannot
    /// release the thread: the run goes on for the others, or is cancelled if there are none.
    pub(super) fn execute_for(&mut self, handle: &HandleOfCall, is_attempt: bool) {
        let callers = Arc::clone(&self.callers);
        let caller = self.caller(move || callers.run().is_some());
        caller.join(handle, is_attempt);
    }

    /// Shows the caller of a future, which is cancelled by dropping it, whether the run has begun.
    pub(super) fn show_to(&self, handle: &HandleOfCall, is_attempt: bool) {
        // If this is refused, the call was cancelled before it was made. A future ignores that.
        let _ = handle.add(self.subscriber(true, Box::new(|| false)), is_attempt);
    }

    fn subscriber(
        &self,
        left: bool,
        release: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Arc<Subscriber> {
        Arc::new(Subscriber {
            callers: Arc::clone(&self.callers),
            left: AtomicBool::new(left),
            release,
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let caller = self.caller.as_ref();
        if caller.is_none_or(|caller| !caller.left.swap(true, Ordering::Relaxed)) {
            self.callers.leave(None);
        }
    }
}

impl Subscriber {
    /// Adds the caller to its handle. A handle that was cancelled before ends the interest now.
    pub(super) fn join(self: &Arc<Self>, handle: &HandleOfCall, is_attempt: bool) {
        if let Err(asked) = handle.add(Arc::clone(self) as _, is_attempt) {
            self.cancel(asked);
        }
    }
}

impl Cancellable for Subscriber {
    fn cancel(&self, asked: Option<Interrupt>) -> CancelOutcome {
        if self.left.swap(true, Ordering::Relaxed) {
            // The work of a run that all callers have left can still be interrupted.
            if self.callers.are_gone()
                && asked == Some(Interrupt::Yes)
                && let Some(run) = self.callers.run()
            {
                run.handle.cancel_as(asked);
            }
            return CancelOutcome::TooLate;
        }
        // What the caller finds if it leaves the run to others.
        let found = match self.has_begun() {
            true => CancelOutcome::Running,
            false => CancelOutcome::NotBegun,
        };
        // Released first: the end of a run without callers is a result, too.
        let is_released = (self.release)();
        let found = self.callers.leave(asked).unwrap_or(found);
        match is_released {
            true => found,
            false => CancelOutcome::TooLate,
        }
    }

    fn has_begun(&self) -> bool {
        self.callers.has_begun()
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) && self.callers.run().is_none()
    }
}
