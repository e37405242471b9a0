//! The producer cell: the right to produce, and who asked for more, in one word.
//!
//! A strategy keeps its boxed producer here. Who takes it out is the producer; who puts it back
//! gives the right up. Beside the box the word says whether somebody wants another round,
//! whether a helper is on its way, and how often the box was lent, so that each step of a strategy
//! is one atomic operation and no two of them can disagree.
//!
//! | `HOME` | `WANTED` | state | who may touch the box |
//! |---|---|---|---|
//! | 1 | 0 | *idle*: nobody produces, nothing is asked for | nobody |
//! | 1 | 1 | *lent*: whoever comes first goes on producing | nobody |
//! | 0 | 0 | *producing* | the holder |
//! | 0 | 1 | *producing*, and once more before it may rest | the holder |
//!
//! ```text
//!           claim                     ask, claim
//!   idle ─────────────► producing ─────────────► producing, again
//!    ▲ ◄───────────────  ▲    │ ◄───────────────────  │
//!    │       rest        │    │ lend      rest         │ lend
//!    │                   │    ▼                        │
//!    │ ask ──────────► lent ◄──────────────────────────┘
//!                    (claim, arrive, resume, take_loan: back to producing)
//! ```
//!
//! `CLOSED` ends it: a box at home is taken out by who closes, a box that is out is given up
//! by its holder at the next step. Then `HOME` means that nobody is out any more, and the cell
//! may be opened again. `PENDING` says that one helper was asked for and has not arrived, and
//! `QUEUED` beside it that this helper may still wait in a queue, where it may wait for ever:
//! nobody counts on it. The upper bits count the loans.
//!
//! # Ordering
//!
//! Each step that passes the box on is Release, each that takes it is Acquire: the next
//! holder sees what the last one did. Each that asks is Release too, so that what the asker
//! queued is seen in the round it asked for. [`Held::lend`] is `SeqCst`: with the look at a
//! [`Doorbell`](tidegate_core::Doorbell) that follows it, and the doorbell's `arm` with
//! [`ProducerCell::glance`] on the other side, it is the store-buffer pattern of that file.
#![expect(
    unsafe_code,
    reason = "the producer is handed from thread to thread by one word"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};

use tidegate_core::CachePadded;
use tidegate_core::prim::{AtomicU64, Ordering, UnsafeCell, claim_fence};

/// Nobody is out with the box.
const HOME: u64 = 1;
/// Another round is asked for.
const WANTED: u64 = 2;
/// A helper was asked for and has not arrived.
const PENDING: u64 = 4;
/// No more rounds.
const CLOSED: u64 = 8;
/// The helper that was asked for may still wait in a queue.
const QUEUED: u64 = 16;
/// One loan.
const LOAN: u64 = 32;

/// Holds the one producer of a strategy; see the module's table.
///
/// ```
/// use tidegate_pool::internal::{ProducerCell, Rest};
///
/// let cell = ProducerCell::new(Box::new(7));
/// let held = cell.claim().expect("nobody else produces");
/// assert!(cell.claim().is_none(), "this one only asks for another round");
/// let Rest::Again(held) = held.rest() else { panic!("the other call asked for another round") };
/// assert_eq!(*held, 7);
/// assert!(matches!(held.rest(), Rest::Idle));
/// ```
pub struct ProducerCell<T> {
    word: CachePadded<AtomicU64>,
    value: UnsafeCell<Option<Box<T>>>,
}

// SAFETY: the cell passes whole boxes from thread to thread, which needs `T: Send`.
unsafe impl<T: Send> Send for ProducerCell<T> {}
// SAFETY: as above; `&T` exists only through the one `Held`.
unsafe impl<T: Send> Sync for ProducerCell<T> {}

/// What [`ProducerCell::ask`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Somebody produces, or a helper is on its way: another round will come.
    Enough,
    /// Nobody produces: the caller has to bring a helper, or say [`ProducerCell::arrive`] itself.
    BringHelper,
    /// The cell is closed.
    Closed,
}

/// What [`ProducerCell::close`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Closing<T> {
    /// It was home: here it is.
    Home(Box<T>),
    /// Somebody is out with it and will give it up.
    Out,
    /// Closed before.
    Already,
}

/// The helper that is on its way to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// There is none.
    Nobody,
    /// It may still wait in a queue.
    Queued,
    /// A thread has it.
    Given,
}

/// A look at a cell, for a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Whether the producer lies in the cell and somebody wants it to go on.
    pub lent: bool,
    /// Whether a helper is on its way to it.
    pub coming: Coming,
    /// How often it was lent so far.
    pub loans: u64,
}

impl<T> ProducerCell<T> {
    /// An idle cell that holds `value`.
    pub fn new(value: Box<T>) -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(HOME)),
            value: UnsafeCell::new(Some(value)),
        }
    }

    /// Takes the producer out if it is home, else asks whoever has it for another round.
    pub fn claim(&self) -> Option<Held<'_, T>> {
        let before = self.step(|word| match word {
            word if word & CLOSED != 0 => None,
            word if word & HOME != 0 => Some(word & !(HOME | WANTED)),
            word => Some(word | WANTED),
        });
        (before? & HOME != 0).then(|| self.take_out())
    }

    /// Asks for another round without ever taking the producer out.
    pub fn ask(&self) -> Asked {
        let before = self.step(|word| match word {
            word if word & CLOSED != 0 => None,
            word if word & (HOME | PENDING) == HOME => Some(word | WANTED | PENDING | QUEUED),
            word => Some(word | WANTED),
        });
        match before {
            None => Asked::Closed,
            Some(word) if word & HOME != 0 && word & PENDING == 0 => Asked::BringHelper,
            Some(_) => Asked::Enough,
        }
    }

    /// Says from inside a task that another round is wanted. The thread that runs the task looks
    /// again after it. Returns `true` if nobody produces and nobody was asked to until now: a task
    /// that waits for the round itself then needs somebody else to be sent for.
    pub fn want(&self) -> bool {
        // ORDERING: Release pairs with the Acquire of whoever takes the box next or rests.
        let before = self.word.fetch_or(WANTED, Ordering::Release);
        before & (HOME | WANTED | CLOSED) == HOME
    }

    /// A helper has arrived, or will not come: takes the producer if it lies there and is wanted.
    pub fn arrive(&self) -> Option<Held<'_, T>> {
        let before = self.step(|word| match is_lent(word) {
            true => Some(word & !(HOME | WANTED | PENDING | QUEUED)),
            false => Some(word & !(PENDING | QUEUED)),
        });
        is_lent(before?).then(|| self.take_out())
    }

    /// The helper that was asked for will not come.
    pub fn no_helper(&self) {
        // Relaxed: it passes nothing on.
        self.word.fetch_and(!(PENDING | QUEUED), Ordering::Relaxed);
    }

    /// A lent task is over: takes the producer back if it lies there and is wanted.
    pub fn resume(&self) -> Option<Held<'_, T>> {
        let before = self.step(|word| is_lent(word).then_some(word & !(HOME | WANTED)));
        before.map(|_| self.take_out())
    }

    /// Takes the producer over if it still lies there by loan number `loan`.
    pub fn take_loan(&self, loan: u64) -> Option<Held<'_, T>> {
        let before = self.step(|word| {
            let same = is_lent(word) && word / LOAN == loan;
            same.then_some(word & !(HOME | WANTED))
        });
        before.map(|_| self.take_out())
    }

    /// Ends production. A holder gives the producer up at its next step.
    pub fn close(&self) -> Closing<T> {
        let before = self.step(|word| match word {
            word if word & CLOSED != 0 => None,
            // Out with it, until it has been read.
            word => Some((word | CLOSED) & !HOME),
        });
        match before {
            None => return Closing::Already,
            Some(word) if word & HOME == 0 => return Closing::Out,
            Some(_) => {}
        }
        let value = self.read();
        // ORDERING: Release: the box has been read; pairs with the Acquire in `reopen`.
        self.word.fetch_or(HOME, Ordering::Release);
        value.map_or(Closing::Out, Closing::Home)
    }

    /// Opens a closed cell with another producer, idle.
    ///
    /// # Errors
    ///
    /// The new producer, when the cell is not closed or the last holder is still out.
    pub fn reopen(&self, value: Box<T>) -> Result<(), Box<T>> {
        let opened = self.step(|word| {
            let over = word & CLOSED != 0 && word & HOME != 0;
            over.then_some(word & !(CLOSED | HOME | WANTED | PENDING | QUEUED))
        });
        if opened.is_none() {
            return Err(value);
        }
        let held = Held {
            cell: self,
            value: Some(value),
        };
        // Asked for meanwhile: it lies there as wanted. Closed meanwhile: it is gone.
        drop(held.rest());
        Ok(())
    }

    /// What a monitor sees.
    #[inline]
    pub fn glance(&self) -> Glance {
        // ORDERING: SeqCst, the monitor's look; pairs with the step in `lend`.
        let word = self.word.load(Ordering::SeqCst);
        Glance {
            lent: is_lent(word),
            coming: match word & (PENDING | QUEUED) {
                0 => Coming::Nobody,
                PENDING => Coming::Given,
                _ => Coming::Queued,
            },
            loans: word / LOAN,
        }
    }

    /// Whether nobody produces and nothing is asked for.
    pub fn is_idle(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word & (HOME | WANTED | CLOSED) == HOME
    }

    /// Whether the cell was closed.
    pub fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Whether a helper was asked for and has not arrived.
    pub fn is_helper_pending(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PENDING != 0
    }

    /// Whether the cell was closed and the producer has been given up.
    pub fn is_over(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of whoever gave the producer up.
        self.word.load(Ordering::Acquire) & (CLOSED | HOME) == CLOSED | HOME
    }

    /// Moves the word on, as `next` says; the word before, or `None` when `next` says no.
    #[inline(always)]
    fn step(&self, mut next: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            // ORDERING: AcqRel. Acquire pairs with the Release of the last step: the box and
            // what askers queued are visible. Release publishes the asker's part to the holder.
            match self.word.compare_exchange_weak(
                word,
                next(word)?,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(before) => return Some(before),
                Err(now) => word = now,
            }
        }
    }

    /// The box, for whoever has just cleared `HOME`.
    fn take_out(&self) -> Held<'_, T> {
        Held {
            cell: self,
            value: self.read(),
        }
    }

    fn read(&self) -> Option<Box<T>> {
        // SAFETY: only who cleared `HOME` calls this, and nobody else touches the value until
        // it is set again.
        self.value.with_mut(|value| unsafe { (*value).take() })
    }
}

impl<T> fmt::Debug for ProducerCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Relaxed);
        f.debug_struct("ProducerCell")
            .field("home", &(word & HOME != 0))
            .field("wanted", &(word & WANTED != 0))
            .field("pending", &(word & PENDING != 0))
            .field("queued", &(word & QUEUED != 0))
            .field("closed", &(word & CLOSED != 0))
            .field("loans", &(word / LOAN))
            .finish()
    }
}

fn is_lent(word: u64) -> bool {
    word & (HOME | WANTED | CLOSED) == HOME | WANTED
}

/// The producer, taken out of its cell: whoever has this produces.
///
/// Dropped, also by a panic, it lies in the cell again as wanted, so that the next who comes
/// goes on.
#[must_use = "dropped, the right to produce lies in the cell and nobody uses it"]
pub struct Held<'a, T> {
    cell: &'a ProducerCell<T>,
    /// `None` only when it has gone elsewhere.
    value: Option<Box<T>>,
}

/// What became of a producer that had nothing more.
#[derive(Debug)]
pub enum Rest<'a, T> {
    /// It is idle.
    Idle,
    /// Another round was asked for: produce again.
    Again(Held<'a, T>),
    /// The cell was closed: here it is, to be dropped.
    GivenUp(Box<T>),
}

/// What became of a producer that was lent.
#[derive(Debug)]
pub struct Loan<T> {
    /// The number of this loan.
    pub number: u64,
    /// Whether the caller has to bring the helper that was asked for.
    pub bring_helper: bool,
    /// The producer, when the cell was closed meanwhile.
    pub given_up: Option<Box<T>>,
}

impl<'a, T> Held<'a, T> {
    /// The producer has nothing now: goes idle, unless another round was asked for.
    pub fn rest(mut self) -> Rest<'a, T> {
        self.put_in();
        let before = self.cell.step(|word| match word {
            word if word & CLOSED != 0 => None,
            word if word & WANTED != 0 => Some(word & !WANTED),
            word => Some(word | HOME),
        });
        match before {
            Some(word) if word & WANTED == 0 => Rest::Idle,
            Some(_) => {
                self.value = self.cell.read();
                Rest::Again(self)
            }
            None => {
                self.value = self.cell.read();
                self.give_up().map_or(Rest::Idle, Rest::GivenUp)
            }
        }
    }

    /// Puts the producer into the cell for whoever comes, and counts the loan. With `helper`
    /// it also notes that the caller gives one to a thread, unless a thread has one already.
    #[inline]
    pub fn lend(self, helper: bool) -> Loan<T> {
        self.lend_to(if helper { PENDING } else { 0 })
    }

    /// The same for a caller that puts the helper into a queue, unless one is on its way already.
    pub fn lend_to_queue(self) -> Loan<T> {
        self.lend_to(PENDING | QUEUED)
    }

    #[inline(always)]
    fn lend_to(mut self, helper: u64) -> Loan<T> {
        self.put_in();
        let mut word = self.cell.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                self.value = self.cell.read();
                return Loan {
                    number: word / LOAN,
                    bring_helper: false,
                    given_up: self.give_up(),
                };
            }
            let next = match helper {
                // A helper on a thread is better than one in a queue.
                PENDING => (word | HOME | WANTED | PENDING) & !QUEUED,
                _ if word & PENDING != 0 => word | HOME | WANTED,
                helper => word | HOME | WANTED | helper,
            };
            let next = next.wrapping_add(LOAN);
            // ORDERING: SeqCst: Release publishes the box; the total order puts this step before
            // the look at the monitor's doorbell that follows. Pairs with `glance`.
            match self.cell.word.compare_exchange_weak(
                word,
                next,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        claim_fence();
        Loan {
            number: word.wrapping_add(LOAN) / LOAN,
            bring_helper: match helper {
                0 => false,
                PENDING => word & (PENDING | QUEUED) != PENDING,
                _ => word & PENDING == 0,
            },
            given_up: None,
        }
    }

    /// Whether the cell was closed while the producer was out.
    pub fn is_closed(&self) -> bool {
        self.cell.is_closed()
    }

    /// Gives the producer up for good, in a closed cell; the caller drops it.
    ///
    /// `None` when the cell is open: then it lies there as wanted.
    pub fn give_up(mut self) -> Option<Box<T>> {
        if !self.is_closed() {
            return None;
        }
        let value = self.value.take();
        // ORDERING: Release: whoever opens the cell again comes after this holder.
        self.cell.word.fetch_or(HOME, Ordering::Release);
        value
    }

    /// Moves the box into the cell; it stays this holder's until `HOME` is set.
    fn put_in(&mut self) {
        let mine = self.value.take();
        // SAFETY: this holder cleared `HOME`, so nobody else touches the value.
        self.cell.value.with_mut(|value| unsafe { *value = mine });
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_deref().expect("a holder has the box")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_deref_mut().expect("a holder has the box")
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if self.value.is_none() {
            return;
        }
        self.put_in();
        let lies = self.cell.step(|word| match word & CLOSED {
            0 => Some(word | HOME | WANTED),
            _ => None,
        });
        if lies.is_none() {
            let value = self.cell.read();
            // ORDERING: Release: whoever opens the cell again comes after this holder.
            self.cell.word.fetch_or(HOME, Ordering::Release);
            drop(value);
        }
    }
}

impl<T> fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
