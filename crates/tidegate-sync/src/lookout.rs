//! The lookout: what a monitor knows of a pool that has no idle thread, and which loans it answers for.
//!
//! A producer may be lent (see [`ProducerCell`](crate::ProducerCell)) if somebody can take it over
//! should the task block. Threads that are busy, but *brisk*, count as somebody: their jobs are so
//! short that one of them comes free in a small part of a tick. That is a guess about the
//! future. So a loan that was made on it is *marked*, and if it turns out wrong, if the loan is
//! stuck and the pool is brisk no more, the loan is *held*: the monitor owes it a thread of its own.
//!
//! # Ordering
//!
//! All of it is relaxed. The mark is written before the loan is made and read after that loan was
//! seen in the cell, whose word orders the two. A mark of another loan never fits, since it
//! has another number. Whether the pool is brisk is a guess whenever it is read, and `sent` only
//! saves helpers: whoever comes takes the loan by its number, or leaves.
//! `marked` and `sent` are only written by read-modify-write operations: where a model meets a plain
//! store, it lets a compare-and-swap that read the value before it come after it.

use crate::prim::{AtomicU64, Ordering};

/// Jobs that the pool's threads must have ended between two looks, for it to call them short: each
/// took a small part of a tick.
const BRISK_MOVES: u64 = 4;
/// Looks in a row that must have found it so.
const BRISK_LOOKS: u64 = 2;
/// No loan has this number.
const NO_LOAN: u64 = u64::MAX;

/// What a monitor and the producers that it watches tell each other about a pool without an idle
/// thread; see the module.
///
/// ```
/// use tidegate_sync::{Lookout, ProducerCell};
///
/// let (lookout, cell) = (Lookout::new(), ProducerCell::new(Box::new(7)));
/// lookout.saw(50); // the monitor, at two looks: the pool's threads have ended many jobs
/// lookout.saw(100);
/// assert!(lookout.is_brisk());
/// let held = cell.claim().expect("nobody else produces");
/// lookout.mark(held.next_loan());
/// let loan = held.lend(false).number;
/// lookout.saw(100); // no job has ended since: all threads are held
/// assert!(lookout.is_held(loan));
/// ```
#[derive(Debug)]
pub struct Lookout {
    /// The pool's moves at the last look. Only the monitor uses it.
    moves: AtomicU64,
    /// Looks in a row that found it brisk. Only the monitor writes it.
    brisk: AtomicU64,
    /// The loan for which nobody was idle when it was made.
    marked: AtomicU64,
    /// The loan for which a helper is on its way.
    sent: AtomicU64,
}

impl Lookout {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self {
            moves: AtomicU64::new(0),
            brisk: AtomicU64::new(0),
            marked: AtomicU64::new(NO_LOAN),
            sent: AtomicU64::new(NO_LOAN),
        }
    }

    /// The monitor looks: so often have the pool's threads come for more by now.
    pub fn saw(&self, moves: u64) {
        let last = self.moves.load(Ordering::Relaxed);
        self.moves.store(moves, Ordering::Relaxed);
        let looks = match moves.wrapping_sub(last) >= BRISK_MOVES {
            true => self.brisk.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.brisk.store(looks, Ordering::Relaxed);
    }

    /// The monitor looks no more for a while: what it saw holds no longer.
    pub fn forget(&self) {
        self.brisk.store(0, Ordering::Relaxed);
    }

    /// Whether one of the pool's threads will soon come free, though none is idle now.
    #[inline]
    pub fn is_brisk(&self) -> bool {
        self.brisk.load(Ordering::Relaxed) >= BRISK_LOOKS
    }

    /// The monitor answers for loan number `loan`, which is about to be made.
    #[inline]
    pub fn mark(&self, loan: u64) {
        self.marked.swap(loan, Ordering::Relaxed);
    }

    /// Somebody has been found for the loan: the monitor no longer answers for it. Whether it did.
    pub fn unmark(&self, loan: u64) -> bool {
        let unmarked =
            self.marked
                .compare_exchange(loan, NO_LOAN, Ordering::Relaxed, Ordering::Relaxed);
        unmarked.is_ok()
    }

    /// Nobody was found after all: the monitor answers for the loan again, unless there is a later
    /// one by now.
    pub fn mark_again(&self, loan: u64) {
        // Lost, there is a later one.
        let _ = self
            .marked
            .compare_exchange(NO_LOAN, loan, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the monitor answers for the loan.
    pub fn is_marked(&self, loan: u64) -> bool {
        self.marked.load(Ordering::Relaxed) == loan
    }

    /// Whether the monitor answers for the loan, and no thread of the pool will come for it.
    pub fn is_held(&self, loan: u64) -> bool {
        self.is_marked(loan) && !self.is_brisk()
    }

    /// Notes that a helper for the loan is on its way; false if one was already. Must come before
    /// the helper can.
    pub fn send(&self, loan: u64) -> bool {
        self.sent.swap(loan, Ordering::Relaxed) != loan
    }

    /// The helper for the loan is not on its way any more: it has arrived, was refused, or was
    /// dropped with its queue. Another one, for a later loan, may be.
    pub fn came(&self, loan: u64) {
        // Lost, another one is on its way.
        let _ = self
            .sent
            .compare_exchange(loan, NO_LOAN, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Default for Lookout {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_looks_in_a_row_with_many_moves_make_it_brisk_and_one_with_few_ends_that() {
        let lookout = Lookout::new();
        lookout.saw(4);
        assert!(!lookout.is_brisk());
        lookout.saw(7);
        lookout.saw(11);
        assert!(!lookout.is_brisk(), "the second look saw three");
        lookout.saw(15);
        assert!(lookout.is_brisk());
        lookout.forget();
        assert!(!lookout.is_brisk());
        lookout.saw(19);
        lookout.saw(23);
        lookout.saw(26);
        assert!(!lookout.is_brisk());
    }

    #[test]
    fn only_the_marked_loan_is_held_and_only_while_the_pool_is_not_brisk() {
        let lookout = Lookout::new();
        lookout.mark(3);
        assert!(lookout.is_held(3) && !lookout.is_held(2));
        lookout.saw(50);
        lookout.saw(100);
        assert!(lookout.is_marked(3) && !lookout.is_held(3));
        assert!(lookout.unmark(3) && !lookout.unmark(3));
        lookout.mark_again(3);
        assert!(lookout.is_marked(3));
        lookout.mark(4);
        lookout.mark_again(3);
        assert!(lookout.is_marked(4), "the later one counts");
    }

    #[test]
    fn one_helper_is_sent_for_a_loan() {
        let lookout = Lookout::new();
        assert!(lookout.send(1) && !lookout.send(1));
        assert!(lookout.send(2));
        lookout.came(1);
        assert!(!lookout.send(2), "another one's end is not its own");
        lookout.came(2);
        assert!(lookout.send(2), "it was lost, so another is sent");
    }
}
