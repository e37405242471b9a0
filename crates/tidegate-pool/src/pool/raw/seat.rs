//! A seat: where one worker waits, and where its next job is put.
//!
//! | state | meaning | who may go on |
//! |---|---|---|
//! | `EMPTY` | the worker works, or looks on | worker: to `ASLEEP`; giver: to `WRITING` |
//! | `ASLEEP` | the worker sleeps or is about to | worker: back to `EMPTY`; giver: to `WRITING` |
//! | `WRITING` | a giver writes the job | that giver: to `FULL` |
//! | `FULL` | the job lies there | worker: to `TAKING`; whoever closes: to `CLOSED` |
//! | `TAKING` | the worker takes the job out | worker: to `EMPTY` |
//! | `CLOSED` | nothing is given any more | nobody |
//!
//! A seat is closed from any state but `WRITING` and `TAKING`, which last a few instructions.

use std::fmt;

use tidegate_core::prim::{AtomicU32, Ordering, UnsafeCell, spin_loop, yield_now};
use tidegate_core::{Clock, Parker};

const EMPTY: u32 = 0;
const ASLEEP: u32 = 1;
const WRITING: u32 = 2;
const FULL: u32 = 3;
const TAKING: u32 = 4;
const CLOSED: u32 = 5;

/// Looks at a seat that is being written before the worker lets others run.
const LOOKS: u32 = 64;

/// One worker's place to wait for a job.
///
/// ```
/// use tidegate_pool::internal::Seat;
///
/// let seat = Seat::new();
/// assert_eq!(seat.give(7), Ok(false)); // nobody slept in it
/// assert_eq!(seat.give(8), Err(8));
/// assert_eq!(seat.try_take(), Some(7));
/// ```
pub struct Seat<J> {
    state: AtomicU32,
    job: UnsafeCell<Option<J>>,
    parker: Parker,
}

// SAFETY: the cell is written by the one giver that holds `WRITING`, and emptied by whoever leaves
// `FULL`, which is one thread; the jobs themselves move from thread to thread.
unsafe impl<J: Send> Send for Seat<J> {}
// SAFETY: as above: no `&J` is handed out.
unsafe impl<J: Send> Sync for Seat<J> {}

/// How a sleep in a [`Seat`] ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Slept<J> {
    /// With a job. `asleep` says whether the giver found the worker asleep, and woke it.
    Given {
        /// The job.
        job: J,
        /// The giver has woken the worker.
        asleep: bool,
    },
    /// Without: the time is over, or somebody poked the worker.
    Woken,
    /// The seat was closed: nothing will be given any more.
    Closed,
}

impl<J> Seat<J> {
    /// A seat with nothing in it.
    pub fn new() -> Self {
        Self {
            state: AtomicU32::new(EMPTY),
            job: UnsafeCell::new(None),
            parker: Parker::new(),
        }
    }

    /// Puts a job into the seat. True if its worker sleeps: the giver then calls
    /// [`Seat::wake`], when it holds no lock any more.
    ///
    /// # Errors
    ///
    /// The job, when one lies there already, or the seat was closed.
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
            // SAFETY: this thread has set `WRITING`; until it stores `FULL` nobody else looks.
            unsafe { *cell = Some(job) }
        });
        // ORDERING: Release publishes the job; pairs with the Acquire in `try_take_with`, and with
        // that in `close`.
        self.state.store(FULL, Ordering::Release);
        Ok(before == ASLEEP)
    }

    /// Takes the job if one lies there. Called by the seat's worker only.
    #[inline]
    pub fn try_take(&self) -> Option<J> {
        self.try_take_with(|_| ())
    }

    /// The same. Calls `begin` with the job while whoever [closes](Seat::close) the seat waits: what
    /// `begin` notes is seen there, or the job is not taken.
    #[inline]
    pub fn try_take_with(&self, begin: impl FnOnce(&J)) -> Option<J> {
        if self.state.load(Ordering::Relaxed) != FULL {
            return None;
        }
        // ORDERING: Acquire pairs with the Release in `give`: the job is whole.
        self.state
            .compare_exchange(FULL, TAKING, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: this thread has left `FULL`, and until it stores `EMPTY` nobody else looks.
        let job = self.job.with_mut(|cell| unsafe { (*cell).take() });
        if let Some(job) = &job {
            begin(job);
        }
        // ORDERING: Release pairs with the Acquire in `give`: the next giver finds the cell empty;
        // and with that in `close`: what `begin` noted is seen.
        self.state.store(EMPTY, Ordering::Release);
        job
    }

    /// Closes the seat for good and returns the job that its worker has not taken. Nothing can be
    /// given from now on, and the worker's sleep ends, for which it may have to be
    /// [woken](Seat::wake).
    pub fn close(&self) -> Option<J> {
        let mut looks = 0;
        loop {
            let now = self.state.load(Ordering::Relaxed);
            match now {
                CLOSED => return None,
                WRITING | TAKING => pause(&mut looks),
                _ => {
                    // ORDERING: Acquire pairs with the Release in `give`: the job is whole; and
                    // with that in `try_take_with`: what `begin` noted is seen.
                    let closed = self.state.compare_exchange(
                        now,
                        CLOSED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if closed.is_ok() {
                        // SAFETY: this thread has set `CLOSED`, which nobody leaves; the worker
                        // reads the cell only after it has left `FULL` itself, and no giver gets
                        // to `WRITING` any more.
                        return self.job.with_mut(|cell| unsafe { (*cell).take() });
                    }
                }
            }
        }
    }

    /// Sleeps until a job is given, somebody wakes the worker, or `deadline` has come on
    /// `clock`. Called by the seat's worker only.
    pub fn sleep(&self, clock: &Clock, deadline: Option<u64>) -> Slept<J> {
        self.sleep_with(clock, deadline, |_| ())
    }

    /// The same, with what [`Seat::try_take_with`] calls.
    pub fn sleep_with(&self, clock: &Clock, deadline: Option<u64>, begin: impl Fn(&J)) -> Slept<J> {
        let slept = self.turn(EMPTY, ASLEEP);
        if slept {
            clock.park_until(&self.parker, deadline);
            if self.turn(ASLEEP, EMPTY) {
                return Slept::Woken;
            }
        }
        let mut looks = 0;
        loop {
            if let Some(job) = self.try_take_with(&begin) {
                return Slept::Given { job, asleep: slept };
            }
            if self.state.load(Ordering::Relaxed) == CLOSED {
                return Slept::Closed;
            }
            // Somebody writes: a few instructions, unless it was taken off its CPU.
            pause(&mut looks);
        }
    }

    /// Wakes the worker, or makes its next sleep end at once: after a job was given to it
    /// asleep, or to make it look whether it should leave.
    pub fn wake(&self) {
        self.parker.unpark();
    }

    /// Whether the worker is awake and nothing was given to it. A look.
    pub fn is_awake(&self) -> bool {
        self.state.load(Ordering::Relaxed) == EMPTY
    }

    /// Whether a job lies there or is being put there, or the seat was closed. A look.
    #[inline]
    pub fn is_given(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= WRITING
    }

    fn turn(&self, from: u32, to: u32) -> bool {
        // Relaxed: the job is handed over by `FULL`, and what decides who sits is under a lock.
        self.state
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// Waits a moment for another thread that is about to go on.
fn pause(looks: &mut u32) {
    *looks += 1;
    if *looks > LOOKS {
        yield_now();
    } else {
        spin_loop();
    }
}

impl<J> Default for Seat<J> {
    fn default() -> Self {
        Self::new()
    }
}

impl<J> fmt::Debug for Seat<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state.load(Ordering::Relaxed) {
            EMPTY => "empty",
            ASLEEP => "asleep",
            WRITING => "writing",
            FULL => "full",
            TAKING => "taking",
            _ => "closed",
        };
        f.debug_struct("Seat").field("state", &state).finish()
    }
}
