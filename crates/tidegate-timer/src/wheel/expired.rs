//! The entries that leave a wheel: expired, or drained.

use std::iter::FusedIterator;
use std::vec;

use super::entry::Live;

/// An entry that has left the wheel because it was due.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::wheel::{Expired, Wheel};
///
/// let mut wheel = Wheel::new(Duration::from_nanos(10), 8)?;
/// wheel.insert(15, 'a');
/// let Expired { deadline, value } = wheel.pop_due(20).expect("it is due");
/// assert_eq!((deadline, value), (15, 'a'));
/// # Ok::<(), tidegate_timer::wheel::WheelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expired<T> {
    /// The requested deadline, or the first moment of the next tick if the deadline had already
    /// passed. Its distance to the current time is the lateness of the entry.
    pub deadline: u64,
    /// The inserted value.
    pub value: T,
}

impl<T> From<Live<T>> for Expired<T> {
    fn from(live: Live<T>) -> Self {
        Self {
            deadline: live.deadline,
            value: live.value,
        }
    }
}

/// Iterator over the entries that were left in a [`Wheel`](super::Wheel), by deadline; created by
/// [`drain`](super::Wheel::drain).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// let mut wheel = tidegate_timer::wheel::Wheel::new(Duration::from_millis(1), 512)?;
/// wheel.insert(10, 'a');
/// assert_eq!(wheel.drain().len(), 1);
/// # Ok::<(), tidegate_timer::wheel::WheelError>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it drops what was in the wheel"]
pub struct WheelDrain<T> {
    entries: vec::IntoIter<Expired<T>>,
}

impl<T> WheelDrain<T> {
    /// Sorts the entries by their deadlines; those with the same one keep their order.
    pub(super) fn new(mut entries: Vec<Expired<T>>) -> Self {
        let mut order = Vec::with_capacity(entries.len());
        for entry in &entries {
            order.push((entry.deadline, order.len()));
        }
        sort(&mut order);
        // Entry `at` has to come from place `from`, or from where a swap has moved it to.
        for at in 0..order.len() {
            let mut from = order[at].1;
            while from < at {
                from = order[from].1;
            }
            entries.swap(at, from);
            order[at].1 = from;
        }
        Self {
            entries: entries.into_iter(),
        }
    }
}

/// Sorts deadlines with their places. A function of its own, because a sort is compiled for each type.
fn sort(order: &mut [(u64, usize)]) {
    order.sort_unstable();
}

impl<T> Iterator for WheelDrain<T> {
    type Item = Expired<T>;

    fn next(&mut self) -> Option<Expired<T>> {
        self.entries.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<T> ExactSizeIterator for WheelDrain<T> {}

impl<T> FusedIterator for WheelDrain<T> {}
