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
//! may be opened again. `PENDING` says that one helper was asked for and has not arrived.
//! The upper bits count the loans.
//!
//! # Ordering
//!
//! Each step that passes the box on is Release, each that takes it is Acquire: the next
//! holder sees what the last one did. Each that asks is Release too, so that what the asker
//! queued is seen in the round it asked for. [`Held::lend`] is `SeqCst`: with the look at a
//! [`Doorbell`](crate::Doorbell) that follows it, and the doorbell's `arm` with
//! [`ProducerCell::glance`] on the other side, it is the store-buffer pattern of that file.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crossbeam_utils::CachePadded;

use crate::prim::{AtomicU64, Ordering, UnsafeCell, claim_fence};

/// Nobody is out with the box.
const HOME: u64 = 1;
/// Another round is asked for.
const WANTED: u64 = 2;
/// A helper was asked for and has not arrived.
const PENDING: u64 = 4;
/// No more rounds.
const CLOSED: u64 = 8;
/// One loan.
const LOAN: u64 = 16;

/// Holds the one producer of a strategy; see the module's table.
///
/// ```
/// use tidegate_sync::{ProducerCell, Rest};
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

/// A look at a cell, for a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Whether the producer lies in the cell and somebody wants it to go on.
    pub lent: bool,
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
            word if word & HOME != 0 => Some(word | WANTED | PENDING),
            word => Some(word | WANTED),
        });
        match before {
            None => Asked::Closed,
            Some(word) if word & HOME != 0 && word & PENDING == 0 => Asked::BringHelper,
            Some(_) => Asked::Enough,
        }
    }

    /// Says from inside a task that another round is wanted. Nobody is sent for: whoever runs
    /// that task looks again after it.
    pub fn want(&self) {
        // ORDERING: Release pairs with the Acquire of whoever takes the box next or rests.
        self.word.fetch_or(WANTED, Ordering::Release);
    }

    /// A helper has arrived, or will not come: takes the producer if it lies there and is wanted.
    pub fn arrive(&self) -> Option<Held<'_, T>> {
        let before = self.step(|word| match is_lent(word) {
            true => Some(word & !(HOME | WANTED | PENDING)),
            false => Some(word & !PENDING),
        });
        is_lent(before?).then(|| self.take_out())
    }

    /// The helper that was asked for will not come.
    pub fn no_helper(&self) {
        // Relaxed: it passes nothing on.
        self.word.fetch_and(!PENDING, Ordering::Relaxed);
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
            over.then_some(word & !(CLOSED | HOME | WANTED | PENDING))
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
    /// it also notes that one was asked for, unless one is on its way already.
    #[inline]
    pub fn lend(mut self, helper: bool) -> Loan<T> {
        self.put_in();
        let want = if helper { PENDING } else { 0 };
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
            let next = (word | HOME | WANTED | want).wrapping_add(LOAN);
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
            bring_helper: helper && word & PENDING == 0,
            given_up: None,
        }
    }

    /// The number that the loan will have if this holder lends now.
    pub fn next_loan(&self) -> u64 {
        // Relaxed: only who holds the producer counts loans.
        let word = self.cell.word.load(Ordering::Relaxed);
        word.wrapping_add(LOAN) / LOAN
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

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    //! Each step of the table, on one thread.

    use std::sync::Arc;

    use super::*;

    fn again<T: fmt::Debug>(rest: Rest<'_, T>) -> Held<'_, T> {
        match rest {
            Rest::Again(held) => held,
            other => panic!("no other round was asked for: {other:?}"),
        }
    }

    #[test]
    fn any_number_of_claims_is_one_more_round() {
        let cell = ProducerCell::new(Box::new(0));
        let held = cell.claim().expect("idle");
        for _ in 0..3 {
            assert!(cell.claim().is_none());
        }
        let held = again(held.rest());
        assert!(matches!(held.rest(), Rest::Idle) && cell.is_idle());
    }

    #[test]
    fn a_loan_is_taken_by_the_first_who_comes() {
        let cell = ProducerCell::new(Box::new(0));
        let loan = cell.claim().expect("idle").lend(false);
        assert_eq!((loan.number, loan.bring_helper), (1, false));
        assert_eq!(
            cell.glance(),
            Glance {
                lent: true,
                loans: 1
            }
        );
        assert!(cell.take_loan(2).is_none(), "another loan");
        let taken = cell.take_loan(1).expect("it lies there");
        assert!(cell.resume().is_none() && cell.arrive().is_none());
        assert!(matches!(taken.rest(), Rest::Idle));
        assert!(cell.resume().is_none(), "idle, not wanted");
    }

    #[test]
    fn one_helper_is_pending_at_a_time() {
        let cell = ProducerCell::new(Box::new(0));
        assert_eq!(cell.ask(), Asked::BringHelper);
        assert_eq!(cell.ask(), Asked::Enough);
        let held = cell.arrive().expect("it was asked for");
        assert!(!cell.is_helper_pending());
        assert!(held.lend(true).bring_helper);
        let held = cell.resume().expect("the helper has not come");
        assert!(!held.lend(true).bring_helper, "one is on its way");
        assert!(cell.arrive().is_some());
    }

    #[test]
    fn a_round_asked_for_in_a_loan_is_not_lost() {
        let cell = ProducerCell::new(Box::new(0));
        let _ = cell.claim().expect("idle").lend(false);
        let taken = cell.resume().expect("lent");
        assert!(matches!(taken.rest(), Rest::Idle));
        cell.want();
        assert!(cell.resume().is_some());
    }

    #[test]
    fn a_dropped_holder_leaves_it_wanted() {
        let cell = ProducerCell::new(Box::new(0));
        drop(cell.claim());
        assert!(!cell.is_idle());
        assert!(cell.arrive().is_some());
    }

    #[test]
    fn closing_takes_what_is_home_and_asks_a_holder_to_give_up() {
        let value = Arc::new(());
        let cell = ProducerCell::new(Box::new(Arc::clone(&value)));
        let held = cell.claim().expect("idle");
        assert_eq!(cell.close(), Closing::Out);
        assert!(cell.is_closed() && !cell.is_over());
        assert!(
            cell.reopen(Box::new(Arc::new(()))).is_err(),
            "a holder is out"
        );
        assert!(held.is_closed());
        assert!(held.lend(true).given_up.is_some());
        assert!(cell.is_over() && cell.claim().is_none() && cell.ask() == Asked::Closed);
        assert!(cell.resume().is_none() && cell.arrive().is_none());
        assert_eq!(Arc::strong_count(&value), 1);
        cell.reopen(Box::new(Arc::clone(&value)))
            .expect("it is over");
        assert!(cell.is_idle());
        assert!(matches!(cell.close(), Closing::Home(_)));
        assert_eq!(cell.close(), Closing::Already);
        assert!(cell.is_over());
    }

    #[test]
    fn a_holder_that_rests_or_is_dropped_in_a_closed_cell_gives_up() {
        for rests in [true, false] {
            let value = Arc::new(());
            let cell = ProducerCell::new(Box::new(Arc::clone(&value)));
            let held = cell.claim().expect("idle");
            assert_eq!(cell.close(), Closing::Out);
            if rests {
                assert!(matches!(held.rest(), Rest::GivenUp(_)));
            } else {
                drop(held);
            }
            assert!(cell.is_over());
            assert_eq!(Arc::strong_count(&value), 1);
        }
    }
}
