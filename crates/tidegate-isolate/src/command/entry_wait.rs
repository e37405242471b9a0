//! An entry for a handler: without a free permit, the call waits in the queue of its command, and a
//! closure receives the entry on the handler's executor.
//!
//! ```text
//!              a permit is free, or the call is denied
//!   call ──────────────────────────────────────────────────▶ decided ──▶ then, on home
//!     │                                                      ▲  │  │
//!     └──▶ waiting ─────────────────────────────────────────┘  │  └──▶ dropped: home refused
//!             │    served, turned away, time over, closed       │
//!             └──────────────▶ left ◀──────────────────────────┘
//!                      the handle was dropped
//! ```
//!
//! One lock holds all of it, so one thread takes the closure: the executor, the thread that drops
//! the handle, or the one that learns that the executor has ended. No user code runs under the lock.
//!
//! The thread that frees a permit, or the timer, only decides and signals the executor. Hooks,
//! listeners and the closure run there. If the executor refuses the signal, the permit goes back on
//! that thread, and the rest runs on the callback threads of the command.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use tidegate_core::Executor;
use tidegate_core::internal::{Deliver, Delivery, PlainTask, SignalBlock, discard};

use super::admission::Denied;
use super::entry::Entry;
use super::options::{CallOptions, MaybeOptions, Terms};
use super::permit_wait::TimedPlace;
use super::report::CallRecord;
use super::shared::Shared;
use crate::breaker::{Settlement, Ticket};
use crate::error::{Cause, CommandError, Rejection, contain};
use crate::isolation::state::State;
use crate::lock::lock;
use crate::plugin::CallStage;
use crate::request::RequestContext;

/// What receives the entry of a call that may wait, or the reason why there is none.
pub(crate) trait Then<E>: FnOnce(Result<Entry, CommandError<E>>) + Send + 'static {}

impl<E, F: FnOnce(Result<Entry, CommandError<E>>) + Send + 'static> Then<E> for F {}

/// A call that may still wait for its permit. [`Command::admit_or_wait`] returns it.
///
/// Keep it where the call is needed. Dropping it leaves the queue at once, and the closure is then
/// dropped and not called. After the closure was called, it has no effect.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::mpsc::channel;
/// use std::time::Duration;
/// use tidegate_core::Executor;
/// use tidegate_isolate::{Command, Isolation, PermitConfig};
/// use tidegate_pool::ImmediateExecutor;
///
/// let isolation = Isolation::builder().build()?;
/// let permits = PermitConfig { max_wait: Duration::from_secs(1), ..PermitConfig::from(1) };
/// let prices: Command = Command::builder("prices").group("catalog").permits(permits).build(&isolation)?;
/// let home: Arc<dyn Executor> = Arc::new(ImmediateExecutor::new());
///
/// let first = prices.admit().expect("there is room");
/// let (send, entries) = channel();
/// let pending = prices.admit_or_wait(&home, move |admitted| send.send(admitted).unwrap());
/// assert!(pending.is_pending());
/// drop(first); // the permit goes to the call that waits
/// assert!(!pending.is_pending());
/// let second = entries.recv()?.expect("it waited");
/// assert!(second.verdict(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Command::admit_or_wait`]: crate::Command::admit_or_wait
#[must_use = "dropping it leaves the queue"]
pub struct PendingEntry {
    /// `None` if the closure was called at once, or the handle was detached.
    wait: Option<Arc<dyn Waits>>,
}

impl PendingEntry {
    /// Returns `true` if the closure was neither called nor dropped yet.
    pub fn is_pending(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.is_pending())
    }

    /// Leaves the queue, as dropping does, because the caller has left. That says nothing about the
    /// dependency: if the call is a probe, it frees its slot and does not open the breaker again.
    pub fn abandon(mut self) {
        if let Some(wait) = self.wait.take() {
            wait.leave(Settlement::Ignored);
        }
    }

    /// Makes the call wait without a handle. Only its queue and its deadline can end the wait then.
    pub fn detach(mut self) {
        self.wait = None;
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        if let Some(wait) = self.wait.take() {
            wait.leave(Settlement::Dropped);
        }
    }
}

debug_fields!(PendingEntry, this => is_pending: this.is_pending());

/// A wait without its types.
trait Waits: Send + Sync {
    fn is_pending(&self) -> bool;

    /// Ends the call as cancelled, unless the closure was taken. The breaker gets this settlement.
    fn leave(&self, settlement: Settlement);

    /// Signals the executor if the wait is decided.
    fn check(self: Arc<Self>);
}

/// The waker of a wait.
struct WakeWait(Arc<dyn Waits>);

impl Wake for WakeWait {
    fn wake(self: Arc<Self>) {
        Arc::clone(&self.0).check();
    }
}

/// A call whose closure was not called yet.
struct EntryWait<T, E, F> {
    shared: Arc<Shared<T, E>>,
    home: Arc<dyn Executor>,
    start: u64,
    terms: Terms,
    /// Taken by the thread that calls or drops the closure.
    pending: Mutex<Option<Pending<T, E, F>>>,
}

struct Pending<T, E, F> {
    options: CallOptions<T, E>,
    then: F,
    stage: Stage<E>,
}

/// How far a call has come.
enum Stage<E> {
    /// In the queue of the gate. The timer task ends the wait at its time.
    Waiting(Ticket, TimedPlace),
    /// A permit was taken for the call.
    Served(Ticket),
    /// The wait ended without a permit.
    Denied(Denied),
    /// The call did not have to wait, and its executor has to be told.
    AtOnce(Result<Entry, CommandError<E>>),
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Admits a call as an entry, or lets it wait. Calls `then` on `home`.
    pub(super) fn enter_or_wait<F: Then<E>>(
        self: &Arc<Self>,
        mut options: CallOptions<T, E>,
        home: &Arc<dyn Executor>,
        then: F,
    ) -> PendingEntry {
        let state = &*self.state;
        // The closure may run on another thread, which is in another request or in none.
        options.context = options.context.or_else(RequestContext::current);
        let (flags, start, terms) = (state.flags(), state.now(), options.terms(state));
        let stage = match state.admit_as::<true>(flags, start, terms) {
            Ok(call) => {
                let options = MaybeOptions(Some(&mut options));
                Stage::AtOnce(self.entry_of(call, flags, &options))
            }
            Err(Denied::Refused(Rejection::Permits, ticket)) if state.gate.may_wait() => {
                // The waker is set when the wait is first checked.
                match state.take_place(start, terms, Waker::noop()) {
                    Ok(place) => Stage::Waiting(ticket, place),
                    Err(refused) => Stage::Denied(Denied::Refused(refused, ticket)),
                }
            }
            Err(denied) => Stage::Denied(denied),
        };
        let answer = match stage {
            Stage::AtOnce(answer) => answer,
            Stage::Denied(denied) => Err(self.not_admitted(denied, (start, start), &options)),
            stage => {
                let pending = Pending {
                    options,
                    then,
                    stage,
                };
                return self.wait(home, (start, terms), pending);
            }
        };
        self.answer_on(options, home, then, answer)
    }

    /// Calls `then` with the answer on `home`: now if the calling thread runs `home`.
    pub(super) fn answer_on<F: Then<E>>(
        self: &Arc<Self>,
        options: CallOptions<T, E>,
        home: &Arc<dyn Executor>,
        then: F,
        answer: Result<Entry, CommandError<E>>,
    ) -> PendingEntry {
        if home.is_current() {
            self.call_then(&options, then, answer);
            return PendingEntry { wait: None };
        }
        let state = &*self.state;
        let (start, terms) = (state.now(), options.terms(state));
        let pending = Pending {
            options,
            then,
            stage: Stage::AtOnce(answer),
        };
        self.wait(home, (start, terms), pending)
    }

    fn wait<F: Then<E>>(
        self: &Arc<Self>,
        home: &Arc<dyn Executor>,
        (start, terms): (u64, Terms),
        pending: Pending<T, E, F>,
    ) -> PendingEntry {
        let wait: Arc<dyn Waits> = SignalBlock::new(EntryWait {
            shared: Arc::clone(self),
            home: Arc::clone(home),
            start,
            terms,
            pending: Mutex::new(Some(pending)),
        });
        Arc::clone(&wait).check();
        PendingEntry { wait: Some(wait) }
    }

    /// Calls the closure of the user, in the request of the call.
    fn call_then<F: Then<E>>(
        &self,
        options: &CallOptions<T, E>,
        then: F,
        answer: Result<Entry, CommandError<E>>,
    ) {
        let entered = options.context.as_ref().map(RequestContext::enter);
        let called = contain(|| then(answer));
        drop(entered);
        if let Err(message) = called {
            self.state.plugins.panicked(&self.state.key, &message);
        }
    }
}

impl<T: Send + 'static, E: Send + 'static, F: Then<E>> Waits for SignalBlock<EntryWait<T, E, F>> {
    fn is_pending(&self) -> bool {
        self.lock().is_some()
    }

    fn leave(&self, settlement: Settlement) {
        let pending = self.lock().take();
        if let Some(mut pending) = pending {
            self.free_place(&mut pending.stage);
            self.end_as_cancelled(pending, settlement);
        }
    }

    fn check(self: Arc<Self>) {
        if self.decide(&self)
            && let Some(signal) = self.raise()
        {
            // A refused signal is dropped, which delivers it as orphaned.
            drop(self.home.signal(signal));
        }
    }
}

impl<T: Send + 'static, E: Send + 'static, F: Then<E>> EntryWait<T, E, F> {
    /// Records how the wait has ended. Returns `false` if the call still waits, or if the closure
    /// was taken.
    fn decide(&self, this: &Arc<SignalBlock<Self>>) -> bool {
        let state = self.state();
        let mut pending = self.lock();
        let Some(Pending { stage, .. }) = &mut *pending else {
            return false;
        };
        let Stage::Waiting(ticket, place) = &*stage else {
            return true;
        };
        let (ticket, now) = (*ticket, state.now());
        let call = (ticket, self.terms.timeout);
        let waker = Waker::from(Arc::new(WakeWait(Arc::clone(this) as Arc<dyn Waits>)));
        let decided = match state.poll_place(place, call, now, &waker) {
            Some(Ok(())) => Stage::Served(ticket),
            Some(Err(denied)) => Stage::Denied(denied),
            None => return false,
        };
        let before = std::mem::replace(stage, decided);
        drop(pending);
        // Wakes this wait once more, which then finds that it is decided.
        if let Stage::Waiting(_, place) = before {
            state.end_place(place, now);
        }
        true
    }

    /// Ends the call on its executor: calls the closure.
    fn end_at_home(&self) {
        let taken = self.lock().take_if(|pending| pending.stage.is_decided());
        let Some(Pending {
            mut options,
            then,
            stage,
        }) = taken
        else {
            return;
        };
        let (shared, state) = (&*self.shared, self.state());
        let (now, flags) = (state.now(), state.flags());
        let denied = match stage {
            Stage::AtOnce(answer) => return shared.call_then(&options, then, answer),
            Stage::Served(ticket) if now < self.deadline() => match state.pass_again(ticket, now) {
                Ok(()) => {
                    let times = (self.start, now);
                    let call = state.begin_as::<true>(flags, ticket, times, self.terms.timeout);
                    let answer = shared.entry_of(call, flags, &MaybeOptions(Some(&mut options)));
                    return shared.call_then(&options, then, answer);
                }
                Err(denied) => denied,
            },
            // The executor was busy until the deadline.
            Stage::Served(ticket) => {
                state.release(now);
                Denied::Late(self.terms.timeout, ticket)
            }
            Stage::Denied(denied) => denied,
            Stage::Waiting(..) => unreachable!("a call that waits is not taken"),
        };
        let error = shared.not_admitted(denied, (self.start, now), &options);
        shared.call_then(&options, then, Err(error));
    }

    /// Ends the call because its executor has ended. This may be the thread of any other call.
    fn end_without_home(this: Arc<SignalBlock<Self>>) {
        let pending = this.lock().take();
        let Some(mut pending) = pending else {
            return;
        };
        this.free_place(&mut pending.stage);
        let state = this.state();
        let (alarms, aside) = (state.alarms.clone(), Arc::clone(&state.aside));
        let end = PlainTask::named("end of a wait", move || {
            this.end_as_cancelled(pending, Settlement::Dropped);
        });
        alarms.run_aside(&aside, end);
    }

    /// Gives back the place in the queue, or the permit. Runs no user code except the wakers of
    /// calls that wait.
    fn free_place(&self, stage: &mut Stage<E>) {
        let state = self.state();
        let now = state.now();
        if let Stage::Waiting(ticket, _) | Stage::Served(ticket) = *stage {
            let refused = Denied::Refused(Rejection::Permits, ticket);
            match std::mem::replace(stage, Stage::Denied(refused)) {
                Stage::Waiting(_, place) => state.leave_place(place, now),
                _ => state.release(now),
            }
        }
    }

    /// Counts the call as cancelled, and drops the closure. The place in the queue is free already.
    fn end_as_cancelled(&self, pending: Pending<T, E, F>, settlement: Settlement) {
        let Pending {
            mut options,
            then,
            stage,
        } = pending;
        match stage {
            Stage::AtOnce(Ok(entry)) if settlement == Settlement::Ignored => entry.abandon(),
            // An entry that is dropped counts as cancelled; a call that was denied is counted.
            Stage::AtOnce(answer) => drop(answer),
            stage => {
                let state = self.state();
                let now = state.now();
                if let Some(ticket) = stage.ticket() {
                    state.breaker.settle(ticket, settlement, now, 0);
                }
                let _ = state.hook(CallStage::Cancelled);
                let record = CallRecord::until(self.start, now);
                let _ = self.shared.failed(record, &mut options, Cause::Cancelled);
            }
        }
        discard(then);
    }

    fn deadline(&self) -> u64 {
        self.start.saturating_add(self.terms.timeout)
    }

    fn state(&self) -> &State {
        &self.shared.state
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pending<T, E, F>>> {
        lock(&self.pending)
    }
}

impl<T: Send + 'static, E: Send + 'static, F: Then<E>> Deliver for EntryWait<T, E, F> {
    fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
        match how {
            Delivery::Home => block.end_at_home(),
            Delivery::Orphaned => Self::end_without_home(block),
        }
    }
}

impl<E> Stage<E> {
    fn is_decided(&self) -> bool {
        !matches!(self, Self::Waiting(..))
    }

    /// Returns the ticket of a call that was not settled.
    fn ticket(&self) -> Option<Ticket> {
        match *self {
            Self::Waiting(ticket, _) | Self::Served(ticket) => Some(ticket),
            Self::Denied(Denied::Refused(_, ticket) | Denied::Late(_, ticket)) => Some(ticket),
            Self::Denied(_) | Self::AtOnce(_) => None,
        }
    }
}
