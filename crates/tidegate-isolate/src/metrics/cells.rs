//! Counters with a separate row of cells per thread, for a limited number of threads.
//!
//! Every thread that counts has a *number*: the lowest number that no other living thread has. The
//! first [`OWN`] numbers have a row of their own in every set of counters, created when the thread
//! first counts there. Only that thread writes to the row, so counting is a load and a store,
//! without a locked instruction. All other threads share one more row and add to it atomically.
//!
//! # Invariants
//!
//! * A number belongs to at most one living thread. It is passed on under a lock, so the next
//!   thread sees everything that the previous one counted.
//! * A cell never decreases, and neither does the sum over all cells. The sum is exact if no thread
//!   counts while it is computed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::lock::lock;
use tidegate_core::internal::CachePadded;

/// The number of threads that have a row of their own.
const OWN: usize = 16;

/// `K` counters.
#[derive(Debug)]
pub(super) struct Cells<const K: usize> {
    own: [OnceLock<Box<Row<K>>>; OWN],
    shared: OnceLock<Box<Row<K>>>,
}

type Row<const K: usize> = CachePadded<[AtomicU64; K]>;

impl<const K: usize> Cells<K> {
    pub(super) fn new() -> Self {
        Self {
            own: [const { OnceLock::new() }; OWN],
            shared: OnceLock::new(),
        }
    }

    /// Adds one to the counter `kind`.
    #[inline]
    pub(super) fn add(&self, kind: usize) {
        match self.own.get(thread_number()) {
            Some(row) => {
                let cell = &row.get_or_init(Self::row)[kind];
                // Only this thread writes to its row.
                cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            None => {
                let row = self.shared.get_or_init(Self::row);
                row[kind].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns every counter, summed over all threads.
    pub(super) fn sum(&self) -> [u64; K] {
        let mut sums = [0; K];
        for row in &self.own {
            add_row(&mut sums, row.get().map(|row| &row[..]));
        }
        add_row(&mut sums, self.shared.get().map(|row| &row[..]));
        sums
    }

    #[cold]
    fn row() -> Box<Row<K>> {
        Box::new(CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

/// Adds the cells of a row, if there is one.
fn add_row(sums: &mut [u64], row: Option<&[AtomicU64]>) {
    for (at, cell) in row.unwrap_or_default().iter().enumerate() {
        sums[at] += cell.load(Ordering::Relaxed);
    }
}

/// Returns the number of the calling thread. While the thread ends, returns a number without a row
/// of its own.
#[inline]
pub(super) fn thread_number() -> usize {
    thread_local! {
        static MINE: Number = Number::take();
    }
    MINE.try_with(|mine| mine.0).unwrap_or(usize::MAX)
}

/// A number that belongs to one thread until that thread ends.
struct Number(usize);

static FREE: Mutex<Free> = Mutex::new(Free {
    next: 0,
    returned: BinaryHeap::new(),
});

struct Free {
    next: usize,
    returned: BinaryHeap<Reverse<usize>>,
}

impl Number {
    fn take() -> Self {
        let mut free = lock(&FREE);
        Self(match free.returned.pop() {
            Some(Reverse(number)) => number,
            None => {
                free.next += 1;
                free.next - 1
            }
        })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut free = lock(&FREE);
        free.returned.push(Reverse(self.0));
    }
}

#[cfg(test)]
mod tests {
    //! No count is lost, however many threads start and end.

    use super::*;

    #[test]
    fn living_threads_have_different_numbers() {
        let mine = thread_number();
        let here = std::sync::Barrier::new(3);
        let number = || {
            let number = thread_number();
            here.wait();
            number
        };
        std::thread::scope(|scope| {
            let others = [scope.spawn(number), scope.spawn(number)];
            here.wait();
            let [one, two] = others.map(|other| other.join().expect("it does not panic"));
            assert!(one != two && one != mine && two != mine);
        });
    }

    #[test]
    fn the_sum_is_exact_over_more_threads_than_rows() {
        let cells = Cells::<2>::new();
        for _ in 0..3 {
            let here = std::sync::Barrier::new(2 * OWN);
            std::thread::scope(|scope| {
                for _ in 0..2 * OWN {
                    scope.spawn(|| {
                        // All threads live at the same time, so some of them share a row.
                        thread_number();
                        here.wait();
                        (0..1_000).for_each(|n| cells.add(n % 2));
                    });
                }
            });
        }
        assert_eq!(cells.sum(), [3 * 2 * OWN as u64 * 500; 2]);
    }
}
