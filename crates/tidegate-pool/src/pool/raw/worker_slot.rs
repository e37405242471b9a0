//! The worker slot: where one idle worker waits, and where its next job is written. The giver is
//! the thread that writes the job; the closer is the thread that closes the slot.
//!
//! | state | meaning | next state |
//! |---|---|---|
//! | `EMPTY` | the worker is busy or spins | worker: to `ASLEEP`; giver: to `WRITING` |
//! | `ASLEEP` | the worker sleeps or is about to | worker: back to `EMPTY`; giver: to `WRITING` |
//! | `WRITING` | a giver writes the job | that giver: to `FULL` |
//! | `FULL` | the job is in the slot | worker: to `TAKING`; closer: to `CLOSED` |
//! | `TAKING` | the worker takes the job out | worker: to `EMPTY` |
//! | `CLOSED` | no job is accepted any more | none |
//!
//! A slot can be closed from any state except `WRITING` and `TAKING`, which last a few
//! instructions.

use std::fmt;

use tidegate_core::internal::prim::{AtomicU32, Ordering, UnsafeCell, spin_loop, yield_now};
use tidegate_core::{Clock, Parker};

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;
const WRITING: u32 = 2;
const FULL: u32 = 3;
const TAKING: u32 = 4;
const CLOSED: u32 = 5;

/// Number of spins on a slot that another thread is changing, before this thread yields its CPU.
const SPINS: u32 = 64;

/// The slot in which one worker waits for a job.
///
/// ```
/// use tidegate_pool::internal::WorkerSlot;
///
/// let worker_slot = WorkerSlot::new();
/// assert_eq!(worker_slot.give(7), Ok(false)); // no thread slept in it
/// assert_eq!(worker_slot.give(8), Err(8));
/// assert_eq!(worker_slot.try_take(), Some(7));
/// ```
pub struct WorkerSlot<J> {
    state: AtomicU32,
    job: UnsafeCell<Option<J>>,
    parker: Parker,
}

// SAFETY: the cell is written by the one giver that holds `WRITING`, and emptied by the thread that
// leaves `FULL`, which is one thread; the jobs themselves move from thread to thread.
unsafe impl<J: Send> Send for WorkerSlot<J> {}
// SAFETY: as above: no `&J` is handed out.
unsafe impl<J: Send> Sync for WorkerSlot<J> {}

/// How a sleep in a [`WorkerSlot`] ended.
#[derive(Debug, PartialEq, Eq)]
pub enum SlotWait<J> {
    /// A job was given. `asleep` says whether the giver found the worker asleep, and woke it.
    Given {
        /// The job.
        job: J,
        /// The giver has woken the worker.
        asleep: bool,
    },
    /// No job: the deadline has passed, or the worker was woken to check its state.
    Woken,
    /// The slot was closed: no job will be given any more.
    Closed,
}

impl<J> WorkerSlot<J> {
    /// Creates an empty slot.
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            job: UnsafeCell::new(None),
            parker: Parker::new(),
        }
    }

    /// Writes a job into the slot. Returns `true` if its worker sleeps: the giver then calls
    /// [`WorkerSlot::wake`] after it has released its locks.
    ///
    /// # Errors
    ///
    /// Returns the job if the slot already has one, or if it was closed.
    pub fn give(&self, job: J) -> Result<bool, J> {
        let mut before = self.state.load(Ordering::Relaxed);
        loop {
            if before != EMPTY && before != ASLEEP {
                return Err(job);
            }
            // ORDERING: Acquire pairs with the Release of `try_take_with`: the cell is empty again.
            match self.state.compare_exchange_weak(
                before,
                WRITING,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        self.job.with_mut(|cell| {
            // SAFETY: this thread has set `WRITING`; until it stores `FULL` no other thread
            // accesses the cell.
            unsafe { *cell = Some(job) }
        });
        // ORDERING: Release publishes the job; pairs with the Acquire in `try_take_with`, and with
        // that in `close`.
        self.state.store(FULL, Ordering::Release);
        Ok(before == ASLEEP)
    }

    /// Takes the job if there is one. Called only by the slot's worker.
    #[inline]
    pub fn try_take(&self) -> Option<J> {
        self.try_take_with(|_| ())
    }

    /// Like [`WorkerSlot::try_take`], but calls `begin` with the job before the slot can be
    /// [closed](WorkerSlot::close). So the closer sees what `begin` records, or the job is not
    /// taken.
    #[inline]
    pub fn try_take_with(&self, begin: impl FnOnce(&J)) -> Option<J> {
        if self.state.load(Ordering::Relaxed) != FULL {
            return None;
        }
        // ORDERING: Acquire pairs with the Release in `give`: the job is whole.
        self.state
            .compare_exchange(FULL, TAKING, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: this thread has left `FULL`, and until it stores `EMPTY` no other thread accesses
        // the cell.
        let job = self.job.with_mut(|cell| unsafe { (*cell).take() });
        if let Some(job) = &job {
            begin(job);
        }
        // ORDERING: Release pairs with the Acquire in `give`: the next giver finds the cell empty;
        // and with that in `close`: what `begin` recorded is seen.
        self.state.store(EMPTY, Ordering::Release);
        job
    }

    /// Closes the slot for good and returns the job that its worker has not taken. No job can be
    /// given from now on. The worker's sleep ends; the caller may have to [wake](WorkerSlot::wake)
    /// it.
    pub fn close(&self) -> Option<J> {
        let mut spins = 0;
        loop {
            let now = self.state.load(Ordering::Relaxed);
            match now {
                CLOSED => return None,
                WRITING | TAKING => pause(&mut spins),
                _ => {
                    // ORDERING: Acquire pairs with the Release in `give`: the job is whole; and
                    // with that in `try_take_with`: what `begin` recorded is seen.
                    let closed = self.state.compare_exchange(
                        now,
                        CLOSED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if closed.is_ok() {
                        // SAFETY: this thread has set `CLOSED`, which no thread leaves; the worker
                        // reads the cell only after it has left `FULL` itself, and no giver gets to
                        // `WRITING` any more.
                        return self.job.with_mut(|cell| unsafe { (*cell).take() });
                    }
                }
            }
        }
    }

    /// Sleeps until a job is given, the worker is woken, or `deadline` has come on `clock`. Called
    /// only by the slot's worker.
    pub fn sleep(&self, clock: &Clock, deadline: Option<u64>) -> SlotWait<J> {
        self.sleep_with(clock, deadline, |_| ())
    }

    /// Like [`WorkerSlot::sleep`]; `begin` is called as in [`WorkerSlot::try_take_with`].
    pub fn sleep_with(
        &self,
        clock: &Clock,
        deadline: Option<u64>,
        begin: impl Fn(&J),
    ) -> SlotWait<J> {
        let slept = self.transition(EMPTY, ASLEEP);
        if slept {
            clock.park_until(&self.parker, deadline);
            if self.transition(ASLEEP, EMPTY) {
                return SlotWait::Woken;
            }
        }
        let mut spins = 0;
        loop {
            if let Some(job) = self.try_take_with(&begin) {
                return SlotWait::Given { job, asleep: slept };
            }
            if self.state.load(Ordering::Relaxed) == CLOSED {
                return SlotWait::Closed;
            }
            // A giver is writing: a few instructions, unless the system preempted it.
            pause(&mut spins);
        }
    }

    /// Wakes the worker, or makes its next sleep end at once. Used after a job was given to a
    /// sleeping worker, or to make the worker check whether it should end.
    pub fn wake(&self) {
        self.parker.unpark();
    }

    /// Returns `true` if the worker is awake and no job was given to it; a snapshot.
    pub fn is_awake(&self) -> bool {
        self.state.load(Ordering::Relaxed) == EMPTY
    }

    /// Returns `true` if a job is in the slot or being written, or if the slot was closed; a
    /// snapshot.
    #[inline]
    pub fn is_given(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= WRITING
    }

    fn transition(&self, from: u32, to: u32) -> bool {
        // Relaxed: the job is published by `FULL`, and a lock protects which workers are idle.
        self.state
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Spins, or yields after [`SPINS`] spins, while another thread finishes a few instructions.
fn pause(spins: &mut u32) {
    *spins += 1;
    if *spins > SPINS {
        yield_now();
    } else {
        spin_loop();
    }
}

impl<J> Default for WorkerSlot<J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<J> fmt::Debug for WorkerSlot<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.load(Ordering::Relaxed) {
            EMPTY => "empty",
            ASLEEP => "asleep",
            WRITING => "writing",
            FULL => "full",
            TAKING => "taking",
            _ => "closed",
        };
        f.debug_struct("WorkerSlot").field("state", &state).finish()
    }
}
