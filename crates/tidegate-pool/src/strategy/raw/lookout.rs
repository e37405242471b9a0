//! The lookout: what a monitor has seen of a pool, and which loans have been promised a thread.
//!
//! The monitor answers for every loan of a producer (see [`ProducerCell`](crate::strategy::raw::ProducerCell)): one
//! that is stuck gets a thread. Threads of the pool that are busy, but *brisk*, will do: their
//! jobs are so short that one of them comes free in a small part of a tick. That is a guess about
//! the future. So only a thread that has the helper counts as *promised*; a loan that was promised
//! none, in a pool that is not brisk, is *held*, and the monitor owes it a thread of its own.
//!
//! A pool in which jobs wait while none ends is *starved*: its threads are held by what they run, or
//! wait inside a producer. The second kind can be relieved.
//!
//! # Ordering
//!
//! All of it is relaxed. What is noted here is noted under the number of a loan that the
//! monitor has seen in the cell, and a note of another loan never fits. Whether the pool is brisk or
//! starved is a guess whenever it is read, and `sent` only saves helpers: whoever comes takes the
//! loan by its number, or leaves.
//! `promised` and `sent` are only written by read-modify-write operations: where a model meets a
//! plain store, it lets a compare-and-swap that read the value before it come after it.

use tidegate_core::prim::{AtomicU64, Ordering};

/// Jobs that the pool's threads must have ended between two looks, for it to call them short: each
/// took a small part of a tick.
const BRISK_MOVES: u64 = 4;
/// Looks in a row that must have found it so.
const BRISK_LOOKS: u64 = 2;
/// Looks in a row that found jobs waiting and none ended, for a pool to be starved.
const STARVED_LOOKS: u64 = 8;
/// No loan has this number.
const NO_LOAN: u64 = u64::MAX;

/// What a monitor notes of one strategy's pool and loans; see the module.
///
/// ```
/// use tidegate_pool::internal::{Lookout, ProducerCell};
///
/// let (lookout, cell) = (Lookout::new(), ProducerCell::new(Box::new(7)));
/// lookout.saw(50, 0); // the monitor, at two looks: the pool's threads have ended many jobs
/// lookout.saw(100, 0);
/// assert!(lookout.is_brisk());
/// let held = cell.claim().expect("nobody else produces");
/// let loan = held.lend(false).number;
/// assert!(!lookout.is_held(loan), "one of them will come");
/// lookout.saw(100, 0); // no job has ended since: all threads are held
/// assert!(lookout.is_held(loan));
/// lookout.promise(loan);
/// assert!(!lookout.is_held(loan));
/// ```
#[derive(Debug)]
pub struct Lookout {
    /// The pool's moves at the last look. Only the monitor uses it.
    moves: AtomicU64,
    /// Looks in a row that found it brisk. Only the monitor writes it.
    brisk: AtomicU64,
    /// Looks in a row that found jobs waiting and none ended. Only the monitor uses it.
    starved: AtomicU64,
    /// The loan that a thread was promised for.
    promised: AtomicU64,
    /// The loan for which a helper is on its way.
    sent: AtomicU64,
}

impl Lookout {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self {
            moves: AtomicU64::new(0),
            brisk: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            promised: AtomicU64::new(NO_LOAN),
            sent: AtomicU64::new(NO_LOAN),
        }
    }

    /// The monitor looks: so often have the pool's threads come for more by now, and so many jobs
    /// wait for one of them.
    pub fn saw(&self, moves: u64, waiting: usize) {
        let last = self.moves.load(Ordering::Relaxed);
        self.moves.store(moves, Ordering::Relaxed);
        let count = |looks: &AtomicU64, one_more: bool| {
            let before = looks.load(Ordering::Relaxed);
            let now = if one_more {
                before.saturating_add(1)
            } else {
                0
            };
            looks.store(now, Ordering::Relaxed);
        };
        count(&self.brisk, moves.wrapping_sub(last) >= BRISK_MOVES);
        count(&self.starved, waiting > 0 && moves == last);
    }

    /// Returns `true` if jobs wait and none has ended since the last look, though not for long.
    pub fn may_starve(&self) -> bool {
        (1..STARVED_LOOKS).contains(&self.starved.load(Ordering::Relaxed))
    }

    /// Returns `true` if jobs have waited for a while and none has ended.
    pub fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed) >= STARVED_LOOKS
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

    /// Promises a thread to the loan: it has been given to one, or is about to be.
    pub fn promise(&self, loan: u64) {
        self.promised.swap(loan, Ordering::Relaxed);
    }

    /// Returns `true` if a thread was promised to the loan.
    pub fn is_promised(&self, loan: u64) -> bool {
        self.promised.load(Ordering::Relaxed) == loan
    }

    /// Returns `true` if the loan was promised no thread, and none of the pool will come for it.
    pub fn is_held(&self, loan: u64) -> bool {
        !self.is_promised(loan) && !self.is_brisk()
    }

    /// Notes that a helper for the loan is on its way; false if one was already. Must come before
    /// the helper can.
    pub fn send(&self, loan: u64) -> bool {
        self.sent.swap(loan, Ordering::Relaxed) != loan
    }

    /// The helper for the loan is not on its way any more: it has arrived, was refused, or was
    /// dropped with its queue. Another one, for a later loan, may be.
    pub fn came(&self, loan: u64) {
        for noted in [&self.sent, &self.promised] {
            // Lost, another one is on its way.
            let _ = noted.compare_exchange(loan, NO_LOAN, Ordering::Relaxed, Ordering::Relaxed);
        }
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
        lookout.saw(4, 0);
        assert!(!lookout.is_brisk());
        lookout.saw(7, 0);
        lookout.saw(11, 0);
        assert!(!lookout.is_brisk(), "the second look saw three");
        lookout.saw(15, 0);
        assert!(lookout.is_brisk());
        lookout.forget();
        assert!(!lookout.is_brisk());
        lookout.saw(19, 0);
        lookout.saw(23, 0);
        lookout.saw(26, 0);
        assert!(!lookout.is_brisk());
    }

    #[test]
    fn a_loan_without_a_promise_is_held_while_the_pool_is_not_brisk() {
        let lookout = Lookout::new();
        assert!(lookout.is_held(3));
        lookout.saw(50, 0);
        lookout.saw(100, 0);
        assert!(!lookout.is_held(3));
        lookout.saw(100, 0);
        lookout.promise(3);
        assert!(!lookout.is_held(3) && lookout.is_held(4), "one loan only");
        lookout.came(3);
        assert!(lookout.is_held(3), "the helper was dropped");
        lookout.promise(4);
        lookout.came(3);
        assert!(!lookout.is_held(4), "another one's end is not its own");
    }

    #[test]
    fn jobs_that_wait_while_none_ends_make_a_pool_starved() {
        let lookout = Lookout::new();
        (0..20).for_each(|_| lookout.saw(7, 0));
        assert!(!lookout.is_starved(), "nothing waits");
        (0..20).for_each(|moves| lookout.saw(8 + moves, 3));
        assert!(!lookout.is_starved(), "it is slow, but moves");
        (0..STARVED_LOOKS - 1).for_each(|_| lookout.saw(27, 3));
        assert!(!lookout.is_starved() && lookout.may_starve());
        lookout.saw(27, 1);
        assert!(lookout.is_starved() && !lookout.may_starve());
        lookout.saw(27, 0);
        assert!(!lookout.is_starved() && !lookout.may_starve());
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
