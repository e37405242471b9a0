//! A turn at the desk: every decision that is made with its lock held.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tidegate_core::prim::{ModelMutexGuard as MutexGuard, Ordering};

use super::desk::{Desk, DeskLimits, MOVE, Next, Placed, Sent, State, Wake, Work, hand};
use super::seat::Seat;

/// A turn at the [`Desk`]; gives access to the queue.
pub struct Turn<'a, J, W: Work<J>> {
    pub(super) desk: &'a Desk<J, W>,
    pub(super) state: MutexGuard<'a, State<J, W>>,
}

impl<J, W: Work<J>> Desk<J, W> {
    /// Steps up to the desk: nobody else does until the turn is dropped.
    #[inline]
    pub fn turn(&self) -> Turn<'_, J, W> {
        Turn {
            desk: self,
            // What a panicking holder left is whole: no code of the user's runs under the lock
            // but the queue's.
            state: self
                .state
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        }
    }

    /// The same if nobody stands there now.
    pub fn try_turn(&self) -> Option<Turn<'_, J, W>> {
        use std::sync::TryLockError;
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Turn { desk: self, state })
    }
}

impl<J, W: Work<J>> Turn<'_, J, W> {
    /// Finds a place for `job`. `has_room` says whether the queue would take it, `urgent` whether
    /// it may have any thread up to the maximum before it waits.
    pub fn place(&mut self, job: J, has_room: bool, urgent: bool) -> Placed<J> {
        let state = &mut *self.state;
        let looks_on = state.idle.last().is_some_and(|top| top.is_awake());
        if (state.searching || state.put_off)
            && has_room
            && !looks_on
            && (!state.idle.is_empty() || self.desk.reserve.has_any())
        {
            return Placed::Queue(job);
        }
        if let Some(seat) = state.idle.pop() {
            return Placed::Handed(self.send(seat, job));
        }
        let first = match urgent {
            true => state.limits.max,
            false => state.limits.first(),
        };
        if state.threads < first {
            state.threads += 1;
            return Placed::Start(job);
        }
        if let Some(seat) = self.desk.reserve.claim() {
            return Placed::Handed(self.send(seat, job));
        }
        if has_room {
            return Placed::Queue(job);
        }
        if state.threads < state.limits.max {
            state.threads += 1;
            return Placed::Start(job);
        }
        Placed::Full(job)
    }

    /// Whether the next job had better wait a moment in the queue: every idle worker sleeps, and
    /// a busy one has been quick lately. Returns how often to look whether that one came
    /// ([`Desk::is_put_off`]). The caller puts the job into the queue, [puts the wakeup
    /// off](Turn::put_off), gives up the lock, looks, and if nobody came, [makes up for the
    /// wakeup](Turn::make_up).
    #[inline]
    pub fn may_put_off(&mut self) -> Option<u32> {
        let state = &mut *self.state;
        if state.searching || state.put_off || state.patience.is_none() {
            return None;
        }
        let top = state.idle.last()?;
        if top.is_awake() || state.threads <= self.ready() {
            return None;
        }
        self.state.patience.begin()
    }

    /// Notes that the wakeup for a job, which lies in the queue already, is put off.
    #[inline]
    pub fn put_off(&mut self) {
        self.state.put_off = true;
    }

    /// Nobody came in time: sends a worker after what waits.
    pub fn make_up(&mut self) -> Option<Sent<J>> {
        if !std::mem::take(&mut self.state.put_off) {
            return None;
        }
        self.state.patience.was_in_vain();
        self.relieve()
    }

    /// Gives `job` to an idle worker outside the reserve.
    ///
    /// # Errors
    ///
    /// The job, when there is none.
    pub fn hand_idle(&mut self, job: J) -> Result<Wake<J>, J> {
        match self.state.idle.pop() {
            Some(seat) => Ok(hand(seat, job)),
            None => Err(job),
        }
    }

    /// What the worker of `seat`, which has nothing to do, does next.
    pub fn next(&mut self, seat: &Arc<Seat<J>>) -> Next<J> {
        let state = &mut *self.state;
        state.moves += 1;
        if state.threads > state.limits.max {
            state.threads -= 1;
            return Next::Leave;
        }
        if let Some(job) = state.work.take() {
            if state.put_off && state.work.is_empty() {
                state.put_off = false;
                state.patience.has_paid();
            }
            return Next::Run(job);
        }
        if state.closed {
            state.threads -= 1;
            return Next::Leave;
        }
        Next::Wait {
            look: self.sit(seat),
        }
    }

    /// Called by a worker that was woken to run a job, before it does: sends the next one after
    /// what waits.
    pub fn arrived(&mut self) -> Option<Sent<J>> {
        self.state.searching = false;
        self.relieve()
    }

    /// What a worker that was [started for what waits](Sent::Start) does first, and who is sent
    /// after the rest.
    pub fn started(&mut self, seat: &Arc<Seat<J>>) -> (Next<J>, Option<Sent<J>>) {
        self.state.starting -= 1;
        let next = self.next(seat);
        (next, self.relieve())
    }

    /// Takes back the count of a thread that could not be started, for what waits or with a job of
    /// its own. What waits may have relied on it: an idle worker is sent instead.
    pub fn not_started(&mut self, for_waiting: bool) -> Option<Wake<J>> {
        self.state.threads -= 1;
        self.state.starting -= usize::from(for_waiting);
        self.send_idle()
    }

    /// Sends a worker after what waits: an idle one, or a new one where one may start. Whoever is
    /// sent does the same when it comes, so that no job waits for want of a wakeup.
    fn relieve(&mut self) -> Option<Sent<J>> {
        match self.send_idle() {
            Some(wake) => Some(Sent::Idle(wake)),
            None => self.count_for_waiting().then_some(Sent::Start),
        }
    }

    /// Hands what waits to idle workers, until one of them has to be woken for it.
    fn send_idle(&mut self) -> Option<Wake<J>> {
        while !self.state.work.is_empty() {
            if self.state.idle.is_empty() {
                // Among the idle it is found again, should the queue panic.
                let claimed = self.desk.reserve.claim()?;
                self.state.idle.push(claimed);
            }
            let job = self.state.work.take()?;
            let Some(seat) = self.state.idle.pop() else {
                unreachable!("the queue has no way to the idle workers");
            };
            let wake = self.send(seat, job);
            if wake.asleep {
                return Some(wake);
            }
        }
        None
    }

    /// What an idle worker that woke up without a job does next; `expired` says that its time is
    /// up. It goes on waiting, also if a job is on its way to it, or leaves, unless there is a job
    /// that waits for another worker on its way.
    pub fn again(&mut self, seat: &Arc<Seat<J>>, expired: bool) -> Next<J> {
        let state = &*self.state;
        let limits = state.limits;
        let surplus = state.threads > limits.max;
        let leaves = state.closed || surplus || (expired && state.threads > limits.core);
        if !leaves || !self.stand_up(seat) {
            return Next::Wait { look: false };
        }
        if !surplus && let Some(job) = self.state.work.take() {
            return Next::Run(job);
        }
        self.state.threads -= 1;
        Next::Leave
    }

    /// Counts a thread if one more may start.
    pub fn count_thread(&mut self) -> bool {
        let state = &mut *self.state;
        let may = state.threads < state.limits.max && !state.closed;
        state.threads += usize::from(may);
        may
    }

    /// Counts a thread for what waits, if more waits than threads are on their way for, and one
    /// more may start. It comes to the desk with [`Turn::started`].
    pub fn count_for_waiting(&mut self) -> bool {
        let state = &mut *self.state;
        let (starting, limits) = (state.starting, state.limits);
        let may = (state.threads < limits.first() && state.work.len() > starting)
            || (state.threads < limits.max && state.work.urgent() > starting);
        state.threads += usize::from(may);
        state.starting += usize::from(may);
        may
    }

    /// Takes back the count of a thread that ends without having asked.
    pub fn uncount_thread(&mut self) {
        self.state.threads -= 1;
    }

    /// Changes every limit at once. The answer wakes the idle workers, so that they look whether
    /// they should leave.
    pub fn set_limits(&mut self, limits: DeskLimits, reserved: usize) -> Vec<Wake<J>> {
        self.state.limits = limits;
        self.desk.reserve.set_capacity(reserved);
        // Everybody moves out of the reserve, so that a smaller one is one at once, and the
        // first that fit go back.
        self.empty_reserve();
        let wakes = self.poke();
        let reserve = &self.desk.reserve;
        self.state.idle.retain(|seat| !reserve.put(seat));
        wakes
    }

    /// Changes how many threads are leased.
    pub fn set_leased(&mut self, leased: usize) {
        self.state.limits.leased = leased;
    }

    /// Lets workers end once nothing waits. The answer wakes the idle ones.
    pub fn close(&mut self) -> Vec<Wake<J>> {
        self.state.closed = true;
        self.empty_reserve();
        self.poke()
    }

    /// Closes the seats of all workers, after the desk was closed: what was given and not begun
    /// is put into `left`, and nobody is idle any more. The answer wakes them, and they come to
    /// the desk to leave.
    pub fn dismiss(&mut self, seats: &[Arc<Seat<J>>], left: &mut Vec<J>) -> Vec<Wake<J>> {
        debug_assert!(self.state.closed, "workers would sit down again");
        self.empty_reserve();
        self.state.idle.clear();
        self.state.searching = false;
        self.state.put_off = false;
        let wakes = seats.iter().map(|seat| {
            left.extend(seat.close());
            Wake {
                seat: Arc::clone(seat),
                asleep: true,
            }
        });
        wakes.collect()
    }

    /// Whether the desk was closed.
    pub fn is_closed(&self) -> bool {
        self.state.closed
    }

    /// Threads, started or about to.
    pub fn threads(&self) -> usize {
        self.state.threads
    }

    /// Workers that wait and have no job promised, those in reserve included.
    pub fn ready(&self) -> usize {
        self.state.idle.len() + self.desk.reserve.available()
    }

    /// The limits in force.
    pub fn limits(&self) -> DeskLimits {
        self.state.limits
    }

    fn send(&mut self, seat: Arc<Seat<J>>, job: J) -> Wake<J> {
        let wake = hand(seat, job);
        if wake.asleep {
            self.state.searching = true;
        }
        wake
    }

    /// Sits down in the reserve, or among the idle; true if the worker may look on for a while.
    /// One worker that looks on is enough; it stays the next to be taken.
    fn sit(&mut self, seat: &Arc<Seat<J>>) -> bool {
        let idle = &mut self.state.idle;
        let awake = idle.last().is_some_and(|top| top.is_awake());
        if self.desk.reserve.put(seat) {
            return !awake;
        }
        let at = idle.len() - usize::from(awake);
        idle.insert(at, Arc::clone(seat));
        !awake
    }

    fn stand_up(&mut self, seat: &Arc<Seat<J>>) -> bool {
        let idle = &mut self.state.idle;
        if let Some(at) = idle.iter().position(|one| Arc::ptr_eq(one, seat)) {
            idle.remove(at);
            return true;
        }
        self.desk.reserve.withdraw(seat)
    }

    fn empty_reserve(&mut self) {
        while let Some(seat) = self.desk.reserve.claim() {
            self.state.idle.push(seat);
        }
    }

    fn poke(&self) -> Vec<Wake<J>> {
        let idle = self.state.idle.iter().map(Arc::clone);
        idle.map(|seat| Wake { seat, asleep: true }).collect()
    }
}

impl<J, W: Work<J>> Deref for Turn<'_, J, W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.state.work
    }
}

impl<J, W: Work<J>> DerefMut for Turn<'_, J, W> {
    fn deref_mut(&mut self) -> &mut W {
        &mut self.state.work
    }
}

impl<J, W: Work<J>> Drop for Turn<'_, J, W> {
    /// Leaves the counts for whoever looks without the lock.
    #[inline]
    fn drop(&mut self) {
        let state = &*self.state;
        let narrow = |count: usize| count.min(0xFFFF) as u64;
        let queued = u64::from(u32::try_from(state.work.len()).unwrap_or(u32::MAX));
        let word = narrow(state.idle.len()) | narrow(state.threads) << 16 | queued << 32;
        self.desk.tally.store(word, Ordering::Relaxed);
        let moves = (state.moves * MOVE) | u64::from(state.put_off);
        self.desk.moves.store(moves, Ordering::Relaxed);
    }
}

impl<J, W: Work<J>> fmt::Debug for Turn<'_, J, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("threads", &self.threads())
            .field("ready", &self.ready())
            .finish_non_exhaustive()
    }
}
