//! The desk: who gets a job, who sits down, who leaves.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::patience::Patience;
use super::reserve::Reserve;
use super::seat::Seat;
use crate::prim::{AtomicU64, ModelMutex as Mutex, ModelMutexGuard as MutexGuard, Ordering};

/// What waits at a [`Desk`]: the jobs themselves belong to whoever made it.
pub trait Work<J> {
    /// Takes the job that is to run next.
    fn take(&mut self) -> Option<J>;
    /// How many jobs wait.
    fn len(&self) -> usize;
    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a pool does first when all its threads are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Starts threads up to the maximum, then queues.
    #[default]
    ThreadsFirst,
    /// Starts threads up to the core size, then queues, and starts more when the queue is full.
    QueueFirst,
}

/// How many threads there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskLimits {
    /// Threads that stay though they are idle.
    pub core: usize,
    /// The most threads.
    pub max: usize,
    /// What comes first when all are busy.
    pub growth: Growth,
}

/// The lowest bit of the word of moves: a wakeup is owed.
const PUT_OFF: u64 = 1;
/// One move in that word.
const MOVE: u64 = 2;

/// Idle workers, queued jobs and the counts of both, under one lock.
///
/// `W` is the queue. See the module for how jobs and workers meet.
///
/// Every turn writes here, and turns alternate between threads: what changes lies together, in
/// the order of these fields, so that as few cache lines as possible move with the lock. A queue
/// does well to begin with what changes, too.
#[repr(C, align(64))]
pub struct Desk<J, W> {
    tally: AtomicU64,
    /// How often a worker has come for its next job, and in the lowest bit whether a submitter
    /// has put off a wakeup.
    moves: AtomicU64,
    state: Mutex<State<J, W>>,
    reserve: Reserve<J>,
}

#[repr(C)]
struct State<J, W> {
    /// How often a worker has come for its next job.
    moves: u64,
    threads: usize,
    patience: Patience,
    /// A woken worker has not come back to the desk yet.
    searching: bool,
    /// A submitter has put off a wakeup: it, or a worker that was busy, looks after what waits.
    put_off: bool,
    closed: bool,
    /// Newest last.
    idle: Vec<Arc<Seat<J>>>,
    limits: DeskLimits,
    work: W,
}

/// The counts of a desk at one moment, read without its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Idle workers outside the reserve.
    pub idle: usize,
    /// Threads, started or about to.
    pub threads: usize,
    /// Jobs that wait.
    pub queued: usize,
}

/// What becomes of a job.
#[derive(Debug)]
#[must_use = "the job may be inside"]
pub enum Placed<J> {
    /// An idle worker has it.
    Handed(Wake<J>),
    /// It goes to a new thread, which is counted already.
    Start(J),
    /// It has to wait: the caller puts it into the queue before it gives up the lock.
    Queue(J),
    /// There is neither a thread nor room for it.
    Full(J),
}

/// What a worker that comes to the desk does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<J> {
    /// Runs this.
    Run(J),
    /// Waits in its seat.
    Wait {
        /// Looks on for a while before it sleeps.
        look: bool,
    },
    /// Ends. It is not counted any more.
    Leave,
}

/// A worker that may have to be woken, when no lock is held any more: dropping this does it.
#[must_use = "dropping it wakes the worker: drop it after the lock"]
pub struct Wake<J> {
    seat: Arc<Seat<J>>,
    asleep: bool,
}

impl<J> Wake<J> {
    /// Whether the worker sleeps, so that waking it costs a system call.
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }
}

impl<J> Drop for Wake<J> {
    fn drop(&mut self) {
        if self.asleep {
            self.seat.wake();
        }
    }
}

impl<J> fmt::Debug for Wake<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake")
            .field("asleep", &self.asleep)
            .finish_non_exhaustive()
    }
}

impl<J, W: Work<J>> Desk<J, W> {
    /// A desk without workers over the queue `work`.
    pub fn new(work: W, limits: DeskLimits, reserved: usize) -> Self {
        Self {
            state: Mutex::new(State {
                work,
                idle: Vec::new(),
                searching: false,
                put_off: false,
                patience: Patience::new(),
                threads: 0,
                limits,
                closed: false,
                moves: 0,
            }),
            reserve: Reserve::new(reserved),
            tally: AtomicU64::new(0),
            moves: AtomicU64::new(0),
        }
    }

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

    /// The workers in reserve.
    pub fn reserve(&self) -> &Reserve<J> {
        &self.reserve
    }

    /// Gives `job` to a worker in reserve. Takes no lock and never waits.
    ///
    /// # Errors
    ///
    /// The job, when nobody is in reserve.
    pub fn claim(&self, job: J) -> Result<Wake<J>, J> {
        match self.reserve.claim() {
            Some(seat) => Ok(hand(seat, job)),
            None => Err(job),
        }
    }

    /// The counts at this moment, without the lock.
    pub fn tally(&self) -> Tally {
        let word = self.tally.load(Ordering::Relaxed);
        Tally {
            idle: (word & 0xFFFF) as usize,
            threads: (word >> 16 & 0xFFFF) as usize,
            queued: (word >> 32) as usize,
        }
    }
}

impl<J, W> Desk<J, W> {
    /// How often a worker has come to the desk for its next job, without the lock. While it
    /// grows, not every worker is held by what it runs.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed) / MOVE
    }

    /// Whether a wakeup that was put off is still owed. A look, for whoever put it off.
    #[inline]
    pub fn is_put_off(&self) -> bool {
        self.moves.load(Ordering::Relaxed) & PUT_OFF != 0
    }
}

impl<J, W> fmt::Debug for Desk<J, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("reserve", &self.reserve)
            .finish_non_exhaustive()
    }
}

fn hand<J>(seat: Arc<Seat<J>>, job: J) -> Wake<J> {
    let Ok(asleep) = seat.give(job) else {
        unreachable!("an idle worker's seat is empty, and whoever took it out is alone with it");
    };
    Wake { seat, asleep }
}

/// A turn at the [`Desk`]; gives access to the queue.
pub struct Turn<'a, J, W: Work<J>> {
    desk: &'a Desk<J, W>,
    state: MutexGuard<'a, State<J, W>>,
}

impl<J, W: Work<J>> Turn<'_, J, W> {
    /// Finds a place for `job`. `has_room` says whether the queue would take it.
    pub fn place(&mut self, job: J, has_room: bool) -> Placed<J> {
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
        let first = match state.limits.growth {
            Growth::ThreadsFirst => state.limits.max,
            Growth::QueueFirst => state.limits.core,
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

    /// Whether the next job had better wait a moment in the queue: everybody who is idle
    /// sleeps, and somebody who is busy has been quick lately. The answer is how often to look
    /// whether that one came ([`Desk::is_put_off`]). The caller puts the job into the queue, gives
    /// up the lock, looks, and if nobody came, [makes up for the wakeup](Turn::make_up).
    #[inline]
    pub fn put_off(&mut self) -> Option<u32> {
        let state = &mut *self.state;
        if state.searching || state.put_off || state.patience.is_none() {
            return None;
        }
        let top = state.idle.last()?;
        if top.is_awake() || state.threads <= self.ready() {
            return None;
        }
        let state = &mut *self.state;
        let looks = state.patience.begin()?;
        state.put_off = true;
        Some(looks)
    }

    /// Nobody came in time: wakes an idle worker for what waits.
    pub fn make_up(&mut self) -> Option<Wake<J>> {
        if !std::mem::take(&mut self.state.put_off) {
            return None;
        }
        self.state.patience.was_in_vain();
        self.send_idle()
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

    /// Called by a worker that was woken to run a job, before it does: sends the next idle one
    /// after what waits.
    pub fn arrived(&mut self) -> Option<Wake<J>> {
        self.state.searching = false;
        self.send_idle()
    }

    /// Sends an idle worker after what waits.
    fn send_idle(&mut self) -> Option<Wake<J>> {
        if self.state.work.is_empty() {
            return None;
        }
        let idle = self.state.idle.pop();
        let seat = idle.or_else(|| self.desk.reserve.claim())?;
        match self.state.work.take() {
            Some(job) => Some(self.send(seat, job)),
            None => {
                // The queue gave up what it had: nobody is needed.
                self.state.idle.push(seat);
                None
            }
        }
    }

    /// What an idle worker that woke up without a job does next; `expired` says that its time is
    /// up. It goes on waiting, also if a job is on its way to it, or leaves.
    pub fn again(&mut self, seat: &Arc<Seat<J>>, expired: bool) -> Next<J> {
        let state = &mut *self.state;
        let limits = state.limits;
        let leaves =
            state.closed || state.threads > limits.max || (expired && state.threads > limits.core);
        if leaves && self.stand_up(seat) {
            self.state.threads -= 1;
            return Next::Leave;
        }
        Next::Wait { look: false }
    }

    /// Counts a thread if one more may start.
    pub fn count_thread(&mut self) -> bool {
        let state = &mut *self.state;
        let may = state.threads < state.limits.max && !state.closed;
        state.threads += usize::from(may);
        may
    }

    /// Takes back the count of a thread that could not be started.
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

    /// Lets workers end once nothing waits. The answer wakes the idle ones.
    pub fn close(&mut self) -> Vec<Wake<J>> {
        self.state.closed = true;
        self.empty_reserve();
        self.poke()
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
