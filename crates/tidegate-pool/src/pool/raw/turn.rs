//! The dispatch guard: every decision that is made with the dispatcher's lock held.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_core::internal::prim::{ModelMutexGuard as MutexGuard, Ordering};

use super::dispatcher::{
    Dispatch, DispatchLimits, Dispatcher, JobSource, MOVE, State, WorkerStep, WorkerWake,
    WorkerWanted, hand,
};
use super::worker_slot::WorkerSlot;

/// The lock guard of a [`Dispatcher`]. It dereferences to the queue.
pub struct DispatchGuard<'a, J, W: JobSource<J>> {
    pub(super) dispatcher: &'a Dispatcher<J, W>,
    pub(super) state: MutexGuard<'a, State<J, W>>,
}

impl<J, W: JobSource<J>> Dispatcher<J, W> {
    /// Locks the dispatcher until the guard is dropped.
    #[inline]
    pub fn turn(&self) -> DispatchGuard<'_, J, W> {
        DispatchGuard {
            dispatcher: self,
            // The state is consistent even after a panic of the holder: no user code runs under the
            // lock.
            state: self
                .state
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        }
    }

    /// Locks the dispatcher if no other thread holds the lock.
    pub fn try_turn(&self) -> Option<DispatchGuard<'_, J, W>> {
        use std::sync::TryLockError;
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(DispatchGuard {
            dispatcher: self,
            state,
        })
    }
}

impl<J, W: JobSource<J>> DispatchGuard<'_, J, W> {
    /// Decides where `job` goes. `has_room` says whether the queue would take it. `urgent` says
    /// whether it may use any thread up to the maximum before it is queued.
    pub fn place(&mut self, job: J, has_room: bool, urgent: bool) -> Dispatch<J> {
        let state = &mut *self.state;
        let looks_on = state.idle.last().is_some_and(|top| top.is_awake());
        if (state.searching || state.wake_deferred)
            && has_room
            && !looks_on
            && (!state.idle.is_empty() || self.dispatcher.reserve.has_any())
        {
            return Dispatch::Queue(job);
        }
        if let Some(worker_slot) = state.idle.pop() {
            return Dispatch::Handed(self.send(worker_slot, job));
        }
        let first = match urgent {
            true => state.limits.max,
            false => state.limits.first(),
        };
        if state.threads < first {
            state.threads += 1;
            return Dispatch::Start(job);
        }
        if let Some(worker_slot) = self.dispatcher.reserve.claim() {
            return Dispatch::Handed(self.send(worker_slot, job));
        }
        if has_room {
            return Dispatch::Queue(job);
        }
        if state.threads < state.limits.max {
            state.threads += 1;
            return Dispatch::Start(job);
        }
        Dispatch::Full(job)
    }

    /// Checks whether the wake-up for the next job should be deferred: every idle worker sleeps, at
    /// least one worker is busy, and deferring has helped lately. Returns how many spins to wait
    /// for a busy worker ([`Dispatcher::is_wake_deferred`]). The caller then adds the job to the
    /// queue, [defers the wake-up](DispatchGuard::defer_wake), releases the lock and waits. If no
    /// worker came, it [performs the wake-up](DispatchGuard::perform_deferred_wake).
    #[inline]
    pub fn may_defer_wake(&mut self) -> Option<u32> {
        let state = &mut *self.state;
        if state.searching || state.wake_deferred || state.wake_backoff.is_none() {
            return None;
        }
        let top = state.idle.last()?;
        if top.is_awake() || state.threads <= self.ready() {
            return None;
        }
        self.state.wake_backoff.begin()
    }

    /// Records that the wake-up for a job, which is queued already, is deferred.
    #[inline]
    pub fn defer_wake(&mut self) {
        self.state.wake_deferred = true;
    }

    /// Performs a deferred wake-up, if it is still owed: sends a worker to the queued jobs.
    pub fn perform_deferred_wake(&mut self) -> Option<WorkerWanted<J>> {
        if !std::mem::take(&mut self.state.wake_deferred) {
            return None;
        }
        self.state.wake_backoff.was_in_vain();
        self.send_worker()
    }

    /// Gives `job` to an idle worker that is not reserved.
    ///
    /// # Errors
    ///
    /// Returns the job if there is no such worker.
    pub fn give_to_idle(&mut self, job: J) -> Result<WorkerWake<J>, J> {
        match self.state.idle.pop() {
            Some(worker_slot) => Ok(hand(worker_slot, job)),
            None => Err(job),
        }
    }

    /// Decides what the worker of `worker_slot`, which has no job, does next.
    pub fn next_step(&mut self, worker_slot: &Arc<WorkerSlot<J>>) -> WorkerStep<J> {
        let state = &mut *self.state;
        state.finished_jobs += 1;
        if state.threads > state.limits.max {
            state.threads -= 1;
            return WorkerStep::Leave;
        }
        if let Some(job) = state.work.take() {
            if state.wake_deferred && state.work.is_empty() {
                state.wake_deferred = false;
                state.wake_backoff.has_paid();
            }
            return WorkerStep::Run(job);
        }
        if state.closed || state.idle_leave {
            state.threads -= 1;
            return WorkerStep::Leave;
        }
        WorkerStep::Wait {
            look: self.register_idle(worker_slot),
        }
    }

    /// Sends the next worker to the queued jobs. Called by a worker that was woken to run a job,
    /// before it runs the job.
    pub fn woken_worker_arrived(&mut self) -> Option<WorkerWanted<J>> {
        self.state.searching = false;
        self.send_worker()
    }

    /// Decides what a worker that was [started for queued jobs](WorkerWanted::Start) does first,
    /// and which worker takes care of the remaining jobs.
    pub fn started(
        &mut self,
        worker_slot: &Arc<WorkerSlot<J>>,
    ) -> (WorkerStep<J>, Option<WorkerWanted<J>>) {
        self.state.starting -= 1;
        let next = self.next_step(worker_slot);
        (next, self.send_worker())
    }

    /// Takes back the count of a thread that could not be started, for queued jobs or with its own
    /// job. Queued jobs may have relied on it, so an idle worker is sent instead.
    pub fn not_started(&mut self, for_waiting: bool) -> Option<WorkerWake<J>> {
        self.state.threads -= 1;
        self.state.starting -= usize::from(for_waiting);
        self.send_idle()
    }

    /// Sends a worker to the queued jobs: an idle one, or a new one if a thread may start. That
    /// worker does the same when it arrives, so no wake-up is lost.
    fn send_worker(&mut self) -> Option<WorkerWanted<J>> {
        match self.send_idle() {
            Some(wake) => Some(WorkerWanted::Idle(wake)),
            None => self.count_for_waiting().then_some(WorkerWanted::Start),
        }
    }

    /// Hands queued jobs to idle workers, until one of them has to be woken for its job.
    fn send_idle(&mut self) -> Option<WorkerWake<J>> {
        while !self.state.work.is_empty() {
            if self.state.idle.is_empty() {
                let claimed = self.dispatcher.reserve.claim()?;
                self.state.idle.push(claimed);
            }
            let job = self.state.work.take()?;
            let Some(worker_slot) = self.state.idle.pop() else {
                unreachable!("the queue has no way to the idle workers");
            };
            let wake = self.send(worker_slot, job);
            if wake.asleep {
                return Some(wake);
            }
        }
        None
    }

    /// Decides what an idle worker that woke up without a job does next. `expired` says that its
    /// idle time is over. The worker keeps waiting if it should not end, or if a job is about to be
    /// written into its slot. Otherwise it ends, unless a job is queued, which it takes. A surplus
    /// worker ends in any case.
    pub fn recheck_idle(
        &mut self,
        worker_slot: &Arc<WorkerSlot<J>>,
        expired: bool,
    ) -> WorkerStep<J> {
        let state = &*self.state;
        let limits = state.limits;
        let surplus = state.threads > limits.max;
        let leaves = state.closed || surplus || (expired && state.threads > limits.core);
        if !leaves || !self.unregister_idle(worker_slot) {
            return WorkerStep::Wait { look: false };
        }
        if !surplus && let Some(job) = self.state.work.take() {
            return WorkerStep::Run(job);
        }
        self.state.threads -= 1;
        WorkerStep::Leave
    }

    /// Counts one more thread if one may start.
    pub fn count_thread(&mut self) -> bool {
        let state = &mut *self.state;
        let may = state.threads < state.limits.max && !state.closed;
        state.threads += usize::from(may);
        may
    }

    /// Counts one more thread for the queued jobs, if more jobs are queued than threads are
    /// starting for them and one more may start. That thread calls [`DispatchGuard::started`]
    /// first.
    pub fn count_for_waiting(&mut self) -> bool {
        let state = &mut *self.state;
        let (starting, limits) = (state.starting, state.limits);
        let may = (state.threads < limits.first() && state.work.len() > starting)
            || (state.threads < limits.max && state.work.urgent() > starting);
        state.threads += usize::from(may);
        state.starting += usize::from(may);
        may
    }

    /// Changes every limit at once. Returns wake-ups for the idle workers, so that they check
    /// whether they should end.
    pub fn set_limits(&mut self, limits: DispatchLimits, reserved: usize) -> Vec<WorkerWake<J>> {
        self.state.limits = limits;
        self.dispatcher.reserve.set_capacity(reserved);
        // All workers leave the reserve, so that a smaller capacity applies at once. The first ones
        // that fit go back.
        self.empty_reserve();
        let wakes = self.wake_all_idle();
        let reserve = &self.dispatcher.reserve;
        self.state
            .idle
            .retain(|worker_slot| !reserve.put(worker_slot));
        wakes
    }

    /// Makes workers without a job end at once: their threads are borrowed.
    pub fn let_idle_leave(&mut self) {
        self.state.idle_leave = true;
    }

    /// Changes how many threads are leased.
    pub fn set_leased(&mut self, leased: usize) {
        self.state.limits.leased = leased;
    }

    /// Closes the dispatcher: workers end once no job is queued. Returns wake-ups for the idle
    /// workers.
    pub fn close(&mut self) -> Vec<WorkerWake<J>> {
        self.state.closed = true;
        self.empty_reserve();
        self.wake_all_idle()
    }

    /// Closes the slots of all workers, after the dispatcher was closed. Jobs that were handed over
    /// and not begun are moved to `left`, and no worker is idle any more. Returns wake-ups for the
    /// workers, which then call the dispatcher and end.
    pub fn dismiss(
        &mut self,
        seats: &[Arc<WorkerSlot<J>>],
        left: &mut Vec<J>,
    ) -> Vec<WorkerWake<J>> {
        debug_assert!(self.state.closed, "workers would sit down again");
        self.empty_reserve();
        self.state.idle.clear();
        self.state.searching = false;
        self.state.wake_deferred = false;
        let wakes = seats.iter().map(|worker_slot| {
            left.extend(worker_slot.close());
            WorkerWake {
                worker_slot: Arc::clone(worker_slot),
                asleep: true,
            }
        });
        wakes.collect()
    }

    /// Returns `true` if the dispatcher was closed.
    pub fn is_closed(&self) -> bool {
        self.state.closed
    }

    /// Returns the number of threads that are started or about to start.
    pub fn threads(&self) -> usize {
        self.state.threads
    }

    /// Returns the number of idle workers without a job, including the reserved ones.
    pub fn ready(&self) -> usize {
        self.state.idle.len() + self.dispatcher.reserve.available()
    }

    /// Returns the current limits.
    pub fn limits(&self) -> DispatchLimits {
        self.state.limits
    }

    fn send(&mut self, worker_slot: Arc<WorkerSlot<J>>, job: J) -> WorkerWake<J> {
        let wake = hand(worker_slot, job);
        if wake.asleep {
            self.state.searching = true;
        }
        wake
    }

    /// Registers a worker as reserved, or as idle. Returns `true` if the worker may spin for a
    /// while. One spinning worker is enough; it stays the next to be taken.
    fn register_idle(&mut self, worker_slot: &Arc<WorkerSlot<J>>) -> bool {
        let idle = &mut self.state.idle;
        let awake = idle.last().is_some_and(|top| top.is_awake());
        if self.dispatcher.reserve.put(worker_slot) {
            return !awake;
        }
        let at = idle.len() - usize::from(awake);
        idle.insert(at, Arc::clone(worker_slot));
        !awake
    }

    fn unregister_idle(&mut self, worker_slot: &Arc<WorkerSlot<J>>) -> bool {
        let idle = &mut self.state.idle;
        if let Some(at) = idle.iter().position(|one| Arc::ptr_eq(one, worker_slot)) {
            idle.remove(at);
            return true;
        }
        self.dispatcher.reserve.withdraw(worker_slot)
    }

    fn empty_reserve(&mut self) {
        while let Some(worker_slot) = self.dispatcher.reserve.claim() {
            self.state.idle.push(worker_slot);
        }
    }

    fn wake_all_idle(&self) -> Vec<WorkerWake<J>> {
        let idle = self.state.idle.iter().map(Arc::clone);
        idle.map(|worker_slot| WorkerWake {
            worker_slot,
            asleep: true,
        })
        .collect()
    }
}

impl<J, W: JobSource<J>> Deref for DispatchGuard<'_, J, W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.state.work
    }
}

impl<J, W: JobSource<J>> DerefMut for DispatchGuard<'_, J, W> {
    fn deref_mut(&mut self) -> &mut W {
        &mut self.state.work
    }
}

impl<J, W: JobSource<J>> Drop for DispatchGuard<'_, J, W> {
    /// Publishes the counts for readers that do not take the lock.
    #[inline]
    fn drop(&mut self) {
        let state = &*self.state;
        let narrow = |count: usize| count.min(0xFFFF) as u64;
        let queued = u64::from(u32::try_from(state.work.len()).unwrap_or(u32::MAX));
        let word = narrow(state.idle.len()) | narrow(state.threads) << 16 | queued << 32;
        self.dispatcher.tally.store(word, Ordering::Relaxed);
        let finished_jobs = (state.finished_jobs * MOVE) | u64::from(state.wake_deferred);
        self.dispatcher
            .finished_jobs
            .store(finished_jobs, Ordering::Relaxed);
    }
}

impl<J, W: JobSource<J>> fmt::Debug for DispatchGuard<'_, J, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchGuard")
            .field("threads", &self.threads())
            .field("ready", &self.ready())
            .finish_non_exhaustive()
    }
}
